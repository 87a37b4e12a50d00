//! One SHA-256 over several parts, by which what was seen before is known again without being kept.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The digest in hex. Each part goes in with its length, so that none can be taken for the end of another.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut whole = Sha256::new();
    for part in parts {
        whole.update((part.len() as u64).to_be_bytes());
        whole.update(part);
    }
    whole.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let of = |parts: &[&str]| digest(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        assert_eq!((of(&["ab", "c"]), of(&[]).len()), (of(&["ab", "c"]), 64));
    }
}
