//! Speech of MiniMax's: text up, sound in hexadecimal digits back
//! (<https://platform.minimax.io/docs/api-reference/speech-t2a-http>). What it cost is told in characters.

use super::object::Object;
use super::{NativeShape, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::failure;
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

#[derive(Debug)]
pub(crate) struct MiniMax;

pub(crate) static MINIMAX: MiniMax = MiniMax;

#[derive(Deserialize)]
struct SpeechAsk<'a> {
    #[serde(borrow)]
    input: JsonStr<'a>,
    #[serde(borrow)]
    voice: Option<&'a RawValue>,
    speed: Option<f64>,
    #[serde(borrow)]
    response_format: Option<JsonStr<'a>>,
    #[serde(borrow)]
    stream_format: Option<JsonStr<'a>>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
}

/// An own voice of OpenAI's is an object with its id.
#[derive(Deserialize)]
struct SpeechVoice<'a> {
    #[serde(borrow)]
    id: JsonStr<'a>,
}

#[derive(Deserialize)]
struct SpeechAnswer<'a> {
    #[serde(borrow)]
    data: Option<SpeechData<'a>>,
    extra_info: Option<SpeechExtra>,
}

#[derive(Deserialize)]
struct SpeechData<'a> {
    #[serde(borrow)]
    audio: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct SpeechExtra {
    usage_characters: Option<u32>,
}

const FORMATS: &[(&str, &str)] =
    &[("mp3", "audio/mpeg"), ("wav", "audio/wav"), ("flac", "audio/flac"), ("pcm", "audio/pcm")];

impl NativeShape for MiniMax {
    fn path(&self) -> &'static str {
        "/v1/t2a_v2"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: SpeechAsk<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no speech request: {e}")))?;
        if ask.stream_format.is_some_and(|format| format.0 == "sse") {
            return Err(refused("stream_format", "must be audio: MiniMax's sound is given whole"));
        }
        let format = ask.response_format.as_ref().map_or("mp3", |format| &*format.0);
        if FORMATS.iter().all(|(name, _)| *name != format) {
            return Err(refused("response_format", "must be mp3, wav, flac or pcm at this provider"));
        }
        let voice = ask.voice.filter(|raw| speaks(Some(raw))).map(|raw| {
            let named = read::<JsonStr<'_>>(raw.get().as_bytes());
            named.or_else(|| Some(read::<SpeechVoice<'_>>(raw.get().as_bytes())?.id))
        });
        let voice = voice.flatten().ok_or_else(|| refused("voice", "is needed: the id of a voice of MiniMax's"))?;
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.put("text", &ask.input.0);
        body.put("stream", &false);
        body.put(
            "voice_setting",
            &match ask.speed {
                Some(speed) => json!({ "voice_id": voice.0, "speed": speed }),
                None => json!({ "voice_id": voice.0 }),
            },
        );
        body.put("audio_setting", &json!({ "format": format }));
        body.put("output_format", &"hex");
        let adjusted = if speaks(ask.instructions) { vec!["instructions"] } else { Vec::new() };
        Ok(ProviderRequest { path: None, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
        let answer: SpeechAnswer<'_> = read(body).ok_or_else(unreadable)?;
        let digits = answer.data.and_then(|data| data.audio).ok_or_else(unreadable)?;
        let sound = bytes_of(digits.0.as_bytes()).ok_or_else(unreadable)?;
        let told = answer.extra_info.and_then(|extra| extra.usage_characters);
        let usage = told.map(|characters| Usage {
            detail: UsageDetail { characters, ..UsageDetail::default() },
            ..Usage::default()
        });
        Ok(Reply { body: sound.into(), usage, model: None })
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        #[derive(Deserialize)]
        struct SpeechFormat<'a> {
            #[serde(borrow)]
            response_format: Option<JsonStr<'a>>,
        }
        let asked = read::<SpeechFormat<'_>>(call.body).and_then(|asked| asked.response_format);
        let format = asked.as_ref().map_or("mp3", |format| &*format.0);
        FORMATS.iter().find(|(name, _)| *name == format).map(|(_, media)| *media)
    }
}

fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then_some(())?;
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}
