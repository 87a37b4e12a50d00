//! Answers of Anthropic's for a client of OpenAI's chat completions, whole and streamed.

use super::SLUG;
use crate::adapter::{Call, Ending, Failure, Progress, Reply, StreamTranslator};
use crate::answer::{ChunkWriter, Completion, Frame, Step};
use crate::convert::chat::from_messages::Reader;
use crate::failure::{self, Trouble};
use crate::passthrough::Seen;
use crate::sse::{self, Framer};
use crate::wire::messages::{Event, Message};
use crate::wire::read;
use bytes::{Bytes, BytesMut};
use gateway_domain::Dialect;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

fn frame(call: &Call<'_>) -> Frame {
    Frame { provider: SLUG, now_ms: call.now_ms, strict: call.strict, wants_usage: call.wants_usage }
}

/// What tells a message from an error or from something else.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(rename = "content")]
    _content: Option<Vec<IgnoredAny>>,
}

pub(super) fn response(call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let shape = read::<Shape<'_>>(body);
    if shape.as_ref().is_some_and(|s| s.error.is_some()) {
        let trouble = Trouble::read(body).unwrap_or_default();
        return Err(trouble.tell(SLUG, trouble.status(), Dialect::OpenAi));
    }
    let message = shape.filter(|s| s._content.is_some()).and_then(|_| read::<Message<'_>>(body));
    let Some(message) = message else { return Err(failure::unreadable(SLUG, "the answer", body, Dialect::OpenAi)) };
    let (mut reader, mut steps) = (Reader::default(), Vec::with_capacity(8));
    reader.message(&message, &mut steps);
    let mut completion = Completion::new(frame(call));
    steps.iter().for_each(|step| completion.take(step));
    let model = reader.model().map(str::to_owned);
    Ok(Reply { body: completion.write(), usage: reader.usage(0), model })
}

pub(super) struct Stream {
    framer: Framer,
    reader: Reader,
    writer: ChunkWriter,
    seen: Seen,
    /// Chunks made by the push that ended in an error; they precede it if the client must be told after all.
    due: BytesMut,
}

impl Stream {
    pub(super) fn new(call: &Call<'_>) -> Self {
        let writer = ChunkWriter::new(frame(call));
        Self { framer: Framer::default(), reader: Reader::default(), writer, seen: Seen::new(), due: BytesMut::new() }
    }

    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::with_capacity(whole.len());
        for event in sse::events(whole) {
            if let Err(failure) = self.event(event, &mut out) {
                self.due = out;
                return Err(failure);
            }
        }
        Ok(out.freeze())
    }

    fn event(&mut self, event: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
        let Some(data) = sse::data(event).filter(|data| !data.trim_ascii().is_empty()) else { return Ok(()) };
        let unreadable = || failure::unreadable(SLUG, "an event of the stream", &data, Dialect::OpenAi);
        let event = read::<Event<'_>>(&data).ok_or_else(unreadable)?;
        if event.kind.0 == "error" {
            let trouble = Trouble::read(&data).unwrap_or_default();
            return Err(trouble.tell(SLUG, trouble.status(), Dialect::OpenAi));
        }
        // After the end nothing can be said any more.
        if self.seen.progress == Progress::Complete {
            return Ok(());
        }
        let mut steps = Vec::with_capacity(2);
        self.reader.event(event, &mut steps);
        for step in &steps {
            self.seen.content_chars += step.chars();
            if step.begins() {
                self.seen.begin();
            }
            if matches!(step, Step::Finish { .. }) {
                self.seen.progress = Progress::Complete;
            }
            self.writer.write(step, out);
        }
        Ok(())
    }
}

impl StreamTranslator for Stream {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(SLUG, Dialect::OpenAi)),
        }
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    fn finish(&mut self) -> Bytes {
        let Some(last) = self.framer.last(|data| read::<IgnoredAny>(data).is_some()) else { return Bytes::new() };
        self.read(&last).unwrap_or_else(|failure| {
            self.seen.failed = Some(failure.message);
            Bytes::new()
        })
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        let mut out = std::mem::take(&mut self.due);
        out.extend_from_slice(&sse::event(None, &failure.body));
        out.freeze()
    }

    fn ending(&self) -> Ending {
        Ending {
            usage: self.reader.usage(self.seen.content_chars),
            model: self.reader.model().map(str::to_owned),
            ..self.seen.ending()
        }
    }
}
