//! Usage of answers that are passed on untouched: read beside the bytes, never from changed ones.

use super::event_budget::Accounted;
use super::outcome::{media_of, tokens_of};
use crate::proxy::body::{BufferBudget, Permit};
use crate::proxy::call::raw_call;
use crate::proxy::request::Request;
use crate::upstream::http1::ResponseHead;
use bytes::{Bytes, BytesMut};
use gateway_domain::{Operation, Usage};
use gateway_providers::frames::MEDIA_TYPE;
use gateway_providers::{Adapter as _, EndedRun, Ending, PassingSound, Raw, StreamTranslator};
use http::header;
use std::sync::Arc;

/// An answer larger than this is passed on without being looked into.
const MOST_SEEN: usize = 4 << 20;
/// One that is kept beside its way above this is taken from the budget, and not looked into where that has no room.
const MOST_FREE: usize = 64 * 1024;

pub(crate) enum Meter {
    Stream(Box<dyn StreamTranslator>),
    Whole {
        adapter: Raw<'static>,
        seen: BytesMut,
        held: Option<Permit>,
    },
    /// An answer that is sound, with its media type and what was seen of its length.
    Sound(&'static str, PassingSound),
    /// Not JSON, not a stream of events, no sound, compressed, or too large.
    Blind,
    /// A stream whose events make no sense: nobody can say whether it came to its end.
    Lost,
}

/// What the provider told.
#[derive(Default)]
pub(crate) struct MeterReading {
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) run: Option<Box<EndedRun>>,
}

impl Meter {
    pub(crate) fn new(
        adapter: Raw<'static>,
        request: &Request,
        head: &ResponseHead,
        budget: &Arc<BufferBudget>,
    ) -> Self {
        let headers = head.headers();
        let plain = !headers.contains_key(header::CONTENT_ENCODING);
        let media = media_of(headers);
        if !plain || !(200..300).contains(&head.status()) {
            Self::Blind
        } else if media.starts_with(b"text/event-stream") || media.starts_with(MEDIA_TYPE.as_bytes()) {
            Self::Stream(Accounted::new(adapter.stream(&raw_call(request)), budget, request.ask.route.dialect))
        } else if media.starts_with(b"application/json") {
            Self::Whole { adapter, seen: BytesMut::new(), held: None }
        } else if request.ask.route.asked() == Operation::Speech {
            Self::Sound(usual_media(&media), PassingSound::default())
        } else {
            Self::Blind
        }
    }

    pub(crate) fn see(&mut self, piece: &Bytes, budget: &Arc<BufferBudget>) {
        let keep = match self {
            Self::Stream(stream) => stream.push(piece.clone()).is_ok(),
            Self::Whole { seen, held, .. } => {
                let total = seen.len() + piece.len();
                let mut fits = || held.get_or_insert_with(|| Permit::new(budget)).grow_to(total).is_ok();
                let keep = total <= MOST_FREE || (total <= MOST_SEEN && fits());
                if keep {
                    seen.extend_from_slice(piece);
                }
                keep
            }
            Self::Sound(_, sound) => {
                sound.push(piece);
                true
            }
            Self::Blind | Self::Lost => true,
        };
        if !keep {
            *self = if matches!(self, Self::Stream(_)) { Self::Lost } else { Self::Blind };
        }
    }

    /// Tokens of a stream's answer so far.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Stream(stream) => tokens_of(&**stream),
            Self::Whole { .. } | Self::Sound(..) | Self::Blind | Self::Lost => 0,
        }
    }

    /// Whether a body that came to its end is the whole answer: of a stream only when its dialect said so.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Stream(stream) => {
                let ending = stream.ending();
                ending.complete && ending.failed.is_none()
            }
            Self::Whole { .. } | Self::Sound(..) | Self::Blind => true,
            Self::Lost => false,
        }
    }

    pub(crate) fn read(self, request: &Request) -> MeterReading {
        match self {
            Self::Stream(stream) => {
                let Ending { usage, model, run, .. } = stream.ending();
                MeterReading { usage, model, run }
            }
            Self::Whole { adapter, seen, held: _ } => {
                let reply = adapter.response(&raw_call(request), &seen.freeze()).ok();
                reply.map_or_else(MeterReading::default, |reply| MeterReading {
                    usage: reply.usage,
                    model: reply.model,
                    run: None,
                })
            }
            Self::Sound(media, sound) => {
                MeterReading { usage: gateway_providers::made(sound.millis(media)), ..MeterReading::default() }
            }
            Self::Blind | Self::Lost => MeterReading::default(),
        }
    }
}

/// Kinds of sound whose usual rates differ.
fn usual_media(media: &[u8]) -> &'static str {
    let known = ["audio/mpeg", "audio/mp3", "audio/aac", "audio/opus", "audio/ogg", "audio/flac"];
    known.into_iter().find(|known| media.starts_with(known.as_bytes())).unwrap_or("audio/pcm")
}
