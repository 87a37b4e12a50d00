//! The reader of answers by itself: with the crate around it all of Pingora would have to be built for fuzzing.

#[path = "../upstream/src/http1/chunked.rs"]
mod chunked;
#[path = "../upstream/src/http1/head.rs"]
mod head;
#[path = "../upstream/src/http1/parser.rs"]
mod parser;
#[path = "../upstream/src/http1/refusal.rs"]
mod refusal;

pub(crate) use head::{RequestKind, ResponseHead};
pub(crate) use parser::Parser;
pub(crate) use refusal::BrokenWhy;
