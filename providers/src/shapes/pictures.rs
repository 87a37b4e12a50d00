//! Pictures: OpenAI's request in the words of each provider that has its own, and what comes back as OpenAI's list.
//! Fields of OpenAI's that a provider lacks are dropped and named; members that are not OpenAI's go up as the client
//! wrote them. Pictures are counted, with their size, which is what most of them are billed by.

mod answer;
mod defaults;
mod edits;
mod fireworks;
mod native;
mod request;
mod similar;
mod stability;

pub(crate) use edits::{DASHSCOPE_EDITS, STABILITY_EDITS};
pub(crate) use fireworks::FIREWORKS;
pub(crate) use native::{DASHSCOPE, FAL, HYPERBOLIC, SEGMIND, SILICONFLOW, WORKERS_AI};
pub(crate) use similar::{OPENROUTER, TOGETHER};
pub(crate) use stability::STABILITY;
