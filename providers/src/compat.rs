//! Providers that speak OpenAI: one row each, one adapter for all. Bodies go out and come back as the bytes they
//! are; the few changes a row asks for are made in place. Clients of other dialects are served by way of chat.

pub(crate) mod area_events;
pub(crate) mod audio;
mod base_resp;
mod chunks;
mod image_tool;
mod paths;
mod reply;
mod request;
mod required_fields;
mod responses;
mod responses_only;
pub(crate) mod scan;
mod table;
mod vectors;

pub(crate) use paths::safe;
pub(crate) use reply::{drawn, openai_reply, without_json};
pub use responses::response_usage;
pub(crate) use responses_only::answer as answer_by_responses;
pub(crate) use table::{ROWS, row};

use crate::adapter::{Adapter, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator, VENDOR_KEY};
use crate::anthropic::native;
use crate::convert::chat::{self, ChatForm};
use crate::convert::steps::from_chat::ChatReader;
use crate::convert::steps::from_responses::ResponsesReader;
use crate::model_place::{ModelPlace, Naming, Untouched};
use crate::oracle::{self, ORACLE_CHAT};
use crate::passthrough::Passthrough;
use crate::raw;
use crate::shapes::NativeShape;
use crate::translate::Stream;
use crate::triton::GENERATE;
use crate::tuning;
use bytes::Bytes;
use chunks::ChunkGrammar;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, Operation};
use responses::ResponsesGrammar;

/// What a row serves beside what every provider is asked for (see [`paths`]), as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serves(u128);

/// One bit for each.
const _: () = assert!(Operation::ALL.len() <= u128::BITS as usize);

impl Serves {
    pub(crate) const fn of(operations: &[Operation]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < operations.len() {
            bits |= 1 << operations[i] as u128;
            i += 1;
        }
        Self(bits)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u128) != 0
    }
}

/// How a provider comes to report the usage of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamUsage {
    /// It reports usage when asked with `stream_options.include_usage`.
    Asked,
    /// It reports usage by itself, or not at all; whether it knows the field is not documented, so none is added.
    Unasked,
    /// It reports usage by itself, and answers 4xx to the field.
    Refuses,
}

/// What a row needs code of its own for. Each one has a golden folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quirk {
    /// `/{user}/deployments/v2/llms/{base model}/v1/…`; the body names the adapter.
    TenantInPath,
    /// Serves Anthropic's `/messages` too.
    Messages,
    /// Tells errors in `base_resp` inside a 200.
    BaseResp,
    /// Content comes in parts, reasoning among them; a setting may name the endpoint.
    Endpoints,
    /// Passes calls on to other vendors, with a key of the caller's in a header.
    VendorKey,
    /// A setting says whether it is called as OpenAI is, or in its own way.
    Generates,
    /// Some of its models serve Responses and no chat.
    ResponsesOnly,
    /// The version of its API stands in its paths, the compartment in headers; a setting may ask for its own chat.
    Compartment,
}

/// One provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompatRow {
    pub(crate) info: ProviderInfo,
    /// Stands between the base URL and OpenAI's paths.
    pub(crate) prefix: &'static str,
    pub(crate) serves: Serves,
    pub(crate) stream_usage: StreamUsage,
    /// Knows `max_tokens` only.
    pub(crate) old_limit: bool,
    /// Knows the role `developer`.
    pub(crate) developer: bool,
    /// Fields of OpenAI's chat that it answers 4xx to: dropped and named.
    pub(crate) lacks: &'static [&'static str],
    /// Fields that it knows by another name.
    pub(crate) renames: &'static [(&'static str, &'static str)],
    pub(crate) quirk: Option<Quirk>,
    pub(crate) naming: Naming,
    /// Sent on every call but those that go up as they came.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Where models are listed, if not beside all else.
    pub(crate) listed: Option<&'static str>,
    /// How it wants its credential on paths that are none of OpenAI's.
    pub(crate) native_auth: Option<AuthStyle>,
    /// What it serves in a shape of its own.
    pub(crate) shapes: &'static [(Operation, &'static dyn NativeShape)],
}

