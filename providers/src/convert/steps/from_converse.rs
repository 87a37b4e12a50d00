//! Steps of an answer from the events of Bedrock's ConverseStream, and from a whole answer as the events that would
//! have brought it.

use crate::answer::{Aside, ResponseEvent};
use crate::translate::{EventError, EventReader};
use crate::wire::converse::{
    Citation, CitationSpan, ConverseDelta, ConverseEvent, ConverseOutputBlock, ConverseResponse, Location, SaidCall,
    SaidReasoning, SaidThought, Start,
};
use crate::wire::usage::ConverseUsage;
use crate::wire::{JsonStr, read};
use gateway_domain::Usage;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// What an index stands for, as far as its deltas are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConverseBlockKind {
    Tool {
        call: u64,
        argued: bool,
    },
    /// A tool that AWS runs, an image, a result.
    Foreign,
}

#[derive(Debug, Default)]
pub(crate) struct ConverseReader {
    /// The model that was asked for: the answer does not name it.
    model: Option<String>,
    open: Vec<(u64, ConverseBlockKind)>,
    calls: u64,
    usage: Option<ConverseUsage>,
    stopped: bool,
    ended: bool,
}

impl ConverseReader {
    pub(crate) fn new(model: Option<&str>) -> Self {
        Self { model: model.map(str::to_owned), ..Self::default() }
    }

    fn start(&self, steps: &mut Vec<ResponseEvent<'_>>) {
        steps.push(ResponseEvent::Open { id: None, model: self.model.clone().map(Cow::Owned) });
    }

    fn block_start<'a>(&mut self, block: u64, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        let start = read::<Start<'a>>(raw.get().as_bytes());
        match start.and_then(|s| s.tool_use).filter(|call| call.kind.is_none()) {
            Some(call) => self.call(block, call, steps),
            None => self.foreign(block, raw, steps),
        }
    }

    fn call<'a>(&mut self, block: u64, call: SaidCall<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let part = |text: Option<JsonStr<'a>>| text.map(|t| t.0).unwrap_or_default();
        let number = self.calls;
        self.calls += 1;
        let (id, name) = (part(call.tool_use_id), part(call.name));
        steps.push(ResponseEvent::ToolOpen { call: number, id, name, signature: None });
        let input = call.input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null"));
        steps.extend(input.map(|input| ResponseEvent::ToolArguments { call: number, fragment: input.into() }));
        self.keep(block, ConverseBlockKind::Tool { call: number, argued: input.is_some() });
    }

    fn foreign<'a>(&mut self, block: u64, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        steps.push(ResponseEvent::Aside { block, aside: Aside::Block(raw) });
        self.keep(block, ConverseBlockKind::Foreign);
    }

    fn keep(&mut self, block: u64, kind: ConverseBlockKind) {
        self.open.retain(|(open, _)| *open != block);
        self.open.push((block, kind));
    }

    fn delta<'a>(&mut self, block: u64, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        let Some(delta) = read::<ConverseDelta<'a>>(raw.get().as_bytes()) else { return };
        steps.extend(some(delta.text).map(|text| ResponseEvent::Text { block, text }));
        if let Some(reasoning) = delta.reasoning_content {
            reason(block, reasoning, steps);
        }
        if let Some(citation) = &delta.citation {
            cite(block, citation, steps);
        }
        let Some(fragment) = delta.tool_use.and_then(|call| some(call.input)) else { return };
        match self.open.iter_mut().find(|(open, _)| *open == block).map(|(_, kind)| kind) {
            Some(ConverseBlockKind::Tool { call, argued }) => {
                *argued = true;
                steps.push(ResponseEvent::ToolArguments { call: *call, fragment });
            }
            Some(ConverseBlockKind::Foreign) => {
                steps.push(ResponseEvent::Aside { block, aside: Aside::Input(fragment) })
            }
            None => {}
        }
    }

    fn block_stop(&mut self, block: u64, steps: &mut Vec<ResponseEvent<'_>>) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == block)
            && let (_, ConverseBlockKind::Tool { call, argued: false }) = self.open.remove(at)
        {
            steps.push(ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed("{}") });
        }
    }

    fn stop<'a>(&mut self, reason: Option<JsonStr<'a>>, steps: &mut Vec<ResponseEvent<'a>>) {
        let reason = reason.map_or(Cow::Borrowed("end_turn"), |r| r.0);
        self.stopped = true;
        steps.push(ResponseEvent::Finish { standard: standard(&reason), reason });
    }

    /// Counts come last, behind the reason.
    fn end(&mut self, usage: Option<ConverseUsage>, steps: &mut Vec<ResponseEvent<'_>>) {
        self.usage = usage.or(self.usage);
        if self.stopped && !self.ended {
            self.ended = true;
            steps.push(ResponseEvent::End { usage: self.usage() });
        }
    }

    /// A whole answer, as its stream would have told it.
    pub(crate) fn whole<'a>(&mut self, answer: ConverseResponse<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        self.start(steps);
        for (block, raw) in (0..).zip(answer.output.message.content) {
            self.block(block, raw, steps);
            self.block_stop(block, steps);
        }
        self.stop(answer.stop_reason, steps);
        self.end(answer.usage, steps);
    }

    fn block<'a>(&mut self, block: u64, raw: &'a RawValue, steps: &mut Vec<ResponseEvent<'a>>) {
        let Some(said) = read::<ConverseOutputBlock<'a>>(raw.get().as_bytes()) else {
            return self.foreign(block, raw, steps);
        };
        match said {
            ConverseOutputBlock { text: Some(text), .. } => {
                steps.extend(some(Some(text)).map(|text| ResponseEvent::Text { block, text }))
            }
            ConverseOutputBlock { tool_use: Some(call), .. } if call.kind.is_none() => self.call(block, call, steps),
            ConverseOutputBlock { reasoning_content: Some(reasoning), .. } => reason(block, reasoning, steps),
            ConverseOutputBlock { citations_content: Some(cited), .. } => {
                let texts = cited.content.into_iter().filter_map(|c| some(c.text));
                steps.extend(texts.map(|text| ResponseEvent::Text { block, text }));
                cited.citations.iter().for_each(|citation| cite(block, citation, steps));
            }
            _ => self.foreign(block, raw, steps),
        }
    }
}

