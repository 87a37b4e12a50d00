//! Steps of an answer from Gemini's events. A whole answer is one event: both have the same form.

use crate::answer::{Aside, ResponseEvent};
use crate::gemini::trouble;
use crate::translate::{EventError, EventReader};
use crate::wire::gemini::{Candidate, CandidateFunctionCall, GeminiResponse, SaidPart};
use crate::wire::read;
use crate::wire::usage::GeminiUsage;
use gateway_domain::Usage;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What was said last, as far as the next part may go on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GeminiPartKind {
    #[default]
    Nothing,
    Text,
    Thought,
}

/// One candidate: OpenAI's choice.
#[derive(Debug, Default)]
struct CandidateState {
    block: u64,
    kind: GeminiPartKind,
    calls: u64,
    finish: Option<String>,
}

#[derive(Debug)]
pub(crate) struct GeminiReader {
    /// Goes into the ids that are made for calls that come without one.
    seed: u64,
    open: bool,
    /// The choice that steps belong to now.
    current: u64,
    choices: Vec<CandidateState>,
    usage: GeminiUsage,
    /// Why the prompt was not answered at all.
    blocked: Option<String>,
    model: Option<String>,
}

/// More choices than can be asked for are not kept apart.
const MOST_CHOICES: u64 = 128;

impl GeminiReader {
    /// `seed` differs between answers.
    pub(crate) fn new(seed: u64) -> Self {
        let usage = GeminiUsage::default();
        Self { seed, open: false, current: 0, choices: Vec::new(), usage, blocked: None, model: None }
    }

    /// Whether the answer has come to its end: every choice that began says why it stopped.
    fn whole(&self) -> bool {
        self.blocked.is_some()
            || (!self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some()))
    }

    /// A whole body is the whole answer, whatever it says of its end. False when it holds no answer at all.
    pub(crate) fn settle(&mut self) -> bool {
        for choice in &mut self.choices {
            choice.finish.get_or_insert_with(|| "STOP".to_owned());
        }
        self.whole()
    }

    fn take<'a>(&mut self, answer: GeminiResponse<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        if let Some(usage) = answer.usage_metadata {
            self.usage = usage;
        }
        if let Some(model) = &answer.model_version {
            self.model = Some(model.0.to_string());
        }
        if !self.open {
            self.open = true;
            let (id, model) = (answer.response_id.map(|id| id.0), answer.model_version.map(|m| m.0));
            steps.push(ResponseEvent::Open { id, model });
        }
        if let Some(reason) = answer.prompt_feedback.and_then(|f| f.block_reason) {
            self.blocked = Some(reason.0.into_owned());
        }
        for candidate in answer.candidates.into_iter().flatten() {
            self.candidate(candidate, steps);
        }
    }

    fn candidate<'a>(&mut self, candidate: Candidate<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let index = candidate.index.min(MOST_CHOICES - 1);
        if index != self.current {
            self.current = index;
            steps.push(ResponseEvent::Choice(index));
        }
        let at = usize::try_from(index).unwrap_or_default();
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, CandidateState::default);
        }
        let seed = self.seed.wrapping_add(index << 32);
        let choice = &mut self.choices[at];
        for raw in candidate.content.and_then(|c| c.parts).into_iter().flatten() {
            choice.part(raw, seed, steps);
        }
        if let Some(sources) = candidate.grounding_metadata {
            choice.foreign(sources, steps);
        }
        if let Some(reason) = candidate.finish_reason.filter(|r| !r.0.is_empty()) {
            choice.finish = Some(reason.0.into_owned());
        }
    }
}

