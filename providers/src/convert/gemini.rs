//! What is made for Gemini's `generateContent`.

pub(crate) mod from_chat;
