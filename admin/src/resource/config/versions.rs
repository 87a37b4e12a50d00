//! What a config was: its versions, what changed between two of them, and the way back to one. Going back makes
//! a new version, held to the same checks as any other; nothing of the history is lost.

use super::document::document;
use super::scopes::{READ, UPDATE};
use super::secrets;
use crate::change::{Action, WriteView, audit};
use crate::difference::compare;
use crate::problem::{Problem, bad, internal, missing};
use crate::resource::versions::{VersionWanted, pick, versions};
use crate::resource::{Resource as _, ResourceRow, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::ports::Batch;
use gateway_domain::resource::config::SavedConfig;
use gateway_domain::resource::{Kind, StoredVersion};
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("configs.list")];
    const ALL: &str = "/configs/{id}/versions";
    const ONE: &str = "/configs/{id}/versions/{version}";
    const BACK: &str = "/configs/{id}/rollback";
    vec![
        authed(Method::GET, ALL, LIST, "List what a config was, newest first", list).asks(&[
            "workspace_id",
            "current_page",
            "page_size",
        ]),
        authed(Method::GET, ONE, READ, "Show a version of a config, by number or id", show).asks(&["workspace_id"]),
        authed(Method::GET, "/configs/{id}/diff", READ, "Tell two versions of a config apart", diff).asks(&[
            "workspace_id",
            "from",
            "to",
        ]),
        authed(Method::POST, BACK, UPDATE, "Make a config what it was: a new version like an old one", back)
            .takes::<VersionWanted>()
            .and(&["workspace_id"])
            .asks(&["workspace_id"]),
    ]
}

fn read(version: &StoredVersion) -> Result<SavedConfig, Problem> {
    serde_json::from_str(&version.doc).map_err(internal)
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let row = locate::<SavedConfig>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, Kind::Config, row.id).await?;
    let data: Vec<Value> = paging.cut(&versions).iter().map(|v| view(&row, v, &call)).collect::<Result<_, _>>()?;
    Ok(AdminReply::json(SavedConfig::listed(versions.len() as u64, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<SavedConfig>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, Kind::Config, row.id).await?;
    let found = pick(&versions, call.var("version")).ok_or_else(|| missing("version"))?;
    Ok(AdminReply::json(SavedConfig::shown(view(&row, found, &call)?)))
}

/// A version as lists show it: the document is text there.
fn view(row: &ResourceRow<SavedConfig>, version: &StoredVersion, call: &AdminCall) -> Result<Value, Problem> {
    let doc = read(version)?;
    let was = ResourceRow { updated_at: version.created_at, version: version.version, doc, ..row.clone() };
    let mut view = SavedConfig::view(&was, call);
    view["config"] = Value::String(view["config"].to_string());
    view["version"] = version.version.into();
    Ok(view)
}

/// `from`: by default the version before `to`, which by default is the newest.
async fn diff(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<SavedConfig>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, Kind::Config, row.id).await?;
    let named = |field: &'static str| {
        let Some(name) = call.query.text(field) else { return Ok(None) };
        pick(&versions, name).map(Some).ok_or_else(|| bad(field, "names no version of this config"))
    };
    let to = named("to")?.or(versions.first()).ok_or_else(|| missing("version"))?;
    let before = versions.iter().find(|v| v.version < to.version);
    let from = named("from")?.or(before).unwrap_or(to);
    let (old, new) = (read(from)?.config, read(to)?.config);
    let vault = &*call.app.vault;
    let mut changes = Vec::new();
    compare("", &secrets::masked(&old, vault), &secrets::masked(&new, vault), &mut changes);
    let told =
        |v: &StoredVersion| json!({"version": v.version, "version_id": v.version_id, "created_at": v.created_at});
    Ok(AdminReply::json(json!({
        "object": "diff",
        "from": told(from),
        "to": told(to),
        "changes": changes,
        // Masks may look alike where what they stand for differs.
        "credentials_changed": secrets::opened(&old, vault) != secrets::opened(&new, vault),
    })))
}

async fn back(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let mut body = call.body()?;
    let told: Map<String, Value> = body.0.clone();
    let given = body.take_text("workspace_id")?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<SavedConfig>(&call, given, Action::Update).await?;
    let name = body.read::<VersionWanted>()?.name()?;
    let versions = versions(&call, Kind::Config, row.id).await?;
    let found = pick(&versions, &name).ok_or_else(|| bad("version", "names no version of this config"))?;
    let config = document(read(found)?.config)?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        row.doc.config = config;
        row.doc.version_id = call.app.id();
        row.doc.updated_by = Some(call.actor.key.0);
        SavedConfig::check(&row, around)?;
        row.touch(call.now);
        let (stored, versions) = (row.stored()?, row.version(call.actor.key.0)?);
        let audit = vec![audit(&call, Action::Update, &stored, &told)];
        call.promise(|| SavedConfig::updated(&row));
        done = Some(row);
        Ok(Batch { rows: vec![stored], versions, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    let row = done.ok_or_else(|| missing(SavedConfig::NOUN))?;
    Ok(AdminReply::json(SavedConfig::updated(&row)).at(revision))
}
