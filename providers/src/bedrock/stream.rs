//! Streams of frames: read as steps for any client, or, where each frame wraps an event of Anthropic's for a client of
//! Anthropic's, unwrapped.

use super::errors::of_frame;
use crate::adapter::{Call, Ending, Failure, Progress, StreamTranslator};
use crate::anthropic;
use crate::failure;
use crate::frames::{Broken, Frame, FrameKind, Frames};
use crate::json_mode::{NoJson, PromisedJson};
use crate::sse;
use crate::tap::TextPlace;
use crate::translate::{EventError, EventReader, TranslatedStream};
use crate::wire::{JsonStr, read};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use gateway_domain::Dialect;
use serde::Deserialize;

pub(super) struct FrameStream<R> {
    slug: &'static str,
    dialect: Dialect,
    frames: Frames,
    reader: R,
    flow: TranslatedStream,
}

fn garbled(slug: &str, broken: Broken, dialect: Dialect) -> Failure {
    match broken {
        Broken::TooLarge => failure::oversized(slug, dialect),
        Broken::Garbled => failure::unreadable(slug, "a frame of the stream", b"a checksum does not fit", dialect),
    }
}

impl<R: EventReader> FrameStream<R> {
    pub(super) fn new(call: &Call<'_>, slug: &'static str, reader: R) -> Self {
        let flow = TranslatedStream::new(call, slug).holding_to(PromisedJson::of(call));
        Self { slug, dialect: call.dialect, frames: Frames::default(), reader, flow }
    }

    fn take(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), Failure> {
        let mut steps = Vec::with_capacity(4);
        let outcome = match frame.kind {
            FrameKind::Event => self.reader.named(&frame.name, &frame.payload, &mut steps),
            FrameKind::Exception | FrameKind::Error => Err(EventError::trouble(of_frame(frame))),
        };
        let written = self.flow.write(&steps, out);
        outcome.map_err(|bad| self.flow.failure(bad, &frame.payload))?;
        written.map_err(|NoJson| self.flow.no_json(&self.reader))
    }
}

impl<R: EventReader> StreamTranslator for FrameStream<R> {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        let mut out = BytesMut::with_capacity(chunk.len());
        self.flow.begin();
        // What follows the end, however broken, takes nothing back.
        if !self.flow.complete() {
            self.frames.push(&chunk);
        }
        while !self.flow.complete() {
            let outcome = match self.frames.next_frame() {
                Ok(None) => return Ok(out.freeze()),
                Ok(Some(frame)) => self.take(&frame, &mut out),
                Err(broken) => Err(garbled(self.slug, broken, self.dialect)),
            };
            if let Err(failure) = outcome {
                self.flow.hold(out);
                return Err(failure);
            }
        }
        Ok(out.freeze())
    }

    fn progress(&self) -> Progress {
        self.flow.progress()
    }

    fn finish(&mut self) -> Bytes {
        let (mut out, mut steps) = (BytesMut::new(), Vec::new());
        self.flow.begin();
        self.reader.close(&mut steps);
        if self.flow.write(&steps, &mut out).is_err() {
            let failure = self.flow.no_json(&self.reader);
            self.flow.hold(out);
            return self.flow.fail(&failure);
        }
        out.freeze()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        self.flow.abort(failure)
    }

    fn ending(&self) -> Ending {
        self.flow.ending(&self.reader)
    }

    fn said_chars(&self) -> u64 {
        self.flow.said_chars()
    }

    fn held(&self) -> usize {
        self.frames.held() + self.flow.held()
    }

    fn texts(&self) -> &[TextPlace] {
        self.flow.texts()
    }
}

#[derive(Deserialize)]
struct BedrockChunk<'a> {
    #[serde(borrow)]
    bytes: JsonStr<'a>,
}

/// What a frame of InvokeModel's stream wraps.
pub(super) fn unwrap(frame: &Frame) -> Option<Vec<u8>> {
    let chunk: BedrockChunk<'_> = read(&frame.payload)?;
    STANDARD.decode(chunk.bytes.0.as_bytes()).ok()
}

#[derive(Deserialize)]
struct EventTypeField<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
}

pub(super) struct Unwrapped {
    slug: &'static str,
    dialect: Dialect,
    frames: Frames,
    events: Box<dyn StreamTranslator>,
    /// Where texts stand in what the last push gave.
    texts: Vec<TextPlace>,
    /// Written by the push that ended in an error.
    due: BytesMut,
}

impl Unwrapped {
    pub(super) fn new(slug: &'static str, dialect: Dialect) -> Self {
        let events = anthropic::native::stream(slug);
        Self { slug, dialect, frames: Frames::default(), events, texts: Vec::new(), due: BytesMut::new() }
    }

    fn take(&mut self, frame: &Frame) -> Result<Bytes, Failure> {
        if frame.kind != FrameKind::Event {
            let trouble = of_frame(frame);
            return Err(trouble.render(self.slug, trouble.status(), self.dialect));
        }
        let unreadable = || failure::unreadable(self.slug, "an event of the stream", &frame.payload, self.dialect);
        let data = unwrap(frame).ok_or_else(unreadable)?;
        let name = read::<EventTypeField<'_>>(&data).ok_or_else(unreadable)?.kind.0;
        self.events.push(sse::event(Some(&name), &data))
    }
}

impl StreamTranslator for Unwrapped {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        let mut out = BytesMut::with_capacity(chunk.len());
        self.texts.clear();
        // What follows the end, however broken, takes nothing back.
        if self.events.progress() != Progress::Complete {
            self.frames.push(&chunk);
        }
        while self.events.progress() != Progress::Complete {
            let outcome = match self.frames.next_frame() {
                Ok(None) => return Ok(out.freeze()),
                Ok(Some(frame)) => self.take(&frame),
                Err(broken) => Err(garbled(self.slug, broken, self.dialect)),
            };
            match outcome {
                Ok(event) => {
                    self.texts.extend(self.events.texts().iter().map(|place| place.behind(out.len())));
                    out.extend_from_slice(&event);
                }
                Err(failure) => {
                    self.texts.clear();
                    self.due.unsplit(out);
                    return Err(failure);
                }
            }
        }
        Ok(out.freeze())
    }

    fn progress(&self) -> Progress {
        self.events.progress()
    }

    fn finish(&mut self) -> Bytes {
        self.texts.clear();
        self.events.finish()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        let mut out = std::mem::take(&mut self.due);
        out.extend_from_slice(&self.events.abort(failure));
        out.freeze()
    }

    fn ending(&self) -> Ending {
        self.events.ending()
    }

    fn said_chars(&self) -> u64 {
        self.events.said_chars()
    }

    fn held(&self) -> usize {
        self.frames.held() + self.events.held()
    }

    fn texts(&self) -> &[TextPlace] {
        &self.texts
    }
}
