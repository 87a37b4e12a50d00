//! Streams whose client speaks what the provider speaks: events go through as the bytes that came in, while a
//! [`Grammar`] reads off progress, usage and errors. Nothing is copied unless an event is hidden or comes in parts.

use crate::adapter::{Ending, Failure, Progress, StreamTranslator};
use crate::failure;
use crate::sse::{self, Framer};
use crate::tap::repeated_events::{Fit, Shapes};
use crate::tap::{self, TextPlace};
use crate::tokens::StreamedText;
use crate::wire::read;
use bytes::{Bytes, BytesMut};
use gateway_domain::{Dialect, Operation, Usage};
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::ops::Range;

/// What is known of a stream so far.
#[derive(Debug)]
pub(crate) struct ReplyStreamState {
    pub(crate) progress: Progress,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    /// The last counts have not come, only those of the prompt.
    pub(crate) uncounted: bool,
    pub(crate) said: StreamedText,
    pub(crate) failed: Option<String>,
}

impl ReplyStreamState {
    pub(crate) fn new() -> Self {
        Self {
            progress: Progress::Quiet,
            usage: None,
            model: None,
            uncounted: false,
            said: StreamedText::default(),
            failed: None,
        }
    }

    pub(crate) fn begin(&mut self) {
        if self.progress == Progress::Quiet {
            self.progress = Progress::Begun;
        }
    }

    pub(crate) fn quiet(&self) -> bool {
        self.progress == Progress::Quiet
    }

    pub(crate) fn ending(&self) -> Ending {
        Ending {
            usage: self.usage,
            model: self.model.clone(),
            complete: self.progress == Progress::Complete,
            failed: self.failed.clone(),
            uncounted: self.uncounted,
            said: self.said.clone(),
            run: None,
        }
    }
}

/// What becomes of one event.
#[derive(Debug)]
pub(crate) enum EventVerdict {
    Pass,
    /// Passes an event that says nothing but text in an answer to this operation: one that differs from it in its text
    /// alone passes unread.
    Text(Operation),
    Hide,
    /// An error that the upstream sent. Before the stream has begun it is the stream's fate; later it is passed.
    Fail(Failure),
}

/// How the events of one dialect are read.
pub(crate) trait Grammar: Send {
    fn read(&mut self, event: &[u8], seen: &mut ReplyStreamState) -> EventVerdict;
    /// Whether texts are counted as they pass.
    fn counts_texts(&self) -> bool {
        true
    }
    /// The event that tells a client of an error.
    fn error(&self, failure: &Failure) -> Bytes;
    fn dialect(&self) -> Dialect;
    /// Whether its errors are what clients read; else they are told in the client's own form.
    fn errors_pass(&self) -> bool {
        true
    }
    /// The body came to its proper end. What the client still lacks of an answer that is whole without its end mark;
    /// `None`: it is not whole.
    fn end(&self) -> Option<Bytes> {
        None
    }
}

pub(crate) struct Passthrough<G> {
    slug: &'static str,
    grammar: G,
    framer: Framer,
    seen: ReplyStreamState,
    /// Shapes of the events so far that said nothing but text.
    shapes: Shapes,
    /// Where texts stand in what the last push gave.
    texts: Vec<TextPlace>,
    /// Events of the push that ended in an error; they precede it when the client must be told after all.
    due: Bytes,
}

impl<G: Grammar> Passthrough<G> {
    pub(crate) fn new(slug: &'static str, grammar: G) -> Self {
        let (framer, seen, shapes) = (Framer::default(), ReplyStreamState::new(), Shapes::default());
        Self { slug, grammar, framer, seen, shapes, texts: Vec::new(), due: Bytes::new() }
    }

