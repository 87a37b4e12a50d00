//! Bytes that a provider may send for a stream, to every kind of translator.

#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "each target checks one thing")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::sse(data));
