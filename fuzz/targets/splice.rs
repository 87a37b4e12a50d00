//! Bodies that a client may send, to what changes JSON in place.

#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "each target checks one thing")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::splice(data));
