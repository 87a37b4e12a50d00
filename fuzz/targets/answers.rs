//! Bytes that a provider may answer with, to the reader of answers.

#![no_main]

#[path = "../answers.rs"]
mod answers;
#[path = "../http1.rs"]
mod http1;

libfuzzer_sys::fuzz_target!(|data: &[u8]| answers::answers(data));
