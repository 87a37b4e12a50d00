//! What an answer says, cut into blocks: another kind of saying, or something between, begins a new one.

use crate::answer::ResponseEvent;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    Text,
    Reasoning,
    Refusal,
}

#[derive(Debug, Default)]
pub(super) struct SaidBlocks {
    /// What was said last; `None`: the next begins a block, whatever it is.
    last: Option<Saying>,
    number: u64,
}

impl SaidBlocks {
    /// The number of the block that stands open, or was closed last.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn close(&mut self) {
        self.last = None;
    }

    pub(super) fn say<'a>(&mut self, saying: Saying, text: Cow<'a, str>, steps: &mut Vec<ResponseEvent<'a>>) {
        if text.is_empty() {
            return;
        }
        if self.last != Some(saying) {
            self.last = Some(saying);
            self.number += 1;
        }
        let block = self.number;
        steps.push(match saying {
            Saying::Text => ResponseEvent::Text { block, text },
            Saying::Reasoning => ResponseEvent::Reasoning { block, text },
            Saying::Refusal => ResponseEvent::Refusal { block, text },
        });
    }
}
