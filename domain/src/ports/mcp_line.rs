//! Connections to MCP servers that stay open for all that is said: a stream of events with an address to send to, or a
//! program on this machine. For whoever asks a server by himself; calls of clients go another way.

use super::Fut;
use http::{HeaderName, HeaderValue};
use std::fmt;
use std::time::Duration;

/// Where a line leads.
#[derive(Clone)]
pub enum McpLineTo {
    /// An address, held to the rules of custom hosts, and what is sent with each message.
    Sse { url: String, headers: Vec<(HeaderName, HeaderValue)> },
    /// A program that the operator named.
    Program(String),
}

/// Headers stay out of logs.
impl fmt::Debug for McpLineTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sse { .. } => f.write_str("Sse"),
            Self::Program(name) => f.debug_tuple("Program").field(name).finish(),
        }
    }
}

/// Each `Err` is the rest of a sentence that holds no credential.
pub trait McpLine: Send {
    /// One message.
    fn send(&mut self, message: String) -> Fut<'_, Result<(), String>>;
    /// The next message of the server that is wanted; all before it are passed over.
    fn until<'a>(
        &'a mut self,
        within: Duration,
        is_wanted: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Fut<'a, Result<String, String>>;
}

pub trait McpLines: Send + Sync {
    fn open(&self, to: McpLineTo, within: Duration) -> Fut<'_, Result<Box<dyn McpLine>, String>>;
}
