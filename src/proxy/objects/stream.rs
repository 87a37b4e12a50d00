//! A stream whose events tell of kept objects: ids are bound line by line, as events are made of whole lines.

use super::Binder;
use bytes::{Bytes, BytesMut};
use gateway_providers::{Ending, Failure, Progress, StreamTranslator};
use std::sync::Arc;

const DATA: &[u8] = b"data:";

pub(crate) struct BoundStream {
    translator: Box<dyn StreamTranslator>,
    binder: Arc<Binder>,
    /// The beginning of a line whose end is still to come.
    rest: BytesMut,
}

impl BoundStream {
    pub(crate) fn over(translator: Box<dyn StreamTranslator>, binder: Arc<Binder>) -> Box<dyn StreamTranslator> {
        Box::new(Self { translator, binder, rest: BytesMut::new() })
    }

    fn lines(&mut self, told: &[u8]) -> Bytes {
        self.rest.extend_from_slice(told);
        let Some(end) = memchr::memrchr(b'\n', &self.rest) else { return Bytes::new() };
        let whole = self.rest.split_to(end + 1).freeze();
        let mut out = BytesMut::with_capacity(whole.len() + 256);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_prefix(DATA) {
                Some(json) => {
                    out.extend_from_slice(DATA);
                    out.extend_from_slice(&self.binder.bound(&whole.slice_ref(json)));
                }
                None => out.extend_from_slice(line),
            }
        }
        out.freeze()
    }

    /// What is left of the last line, before what ends the stream.
    fn ended(&mut self, last: &[u8]) -> Bytes {
        let mut lines = BytesMut::from(self.lines(last).as_ref());
        lines.extend_from_slice(&self.rest.split());
        lines.freeze()
    }
}

impl StreamTranslator for BoundStream {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        let told = self.translator.push(chunk)?;
        Ok(self.lines(&told))
    }

    fn progress(&self) -> Progress {
        self.translator.progress()
    }

    fn finish(&mut self) -> Bytes {
        let last = self.translator.finish();
        self.ended(&last)
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        let last = self.translator.abort(failure);
        self.ended(&last)
    }

    fn has_error_events(&self) -> bool {
        self.translator.has_error_events()
    }

    fn ending(&self) -> Ending {
        self.translator.ending()
    }

    fn said_chars(&self) -> u64 {
        self.translator.said_chars()
    }

    fn held(&self) -> usize {
        self.translator.held() + self.rest.len()
    }
}
