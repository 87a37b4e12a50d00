//! Events of a provider's own, told to the client one by one in OpenAI's words.

use crate::adapter::{Ending, Failure, Progress, StreamTranslator};
use crate::compat::area_events::error_event;
use crate::failure::{self, ProviderError};
use crate::passthrough::ReplyStreamState;
use crate::sse::{self, Framer};
use crate::wire::read;
use bytes::{Bytes, BytesMut};
use gateway_domain::{Dialect, Usage};
use serde::de::IgnoredAny;
use serde_json::Value;

/// What becomes of one event.
#[derive(Debug, Default)]
pub(super) struct MappedEvent {
    /// `None`: clients know nothing of the kind.
    pub(super) told: Option<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) is_last: bool,
}

pub(super) struct MappedStream {
    slug: &'static str,
    framer: Framer,
    seen: ReplyStreamState,
    map: fn(&Value) -> MappedEvent,
}

impl MappedStream {
    pub(super) fn new(slug: &'static str, map: fn(&Value) -> MappedEvent) -> Self {
        Self { slug, framer: Framer::default(), seen: ReplyStreamState::new(), map }
    }

    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        for event in sse::events(whole) {
            let Some(data) = sse::data(event).filter(|data| !data.trim_ascii().is_empty()) else { continue };
            if data.trim_ascii() == b"[DONE]" {
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Value>(&data) else {
                return Err(failure::unreadable(self.slug, "an event of the stream", &data, Dialect::OpenAi));
            };
            if event["type"] == "error" || event["error"].is_object() {
                let trouble = ProviderError::read(&data).unwrap_or_default();
                return Err(trouble.render(self.slug, trouble.status(), Dialect::OpenAi));
            }
            let MappedEvent { told, usage, is_last } = (self.map)(&event);
            if let Some(told) = told {
                self.seen.begin();
                out.extend_from_slice(&sse::event(None, told.to_string().as_bytes()));
            }
            self.seen.usage = usage.or(self.seen.usage);
            if is_last {
                self.seen.progress = Progress::Complete;
            }
        }
        Ok(out.freeze())
    }
}

impl StreamTranslator for MappedStream {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(self.slug, Dialect::OpenAi)),
        }
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    fn finish(&mut self) -> Bytes {
        let last = self.framer.last(|data| read::<IgnoredAny>(data).is_some());
        last.map(|last| self.read(&last)).and_then(Result::ok).unwrap_or_default()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        error_event(failure)
    }

    fn ending(&self) -> Ending {
        self.seen.ending()
    }

    fn said_chars(&self) -> u64 {
        0
    }

    fn held(&self) -> usize {
        self.framer.held()
    }
}
