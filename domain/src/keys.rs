//! Gateway keys: `gw_<kind>_<32 base62>_<checksum>`, found by the SHA-256 of their text.
//! Bootstrap keys may be anything of 32 characters or more, so form is a hint, never a proof.

use sha2::{Digest, Sha256};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    pub fn parse(hex: &str) -> Option<Self> {
        let mut out = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Makes a key of `kind` (`admin`, `svc`, `usr`) from 32 random bytes, each used modulo 62.
/// 32 base62 digits hold 190 bits; the bias of the modulo costs under one of them.
pub fn mint(kind: &str, random: &[u8; 32]) -> String {
    let secret: String = random.iter().map(|b| BASE62[usize::from(*b) % 62] as char).collect();
    let body = format!("gw_{kind}_{secret}");
    let check = checksum(&body);
    format!("{body}_{check}")
}

/// True for text that has the form and checksum of a minted key: such text is never forwarded upstream.
pub fn looks_minted(text: &str) -> bool {
    text.starts_with("gw_") && text.rsplit_once('_').is_some_and(|(body, check)| checksum(body) == check)
}

/// Six base62 digits, so that a scanner can tell a leaked key from a lookalike.
fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    digest[..6].iter().map(|b| BASE62[usize::from(*b) % 62] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_keys_are_recognised() {
        let key = mint("svc", &[7; 32]);
        assert!(looks_minted(&key), "{key}");
        assert_eq!(key.len(), "gw_svc_".len() + 32 + 7);
        assert!(!looks_minted("gw_svc_aaaa_bbbbbb"));
        assert!(!looks_minted("sk-proj-123"));
    }

    #[test]
    fn hash_round_trip() {
        let h = KeyHash::of("x");
        assert_eq!(KeyHash::parse(&h.to_string()), Some(h));
        assert_eq!(KeyHash::parse("zz"), None);
    }
}
