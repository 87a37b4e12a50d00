//! An answer as steps, whoever gave it: the one typed form between the dialects of providers and those of clients.
//! A stream writes each step as it comes, a whole answer collects the same steps, so that both say the same. Whoever
//! makes steps need not know what the client speaks: [`StreamWriter`] and [`ReplyCollector`] do.

mod chunks;
mod completion;
pub(crate) mod embeddings;
mod generated_id;
mod local_stream;
mod message;
mod response;

pub use generated_id::MadeId;
pub use local_stream::made_events;

use crate::adapter::{Call, Failure};
use crate::failure::ProviderError;
use crate::opaque::{self, OpaqueKind};
use crate::tap::TextPlace;
use bytes::{Bytes, BytesMut};
use chunks::ChunkWriter;
use completion::Completion;
use gateway_domain::{Operation, Usage};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::Range;

/// What a client is told of an answer beside the steps.
#[derive(Clone, Copy, Debug)]
struct ReplyContext {
    provider: &'static str,
    now_ms: i64,
    dice: u64,
    /// The number of the call's credential, with which [`opaque`] blocks are stamped.
    origin: u64,
    /// Leaves out what OpenAI's API does not have.
    strict: bool,
    wants_usage: bool,
}

/// A step of an answer. In a stream they come in this order: `Open`, then for each choice its content and its `Finish`,
/// then `End`. Blocks are numbered as the provider likes: a new number is a new block, and the steps of one block come
/// together.
#[derive(Debug)]
pub(crate) enum ResponseEvent<'a> {
    /// The answer has an author; comes first.
    Open {
        id: Option<Cow<'a, str>>,
        model: Option<Cow<'a, str>>,
    },
    /// What follows belongs to this choice. Not needed for the first; only chat can ask for more than one.
    Choice(u64),
    Text {
        block: u64,
        text: Cow<'a, str>,
    },
    /// The model says that it will not answer.
    Refusal {
        block: u64,
        text: Cow<'a, str>,
    },
    /// An array of log-probabilities in OpenAI's form, of text that came last.
    Logprobs {
        block: u64,
        content: Cow<'a, RawValue>,
    },
    Reasoning {
        block: u64,
        text: Cow<'a, str>,
    },
    /// Part of a block that has no place in OpenAI's chat message; `strict` clients of chat never see it.
    Aside {
        block: u64,
        aside: Aside<'a>,
    },
    /// Tool calls are counted from 0, without gaps, whatever blocks stand between them.
    ToolOpen {
        call: u64,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        /// Opaque, and wanted back with the call.
        signature: Option<Cow<'a, str>>,
    },
    /// JSON, piece by piece; of a call without arguments `{}` must come once.
    ToolArguments {
        call: u64,
        fragment: Cow<'a, str>,
    },
    /// The choice is whole. `reason` as the provider names it, `standard` as OpenAI's chat would (`stop`, `length`,
    /// `tool_calls`, `content_filter`).
    Finish {
        reason: Cow<'a, str>,
        standard: &'static str,
    },
    /// What a search of the provider's own found, as it tells it; only clients of chat know a place for it.
    Sources(Vec<Box<RawValue>>),
    /// The answer is whole: the dialect of the provider said so.
    End {
        usage: Option<Usage>,
    },
}

