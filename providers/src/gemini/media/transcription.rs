//! Sound that a Gemini model writes down: the file goes with a fixed instruction, since there is no call for
//! transcripts.

use super::{inline, parts, refused};
use crate::adapter::{Call, Reply};
use crate::compat::audio::format_of;
use crate::shapes::{HeardSound, render_transcript};
use gateway_domain::{Fault, Usage};
use serde_json::{Value, json};

const INSTRUCTION: &str =
    "Write down what is said in this audio, word for word. Answer with the transcript alone, without any comment.";
const KINDS: &[(&str, &str)] = &[
    ("wav", "audio/wav"),
    ("mp3", "audio/mp3"),
    ("mpga", "audio/mp3"),
    ("aiff", "audio/aiff"),
    ("aac", "audio/aac"),
    ("m4a", "audio/mp4"),
    ("mp4", "audio/mp4"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("webm", "audio/webm"),
];

pub(super) fn request(call: &Call<'_>) -> Result<(Value, Vec<&'static str>), Fault> {
    if !matches!(&*format_of(call), "" | "json" | "text") {
        return Err(refused("response_format", "must be json or text at this provider"));
    }
    if call.stream {
        return Err(refused("stream", "must be false: this provider gives transcripts whole"));
    }
    let form = call.form.ok_or_else(|| refused("file", "is needed, in a form"))?;
    let file = form.file(&["file"]).ok_or_else(|| refused("file", "is needed"))?;
    let said = |name: &str| form.text(call.body, name).filter(|text| !text.is_empty());
    let mut text = INSTRUCTION.to_owned();
    if let Some(language) = said("language") {
        text = format!("{text} It is in the language {language}.");
    }
    if let Some(prompt) = said("prompt") {
        text = format!("{text}\nWhat stands before it, or names in it: {prompt}");
    }
    let mut body = json!({ "contents": [{ "role": "user", "parts": [{ "text": text }, inline(call, file, KINDS, "audio/wav")] }] });
    let temperature = said("temperature").and_then(|text| text.parse::<f64>().ok());
    if let Some(temperature) = temperature {
        body["generationConfig"] = json!({ "temperature": temperature });
    }
    let lacks = ["timestamp_granularities[]", "include[]", "chunking_strategy"];
    Ok((body, lacks.into_iter().filter(|name| form.named(name).next().is_some()).collect()))
}

pub(super) fn response(call: &Call<'_>, answer: &Value, usage: Option<Usage>) -> Option<Reply> {
    let texts: Vec<&str> =
        parts(answer).filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str()).collect();
    // A sound in which nothing is said is answered with nothing.
    answer["candidates"].as_array()?;
    Some(render_transcript(call, HeardSound { text: texts.concat().trim().to_owned(), usage, ..HeardSound::default() }))
}

pub(super) fn media(call: &Call<'_>) -> Option<&'static str> {
    (format_of(call) == "text").then_some("text/plain; charset=utf-8")
}
