//! Translation between dialects: bytes in, bytes out. Floor 1: no I/O, no clock, no environment, no async.
//! A provider that speaks OpenAI is a row in [`compat`]; one with a dialect of its own is a file.

pub mod adapter;
pub mod edit;

pub use adapter::{Adapter, Call, Ending, Endpoint, Failure, Outgoing, Pieces, Progress, Reply, StreamTranslator};
