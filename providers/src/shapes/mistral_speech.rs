//! Speech of Mistral's: text and the id of a voice up, sound in base64 back, whole or in events
//! (<https://docs.mistral.ai/api/endpoint/audio/speech>).

use super::event_mapping::{MappedEvent, MappedStream};
use super::object::Object;
use super::{NativeShape, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::audio;
use crate::edit;
use crate::failure;
use crate::model;
use crate::wire::usage::OpenAiUsage;
use crate::wire::{JsonStr, read};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct MistralSpeech;

pub(crate) static MISTRAL_SPEAKS: MistralSpeech = MistralSpeech;

#[derive(Deserialize)]
struct MistralAsk<'a> {
    #[serde(borrow)]
    input: JsonStr<'a>,
    #[serde(borrow)]
    voice: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<JsonStr<'a>>,
    #[serde(borrow)]
    stream_format: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct OwnVoice<'a> {
    #[serde(borrow)]
    id: JsonStr<'a>,
}

#[derive(Deserialize)]
struct MistralSound<'a> {
    #[serde(borrow)]
    audio_data: JsonStr<'a>,
    usage: Option<OpenAiUsage>,
}

/// OpenAI's that Mistral lacks.
const LACKS: &[&str] = &["instructions", "speed"];
/// Written anew.
const READ: &[&str] = &["model", "input", "voice", "response_format", "stream_format", "stream"];

fn in_events(call: &Call<'_>) -> bool {
    read::<MistralAsk<'_>>(call.body).is_some_and(|ask| ask.stream_format.is_some_and(|format| format.0 == "sse"))
}

impl NativeShape for MistralSpeech {
    fn path(&self) -> &'static str {
        "/audio/speech"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: MistralAsk<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no speech request: {e}")))?;
        let format = ask.response_format.as_ref().map_or("mp3", |format| &*format.0);
        if !matches!(format, "mp3" | "opus" | "flac" | "wav" | "pcm") {
            return Err(refused("response_format", "must be mp3, opus, flac, wav or pcm at this provider"));
        }
        let members = edit::members(call.body).map_err(|e| model::not_an_object(&e))?;
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.put("input", &ask.input.0);
        let voice = ask.voice.and_then(|raw| {
            let named = read::<JsonStr<'_>>(raw.get().as_bytes());
            named.or_else(|| Some(read::<OwnVoice<'_>>(raw.get().as_bytes())?.id))
        });
        body.put_some("voice_id", voice.as_ref().map(|voice| &*voice.0));
        body.put("response_format", &format);
        body.put("stream", &in_events(call));
        let mut adjusted = Vec::new();
        for member in members.iter().filter(|member| !READ.contains(&&*member.key)) {
            match LACKS.iter().find(|lacked| **lacked == member.key) {
                Some(lacked) => adjusted.push(*lacked),
                None => body.raw(&member.key, &call.body[member.value.clone()]),
            }
        }
        Ok(ProviderRequest { path: None, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", &body[..body.len().min(100)], call.dialect);
        let answer: MistralSound<'_> = read(body).ok_or_else(unreadable)?;
        let sound = STANDARD.decode(answer.audio_data.0.as_bytes()).map_err(|_| unreadable())?;
        let usage = answer.usage.and_then(|usage| usage.of_speech()).or_else(|| audio::spoken(call.body));
        Ok(Reply { body: sound.into(), usage, model: None })
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        (!in_events(call)).then(|| audio::media(call))
    }

    fn stream(&self, slug: &'static str, _call: &Call<'_>) -> Option<Box<dyn StreamTranslator>> {
        Some(Box::new(MappedStream::new(slug, map_event)))
    }
}

fn map_event(event: &Value) -> MappedEvent {
    match event["type"].as_str().unwrap_or_default() {
        "speech.audio.delta" => MappedEvent {
            told: Some(json!({ "type": "speech.audio.delta", "audio": event["audio_data"] })),
            ..MappedEvent::default()
        },
        "speech.audio.done" => {
            let usage = serde_json::from_value::<OpenAiUsage>(event["usage"].clone()).ok();
            let usage = usage.and_then(|usage| usage.of_speech());
            let shown = usage.map(|usage| {
                json!({ "input_tokens": usage.prompt(), "output_tokens": usage.completion(), "total_tokens": usage.total() })
            });
            let told = json!({ "type": "speech.audio.done", "usage": shown });
            MappedEvent { told: Some(told), usage, is_last: true }
        }
        _ => MappedEvent::default(),
    }
}
