//! Frames of AWS, whole and broken, to every translator that reads them.

#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "each target checks one thing")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::frames(data));
