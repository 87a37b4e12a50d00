//! Replays a stream whole, in two pieces split at every byte, byte by byte and at seeded splits, and demands the same
//! of all.

use super::usage_text;
use crate::adapter::{Adapter, Call, Failure, Progress};
use crate::frames::tests::frame;
use crate::sse;
use crate::tap::{Tap, TappedItem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What a client got, and what was known at the end.
#[derive(Debug, PartialEq)]
struct Replayed {
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

/// What a translator tells of texts in its events is what is read in them, and it tells of nearly all.
pub(super) fn texts_are_told(adapter: &dyn Adapter, call: &Call<'_>, answer: &Bytes, name: &str) {
    check_texts(adapter, call, [answer.clone()], name);
    check_texts(adapter, call, (0..answer.len()).map(|i| answer.slice(i..=i)), name);
}

fn check_texts(adapter: &dyn Adapter, call: &Call<'_>, chunks: impl IntoIterator<Item = Bytes>, name: &str) {
    let Some(mut tap) = Tap::new(call.operation) else { return };
    let (mut stream, mut plain, mut told) = (adapter.stream(call), 0, 0);
    for chunk in chunks {
        let Ok(out) = stream.push(chunk) else { return };
        let mut places = stream.texts();
        let mut at = 0;
        for event in sse::events(&out) {
            let Ok(read) = tap.read(&out.slice(at..at + event.len())) else { return };
            let [read] = read.as_slice() else { panic!("{name}: not one event") };
            plain += usize::from(read.is_piece_of_text());
            let (here, later) = places.split_at(places.iter().take_while(|place| place.event.start == at).count());
            places = later;
            match (!here.is_empty()).then(|| tap.read_places(&out, here)) {
                None => {}
                Some(Some(TappedItem::Text(heard))) => {
                    assert!(read.is_piece_of_text(), "{name}: {read:?}");
                    assert_eq!(heard.event, at..at + event.len(), "{name}: {read:?}");
                    let said = read.texts.first().map(|text| (text.lane, text.text.as_str()));
                    assert_eq!(said, Some((heard.lane, &*heard.text)), "{name}: {read:?}");
                    told += 1;
                }
                Some(Some(TappedItem::Event(heard))) => {
                    assert_eq!((&heard.texts, heard.is_call), (&read.texts, read.is_call), "{name}");
                    assert_eq!((&heard.closed, heard.says_more), (&read.closed, read.says_more), "{name}: {read:?}");
                    told += 1;
                }
                Some(None) => panic!("{name}: {here:?} of {read:?}"),
            }
            at += event.len();
        }
        assert!(places.is_empty(), "{name}: places where no event begins: {places:?}");
    }
    assert!(told > 0 || plain < 2, "{name}: {plain} texts, and none was told of");
}

/// Lines of `{"name": payload}` as AWS frames them: a name that ends in `Exception` is one, the payload of a `chunk` is
/// wrapped as InvokeModel wraps it.
pub(super) fn framed(lines: &[u8]) -> Bytes {
    let mut out = Vec::new();
    for line in lines.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let one: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(line).expect("a line of JSON");
        let (name, payload) = one.first_key_value().expect("a name");
        let kind = if name.ends_with("Exception") { "exception" } else { "event" };
        let payload = match name.as_str() {
            "chunk" => json!({ "bytes": STANDARD.encode(payload.get()) }).to_string(),
            _ => payload.get().to_owned(),
        };
        out.extend_from_slice(&frame(kind, name, payload.as_bytes()));
    }
    out.into()
}

/// The events of a stream, however they are framed.
fn events(answer: &[u8]) -> Vec<usize> {
    if !answer.starts_with(&[0]) {
        return sse::events(answer).map(<[u8]>::len).collect();
    }
    let (mut rest, mut all) = (answer, Vec::new());
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        all.push(length);
        rest = &rest[length..];
    }
    all
}

fn text(heard: &Replayed) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&heard.bytes), heard.usage)
}

/// Number of the event that lets the head go out, counted from 1.
fn begins_at(adapter: &dyn Adapter, call: &Call<'_>, answer: &Bytes) -> Option<usize> {
    let mut stream = adapter.stream(call);
    let mut at = 0;
    for (n, length) in events(answer).into_iter().enumerate() {
        stream.push(answer.slice(at..at + length)).ok()?;
        at += length;
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
) -> Replayed {
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
            usage: None,
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
    Replayed { bytes, usage: usage_text(ending.settled(call.body), rest) }
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
