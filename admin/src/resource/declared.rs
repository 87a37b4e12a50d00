//! What a resource says of itself in a file that holds the configuration of an organisation, and how it comes back from
//! there. A declaration has the names of the Admin API and says everything: what it leaves out has its default. Ids,
//! times of changes and what the gateway learnt by itself are not in it. How files are read and applied is not known
//! here.

pub(crate) mod editions;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod secrets;

use super::{NewRow, Resource, ResourceRow};
use crate::app::App;
use crate::change::WriteView;
use crate::input::JsonBody;
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::{Kind, StoredVersion};
use names::DeclaredNames;
use secrets::ShownSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Where things of a kind lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredLevel {
    /// There is one, which is the organisation itself.
    Only,
    Organisation,
    /// Some of the organisation, some of a workspace.
    Either,
    Workspace,
}

pub(crate) trait Declared: Resource {
    /// The list of a file that it stands in.
    const SECTION: &'static str;
    /// `configs` of the scope `configs.create`; `None`: its own rules say who may what.
    const SCOPES: Option<&'static str> = None;
    /// States that a file may give it, beside `active`.
    const STATES: &'static [&'static str] = &[];
    /// Fields in which `${GATEWAY_SECRET_…}` stands for a secret.
    const SECRETS: &'static [&'static str] = &[];
    /// A secret that is not given stays only where what stands around it stays.
    const SECRETS_ARE_BOUND: bool = false;
    /// The field that tells it from others of its kind.
    const SLUG: &'static str = "slug";
    /// Whether it has a name beside that.
    const NAMED: bool = true;
    const LEVEL: DeclaredLevel = DeclaredLevel::Workspace;

    /// All but its place, slug, name and status.
    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem>;

    /// What a declaration asks for, as a new row; where one is stored, what is no configuration comes from there.
    fn assume(item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem>;

    /// States of it that the history does not have yet.
    fn history(row: &ResourceRow<Self>, before: Option<&ResourceRow<Self>>) -> Result<Vec<StoredVersion>, Problem> {
        let known = before.and_then(|row| row.doc.version_id());
        if row.doc.version_id() == known {
            return Ok(Vec::new());
        }
        row.version(row.owner.unwrap_or_default())
    }

    /// Everything that it refers to is there, once all of the file is.
    fn verify(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        Self::check(row, around)
    }
}

/// One declaration on its way to becoming a row.
pub(crate) struct Declaration<R> {
    /// What it is called by everything that names it.
    pub(crate) id: Uuid,
    pub(crate) fields: Map<String, Value>,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) before: Option<ResourceRow<R>>,
}

/// What declarations are written with.
pub(crate) struct Declaring<'a> {
    pub(crate) app: &'a App,
    pub(crate) names: &'a DeclaredNames,
    /// The secrets of this one, in the order in which they stand.
    pub(crate) shown: Vec<ShownSecret>,
}

/// What they are read with. `call` knows everything that stands in the file before.
pub(crate) struct Assuming<'a> {
    pub(crate) call: &'a AdminCall,
    pub(crate) names: &'a DeclaredNames,
    /// The document is read on the machine itself, by the operator, and not over the Admin API.
    pub(crate) by_operator: bool,
    /// Secrets of keys that were made because the file has none.
    pub(crate) made: &'a RefCell<BTreeMap<Uuid, String>>,
}

impl Declaring<'_> {
    pub(crate) fn open(&self, sealed: &str) -> Result<String, Problem> {
        let plain = self.app.vault.open(sealed);
        Ok(plain.map_err(|why| bad("secret", format_args!("cannot be opened: {why}")))?.expose().clone())
    }

    /// Notes a secret, and gives what stands in its place. `path`: the fields that lead to it.
    pub(crate) fn secret(&mut self, path: &[&str], plain: String) -> Value {
        self.shown.push(ShownSecret { path: path.iter().map(|part| (*part).to_owned()).collect(), plain });
        // The name is put in once it is known that no other secret has it.
        Value::String(String::new())
    }

    pub(crate) fn sealed(&mut self, path: &[&str], sealed: &str) -> Result<Value, Problem> {
        let plain = self.open(sealed)?;
        Ok(self.secret(path, plain))
    }
}

impl Assuming<'_> {
    /// What a name stands for, in a workspace or for all.
    pub(crate) fn find(&self, kind: Kind, home: Option<WorkspaceId>, field: &str, name: &str) -> Result<Uuid, Problem> {
        let found = self.names.find(kind, home, name);
        found.ok_or_else(|| bad(field, format_args!("names `{name}`, which is neither in the file nor stored")))
    }
}

impl<R: Declared> Declaration<R> {
    /// The row that the Admin API would make of the fields, with the name among them where it is read there.
    pub(crate) fn create(&mut self, call: &AdminCall, named: bool) -> Result<ResourceRow<R>, Problem> {
        let mut fields = std::mem::take(&mut self.fields);
        if named {
            fields.insert("name".to_owned(), self.name.as_str().into());
        }
        let NewRow { mut row, .. } = R::create(JsonBody(fields).read()?, self.workspace, call)?;
        row.slug.clone_from(&self.slug);
        row.name.clone_from(&self.name);
        Ok(row)
    }

    /// Refuses what nobody has taken.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(field) => Err(bad(field, "is not a known field")),
        }
    }
}

/// Puts a field where it says something: null, false and what is empty is left out.
pub(crate) fn put<T: Serialize>(fields: &mut Map<String, Value>, name: &str, value: T) {
    let value = json!(value);
    let says = match &value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(inner) => !inner.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    if says {
        fields.insert(name.to_owned(), value);
    }
}

/// Puts a field where there is one, be it empty.
pub(crate) fn put_some<T: Serialize>(fields: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), json!(value));
    }
}

/// Takes a field out and reads it; null is as good as absent.
pub(crate) fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, Problem> {
    match fields.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let one = Map::from_iter([(name.to_owned(), value)]);
            let mut read: BTreeMap<String, T> = JsonBody(one).read()?;
            Ok(read.remove(name))
        }
    }
}
