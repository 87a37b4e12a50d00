//! Translation of bodies between dialects, destination before source: `messages::from_chat` makes Anthropic's
//! request of OpenAI's. Pure functions and state machines over the types of `wire/`; no bytes of a transport.

pub(crate) mod chat;
pub(crate) mod cohere;
pub(crate) mod converse;
pub(crate) mod gemini;
pub(crate) mod history;
pub(crate) mod media;
pub(crate) mod messages;
pub(crate) mod oracle;
pub(crate) mod request;
pub(crate) mod responses;
pub(crate) mod steps;
