//! Text that a Gemini model reads out: bare samples of 24 kHz come back, and a head is put before them where WAV is
//! wanted.

use super::{files, refused};
use crate::adapter::{Call, Reply};
use crate::wire::read;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

/// Samples a second where the answer names no other number.
const RATE: u32 = 24_000;

#[derive(Deserialize)]
struct GeminiSpeechWish {
    input: String,
    voice: Option<Value>,
    instructions: Option<String>,
    response_format: Option<String>,
    stream_format: Option<String>,
    speed: Option<f64>,
}

fn wish(call: &Call<'_>) -> Option<GeminiSpeechWish> {
    read(call.body)
}

/// WAV, unless bare samples are asked for by name.
fn is_bare(call: &Call<'_>) -> bool {
    wish(call).is_some_and(|wish| wish.response_format.as_deref() == Some("pcm"))
}

pub(super) fn request(call: &Call<'_>) -> Result<(Value, Vec<&'static str>), Fault> {
    let wish: GeminiSpeechWish = serde_json::from_slice(call.body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no speech request: {e}")))?;
    if wish.stream_format.as_deref() == Some("sse") {
        return Err(refused("stream_format", "must be audio: this provider gives sound whole"));
    }
    let mut adjusted = Vec::new();
    match wish.response_format.as_deref() {
        Some("wav" | "pcm") => {}
        None => adjusted.push("response_format"),
        Some(_) => return Err(refused("response_format", "must be wav or pcm at this provider")),
    }
    adjusted.extend(wish.speed.is_some_and(|speed| (speed - 1.0).abs() > f64::EPSILON).then_some("speed"));
    let voice = wish.voice.as_ref().and_then(|voice| voice.as_str().or_else(|| voice["id"].as_str()));
    let voice = voice.ok_or_else(|| refused("voice", "is needed: the name of a voice of this provider"))?;
    let text = match wish.instructions.as_deref() {
        Some(how) if !how.is_empty() => format!("{how}\n\n{}", wish.input),
        _ => wish.input,
    };
    let speech = json!({ "voiceConfig": { "prebuiltVoiceConfig": { "voiceName": voice } } });
    let generation = json!({ "responseModalities": ["AUDIO"], "speechConfig": speech });
    let contents = json!([{ "role": "user", "parts": [{ "text": text }] }]);
    Ok((json!({ "contents": contents, "generationConfig": generation }), adjusted))
}

pub(super) fn response(call: &Call<'_>, answer: &Value, usage: Option<Usage>) -> Option<Reply> {
    let (media, data) = files(answer).next()?;
    let samples = STANDARD.decode(data).ok()?;
    if is_bare(call) {
        return Some(Reply { body: samples.into(), usage, model: None });
    }
    let rate = media.split(';').find_map(|part| part.trim().strip_prefix("rate=")?.parse().ok()).unwrap_or(RATE);
    Some(Reply { body: [wav_head(rate, samples.len()), samples].concat().into(), usage, model: None })
}

/// One channel of 16 bits (<https://www.iana.org/assignments/wave-avi-codec-registry>, WAVE_FORMAT_PCM).
pub(crate) fn wav_head(rate: u32, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let mut out = b"RIFF".to_vec();
    out.extend_from_slice(&length.saturating_add(36).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&rate.saturating_mul(2).to_le_bytes());
    out.extend_from_slice(b"\x02\0\x10\0data");
    out.extend_from_slice(&length.to_le_bytes());
    out
}

pub(super) fn media(call: &Call<'_>) -> &'static str {
    if is_bare(call) { "audio/pcm" } else { "audio/wav" }
}
