//! Steps of an answer from the events of OpenAI's Responses, and from a whole response as the events that would have
//! brought it. Providers that took the dialect over leave events out; what an item says when it is done is read for
//! what its deltas did not bring.

use super::from_chat::citation;
use crate::answer::{Aside, ResponseEvent};
use crate::failure::ProviderError;
use crate::translate::{EventError, EventReader};
use crate::wire::usage::{OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read, speaks};
use gateway_domain::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    content_index: u64,
    #[serde(default)]
    summary_index: u64,
    #[serde(borrow)]
    delta: Option<JsonStr<'a>>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<OutputItem<'a>>,
    #[serde(borrow)]
    response: Option<WholeResponse<'a>>,
    /// What Perplexity's search found, as it finds it.
    #[serde(borrow)]
    results: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WholeResponse<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    status: Option<JsonStr<'a>>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct OutputItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    call_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    arguments: Option<JsonStr<'a>>,
    #[serde(borrow)]
    content: Option<Vec<OutputPart<'a>>>,
    #[serde(borrow)]
    summary: Option<Vec<OutputPart<'a>>>,
    #[serde(borrow)]
    results: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct OutputPart<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    annotations: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
}

/// A call that was told of, by its place in the output.
#[derive(Debug)]
struct ToldCall {
    place: u64,
    argued: bool,
}

#[derive(Debug)]
pub(crate) struct ResponsesReader {
    slug: &'static str,
    opened: bool,
    ended: bool,
    model: Option<String>,
    calls: Vec<ToldCall>,
    /// Items of which something was said, so that they are not said again when they are done.
    said: Vec<u64>,
    /// Likewise those whose sources were named.
    cited: Vec<u64>,
    /// The part of a summary that came last: its item, and which part of it.
    summary: Option<(u64, u64)>,
    refused: bool,
    results: Vec<Box<RawValue>>,
    usage: Option<Usage>,
}

/// Blocks are numbered by item and part; no answer has more parts.
const PARTS: u64 = 1 << 16;

impl ResponsesReader {
    pub(crate) fn new(slug: &'static str) -> Self {
        Self {
            slug,
            opened: false,
            ended: false,
            model: None,
            calls: Vec::new(),
            said: Vec::new(),
            cited: Vec::new(),
            summary: None,
            refused: false,
            results: Vec::new(),
            usage: None,
        }
    }

