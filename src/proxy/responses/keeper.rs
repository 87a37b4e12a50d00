//! Keeps a response on its way to the client, as the client has it: behind guardrails, and before its last bytes go
//! down, so that who has them can go on from it at once. Knows where a stream tells of the whole, and nothing else of
//! its events.

use super::{owner, recall};
use crate::kept_responses::{KeptResponse, KeptResponses, ResponseOwner};
use crate::proxy::request::Request;
use bytes::{Bytes, BytesMut};
use gateway_domain::Timestamp;
use gateway_domain::kept::{self, BoundId};
use gateway_domain::ports::IdSeal;
use gateway_providers::MadeId;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The events that hold a whole response which came to its end. A text holds no such bytes: JSON escapes ends of lines.
const ENDS: [&[u8]; 2] = [b"event: response.completed\ndata: ", b"event: response.incomplete\ndata: "];

/// What a response is kept with.
pub(crate) struct KeptFrom<'a> {
    pub(crate) kept: &'a Arc<KeptResponses>,
    pub(crate) ids: &'a Arc<dyn IdSeal>,
    /// The body that went to the provider's translator.
    pub(crate) asked: &'a Bytes,
}

/// Keeps one answer while it goes down.
pub(crate) struct ResponseKeeper {
    kept: Arc<KeptResponses>,
    ids: Arc<dyn IdSeal>,
    owner: ResponseOwner,
    asked: Bytes,
    now: Timestamp,
    /// What of a stream may be, or is, the event of its end.
    seen: BytesMut,
    stage: EventStage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EventStage {
    Searching,
    /// The event has begun.
    Reading,
    Done,
}

#[derive(Deserialize)]
struct EndEvent<'a> {
    #[serde(borrow)]
    response: &'a RawValue,
}

#[derive(Deserialize)]
struct ToldResponse<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(default)]
    store: bool,
}

impl fmt::Debug for ResponseKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseKeeper").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl ResponseKeeper {
    pub(crate) fn new(from: &KeptFrom<'_>, request: &Request) -> Box<Self> {
        let KeptFrom { kept, ids, asked } = *from;
        let (owner, asked, now) = (owner(request), asked.clone(), request.now());
        let (seen, stage) = (BytesMut::new(), EventStage::Searching);
        Box::new(Self { kept: kept.clone(), ids: ids.clone(), owner, asked, now, seen, stage })
    }

    /// A response in one piece.
    pub(crate) async fn whole(&mut self, response: &Bytes) {
        let Ok(told) = serde_json::from_slice::<ToldResponse<'_>>(response) else { return };
        let Some(stem) = self.stem(&told.id).filter(|_| told.store) else { return };
        let Some(input) = recall::asked_with(&self.asked) else { return };
        let response = KeptResponse::new(input, response.clone());
        self.kept.keep(self.owner, &stem, response, self.now).await;
    }

    /// A piece of a streamed one.
    pub(crate) async fn piece(&mut self, bytes: &Bytes) {
        if let Some(event) = self.read(bytes) {
            let Ok(EndEvent { response }) = serde_json::from_slice(&event) else { return };
            let whole = event.slice_ref(response.get().as_bytes());
            self.whole(&whole).await;
        }
    }

    /// The data of the event of the end, once it is there.
    fn read(&mut self, bytes: &Bytes) -> Option<Bytes> {
        if self.stage == EventStage::Done {
            return None;
        }
        self.seen.extend_from_slice(bytes);
        if self.stage == EventStage::Searching {
            let found = ENDS.iter().find_map(|end| memmem::find(&self.seen, end).map(|at| at + end.len()));
            match found {
                Some(begin) => {
                    drop(self.seen.split_to(begin));
                    self.stage = EventStage::Reading;
                }
                None => {
                    let longest = ENDS.iter().map(|end| end.len()).max().unwrap_or_default();
                    drop(self.seen.split_to(self.seen.len().saturating_sub(longest - 1)));
                    return None;
                }
            }
        }
        let end = memmem::find(&self.seen, b"\n\n");
        if end.is_some() || self.seen.len() > self.kept.largest() {
            self.stage = EventStage::Done;
        }
        end.map(|end| std::mem::take(&mut self.seen).freeze().slice(..end))
    }

    /// What the response's id and those of its items have in common; clients may have them bound to a provider.
    fn stem(&self, id: &str) -> Option<String> {
        let native = match kept::sealed_part(id) {
            Some((_, sealed)) => Cow::Owned(BoundId::read(&self.ids.open(sealed)?)?.native),
            None => Cow::Borrowed(id),
        };
        Some(MadeId::read(&native)?.stem.to_owned())
    }
}
