//! One declaration of a document, whatever it declares: how a stored row becomes one, and how one becomes a row. What
//! is asked of a kind is asked here, of its type; the table of kinds is made of these answers.

use super::difference::{FieldChange, StoredDeclaration, differences};
use crate::actor::Actor;
use crate::change::{Action, WriteView};
use crate::problem::{Problem, forbidden};
use crate::resource::ResourceRow;
use crate::resource::declared::names::DeclaredNames;
use crate::resource::declared::secrets::{self, Filling, SecretValues, fill, spot};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring};
use crate::route::AdminCall;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::{Kind, Stored, StoredVersion};
use gateway_domain::scope::Scope;
use gateway_domain::secret::MASK;
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A kind, its type forgotten.
pub(super) struct Portable {
    pub(super) kind: Kind,
    pub(super) section: &'static str,
    pub(super) level: DeclaredLevel,
    /// The field that tells one from the others; empty where several tell it.
    pub(super) slug: &'static str,
    pub(super) is_named: bool,
    pub(super) states: &'static [&'static str],
    pub(super) declare: fn(&Stored, &Declarer<'_>) -> Result<StoredDeclaration, Problem>,
    pub(super) assume: fn(NamedItem, &Planning<'_>) -> Result<Assumed, Problem>,
    pub(super) check_unused: fn(&Stored, &WriteView<'_>) -> Result<(), Problem>,
    pub(super) tombstone: fn(&Stored, Timestamp) -> Result<Stored, Problem>,
    /// Whether whoever asks may do this to such a row.
    pub(super) allow: fn(&Stored, &Actor, Action) -> Result<(), Problem>,
}

impl Portable {
    pub(super) const fn is_single(&self) -> bool {
        matches!(self.level, DeclaredLevel::Only)
    }
}

/// What an item is called in messages and reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemName {
    pub(super) workspace: String,
    pub(super) name: String,
}

impl ItemName {
    pub(super) fn of(kind: &Portable, fields: &Map<String, Value>) -> Self {
        let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = if kind.slug.is_empty() { text("name") } else { text(kind.slug) };
        Self { workspace: text("workspace"), name }
    }

    /// `default/pc-a`.
    pub(super) fn shown(&self) -> String {
        if self.workspace.is_empty() { self.name.clone() } else { format!("{}/{}", self.workspace, self.name) }
    }
}

/// A declaration, and what it is about.
pub(super) struct NamedItem {
    pub(super) kind: &'static Portable,
    pub(super) name: ItemName,
    pub(super) id: Uuid,
    pub(super) before: Option<Stored>,
    pub(super) workspace: Option<WorkspaceId>,
    pub(super) slug: String,
    pub(super) title: String,
    pub(super) status: String,
    pub(super) fields: Map<String, Value>,
}

impl NamedItem {
    /// `configs default/pc-a`, for messages.
    pub(super) fn at(&self) -> String {
        format!("{} {}", self.kind.section, self.name.shown())
    }
}

/// A problem of one declaration says which.
pub(super) fn within(at: &str, mut problem: Problem) -> Problem {
    problem.message = format!("{at}: {}", problem.message);
    problem
}

/// What rows are told with.
pub(super) struct Declarer<'a> {
    pub(super) call: &'a AdminCall,
    pub(super) names: &'a DeclaredNames,
}

pub(super) fn declare<R: Declared>(stored: &Stored, with: &Declarer<'_>) -> Result<StoredDeclaration, Problem> {
    declare_row(&ResourceRow::<R>::read(stored)?, with)
}

pub(super) fn declare_row<R: Declared>(
    row: &ResourceRow<R>,
    with: &Declarer<'_>,
) -> Result<StoredDeclaration, Problem> {
    let mut to = Declaring { app: &with.call.app, names: with.names, shown: Vec::new() };
    let mut fields = Map::new();
    if let Some(workspace) = row.workspace.filter(|_| R::LEVEL != DeclaredLevel::Organisation) {
        fields.insert("workspace".to_owned(), with.names.name(workspace.0).into());
    }
    if !R::SLUG.is_empty() && R::LEVEL != DeclaredLevel::Only {
        let slug = if R::KIND == Kind::Member { with.names.name(row.id) } else { row.slug.clone() };
        fields.insert(R::SLUG.to_owned(), slug.into());
    }
    if R::NAMED && !row.name.is_empty() {
        fields.insert("name".to_owned(), row.name.as_str().into());
    }
    if R::STATES.contains(&row.status.as_str()) {
        fields.insert("status".to_owned(), row.status.as_str().into());
    }
    fields.extend(R::declare(row, &mut to)?);
    Ok(StoredDeclaration { fields, shown: to.shown })
}