#[derive(Debug)]
pub(crate) enum Aside<'a> {
    Signature(Cow<'a, str>),
    Redacted(Cow<'a, str>),
    /// A citation in Anthropic's form.
    Citation(Cow<'a, RawValue>),
    /// A block of a type that is the provider's own, such as a search result.
    Block(&'a RawValue),
    /// JSON of such a block's input, piece by piece.
    Input(Cow<'a, str>),
}

impl ResponseEvent<'_> {
    /// Whether it commits the answer: anything but its opening and things a client may not see.
    pub(crate) fn begins(&self) -> bool {
        match self {
            Self::Open { .. } | Self::Choice(_) | Self::Aside { .. } | Self::Logprobs { .. } | Self::Sources(_) => {
                false
            }
            Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Refusal { text, .. } => !text.is_empty(),
            Self::ToolOpen { .. } | Self::ToolArguments { .. } | Self::Finish { .. } | Self::End { .. } => true,
        }
    }

    /// What a model wrote, as far as it is counted.
    pub(crate) fn said(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. }
            | Self::Reasoning { text, .. }
            | Self::Refusal { text, .. }
            | Self::ToolArguments { fragment: text, .. } => Some(text),
            _ => None,
        }
    }
}

impl ReplyContext {
    fn of(call: &Call<'_>, provider: &'static str) -> Self {
        let (strict, wants_usage) = (call.strict, call.wants_usage);
        Self { provider, now_ms: call.now_ms, dice: call.dice, origin: call.origin, strict, wants_usage }
    }

    /// An id for answers of providers, and of broken streams, that give none.
    fn id(&self) -> String {
        format!("{}-{}", self.provider, self.now_ms)
    }

    /// An id in the manner of a dialect that wants one of its own making.
    fn made_id(&self, prefix: &str, number: u64) -> String {
        generated_id::write(prefix, (self.now_ms, self.dice), number)
    }

    fn created(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }

    fn stamp(&self, kind: OpaqueKind, text: &str) -> String {
        opaque::stamp(self.origin, kind, text)
    }
}

/// Writes steps as a stream in the client's dialect.
pub(crate) enum StreamWriter {
    Chat(ChunkWriter),
    Messages(Box<message::MessagesWriter<message::MessagesEventBuffer>>),
    Responses(Box<response::ResponsesWriter>),
}

impl StreamWriter {
    pub(crate) fn new(call: &Call<'_>, provider: &'static str) -> Self {
        let frame = ReplyContext::of(call, provider);
        match call.operation {
            Operation::Messages => {
                Self::Messages(Box::new(message::MessagesWriter::new(frame, message::MessagesEventBuffer::default())))
            }
            Operation::Responses => Self::Responses(Box::new(response::ResponsesWriter::new(frame, call))),
            _ => Self::Chat(ChunkWriter::new(frame)),
        }
    }

    /// `texts` is told where in `out` the texts stand.
    pub(crate) fn write(&mut self, step: &ResponseEvent<'_>, out: &mut BytesMut, texts: &mut Vec<TextPlace>) {
        match self {
            Self::Chat(chunks) => chunks.write(step, out, texts),
            Self::Messages(events) => {
                events.take(step);
                events.drain(out, texts);
            }
            Self::Responses(events) => {
                events.take(step);
                events.drain(out, texts);
            }
        }
    }

    /// Ends a stream that broke: an error in the client's dialect, and no end mark.
    pub(crate) fn abort(&mut self, failure: &Failure, out: &mut BytesMut) {
        match self {
            Self::Chat(_) => out.extend_from_slice(&crate::sse::event(None, &failure.body)),
            Self::Messages(_) => out.extend_from_slice(&crate::sse::event(Some("error"), &failure.body)),
            Self::Responses(events) => {
                events.fail(failure);
                events.drain(out, &mut Vec::new());
            }
        }
    }
}

/// The error that ends an event stream of which no translator knows, as the clients of `operation` read it.
pub fn in_band(operation: Operation, failure: &Failure) -> Bytes {
    match operation {
        Operation::Messages => crate::sse::event(Some("error"), &failure.body),
        Operation::Responses => {
            let t = ProviderError::read(&failure.body).unwrap_or_default();
            let code = t.code.as_str().map(str::to_owned).or(t.kind).unwrap_or_else(|| "server_error".to_owned());
            let body = json!({
                "type": "error", "code": code, "message": t.message, "param": t.param, "sequence_number": 0,
            });
            crate::sse::event(Some("error"), body.to_string().as_bytes())
        }
        _ => crate::sse::event(None, &failure.body),
    }
}

/// Collects steps into a whole answer in the client's dialect.
pub(crate) enum ReplyCollector {
    Chat(Box<Completion>),
    Messages(Box<message::MessagesWriter<message::Collected>>),
    Responses(Box<response::ResponsesWriter>),
}

impl ReplyCollector {
    pub(crate) fn new(call: &Call<'_>, provider: &'static str) -> Self {
        let frame = ReplyContext::of(call, provider);
        match call.operation {
            Operation::Messages => {
                Self::Messages(Box::new(message::MessagesWriter::new(frame, message::Collected::default())))
            }
            Operation::Responses => Self::Responses(Box::new(response::ResponsesWriter::unheard(frame, call))),
            _ => Self::Chat(Box::new(Completion::new(frame))),
        }
    }

    pub(crate) fn take(&mut self, step: &ResponseEvent<'_>) {
        match self {
            Self::Chat(completion) => completion.take(step),
            Self::Messages(message) => message.take(step),
            Self::Responses(response) => response.take(step),
        }
    }

    pub(crate) fn write(self) -> Bytes {
        match self {
            Self::Chat(completion) => completion.write(),
            Self::Messages(message) => message.whole(),
            Self::Responses(response) => response.whole(),
        }
    }
}

/// Writes `text` as a JSON string, and gives its place, quotes included.
pub(crate) fn write_text(out: &mut BytesMut, text: &str) -> Range<usize> {
    let from = out.len();
    write_json(out, &text);
    from..out.len()
}

fn write_pieces(out: &mut BytesMut, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

/// What is written here has nothing that could fail to become JSON.
fn write_json(out: &mut BytesMut, value: &impl Serialize) {
    use bytes::BufMut;
    if let Err(e) = serde_json::to_writer(out.writer(), value) {
        debug_assert!(false, "{e}");
    }
}

/// Where Perplexity's chat names its sources: their addresses, and what is known of each.
fn sources(results: &[Box<RawValue>]) -> serde_json::Value {
    let all: Vec<serde_json::Value> = results.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok()).collect();
    let citations: Vec<&serde_json::Value> = all.iter().map(|found| &found["url"]).collect();
    json!({ "citations": citations, "search_results": all })
}
