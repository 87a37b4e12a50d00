//! Bytes that a provider may answer with, to the reader of answers.

#![no_main]

#[path = "../answers.rs"]
mod answers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| answers::answers(data));
