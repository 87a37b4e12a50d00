//! The source as git knows it, and the code in it without what only looks like code. Knows no rule.

use std::path::Path;
use std::process::Command;

pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments, strings and characters turned to blanks, so that braces can be counted.
    pub(crate) code: String,
    /// Only tests run it: the whole file.
    pub(crate) is_test: bool,
}

impl Source {
    /// Where the tests at the end of a file begin.
    pub(crate) fn tests_from(&self) -> usize {
        if self.is_test { 0 } else { self.code.find("#[cfg(test)]\nmod tests {").unwrap_or(usize::MAX) }
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files that git tracks or would: what is ignored is nobody's source.
pub(crate) fn tracked(pattern: &str) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    text.lines().filter(|p| root().join(p).is_file()).map(ToOwned::to_owned).collect()
}

pub(crate) fn sources() -> Vec<Source> {
    let read = |path: String| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a source file");
        let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "testing");
        Source { code: blanked(&text), path, text, is_test }
    };
    let all: Vec<Source> = tracked("*.rs").into_iter().map(read).collect();
    assert!(all.len() > 20, "the source was not found");
    all
}

/// The code alone.
pub(crate) fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes.get(at + 1) == Some(&b'*') => find(bytes, at + 2, b"*/").map_or(bytes.len(), |e| e + 2),
            b'"' => string_end(bytes, at + 1),
            b'r' if !is_word(bytes, at.wrapping_sub(1)) => raw_string_end(bytes, at).unwrap_or(at + 1),
            b'\'' => char_end(bytes, at).unwrap_or(at + 1),
            _ => at + 1,
        };
        if end > at + 1 {
            out[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(needle.len()).position(|w| w == needle).map(|at| from + at)
}

pub(crate) fn is_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    Some(find(bytes, at + 2 + hashes, &close).map_or(bytes.len(), |e| e + close.len()))
}

/// `None` for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = if bytes.get(at + 1) == Some(&b'\\') { find(bytes, at + 3, b"'")? } else { find(bytes, at + 2, b"'")? };
    (end - at <= 12 && (bytes[at + 1] == b'\\' || end - at <= 5 && !is_word(bytes, at + 2))).then_some(end + 1)
}
