//! Transcripts of providers that have a call of their own for them: the client's form in their words, and what they
//! heard in the format that it asked for. Subtitles are made by nobody here, and refused.

mod rows;

pub(crate) use rows::{COHERE_HEARS, DEEPINFRA_HEARS, MISTRAL_HEARS, OPENROUTER_HEARS, WORKERS_HEAR, XAI_HEARS};

use super::event_mapping::{MappedEvent, MappedStream};
use super::object::Object;
use super::{NativeShape, in_path, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::audio::{format_of, heard};
use crate::failure::{self, ProviderError};
use crate::forms::FormWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::form::FormPart;
use gateway_domain::{Fault, FaultKind, Usage};
use serde_json::{Map, Value, json};

/// What a provider heard.
#[derive(Debug, Default)]
pub(crate) struct HeardSound {
    pub(crate) text: String,
    pub(crate) language: Option<String>,
    pub(crate) seconds: Option<f64>,
    pub(crate) segments: Option<Value>,
    pub(crate) words: Option<Value>,
    pub(crate) usage: Option<Usage>,
}

/// A provider's words for what is to be heard.
#[derive(Debug)]
pub(crate) struct Hearer {
    path: &'static str,
    /// The model stands at the path's end, and not in the form.
    named_in_path: bool,
    /// What it calls the file.
    file: &'static str,
    /// OpenAI's fields that it knows, under its names.
    takes: &'static [(&'static str, &'static str)],
    needs_language: bool,
    /// It takes JSON with the file in base64.
    as_json: Option<SoundInJson>,
    found: fn(&Value) -> Option<HeardSound>,
    /// Its events; `None`: it gives transcripts whole.
    event: Option<fn(&Value) -> MappedEvent>,
}

/// How the file stands in a request of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SoundInJson {
    /// Its base64 alone; the model is in the path.
    Bare,
    /// Beside its format, as `data`; the model is a member of its own.
    WithFormat,
}

/// What a file is, by its name's ending or else by its media type.
fn format_of_file(file: &FormPart) -> String {
    let ending = file.filename.as_deref().and_then(|name| Some(name.rsplit_once('.')?.1.to_ascii_lowercase()));
    let known =
        ending.filter(|ending| (1..=5).contains(&ending.len()) && ending.bytes().all(|b| b.is_ascii_alphanumeric()));
    let told = file.media.as_deref().and_then(|media| media.strip_prefix("audio/"));
    known.unwrap_or_else(|| if told == Some("mpeg") { "mp3" } else { told.unwrap_or("wav") }.to_owned())
}

/// OpenAI's fields: what a provider does not take of them is dropped and named.
const OPENAIS: &[&str] =
    &["language", "prompt", "temperature", "timestamp_granularities[]", "include[]", "chunking_strategy"];
/// Read here, or of no matter to anybody else.
const READ: &[&str] = &["file", "audio", "model", "response_format", "stream"];

impl Hearer {
    fn check(&self, call: &Call<'_>) -> Result<(), Fault> {
        if !matches!(&*format_of(call), "" | "json" | "text" | "verbose_json") {
            return Err(refused("response_format", "must be json, text or verbose_json at this provider"));
        }
        if call.stream && self.event.is_none() {
            return Err(refused("stream", "must be false: this provider gives transcripts whole"));
        }
        let form = call.form.ok_or_else(|| Fault::new(FaultKind::BadBody, "the body must be a form with a file"))?;
        if self.needs_language && form.text(call.body, "language").is_none_or(str::is_empty) {
            return Err(refused("language", "is needed at this provider"));
        }
        Ok(())
    }

    fn name_of<'n>(&self, field: &'n str) -> Option<&'n str> {
        if !OPENAIS.contains(&field) {
            return (!READ.contains(&field)).then_some(field);
        }
        self.takes.iter().find(|(ours, _)| *ours == field).map(|(_, theirs)| *theirs)
    }
}

