//! One kept response, and its form on a shelf outside the process.

use bytes::Bytes;
use gateway_domain::Timestamp;

/// What it costs beside its texts: its key, and the map's own room.
const OVERHEAD: usize = 128;
/// Changes when older programs would misread what is written.
const FORM: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptResponse {
    pub(crate) expires: Timestamp,
    /// JSON: an array of the items that were asked with, those of responses before it included.
    pub(crate) input: Bytes,
    /// JSON: the response as its client has it.
    pub(crate) response: Bytes,
}

impl KeptResponse {
    pub(crate) const fn new(input: Bytes, response: Bytes) -> Self {
        Self { expires: Timestamp(0), input, response }
    }

    #[must_use]
    pub(super) fn until(self, expires: Timestamp) -> Self {
        Self { expires, ..self }
    }

    pub(super) fn weight(&self) -> usize {
        OVERHEAD + self.input.len() + self.response.len()
    }

    /// Form, time, length of the input, input, response.
    pub(super) fn encode(&self) -> Vec<u8> {
        let length = self.input.len() as u64;
        [&[FORM][..], &self.expires.0.to_le_bytes(), &length.to_le_bytes(), &self.input, &self.response].concat()
    }

    /// `None` for what another version wrote.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[FORM])?;
        let (expires, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (input, response) = rest.split_at_checked(length)?;
        let (input, response) = (Bytes::copy_from_slice(input), Bytes::copy_from_slice(response));
        Some(Self { expires: Timestamp(i64::from_le_bytes(*expires)), input, response })
    }
}
