//! What is made for Cohere's `/v2/chat`.

pub(crate) mod from_chat;
