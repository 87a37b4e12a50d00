//! Callers that were not let in, in the audit trail of the organisation that they named: a key of it that is over, a
//! token that none of its issuers vouches for. Who named none has no trail; metrics and the access log tell of them.

use crate::app::App;
use crate::change::commit;
use gateway_domain::denied_caller::TurnedAway;
use gateway_domain::ports::Batch;
use gateway_domain::resource::{Audit, Kind};
use serde_json::json;

/// Writes one row each, all in one write. Callers without an organisation are left out.
pub async fn audit_turned_away(app: &App, callers: &[TurnedAway]) {
    let audit: Vec<Audit> = callers.iter().filter_map(|caller| row(app, caller)).collect();
    if audit.is_empty() {
        return;
    }
    let batch = Batch { audit, ..Batch::default() };
    let seen = app.live.snapshot().revision;
    if let Err(problem) = commit(app, seen, |_| Ok(batch)).await {
        tracing::warn!(message = problem.message, "refused callers are not in the audit trail");
    }
}

fn row(app: &App, caller: &TurnedAway) -> Option<Audit> {
    let stranger = &caller.stranger;
    let org = stranger.org?;
    let key = stranger.key.map_or_else(String::new, |key| key.to_string());
    let id = app.id();
    Some(Audit {
        id,
        at: caller.at,
        org: org.0,
        workspace: stranger.workspace.map(|workspace| workspace.0),
        actor: key.clone(),
        api_key: key.clone(),
        actor_kind: "api_key".to_owned(),
        action: "authenticate".to_owned(),
        resource_kind: Kind::ApiKey.name().to_owned(),
        resource_id: key,
        method: caller.method.clone(),
        uri: caller.path.clone(),
        client_ip: caller.client.map_or_else(String::new, |client| client.to_string()),
        status: caller.status,
        details: json!({"request_id": id, "refused": caller.message, "reason": stranger.why.label()}).to_string(),
    })
}
