//! Requests in the dialect of OpenAI's Responses.

pub(crate) mod from_chat;