    /// The event that `bytes` begin with, where it differs from one that was read in its text alone.
    fn skim<'e>(&mut self, bytes: &'e [u8]) -> Option<Fit<'e>> {
        if self.seen.quiet() {
            return None;
        }
        let fit = self.shapes.fit(bytes)?;
        if self.grammar.counts_texts() {
            self.seen.said.push_escaped(&bytes[fit.inside.clone()], fit.text.chars().count() as u64);
        }
        Some(fit)
    }

    /// Where the text stands in an event whose shape is known from here on.
    fn learn<'e>(&mut self, operation: Operation, event: &'e [u8]) -> Option<Fit<'e>> {
        if self.seen.quiet() || !self.shapes.may_learn() {
            return None;
        }
        self.shapes.learn(&tap::shape(operation, event)?);
        self.shapes.fit(event)
    }

    fn read(&mut self, whole: &Bytes) -> Result<Bytes, Failure> {
        let mut out = Kept::of(whole);
        let mut at = 0;
        self.texts.clear();
        while at < whole.len() {
            let rest = &whole[at..];
            if let Some(fit) = self.skim(rest) {
                self.texts.push(place(&fit, out.len()));
                out.keep(at..at + fit.length);
                at += fit.length;
                continue;
            }
            let range = at..at + sse::event_len(rest).unwrap_or(rest.len());
            at = range.end;
            match self.grammar.read(&whole[range.clone()], &mut self.seen) {
                EventVerdict::Pass => out.keep(range),
                EventVerdict::Text(operation) => {
                    let fit = self.learn(operation, &whole[range.clone()]);
                    self.texts.extend(fit.map(|fit| place(&fit, out.len())));
                    out.keep(range);
                }
                EventVerdict::Hide => {}
                EventVerdict::Fail(failure) if self.seen.quiet() => {
                    self.due = out.take();
                    return Err(failure);
                }
                EventVerdict::Fail(failure) => {
                    if self.grammar.errors_pass() {
                        out.keep(range);
                    } else {
                        out.put(&self.grammar.error(&failure), range.end);
                    }
                    self.seen.failed = Some(failure.message);
                }
            }
        }
        Ok(out.take())
    }
}

impl<G: Grammar> StreamTranslator for Passthrough<G> {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(self.slug, self.grammar.dialect())),
        }
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    fn finish(&mut self) -> Bytes {
        let whole = |data: &[u8]| data == b"[DONE]" || read::<IgnoredAny>(data).is_some();
        let cut = self.framer.is_inside();
        let last = self.framer.last(whole);
        let cut = cut && last.is_none();
        let tail = last.map_or_else(Bytes::new, |last| {
            self.read(&last).unwrap_or_else(|failure| {
                self.seen.failed = Some(failure.message);
                Bytes::new()
            })
        });
        let open = self.seen.progress != Progress::Complete && self.seen.failed.is_none() && !cut;
        let Some(mark) = open.then(|| self.grammar.end()).flatten() else { return tail };
        self.seen.progress = Progress::Complete;
        if tail.is_empty() { mark } else { [tail, mark].concat().into() }
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        // An error that was passed on has told the client already.
        if self.seen.failed.is_some() && !self.seen.quiet() {
            return Bytes::new();
        }
        [std::mem::take(&mut self.due), self.grammar.error(failure)].concat().into()
    }

    fn ending(&self) -> Ending {
        self.seen.ending()
    }

    fn said_chars(&self) -> u64 {
        self.seen.said.chars()
    }

    fn held(&self) -> usize {
        self.framer.held()
    }

    fn texts(&self) -> &[TextPlace] {
        &self.texts
    }
}

/// The place of an event's text, where the event leaves behind `from` bytes.
fn place(fit: &Fit<'_>, from: usize) -> TextPlace {
    let is_plain = matches!(fit.text, Cow::Borrowed(_));
    let (event, text) = (0..fit.length, fit.inside.clone());
    TextPlace { lane: fit.lane, event, text, is_plain, number: fit.number }.behind(from)
}

/// Collects the ranges to pass on; ranges that touch stay one slice of the input.
struct Kept<'w> {
    whole: &'w Bytes,
    run: Range<usize>,
    copied: BytesMut,
}

impl<'w> Kept<'w> {
    fn of(whole: &'w Bytes) -> Self {
        Self { whole, run: 0..0, copied: BytesMut::new() }
    }

    /// Bytes that were kept so far.
    fn len(&self) -> usize {
        self.copied.len() + self.run.len()
    }

    fn keep(&mut self, range: Range<usize>) {
        if self.run.end == range.start {
            self.run.end = range.end;
            return;
        }
        self.copied.extend_from_slice(&self.whole[self.run.clone()]);
        self.run = range;
    }

    /// These bytes in the place of those up to `end`.
    fn put(&mut self, bytes: &[u8], end: usize) {
        self.copied.extend_from_slice(&self.whole[self.run.clone()]);
        self.copied.extend_from_slice(bytes);
        self.run = end..end;
    }

    fn take(mut self) -> Bytes {
        if self.copied.is_empty() {
            return self.whole.slice(self.run);
        }
        self.copied.extend_from_slice(&self.whole[self.run.clone()]);
        self.copied.freeze()
    }
}

#[cfg(test)]
mod tests;
