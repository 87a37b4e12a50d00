//! Streams of pictures, of speech and of transcripts: events of data alone that pass as they are and end with one that
//! tells the usage, with no mark behind it. Where speech was asked for in events only to learn what it cost, its sound
//! is taken out of them.

use super::reply::pictured;
use super::{audio, vectors};
use crate::adapter::{Call, Ending, Failure, Progress, StreamTranslator};
use crate::audio_duration::PassingSound;
use crate::failure::{self, ProviderError};
use crate::passthrough::{EventVerdict, Grammar, Passthrough, ReplyStreamState};
use crate::sse::{self, Framer};
use crate::wire::usage::{OpenAiUsage, filter_reported_cost};
use crate::wire::{JsonStr, read, speaks};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use gateway_domain::usage::{PictureSize, UsageDetail};
use gateway_domain::{Dialect, Operation, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct AreaEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    svg_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<JsonStr<'a>>,
    #[serde(borrow)]
    quality: Option<JsonStr<'a>>,
    #[serde(borrow)]
    size: Option<JsonStr<'a>>,
}

impl AreaEvent<'_> {
    fn usage(&self, slug: &str, operation: Operation) -> Option<Usage> {
        let usage = self.usage.and_then(|raw| read::<OpenAiUsage>(raw.get().as_bytes()));
        let text = |text: &Option<JsonStr<'_>>| text.as_ref().map(|text| text.0.to_string()).unwrap_or_default();
        match operation {
            Operation::ImagesGenerate | Operation::ImagesEdit | Operation::ImagesVary => {
                let pictured = pictured(usage, 1, &text(&self.quality), &text(&self.size));
                filter_reported_cost(slug, vectors::charged(slug, pictured, self.svg_usage))
            }
            Operation::Speech => filter_reported_cost(slug, usage.and_then(|usage| usage.of_speech())),
            _ => filter_reported_cost(slug, usage.and_then(|usage| usage.split())),
        }
    }

    /// What a picture comes to of which a part was seen, should nobody tell: its tokens as OpenAI counts them for a
    /// square of 1,024 (<https://developers.openai.com/api/docs/guides/image-generation>), and for others by their
    /// area.
    fn begun_picture(&self) -> Usage {
        let text = |text: &Option<JsonStr<'_>>| text.as_ref().map(|text| text.0.to_string()).unwrap_or_default();
        let of_square = match &*text(&self.quality) {
            "low" => 272,
            "medium" => 1_056,
            _ => 4_160,
        };
        let size = PictureSize::named("", &text(&self.size));
        let area = u64::from(size.width) * u64::from(size.height);
        let output = if area == 0 { of_square } else { (of_square * area).div_ceil(1 << 20) };
        let image_out = u32::try_from(output).unwrap_or(u32::MAX);
        let detail = UsageDetail { image_out, ..UsageDetail::default() };
        Usage { output, estimated: true, detail, ..Usage::default() }
    }

    /// The one that ends the stream.
    fn ends(&self) -> bool {
        let kind = self.kind.as_ref().map_or("", |kind| &*kind.0);
        matches!(
            kind,
            "image_generation.completed" | "image_edit.completed" | "speech.audio.done" | "transcript.text.done"
        )
    }
}

/// How such streams are read.
pub(crate) struct AreaGrammar {
    slug: &'static str,
    operation: Operation,
    /// What was heard, where no event tells it.
    heard: Option<Usage>,
    /// Usage of the pictures that are complete: the end event of each one tells its own.
    drawn: Option<Usage>,
}

impl AreaGrammar {
    fn new(slug: &'static str, call: &Call<'_>) -> Self {
        let hears = matches!(call.operation, Operation::Transcription | Operation::Translation);
        Self { slug, operation: call.operation, heard: hears.then(|| audio::heard(call)).flatten(), drawn: None }
    }

    fn take(&mut self, event: &AreaEvent<'_>, data: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let kind = event.kind.as_ref().map_or("", |kind| &*kind.0);
        if kind == "error" || speaks(event.error) {
            let trouble = ProviderError::read(data).unwrap_or_default();
            return EventVerdict::Fail(trouble.render(self.slug, trouble.status(), Dialect::OpenAi));
        }
        seen.begin();
        // What was heard was heard, and what was drawn was drawn, should the stream end before it tells so.
        seen.usage = seen.usage.or(self.heard);
        let added = |drawn: Option<Usage>, usage: Usage| drawn.map_or(usage, |drawn| drawn.plus(usage));
        if kind.ends_with(".partial_image") {
            seen.usage = Some(added(self.drawn, event.begun_picture()));
        }
        if event.ends() {
            let usage = event.usage(self.slug, self.operation);
            if kind.starts_with("image_") {
                self.drawn = usage.map(|usage| added(self.drawn, usage)).or(self.drawn);
                seen.usage = self.drawn;
            } else {
                seen.usage = usage.or(seen.usage);
            }
            seen.progress = Progress::Complete;
        }
        EventVerdict::Pass
    }
}

