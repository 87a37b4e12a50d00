//! What is made for Anthropic's Messages.

pub(crate) mod from_chat;
