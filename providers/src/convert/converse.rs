//! What is made for Bedrock's Converse.

pub(crate) mod from_chat;
pub(crate) mod vendor;
