//! Saved configs: a routing document under a `pc-` slug, with a version for each state it had.
//! Credentials in it are sealed here and masked on every way out; what it means is the domain's business.

mod breakers;
mod declared;
mod document;
mod explain;
mod hooks;
mod scopes;
mod secrets;
mod versions;

use super::{NewRow, Resource, ResourceRow, Slug, delete, edit_with, get, insert_with, list};
use crate::change::WriteView;
use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad, bad_config, conflict};
use crate::route::{AdminCall, AdminReply, AdminRoute, SEARCHED, authed};
use document::document;
use gateway_domain::config::{ConfigProblem as Broken, Context, compile, managed_slugs, prompt_names};
use gateway_domain::id::{ConfigId, KeyId, WorkspaceId};
use gateway_domain::resource::config::SavedConfig;
use gateway_domain::resource::prompt::split_version;
use gateway_domain::resource::{Kind, Stored, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::WorkspaceEntry;
use http::Method;
use scopes::{READ, UPDATE};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("configs.list")];
    const CREATE: &[Scope] = &[Scope::named("configs.create")];
    const DELETE: &[Scope] = &[Scope::named("configs.delete")];
    const ONE: &str = "/configs/{id}";
    let own = vec![
        authed(Method::GET, "/configs", LIST, "List the configs of a workspace", list::<SavedConfig>).asks(SEARCHED),
        authed(Method::POST, "/configs", CREATE, "Save a config", create).takes::<NewConfig>().and(&["workspace_id"]),
        authed(Method::GET, ONE, READ, "Show a config by slug or id", get::<SavedConfig>).asks(&["workspace_id"]),
        authed(Method::PUT, ONE, UPDATE, "Change a config; a new document is a new version", update)
            .takes::<ConfigPatch>()
            .and(&["workspace_id"])
            .asks(&["workspace_id"]),
        authed(Method::DELETE, ONE, DELETE, "Delete a config that nothing defaults to", delete::<SavedConfig>)
            .asks(&["workspace_id"]),
    ];
    own.into_iter().chain(versions::routes()).chain(breakers::routes()).chain(explain::routes()).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConfig {
    name: String,
    config: Value,
    #[serde(default, rename = "isDefault", alias = "is_default")]
    is_default: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    config: Edit<Value>,
    #[serde(default, rename = "isDefault", alias = "is_default")]
    is_default: Edit<Flag>,
    #[serde(default)]
    status: Edit<String>,
}

