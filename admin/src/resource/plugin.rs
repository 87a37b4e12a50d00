//! Credentials of the services whose checks guardrails use: one set for each partner of the organisation. Secrets are
//! sealed and masked; a change that would stop a guardrail from running is refused.

mod declared;

use super::{NewRow, Resource, ResourceRow, Slug, delete, get, insert, searched, update, views};
use crate::change::WriteView;
use crate::input::Edit;
use crate::problem::{Problem, bad, conflict, missing};
use crate::resource::guardrail::broken_with;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::ResourceQuery;
use gateway_domain::resource::Kind;
use gateway_domain::resource::plugin::Plugin;
use gateway_domain::scope::Scope;
use gateway_domain::secret::{MASK, mask};
use gateway_guardrails::partners::{CredentialField, credential_fields, namespaces};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("plugins.list")];
    const CREATE: &[Scope] = &[Scope::named("plugins.create")];
    const UPDATE: &[Scope] = &[Scope::named("plugins.update")];
    const ALL: &str = "/plugins";
    const ONE: &str = "/plugins/{id}";
    vec![
        authed(Method::GET, ALL, LIST, "List the partners whose credentials are saved", list).asks(&[
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Save the credentials of a partner", create)
            .takes::<NewPlugin>()
            .and(&["organisation_id"]),
        authed(Method::GET, ONE, LIST, "Show the credentials of a partner, masked", get::<Plugin>),
        authed(Method::PUT, ONE, UPDATE, "Change credentials of a partner", update::<Plugin>).takes::<PluginPatch>(),
        authed(Method::DELETE, ONE, UPDATE, "Delete credentials that no guardrail needs", delete::<Plugin>),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPlugin {
    /// The namespace of its checks.
    partner: String,
    credentials: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginPatch {
    #[serde(default)]
    credentials: Edit<BTreeMap<String, Value>>,
}

impl Resource for Plugin {
    const KIND: Kind = Kind::Plugin;
    const NOUN: &'static str = "plugin";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewPlugin;
    type Patch = PluginPatch;

    fn create(input: NewPlugin, _home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        let partner = input.partner.to_ascii_lowercase();
        let mut doc =
            Self { partner: partner.clone(), fields: BTreeMap::new(), secrets: BTreeMap::new(), rest: Map::new() };
        merge(&mut doc, input.credentials, call)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
        row.name.clone_from(&partner);
        Ok(NewRow { row, slug: Slug::Given(partner) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: PluginPatch, call: &AdminCall) -> Result<(), Problem> {
        match input.credentials {
            Edit::Keep => Ok(()),
            Edit::Clear => Err(bad("credentials", "must not be null: delete the plugin instead")),
            Edit::Set(given) => merge(&mut row.doc, given, call),
        }
    }

    /// What ran with the credentials before runs with these.
    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        if row.is_new() { Ok(()) } else { refuse_broken(row, &around.plus(&[row.stored()?])?) }
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        refuse_broken(row, &around.plus(&[row.clone().tombstone(row.updated_at)?])?)
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let shown =
            |sealed: &String| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |s| mask(s.expose()));
        let open = row.doc.fields.iter().map(|(name, value)| (name.clone(), value.clone()));
        let masked = row.doc.secrets.iter().map(|(name, sealed)| (name.clone(), shown(sealed)));
        let credentials: BTreeMap<String, String> = open.chain(masked).collect();
        let mut view = row.common("plugin");
        view.shift_remove("workspace_id");
        view.insert("partner".into(), row.doc.partner.as_str().into());
        view.insert("credentials".into(), json!(credentials));
        view.insert("owner_id".into(), json!(row.owner));
        Value::Object(view)
    }

    fn home(_named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        None
    }

    fn mask(body: &mut Map<String, Value>) {
        if let Some(Value::Object(credentials)) = body.get_mut("credentials") {
            credentials.values_mut().filter(|value| !value.is_null()).for_each(|value| *value = MASK.into());
        }
    }

    fn forget(&mut self) {
        self.fields.clear();
        self.secrets.clear();
    }
}

fn refuse_broken(row: &ResourceRow<Plugin>, after: &WriteView<'_>) -> Result<(), Problem> {
    let org = after.snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
    let mut broken = broken_with(&after.snapshot, org, &row.doc.partner, &after.app.trusted);
    if broken.is_empty() {
        return Ok(());
    }
    broken.truncate(10);
    Err(conflict(format!("these would not run any more: {}", broken.join(", "))))
}

/// Puts what was given over what is stored: absent keeps, null and an empty text clear, the mask of the stored one
/// keeps.
fn merge(doc: &mut Plugin, given: BTreeMap<String, Value>, call: &AdminCall) -> Result<(), Problem> {
    let known = credential_fields(&doc.partner).filter(|fields| !fields.is_empty()).ok_or_else(|| {
        let with_fields = |name: &&'static str| credential_fields(name).is_some_and(|fields| !fields.is_empty());
        let names: Vec<&str> = namespaces().into_iter().filter(with_fields).collect();
        bad("partner", format_args!("must be one of: {}", names.join(", ")))
    })?;
    for (name, value) in given {
        let path = format!("credentials.{name}");
        let field = known.iter().find(|f| f.name == name);
        let field = field.ok_or_else(|| bad(&path, format_args!("is no credential of `{}`", doc.partner)))?;
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return Err(bad(&path, "must be a string")),
        };
        set(doc, field, text, call)?;
    }
    let there = |f: &&CredentialField| doc.fields.contains_key(f.name) || doc.secrets.contains_key(f.name);
    match known.iter().find(|f| f.is_required && !there(f)) {
        None => Ok(()),
        Some(field) => Err(bad(format_args!("credentials.{}", field.name), "is required")),
    }
}

fn set(doc: &mut Plugin, field: &CredentialField, text: String, call: &AdminCall) -> Result<(), Problem> {
    if text.is_empty() {
        doc.fields.remove(field.name);
        doc.secrets.remove(field.name);
        return Ok(());
    }
    let path = format!("credentials.{}", field.name);
    if !field.is_secret {
        field.check(&text, &call.app.trusted).map_err(|rule| bad(&path, rule))?;
        doc.fields.insert(field.name.to_owned(), text);
        return Ok(());
    }
    if text.starts_with(MASK) {
        let stored = doc.secrets.get(field.name).and_then(|sealed| call.app.vault.open(sealed).ok());
        let same = stored.is_some_and(|plain| mask(plain.expose()) == text);
        return if same { Ok(()) } else { Err(bad(&path, "is a masked value that stands for no stored one")) };
    }
    field.check(&text, &call.app.trusted).map_err(|rule| bad(&path, rule))?;
    doc.secrets.insert(field.name.to_owned(), call.app.vault.seal(&text));
    Ok(())
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    if body.0.contains_key("workspace_id") {
        return Err(bad("workspace_id", "is not a known field"));
    }
    let (row, revision) = insert::<Plugin>(&call, body).await?;
    Ok(AdminReply::json(Plugin::created(&row)).at(revision))
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let query = ResourceQuery { page: paging.page, page_size: paging.size, ..searched::<Plugin>(&call, Some(None)) };
    let page = call.app.directory.list(&query).await?;
    let data = views::<Plugin>(&page.rows, &call).await?;
    Ok(AdminReply::json(Plugin::listed(page.total, data)))
}
