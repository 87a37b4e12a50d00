//! Where a string of JSON ends or has an escape. Most strings are short, and for those a search by wide registers takes
//! longer to begin than to be over, so the first bytes are looked at eight at a time. Knows nothing else of JSON.

use memchr::memchr2;

const WORD: usize = size_of::<u64>();
/// Bytes that are looked at by words.
const NEAR: usize = 3 * WORD;
const LOW: u64 = u64::from_ne_bytes([0x01; WORD]);
const HIGH: u64 = u64::from_ne_bytes([0x80; WORD]);
const QUOTES: u64 = u64::from_ne_bytes([b'"'; WORD]);
const ESCAPES: u64 = u64::from_ne_bytes([b'\\'; WORD]);

/// The place of the first quote or backslash.
#[inline]
pub fn find(text: &[u8]) -> Option<usize> {
    let (words, _) = text[..text.len().min(NEAR)].as_chunks::<WORD>();
    for (number, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let hits = zeros(word ^ QUOTES) | zeros(word ^ ESCAPES);
        if hits != 0 {
            return Some(number * WORD + hits.trailing_zeros() as usize / 8);
        }
    }
    let seen = words.len() * WORD;
    memchr2(b'"', b'\\', &text[seen..]).map(|at| seen + at)
}

/// The highest bit of each byte that is zero. Bytes behind the first may be wrongly marked, never one before it.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_place_is_found() {
        for length in 0..70 {
            let plain: Vec<u8> = (0..length).map(|n| b'a' + (n % 23) as u8).collect();
            assert_eq!(find(&plain), None);
            for at in 0..length {
                for byte in [b'"', b'\\'] {
                    let mut text = plain.clone();
                    text[at] = byte;
                    assert_eq!(find(&text), Some(at), "{byte} at {at} of {length}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn as_a_plain_search_finds_it(text in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(0xa2), Just(b'#')], 0..60)) {
            prop_assert_eq!(find(&text), text.iter().position(|byte| matches!(byte, b'"' | b'\\')));
        }
    }
}
