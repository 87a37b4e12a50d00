//! One kept answer, in the form the client got it, and its form on a shelf outside the process.

use bytes::Bytes;
use gateway_domain::{Timestamp, Usage};
use serde::{Deserialize, Serialize};

/// What an entry costs beside its body: key, heads, the map's own room.
const OVERHEAD: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CacheEntry {
    pub(crate) status: u16,
    /// The only header of the answer that is its own and nobody else's.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    /// The answer is told as a stream, without a length.
    pub(crate) stream: bool,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) expires: Timestamp,
}

/// The first line of an entry on the shared shelf; the body follows as it is.
#[derive(Serialize, Deserialize)]
struct CacheEntryHead {
    status: u16,
    content_type: String,
    stream: bool,
    usage: Option<Usage>,
    model: Option<String>,
    expires: i64,
}

impl CacheEntry {
    pub(crate) fn weight(&self) -> usize {
        OVERHEAD + self.body.len() + self.content_type.len() + self.model.as_ref().map_or(0, String::len)
    }

    /// `None` only when it cannot be written as JSON, which its types rule out.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let line = CacheEntryHead {
            status: self.status,
            content_type: self.content_type.clone(),
            stream: self.stream,
            usage: self.usage,
            model: self.model.clone(),
            expires: self.expires.0,
        };
        let mut out = serde_json::to_vec(&line).ok()?;
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        Some(out)
    }

    /// `None` for what another version wrote, or for a damaged value: a miss, never an error.
    pub(crate) fn decode(bytes: Vec<u8>) -> Option<Self> {
        let end = memchr::memchr(b'\n', &bytes)?;
        let line: CacheEntryHead = serde_json::from_slice(&bytes[..end]).ok()?;
        Some(Self {
            status: line.status,
            content_type: line.content_type,
            body: Bytes::from(bytes).slice(end + 1..),
            stream: line.stream,
            usage: line.usage,
            model: line.model,
            expires: Timestamp(line.expires),
        })
    }
}
