//! The contract between the exchange and a provider. The exchange owns sockets, clocks and retries;
//! an adapter only says what must go upstream and what the client must see of what came back.

use crate::model_place::{self, ModelPlace, Untouched};
use crate::raw;
use crate::runs::EndedRun;
use crate::tap::TextPlace;
use crate::tokens::{self, StreamedText};
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::form::ClientForm;
use gateway_domain::{Dialect, Fault, Operation, Usage};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::borrow::Cow;
use std::ops::Range;

/// One call as a target sees it. Borrowed from the request; made anew for each target.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub operation: Operation,
    /// What the client speaks and must be answered in.
    pub dialect: Dialect,
    pub method: &'a Method,
    /// Path below `/v1` as the client sent it, and its query without `?`.
    pub tail: &'a str,
    pub query: Option<&'a str>,
    /// The complete body after the config's own changes; empty when there is none.
    pub body: &'a Bytes,
    /// Where the parts of that stand, if it is a form; else it is JSON, or untouched.
    pub form: Option<&'a ClientForm>,
    /// Length of the sound that is sent, as its client tells it.
    pub sound_ms: Option<u32>,
    /// The model to ask for, `@slug/` already taken off.
    pub model: Option<&'a str>,
    /// Where the value of the top-level `model` stands in `body`, quotes included.
    pub model_span: Option<Range<usize>>,
    pub stream: bool,
    /// The client itself asked for `stream_options.include_usage`.
    pub wants_usage: bool,
    /// `strict_open_ai_compliance`: false lets provider extras (content blocks) through.
    pub strict: bool,
    /// Epoch milliseconds and a random number, for ids that the provider does not give.
    pub now_ms: i64,
    pub dice: u64,
    /// Which credential the call is made with, as a number that tells credentials apart and nothing else. What only
    /// its owner can read (signatures, encrypted reasoning) goes back to no other.
    pub origin: u64,
    /// Settings of the cloud that the provider belongs to: projects, deployments and the like, which stand in paths.
    pub settings: &'a CloudSettings,
    /// What is made of the answer is kept by the gateway for a while, if it is a response that may be stored. `None`:
    /// nothing is.
    pub keeps: Option<ResponseKeeping<'a>>,
}

/// How a response goes on that the gateway keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseKeeping<'a> {
    /// The response before it, as the client wrote its id: what that held stands in the body by now.
    pub continues: Option<&'a str>,
}

/// What of an upstream request does not depend on the body, so that its head is made once per target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Appended to the base URL, `/chat/completions`.
    pub path: Cow<'static, str>,
    /// Beside host, content-length, content-type, accept and the credential.
    pub headers: &'static [(&'static str, &'static str)],
}

/// A body in up to three pieces, so that changing `model` copies nothing but the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPieces {
    One(Bytes),
    Three([Bytes; 3]),
}

impl BodyPieces {
    pub fn len(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Bytes> {
        match self {
            Self::One(b) => std::slice::from_ref(b).iter(),
            Self::Three(b) => b.iter(),
        }
    }

    /// One contiguous copy, for tests and for what must be hashed whole.
    pub fn join(&self) -> Bytes {
        match self {
            Self::One(b) => b.clone(),
            Self::Three(b) => b.concat().into(),
        }
    }
}

/// The part of an upstream request that depends on the call.
#[derive(Clone, Debug)]
pub struct ProviderRequest {
    /// Instead of the endpoint's path, when the body decides (a model in the path).
    pub path: Option<String>,
    /// Beside the endpoint's.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: BodyPieces,
    /// Standard fields dropped or clamped, by name (`x-gateway-adjusted-params`).
    pub adjusted: Vec<&'static str>,
}

/// A whole 2xx answer as the client must see it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub body: Bytes,
    pub usage: Option<Usage>,
    /// Model that the provider names in its answer.
    pub model: Option<String>,
}

/// A non-2xx answer, or an error inside a stream, as the client must see it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Status to answer with: the upstream's, or for an error inside a 200 stream the one it stands for.
    pub status: u16,
    /// Body in the client's dialect (whole JSON, not an event).
    pub body: Bytes,
    /// What went wrong, as the record of the call tells it; holds no secret.
    pub message: String,
    /// What an answer used that counts as failed although the provider gave one: it is paid for all the same.
    pub usage: Option<Box<Usage>>,
}

/// How far a stream has come: decides how long the head is held back, since no target can be tried after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing yet that commits: only role, ping, message_start and the like.
    Quiet,
    /// Content, a tool call or a finish was seen: the head may go out.
    Begun,
    /// The stream ended as its dialect says it must (`[DONE]`, `message_stop`).
    Complete,
}

#[derive(Clone, Debug, Default)]
pub struct Ending {
    pub usage: Option<Usage>,
    pub model: Option<String>,
    /// False: the upstream stopped before its dialect's end mark.
    pub complete: bool,
    /// An error event was passed on to the client.
    pub failed: Option<String>,
    /// True: `usage` has the prompt only, since the stream ended before the last counts came.
    pub uncounted: bool,
    /// Content seen so far, to estimate from when usage never came.
    pub said: StreamedText,
    /// The run whose end, and whose usage, the stream told.
    pub run: Option<Box<EndedRun>>,
}

impl Ending {
    /// Whether [`Ending::settled`] has to count, which takes time.
    pub fn wants_estimate(&self) -> bool {
        self.uncounted || (self.usage.is_none() && self.said.chars() > 0)
    }

