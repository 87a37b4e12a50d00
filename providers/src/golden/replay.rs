//! Replays a stream whole, in two pieces split at every byte, byte by byte and at seeded splits, and demands the same
//! of all.

use super::usage_text;
use crate::adapter::{Adapter, Call, Failure, Progress};
use crate::sse;
use bytes::Bytes;
use serde_json::json;

/// What a client got, and what was known at the end.
#[derive(Debug, PartialEq)]
struct Heard {
    bytes: Vec<u8>,
    usage: String,
}

pub(super) fn stream(adapter: &dyn Adapter, call: &Call<'_>, answer: &Bytes, name: &str) -> (Vec<u8>, String) {
    let begun = begins_at(adapter, call, answer);
    let whole = hear(adapter, call, [answer.clone()], begun);
    let bytes = (0..answer.len()).map(|i| answer.slice(i..=i));
    assert_eq!(text(&hear(adapter, call, bytes, begun)), text(&whole), "{name}, byte by byte");
    let said = text(&whole);
    let half = |first: usize| {
        for at in (first..answer.len()).step_by(2) {
            let heard = hear(adapter, call, [answer.slice(..at), answer.slice(at..)], begun);
            assert_eq!(text(&heard), said, "{name}, split at byte {at}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| half(1));
        half(2);
    });
    for seed in 0..20 {
        let heard = hear(adapter, call, split(answer, seed), begun);
        assert_eq!(text(&heard), text(&whole), "{name}, split with seed {seed}");
    }
    (whole.bytes, whole.usage)
}

fn text(heard: &Heard) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&heard.bytes), heard.usage)
}

/// Number of the event that lets the head go out, counted from 1.
fn begins_at(adapter: &dyn Adapter, call: &Call<'_>, answer: &Bytes) -> Option<usize> {
    let mut stream = adapter.stream(call);
    let mut at = 0;
    for (n, event) in sse::events(answer).enumerate() {
        stream.push(answer.slice(at..at + event.len())).ok()?;
        at += event.len();
        if stream.progress() != Progress::Quiet {
            return Some(n + 1);
        }
    }
    None
}

fn hear(
    adapter: &dyn Adapter,
    call: &Call<'_>,
    chunks: impl IntoIterator<Item = Bytes>,
    begun: Option<usize>,
) -> Heard {
    let mut stream = adapter.stream(call);
    let mut bytes = Vec::new();
    let mut error = None;
    for chunk in chunks {
        match stream.push(chunk) {
            Ok(out) => bytes.extend_from_slice(&out),
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    if error.is_none() {
        bytes.extend_from_slice(&stream.finish());
    }
    if !stream.ending().complete {
        let early = Failure {
            status: 502,
            body: Bytes::from_static(br#"{"error":{"message":"the upstream ended early"}}"#),
            message: String::new(),
        };
        bytes.extend_from_slice(&stream.abort(error.as_ref().unwrap_or(&early)));
    }
    let ending = stream.ending();
    let rest = json!({
        "model": ending.model,
        "begins_with_event": begun,
        "complete": ending.complete,
        "failed": ending.failed,
        "error": error.map(|f| json!({ "status": f.status, "message": f.message })),
        "content_chars": ending.said.chars(),
    });
    Heard { bytes, usage: usage_text(ending.settled(call.body), rest) }
}

/// Pieces of 1 to 64 bytes, the same for the same seed.
fn split(answer: &Bytes, seed: u64) -> Vec<Bytes> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
    let (mut at, mut pieces) = (0, Vec::new());
    while at < answer.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let end = answer.len().min(at + 1 + usize::try_from(state % 64).unwrap_or(0));
        pieces.push(answer.slice(at..end));
        at = end;
    }
    pieces
}
