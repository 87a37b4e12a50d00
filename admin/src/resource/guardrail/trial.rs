//! A saved guardrail tried on a text, a request or an answer, without a call to a model. What runs it is elsewhere;
//! where nothing does, that is said.

use crate::problem::{Problem, bad, busy, limited, missing, not_built};
use crate::resource::Resource as _;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::metadata;
use gateway_domain::ports::{GuardrailTrial, TrialError, TrialSubject};
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

pub(super) fn routes() -> Vec<AdminRoute> {
    const INVOKE: &[Scope] = &[Scope::named("guardrails.invoke")];
    const HERE: &str = "/guardrails/{id}/invoke";
    vec![
        authed(Method::POST, HERE, INVOKE, "Let a guardrail judge a text, a request or an answer", run)
            .takes::<TrialBody>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialBody {
    hook: String,
    text: Option<String>,
    request: Option<Map<String, Value>>,
    response: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

impl TrialBody {
    fn subject(self) -> Result<TrialSubject, Problem> {
        const ONE: &str = "must be given alone: a text, a request or a response";
        let is_input = match self.hook.as_str() {
            "input" | "beforeRequestHook" | "before_request_hook" => true,
            "output" | "afterRequestHook" | "after_request_hook" => false,
            _ => return Err(bad("hook", "must be one of: input, output")),
        };
        match (self.text, self.request, self.response) {
            (Some(text), None, None) if is_input => Ok(TrialSubject::InputText(text)),
            (Some(text), None, None) => Ok(TrialSubject::OutputText(text)),
            (None, Some(request), None) if is_input => Ok(TrialSubject::Request(request)),
            (None, request, Some(response)) if !is_input => Ok(TrialSubject::Response { response, request }),
            (Some(_), _, _) => Err(bad("text", ONE)),
            (None, _, Some(_)) => Err(bad("response", "is judged by the hook output")),
            (None, Some(_), None) => Err(bad("response", "is required beside a request that it answers")),
            (None, None, None) if is_input => Err(bad("text", "is required, or else request")),
            (None, None, None) => Err(bad("text", "is required, or else response")),
        }
    }
}

async fn run(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let snapshot = call.snapshot();
    let home = call.actor.home(&snapshot, None)?;
    let workspace = snapshot.workspace(home).ok_or_else(|| missing("workspace"))?;
    let found = snapshot.guardrail(workspace, call.var("id"));
    let guardrail = found.ok_or_else(|| missing(GuardrailDocument::NOUN))?.clone();
    let mut asked: TrialBody = body.read()?;
    let metadata = asked.metadata.take().unwrap_or_default();
    let metadata = metadata::read(&metadata).map_err(|refused| bad("metadata", refused.rule()))?;
    let (metadata, subject) = (metadata.into_iter().collect(), asked.subject()?);
    let trials = call.app.trials.as_ref().ok_or_else(|| not_built(call.method.as_str(), call.route.path))?;
    let trace_id = call.request_id;
    let (org, key) = (call.actor.org, call.actor.key);
    let trial = GuardrailTrial { org, workspace: home, key, guardrail, subject, metadata, trace_id };
    let result = trials.run(&trial).await;
    result.map(AdminReply::json).map_err(|error| match error {
        TrialError::Unfit(why) => bad("guardrail", why),
        TrialError::Limited(why) => limited(why),
        TrialError::Busy => busy("too many guardrails run at the moment, try again"),
    })
}
