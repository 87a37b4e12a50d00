//! How the targets of a config fare: the circuit breakers, as the data plane of the node that answers has them.

use super::scopes::READ;
use crate::change::Action;
use crate::problem::Problem;
use crate::resource::{Resource as _, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::config::breaker::BreakerStatus;
use gateway_domain::resource::config::SavedConfig;
use gateway_domain::time::Timestamp;
use http::Method;
use serde_json::{Value, json};
use std::iter::repeat;

pub(super) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/configs/{id}/circuit-breakers";
    let tells = "Show the targets of a config that have a circuit breaker, as this node has them";
    vec![authed(Method::GET, ALL, READ, tells, list).asks(&["workspace_id"])]
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<SavedConfig>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let now_ms = call.app.now().micros() / 1000;
    let snapshot = call.app.live.snapshot();
    let workspace = row.workspace.and_then(|w| snapshot.workspace(w));
    let saved = workspace.and_then(|w| w.config(&row.slug));
    let states = saved.map(|saved| call.app.status.breakers(saved, now_ms)).unwrap_or_default();
    let guarded = saved.iter().flat_map(|saved| saved.config.guarded());
    let data: Vec<Value> = guarded
        .zip(states.into_iter().chain(repeat(BreakerStatus::default())))
        .map(|(guarded, state)| {
            let open_until = state.open_until_ms.map(|ms| Timestamp(ms * 1000).to_string());
            json!({
                "object": "circuit-breaker", "target": &*guarded.path, "open_until": open_until,
                "state": if open_until.is_some() { "OPEN" } else { "CLOSED" },
                "requests": state.seen, "failures": state.failed, "times_opened": state.opened,
            })
        })
        .collect();
    Ok(AdminReply::json(SavedConfig::listed(data.len() as u64, data)))
}
