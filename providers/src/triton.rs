//! Triton's own way to generate text: one prompt, one text, or pieces of it
//! (<https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_generate.html>).
//! For clients of completions; chat has Triton's front end for OpenAI's clients. Nobody tells what was used, so it is
//! estimated.

use crate::adapter::{
    Adapter, BodyPieces, Call, Ending, Endpoint, Failure, Progress, ProviderRequest, Reply, StreamTranslator,
};
use crate::answer::write_text;
use crate::compat::{CompatRow, safe};
use crate::failure::{self, ProviderError};
use crate::model_place::{ModelPlace, Naming, Untouched};
use crate::passthrough::ReplyStreamState;
use crate::sse::{self, Framer};
use crate::tap::{TextKind, TextLane, TextPlace};
use crate::tokens;
use crate::wire::{JsonStr, read, speaks};
use bytes::{Bytes, BytesMut};
use gateway_domain::Operation::{Completions, Proxy};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, FaultKind, Operation, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const SLUG: &str = "triton";

/// Errors are read as those of OpenAI-like servers.
static SERVER: CompatRow = CompatRow::at(SLUG, "NVIDIA Triton", None, AuthStyle::None);

const NAMES: Naming = Naming::Behind("models", &["versions", "infer", "generate", "generate_stream"]);

pub(crate) struct Generate;

pub(crate) static GENERATE: Generate = Generate;

#[derive(Deserialize)]
struct Prompted<'a> {
    #[serde(borrow)]
    prompt: &'a RawValue,
    #[serde(borrow)]
    stop: Option<&'a RawValue>,
    n: Option<u64>,
    #[serde(borrow)]
    suffix: Option<&'a RawValue>,
    #[serde(borrow)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    top_p: Option<&'a RawValue>,
    #[serde(borrow)]
    top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    seed: Option<&'a RawValue>,
    /// Triton's own.
    #[serde(borrow)]
    bad_words: Option<&'a RawValue>,
    #[serde(borrow)]
    frequency_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    presence_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    logit_bias: Option<&'a RawValue>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    best_of: Option<&'a RawValue>,
    #[serde(borrow)]
    echo: Option<&'a RawValue>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Generated<'a> {
    #[serde(borrow)]
    text_output: Option<JsonStr<'a>>,
    #[serde(borrow)]
    model_name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn refused(field: &'static str, rule: &str) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

impl Adapter for Generate {
    fn info(&self) -> &'static ProviderInfo {
        &SERVER.info
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        match operation {
            Completions => Some(Endpoint { path: "/v2/models/{model}/generate".into(), headers: &[] }),
            Proxy => Some(Endpoint { path: "".into(), headers: &[] }),
            _ => None,
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: Prompted<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no completion request: {e}")))?;
        let model = call.model.filter(|model| safe(model) && !model.contains('/'));
        let model = model.ok_or_else(|| refused("model", "is part of this server's path, without slashes"))?;
        if ask.n.is_some_and(|n| n > 1) {
            return Err(refused("n", "must be 1: Triton answers once"));
        }
        if speaks(ask.suffix) {
            return Err(refused("suffix", "has no counterpart at Triton"));
        }
        let verb = if call.stream { "generate_stream" } else { "generate" };
        let body = Bytes::from(body(&ask, call.stream)?.to_string());
        let tuning = [
            ("frequency_penalty", ask.frequency_penalty),
            ("presence_penalty", ask.presence_penalty),
            ("logit_bias", ask.logit_bias),
            ("logprobs", ask.logprobs),
            ("best_of", ask.best_of),
            ("echo", ask.echo),
            ("user", ask.user),
        ];
        let says = |raw: Option<&RawValue>| speaks(raw) && raw.is_some_and(|raw| !matches!(raw.get(), "0" | "0.0"));
        let adjusted = tuning.into_iter().filter(|(_, raw)| says(*raw)).map(|(name, _)| name).collect();
        let path = Some(format!("/v2/models/{model}/{verb}"));
        Ok(ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body), adjusted })
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        NAMES.place(call)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(SLUG, "the answer", body, call.dialect);
        let told: Generated<'_> = read(body).ok_or_else(unreadable)?;
        if speaks(told.error) {
            let trouble = ProviderError::read(body).unwrap_or_default();
            return Err(trouble.render(SLUG, trouble.status(), call.dialect));
        }
        let text = told.text_output.ok_or_else(unreadable)?;
        let written = Usage {
            input: tokens::rough_prompt(call.body),
            output: (text.0.chars().count() as u64).div_ceil(4),
            estimated: true,
            ..Usage::default()
        };
        let model = told.model_name.map(|name| name.0.into_owned());
        let mut whole = frame(call, model.as_deref());
        whole["choices"] = json!([{ "text": text.0, "index": 0, "logprobs": null, "finish_reason": "stop" }]);
        whole["usage"] = json!({ "prompt_tokens": written.input, "completion_tokens": written.output,
                                 "total_tokens": written.total() });
        Ok(Reply { body: whole.to_string().into(), usage: Some(written), model })
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        (&SERVER).failure(call, status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        Box::new(GeneratedStream {
            framer: Framer::default(),
            frame: frame(call, call.model),
            seen: ReplyStreamState::new(),
            dialect: call.dialect,
            texts: Vec::new(),
        })
    }
}

fn body(ask: &Prompted<'_>, stream: bool) -> Result<Value, Fault> {
    let rule = "must be a string, or an array with one: Triton takes one prompt at a time and no tokens";
    let prompt: Value = serde_json::from_str(ask.prompt.get()).unwrap_or_default();
    let text = match &prompt {
        Value::String(text) => text,
        Value::Array(one) if one.len() == 1 => one[0].as_str().ok_or_else(|| refused("prompt", rule))?,
        _ => return Err(refused("prompt", rule)),
    };
    let mut out = Map::from_iter([("text_input".to_owned(), Value::from(text.to_owned()))]);
    let fields = [
        ("max_tokens", ask.max_tokens),
        ("stop_words", ask.stop),
        ("bad_words", ask.bad_words),
        ("temperature", ask.temperature),
        ("top_p", ask.top_p),
        ("top_k", ask.top_k),
        ("random_seed", ask.seed),
    ];
    for (name, raw) in fields.into_iter().filter_map(|(name, raw)| Some((name, raw.filter(|r| speaks(Some(r)))?))) {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let listed = name.ends_with("_words") && value.is_string();
        out.insert(name.to_owned(), if listed { json!([value]) } else { value });
    }
    if stream {
        out.insert("stream".to_owned(), true.into());
    }
    Ok(Value::Object(out))
}

/// What all pieces of a completion share.
fn frame(call: &Call<'_>, model: Option<&str>) -> Value {
    json!({ "id": format!("{SLUG}-{}", call.now_ms), "object": "text_completion",
            "created": call.now_ms.div_euclid(1000), "model": model.unwrap_or_default(), "provider": SLUG })
}

/// Pieces of text as chunks of a completion. Triton has no end mark: a body that came to its end is whole.
struct GeneratedStream {
    framer: Framer,
    frame: Value,
    seen: ReplyStreamState,
    dialect: Dialect,
    /// Where texts stand in what the last push gave.
    texts: Vec<TextPlace>,
}

const TEXT: TextLane = TextLane { choice: 0, kind: TextKind::Text, part: 0 };

impl GeneratedStream {
    fn chunk(&mut self, text: &str, finish: Option<&str>, out: &mut BytesMut) {
        let from = out.len();
        let frame = self.frame.to_string();
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(frame.trim_end_matches('}').as_bytes());
        out.extend_from_slice(b",\"choices\":[{\"text\":");
        let quoted = write_text(out, text);
        let rest = json!({ "index": 0, "logprobs": null, "finish_reason": finish }).to_string();
        out.extend_from_slice(b",");
        out.extend_from_slice(rest.trim_start_matches('{').as_bytes());
        out.extend_from_slice(b"]}\n\n");
        if finish.is_none() {
            self.texts.push(TextPlace::of(TEXT, from..out.len(), quoted, text));
        }
    }

    fn read(&mut self, whole: &[u8]) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        self.texts.clear();
        for data in sse::events(whole).filter_map(sse::data) {
            let told = read::<Generated<'_>>(&data).filter(|told| told.text_output.is_some() || speaks(told.error));
            let Some(told) = told else {
                return Err(failure::unreadable(SLUG, "an event of the stream", &data, self.dialect));
            };
            if speaks(told.error) {
                let trouble = ProviderError::read(&data).unwrap_or_default();
                let failure = trouble.render(SLUG, trouble.status(), self.dialect);
                if self.seen.quiet() {
                    return Err(failure);
                }
                self.seen.failed = Some(failure.message.clone());
                out.extend_from_slice(&sse::event(None, &failure.body));
                return Ok(out.freeze());
            }
            let text = told.text_output.map(|text| text.0).unwrap_or_default();
            self.seen.model = self.seen.model.take().or(told.model_name.map(|name| name.0.into_owned()));
            if !text.is_empty() && self.seen.failed.is_none() {
                self.seen.begin();
                self.seen.said.push(&text);
                self.chunk(&text, None, &mut out);
            }
        }
        Ok(out.freeze())
    }
}