impl Resource for SavedConfig {
    const KIND: Kind = Kind::Config;
    const NOUN: &'static str = "config";
    const LATER: &'static [&'static str] = &[];
    type Create = NewConfig;
    type Patch = ConfigPatch;

    fn create(input: NewConfig, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let config = secrets::seal(document(input.config)?, None, &*call.app.vault)?;
        let author = Some(call.actor.key.0);
        let is_default = input.is_default.0;
        let doc = Self { config, is_default, version_id: call.app.id(), updated_by: author, rest: Map::new() };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, author, doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::Derived(format!("pc-{}", call.app.tail::<8>())) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: ConfigPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Some(config) = input.config.required("config")? {
            row.doc.config = secrets::seal(document(config)?, Some(&row.doc.config), &*call.app.vault)?;
            row.doc.version_id = call.app.id();
        }
        if input.status.required("status")?.is_some_and(|s| s != "active") {
            return Err(bad("status", "must be active; delete the config to take it out of use"));
        }
        if let Some(flag) = input.is_default.or_default() {
            row.doc.is_default = flag.0;
        }
        row.doc.updated_by = Some(call.actor.key.0);
        Ok(())
    }

    /// Compiles the document and follows every `@slug` and guardrail, so that all problems come in one answer.
    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let workspace = around.workspace(row.workspace)?;
        let (held, most) = (workspace.configs().len(), around.app.quotas.configs);
        if row.is_one_too_many(held, workspace.config(&row.id.to_string()).is_some(), most) {
            return Err(conflict(format!("the workspace has {held} configs, and may have {most}")));
        }
        let known = |slug: &str| around.app.catalog.provider(slug).is_some();
        let open = |sealed: &str| if sealed.is_empty() { None } else { around.app.vault.open(sealed).ok() };
        let context = Context { known_provider: &known, trusted: &around.app.trusted, open: &open, saved: true };
        let compiled = compile(&row.doc.config, &context).map_err(|problems| bad_config(&problems))?;
        let named = managed_slugs(&compiled);
        let dangling = named.into_iter().filter(|named| workspace.provider(&named.slug).is_none());
        let mut problems: Vec<Broken> = dangling
            .map(|named| Broken {
                path: named.path,
                message: format!("`@{}` is not a provider of this workspace", named.slug),
            })
            .collect();
        problems.extend(prompt_names(&compiled).into_iter().filter_map(|named| {
            let (bare, version) = split_version(&named.slug);
            let shelf = around.snapshot.shelf_of(workspace);
            let message = match shelf.prompt(bare).filter(|prompt| prompt.active) {
                None => format!("`{bare}` is not a prompt of this workspace"),
                Some(prompt) => {
                    let there = shelf.at(prompt.home)?;
                    let found = prompt.editions.named(version, |label| there.label(label));
                    found
                        .is_none()
                        .then(|| format!("`{}` names no version of the prompt that is in force", named.slug))?
                }
            };
            Some(Broken { path: named.path, message })
        }));
        problems.extend(hooks::problems(&compiled, workspace, around));
        if problems.is_empty() { Ok(()) } else { Err(bad_config(&problems)) }
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let id = row.id.to_string();
        let meant = |name: &str| name == row.slug || name == id;
        let defaults = around
            .snapshot
            .keys()
            .filter(|k| k.workspace == row.workspace)
            .filter(|k| k.defaults.as_ref().and_then(|d| d.config.as_deref()).is_some_and(meant));
        let users: Vec<String> = defaults.take(10).map(|k| format!("`{}` ({})", k.name, KeyId(k.id.0))).collect();
        let workspace = row.workspace.and_then(|w| around.snapshot.workspace(w));
        if workspace.and_then(|w| w.default_config()).is_some_and(|c| c.id.0 == row.id) {
            return Err(conflict("the config is the default of its workspace: set isDefault to 0 first"));
        }
        let default = workspace.and_then(|w| w.user_key_config);
        if default.is_some_and(|c| c.0 == row.id) {
            return Err(conflict("the config is the user_api_key_config of its workspace"));
        }
        if users.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the config is the default of the API keys {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut view = row.common("config");
        view.insert("config".into(), secrets::masked(&row.doc.config, &*call.app.vault));
        view.insert("is_default".into(), u8::from(row.doc.is_default).into());
        view.insert("owner_id".into(), json!(row.owner));
        view.insert("updated_by".into(), json!(row.doc.updated_by));
        view.insert("format".into(), "json".into());
        view.insert("type".into(), "config".into());
        view.insert("version_id".into(), json!(row.doc.version_id));
        Value::Object(view)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.config(slug).is_some()
    }

    fn mask(body: &mut Map<String, Value>) {
        if let Some(config) = body.get_mut("config") {
            let read = document(config.take()).unwrap_or_default();
            *config = secrets::blank(read);
        }
    }

    fn version_id(&self) -> Option<Uuid> {
        Some(self.version_id)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        both(json!({"id": row.id, "slug": row.slug, "version_id": row.doc.version_id}))
    }

    fn updated(row: &ResourceRow<Self>) -> Value {
        both(json!({"id": row.id, "slug": row.slug, "version_id": row.doc.version_id}))
    }

    fn shown(view: Value) -> Value {
        both(view)
    }

    fn listed(total: u64, data: Vec<Value>) -> Value {
        json!({"success": true, "object": "list", "total": total, "data": data})
    }
}

