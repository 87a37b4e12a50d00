//! What makes two calls the same. Every part is written with its length, so that no two lists of parts give
//! the same bytes; tenant and credential always come first (never shared across either).

use sha2::{Digest, Sha256};

/// SHA-256 of all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey(pub(crate) [u8; 32]);

pub(crate) struct KeyBuilder(Sha256);

impl KeyBuilder {
    /// The number changes when entries of older programs must not be found any more.
    pub(crate) fn new() -> Self {
        let mut hash = Sha256::new();
        hash.update(b"gateway-answer-2");
        Self(hash)
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// How many parts of one kind follow, where that differs.
    pub(crate) fn count(&mut self, parts: usize) -> &mut Self {
        self.part(&(parts as u64).to_le_bytes())
    }

    /// One part that comes in pieces.
    pub(crate) fn pieces<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> &mut Self {
        let whole: usize = pieces.clone().map(<[u8]>::len).sum();
        self.0.update((whole as u64).to_le_bytes());
        pieces.for_each(|p| self.0.update(p));
        self
    }

    pub(crate) fn flags(&mut self, flags: &[bool]) -> &mut Self {
        let bytes: Vec<u8> = flags.iter().map(|f| u8::from(*f)).collect();
        self.part(&bytes)
    }

    pub(crate) fn finish(self) -> CacheKey {
        CacheKey(self.0.finalize().into())
    }
}
