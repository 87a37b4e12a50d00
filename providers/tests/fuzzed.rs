//! Input that fuzzing found or started from, held to what must hold for any bytes (`fuzz/checks.rs`).

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../fuzz/checks.rs"]
mod checks;

use std::path::Path;

fn each(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let (mut count, mut failed) = (0, Vec::new());
    for entry in std::fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry")) {
        let bytes = std::fs::read(entry.path()).expect("a file");
        if std::panic::catch_unwind(|| check(&bytes)).is_err() {
            failed.push(entry.file_name());
        }
        count += 1;
    }
    assert!(failed.is_empty(), "{target}: {failed:?}");
    assert!(count > 10, "{} holds {count} inputs", folder.display());
}

#[test]
fn streams() {
    each("sse", checks::sse);
}

#[test]
fn frames() {
    each("frames", checks::frames);
}

#[test]
fn bodies() {
    each("splice", checks::splice);
}