/// Two forms are documented, flat and enveloped: one body that satisfies both.
fn both(mut flat: Value) -> Value {
    flat["data"] = flat.clone();
    flat["success"] = Value::Bool(true);
    flat
}

/// A workspace has one default at most: who becomes it takes its place.
struct PreviousDefault(Option<ResourceRow<SavedConfig>>);

impl PreviousDefault {
    /// Who holds it now, where the body asks for it.
    async fn of(call: &AdminCall, body: &JsonBody) -> Result<Self, Problem> {
        let asked = ["isDefault", "is_default"].iter().any(|f| body.0.get(*f).is_some_and(|v| !v.is_null()));
        let named = body.0.get("workspace_id").and_then(Value::as_str).or_else(|| call.query.text("workspace_id"));
        let snapshot = call.snapshot();
        let home = match Uuid::parse_str(call.var("id")) {
            // A config found by its id may be in any workspace.
            Ok(id) => snapshot.workspaces().find(|w| w.config(&id.to_string()).is_some()).map(|w| w.id),
            Err(_) => call.actor.home(&snapshot, named).ok(),
        };
        let holder = home.and_then(|w| snapshot.workspace(w)).and_then(|w| w.default_config()).map(|c| c.id);
        let Some(holder) = holder.filter(|_| asked) else { return Ok(Self(None)) };
        let found = call.app.directory.get(Kind::Config, call.actor.org, None, &holder.to_string()).await?;
        Ok(Self(found.as_ref().map(ResourceRow::read).transpose()?))
    }

    fn leave(
        self,
        new: &ResourceRow<SavedConfig>,
        around: &WriteView<'_>,
        call: &AdminCall,
    ) -> Result<Vec<Stored>, Problem> {
        let holder = around.workspace(new.workspace)?.default_config().map(|c| c.id);
        let Some(holder) = holder.filter(|h| new.doc.is_default && *h != ConfigId(new.id)) else {
            return Ok(Vec::new());
        };
        let known = self.0.filter(|row| row.id == holder.0);
        let mut old = around.newest(known.ok_or_else(|| conflict("the default was changed meanwhile: try again"))?)?;
        old.doc.is_default = false;
        old.touch(call.now);
        Ok(vec![old.stored()?])
    }
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let place = PreviousDefault::of(&call, &body).await?;
    let along = |row: &ResourceRow<SavedConfig>, around: &WriteView<'_>| place.leave(row, around, &call);
    let (row, revision) = insert_with(&call, body, along).await?;
    Ok(AdminReply::json(SavedConfig::created(&row)).at(revision))
}

async fn update(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let place = PreviousDefault::of(&call, &body).await?;
    let along = |row: &ResourceRow<SavedConfig>, around: &WriteView<'_>| place.leave(row, around, &call);
    let (row, revision) = edit_with(&call, body, along).await?;
    Ok(AdminReply::json(SavedConfig::updated(&row)).at(revision))
}

/// Saved configs of a workspace that ask a prompt, by its slug or its id.
pub(crate) fn asking(workspace: &WorkspaceEntry, slug: &str, id: &str) -> Vec<String> {
    let asks = |c: &&Arc<gateway_domain::snapshot::ConfigEntry>| {
        prompt_names(&c.config).iter().map(|named| split_version(&named.slug).0).any(|name| name == slug || name == id)
    };
    workspace.configs().filter(asks).take(10).map(|c| format!("`{}`", c.slug)).collect()
}

/// Saved configs of a workspace that name a managed provider, by its slug or its id.
pub(crate) fn naming(workspace: &WorkspaceEntry, slug: &str, id: &str) -> Vec<String> {
    let names = |c: &&Arc<gateway_domain::snapshot::ConfigEntry>| {
        managed_slugs(&c.config).iter().any(|named| *named.slug == *slug || *named.slug == *id)
    };
    workspace.configs().filter(names).take(10).map(|c| format!("`{}`", c.slug)).collect()
}
