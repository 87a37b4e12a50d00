//! Reads streams of the Responses API: named events that end in `response.completed`, `.incomplete` or `.failed`.

use super::image_tool::DrawnBeside;
use super::scan::string_after;
use crate::adapter::{Failure, Progress};
use crate::failure::{self, ProviderError};
use crate::passthrough::{EventVerdict, Grammar, ReplyStreamState};
use crate::sse;
use crate::wire::usage::{OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Dialect, Operation, Usage};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::LazyLock;

struct EventNames {
    kind: Finder<'static>,
    delta: Finder<'static>,
}

static NAMES: LazyLock<EventNames> =
    LazyLock::new(|| EventNames { kind: Finder::new("\"type\":"), delta: Finder::new("\"delta\"") });

#[derive(Deserialize)]
struct ResponsesStreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    response: Option<ResponsesObject<'a>>,
    #[serde(borrow)]
    item: Option<ResponsesStreamItem<'a>>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponsesObject<'a> {
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The part of an event that tells of pictures which a tool drew.
#[derive(Deserialize)]
struct DrawnEvent<'a> {
    #[serde(borrow)]
    response: DrawnBeside<'a>,
}

#[derive(Deserialize)]
struct ResponsesStreamItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<JsonStr<'a>>,
}

/// What the response of this event used, with what its tool drew.
fn used(slug: &str, response: &ResponsesObject<'_>, event: &[u8]) -> Option<Usage> {
    let usage = response.usage.and_then(|raw| read::<OpenAiUsage>(raw.get().as_bytes())?.split());
    let usage = served(response.service_tier.map(RawValue::get), filter_reported_cost(slug, usage));
    if usage.is_none() || !DrawnBeside::may_be_in(event) {
        return usage;
    }
    read::<DrawnEvent<'_>>(event).map_or(usage, |drawn| drawn.response.charged(slug, usage))
}

/// What an event of the Responses API says of its usage and its model, as it does on a socket too. `slug`: of the
/// family.
pub fn response_usage(slug: &str, event: &[u8]) -> (Option<Usage>, Option<String>) {
    let Some(response) = read::<ResponsesStreamEvent<'_>>(event).and_then(|told| told.response) else {
        return (None, None);
    };
    let usage = used(slug, &response, event);
    (usage, response.model.map(|model| model.0.into_owned()))
}

pub(crate) struct ResponsesGrammar {
    slug: &'static str,
    /// A response that is told again was counted when it was made.
    counts: bool,
}

impl ResponsesGrammar {
    pub(crate) fn new(slug: &'static str, counts: bool) -> Self {
        Self { slug, counts }
    }

    /// A delta of text or arguments says so in its first bytes, whichever way its JSON is spaced.
    fn delta_only(event: &[u8]) -> bool {
        NAMES.kind.find(event).is_some_and(|at| {
            let kind = event[at + NAMES.kind.needle().len()..].trim_ascii_start();
            let kind = &kind[..kind.len().min(80)];
            kind.starts_with(b"\"response.") && memchr::memmem::find(kind, b".delta\"").is_some()
        })
    }

    fn take(&self, event: &ResponsesStreamEvent<'_>, data: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        if let Some(response) = &event.response {
            if seen.model.is_none() {
                seen.model = response.model.as_ref().map(|m| m.0.to_string());
            }
            seen.usage = used(self.slug, response, data).filter(|_| self.counts).or(seen.usage);
        }
        match &*event.kind.0 {
            "response.created" | "response.queued" | "response.in_progress" | "response.content_part.added" => {}
            "response.completed" | "response.incomplete" => seen.progress = Progress::Complete,
            "response.failed" | "error" => {
                let said = event.response.as_ref().and_then(|r| r.error).map_or(data, |error| error.get().as_bytes());
                let trouble = ProviderError::read(said).unwrap_or_default();
                return EventVerdict::Fail(trouble.render(self.slug, trouble.status(), Dialect::OpenAi));
            }
            "response.output_item.added" => {
                let kind = event.item.as_ref().and_then(|i| i.kind.as_ref()).map_or("", |k| &*k.0);
                if !matches!(kind, "message" | "reasoning") {
                    seen.begin();
                }
            }
            kind if kind.ends_with(".delta") && !speaks(event.delta) => {}
            _ => seen.begin(),
        }
        EventVerdict::Pass
    }
}

impl Grammar for ResponsesGrammar {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        if let Some((text, chars)) = string_after(event, &NAMES.delta).filter(|_| self.counts) {
            seen.said.push_escaped(text, chars);
        }
        if !seen.quiet() && Self::delta_only(event) {
            return EventVerdict::Text(Operation::Responses);
        }
        let Some(data) = sse::data(event).filter(|d| !d.trim_ascii().is_empty()) else { return EventVerdict::Pass };
        if data.trim_ascii() == b"[DONE]" {
            return if seen.failed.is_some() { EventVerdict::Hide } else { EventVerdict::Pass };
        }
        match read::<ResponsesStreamEvent<'_>>(&data) {
            Some(event) => self.take(&event, &data, seen),
            None if seen.quiet() && read::<IgnoredAny>(&data).is_none() => {
                EventVerdict::Fail(failure::unreadable(self.slug, "an event of the stream", &data, Dialect::OpenAi))
            }
            None => EventVerdict::Pass,
        }
    }

    fn counts_texts(&self) -> bool {
        self.counts
    }

    fn error(&self, failure: &Failure) -> Bytes {
        let t = ProviderError::read(&failure.body).unwrap_or_default();
        let event = json!({ "type": "error", "code": t.code, "message": t.message, "param": t.param });
        sse::event(Some("error"), event.to_string().as_bytes())
    }

    fn dialect(&self) -> Dialect {
        Dialect::OpenAi
    }
}
