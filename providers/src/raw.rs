//! Calls that nothing may touch: `/proxy/…`, unknown paths, and streams of operations without a grammar. Bytes pass at
//! once, whatever they are; usage is picked up from JSON that happens to carry it. Whether a call is of this kind is
//! known above the adapters, and told by asking [`Raw`] in place of the adapter.

use crate::adapter::{
    Adapter, BodyPieces, Call, Ending, Endpoint, Failure, Progress, ProviderRequest, Reply, StreamTranslator,
};
use crate::compat::drawn;
use crate::failure::ProviderError;
use crate::model_place::{ModelPlace, Untouched};
use crate::passthrough::ReplyStreamState;
use crate::runs::{EndedRun, ToldRun};
use crate::sse;
use crate::wire::usage::{AnthropicUsage, GeminiUsage, OpenAiUsage, filter_reported_cost, served};
use crate::wire::{JsonStr, read};
use bytes::{Bytes, BytesMut};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::price::halves_pictures;
use gateway_domain::usage::ServiceTier;
use gateway_domain::{Dialect, Fault, NanoUsd, Operation, Usage};
use memchr::{memchr, memmem};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The family whose interface for batches is spoken where answers come as the client reads them.
const OPENAI: &str = "openai";
/// A longer line is not looked into.
const MAX_LINE: usize = 1 << 20;

/// The `usage` that an event of a realtime session tells: of a response by modality, of a transcript by tokens or
/// seconds.
pub fn realtime_usage(told: &str) -> Option<Usage> {
    serde_json::from_str::<OpenAiUsage>(told).ok()?.split()
}

/// What a line of a batch used, at the tier of this family for batches.
pub fn at_batch_tier(family: &str, usage: Usage) -> Usage {
    let mut usage = usage.bounded();
    usage.detail.tier = ServiceTier::Batch;
    if halves_pictures(family) {
        // What other models drew was charged as that of a call.
        usage.detail.beside = usage.detail.beside.map(|beside| NanoUsd(beside.0 - beside.0 / 2));
    }
    usage
}

/// The `usage` that a line of a provider's own batch tells, which the provider charges at its tier for batches.
pub fn batch_usage(told: &str) -> Option<Usage> {
    Some(at_batch_tier(OPENAI, realtime_usage(told)?))
}

/// What a line that asked for pictures used, by its whole answer, at the tier for batches.
pub fn batch_pictures(answer: &[u8]) -> Option<Usage> {
    Some(at_batch_tier(OPENAI, drawn(OPENAI, answer)?))
}

/// A provider as it is called where nothing may be touched: who it is stays, and what is said passes.
#[derive(Clone, Copy)]
pub struct Raw<'a>(pub &'a dyn Adapter);

impl std::fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Raw").field(&self.0.info().slug).finish()
    }
}

impl Adapter for Raw<'_> {
    fn info(&self) -> &'static ProviderInfo {
        self.0.info()
    }

    /// Served in any case: the path is the client's.
    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint> {
        let known = self.0.endpoint(operation, dialect);
        known.or(Some(Endpoint { path: "".into(), headers: &[] }))
    }

    fn auth(&self, tail: Option<&str>) -> AuthStyle {
        self.0.auth(tail)
    }

    fn takes_header(&self, name: &str, model: Option<&str>) -> bool {
        self.0.takes_header(name, model)
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        false
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        self.0.untouched(call)
    }

    /// The path of the untouched call, whether the body is held or streams by.
    fn relayed(&self, call: &Call<'_>) -> Result<Option<String>, Fault> {
        Ok(self.0.untouched(call)?.path)
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        self.0.model_place(call)
    }

    fn spellings(&self, model: &str, settings: &CloudSettings) -> Vec<String> {
        self.0.spellings(model, settings)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        Ok(self.0.overheard(call, body))
    }

    fn failure(&self, _call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        failure(status, body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        self.0.overheard_stream(call)
    }
}

pub(crate) fn request(call: &Call<'_>) -> ProviderRequest {
    let path = match call.query {
        Some(query) => [call.tail, "?", query].concat(),
        None => call.tail.to_owned(),
    };
    ProviderRequest { path: Some(path), headers: Vec::new(), body: body(call), adjusted: Vec::new() }
}

