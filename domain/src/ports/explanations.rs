//! A request told as if it were made: by which config and to which target it would go, and what would have a say in it.
//! Asked by the Admin API, answered by whoever serves requests; nothing is sent, counted or kept.

use super::Fut;
use crate::id::KeyId;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde_json::Value;
use std::fmt;

#[derive(Clone)]
pub struct SupposedRequest {
    /// The key that the request would come with.
    pub key: KeyId,
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

/// What a request says is somebody's: it is not printed.
impl fmt::Debug for SupposedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupposedRequest").field("key", &self.key).field("method", &self.method).finish_non_exhaustive()
    }
}

/// Nobody here can tell: a whole sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained(pub String);

pub trait Explanations: Send + Sync {
    /// An object for people and programs to read; a request that would be refused is explained by its refusal.
    fn explain<'a>(&'a self, request: &'a SupposedRequest) -> Fut<'a, Result<Value, Unexplained>>;
}
