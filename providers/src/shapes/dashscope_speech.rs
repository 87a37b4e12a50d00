//! Speech of Alibaba's Qwen models, which is asked for in events: whole answers hold an address and no sound
//! (<https://www.alibabacloud.com/help/en/model-studio/qwen-tts>). The events hold samples of 24 kHz and 16 bits, of
//! which WAV is made by putting a head before them.

use super::object::Object;
use super::{NativeShape, refused};
use crate::adapter::{BodyPieces, Call, Ending, Failure, Progress, ProviderRequest, Reply, StreamTranslator};
use crate::edit;
use crate::failure::{self, ProviderError};
use crate::gemini::media::wav_head;
use crate::model;
use crate::passthrough::ReplyStreamState;
use crate::sse::{self, Framer};
use crate::wire::read;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Dialect, Fault, FaultKind, Usage};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

const RATE: u32 = 24_000;
/// OpenAI's fields (<https://platform.openai.com/docs/api-reference/audio/createSpeech>).
const OPENAIS: &[&str] = &["model", "input", "voice", "instructions", "response_format", "speed", "stream_format"];

#[derive(Debug)]
pub(crate) struct DashScopeSpeech;

pub(crate) static DASHSCOPE_SPEAKS: DashScopeSpeech = DashScopeSpeech;

#[derive(Deserialize)]
struct SpokenWish {
    input: String,
    voice: Option<Value>,
    instructions: Option<String>,
    response_format: Option<String>,
    stream_format: Option<String>,
    speed: Option<f64>,
}

/// WAV, unless bare samples are asked for by name.
fn is_bare(call: &Call<'_>) -> bool {
    read::<SpokenWish>(call.body).is_some_and(|wish| wish.response_format.as_deref() == Some("pcm"))
}

impl NativeShape for DashScopeSpeech {
    fn path(&self) -> &'static str {
        "/api/v1/services/aigc/multimodal-generation/generation"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let wish: SpokenWish = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no speech request: {e}")))?;
        if wish.stream_format.as_deref() == Some("sse") {
            return Err(refused("stream_format", "must be audio: this provider's sound is given as bytes"));
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
        let mut input = Object::new();
        input.put("text", &wish.input);
        input.put("voice", &voice);
        let heeds = call.model.is_some_and(|model| model.contains("instruct"));
        match wish.instructions.filter(|how| !how.is_empty()) {
            Some(how) if heeds => input.put("instructions", &how),
            Some(_) => adjusted.push("instructions"),
            None => {}
        }
        // Its own members (`language_type`) stand beside the text.
        let members = edit::members(call.body).map_err(|e| model::not_an_object(&e))?;
        let own = members.iter().filter(|member| !OPENAIS.contains(&&*member.key));
        own.for_each(|member| input.raw(&member.key, &call.body[member.value.clone()]));
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.raw("input", &input.written());
        let events = (HeaderName::from_static("x-dashscope-sse"), HeaderValue::from_static("enable"));
        Ok(ProviderRequest { path: None, headers: vec![events], body: BodyPieces::One(body.written()), adjusted })
    }

    /// A whole answer is an error, or an address that nobody here fetches.
    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        match ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{')) {
            Some(trouble) => Err(trouble.render(slug, trouble.status(), call.dialect)),
            None => Err(failure::unreadable(slug, "the answer", body, call.dialect)),
        }
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        Some(if is_bare(call) { "audio/pcm" } else { "audio/wav" })
    }

    fn stream(&self, slug: &'static str, call: &Call<'_>) -> Option<Box<dyn StreamTranslator>> {
        let headless = !is_bare(call);
        Some(Box::new(SpokenSamples { slug, framer: Framer::default(), seen: ReplyStreamState::new(), headless }))
    }
}

/// The samples in the events, as bytes.
struct SpokenSamples {
    slug: &'static str,
    framer: Framer,
    seen: ReplyStreamState,
    /// The head of a WAV file is still to come. How long the file will be nobody knows by then.
    headless: bool,
}

/// Newer models count characters, the first ones tokens of text and of sound.
fn used(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    if let Some(characters) = usage["characters"].as_u64().filter(|count| *count > 0) {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        let detail = UsageDetail { characters, ..UsageDetail::default() };
        return Some(Usage { detail, ..Usage::default() });
    }
    let (input, audio_out) = (count("input_tokens"), count("output_tokens"));
    (input + audio_out > 0).then(|| Usage { input, audio_out, ..Usage::default() })
}

/// The status that an error would have had by itself, which its event tells in a comment, `:HTTP_STATUS/400`.
fn status_beside(event: &[u8]) -> Option<u16> {
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r'));
    let told =
        lines.filter_map(|line| line.strip_prefix(b":HTTP_STATUS/")).find_map(|code| std::str::from_utf8(code).ok());
    told?.trim().parse().ok().filter(|status| (400..600).contains(status))
}

impl SpokenSamples {
    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        for raw in sse::events(whole) {
            let Some(data) = sse::data(raw).filter(|data| !data.trim_ascii().is_empty()) else { continue };
            let unreadable = || failure::unreadable(self.slug, "an event of the stream", b"(sound)", Dialect::OpenAi);
            let event: Value = serde_json::from_slice(&data).map_err(|_| unreadable())?;
            let output = &event["output"];
            if output.is_null() && !event["code"].is_null() {
                let trouble = ProviderError::read(&data).unwrap_or_default();
                let status = status_beside(raw).unwrap_or_else(|| trouble.status());
                return Err(trouble.render(self.slug, status, Dialect::OpenAi));
            }
            if let Some(samples) = output["audio"]["data"].as_str().filter(|data| !data.is_empty()) {
                let samples = STANDARD.decode(samples).map_err(|_| unreadable())?;
                if std::mem::take(&mut self.headless) {
                    out.extend_from_slice(&wav_head(RATE, usize::MAX));
                }
                out.extend_from_slice(&samples);
                self.seen.begin();
            }
            self.seen.usage = used(&event["usage"]).or(self.seen.usage);
            if output["finish_reason"] == "stop" {
                self.seen.progress = Progress::Complete;
            }
        }
        Ok(out.freeze())
    }
}

impl StreamTranslator for SpokenSamples {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(self.slug, Dialect::OpenAi)),
        }
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    fn finish(&mut self) -> Bytes {
        let last = self.framer.last(|data| read::<IgnoredAny>(data).is_some());
        match last.map(|last| self.read(&last)) {
            Some(Err(failure)) => {
                self.seen.failed = Some(failure.message);
                Bytes::new()
            }
            Some(Ok(bytes)) => bytes,
            None => Bytes::new(),
        }
    }

    /// Nothing can be said in the middle of a sound.
    fn abort(&mut self, _failure: &Failure) -> Bytes {
        Bytes::new()
    }

    fn has_error_events(&self) -> bool {
        false
    }

    fn ending(&self) -> Ending {
        self.seen.ending()
    }

    fn said_chars(&self) -> u64 {
        0
    }

    fn held(&self) -> usize {
        self.framer.held()
    }
}