impl CompatRow {
    const fn new(slug: &'static str, name: &'static str, base_url: Option<&'static str>, auth: AuthStyle) -> Self {
        Self {
            info: ProviderInfo { slug, name, base_url, auth, dialect: Dialect::OpenAi },
            prefix: "",
            serves: Serves(0),
            stream_usage: StreamUsage::Unasked,
            old_limit: false,
            developer: false,
            lacks: &[],
            renames: &[],
            quirk: None,
            naming: Naming::OpenAi,
            headers: &[],
            listed: None,
            native_auth: None,
            shapes: &[],
        }
    }

    /// A row for a family that has an adapter of its own and speaks OpenAI's dialect in places.
    pub(crate) const fn at(
        slug: &'static str,
        name: &'static str,
        base_url: Option<&'static str>,
        auth: AuthStyle,
    ) -> Self {
        Self::new(slug, name, base_url, auth)
    }

    /// A row for a family whose adapter works out the host itself, and that speaks OpenAI's chat in places.
    pub(crate) const fn speaking_chat(slug: &'static str, name: &'static str, auth: AuthStyle) -> Self {
        let mut row = Self::new(slug, name, None, auth);
        row.serves = Serves::of(&[Operation::ChatCompletions]);
        row.stream_usage = StreamUsage::Asked;
        row
    }

    fn shape(&self, operation: Operation) -> Option<&'static dyn NativeShape> {
        self.shapes.iter().find(|(known, _)| *known == operation).map(|(_, shape)| *shape)
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.quirk == Some(quirk)
    }

    /// Whether a client of chat or of Messages asks for a model that serves Responses only.
    fn by_responses(&self, call: &Call<'_>) -> bool {
        let asks = matches!(call.operation, Operation::ChatCompletions | Operation::Messages);
        self.has(Quirk::ResponsesOnly) && asks && call.model.is_some_and(responses_only::is_one)
    }

    /// Whether the operation is served by way of chat.
    fn adapts(&self, operation: Operation) -> bool {
        let native = match operation {
            Operation::ChatCompletions => !self.has(Quirk::Endpoints),
            Operation::Messages => self.has(Quirk::Messages),
            Operation::Responses => self.serves.has(Operation::Responses),
            _ => true,
        };
        !native && self.serves.has(Operation::ChatCompletions)
    }
}