    /// What the provider told, or an estimate of what it did not; `request` is the body that asked.
    pub fn settled(&self, request: &[u8]) -> Option<Usage> {
        match self.usage {
            Some(usage) if !self.uncounted => Some(usage),
            Some(usage) => {
                let output = usage.output.max(self.said.tokens().saturating_sub(usage.reasoning));
                Some(Usage { output, estimated: true, ..usage })
            }
            None if self.said.chars() == 0 => None,
            None => {
                let (input, output) = (tokens::prompt(request), self.said.tokens());
                Some(Usage { input, output, estimated: true, ..Usage::default() })
            }
        }
    }
}

/// A synchronous state machine from provider bytes to client bytes. Chunks may end anywhere, also
/// inside a UTF-8 sequence; the output for a byte sequence does not depend on how it was split.
pub trait StreamTranslator: Send {
    /// Takes what came from upstream and returns what may go down now (perhaps nothing). An `Err` is an
    /// error that the upstream sent inside its stream, or events that cannot be read: when the head is still
    /// held the caller may fall back, otherwise it calls [`StreamTranslator::abort`].
    fn push(&mut self, chunk: Bytes) -> Result<Bytes, Failure>;
    fn progress(&self) -> Progress;
    /// The upstream's body is over. Returns the last bytes for the client; if the stream was not complete
    /// there is nothing clean to say, and the caller goes on with [`StreamTranslator::abort`].
    fn finish(&mut self) -> Bytes;
    /// The in-band error that ends a broken stream, in the client's dialect and without an end mark.
    fn abort(&mut self, failure: &Failure) -> Bytes;
    /// Whether [`StreamTranslator::abort`] has words that the client understands; else a broken stream can only be cut
    /// off.
    fn has_error_events(&self) -> bool {
        true
    }
    /// What was seen so far; valid at any time, also after the client left. Copies the start of what was said.
    fn ending(&self) -> Ending;
    /// Characters of content seen so far, to be asked often: nothing is copied.
    fn said_chars(&self) -> u64;
    /// Bytes of an event that has begun and not ended. Whoever feeds the stream counts them as held for its request.
    fn held(&self) -> usize;
    /// Where texts stand in the bytes that the last push gave, in their order, as far as they are known without reading
    /// them once more.
    fn texts(&self) -> &[TextPlace] {
        &[]
    }
}

/// The key of whoever made the model, for a provider that passes calls on (Bytez).
pub(crate) const VENDOR_KEY: &str = "provider-key";

/// A provider. Stateless: one value serves every call.
pub trait Adapter: Send + Sync {
    fn info(&self) -> &'static ProviderInfo;
    /// The adapter for what these settings lead to, where one family serves several dialects; `None`: this one.
    fn at(&self, _settings: &CloudSettings) -> Option<&'static dyn Adapter> {
        None
    }
    /// `None`: the provider does not serve this operation.
    fn endpoint(&self, operation: Operation, dialect: Dialect) -> Option<Endpoint>;
    /// How it wants its credential; `tail`: of a call that goes up as it came, to a path that may have ways of its own.
    fn auth(&self, _tail: Option<&str>) -> AuthStyle {
        self.info().auth
    }
    /// Whether a setting that rides on a header of its own (`openai-beta`, `anthropic-version`) means something here.
    fn takes_header(&self, name: &str, _model: Option<&str>) -> bool {
        let anthropics = self.info().dialect == Dialect::Anthropic;
        let of_one = name == VENDOR_KEY || ["x-vertex-", "stability-client-"].iter().any(|own| name.starts_with(own));
        !of_one && name.starts_with("anthropic-") == anthropics
    }
    /// Whether what the provider answers is not what the client reads, so that it must be understood whole. False:
    /// bytes may pass that are compressed or no JSON.
    fn translates(&self, _operation: Operation, dialect: Dialect) -> bool {
        self.info().dialect != dialect
    }
    /// Whether calls about kept objects (files) are translated for clients of OpenAI's, which else pass as they came.
    fn reshapes(&self, _operation: Operation) -> bool {
        false
    }
    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault>;
    /// The path, query included, of a call whose body streams by unread; `None`: the endpoint's with the client's
    /// query.
    fn relayed(&self, _call: &Call<'_>) -> Result<Option<String>, Fault> {
        Ok(None)
    }
    /// Where a call that goes up as it came names its model.
    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::openai(call)
    }
    /// Other names by which this provider is asked for the same model, so that a model is switched off by any of them.
    fn spellings(&self, _model: &str, _settings: &CloudSettings) -> Vec<String> {
        Vec::new()
    }
    /// A call that nothing may touch, as it goes up; [`Raw`](crate::Raw) asks, and for these three nobody else does.
    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(raw::request(call))
    }
    /// What can be read of a whole answer to such a call, beside its way.
    fn overheard(&self, call: &Call<'_>, body: &Bytes) -> Reply {
        raw::response(call, body)
    }
    /// What can be read of an answer to such a call that comes in pieces.
    fn overheard_stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        Box::new(raw::Relay::new(call))
    }
    /// A whole 2xx body. `Err` when it is not what the provider's dialect allows (502).
    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure>;
    /// The media type of an answer that is no JSON once it is translated.
    fn media(&self, _call: &Call<'_>) -> Option<&'static str> {
        None
    }
    /// A non-2xx answer. Its head matters where a provider says there what went wrong.
    fn failed(&self, call: &Call<'_>, status: u16, _head: &HeaderMap, body: &Bytes) -> Failure {
        self.failure(call, status, body)
    }
    /// A non-2xx body.
    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure;
    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator>;
}