/// All as it came, but that a model which names its provider (`@slug/model`) loses that name: it means nothing up
/// there.
fn body(call: &Call<'_>) -> BodyPieces {
    let whole = || BodyPieces::One(call.body.clone());
    let Some((span, model)) = call.model_span.clone().zip(call.model) else { return whole() };
    let written = call.body.get(span.clone()).and_then(|text| text.strip_prefix(b"\"@")?.strip_suffix(b"\""));
    let slug = written.and_then(|text| text.strip_suffix(model.as_bytes())?.strip_suffix(b"/"));
    if slug.is_none_or(|slug| slug.contains(&b'/')) {
        return whole();
    }
    // The model's own name ends at the closing quotation mark; the `@slug/` before it is left out.
    let name = span.end - 1 - model.len()..span.end;
    BodyPieces::Three([call.body.slice(..=span.start), call.body.slice(name), call.body.slice(span.end..)])
}

pub(crate) fn response(call: &Call<'_>, body: &Bytes) -> Reply {
    let mut meter = RawUsageMeter::new(call.dialect);
    // Gemini's stream without events is one array.
    match read::<Vec<&RawValue>>(body).filter(|_| body.trim_ascii_start().starts_with(b"[")) {
        Some(all) => all.iter().for_each(|one| meter.read(one.get().as_bytes())),
        None => meter.read(body),
    }
    Reply { body: body.clone(), usage: meter.usage(), model: meter.model }
}

/// What an answer of whatever kind says of its usage and its model, as far as money is concerned.
pub fn overheard(dialect: Dialect, body: &[u8]) -> (Option<Usage>, Option<String>) {
    let mut meter = RawUsageMeter::new(dialect);
    meter.read(body);
    (meter.usage(), meter.model)
}

fn failure(status: u16, body: &Bytes) -> Failure {
    let said = ProviderError::read(body).unwrap_or_else(|| ProviderError::new(String::from_utf8_lossy(body)));
    said.verbatim(status, body.clone())
}

/// Any JSON of a provider's, as far as money is concerned.
#[derive(Deserialize)]
struct RawReplySummary<'a> {
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Gemini's names for both.
    #[serde(rename = "usageMetadata", borrow)]
    gemini_usage: Option<&'a RawValue>,
    #[serde(rename = "modelVersion", borrow)]
    gemini_model: Option<JsonStr<'a>>,
    /// Anthropic's `message_start` has both in here; elsewhere it may be anything.
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    /// So has `response.completed` of the Responses API.
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawMessageStart<'a> {
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// Adds up what the pieces of an answer report.
struct RawUsageMeter {
    dialect: Dialect,
    openai: Option<Usage>,
    anthropic: AnthropicUsage,
    gemini: Option<Usage>,
    model: Option<String>,
    /// The usage is its.
    run: Option<Box<EndedRun>>,
}

impl RawUsageMeter {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, openai: None, anthropic: AnthropicUsage::default(), gemini: None, model: None, run: None }
    }

    fn read(&mut self, json: &[u8]) {
        let Some(said) = read::<RawReplySummary<'_>>(json) else { return };
        let inner = said.message.or(said.response).and_then(|raw| read::<RawMessageStart<'_>>(raw.get().as_bytes()));
        let model = said.model.or(said.gemini_model).or(inner.as_ref().and_then(|i| i.model.clone()));
        self.model = self.model.take().or(model.map(|m| m.0.into_owned()));
        if let Some(usage) = said.gemini_usage.and_then(|raw| read::<GeminiUsage>(raw.get().as_bytes())) {
            self.gemini = usage.split().or(self.gemini);
        }
        let Some(usage) = said.usage.or(inner.as_ref().and_then(|i| i.usage)) else { return };
        match ToldRun::read(json) {
            None => {}
            Some(ToldRun::Ended(run)) => self.run = Some(Box::new(run)),
            Some(ToldRun::Share) => return,
        }
        match self.dialect {
            Dialect::OpenAi | Dialect::Google => {
                let usage = read::<OpenAiUsage>(usage.get().as_bytes()).and_then(|u| u.split());
                // Whoever it is of is not known here, so no figure of its own is believed.
                let tier = said.service_tier.or(inner.and_then(|i| i.service_tier));
                let usage = served(tier.map(RawValue::get), filter_reported_cost("", usage));
                self.openai = usage.or(self.openai);
            }
            Dialect::Anthropic => {
                if let Some(usage) = read::<AnthropicUsage>(usage.get().as_bytes()) {
                    self.anthropic.update(&usage);
                }
            }
        }
    }

    fn usage(&self) -> Option<Usage> {
        let own = match self.dialect {
            Dialect::OpenAi | Dialect::Google => self.openai,
            Dialect::Anthropic => self.anthropic.split(),
        };
        own.or(self.gemini)
    }
}

