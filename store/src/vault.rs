//! Sealing of secrets: XChaCha20-Poly1305, a fresh nonce each time, `sealed:v1:<base64 of nonce and box>`.
//! The prefix is authenticated too, so a later version cannot be passed off as this one.

use crate::master_key::MasterKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use gateway_domain::Secret;
use gateway_domain::ports::{Vault, VaultError};
use std::fmt;

const PREFIX: &str = "sealed:v1:";
/// 192 bits: random ones do not repeat.
const NONCE: usize = 24;

#[derive(Clone)]
pub struct SealingVault(XChaCha20Poly1305);

impl SealingVault {
    pub fn new(key: &MasterKey) -> Self {
        Self(XChaCha20Poly1305::new(key.expose().into()))
    }
}

impl Vault for SealingVault {
    fn seal(&self, plain: &str) -> String {
        let nonce: [u8; NONCE] = rand::random();
        let payload = Payload { msg: plain.as_bytes(), aad: PREFIX.as_bytes() };
        // The cipher refuses only texts of 256 GiB; an empty box then opens as malformed, never as plain text.
        let boxed = self.0.encrypt(XNonce::from_slice(&nonce), payload).unwrap_or_default();
        let mut text = PREFIX.to_owned();
        STANDARD_NO_PAD.encode_string([nonce.as_slice(), &boxed].concat(), &mut text);
        text
    }

    fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError> {
        let text = sealed.strip_prefix(PREFIX).ok_or(VaultError::Malformed)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| VaultError::Malformed)?;
        let (nonce, boxed) = bytes.split_at_checked(NONCE).ok_or(VaultError::Malformed)?;
        if boxed.len() < 16 {
            return Err(VaultError::Malformed);
        }
        let payload = Payload { msg: boxed, aad: PREFIX.as_bytes() };
        let plain = self.0.decrypt(XNonce::from_slice(nonce), payload).map_err(|_| VaultError::WrongKey)?;
        String::from_utf8(plain).map(Secret::new).map_err(|_| VaultError::Malformed)
    }
}

impl fmt::Debug for SealingVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingVault")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault() -> SealingVault {
        SealingVault::new(&MasterKey::generate())
    }

    #[test]
    fn opens_what_it_sealed() {
        let vault = vault();
        for plain in ["", "sk-1", "ключ 🔑", &"x".repeat(100_000)] {
            let sealed = vault.seal(plain);
            assert!(sealed.starts_with("sealed:v1:") && (plain.is_empty() || !sealed.contains(plain)));
            assert_eq!(vault.open(&sealed).unwrap().expose(), plain);
        }
        assert_ne!(vault.seal("same"), vault.seal("same"));
    }

    #[test]
    fn another_key_or_a_changed_byte_is_refused() {
        let (mine, other) = (vault(), vault());
        let sealed = mine.seal("secret");
        assert!(matches!(other.open(&sealed), Err(VaultError::WrongKey)));
        let at = sealed.len() - 5;
        let flipped = if sealed.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = [&sealed[..at], flipped, &sealed[at + 1..]].concat();
        assert!(matches!(mine.open(&changed), Err(VaultError::WrongKey)));
    }

    #[test]
    fn what_is_not_sealed_is_malformed() {
        let vault = vault();
        for text in ["", "sk-plain", "sealed:v1:", "sealed:v1:***", "sealed:v1:AAAA", "sealed:v2:AAAA"] {
            assert!(matches!(vault.open(text), Err(VaultError::Malformed)), "{text}");
        }
    }
}
