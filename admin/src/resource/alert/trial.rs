//! A message that somebody sends to see whether it arrives: through every channel of a rule, at once, and without a
//! second try. It counts as no alert: the cool-down goes by what was told in earnest.

use crate::alerts::{MessageTrial, try_channels};
use crate::change::{Action, audit};
use crate::problem::Problem;
use crate::resource::locate;
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::ports::Batch;
use gateway_domain::resource::alert::AlertRule;
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Vec<AdminRoute> {
    const UPDATE: &[Scope] = &[Scope::named("policies.update")];
    const TEST: &str = "/alerts/{id}/test";
    vec![authed(Method::POST, TEST, UPDATE, "Send a message of a rule to see whether it arrives", send).asks(HERE)]
}

async fn send(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<AlertRule>(&call, call.query.text("workspace_id"), Action::Update).await?;
    // Told before anything leaves: who tries what is sent where is known, also where it does not arrive.
    let request = Map::from_iter([("test".to_owned(), Value::Bool(true))]);
    let audit = vec![audit(&call, Action::Warn, &row.stored()?, &request)];
    call.commit(call.snapshot().revision, |_| Ok(Batch { audit, ..Batch::default() })).await?;
    let trial = MessageTrial { rule: row.id, name: &row.name, org: row.org, workspace: row.workspace, doc: &row.doc };
    let told = try_channels(&call.app, &trial).await;
    let data: Vec<Value> = told
        .into_iter()
        .map(|(channel, outcome)| match outcome {
            Ok(()) => json!({"type": channel, "status": "sent", "error": null}),
            Err(why) => json!({"type": channel, "status": "failed", "error": why}),
        })
        .collect();
    Ok(AdminReply::json(json!({"object": "alert-test", "channels": data})))
}
