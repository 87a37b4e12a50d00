//! A chat completion request of whatever the client sent: the one form that providers translate from.
//!
//! Beside OpenAI's fields the form has places for what chat lacks, kept only for providers that read them
//! ([`ChatForm::Extended`]): `content_blocks` on messages of the assistant (thinking with its signature, redacted
//! thinking), `extra_content.google.thought_signature` on tool calls, `cache_control` on messages, parts and tools,
//! `is_error` on results, images and files in results, `file_url` on files, `thinking` and `top_k`.

mod build;
mod from_messages;
mod from_responses;

pub(crate) use from_messages::unthreaded;

use super::request::{Adjusted, refused};
use crate::adapter::Call;
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, Operation};
use std::borrow::Cow;
use std::ops::Range;

/// What the provider's side of the translation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatForm {
    /// OpenAI's own fields: the body goes out as it is made.
    OpenAi,
    /// The extended form, for a translation that follows.
    Extended,
}

/// A chat request, and how it came to be.
#[derive(Debug)]
pub(crate) struct ChatRequestBody<'c> {
    pub(crate) body: Cow<'c, Bytes>,
    pub(crate) model_span: Option<Range<usize>>,
    /// Fields without a counterpart, by the names the client gave them.
    pub(crate) adjusted: Vec<&'static str>,
}

/// The call's body as a chat request. A chat client's own goes through untouched.
pub(crate) fn asked<'c>(call: &Call<'c>, room: ChatForm) -> Result<ChatRequestBody<'c>, Fault> {
    match call.operation {
        Operation::Messages => from_messages::request(call, room),
        Operation::Responses => from_responses::request(call, room),
        _ => Ok(ChatRequestBody {
            body: Cow::Borrowed(call.body),
            model_span: call.model_span.clone(),
            adjusted: Vec::new(),
        }),
    }
}

impl ChatRequestBody<'_> {
    /// The call as if the client had sent the chat request, with its usage hidden from nobody: what the client sees of
    /// the answer is not made of the provider's bytes.
    pub(crate) fn call<'b>(&'b self, call: &'b Call<'_>) -> Call<'b> {
        let native = call.operation == Operation::ChatCompletions;
        Call {
            operation: Operation::ChatCompletions,
            dialect: Dialect::OpenAi,
            tail: if native { call.tail } else { "/chat/completions" },
            query: call.query.filter(|_| native),
            body: &self.body,
            model_span: self.model_span.clone(),
            wants_usage: native && call.wants_usage,
            ..call.clone()
        }
    }
}
