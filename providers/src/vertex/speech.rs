//! Google's models that only hear (Chirp), by Cloud Speech at an address of its own
//! (<https://cloud.google.com/speech-to-text/docs/reference/rest/v2/projects.locations.recognizers/recognize>). Sound
//! goes inline, which Google takes up to a minute of; what was heard is billed by the second, and the answer tells how
//! many.

use super::place::VertexModel;
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::compat::audio::{format_of, seconds};
use crate::convert::request::refused;
use crate::failure;
use crate::shapes::{HeardSound, render_transcript};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::cloud::is_heard_by_speech;
use gateway_domain::{Fault, FaultKind};
use serde_json::{Value, json};

/// Whether the model of a transcription is one of these.
pub(super) fn is_one(call: &Call<'_>) -> bool {
    call.operation == gateway_domain::Operation::Transcription && call.model.is_some_and(is_heard_by_speech)
}

/// Fields of OpenAI's that have no counterpart: dropped, and named.
const DROPPED: &[&str] = &["prompt", "temperature", "include[]", "chunking_strategy"];
const READ: &[&str] = &["file", "model", "language", "response_format", "stream", "timestamp_granularities[]"];

pub(super) fn request(call: &Call<'_>, place: &VertexModel<'_>) -> Result<ProviderRequest, Fault> {
    if !matches!(&*format_of(call), "" | "json" | "text" | "verbose_json") {
        return Err(refused("response_format", "must be json, text or verbose_json at this provider"));
    }
    if call.stream {
        return Err(refused("stream", "must be false: this provider gives transcripts whole"));
    }
    let form = call.form.ok_or_else(|| Fault::new(FaultKind::BadBody, "the body must be a form with a file"))?;
    let mut adjusted = Vec::new();
    for part in form.parts().iter().filter(|part| !READ.contains(&&*part.name)) {
        match DROPPED.iter().find(|known| **known == part.name) {
            Some(known) if !adjusted.contains(known) => adjusted.push(*known),
            Some(_) => {}
            None => return Err(refused(part.name.clone(), "has no counterpart at Cloud Speech")),
        }
    }
    let file = form.file(&["file"]).ok_or_else(|| refused("file", "is needed"))?;
    let language = form.text(call.body, "language").filter(|language| !language.is_empty());
    let is_word = |part: &&gateway_domain::form::FormPart| {
        part.name == "timestamp_granularities[]"
            && call.body.get(part.value.clone()).is_some_and(|value| value == b"word")
    };
    let mut features = json!({ "enableAutomaticPunctuation": true });
    if form.parts().iter().any(|part| is_word(&part)) {
        features["enableWordTimeOffsets"] = true.into();
    }
    let body = json!({
        "config": {
            "model": place.name,
            // The languages of Chirp are told apart by it.
            "languageCodes": [language.unwrap_or("auto")],
            "autoDecodingConfig": {},
            "features": features,
        },
        "content": STANDARD.encode(call.body.get(file.value.clone()).unwrap_or_default()),
    });
    let path = Some(place.recognizer_path());
    Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.to_string().into()), adjusted })
}

/// `3.200s`, as Google writes lengths of time; nothing at all is no time.
fn length(value: &Value) -> Option<f64> {
    value.as_str()?.strip_suffix('s')?.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let results = match &answer["results"] {
        Value::Array(results) => results.as_slice(),
        // Silence has no results, and the list is left out.
        Value::Null if answer.is_object() => &[],
        _ => return Err(unreadable()),
    };
    let (mut text, mut segments, mut words, mut end) = (String::new(), Vec::new(), Vec::new(), 0.0);
    for result in results {
        let heard = &result["alternatives"][0];
        let said = heard["transcript"].as_str().unwrap_or_default();
        let start = end;
        end = length(&result["resultEndOffset"]).unwrap_or(end);
        if said.trim().is_empty() {
            continue;
        }
        // Consecutive results are told with or without the space between them.
        if !text.is_empty() && !text.ends_with(char::is_whitespace) && !said.starts_with(char::is_whitespace) {
            text.push(' ');
        }
        text.push_str(said);
        segments.push(json!({ "id": segments.len(), "start": start, "end": end, "text": said }));
        words.extend(heard["words"].as_array().into_iter().flatten().map(|word| {
            let at = |name: &str| length(&word[name]).unwrap_or(0.0);
            json!({ "word": word["word"], "start": at("startOffset"), "end": at("endOffset") })
        }));
    }
    let billed = length(&answer["metadata"]["totalBilledDuration"]);
    let language = results.iter().find_map(|result| result["languageCode"].as_str());
    Ok(render_transcript(
        call,
        HeardSound {
            text: text.trim().to_owned(),
            language: language.map(str::to_owned),
            seconds: Some(end).filter(|end| *end > 0.0).or(billed),
            segments: Some(segments.into()),
            words: (!words.is_empty()).then(|| words.into()),
            usage: billed.map(seconds),
        },
    ))
}
