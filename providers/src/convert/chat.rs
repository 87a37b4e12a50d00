//! What is made for OpenAI's chat completions.

pub(crate) mod from_messages;
