//! An answer as steps, whoever gave it: the one typed form between providers' dialects and OpenAI's chat. A stream
//! writes each step as a chunk, a whole answer collects the same steps, so that both say the same.

mod chunks;
mod completion;

pub(crate) use chunks::ChunkWriter;
pub(crate) use completion::Completion;

use gateway_domain::Usage;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What a client is told of an answer beside the steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) provider: &'static str,
    pub(crate) now_ms: i64,
    /// Leaves out what OpenAI's API does not have.
    pub(crate) strict: bool,
    pub(crate) wants_usage: bool,
}

#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// The answer has an author; comes first.
    Open {
        id: Option<Cow<'a, str>>,
        model: Option<Cow<'a, str>>,
    },
    Text {
        block: u64,
        text: Cow<'a, str>,
    },
    Reasoning {
        block: u64,
        text: Cow<'a, str>,
    },
    /// Part of a block that has no place in OpenAI's message; `strict` clients never see it.
    Aside {
        block: u64,
        aside: Aside<'a>,
    },
    /// Tool calls are counted from 0, without gaps, whatever blocks stand between them.
    ToolOpen {
        call: u64,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    ToolArguments {
        call: u64,
        fragment: Cow<'a, str>,
    },
    /// `reason` as the provider names it, `standard` as OpenAI would.
    Finish {
        reason: Cow<'a, str>,
        standard: &'static str,
        usage: Usage,
    },
}

#[derive(Debug)]
pub(crate) enum Aside<'a> {
    Signature(Cow<'a, str>),
    Redacted(Cow<'a, str>),
    Citation(&'a RawValue),
    /// A block of a type that is the provider's own, such as a search result.
    Block(&'a RawValue),
    /// JSON of such a block's input, piece by piece.
    Input(Cow<'a, str>),
}

impl Step<'_> {
    /// Whether it commits the answer: anything but its opening and things a client may not see.
    pub(crate) fn begins(&self) -> bool {
        match self {
            Self::Open { .. } | Self::Aside { .. } => false,
            Self::Text { text, .. } | Self::Reasoning { text, .. } => !text.is_empty(),
            Self::ToolOpen { .. } | Self::ToolArguments { .. } | Self::Finish { .. } => true,
        }
    }

    pub(crate) fn chars(&self) -> u64 {
        match self {
            Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::ToolArguments { fragment: text, .. } => {
                text.chars().count() as u64
            }
            _ => 0,
        }
    }
}

impl Frame {
    /// For providers, and broken streams, that give no id.
    fn id(&self) -> String {
        format!("{}-{}", self.provider, self.now_ms)
    }

    fn created(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }
}
