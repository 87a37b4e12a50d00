//! Guardrails of tool calls: the defaults of workspace and organisation judge the texts of a call's arguments before it
//! goes up, and those of its result before the client sees it. A denial is a result, which a model can read.

use crate::clock;
use crate::guardrails::{HookNotes, TargetGuards};
use crate::proxy::exchange::CallParts;
use crate::proxy::hooks::{moderator, room, unknown};
use crate::proxy::record::CapturePolicy;
use crate::proxy::request::{DefaultGuardrail, Request};
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, Operation};
use gateway_guardrails::{Content, Direction, Facts, Guardrail, Judged, Run, Shape, Timing, Verdict};
use gateway_mcp::RawObject;
use gateway_mcp::texts::{TextVisit, each_of_result, each_value};
use serde_json::{Value, json};
use std::sync::Arc;

/// What judges one call, and what it has said so far.
pub(in crate::proxy) struct ToolGuard {
    guards: TargetGuards,
    pub(in crate::proxy) notes: Box<HookNotes>,
}

/// Finds texts in JSON, and puts others in their place.
pub(in crate::proxy) type TextWalk = fn(&str, TextVisit<'_>) -> Option<String>;

/// What becomes of what was judged.
pub(in crate::proxy) enum GuardedText {
    Same,
    /// Its texts were rewritten.
    Other(String),
    Denied,
}

/// What is called, for checks that ask.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct GuardedTool<'a> {
    pub(in crate::proxy) server: &'a str,
    pub(in crate::proxy) tool: &'a str,
    pub(in crate::proxy) operation: Operation,
    pub(in crate::proxy) streams: bool,
}

impl ToolGuard {
    /// `None`: nothing judges the calls of this caller.
    pub(in crate::proxy) async fn of(
        calls: &CallParts,
        request: &Request,
        called: GuardedTool<'_>,
    ) -> Result<Option<Self>, Fault> {
        let Some(defaults) = request.caller.tenant.guardrails.as_deref() else { return Ok(None) };
        let input = compiled(calls, request, &defaults.input).await?;
        let output = compiled(calls, request, &defaults.output).await?;
        if input.is_empty() && output.is_empty() {
            return Ok(None);
        }
        let facts = Facts {
            request_type: called.operation.name().to_owned(),
            streams: called.streams,
            provider: called.server.to_owned(),
            model: called.tool.to_owned(),
            asked_model: called.tool.to_owned(),
            metadata: request.caller.metadata.clone(),
            headers: http::HeaderMap::new(),
            trace_id: request.caller.trace.to_string(),
        };
        let guards = TargetGuards {
            input,
            output,
            digest: Vec::new(),
            shape: Shape::Chat,
            facts: Arc::new(facts),
            request: None,
            request_is_transformed: false,
            moderator: moderator(request).map(Arc::new),
            room: room(&calls.delivery.budget, request),
        };
        let with_data = request.caller.keep != CapturePolicy::Nothing;
        Ok(Some(Self { guards, notes: Box::new(HookNotes { with_data, ..HookNotes::default() }) }))
    }

    /// The call's arguments, before anybody hears of them.
    pub(in crate::proxy) async fn judge_arguments(&mut self, calls: &CallParts, arguments: &str) -> GuardedText {
        self.judge_asked(calls, arguments, each_value).await
    }

    /// The texts that `walk` finds in what is asked.
    pub(in crate::proxy) async fn judge_asked(
        &mut self,
        calls: &CallParts,
        arguments: &str,
        walk: TextWalk,
    ) -> GuardedText {
        let texts = collected(|visit| walk(arguments, visit));
        let body = asked(&texts);
        let content = Content::new(body, Shape::Chat, Direction::Input);
        self.guards.request = Some(content.clone());
        let said = self.judge(calls, content, Direction::Input).await;
        if said.verdict == Verdict::Deny {
            return GuardedText::Denied;
        }
        let Some(rewritten) = said.rewritten else { return GuardedText::Same };
        self.guards.request = Some(rewritten.clone());
        self.guards.request_is_transformed = true;
        let other = texts_of(rewritten.body(), "/messages/0/content");
        replaced(&texts, &other, |visit| walk(arguments, visit))
    }

    /// What the tool says, before the client hears of it.
    pub(in crate::proxy) async fn judge_result(&mut self, calls: &CallParts, result: &str) -> GuardedText {
        self.judge_answered(calls, result, each_of_result).await
    }