impl StreamTranslator for GeneratedStream {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        match self.framer.push(chunk) {
            Ok(whole) => self.read(&whole),
            Err(sse::TooLarge) => Err(failure::oversized(SLUG, self.dialect)),
        }
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    fn finish(&mut self) -> Bytes {
        let cut = self.framer.is_inside();
        let last = self.framer.last(|data| serde_json::from_slice::<Value>(data).is_ok());
        let cut = cut && last.is_none();
        let mut out = BytesMut::new();
        if let Some(last) = last {
            match self.read(&last) {
                Ok(bytes) => out.extend_from_slice(&bytes),
                Err(failure) => {
                    self.seen.failed = Some(failure.message);
                    out.extend_from_slice(&sse::event(None, &failure.body));
                }
            }
        }
        if !cut && self.seen.failed.is_none() && !self.seen.quiet() {
            self.chunk("", Some("stop"), &mut out);
            out.extend_from_slice(b"data: [DONE]\n\n");
            self.seen.progress = Progress::Complete;
        }
        out.freeze()
    }

    fn abort(&mut self, failure: &Failure) -> Bytes {
        // An error that was passed on has told the client already.
        if self.seen.failed.is_some() { Bytes::new() } else { sse::event(None, &failure.body) }
    }

    fn ending(&self) -> Ending {
        self.seen.ending()
    }

    fn said_chars(&self) -> u64 {
        self.seen.said.chars()
    }

    fn held(&self) -> usize {
        self.framer.held()
    }

    fn texts(&self) -> &[TextPlace] {
        &self.texts
    }
}
