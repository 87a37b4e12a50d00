//! The output of a batch whose answers guardrails are judging, put in the place of the gateway's own by whoever judges
//! them elsewhere. Knows no batch: the port does.

use crate::problem::{Problem, bad, conflict, internal, missing, not_built};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::ports::{NewOutput, OutputStays};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;

pub(crate) fn routes() -> Vec<AdminRoute> {
    // Whoever may make a batch may complete it, and so may a service that tells what became of calls.
    const WRITE: &[Scope] = &[Scope::named("completions.write"), Scope::named("logs.write")];
    vec![
        authed(Method::PUT, "/batches/{id}", WRITE, "Replace the output of a batch that is being judged", replace)
            .takes::<ReplacedOutput>()
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplacedOutput {
    /// Needed, which is said when there is such a batch.
    #[serde(default)]
    internal_output_file_id: Option<String>,
}

async fn replace(call: AdminCall) -> Result<AdminReply, Problem> {
    let workspace = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let ReplacedOutput { internal_output_file_id: file } = call.body()?.read()?;
    let Some(outputs) = &call.app.batch_outputs else {
        return Err(not_built(call.method.as_str(), call.route.path));
    };
    let new = NewOutput { workspace, batch: call.var("id"), file: file.as_deref().unwrap_or_default() };
    outputs.replace_output(new).await.map(AdminReply::json).map_err(|stays| match stays {
        OutputStays::NoBatch => missing("batch"),
        OutputStays::NoFile => bad("internal_output_file_id", "must be the id of a file that the gateway keeps for this workspace"),
        OutputStays::NotJudged(status) => conflict(format!(
            "The output of a batch is replaced while its answers are judged (processing_post_request_guardrails); this one is {status}"
        )),
        OutputStays::Store(why) => internal(why),
    })
}