    /// The texts that `walk` finds in what is answered.
    pub(in crate::proxy) async fn judge_answered(
        &mut self,
        calls: &CallParts,
        result: &str,
        walk: TextWalk,
    ) -> GuardedText {
        if self.guards.output.is_empty() {
            return GuardedText::Same;
        }
        let texts = collected(|visit| walk(result, visit));
        let choices: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(n, text)| json!({"index": n, "message": {"role": "assistant", "content": text}}))
            .collect();
        let body: Bytes = json!({"choices": choices}).to_string().into();
        let content = Content::new(body, Shape::Chat, Direction::Output);
        let said = self.judge(calls, content, Direction::Output).await;
        if said.verdict == Verdict::Deny {
            return GuardedText::Denied;
        }
        let Some(rewritten) = said.rewritten else { return GuardedText::Same };
        let body: Value = serde_json::from_slice(rewritten.body()).unwrap_or_default();
        let all = body["choices"].as_array().into_iter().flatten();
        let other: Vec<String> =
            all.map(|choice| choice["message"]["content"].as_str().unwrap_or_default().to_owned()).collect();
        replaced(&texts, &other, |visit| walk(result, visit))
    }

    async fn judge(&mut self, calls: &CallParts, content: Content, side: Direction) -> Judged {
        let (subject, list) = match side {
            Direction::Input => (self.guards.asking(content), &self.guards.input),
            Direction::Output => (self.guards.answering(content.body().clone(), Shape::Chat), &self.guards.output),
        };
        if let Some(beside) = calls.guardrails.judge_beside(&self.guards, side, subject.clone()) {
            self.notes.beside.push(beside);
        }
        let run = Run::begin(list, subject, Timing::Sync, clock::now());
        let said = calls.guardrails.drive(run, self.guards.moderator.as_deref()).await;
        if list.iter().any(|guardrail| !guardrail.actions().is_async) {
            match side {
                Direction::Input => self.notes.note_input(&said),
                Direction::Output => self.notes.note_output(&said),
            }
        }
        said
    }

    /// Whether what is answered is judged at all.
    pub(in crate::proxy) const fn judges_answers(&self) -> bool {
        !self.guards.output.is_empty()
    }

    /// What was said so far, as clients of models are shown it: neither what was skipped nor what runs beside.
    pub(in crate::proxy) fn results(&self) -> Value {
        let shown = gateway_guardrails::denial(Dialect::OpenAi, &self.notes.results);
        let shown: Value = serde_json::from_slice(&shown).unwrap_or_default();
        shown["hook_results"].clone()
    }

    /// The result that a denied call gives in place of its own.
    pub(in crate::proxy) fn denial(&self) -> String {
        let results = self.results();
        json!({
            "content": [{"type": "text", "text": "The call was denied by a guardrail."}], "isError": true,
            "_meta": {"gateway/hook_results": results},
        })
        .to_string()
    }
}

async fn compiled(
    calls: &CallParts,
    request: &Request,
    list: &[DefaultGuardrail],
) -> Result<Vec<Arc<Guardrail>>, Fault> {
    let mut out: Vec<Arc<Guardrail>> = Vec::new();
    for default in list {
        let saved = default.saved.as_ref().ok_or_else(|| unknown(&default.slug))?;
        let guardrail = calls.guardrails.of_saved(saved, &request.caller.tenant.org).await?;
        if !out.iter().any(|known| Arc::ptr_eq(known, &guardrail)) {
            out.push(guardrail);
        }
    }
    Ok(out)
}

/// A message of a user whose parts are these texts, which is how checks look at what goes in.
fn asked(texts: &[String]) -> Bytes {
    let parts: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"messages": [{"role": "user", "content": parts}]}).to_string().into()
}

fn collected(walk: impl FnOnce(TextVisit<'_>) -> Option<String>) -> Vec<String> {
    let mut all = Vec::new();
    walk(&mut |text| {
        all.push(text.to_owned());
        None
    });
    all
}

fn texts_of(body: &[u8], pointer: &str) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let parts = body.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    parts.map(|part| part["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Puts texts back where others were taken. Where they do not fit together nothing may pass: nobody can say what was meant.
fn replaced(before: &[String], after: &[String], walk: impl FnOnce(TextVisit<'_>) -> Option<String>) -> GuardedText {
    if before.len() != after.len() {
        return GuardedText::Denied;
    }
    let mut at = 0;
    let other = walk(&mut |_| {
        let (old, new) = (before.get(at), after.get(at));
        at += 1;
        new.filter(|new| old != Some(new)).cloned()
    });
    other.map_or(GuardedText::Same, GuardedText::Other)
}

/// The result of a message with another in its place.
pub(in crate::proxy) fn with_result(envelope: &str, result: &str) -> String {
    let Ok(mut object) = RawObject::parse(envelope) else { return envelope.to_owned() };
    object.set("result", result);
    object.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_back_to_where_they_stood() {
        let json = r#"{"a":"one","b":[1.50,"two"]}"#;
        let before = collected(|visit| each_value(json, visit));
        assert_eq!(before, ["one", "two"]);
        let body = asked(&before);
        assert_eq!(texts_of(&body, "/messages/0/content"), before);
        let after = ["one".to_owned(), "***".to_owned()];
        let GuardedText::Other(other) = replaced(&before, &after, |visit| each_value(json, visit)) else {
            panic!("changed");
        };
        assert_eq!(other, r#"{"a":"one","b":[1.50,"***"]}"#);
        assert!(matches!(replaced(&before, &after[..1], |visit| each_value(json, visit)), GuardedText::Denied));
        assert!(matches!(replaced(&before, &before, |visit| each_value(json, visit)), GuardedText::Same));
    }
}
