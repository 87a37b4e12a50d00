//! References to secrets that lie in managers of the organisation's own. What signs in there is sealed and masked; what
//! is read from there is never shown. Which integrations are filled from one is said by those
//! (`integration/mappings.rs`).

mod auth;
mod declared;

use super::provider::check_count;
use super::{NewRow, Resource, ResourceRow, Slug, collect, create, delete, get, searched, update};
use crate::change::WriteView;
use crate::input::Edit;
use crate::problem::{Problem, bad, conflict};
use crate::resource::provider::slug_of;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{SecretReferenceId, WorkspaceId};
use gateway_domain::resource::secret_reference::SecretReference;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::secret_source::SecretManager;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const USUAL_PAGE: u64 = 20;
const MOST_PAGE: u64 = 100;
const MOST_WORKSPACES: usize = 1_000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("secret_references.list")];
    const CREATE: &[Scope] = &[Scope::named("secret_references.create")];
    const READ: &[Scope] = &[Scope::named("secret_references.read")];
    const UPDATE: &[Scope] = &[Scope::named("secret_references.update")];
    const DELETE: &[Scope] = &[Scope::named("secret_references.delete")];
    const ALL: &str = "/secret-references";
    const ONE: &str = "/secret-references/{id}";
    vec![
        authed(Method::GET, ALL, LIST, "List references to secrets of managers", list).asks(&[
            "manager_type",
            "tags",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Refer to a secret of a manager", create::<SecretReference>)
            .takes::<NewReference>()
            .and(&["organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a reference, and how its secret stands", get::<SecretReference>),
        authed(Method::PUT, ONE, UPDATE, "Change a reference", update::<SecretReference>).takes::<ReferencePatch>(),
        authed(Method::DELETE, ONE, DELETE, "Delete a reference that no integration uses", delete::<SecretReference>),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReference {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    manager_type: String,
    #[serde(default)]
    auth_config: Map<String, Value>,
    secret_path: String,
    secret_key: Option<String>,
    allow_all_workspaces: Option<bool>,
    allowed_workspaces: Option<Vec<String>>,
    tags: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferencePatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    auth_config: Edit<Map<String, Value>>,
    #[serde(default)]
    secret_path: Edit<String>,
    #[serde(default)]
    secret_key: Edit<String>,
    #[serde(default)]
    allow_all_workspaces: Edit<bool>,
    #[serde(default)]
    allowed_workspaces: Edit<Vec<String>>,
    #[serde(default)]
    tags: Edit<BTreeMap<String, String>>,
}

impl Resource for SecretReference {
    const KIND: Kind = Kind::SecretReference;
    const NOUN: &'static str = "secret reference";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewReference;
    type Patch = ReferencePatch;

    fn create(input: NewReference, _home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let manager = SecretManager::parse(&input.manager_type).ok_or_else(unknown_manager)?;
        let mut doc = Self {
            manager,
            description: input.description,
            fields: BTreeMap::new(),
            secrets: BTreeMap::new(),
            secret_path: input.secret_path,
            secret_key: input.secret_key,
            workspaces: workspaces(input.allow_all_workspaces, input.allowed_workspaces, call)?,
            tags: input.tags.unwrap_or_default(),
            rest: Map::new(),
        };
        auth::merge(&mut doc, input.auth_config, call)?;
        check(&doc, call)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
        let derived = || Slug::Derived(slug_of(&input.name, "secret"));
        let slug = Slug::given("slug", input.slug)?.unwrap_or_else(derived);
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: ReferencePatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        input.description.onto(&mut row.doc.description);
        if let Some(path) = input.secret_path.required("secret_path")? {
            row.doc.secret_path = path;
        }
        input.secret_key.onto(&mut row.doc.secret_key);
        if let Some(given) = input.auth_config.required("auth_config")? {
            auth::merge(&mut row.doc, given, call)?;
        }
        let all = input.allow_all_workspaces.required("allow_all_workspaces")?;
        let listed = input.allowed_workspaces.required("allowed_workspaces")?;
        match (all, &listed) {
            (None, None) => {}
            // What is said again of a list that stands is no change of it.
            (Some(false), None) if row.doc.workspaces.is_some() => {}
            _ => row.doc.workspaces = workspaces(all, listed, call)?,
        }
        if let Some(tags) = input.tags.or_default() {
            row.doc.tags = tags;
        }
        check(&row.doc, call)
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let most = around.app.quotas.secret_references;
        let held = around.snapshot.secret_references().filter(|reference| reference.org == row.org).count();
        let holds = around.snapshot.secret_reference(SecretReferenceId(row.id)).is_some();
        if row.is_one_too_many(held, holds, most) {
            return Err(conflict(format!("the organisation has {held} secret references and may have {most}")));
        }
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let id = SecretReferenceId(row.id);
        let users = around.snapshot.upstreams().filter(|upstream| upstream.uses(id)).map(|upstream| &*upstream.slug);
        let servers = around.snapshot.mcp_upstreams().filter(|upstream| upstream.uses(id));
        let agents = around.snapshot.agent_upstreams().filter(|upstream| upstream.uses(id));
        let outside = servers.map(|upstream| &*upstream.slug).chain(agents.map(|upstream| &*upstream.slug));
        let mut users: Vec<&str> = users.chain(outside).collect();
        if users.is_empty() {
            return Ok(());
        }
        users.sort_unstable();
        users.truncate(10);
        Err(conflict(format!("these integrations are filled from the secret reference: {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let doc = &row.doc;
        let mut view = brief(row);
        let more = json!({
            "description": doc.description,
            "secret_path": doc.secret_path,
            "secret_key": doc.secret_key,
            "allow_all_workspaces": doc.workspaces.is_none(),
            "allowed_workspaces": doc.workspaces.iter().flatten().collect::<Vec<_>>(),
            "tags": doc.tags,
            "auth_config": auth::shown(doc, call),
            "created_by": row.owner,
            "resolution": resolution(row, call),
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn home(_named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        None
    }

    fn mask(body: &mut Map<String, Value>) {
        auth::blank(body);
    }

    fn forget(&mut self) {
        self.fields.clear();
        self.secrets.clear();
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({ "id": row.id, "slug": row.slug, "object": "secret-reference" })
    }
}

fn unknown_manager() -> Problem {
    let names: Vec<&str> = SecretManager::ALL.iter().map(|manager| manager.name()).collect();
    bad("manager_type", format_args!("must be one of {}", names.join(", ")))
}

fn brief(row: &ResourceRow<SecretReference>) -> Map<String, Value> {
    let mut view = row.common("secret-reference");
    view.shift_remove("workspace_id");
    view.insert("status".into(), "ACTIVE".into());
    view.insert("manager_type".into(), row.doc.manager.name().into());
    view
}

/// How its secret stands on the node that answers; null where that reads none.
fn resolution(row: &ResourceRow<SecretReference>, call: &AdminCall) -> Value {
    let Some(standings) = &call.app.secrets else { return Value::Null };
    let standing = standings.standing(SecretReferenceId(row.id)).unwrap_or_default();
    json!({
        "state": standing.state(),
        "read_at": standing.read_at,
        "changed_at": standing.changed_at,
        "error": standing.trouble,
    })
}

/// Everything that needs no look at other rows.
fn check(doc: &SecretReference, call: &AdminCall) -> Result<(), Problem> {
    if doc.description.as_ref().is_some_and(|text| text.chars().count() > 1024) {
        return Err(bad("description", "must be at most 1024 characters"));
    }
    if doc.secret_key.as_ref().is_some_and(|key| key.is_empty() || key.chars().count() > 255) {
        return Err(bad("secret_key", "must be of 1..255 characters"));
    }
    check_count("tags", doc.tags.len())?;
    for (key, value) in &doc.tags {
        check_name("tags", key)?;
        if value.chars().count() > 255 {
            return Err(bad(format_args!("tags.{key}"), "must be at most 255 characters"));
        }
    }
    auth::check(doc, call)
}

/// The workspaces whose integrations may use it; `None`: all. A list alone closes it to all others; a list together
/// with all would say nothing.
fn workspaces(
    all: Option<bool>,
    listed: Option<Vec<String>>,
    call: &AdminCall,
) -> Result<Option<BTreeSet<WorkspaceId>>, Problem> {
    const FIELD: &str = "allowed_workspaces";
    let listed = match (all, listed) {
        (None | Some(true), None) => return Ok(None),
        (Some(false), None) => return Err(bad(FIELD, "is required, since not all workspaces are allowed")),
        (Some(true), Some(_)) => return Err(bad(FIELD, "must not be given where all workspaces are allowed")),
        (_, Some(listed)) => listed,
    };
    if listed.is_empty() || listed.len() > MOST_WORKSPACES {
        return Err(bad(FIELD, format_args!("must name 1..{MOST_WORKSPACES} workspaces")));
    }
    let snapshot = call.snapshot();
    let find = |(at, name): (usize, &String)| {
        let found = call.actor.named(&snapshot, Some(name)).ok().flatten();
        found.ok_or_else(|| bad(format_args!("{FIELD}[{at}]"), "names no workspace of this organisation"))
    };
    listed.iter().enumerate().map(find).collect::<Result<_, _>>().map(Some)
}

/// The store knows neither managers nor tags, and references are few.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let managers: Vec<&str> = SecretManager::ALL.iter().map(|manager| manager.name()).collect();
    let manager = call.query.one_of("manager_type", &managers)?.and_then(SecretManager::parse);
    let tags: BTreeMap<String, String> = match call.query.text("tags") {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text).map_err(|_| bad("tags", "must be a JSON object of texts"))?,
    };
    let mut paging = call.query.paging_by("current_page", "page_size", MOST_PAGE)?;
    if call.query.text("page_size").is_none() {
        paging.size = USUAL_PAGE;
    }
    let mut rows = collect::<SecretReference>(&call, searched::<SecretReference>(&call, Some(None))).await?;
    rows.retain(|row| manager.is_none_or(|manager| row.doc.manager == manager));
    rows.retain(|row| tags.iter().all(|(key, value)| row.doc.tags.get(key) == Some(value)));
    let start = usize::try_from(paging.page.saturating_mul(paging.size)).unwrap_or(usize::MAX);
    let page = rows.iter().skip(start).take(usize::try_from(paging.size).unwrap_or(usize::MAX));
    let data = page.map(|row| Value::Object(brief(row))).collect();
    Ok(AdminReply::json(SecretReference::listed(rows.len() as u64, data)))
}
