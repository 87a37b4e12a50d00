//! Answers of providers with a dialect of their own, for whatever the client speaks. A provider brings an
//! [`EventReader`] that makes steps of its events; the rest (framing, errors, progress, the client's dialect) is the
//! same for all.

use crate::adapter::{Call, Ending, Failure, Progress, Reply, StreamTranslator};
use crate::answer::{ReplyCollector, ResponseEvent, StreamWriter};
use crate::convert::steps::from_chat::ChatReader;
use crate::convert::steps::from_messages::MessageReader;
use crate::failure::{self, ProviderError};
use crate::json_mode::{NoJson, PromisedJson};
use crate::passthrough::ReplyStreamState;
use crate::sse::{self, Framer};
use crate::tap::TextPlace;
use crate::wire::messages::MessagesResponse;
use crate::wire::read;
use bytes::{Bytes, BytesMut};
use gateway_domain::{Dialect, Operation, Usage};
use serde::de::IgnoredAny;

/// What stands in the way of an event.
#[derive(Debug)]
pub(crate) enum EventError {
    /// The provider says that it failed.
    ProviderError(Box<ProviderError>),
    /// It is not what the provider's API allows.
    Unreadable,
}

impl EventError {
    pub(crate) fn trouble(trouble: ProviderError) -> Self {
        Self::ProviderError(Box::new(trouble))
    }
}

/// Reads the events of one answer. Knows nothing of clients.
pub(crate) trait EventReader: Send {
    /// Adds the steps that one event's data stands for; events that mean nothing add none.
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError>;

    /// Adds the steps of an event whose name stands beside its data.
    fn named<'a>(&mut self, _name: &str, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        self.event(data, steps)
    }

    /// The upstream's body is over. A dialect without an end mark says here whether the answer was whole, with
    /// [`ResponseEvent::End`]; one with a mark has nothing to add.
    fn close(&mut self, _steps: &mut Vec<ResponseEvent<'static>>) {}

    /// The counts so far.
    fn usage(&self) -> Option<Usage>;
    /// Whether what was written is not among them yet: if it ends so, the rest is estimated.
    fn uncounted(&self) -> bool {
        false
    }
    /// The model as the provider names it.
    fn model(&self) -> Option<&str>;
}

/// What a stream does with steps, however its events are framed.
pub(crate) struct TranslatedStream {
    slug: &'static str,
    dialect: Dialect,
    writer: StreamWriter,
    seen: ReplyStreamState,
    /// Written by the push that ended in an error; it precedes the error if the client must be told after all.
    due: BytesMut,
    /// Where texts stand in what was written since the last push began.
    texts: Vec<TextPlace>,
    /// The text has to be JSON, which nobody but us sees to.
    promised: Option<PromisedJson>,
}

impl TranslatedStream {
    pub(crate) fn new(call: &Call<'_>, slug: &'static str) -> Self {
        let writer = StreamWriter::new(call, slug);
        let (seen, due) = (ReplyStreamState::new(), BytesMut::new());
        Self { slug, dialect: call.dialect, writer, seen, due, texts: Vec::new(), promised: None }
    }

    /// Holds the text to what the provider could not be asked to promise.
    #[must_use]
    pub(crate) fn holding_to(self, promised: Option<PromisedJson>) -> Self {
        Self { promised, ..self }
    }

    /// Bytes that it keeps until the end.
    pub(crate) fn held(&self) -> usize {
        self.promised.as_ref().map_or(0, PromisedJson::held)
    }

    pub(crate) fn complete(&self) -> bool {
        self.seen.progress == Progress::Complete
    }

    /// What is written from here on goes into a buffer of its own.
    pub(crate) fn begin(&mut self) {
        self.texts.clear();
    }

    pub(crate) fn texts(&self) -> &[TextPlace] {
        &self.texts
    }

    pub(crate) fn write(&mut self, steps: &[ResponseEvent<'_>], out: &mut BytesMut) -> Result<(), NoJson> {
        for step in steps {
            // After the end nothing can be said any more.
            if self.complete() {
                return Ok(());
            }
            if let Some(text) = step.said() {
                self.seen.said.push(text);
            }
            if let Some(promised) = &mut self.promised {
                if let Some(text) = promised.before(step)? {
                    self.put(&text, out);
                }
                if matches!(step, ResponseEvent::Text { .. }) {
                    continue;
                }
            }
            self.put(step, out);
        }
        Ok(())
    }

    fn put(&mut self, step: &ResponseEvent<'_>, out: &mut BytesMut) {
        if step.begins() {
            self.seen.begin();
        }
        if matches!(step, ResponseEvent::End { .. }) {
            self.seen.progress = Progress::Complete;
        }
        self.writer.write(step, out, &mut self.texts);
    }

    /// What the client must know of text that is not what was promised.
    pub(crate) fn no_json(&self, reader: &impl EventReader) -> Failure {
        failure::no_json(self.slug, reader.usage(), self.dialect)
    }

    /// What the client must know of an event that is none.
    pub(crate) fn failure(&self, bad: EventError, data: &[u8]) -> Failure {
        match bad {
            EventError::ProviderError(trouble) => trouble.render(self.slug, trouble.status(), self.dialect),
            EventError::Unreadable => failure::unreadable(self.slug, "an event of the stream", data, self.dialect),
        }
    }

    /// Keeps what was written until [`TranslatedStream::abort`], or until nobody wants it.
    pub(crate) fn hold(&mut self, out: BytesMut) {
        self.due.unsplit(out);
        self.texts.clear();
    }

    /// The last word of a stream whose upstream is over.
    pub(crate) fn fail(&mut self, failure: &Failure) -> Bytes {
        self.seen.failed = Some(failure.message.clone());
        self.abort(failure)
    }

    pub(crate) fn abort(&mut self, failure: &Failure) -> Bytes {
        let mut out = std::mem::take(&mut self.due);
        self.writer.abort(failure, &mut out);
        out.freeze()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.seen.progress
    }

    pub(crate) fn said_chars(&self) -> u64 {
        self.seen.said.chars()
    }

    pub(crate) fn ending(&self, reader: &impl EventReader) -> Ending {
        let (usage, uncounted) = (reader.usage(), reader.uncounted());
        Ending { usage, uncounted, model: reader.model().map(str::to_owned), ..self.seen.ending() }
    }
}

/// A stream of server-sent events.
pub(crate) struct Stream<R> {
    framer: Framer,
    reader: R,
    flow: TranslatedStream,
}

impl<R: EventReader> Stream<R> {
    pub(crate) fn new(call: &Call<'_>, slug: &'static str, reader: R) -> Self {
        Self { framer: Framer::default(), reader, flow: TranslatedStream::new(call, slug) }
    }

