//! Sealing of ids that clients carry: AES-SIV (RFC 5297), which is deterministic, under a key made from the master key
//! for this alone. One byte in front says which key, so that another can follow.

use crate::master_key::MasterKey;
use aes_siv::siv::Aes256Siv;
use aes_siv::{Key, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::ports::IdSeal;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::fmt;

/// The key that the master key gives.
const VERSION: u8 = 1;

pub struct SivSeal(Mutex<Aes256Siv>);

impl SivSeal {
    pub fn new(master: &MasterKey) -> Self {
        let half = |name: &[u8]| Sha256::new().chain_update(name).chain_update(master.expose()).finalize();
        let mut key = Key::<Aes256Siv>::default();
        let (front, back) = key.split_at_mut(32);
        front.copy_from_slice(&half(b"gateway bound ids, version 1, first half:"));
        back.copy_from_slice(&half(b"gateway bound ids, version 1, second half:"));
        Self(Mutex::new(Aes256Siv::new(&key)))
    }
}

impl IdSeal for SivSeal {
    fn seal(&self, plain: &[u8]) -> String {
        // The cipher refuses only texts of many gigabytes; an empty box then opens as nothing.
        let boxed = self.0.lock().encrypt([[VERSION]], plain).unwrap_or_default();
        URL_SAFE_NO_PAD.encode([&[VERSION], boxed.as_slice()].concat())
    }

    fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (version, boxed) = bytes.split_first()?;
        if *version != VERSION || boxed.len() < 16 {
            return None;
        }
        self.0.lock().decrypt([[VERSION]], boxed).ok()
    }
}

impl fmt::Debug for SivSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SivSeal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_seal_to_equal_texts_on_every_node() {
        let master = MasterKey::generate();
        let (one, other) = (SivSeal::new(&master), SivSeal::new(&master));
        let sealed = one.seal(b"file-1");
        assert_eq!((sealed.clone(), other.open(&sealed)), (other.seal(b"file-1"), Some(b"file-1".to_vec())));
        assert_ne!(sealed, one.seal(b"file-2"));
        assert!(!sealed.contains("file") && sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
    }

    #[test]
    fn what_was_changed_or_sealed_elsewhere_does_not_open() {
        let (mine, other) = (SivSeal::new(&MasterKey::generate()), SivSeal::new(&MasterKey::generate()));
        let sealed = mine.seal(b"file-1");
        assert_eq!(other.open(&sealed), None);
        for place in 0..sealed.len() {
            let flipped = if sealed.as_bytes()[place] == b'A' { "B" } else { "A" };
            let changed = [&sealed[..place], flipped, &sealed[place + 1..]].concat();
            assert_eq!(mine.open(&changed), None, "{place}");
        }
        for text in ["", "A", "AQ", "***", "AQAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(mine.open(text), None, "{text}");
        }
    }
}
