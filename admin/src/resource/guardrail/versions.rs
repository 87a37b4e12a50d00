//! What a guardrail was: each state of its checks and actions, newest first.

use super::render::{render_actions, render_checks};
use super::scopes::LIST;
use crate::change::Action;
use crate::problem::{Problem, internal};
use crate::resource::versions::versions;
use crate::resource::{Resource as _, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, PAGES, authed};
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::resource::{Kind, StoredVersion};
use http::Method;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/guardrails/{id}/versions";
    vec![authed(Method::GET, ALL, LIST, "List what a guardrail was, newest first", list).asks(PAGES)]
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let row = locate::<GuardrailDocument>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, Kind::Guardrail, row.id).await?;
    let data: Vec<Value> = paging.cut(&versions).iter().map(view).collect::<Result<_, _>>()?;
    Ok(AdminReply::json(GuardrailDocument::listed(versions.len() as u64, data)))
}

fn view(version: &StoredVersion) -> Result<Value, Problem> {
    let doc: GuardrailDocument = serde_json::from_str(&version.doc).map_err(internal)?;
    Ok(json!({
        "object": "guardrail-version",
        "id": version.id,
        "version": version.version,
        "version_id": version.version_id,
        "updated_by": version.author,
        "created_at": version.created_at,
        "checks": render_checks(&doc.checks),
        "actions": render_actions(&doc.actions),
    }))
}
