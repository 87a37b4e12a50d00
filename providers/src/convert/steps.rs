//! Steps of an answer, by the dialect that it came in.

mod blocks;
pub(crate) mod from_chat;
pub(crate) mod from_cohere;
pub(crate) mod from_converse;
pub(crate) mod from_gemini;
pub(crate) mod from_messages;
pub(crate) mod from_oracle;
pub(crate) mod from_responses;
