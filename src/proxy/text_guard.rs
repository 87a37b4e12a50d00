//! The texts of calls that are no model's answers, judged by guardrails: tools, agents, realtime sessions. Somebody
//! else finds the texts in what is said; here they are laid out as guardrails read them, and put back where one rewrote
//! them. Knows no protocol.

use crate::clock;
use crate::guardrails::{Guardrails, HookNotes, TargetGuards};
use bytes::Bytes;
use gateway_domain::Dialect;
use gateway_guardrails::{BodyShape, Content, Direction, Judged, Run, Timing, Verdict};
use serde_json::{Value, json};

/// What judges, and what it has said so far.
pub(in crate::proxy) struct TextGuard {
    guards: TargetGuards,
    pub(in crate::proxy) notes: Box<HookNotes>,
}

/// Is given each text, and may put another in its place.
pub(in crate::proxy) type TextVisit<'v> = &'v mut dyn FnMut(&str) -> Option<String>;

/// Finds texts in JSON, and puts others in their place.
pub(in crate::proxy) type TextWalk = fn(&str, TextVisit<'_>) -> Option<String>;

/// What becomes of what was judged.
#[derive(Debug)]
pub(in crate::proxy) enum GuardedText {
    Same,
    /// Its texts were rewritten.
    Other(String),
    Denied,
}

impl TextGuard {
    /// `with_data`: what checks tell of the texts themselves may be kept.
    pub(in crate::proxy) fn new(guards: TargetGuards, with_data: bool) -> Self {
        Self { guards, notes: Box::new(HookNotes { with_data, ..HookNotes::default() }) }
    }

    /// The texts that `walk` finds in what is asked.
    pub(in crate::proxy) async fn judge_asked(
        &mut self,
        guardrails: &Guardrails,
        arguments: &str,
        walk: TextWalk,
    ) -> GuardedText {
        let texts = collected(|visit| walk(arguments, visit));
        let body = asked(&texts);
        let content = Content::new(body, BodyShape::Chat, Direction::Input);
        self.guards.request = Some(content.clone());
        let said = self.judge(guardrails, content, Direction::Input).await;
        if said.verdict == Verdict::Deny {
            return GuardedText::Denied;
        }
        let Some(rewritten) = said.rewritten else { return GuardedText::Same };
        self.guards.request = Some(rewritten.clone());
        self.guards.request_is_transformed = true;
        let other = texts_of(rewritten.body(), "/messages/0/content");
        replaced(&texts, &other, |visit| walk(arguments, visit))
    }

    /// The texts that `walk` finds in what is answered.
    pub(in crate::proxy) async fn judge_answered(
        &mut self,
        guardrails: &Guardrails,
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
        let content = Content::new(body, BodyShape::Chat, Direction::Output);
        let said = self.judge(guardrails, content, Direction::Output).await;
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

    async fn judge(&mut self, guardrails: &Guardrails, content: Content, side: Direction) -> Judged {
        let (subject, list) = match side {
            Direction::Input => (self.guards.asking(content), &self.guards.input),
            Direction::Output => (self.guards.answering(content.body().clone(), BodyShape::Chat), &self.guards.output),
        };
        if let Some(beside) = guardrails.judge_beside(&self.guards, side, subject.clone()) {
            self.notes.beside.push(beside);
        }
        let run = Run::begin(list, subject, Timing::Sync, clock::now());
        let said = guardrails.drive(run, self.guards.moderator.as_deref()).await;
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

/// Puts texts back where others were taken. Where they do not fit together nothing may pass: nobody can say what was
/// meant.
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

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_mcp::texts::each_value;

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
