//! The key of one blob, and its pieces sealed with it: XChaCha20-Poly1305, a fresh nonce each time, nonce and box
//! behind each other; base64 of that in a row. Blob and place are authenticated with each piece.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use gateway_domain::ports::{MOST_BLOB_PIECE, StoreError};
use uuid::Uuid;

const KEY: usize = 32;
const NONCE: usize = 24;
const TAG: usize = 16;

/// Bytes of the largest piece, sealed.
pub(super) const SEALED_PIECE: usize = MOST_BLOB_PIECE + NONCE + TAG;

pub(super) struct PieceKey([u8; KEY]);

impl PieceKey {
    pub(super) fn generate() -> Self {
        Self(rand::random())
    }

    /// The key as the text that the vault seals.
    pub(super) fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        STANDARD_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// Seals a piece for a row.
    pub(super) fn seal(&self, blob: Uuid, place: i64, piece: &[u8]) -> String {
        as_text(&self.close(blob, place, piece))
    }

    /// Seals a piece for an object.
    pub(super) fn close(&self, blob: Uuid, place: i64, piece: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE] = rand::random();
        let payload = Payload { msg: piece, aad: &stamp(blob, place) };
        // The cipher refuses only what is larger than any piece; an empty box then does not open.
        let boxed = self.cipher().encrypt(XNonce::from_slice(&nonce), payload).unwrap_or_default();
        [nonce.as_slice(), &boxed].concat()
    }

    pub(super) fn open(&self, blob: Uuid, place: i64, sealed: &str) -> Result<Vec<u8>, StoreError> {
        self.reveal(blob, place, &from_text(sealed)?)
    }

    pub(super) fn reveal(&self, blob: Uuid, place: i64, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let opened = sealed.split_at_checked(NONCE).and_then(|(nonce, boxed)| {
            let payload = Payload { msg: boxed, aad: &stamp(blob, place) };
            self.cipher().decrypt(XNonce::from_slice(nonce), payload).ok()
        });
        opened.ok_or_else(closed)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(Key::from_slice(&self.0))
    }
}

/// A sealed piece as the text that a row has.
pub(super) fn as_text(sealed: &[u8]) -> String {
    STANDARD_NO_PAD.encode(sealed)
}

pub(super) fn from_text(sealed: &str) -> Result<Vec<u8>, StoreError> {
    STANDARD_NO_PAD.decode(sealed).map_err(|_| closed())
}

fn closed() -> StoreError {
    StoreError::Broken("a piece of a blob does not open".to_owned())
}

fn stamp(blob: Uuid, place: i64) -> [u8; 24] {
    let mut stamp = [0; 24];
    stamp[..16].copy_from_slice(blob.as_bytes());
    stamp[16..].copy_from_slice(&place.to_be_bytes());
    stamp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_opens_in_its_own_place_only() {
        let (key, blob) = (PieceKey::generate(), Uuid::from_u128(1));
        let sealed = key.seal(blob, 7, b"\0\xff bytes");
        assert_eq!(key.open(blob, 7, &sealed).expect("opens"), b"\0\xff bytes");
        assert_ne!(sealed, key.seal(blob, 7, b"\0\xff bytes"));
        for (blob, place) in [(blob, 8), (Uuid::from_u128(2), 7)] {
            key.open(blob, place, &sealed).expect_err("another place");
        }
        PieceKey::generate().open(blob, 7, &sealed).expect_err("another key");
        for broken in ["", "AAAA", "***"] {
            key.open(blob, 7, broken).expect_err("no piece");
        }
    }

    #[test]
    fn a_key_is_kept_as_text() {
        let key = PieceKey::generate();
        let sealed = key.seal(Uuid::nil(), 0, b"x");
        let again = PieceKey::parse(&key.to_text()).expect("its own text");
        assert_eq!(again.open(Uuid::nil(), 0, &sealed).expect("opens"), b"x");
        assert!(PieceKey::parse("c2hvcnQ").is_none());
    }
}
