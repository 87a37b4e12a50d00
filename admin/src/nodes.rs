//! The nodes that share this configuration, live or lately silent. Of the installation, not of a tenant: for
//! Admin keys of the organisation that runs it only.

use crate::app::ProcessSetting;
use crate::problem::{Problem, forbidden};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::node::SeenNode;
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const READ: &[Scope] = &[Scope::named("organisation_settings.read")];
    vec![
        authed(Method::GET, "/nodes", READ, "List the nodes that share this configuration", list),
        authed(Method::GET, "/nodes/settings", READ, "List the settings of the node that answers", settings),
    ]
}

/// Not to those who are guests on it.
fn require_first(call: &AdminCall) -> Result<(), Problem> {
    if call.snapshot().is_first(call.actor.org) {
        return Ok(());
    }
    Err(forbidden("the nodes are shown to the organisation of the first start only"))
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    require_first(&call)?;
    let nodes = call.app.roster.nodes().await?;
    let data: Vec<Value> = nodes.iter().map(view).collect();
    Ok(AdminReply::json(json!({"object": "list", "total": data.len(), "data": data})))
}

async fn settings(call: AdminCall) -> Result<AdminReply, Problem> {
    require_first(&call)?;
    let shown = |s: &ProcessSetting| json!({"object": "setting", "name": s.name, "value": s.value, "source": s.source});
    let data: Vec<Value> = call.app.settings.iter().map(shown).collect();
    Ok(AdminReply::json(json!({"object": "list", "total": data.len(), "data": data})))
}

fn view(seen: &SeenNode) -> Value {
    json!({
        "object": "node",
        "id": seen.node.id,
        "role": seen.node.role,
        "deployment": Some(&seen.node.deployment).filter(|slug| !slug.is_empty()),
        "version": seen.node.version,
        "revision": seen.node.revision,
        "lag": seen.lag,
        "status": if seen.is_live() { "live" } else { "silent" },
        "started_at": seen.node.started_at,
        "last_seen_at": seen.seen_at,
    })
}
