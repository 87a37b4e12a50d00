//! What tests of this crate share: guardrails from JSON, requests and answers, and runs that are answered by a closure.

use crate::definition::{self, CompileContext};
use crate::external_call::{CheckQuery, CheckReply, CheckRequest};
use crate::{
    BodyShape, Content, Direction, Facts, Guardrail, GuardrailSubject, HookResult, HookRunResult, Judged, Run, Timing,
};
use gateway_domain::Timestamp;
use gateway_domain::egress::Trusted;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const NOW: Timestamp = Timestamp(1_795_310_136_008_000);

pub(crate) fn compile(checks: &Value, actions: &Value) -> Result<Guardrail, Vec<crate::GuardrailProblem>> {
    let none = |_: &str| None;
    definition::saved("g", checks, actions, &CompileContext { credentials: &none, trusted: &Trusted::default() })
}

pub(crate) fn guardrail(checks: &Value, actions: &Value) -> Arc<Guardrail> {
    Arc::new(compile(checks, actions).unwrap_or_else(|p| panic!("{checks}: {p:?}")))
}

/// A guardrail of one check.
pub(crate) fn one(id: &str, parameters: &Value) -> Arc<Guardrail> {
    guardrail(&json!([{"id": id, "parameters": parameters}]), &json!({}))
}

pub(crate) fn request(body: &Value, shape: BodyShape) -> Content {
    Content::new(body.to_string().into(), shape, Direction::Input)
}

pub(crate) fn chat(text: &str) -> Content {
    request(&json!({"model": "m", "messages": [{"role": "user", "content": text}]}), BodyShape::Chat)
}

pub(crate) fn answer(body: &Value, shape: BodyShape) -> Content {
    Content::new(body.to_string().into(), shape, Direction::Output)
}

/// A chat completion with a choice for each text.
pub(crate) fn completion(texts: &[&str]) -> Content {
    let choice = |text: &&str| json!({"index": 0, "message": {"role": "assistant", "content": text}});
    answer(&json!({"id": "c", "choices": texts.iter().map(choice).collect::<Vec<_>>()}), BodyShape::Chat)
}

pub(crate) fn facts() -> Facts {
    Facts {
        request_type: "chatComplete".into(),
        provider: "openai".into(),
        model: "gpt-4o".into(),
        asked_model: "@team/gpt-4o".into(),
        metadata: vec![("user".into(), "ann".into()), ("team".into(), "red".into())],
        trace_id: "0123456789abcdef0123456789abcdef".into(),
        ..Facts::default()
    }
}

pub(crate) fn subject(content: Content) -> GuardrailSubject {
    let is_answer = content.direction() == Direction::Output;
    GuardrailSubject {
        request: is_answer.then(|| chat("what was asked")),
        status: is_answer.then_some(200),
        request_is_transformed: false,
        content,
        facts: Arc::new(facts()),
    }
}

/// Runs to the end; whatever is asked is answered by the closure.
pub(crate) fn run(
    guardrails: &[Arc<Guardrail>],
    subject: GuardrailSubject,
    reply: &dyn Fn(&CheckQuery) -> CheckReply,
) -> Judged {
    let mut run = Run::begin(guardrails, subject, Timing::Sync, NOW);
    let mut rounds = 0;
    while !run.is_done() {
        let asks = run.take_asks();
        assert!(!asks.is_empty(), "the run waits for nothing");
        for pending in asks {
            run.answer(pending.id, reply(&pending.ask), NOW);
        }
        rounds += 1;
        assert!(rounds < 100, "the run ends");
    }
    run.finish(NOW)
}

/// Runs what asks nothing.
pub(crate) fn judge(guardrails: &[Arc<Guardrail>], content: Content) -> Judged {
    run(guardrails, subject(content), &|ask| panic!("asked {ask:?}"))
}

pub(crate) fn reply(status: u16, body: &Value) -> CheckReply {
    CheckReply::Reply { status, body: body.to_string().into() }
}

pub(crate) fn outgoing(ask: &CheckQuery) -> &CheckRequest {
    match ask {
        CheckQuery::Call(outgoing) => outgoing,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn hook(judged: &Judged, at: usize) -> &HookRunResult {
    match &judged.results[at] {
        HookResult::Run(run) => run,
        skipped => panic!("{skipped:?}"),
    }
}

pub(crate) fn text_of(content: &Content) -> String {
    String::from_utf8(content.body().to_vec()).unwrap()
}