    /// See [`TranslatedStream::holding_to`].
    #[must_use]
    pub(crate) fn holding_to(self, promised: Option<PromisedJson>) -> Self {
        Self { flow: self.flow.holding_to(promised), ..self }
    }

    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::with_capacity(whole.len());
        self.flow.begin();
        for event in sse::events(whole) {
            // What follows the end, however broken, takes nothing back.
            if self.flow.complete() {
                break;
            }
            let Some(data) = sse::data(event).filter(|data| !data.trim_ascii().is_empty()) else { continue };
            let mut steps = Vec::with_capacity(4);
            let outcome = self.reader.event(&data, &mut steps);
            let written = self.flow.write(&steps, &mut out);
            let failed = match (outcome, written) {
                (Err(bad), _) => self.flow.failure(bad, &data),
                (_, Err(NoJson)) => self.flow.no_json(&self.reader),
                (Ok(()), Ok(())) => continue,
            };
            self.flow.hold(out);
            return Err(failed);
        }
        Ok(out.freeze())
    }
}

impl<R: EventReader> StreamTranslator for Stream<R> {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(self.flow.slug, self.flow.dialect)),
        }
    }

    fn progress(&self) -> Progress {
        self.flow.progress()
    }

    fn finish(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        self.flow.begin();
        let whole = |data: &[u8]| data == b"[DONE]" || read::<IgnoredAny>(data).is_some();
        if let Some(last) = self.framer.last(whole) {
            match self.read(&last) {
                Ok(last) => out.extend_from_slice(&last),
                Err(failure) => return self.flow.fail(&failure),
            }
        }
        let mut steps = Vec::new();
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
        self.framer.held() + self.flow.held()
    }

    fn texts(&self) -> &[TextPlace] {
        self.flow.texts()
    }
}

/// A whole answer in the client's dialect as the stream that was asked for: some servers do not stream. `None`: of such
/// an answer no stream can be made.
pub fn streamed(call: &Call<'_>, slug: &'static str, body: &[u8]) -> Option<Bytes> {
    let mut steps = Vec::with_capacity(8);
    let message;
    match call.operation {
        Operation::ChatCompletions => ChatReader::default().completion(body, &mut steps).ok()?,
        Operation::Messages => {
            message = read::<MessagesResponse<'_>>(body)?;
            MessageReader::default().message(&message, &mut steps);
        }
        _ => return None,
    }
    let (mut writer, mut out) = (StreamWriter::new(call, slug), BytesMut::with_capacity(body.len() * 2));
    let mut texts = Vec::new();
    steps.iter().for_each(|step| writer.write(step, &mut out, &mut texts));
    Some(out.freeze())
}

/// A whole answer of a provider that could not be asked to promise JSON, where the client was promised it.
pub(crate) fn whole_as_promised(
    call: &Call<'_>,
    slug: &'static str,
    reader: &impl EventReader,
    steps: &[ResponseEvent<'_>],
) -> Result<Reply, Failure> {
    let Some(mut promised) = PromisedJson::of(call) else { return Ok(whole(call, slug, reader, steps)) };
    let mut collected = ReplyCollector::new(call, slug);
    for step in steps {
        match promised.before(step) {
            Ok(text) => text.iter().for_each(|text| collected.take(text)),
            Err(NoJson) => return Err(failure::no_json(slug, reader.usage(), call.dialect)),
        }
        if !matches!(step, ResponseEvent::Text { .. }) {
            collected.take(step);
        }
    }
    Ok(Reply { body: collected.write(), usage: reader.usage(), model: reader.model().map(str::to_owned) })
}

/// A whole answer from the steps that it stands for.
pub(crate) fn whole(
    call: &Call<'_>,
    slug: &'static str,
    reader: &impl EventReader,
    steps: &[ResponseEvent<'_>],
) -> Reply {
    let mut whole = ReplyCollector::new(call, slug);
    steps.iter().for_each(|step| whole.take(step));
    Reply { body: whole.write(), usage: reader.usage(), model: reader.model().map(str::to_owned) }
}
