//! Steps of an answer from Cohere's events, and from a whole answer as the events that would have brought it.

use crate::answer::{Aside, ResponseEvent};
use crate::failure::ProviderError;
use crate::translate::{EventError, EventReader};
use crate::wire::cohere::{CohereContent, CohereEvent, CohereMessageDelta, CohereResponse, CohereSaidCall};
use crate::wire::read;
use crate::wire::usage::CohereUsage;
use gateway_domain::Usage;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The plan for calls stands before all content.
const PLAN: u64 = 0;

#[derive(Debug, Default)]
pub(crate) struct CohereReader {
    /// The model that was asked for: Cohere does not name it in its answer.
    model: Option<String>,
    calls: u64,
    /// The last content's index, and whether it was thinking: a new index or another kind starts a block.
    place: Option<(u64, bool)>,
    block: u64,
    argued: bool,
    usage: Option<CohereUsage>,
}

impl CohereReader {
    pub(crate) fn new(model: Option<&str>) -> Self {
        Self { model: model.map(str::to_owned), ..Self::default() }
    }

    fn open<'a>(&self, id: Option<Cow<'a, str>>) -> ResponseEvent<'a> {
        ResponseEvent::Open { id, model: self.model.clone().map(Cow::Owned) }
    }

    fn take<'a>(&mut self, event: CohereEvent<'a>, steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let index = event.index.unwrap_or_default();
        let (mut piece, mut end) = (None, None);
        if let Some(delta) = event.delta {
            piece = delta.message;
            end = Some((delta.finish_reason, delta.error, delta.usage));
        }
        match &*event.kind.0 {
            "message-start" => steps.push(self.open(event.id.map(|id| id.0))),
            "content-start" | "content-delta" => {
                let content =
                    piece.and_then(|p: CohereMessageDelta<'a>| read::<CohereContent<'a>>(p.content?.get().as_bytes()));
                if let Some(content) = content {
                    self.content(index, content, steps);
                }
            }
            "tool-plan-delta" => {
                let text = piece.and_then(|p| p.tool_plan).map(|t| t.0).filter(|t| !t.is_empty());
                steps.extend(text.map(|text| ResponseEvent::Reasoning { block: PLAN, text }));
            }
            "tool-call-start" | "tool-call-delta" => {
                let call = piece.and_then(|p| read::<CohereSaidCall<'a>>(p.tool_calls?.get().as_bytes()));
                if let Some(call) = call {
                    self.call(call, event.kind.0 == "tool-call-start", steps);
                }
            }
            "tool-call-end" => self.close_call(steps),
            "citation-start" => {
                if let Some(citation) = piece.and_then(|p| p.citations) {
                    self.cite(citation, steps);
                }
            }
            "message-end" => {
                let (reason, error, usage) = end.unwrap_or_default();
                self.end(reason.map(|r| r.0), error.map(|e| e.0), usage, steps)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn content<'a>(&mut self, index: u64, content: CohereContent<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let thinks = content.thinking.is_some();
        let Some(text) = content.thinking.or(content.text).map(|t| t.0).filter(|t| !t.is_empty()) else { return };
        if self.place != Some((index, thinks)) {
            self.place = Some((index, thinks));
            self.block += 1;
        }
        let block = self.block;
        steps.push(if thinks { ResponseEvent::Reasoning { block, text } } else { ResponseEvent::Text { block, text } });
    }

    fn call<'a>(&mut self, call: CohereSaidCall<'a>, starts: bool, steps: &mut Vec<ResponseEvent<'a>>) {
        let (name, arguments) = call.function.map_or((None, None), |f| (f.name, f.arguments));
        if starts {
            self.place = None;
            self.argued = false;
            let id = call.id.map(|id| id.0).unwrap_or_default();
            let name = name.map(|n| n.0).unwrap_or_default();
            steps.push(ResponseEvent::ToolOpen { call: self.calls, id, name, signature: None });
            self.calls += 1;
        }
        // A piece without a call before it belongs nowhere.
        let Some(number) = self.calls.checked_sub(1) else { return };
        if let Some(fragment) = arguments.map(|a| a.0).filter(|a| !a.is_empty()) {
            self.argued = true;
            steps.push(ResponseEvent::ToolArguments { call: number, fragment });
        }
    }

    fn close_call(&self, steps: &mut Vec<ResponseEvent<'_>>) {
        if let Some(call) = self.calls.checked_sub(1).filter(|_| !self.argued) {
            steps.push(ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed("{}") });
        }
    }

    fn cite<'a>(&mut self, citation: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        // A citation gets a block of its own, so that text which goes on after it stays one block.
        let block = CITATIONS + self.block;
        steps.push(ResponseEvent::Aside { block, aside: Aside::Block(citation) });
    }

    fn end<'a>(
        &mut self,
        reason: Option<Cow<'a, str>>,
        error: Option<Cow<'a, str>>,
        usage: Option<CohereUsage>,
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        self.usage = usage.or(self.usage.take());
        let reason = reason.unwrap_or(Cow::Borrowed("COMPLETE"));
        let standard = match &*reason {
            "MAX_TOKENS" => "length",
            "TOOL_CALL" => "tool_calls",
            "ERROR_TOXIC" => "content_filter",
            failed @ ("ERROR" | "TIMEOUT" | "ERROR_LIMIT") => {
                let status = if failed == "TIMEOUT" { 504 } else { 500 };
                let message = error.map_or_else(|| format!("the answer ended with {failed}"), Cow::into_owned);
                let kind = Some(failed.to_owned());
                return Err(EventError::trouble(ProviderError {
                    kind,
                    code: status.into(),
                    ..ProviderError::new(message)
                }));
            }
            // COMPLETE, STOP_SEQUENCE and whatever comes.
            _ => "stop",
        };
        steps.push(ResponseEvent::Finish { reason, standard });
        steps.push(ResponseEvent::End { usage: self.usage.as_ref().and_then(CohereUsage::split) });
        Ok(())
    }

    /// A whole answer, as its stream would have told it.
    pub(crate) fn whole<'a>(
        &mut self,
        answer: CohereResponse<'a>,
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        steps.push(self.open(answer.id.map(|id| id.0)));
        let message = answer.message;
        let plan = message.tool_plan.map(|t| t.0).filter(|t| !t.is_empty());
        steps.extend(plan.map(|text| ResponseEvent::Reasoning { block: PLAN, text }));
        for (index, content) in (0..).zip(message.content.into_iter().flatten()) {
            self.content(index, content, steps);
        }
        for call in message.tool_calls.into_iter().flatten() {
            self.call(call, true, steps);
            self.close_call(steps);
        }
        for citation in message.citations.into_iter().flatten() {
            self.cite(citation, steps);
        }
        self.end(answer.finish_reason.map(|r| r.0), None, answer.usage, steps)
    }
}

/// Numbers of blocks above any that content has.
const CITATIONS: u64 = 1000;

impl EventReader for CohereReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let event = match read::<CohereEvent<'a>>(data) {
            Some(event) => event,
            // An error inside a stream has no type of its own.
            None => return Err(ProviderError::read(data).map_or(EventError::Unreadable, EventError::trouble)),
        };
        self.take(event, steps)
    }

    /// Counts come with the last event only.
    fn usage(&self) -> Option<Usage> {
        self.usage.as_ref().and_then(CohereUsage::split)
    }

    fn model(&self) -> Option<&str> {
        None
    }
}
