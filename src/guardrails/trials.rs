//! A saved guardrail tried on something that an admin brings, without a call to a model. So many run at a time.

use super::Guardrails;
use crate::clock;
use crate::live::Live;
use gateway_domain::ports::{Fut, GuardrailTrial, GuardrailTrials, Live as _, TrialError, TrialSubject};
use gateway_guardrails::{Content, Direction, Facts, Run, Shape, Subject, Timing};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

const AT_ONCE: usize = 32;

pub(crate) struct Trials {
    guardrails: Arc<Guardrails>,
    live: Arc<Live>,
    seats: Semaphore,
}

impl Trials {
    pub(crate) fn new(guardrails: Arc<Guardrails>, live: Arc<Live>) -> Self {
        Self { guardrails, live, seats: Semaphore::new(AT_ONCE) }
    }

    async fn one(&self, trial: &GuardrailTrial) -> Result<Value, TrialError> {
        let _seat = self.seats.try_acquire().map_err(|_| TrialError::Busy)?;
        let unfit = |why: &str| TrialError::Unfit(why.to_owned());
        let snapshot = self.live.snapshot();
        let org = snapshot.org(trial.org).ok_or_else(|| unfit("belongs to no organisation"))?;
        let guardrail = self.guardrails.of_saved(&trial.guardrail, org).await;
        let guardrail = guardrail.map_err(|fault| unfit(fault.message()))?;
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

fn subject(trial: &GuardrailTrial) -> Subject {
    let input = |body: &Value, shape| Content::new(body.to_string().into(), shape, Direction::Input);
    let output = |body: &Value, shape| Content::new(body.to_string().into(), shape, Direction::Output);
    let (content, request) = match &trial.subject {
        TrialSubject::InputText(text) => {
            (input(&json!({"messages": [{"role": "user", "content": text}]}), Shape::Chat), None)
        }
        TrialSubject::Request(body) => (input(&Value::Object(body.clone()), asked(body)), None),
        TrialSubject::OutputText(text) => {
            let message = json!({"role": "assistant", "content": text});
            (output(&json!({"choices": [{"index": 0, "message": message}]}), Shape::Chat), None)
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
    Subject { content, request, request_is_transformed: false, status, facts: Arc::new(facts) }
}

fn asked(body: &Map<String, Value>) -> Shape {
    let has = |key: &str| body.contains_key(key);
    match () {
        () if has("messages") && has("system") => Shape::Messages,
        () if has("messages") => Shape::Chat,
        () if has("prompt") => Shape::Completions,
        () if has("input") => Shape::Responses,
        () => Shape::Unknown,
    }
}

fn answered(body: &Map<String, Value>) -> Shape {
    let has = |key: &str| body.contains_key(key);
    match () {
        () if has("choices") => Shape::Chat,
        () if has("content") => Shape::Messages,
        () if has("output") => Shape::Responses,
        () => Shape::Unknown,
    }
}

const fn request_type(shape: Shape) -> &'static str {
    match shape {
        Shape::Messages => "messages",
        Shape::Completions => "complete",
        Shape::Responses => "createModelResponse",
        Shape::Embeddings => "embed",
        Shape::Chat => "chatComplete",
        Shape::Unknown | Shape::Opaque => "proxy",
    }
}