/// The event that tells clients of these streams of an error.
pub(crate) fn error_event(failure: &Failure) -> Bytes {
    let t = ProviderError::read(&failure.body).unwrap_or_default();
    let error = json!({ "message": t.message, "type": t.kind, "param": t.param, "code": t.code });
    sse::event(Some("error"), json!({ "type": "error", "error": error }).to_string().as_bytes())
}

impl Grammar for AreaGrammar {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict {
        let Some(data) = sse::data(event).filter(|data| !data.trim_ascii().is_empty()) else {
            return EventVerdict::Pass;
        };
        // Some servers end as chat does.
        if data.trim_ascii() == b"[DONE]" {
            seen.progress = Progress::Complete;
            seen.usage = seen.usage.or(self.heard);
            return EventVerdict::Pass;
        }
        match read::<AreaEvent<'_>>(&data) {
            Some(event) => self.take(&event, &data, seen),
            None if seen.quiet() && read::<IgnoredAny>(&data).is_none() => {
                EventVerdict::Fail(failure::unreadable(self.slug, "an event of the stream", &data, Dialect::OpenAi))
            }
            None => EventVerdict::Pass,
        }
    }

    fn error(&self, failure: &Failure) -> Bytes {
        error_event(failure)
    }

    fn dialect(&self) -> Dialect {
        Dialect::OpenAi
    }
}

pub(crate) fn stream(slug: &'static str, call: &Call<'_>) -> Passthrough<AreaGrammar> {
    Passthrough::new(slug, AreaGrammar::new(slug, call))
}

/// The sound of `speech.audio.delta` events, as bytes.
pub(crate) struct SpokenBytes {
    slug: &'static str,
    framer: Framer,
    seen: ReplyStreamState,
    /// What the client asked for.
    media: &'static str,
    sound: PassingSound,
}

impl SpokenBytes {
    pub(crate) fn new(slug: &'static str, media: &'static str) -> Self {
        Self { slug, framer: Framer::default(), seen: ReplyStreamState::new(), media, sound: PassingSound::default() }
    }

    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        for event in sse::events(whole) {
            let Some(data) = sse::data(event).filter(|data| !data.trim_ascii().is_empty()) else { continue };
            let unreadable = || failure::unreadable(self.slug, "an event of the stream", b"(sound)", Dialect::OpenAi);
            if data.trim_ascii() == b"[DONE]" {
                continue;
            }
            let event: AreaEvent<'_> = read(&data).ok_or_else(unreadable)?;
            if speaks(event.error) {
                let trouble = ProviderError::read(&data).unwrap_or_default();
                return Err(trouble.render(self.slug, trouble.status(), Dialect::OpenAi));
            }
            if let Some(audio) = &event.audio {
                let sound = STANDARD.decode(audio.0.as_bytes()).map_err(|_| unreadable())?;
                out.extend_from_slice(&sound);
                self.sound.push(&sound);
                self.seen.begin();
            }
            if event.ends() {
                self.seen.usage = event.usage(self.slug, Operation::Speech);
                self.seen.progress = Progress::Complete;
            }
        }
        Ok(out.freeze())
    }
}

impl StreamTranslator for SpokenBytes {
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
        let last = last.map(|last| self.read(&last));
        match last {
            Some(Err(failure)) => {
                self.seen.failed = Some(failure.message);
                Bytes::new()
            }
            Some(Ok(bytes)) => bytes,
            None => Bytes::new(),
        }
    }

    /// Nothing can be said in the middle of a sound.
    fn abort(&mut self, _failure: &Failure) -> Bytes {
        Bytes::new()
    }

    fn has_error_events(&self) -> bool {
        false
    }

    /// A stream that ends before it tells what it used was made, and heard, all the same.
    fn ending(&self) -> Ending {
        let ending = self.seen.ending();
        Ending { usage: ending.usage.or_else(|| audio::made(self.sound.millis(self.media))), ..ending }
    }

    fn said_chars(&self) -> u64 {
        0
    }

    fn held(&self) -> usize {
        self.framer.held()
    }
}