impl CandidateState {
    fn part<'a>(&mut self, raw: &'a RawValue, seed: u64, steps: &mut Vec<ResponseEvent<'a>>) {
        let Some(part) = read::<SaidPart<'a>>(raw.get().as_bytes()) else { return };
        let signature = part.thought_signature.map(|s| s.0).filter(|s| !s.is_empty());
        if let Some(called) = part.function_call {
            return self.call(called, signature, seed, steps);
        }
        let Some(text) = part.text.map(|t| t.0) else { return self.foreign(raw, steps) };
        let kind = if part.thought { GeminiPartKind::Thought } else { GeminiPartKind::Text };
        if !text.is_empty() {
            let block = self.block(kind);
            steps.push(match kind {
                GeminiPartKind::Thought => ResponseEvent::Reasoning { block, text },
                _ => ResponseEvent::Text { block, text },
            });
        }
        if let Some(signature) = signature {
            let block =
                if kind == GeminiPartKind::Thought { self.block(kind) } else { self.next(GeminiPartKind::Nothing) };
            steps.push(ResponseEvent::Aside { block, aside: Aside::Signature(signature) });
        }
    }

    /// The number of the block that goes on or starts here.
    fn block(&mut self, kind: GeminiPartKind) -> u64 {
        if self.kind == kind { self.block } else { self.next(kind) }
    }

    fn next(&mut self, kind: GeminiPartKind) -> u64 {
        self.kind = kind;
        self.block += 1;
        self.block
    }

    fn call<'a>(
        &mut self,
        called: CandidateFunctionCall<'a>,
        signature: Option<Cow<'a, str>>,
        seed: u64,
        steps: &mut Vec<ResponseEvent<'a>>,
    ) {
        let call = self.calls;
        self.calls += 1;
        self.next(GeminiPartKind::Nothing);
        let id = called.id.map(|id| id.0).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("call_{seed:016x}{call:04}").into());
        let name = called.name.map(|n| n.0).unwrap_or_default();
        steps.push(ResponseEvent::ToolOpen { call, id, name, signature });
        let fragment = called.args.map_or("{}", RawValue::get).into();
        steps.push(ResponseEvent::ToolArguments { call, fragment });
    }

    /// What has no place of its own in a chat message: code that was run, its result, images, sources.
    fn foreign<'a>(&mut self, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        if raw.get() != "{}" {
            let block = self.next(GeminiPartKind::Nothing);
            steps.push(ResponseEvent::Aside { block, aside: Aside::Block(raw) });
        }
    }

    fn finish(&self) -> ResponseEvent<'static> {
        let reason = self.finish.clone().unwrap_or_else(|| "STOP".to_owned());
        let standard = match reason.as_str() {
            "STOP" if self.calls > 0 => "tool_calls",
            other => standard(other),
        };
        ResponseEvent::Finish { reason: reason.into(), standard }
    }
}

/// OpenAI's name for why an answer ended.
fn standard(reason: &str) -> &'static str {
    match reason {
        "MAX_TOKENS" => "length",
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "LANGUAGE"
        | "MODEL_ARMOR"
        | "JAILBREAK" => "content_filter",
        // STOP, OTHER, MALFORMED_FUNCTION_CALL, and whatever comes.
        _ => "stop",
    }
}

impl EventReader for GeminiReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let answer = read::<GeminiResponse<'a>>(data).ok_or(EventError::Unreadable)?;
        if answer.error.is_some() {
            return Err(EventError::ProviderError(Box::new(trouble(data).unwrap_or_default())));
        }
        self.take(answer, steps);
        Ok(())
    }

    /// There is no end mark: an answer is whole when its last event said why it ended.
    fn close(&mut self, steps: &mut Vec<ResponseEvent<'static>>) {
        if !self.whole() {
            return;
        }
        if let Some(reason) = self.blocked.clone().filter(|_| self.choices.is_empty()) {
            steps.push(ResponseEvent::Finish { reason: reason.into(), standard: "content_filter" });
        }
        for (index, choice) in (0..).zip(&self.choices) {
            if index != self.current {
                self.current = index;
                steps.push(ResponseEvent::Choice(index));
            }
            steps.push(choice.finish());
        }
        steps.push(ResponseEvent::End { usage: self.usage.split() });
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.usage.split()?;
        Some(usage)
    }

    fn uncounted(&self) -> bool {
        !self.whole()
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}
