//! Who has a call of its own for transcripts.

use super::{HeardSound, Hearer, MappedEvent, SoundInJson};
use crate::compat::audio::seconds;
use crate::wire::usage::{OpenAiUsage, filter_reported_cost};
use gateway_domain::Usage;
use serde_json::{Value, json};

fn text_of(answer: &Value, key: &str) -> Option<String> {
    answer[key].as_str().map(str::to_owned)
}

fn list_of(answer: &Value, key: &str) -> Option<Value> {
    answer[key].is_array().then(|| answer[key].clone())
}

fn common(answer: &Value) -> Option<HeardSound> {
    Some(HeardSound {
        text: text_of(answer, "text")?,
        language: text_of(answer, "language"),
        seconds: answer["duration"].as_f64(),
        segments: list_of(answer, "segments"),
        words: list_of(answer, "words"),
        usage: None,
    })
}

const PLAIN: Hearer = Hearer {
    path: "",
    named_in_path: false,
    file: "file",
    takes: &[],
    needs_language: false,
    as_json: None,
    found: common,
    event: None,
};

fn by_seconds(usage: &Value) -> Option<Usage> {
    usage["prompt_audio_seconds"].as_f64().map(seconds)
}

/// <https://docs.mistral.ai/api/endpoint/audio/transcriptions>; it may be asked for a file of its own, or an address.
pub(crate) static MISTRAL_HEARS: Hearer = Hearer {
    path: "/audio/transcriptions",
    takes: &[
        ("language", "language"),
        ("temperature", "temperature"),
        ("timestamp_granularities[]", "timestamp_granularities"),
    ],
    found: |answer| {
        let usage = by_seconds(&answer["usage"]);
        let seconds = answer["usage"]["prompt_audio_seconds"].as_f64();
        Some(HeardSound { usage, seconds, ..common(answer)? })
    },
    event: Some(|event| {
        let text = || event["text"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "transcription.text.delta" => MappedEvent {
                told: Some(json!({ "type": "transcript.text.delta", "delta": text() })),
                ..MappedEvent::default()
            },
            "transcription.segment" => {
                let mut told = event.clone();
                told["type"] = "transcript.text.segment".into();
                MappedEvent { told: Some(told), ..MappedEvent::default() }
            }
            "transcription.done" => {
                let usage = by_seconds(&event["usage"]);
                let told = event["usage"]["prompt_audio_seconds"].as_f64();
                let told = told.map(|seconds| json!({ "type": "duration", "seconds": seconds }));
                let told = json!({ "type": "transcript.text.done", "text": text(), "usage": told });
                MappedEvent { told: Some(told), usage, is_last: true }
            }
            _ => MappedEvent::default(),
        }
    }),
    ..PLAIN
};

/// <https://docs.cohere.com/reference/create-audio-transcription>
pub(crate) static COHERE_HEARS: Hearer = Hearer {
    path: "/v2/audio/transcriptions",
    takes: &[("language", "language"), ("temperature", "temperature")],
    needs_language: true,
    ..PLAIN
};

/// <https://docs.x.ai/docs/guides/voice>
pub(crate) static XAI_HEARS: Hearer = Hearer { path: "/stt", takes: &[("language", "language")], ..PLAIN };

/// <https://deepinfra.com/docs/inference>
pub(crate) static DEEPINFRA_HEARS: Hearer = Hearer {
    path: "/v1/inference/",
    named_in_path: true,
    file: "audio",
    takes: &[("language", "language"), ("prompt", "initial_prompt"), ("temperature", "temperature")],
    found: |answer| {
        let seconds = answer["duration"].as_f64().or_else(|| Some(answer["input_length_ms"].as_f64()? / 1e3));
        Some(HeardSound { seconds, ..common(answer)? })
    },
    ..PLAIN
};

/// <https://developers.cloudflare.com/workers-ai/models/whisper-large-v3-turbo/>
pub(crate) static WORKERS_HEAR: Hearer = Hearer {
    path: "/run/",
    named_in_path: true,
    file: "audio",
    takes: &[("language", "language"), ("prompt", "initial_prompt")],
    as_json: Some(SoundInJson::Bare),
    found: |answer| {
        let (result, info) = (&answer["result"], &answer["result"]["transcription_info"]);
        Some(HeardSound { language: text_of(info, "language"), seconds: info["duration"].as_f64(), ..common(result)? })
    },
    ..PLAIN
};

/// <https://openrouter.ai/docs/guides/overview/multimodal/stt>, which is no form. It tells what the call cost, and seconds or tokens.
pub(crate) static OPENROUTER_HEARS: Hearer = Hearer {
    path: "/v1/audio/transcriptions",
    file: "input_audio",
    takes: &[("language", "language"), ("temperature", "temperature")],
    as_json: Some(SoundInJson::WithFormat),
    found: |answer| {
        let usage = serde_json::from_value::<OpenAiUsage>(answer["usage"].clone()).ok();
        let usage = filter_reported_cost("openrouter", usage.and_then(|usage| usage.split()));
        Some(HeardSound { usage, seconds: answer["usage"]["seconds"].as_f64(), ..common(answer)? })
    },
    ..PLAIN
};
