//! Anthropic's Messages for clients that speak them: bytes pass, only the model is changed. Serves every provider
//! that has `/messages`, so the slug is an argument.

use super::VERSION;
use crate::adapter::{Call, Endpoint, Failure, Progress, ProviderRequest, Reply, StreamTranslator};
use crate::compat::scan::string_after;
use crate::compat::without_json;
use crate::failure::{self, ProviderError};
use crate::model;
use crate::passthrough::{EventVerdict, Grammar, Passthrough, ReplyStreamState};
use crate::sse;
use crate::tokens::StreamedText;
use crate::wire::messages::{MessagesBlock, MessagesDelta, MessagesEvent};
use crate::wire::usage::AnthropicUsage;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, Operation};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::LazyLock;

fn path(operation: Operation) -> &'static str {
    if operation == Operation::CountTokens { "/messages/count_tokens" } else { "/messages" }
}

#[expect(clippy::unnecessary_wraps, reason = "one arm of Adapter::endpoint")]
pub(crate) fn endpoint(operation: Operation) -> Option<Endpoint> {
    Some(Endpoint { path: Cow::Borrowed(path(operation)), headers: VERSION })
}

pub(crate) fn request(call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let body = model::replaced(call, model::changed(call, call.model)?, "")?;
    // The SDK's beta calls say `?beta=true`.
    let path = call.query.map(|query| format!("{}?{query}", path(call.operation)));
    Ok(ProviderRequest { path, headers: Vec::new(), body, adjusted: Vec::new() })
}

#[derive(Deserialize)]
struct AnthropicReplySummary<'a> {
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    usage: Option<AnthropicUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub(crate) fn response(slug: &str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let answer = read::<AnthropicReplySummary<'_>>(body).filter(|_| body.trim_ascii_start().starts_with(b"{"));
    let answer = answer.ok_or_else(|| failure::unreadable(slug, "the answer", body, Dialect::Anthropic))?;
    if answer.error.is_some() {
        let trouble = ProviderError::read(body).unwrap_or_default();
        return Err(trouble.verbatim(trouble.status(), body.clone()));
    }
    let usage = answer.usage.filter(|_| call.operation == Operation::Messages).and_then(|u| u.split());
    Ok(Reply { body: body.clone(), usage, model: answer.model.map(|m| m.0.into_owned()) })
}

pub(crate) fn failure(slug: &str, status: u16, body: &Bytes) -> Failure {
    #[derive(Deserialize)]
    struct AnthropicErrorProbe {
        #[serde(rename = "type")]
        kind: String,
        #[serde(rename = "error")]
        _error: IgnoredAny,
    }
    match ProviderError::read(body) {
        Some(trouble) if read::<AnthropicErrorProbe>(body).is_some_and(|s| s.kind == "error") => {
            trouble.verbatim(status, body.clone())
        }
        Some(trouble) => trouble.render(slug, status, Dialect::Anthropic),
        None => without_json(slug, status, body, Dialect::Anthropic),
    }
}

pub(crate) fn stream(slug: &'static str) -> Box<dyn StreamTranslator> {
    Box::new(Passthrough::new(slug, MessagesGrammar { slug, ..MessagesGrammar::default() }))
}

static SAID: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| [Finder::new("\"text\""), Finder::new("\"thinking\""), Finder::new("\"partial_json\"")]);

#[derive(Default)]
struct MessagesGrammar {
    slug: &'static str,
    usage: AnthropicUsage,
    counted: bool,
}

impl MessagesGrammar {
    fn hear(event: &[u8], said: &mut StreamedText) {
        if let Some((text, chars)) = SAID.iter().find_map(|key| string_after(event, key)) {
            said.push_escaped(text, chars);
        }
    }

    fn take(&mut self, event: MessagesEvent<'_>, data: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        match &*event.kind.0 {
            "message_start" => {
                if let Some(message) = event.message {
                    seen.model = message.model.map(|m| m.0.into_owned());
                    self.usage.update(&message.usage.unwrap_or_default());
                }
            }
            "content_block_start" => {
                let block = event.content_block.and_then(|raw| read::<MessagesBlock<'_>>(raw.get().as_bytes()));
                let said = |text: Option<JsonStr<'_>>| text.is_some_and(|t| !t.0.is_empty());
                if block.is_some_and(|b| match &*b.kind.0 {
                    "text" | "thinking" => said(b.text) || said(b.thinking),
                    kind => kind != "redacted_thinking",
                }) {
                    seen.begin();
                }
            }
            "content_block_delta" => {
                let delta = event.delta.and_then(|raw| read::<MessagesDelta<'_>>(raw.get().as_bytes()));
                let said = |text: Option<JsonStr<'_>>| text.is_some_and(|t| !t.0.is_empty());
                if delta.is_some_and(|d| said(d.text) || said(d.thinking) || said(d.partial_json)) {
                    seen.begin();
                }
            }
            "message_delta" => {
                let delta = event.delta.and_then(|raw| read::<MessagesDelta<'_>>(raw.get().as_bytes()));
                if delta.is_some_and(|d| d.stop_reason.is_some()) {
                    seen.begin();
                }
                if let Some(usage) = &event.usage {
                    self.usage.update(usage);
                    self.counted = true;
                }
            }
            // A message that failed on its way has no clean end.
            "message_stop" if seen.failed.is_some() => return EventVerdict::Hide,
            "message_stop" => seen.progress = Progress::Complete,
            "error" => {
                let trouble = ProviderError::read(data).unwrap_or_default();
                return EventVerdict::Fail(trouble.verbatim(trouble.status(), Bytes::copy_from_slice(data)));
            }
            _ => {}
        }
        EventVerdict::Pass
    }
}

impl Grammar for MessagesGrammar {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let delta = event.starts_with(b"event: content_block_delta");
        let verdict = if delta && !seen.quiet() {
            EventVerdict::Pass
        } else {
            let Some(data) = sse::data(event).filter(|d| !d.trim_ascii().is_empty()) else { return EventVerdict::Pass };
            match read::<MessagesEvent<'_>>(&data) {
                Some(event) => self.take(event, &data, seen),
                None if seen.quiet() && read::<IgnoredAny>(&data).is_none() => {
                    return EventVerdict::Fail(failure::unreadable(
                        self.slug,
                        "an event of the stream",
                        &data,
                        Dialect::Anthropic,
                    ));
                }
                None => EventVerdict::Pass,
            }
        };
        if delta {
            Self::hear(event, &mut seen.said);
        }
        seen.usage = self.usage.split();
        seen.uncounted = !self.counted;
        match verdict {
            EventVerdict::Pass if delta => EventVerdict::Text(Operation::Messages),
            verdict => verdict,
        }
    }

    fn error(&self, failure: &Failure) -> Bytes {
        sse::event(Some("error"), &failure.body)
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }
}
