//! Pictures: OpenAI's request in the words of each provider that has its own, and what comes back as OpenAI's list. Fields
//! of OpenAI's that a provider lacks are dropped and named; members that are not OpenAI's go up as the client wrote them.
//! Pictures are counted, with their size, which is what most of them are billed by.

mod answer;
mod ask;
mod native;
mod similar;
mod stability;

pub(crate) use native::{DASHSCOPE, FAL, FIREWORKS, HYPERBOLIC, SEGMIND, SILICONFLOW, WORKERS_AI};
pub(crate) use similar::{OPENROUTER, TOGETHER};
pub(crate) use stability::STABILITY;