    /// A whole response.
    pub(crate) fn whole<'a>(&mut self, body: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let response: WholeResponse<'a> = read(body).ok_or(EventError::Unreadable)?;
        if response.output.is_none() && !speaks(response.error) {
            return Err(EventError::Unreadable);
        }
        self.end(response, steps)
    }

    fn open<'a>(&mut self, id: Option<JsonStr<'a>>, model: Option<JsonStr<'a>>, steps: &mut Vec<ResponseEvent<'a>>) {
        if !std::mem::replace(&mut self.opened, true) {
            self.model = model.as_ref().map(|model| model.0.to_string());
            steps.push(ResponseEvent::Open { id: id.map(|id| id.0), model: model.map(|model| model.0) });
        }
    }

    fn take<'a>(
        &mut self,
        event: ResponsesEvent<'a>,
        data: &'a [u8],
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        let place = event.output_index;
        let block = place * PARTS + event.content_index;
        match &*event.kind.0 {
            "response.created" | "response.in_progress" => {
                if let Some(response) = event.response {
                    self.open(response.id, response.model, steps);
                }
            }
            "response.output_text.delta" => {
                self.said(place);
                let text = event.delta.map(|delta| delta.0).filter(|text| !text.is_empty());
                steps.extend(text.map(|text| ResponseEvent::Text { block, text }));
                logprobs(block, event.logprobs, steps);
            }
            "response.refusal.delta" => {
                self.said(place);
                self.refused = true;
                steps.extend(event.delta.map(|text| ResponseEvent::Refusal { block, text: text.0 }));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.said(place);
                self.part_of_summary(place, event.summary_index + event.content_index, steps);
                steps.extend(event.delta.map(|text| ResponseEvent::Reasoning { block: place * PARTS, text: text.0 }));
            }
            "response.output_text.annotation.added" => {
                self.cited.push(place);
                cite(block, event.annotation.into_iter(), steps);
            }
            "response.function_call_arguments.delta" => {
                if let (Some(call), Some(text)) = (self.call(place), event.delta)
                    && !text.0.is_empty()
                {
                    self.calls[call].argued = true;
                    steps.push(ResponseEvent::ToolArguments { call: call as u64, fragment: text.0 });
                }
            }
            "response.output_item.added" => {
                if let Some(item) = event.item.filter(|item| &*item.kind.0 == "function_call") {
                    self.call_opens(place, item, steps);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.done(place, item, steps);
                }
            }
            "response.reasoning.search_results" => self.found(event.results),
            "response.completed" | "response.incomplete" | "response.done" => {
                return event.response.map_or(Err(EventError::Unreadable), |response| self.end(response, steps));
            }
            "response.failed" | "error" => {
                let told = event.response.as_ref().and_then(|response| response.error).or(event.error);
                let said = told.map_or(data, |error| error.get().as_bytes());
                return Err(EventError::trouble(ProviderError::read(said).unwrap_or_default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn said(&mut self, place: u64) {
        if self.said.last() != Some(&place) {
            self.said.push(place);
        }
    }

    /// Parts of a summary are paragraphs.
    fn part_of_summary(&mut self, place: u64, part: u64, steps: &mut Vec<ResponseEvent<'_>>) {
        let before = self.summary.replace((place, part));
        if before.is_some_and(|(item, last)| item == place && last != part) {
            steps.push(ResponseEvent::Reasoning { block: place * PARTS, text: Cow::Borrowed("\n\n") });
        }
    }

    fn call(&self, place: u64) -> Option<usize> {
        self.calls.iter().position(|call| call.place == place)
    }

    fn call_opens<'a>(&mut self, place: u64, item: OutputItem<'a>, steps: &mut Vec<ResponseEvent<'a>>) -> usize {
        if let Some(call) = self.call(place) {
            return call;
        }
        let id = item.call_id.or(item.id).map(|id| id.0).unwrap_or_default();
        let name = item.name.map(|name| name.0).unwrap_or_default();
        steps.push(ResponseEvent::ToolOpen { call: self.calls.len() as u64, id, name, signature: None });
        self.calls.push(ToldCall { place, argued: false });
        self.calls.len() - 1
    }

    /// An item is whole: what was not heard of it yet is said now.
    fn done<'a>(&mut self, place: u64, mut item: OutputItem<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        match &*item.kind.0 {
            "function_call" => {
                let arguments = item.arguments.take().map(|text| text.0).filter(|text| !text.is_empty());
                let call = self.call_opens(place, item, steps);
                if !std::mem::replace(&mut self.calls[call].argued, true) {
                    let fragment = arguments.unwrap_or(Cow::Borrowed("{}"));
                    steps.push(ResponseEvent::ToolArguments { call: call as u64, fragment });
                }
            }
            "message" => {
                let (heard, cited) = (self.said.contains(&place), self.cited.contains(&place));
                self.said(place);
                self.cited.push(place);
                for (number, part) in (0..).zip(item.content.into_iter().flatten()) {
                    let block = place * PARTS + number;
                    if !heard {
                        self.refused |= part.refusal.is_some();
                        let text = part.text.map(|text| text.0).filter(|text| !text.is_empty());
                        steps.extend(text.map(|text| ResponseEvent::Text { block, text }));
                        logprobs(block, part.logprobs, steps);
                        steps.extend(part.refusal.map(|text| ResponseEvent::Refusal { block, text: text.0 }));
                    }
                    if !cited {
                        cite(block, part.annotations.into_iter().flatten(), steps);
                    }
                }
            }
            "reasoning" if !self.said.contains(&place) => {
                self.said(place);
                let parts = item.summary.into_iter().flatten().chain(item.content.into_iter().flatten());
                for (number, text) in (0..).zip(parts.filter_map(|part| part.text)) {
                    self.part_of_summary(place, number, steps);
                    steps.push(ResponseEvent::Reasoning { block: place * PARTS, text: text.0 });
                }
            }
            "search_results" => self.found(item.results),
            _ => {}
        }
    }

    /// Each source once, whether it was told while searching, with its item, or twice.
    fn found(&mut self, results: Option<Vec<&RawValue>>) {
        for result in results.into_iter().flatten() {
            if !self.results.iter().any(|known| known.get() == result.get()) {
                self.results.push(result.to_owned());
            }
        }
    }

    fn end<'a>(&mut self, response: WholeResponse<'a>, steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if let Some(error) = response.error.filter(|raw| speaks(Some(raw))) {
            return Err(EventError::trouble(ProviderError::read(error.get().as_bytes()).unwrap_or_default()));
        }
        let status = response.status.as_ref().map_or("completed", |status| &*status.0);
        match status {
            "completed" | "incomplete" => {}
            other => return Err(EventError::trouble(ProviderError::new(format!("the response ended as {other}")))),
        }
        self.open(response.id, response.model, steps);
        let usage = response.usage.and_then(|raw| read::<OpenAiUsage>(raw.get().as_bytes())?.split());
        self.usage = served(response.service_tier.map(RawValue::get), filter_reported_cost(self.slug, usage));
        for (place, raw) in (0..).zip(response.output.into_iter().flatten()) {
            if let Some(item) = read::<OutputItem<'a>>(raw.get().as_bytes()) {
                self.done(place, item, steps);
            }
        }
        let why = response.incomplete_details.and_then(|details| details.reason).map(|reason| reason.0);
        let standard = match why.as_deref() {
            Some("max_output_tokens" | "max_tokens") => "length",
            Some("content_filter") => "content_filter",
            _ if !self.calls.is_empty() => "tool_calls",
            _ => "stop",
        };
        self.ended = true;
        let reason = why.unwrap_or_else(|| Cow::Owned(status.to_owned()));
        steps.push(ResponseEvent::Finish { reason, standard });
        if !self.results.is_empty() {
            steps.push(ResponseEvent::Sources(std::mem::take(&mut self.results)));
        }
        steps.push(ResponseEvent::End { usage: self.usage });
        Ok(())
    }
}

impl EventReader for ResponsesReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if self.ended || data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let event: ResponsesEvent<'a> = read(data).ok_or(EventError::Unreadable)?;
        self.take(event, data, steps)
    }

    /// Counts come with the last event only.
    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

fn logprobs<'a>(block: u64, raw: Option<&'a RawValue>, steps: &mut Vec<ResponseEvent<'a>>) {
    let told = raw.filter(|raw| raw.get().starts_with('[') && raw.get() != "[]");
    steps.extend(told.map(|raw| ResponseEvent::Logprobs { block, content: Cow::Borrowed(raw) }));
}

fn cite<'a>(block: u64, annotations: impl Iterator<Item = &'a RawValue>, steps: &mut Vec<ResponseEvent<'a>>) {
    for made in annotations.filter_map(citation) {
        steps.push(ResponseEvent::Aside { block, aside: Aside::Citation(Cow::Owned(made)) });
    }
}