impl Adapter for &'static CompatRow {
    fn info(&self) -> &'static ProviderInfo {
        let row: &'static CompatRow = self;
        &row.info
    }

    fn at(&self, settings: &CloudSettings) -> Option<&'static dyn Adapter> {
        match self.quirk {
            Some(Quirk::Generates) if settings.get("triton_api") == Some("generate") => Some(&GENERATE),
            Some(Quirk::Compartment) if oracle::is_asked_for(settings) => Some(&ORACLE_CHAT),
            _ => None,
        }
    }

    fn auth(&self, tail: Option<&str>) -> AuthStyle {
        let native = tail.filter(|tail| !tail.starts_with(self.prefix)).and(self.native_auth);
        native.unwrap_or(self.info.auth)
    }

    fn takes_header(&self, name: &str, _model: Option<&str>) -> bool {
        match name {
            VENDOR_KEY => self.has(Quirk::VendorKey),
            name if name.starts_with("stability-client-") => self.info.slug == "stability-ai",
            name => !name.starts_with("x-vertex-") && !name.starts_with("anthropic-"),
        }
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let headers = if operation == Operation::Proxy { &[] } else { self.headers };
        if let Some(shape) = self.shape(operation).filter(|shape| !shape.path().is_empty()) {
            return Some(Endpoint { path: shape.path().into(), headers });
        }
        if self.reshapes(operation) {
            return tuning::endpoint(self.info.slug, operation);
        }
        let operation = if self.adapts(operation) { Operation::ChatCompletions } else { operation };
        match operation {
            Operation::Messages | Operation::CountTokens if self.has(Quirk::Messages) => native::endpoint(operation),
            _ => paths::endpoint(self, operation).map(|path| Endpoint { path, headers }),
        }
    }

    fn translates(&self, operation: Operation, _dialect: Dialect) -> bool {
        self.adapts(operation) || self.shape(operation).is_some() || self.reshapes(operation)
    }

    fn reshapes(&self, operation: Operation) -> bool {
        tuning::reshapes(self.info.slug, operation)
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        if let Some(shape) = self.shape(call.operation) {
            return shape.media(call);
        }
        match call.operation {
            _ if audio::speaks_in_events(self, call) => Some(audio::media(call)),
            _ if audio::wants_text(call) => Some("text/plain; charset=utf-8"),
            _ => None,
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if let Some(shape) = self.shape(call.operation) {
            return shape.request(call);
        }
        if self.reshapes(call.operation) {
            return tuning::request(self.info.slug, call);
        }
        match call.operation {
            _ if self.by_responses(call) => responses_only::request(self, call),
            operation if self.adapts(operation) => {
                let asked = chat::asked(call, ChatForm::OpenAi)?;
                let mut out = request::outgoing(self, &asked.call(call))?;
                out.adjusted.extend(asked.adjusted);
                Ok(out)
            }
            Operation::Messages | Operation::CountTokens => native::request(call),
            _ => request::outgoing(self, call),
        }
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        self.naming.place(call)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if self.has(Quirk::BaseResp)
            && let Some(trouble) = base_resp::trouble(body)
        {
            return Err(trouble.render(self.info.slug, trouble.status(), call.dialect));
        }
        if let Some(shape) = self.shape(call.operation) {
            return shape.response(self.info.slug, call, body);
        }
        if self.reshapes(call.operation) {
            return tuning::response(self.info.slug, call, body);
        }
        match call.operation {
            _ if self.by_responses(call) => responses_only::answer(self.info.slug, call, body),
            operation if self.adapts(operation) => reply::adapted(self.info.slug, call, body),
            Operation::Messages | Operation::CountTokens => native::response(self.info.slug, call, body),
            _ => openai_reply(self.info.slug, call, body),
        }
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        match call.dialect {
            Dialect::Anthropic => native::failure(self.info.slug, status, body),
            Dialect::OpenAi | Dialect::Google => reply::openai_failure(self.info.slug, status, body),
        }
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        let slug = self.info.slug;
        if let Some(stream) = self.shape(call.operation).and_then(|shape| shape.stream(slug, call)) {
            return stream;
        }
        match call.operation {
            _ if self.by_responses(call) => Box::new(Stream::new(call, slug, ResponsesReader::new(slug))),
            operation if self.adapts(operation) && self.has(Quirk::BaseResp) => {
                Box::new(Stream::new(call, slug, base_resp::CheckedReader(ChatReader::default())))
            }
            operation if self.adapts(operation) => Box::new(Stream::new(call, slug, ChatReader::default())),
            Operation::ChatCompletions | Operation::Completions if self.has(Quirk::BaseResp) => {
                Box::new(Passthrough::new(slug, base_resp::CheckedChunks::new(slug, call)))
            }
            Operation::ChatCompletions | Operation::Completions => {
                Box::new(Passthrough::new(slug, ChunkGrammar::new(slug, call)))
            }
            Operation::Responses => Box::new(Passthrough::new(slug, ResponsesGrammar::new(slug, true))),
            Operation::GetResponse => Box::new(Passthrough::new(slug, ResponsesGrammar::new(slug, false))),
            Operation::Messages => native::stream(slug),
            _ if audio::speaks_in_events(self, call) => {
                Box::new(area_events::SpokenBytes::new(slug, audio::media(call)))
            }
            Operation::ImagesGenerate
            | Operation::ImagesEdit
            | Operation::ImagesVary
            | Operation::Speech
            | Operation::Transcription
            | Operation::Translation => Box::new(area_events::stream(slug, call)),
            _ => Box::new(raw::Relay::new(call)),
        }
    }
}

#[cfg(test)]
mod tests;
