//! What may leave of a stream. Events that pass side by side leave as the bytes that they came in; only what was held,
//! or stands apart, is copied together.

use bytes::{Bytes, BytesMut};
use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct PassedEvents {
    /// Leaves first.
    copied: BytesMut,
    /// A part of the bytes that came, which nothing stands behind so far.
    run: Option<PassingRun>,
}

#[derive(Debug)]
struct PassingRun {
    whole: Bytes,
    range: Range<usize>,
}

impl PassedEvents {
    /// A part of bytes that came.
    pub(super) fn pass(&mut self, whole: &Bytes, range: Range<usize>) {
        if let Some(run) = &mut self.run
            && run.range.end == range.start
            && (run.whole.as_ptr(), run.whole.len()) == (whole.as_ptr(), whole.len())
        {
            run.range.end = range.end;
            return;
        }
        self.settle();
        self.run = Some(PassingRun { whole: whole.clone(), range });
    }

    pub(super) fn add(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let range = 0..bytes.len();
            self.settle();
            self.run = Some(PassingRun { whole: bytes, range });
        }
    }

    pub(super) fn take(&mut self) -> Bytes {
        if self.copied.is_empty() {
            return self.run.take().map_or_else(Bytes::new, |run| run.whole.slice(run.range));
        }
        self.settle();
        self.copied.split().freeze()
    }

    fn settle(&mut self) {
        if let Some(run) = self.run.take() {
            self.copied.extend_from_slice(&run.whole[run.range]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_side_by_side_is_not_copied() {
        let whole = Bytes::from_static(b"one two three");
        let mut out = PassedEvents::default();
        out.pass(&whole, 0..4);
        out.pass(&whole, 4..8);
        let left = out.take();
        assert_eq!((&left[..], left.as_ptr()), (&b"one two "[..], whole.as_ptr()));
        assert!(out.take().is_empty());
    }

    #[test]
    fn everything_leaves_in_its_order() {
        let (one, two) = (Bytes::from_static(b"one two three"), Bytes::from_static(b"123456"));
        let mut out = PassedEvents::default();
        out.pass(&one, 0..3);
        out.pass(&one, 8..13);
        out.add(Bytes::new());
        out.add(Bytes::from_static(b"!"));
        out.pass(&two, 2..4);
        out.pass(&two, 4..5);
        assert_eq!(out.take(), "onethree!345");
        out.pass(&two, 5..6);
        assert_eq!(out.take(), "6");
    }
}