/// Passes every chunk on and reads along, line by line.
pub(crate) struct Relay {
    meter: RawUsageMeter,
    seen: ReplyStreamState,
    line: BytesMut,
    /// The line being read is too long; wait for its end.
    skipping: bool,
    /// What passed last, to know whether an event is open.
    tail: [u8; 2],
    /// The first bytes, to know an event stream by.
    head: Vec<u8>,
}

impl Relay {
    pub(crate) fn new(call: &Call<'_>) -> Self {
        let meter = RawUsageMeter::new(call.dialect);
        Self {
            meter,
            seen: ReplyStreamState::new(),
            line: BytesMut::new(),
            skipping: false,
            tail: *b"\n\n",
            head: Vec::new(),
        }
    }

    fn watch(&mut self, mut chunk: &[u8]) {
        while let Some(at) = memchr(b'\n', chunk) {
            let (end, rest) = chunk.split_at(at);
            if self.line.is_empty() && !self.skipping {
                self.look(end);
            } else if !std::mem::take(&mut self.skipping) {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(end);
                self.look(&line);
            }
            self.line.clear();
            chunk = &rest[1..];
        }
        if self.line.len() + chunk.len() > MAX_LINE {
            self.line.clear();
            self.skipping = true;
        }
        if !self.skipping {
            self.line.extend_from_slice(chunk);
        }
    }

    fn look(&mut self, line: &[u8]) {
        let json = line.strip_prefix(b"data:").unwrap_or(line).trim_ascii();
        if memmem::find(json, b"\"usage").is_some() || self.meter.model.is_none() && json.starts_with(b"{") {
            self.meter.read(json);
        }
    }
}

impl StreamTranslator for Relay {
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure> {
        if self.seen.quiet() && !chunk.is_empty() {
            self.seen.begin();
        }
        self.head.extend(chunk.iter().take(6 - self.head.len()));
        self.watch(&chunk);
        for byte in chunk.iter().skip(chunk.len().saturating_sub(2)) {
            self.tail = [self.tail[1], *byte];
        }
        Ok(chunk)
    }

    fn progress(&self) -> Progress {
        self.seen.progress
    }

    /// There is no end mark to wait for: the end of the body is the end.
    fn finish(&mut self) -> Bytes {
        let line = std::mem::take(&mut self.line);
        self.look(&line);
        self.seen.progress = Progress::Complete;
        Bytes::new()
    }

    /// Only an event stream has room for an error; any other body just ends early.
    fn abort(&mut self, failure: &Failure) -> Bytes {
        if ![&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|p| self.head.starts_with(p)) {
            return Bytes::new();
        }
        let name = (self.meter.dialect == Dialect::Anthropic).then_some("error");
        let close: &[u8] = if self.tail == *b"\n\n" { b"" } else { b"\n\n" };
        [close, &sse::event(name, &failure.body)].concat().into()
    }

    fn ending(&self) -> Ending {
        let (usage, model, run) = (self.meter.usage(), self.meter.model.clone(), self.meter.run.clone());
        Ending { usage, model, run, ..self.seen.ending() }
    }

    fn said_chars(&self) -> u64 {
        self.seen.said.chars()
    }

    fn held(&self) -> usize {
        self.line.len()
    }
}
