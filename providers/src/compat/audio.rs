//! Sound at OpenAI-like providers: forms that go up as they came, what a transcription was of, and speech that is asked
//! for in events so that it tells what it cost. The format that a client chose never hides what is billed.

use super::CompatRow;
use crate::adapter::{BodyPieces, Call, ProviderRequest, Reply};
use crate::audio_duration;
use crate::edit;
use crate::forms::{self, FormEdit};
use crate::model;
use crate::wire::usage::OpenAiUsage;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::form::ClientForm;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Fault, Operation, Usage};
use serde::Deserialize;

/// A form of the client's, with the model in its place.
pub(super) fn form(call: &Call<'_>, form: &ClientForm, path: Option<String>) -> Result<ProviderRequest, Fault> {
    // Bare text tells nothing of usage. JSON does, and has the same text.
    let body = if wants_text(call) {
        let edit = FormEdit::new(form).text("response_format", "json");
        let edit = call.model.into_iter().fold(edit, |edit, model| edit.text("model", model));
        BodyPieces::One(edit.written(call.body))
    } else {
        forms::named(call, form)?
    };
    Ok(ProviderRequest { path, headers: vec![forms::media_header(form.boundary())?], body, adjusted: Vec::new() })
}

/// A field of the call, whether it came as a form or as JSON.
pub(crate) fn format_of(call: &Call<'_>) -> String {
    #[derive(Deserialize)]
    struct AskedFormat<'a> {
        #[serde(borrow)]
        response_format: Option<JsonStr<'a>>,
    }
    match call.form {
        Some(form) => form.text(call.body, "response_format").unwrap_or_default().to_owned(),
        None => {
            let asked = read::<AskedFormat<'_>>(call.body).and_then(|asked| asked.response_format);
            asked.map(|format| format.0.into_owned()).unwrap_or_default()
        }
    }
}

/// A transcript that is asked for as bare text, and not in pieces.
pub(crate) fn wants_text(call: &Call<'_>) -> bool {
    let hears = matches!(call.operation, Operation::Transcription | Operation::Translation);
    hears && call.form.is_some() && !call.stream && format_of(call) == "text"
}

#[derive(Deserialize)]
struct HeardTranscript<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    usage: Option<OpenAiUsage>,
    duration: Option<f64>,
}

/// A whole answer of a transcription or translation.
pub(crate) fn transcript(call: &Call<'_>, body: &Bytes) -> Reply {
    let Some(told) = read::<HeardTranscript<'_>>(body).filter(|_| body.trim_ascii_start().starts_with(b"{")) else {
        let cues = || audio_duration::last_cue(&String::from_utf8_lossy(body));
        return Reply { body: body.clone(), usage: heard(call).or_else(|| cues().map(counted)), model: None };
    };
    let usage = told.usage.and_then(|usage| usage.split());
    let usage = usage.or_else(|| told.duration.map(seconds)).or_else(|| heard(call));
    let body = match told.text {
        Some(text) if wants_text(call) => format!("{}\n", text.0).into(),
        _ => body.clone(),
    };
    Reply { body, usage, model: None }
}

/// Usage of so many seconds of input sound, which the provider told.
pub(crate) fn seconds(seconds: f64) -> Usage {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN is 0")]
    let millis_in = (seconds * 1e3).round() as u32;
    Usage { detail: UsageDetail { millis_in, ..UsageDetail::default() }, ..Usage::default() }
}

fn counted(millis_in: u32) -> Usage {
    let detail = UsageDetail { millis_in, ..UsageDetail::default() };
    Usage { estimated: true, detail, ..Usage::default() }
}

/// What was heard, by the file itself, or else by what the client says of it.
pub(crate) fn heard(call: &Call<'_>) -> Option<Usage> {
    let file = call.form.and_then(|form| form.file(&["file", "audio"]));
    let millis = file.and_then(|file| audio_duration::millis(call.body.get(file.value.clone())?));
    millis.or(call.sound_ms).map(counted)
}

/// Sound that was made; nothing where none was.
pub fn made(millis_out: u32) -> Option<Usage> {
    let detail = UsageDetail { millis_out, ..UsageDetail::default() };
    (millis_out > 0).then(|| Usage { estimated: true, detail, ..Usage::default() })
}

/// Characters that are spoken: what speech costs where its answer tells nothing.
pub fn spoken(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct SpokenInput<'a> {
        #[serde(borrow)]
        input: JsonStr<'a>,
    }
    let characters = u32::try_from(read::<SpokenInput<'_>>(body)?.input.0.chars().count()).ok()?;
    let detail = UsageDetail { characters, ..UsageDetail::default() };
    Some(Usage { estimated: true, detail, ..Usage::default() })
}

#[derive(Deserialize)]
struct SpeechWish<'a> {
    #[serde(borrow)]
    response_format: Option<JsonStr<'a>>,
    #[serde(borrow)]
    stream_format: Option<JsonStr<'a>>,
}

/// Speech of a model that bills tokens, which only its events tell: asked for so, and given to the client as the sound
/// in them. OpenAI's older models have no events, and are billed by what they are asked to say.
pub(crate) fn speaks_in_events(row: &CompatRow, call: &Call<'_>) -> bool {
    let knows = matches!(row.info.slug, "openai" | "azure-openai") && call.operation == Operation::Speech;
    knows
        && call.model.is_some_and(|model| model.starts_with("gpt-"))
        && read::<SpeechWish<'_>>(call.body)
            .is_some_and(|wish| wish.stream_format.is_none_or(|format| format.0 != "sse"))
}

pub(super) fn asking_for_events(call: &Call<'_>) -> Result<BodyPieces, Fault> {
    let body = model::replaced(call, model::changed(call, call.model)?, "")?.join();
    let body = edit::set_top_level(&body, &[("stream_format", Some("\"sse\""))]);
    body.map(BodyPieces::One).map_err(|e| model::not_an_object(&e))
}

/// The media type of the sound that is asked for.
pub(crate) fn media(call: &Call<'_>) -> &'static str {
    let wish = read::<SpeechWish<'_>>(call.body).and_then(|wish| wish.response_format);
    match wish.as_ref().map_or("mp3", |format| &*format.0) {
        "opus" => "audio/opus",
        "aac" => "audio/aac",
        "flac" => "audio/flac",
        "wav" => "audio/wav",
        "pcm" => "audio/pcm",
        _ => "audio/mpeg",
    }
}