impl NativeShape for Hearer {
    fn path(&self) -> &'static str {
        self.path
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        self.check(call)?;
        let path = if self.named_in_path { Some([self.path, in_path(call)?].concat()) } else { None };
        let form = call.form.ok_or_else(|| refused("file", "is needed"))?;
        let file = form.file(&["file", "audio"]);
        let dropped = |part: &&FormPart| OPENAIS.contains(&&*part.name) && self.name_of(&part.name).is_none();
        let named = |name: &str| OPENAIS.iter().find(|known| **known == name).copied();
        let adjusted = form.parts().iter().filter(dropped).filter_map(|part| named(&part.name)).collect();
        let fields = form.parts().iter().filter(|part| part.filename.is_none());
        let text = |part: &FormPart| {
            String::from_utf8_lossy(call.body.get(part.value.clone()).unwrap_or_default()).into_owned()
        };
        if let Some(form_of_sound) = self.as_json {
            let file = file.ok_or_else(|| refused("file", "is needed"))?;
            let data = STANDARD.encode(call.body.get(file.value.clone()).unwrap_or_default());
            let mut body = Object::new();
            if form_of_sound == SoundInJson::WithFormat {
                body.put_some("model", call.model);
                body.put(self.file, &json!({ "data": data, "format": format_of_file(file) }));
            } else {
                body.put(self.file, &data);
            }
            for (name, text) in fields.filter_map(|part| Some((self.name_of(&part.name)?, text(part)))) {
                match text.parse::<f64>().ok().filter(|number| name == "temperature" && number.is_finite()) {
                    Some(number) => body.put(name, &number),
                    None => body.put(name, &text),
                }
            }
            return Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted });
        }
        let mut out = FormWriter::over(form);
        if let Some(model) = call.model.filter(|_| !self.named_in_path) {
            out.text("model", model);
        }
        if call.stream {
            out.text("stream", "true");
        }
        fields
            .filter_map(|part| Some((self.name_of(&part.name)?, text(part))))
            .for_each(|(name, text)| out.text(name, &text));
        if let Some(file) = file {
            out.part(self.file, file, call.body);
        }
        out.outgoing(path, adjusted)
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || match ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{')) {
            Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
            None => failure::unreadable(slug, "the answer", body, call.dialect),
        };
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
        let found = (self.found)(&answer).ok_or_else(unreadable)?;
        Ok(render_transcript(call, found))
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        (format_of(call) == "text" && !call.stream).then_some("text/plain; charset=utf-8")
    }

    fn stream(&self, slug: &'static str, _call: &Call<'_>) -> Option<Box<dyn StreamTranslator>> {
        Some(Box::new(MappedStream::new(slug, self.event?)))
    }
}

/// A transcript in the format that was asked for.
pub(crate) fn render_transcript(call: &Call<'_>, found: HeardSound) -> Reply {
    let HeardSound { text, language, seconds, segments, words, usage } = found;
    let usage = usage.or_else(|| seconds.map(crate::compat::audio::seconds)).or_else(|| heard(call));
    let format = format_of(call);
    if format == "text" {
        return Reply { body: format!("{text}\n").into(), usage, model: None };
    }
    let mut body = Map::new();
    if format == "verbose_json" {
        body.insert("task".to_owned(), "transcribe".into());
        body.insert("language".to_owned(), language.into());
        body.insert("duration".to_owned(), seconds.into());
    }
    body.insert("text".to_owned(), text.into());
    for (name, value) in [("segments", segments), ("words", words)] {
        if let Some(value) = value.filter(|_| format == "verbose_json") {
            body.insert(name.to_owned(), value);
        }
    }
    if let Some(usage) = &usage {
        body.insert("usage".to_owned(), shown(usage));
    }
    Reply { body: Value::Object(body).to_string().into(), usage, model: None }
}

/// Usage as OpenAI's transcripts have it.
fn shown(usage: &Usage) -> Value {
    if usage.total() == 0 {
        return json!({ "type": "duration", "seconds": f64::from(usage.detail.millis_in) / 1e3 });
    }
    json!({
        "type": "tokens", "input_tokens": usage.prompt(), "output_tokens": usage.completion(), "total_tokens": usage.total(),
        "input_token_details": { "text_tokens": usage.input, "audio_tokens": usage.audio_in },
    })
}