/// What declarations are read with.
pub(super) struct Planning<'a> {
    pub(super) call: &'a AdminCall,
    pub(super) names: &'a DeclaredNames,
    pub(super) secrets: &'a SecretValues,
    pub(super) by_operator: bool,
    pub(super) made: &'a RefCell<BTreeMap<Uuid, String>>,
    pub(super) missing: &'a RefCell<BTreeSet<String>>,
}

type LateCheck = Box<dyn FnOnce(&WriteView<'_>) -> Result<(), Problem> + Send>;

/// A row that is to be written.
pub(super) struct PlannedRow {
    pub(super) kind: &'static Portable,
    pub(super) name: ItemName,
    pub(super) stored: Stored,
    pub(super) versions: Vec<StoredVersion>,
    pub(super) action: Action,
    /// The declaration's fields for the audit trail, with secrets blotted out.
    pub(super) told: Map<String, Value>,
    pub(super) changes: Vec<FieldChange>,
    pub(super) check: LateCheck,
}

/// What becomes of one declaration.
pub(super) enum Assumed {
    /// It is as it is stored.
    Same,
    /// Nothing stands for some of its secrets.
    Unknown {
        name: ItemName,
        kind: &'static Portable,
        action: Action,
    },
    Planned(Box<PlannedRow>),
}

pub(super) fn assume<R: Declared>(mut item: NamedItem, from: &Planning<'_>) -> Result<Assumed, Problem> {
    let with = Declarer { call: from.call, names: from.names };
    let stored = item.before.as_ref().map(ResourceRow::<R>::read).transpose()?;
    let told_before = stored.as_ref().map(|row| declare_row(row, &with)).transpose()?;
    let before = told_before.as_ref().map(|told| secrets::StoredFields { fields: &told.fields, shown: &told.shown });
    let how = Filling { values: from.secrets, within: R::SECRETS, before, bound: R::SECRETS_ARE_BOUND };
    let missing = fill(&mut item.fields, &how);
    let action = if stored.is_some() { Action::Update } else { Action::Create };
    if !missing.is_empty() {
        from.missing.borrow_mut().extend(missing);
        return Ok(Assumed::Unknown { name: item.name, kind: item.kind, action });
    }
    let assuming = Assuming { call: from.call, names: from.names, by_operator: from.by_operator, made: from.made };
    let declaration = Declaration {
        id: item.id,
        fields: std::mem::take(&mut item.fields),
        workspace: item.workspace,
        slug: std::mem::take(&mut item.slug),
        name: std::mem::take(&mut item.title),
        before: stored.clone(),
    };
    let mut row = R::assume(declaration, &assuming)?;
    row.id = item.id;
    row.status = item.status;
    row.owner = row.owner.filter(|_| !from.by_operator);
    let (name, kind) = (item.name, item.kind);
    let told = declare_row(&row, &with)?;
    if told_before.as_ref() == Some(&told) {
        return Ok(Assumed::Same);
    }
    if let Some(stored) = &stored {
        row = row.over(stored);
    }
    let versions = R::history(&row, stored.as_ref())?;
    let changes = differences(told_before.as_ref(), &told);
    let made = row.stored()?;
    let check: LateCheck = Box::new(move |around| R::verify(&row, around));
    let planned = PlannedRow { kind, name, stored: made, versions, action, told: blotted(told), changes, check };
    Ok(Assumed::Planned(Box::new(planned)))
}

fn blotted(told: StoredDeclaration) -> Map<String, Value> {
    let StoredDeclaration { mut fields, shown } = told;
    for one in shown {
        if let Some(place) = spot(&mut fields, &one.path) {
            *place = MASK.into();
        }
    }
    fields
}

pub(super) fn check_unused<R: Declared>(stored: &Stored, after: &WriteView<'_>) -> Result<(), Problem> {
    R::check_unused(&ResourceRow::read(stored)?, after)
}

pub(super) fn tombstone_of<R: Declared>(stored: &Stored, now: Timestamp) -> Result<Stored, Problem> {
    ResourceRow::<R>::read(stored)?.tombstone(now)
}

/// Whether a key may do this to such a row, by its scopes and by the rules of its kind.
pub(super) fn allow<R: Declared>(row: &Stored, actor: &Actor, action: Action) -> Result<(), Problem> {
    R::allow(&ResourceRow::read(row)?, actor, action)?;
    let Some(resource) = R::SCOPES else { return Ok(()) };
    let instead = if action == Action::Read { "list" } else { "update" };
    let named = [action.name(), instead].iter().find_map(|action| Scope::parse(&format!("{resource}.{action}")));
    let scope = named.ok_or_else(|| forbidden(format!("no scope lets a key do this to {resource}")))?;
    if actor.may(scope) { Ok(()) } else { Err(forbidden(format!("this takes the scope {}", scope.name()))) }
}
