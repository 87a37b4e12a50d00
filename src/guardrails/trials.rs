//! A saved guardrail tried on something that an admin brings, without a call to a model. So many run at a time, and
//! each counts as a request of its key.

use super::Guardrails;
use crate::clock;
use crate::runtime_config::{ConfigHandle, RuntimeConfig};
use gateway_domain::counters::{Counters, LimitDecision};
use gateway_domain::ports::{Fut, GuardrailTrial, GuardrailTrials, Holder, TrialError, TrialSubject};
use gateway_guardrails::{BodyShape, Content, Direction, Facts, GuardrailSubject, Run, Timing};
use gateway_policies::{Estimate, LimitHolder, ReservationRequest, Stage, Subject as Caller};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const AT_ONCE: usize = 32;

pub(crate) struct Trials {
    guardrails: Arc<Guardrails>,
    live: Arc<ConfigHandle>,
    counters: Arc<dyn Counters>,
    seats: Semaphore,
}

impl Trials {
    pub(crate) fn new(guardrails: Arc<Guardrails>, live: Arc<ConfigHandle>, counters: Arc<dyn Counters>) -> Self {
        Self { guardrails, live, counters, seats: Semaphore::new(AT_ONCE) }
    }

    /// Asks the limits on requests of whoever tries it, as a call to a model would. It uses no tokens.
    async fn admit(&self, trial: &GuardrailTrial, world: &RuntimeConfig) -> Result<(), TrialError> {
        let (mut wants, now) = (ReservationRequest::default(), clock::now());
        let metadata: Vec<_> = trial.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let index = world.limits(trial.workspace);
        if let Some(index) = index {
            wants.gather(index, Stage::Caller, &asking(trial, &metadata), now);
        }
        if let Some(key) = world.snapshot.key_by_id(trial.key)
            && let Some(limits) = &key.limits
        {
            wants.bind(
                Stage::Caller,
                LimitHolder { holder: Holder::Key(key.id), kind: "API key", name: &key.name },
                limits,
                now,
            );
        }
        if let Some(workspace) = world.snapshot.workspace(trial.workspace)
            && let Some(limits) = &workspace.limits
        {
            wants.bind(
                Stage::Caller,
                LimitHolder { holder: Holder::Workspace(workspace.id), kind: "workspace", name: &workspace.name },
                limits,
                now,
            );
        }
        wants.only_requests();
        if wants.is_empty() {
            return Ok(());
        }
        let verdict = match self.counters.reserve(wants.asks(), now, Duration::ZERO) {
            LimitDecision::Now(verdict) => verdict,
            LimitDecision::Later(verdict) => verdict.await,
        };
        match verdict {
            Ok(()) => {
                wants.granted(Stage::Caller, &self.counters, Estimate::default()).count();
                Ok(())
            }
            Err(refusal) => {
                let denied = wants.denied(index.map(|index| &**index), refusal, now);
                Err(TrialError::Limited(denied.map_or_else(|| "a limit is reached".to_owned(), |d| d.to_string())))
            }
        }
    }

    async fn one(&self, trial: &GuardrailTrial) -> Result<Value, TrialError> {
        let _seat = self.seats.try_acquire().map_err(|_| TrialError::Busy)?;
        let unfit = |why: &str| TrialError::Unfit(why.to_owned());
        let world = self.live.current().clone();
        let org = world.snapshot.org(trial.org).ok_or_else(|| unfit("belongs to no organisation"))?;
        let guardrail = self.guardrails.of_saved(&trial.guardrail, org).await;
        let guardrail = guardrail.map_err(|fault| unfit(fault.message()))?;
        self.admit(trial, &world).await?;
        let timing = if guardrail.actions().is_async { Timing::Async } else { Timing::Sync };
        let run = Run::begin(&[guardrail], subject(trial), timing, clock::now());
        let judged = self.guardrails.drive(run, None).await;
        let result = judged.results.first().ok_or_else(|| unfit("gave no result"))?;
        serde_json::to_value(result).map_err(|_| unfit("gave a result that cannot be shown"))
    }
}

impl GuardrailTrials for Trials {
    fn run<'a>(&'a self, trial: &'a GuardrailTrial) -> Fut<'a, Result<Value, TrialError>> {
        Box::pin(self.one(trial))
    }
}

/// Whoever tries it, as policies see callers.
fn asking<'a>(trial: &'a GuardrailTrial, metadata: &'a [(String, String)]) -> Caller<'a> {
    Caller {
        api_key: Some(trial.key),
        workspace: trial.workspace,
        metadata,
        virtual_key: None,
        provider: None,
        config: None,
        prompt: None,
        model: None,
        endpoint_type: "guardrail",
        mcp_server: None,
        mcp_tool: None,
        unread: false,
    }
}

fn subject(trial: &GuardrailTrial) -> GuardrailSubject {
    let input = |body: &Value, shape| Content::new(body.to_string().into(), shape, Direction::Input);
    let output = |body: &Value, shape| Content::new(body.to_string().into(), shape, Direction::Output);
    let (content, request) = match &trial.subject {
        TrialSubject::InputText(text) => {
            (input(&json!({"messages": [{"role": "user", "content": text}]}), BodyShape::Chat), None)
        }
        TrialSubject::Request(body) => (input(&Value::Object(body.clone()), asked(body)), None),
        TrialSubject::OutputText(text) => {
            let message = json!({"role": "assistant", "content": text});
            (output(&json!({"choices": [{"index": 0, "message": message}]}), BodyShape::Chat), None)
        }
        TrialSubject::Response { response, request } => {
            let request = request.as_ref().map(|body| input(&Value::Object(body.clone()), asked(body)));
            (output(&Value::Object(response.clone()), answered(response)), request)
        }
    };
    let status = (content.direction() == Direction::Output).then_some(200);
    let facts = Facts {
        request_type: request_type(content.shape()).to_owned(),
        metadata: trial.metadata.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        trace_id: trial.trace_id.to_string(),
        ..Facts::default()
    };
    GuardrailSubject { content, request, request_is_transformed: false, status, facts: Arc::new(facts) }
}

fn asked(body: &Map<String, Value>) -> BodyShape {
    let has = |key: &str| body.contains_key(key);
    match () {
        () if has("messages") && has("system") => BodyShape::Messages,
        () if has("messages") => BodyShape::Chat,
        () if has("prompt") => BodyShape::Completions,
        () if has("input") => BodyShape::Responses,
        () => BodyShape::Unknown,
    }
}

fn answered(body: &Map<String, Value>) -> BodyShape {
    let has = |key: &str| body.contains_key(key);
    match () {
        () if has("choices") => BodyShape::Chat,
        () if has("content") => BodyShape::Messages,
        () if has("output") => BodyShape::Responses,
        () => BodyShape::Unknown,
    }
}

const fn request_type(shape: BodyShape) -> &'static str {
    match shape {
        BodyShape::Messages => "messages",
        BodyShape::Completions => "complete",
        BodyShape::Responses => "createModelResponse",
        BodyShape::Embeddings => "embed",
        BodyShape::Chat => "chatComplete",
        BodyShape::Area | BodyShape::Transcript | BodyShape::Unknown | BodyShape::Opaque => "proxy",
    }
}
