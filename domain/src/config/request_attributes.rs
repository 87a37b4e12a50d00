//! What a config reads of a request.

use serde_json::Value;

/// What conditions and sticky fields may ask of a request.
pub trait RequestAttributes {
    fn metadata(&self, key: &str) -> Option<&str>;
    /// A top-level key of the body, one of those in [`Config::params`](super::Config::params).
    fn param(&self, key: &str) -> Option<&Value>;
    /// The whole path, `/v1` included.
    fn pathname(&self) -> &str;
}