/// Text that says something: an empty piece is no step.
fn some(text: Option<JsonStr<'_>>) -> Option<Cow<'_, str>> {
    text.map(|t| t.0).filter(|t| !t.is_empty())
}

fn reason<'a>(block: u64, said: SaidReasoning<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
    let (text, signature) = match said.reasoning_text {
        Some(SaidThought { text, signature }) => (text, signature),
        None => (said.text, said.signature),
    };
    steps.extend(some(text).map(|text| ResponseEvent::Reasoning { block, text }));
    let asides = [some(signature).map(Aside::Signature), some(said.redacted_content).map(Aside::Redacted)];
    steps.extend(asides.into_iter().flatten().map(|aside| ResponseEvent::Aside { block, aside }));
}

/// Gives a citation in Anthropic's form (<https://docs.claude.com/en/docs/build-with-claude/citations>).
fn cite(block: u64, citation: &Citation, steps: &mut Vec<ResponseEvent<'_>>) {
    let quoted: String = citation.source_content.iter().map(|q| q.text.as_str()).collect();
    let title = &citation.title;
    let within = |kind: &str, unit: &str, span: &CitationSpan| -> Value {
        json!({ "type": kind, "cited_text": quoted, "document_index": span.document_index, "document_title": title,
                format!("start_{unit}"): span.start, format!("end_{unit}"): span.end })
    };
    let made = match &citation.location {
        Some(Location::DocumentChar(span)) => within("char_location", "char_index", span),
        Some(Location::DocumentPage(span)) => within("page_location", "page_number", span),
        Some(Location::DocumentChunk(span)) => within("content_block_location", "block_index", span),
        Some(Location::SearchResult(span)) => json!({
            "type": "search_result_location", "cited_text": quoted, "search_result_index": span.search_result_index,
            "source": citation.source, "title": title, "start_block_index": span.start, "end_block_index": span.end,
        }),
        Some(Location::Web { url }) => {
            json!({ "type": "web_search_result_location", "cited_text": quoted, "url": url, "title": title })
        }
        None => json!({ "type": "search_result_location", "cited_text": quoted, "source": citation.source,
                        "title": title }),
    };
    if let Ok(raw) = RawValue::from_string(made.to_string()) {
        steps.push(ResponseEvent::Aside { block, aside: Aside::Citation(Cow::Owned(raw)) });
    }
}

/// OpenAI's name for why an answer ended.
fn standard(reason: &str) -> &'static str {
    match reason {
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "guardrail_intervened" | "content_filtered" => "content_filter",
        // end_turn, stop_sequence, malformed_model_output, malformed_tool_use, and whatever comes.
        _ => "stop",
    }
}

impl EventReader for ConverseReader {
    /// An event without a name cannot be read: Converse tells its type by the name alone.
    fn event<'a>(&mut self, _data: &'a [u8], _steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        Err(EventError::Unreadable)
    }

    fn named<'a>(&mut self, name: &str, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let event = read::<ConverseEvent<'a>>(data).ok_or(EventError::Unreadable)?;
        let block = event.content_block_index;
        match name {
            "messageStart" => self.start(steps),
            "contentBlockStart" => event.start.into_iter().for_each(|raw| self.block_start(block, raw, steps)),
            "contentBlockDelta" => event.delta.into_iter().for_each(|raw| self.delta(block, raw, steps)),
            "contentBlockStop" => self.block_stop(block, steps),
            "messageStop" => self.stop(event.stop_reason, steps),
            "metadata" => self.end(event.usage, steps),
            _ => {}
        }
        Ok(())
    }

    /// The reason is the end mark; counts may be missing.
    fn close(&mut self, steps: &mut Vec<ResponseEvent<'static>>) {
        self.end(None, steps);
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.as_ref().and_then(ConverseUsage::split)
    }

    fn model(&self) -> Option<&str> {
        None
    }
}
