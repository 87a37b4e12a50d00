//! Bedrock's models by the APIs of those who made APIs: OpenAI's chat for all but Claude, Anthropic's Messages for
//! Claude (<https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html>). Which one is the model's to
//! say.

use crate::adapter::{
    Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator, VENDOR_KEY,
};
use crate::anthropic::{Anthropic, VERSION};
use crate::compat::{CompatRow, Serves};
use crate::convert::converse::vendor::Maker;
use crate::wire::read;
use bytes::Bytes;
use gateway_domain::Operation::{ChatCompletions, CountTokens, ListModels, Messages, Proxy, Responses};
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;

const SLUG: &str = "bedrock-mantle";
const NAME: &str = "AWS Bedrock Mantle";

/// The path is the model's.
static OPEN: CompatRow = CompatRow {
    serves: Serves::of(&[ChatCompletions, ListModels]),
    ..CompatRow::speaking_chat(SLUG, NAME, AuthStyle::Bearer)
};

static CLAUDE: Anthropic = Anthropic {
    info: &ProviderInfo {
        slug: SLUG,
        name: NAME,
        base_url: None,
        auth: AuthStyle::Bearer,
        dialect: Dialect::Anthropic,
    },
};

/// Models that lie below a path of their own.
const OPENAIS: &[&str] = &["openai.gpt-5", "google.gemma-4"];

pub(crate) struct Mantle;

fn is_claude(model: Option<&str>) -> bool {
    model.is_some_and(|model| Maker::of(model).claude().is_some())
}

/// Whether the model is one of this name, whatever place a profile puts before it.
fn is_one_of(model: &str, name: &str) -> bool {
    model.strip_prefix(name).is_some() || model.split_once('.').is_some_and(|(_, rest)| rest.starts_with(name))
}

fn prefix(model: Option<&str>) -> &'static str {
    let openais = model.is_some_and(|model| OPENAIS.iter().any(|name| is_one_of(model, name)));
    if openais { "/openai/v1" } else { "/v1" }
}

impl Adapter for Mantle {
    fn info(&self) -> &'static ProviderInfo {
        &OPEN.info
    }

    fn takes_header(&self, name: &str, model: Option<&str>) -> bool {
        let of_one = name == VENDOR_KEY || ["x-vertex-", "stability-client-"].iter().any(|own| name.starts_with(own));
        !of_one && name.starts_with("anthropic-") == is_claude(model)
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            ChatCompletions | Messages | Responses => "/v1/chat/completions",
            CountTokens => "/anthropic/v1/messages/count_tokens",
            ListModels => "/v1/models",
            Proxy => "",
            _ => return None,
        };
        Some(Endpoint { path: path.into(), headers: &[] })
    }

    /// Before the model is known.
    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        match call.operation {
            ListModels => {
                let path = call.query.map(|query| format!("/v1/models?{query}"));
                Ok(ProviderRequest {
                    path,
                    headers: Vec::new(),
                    body: BodyPieces::One(Bytes::new()),
                    adjusted: Vec::new(),
                })
            }
            _ if is_claude(call.model) => claude(call),
            CountTokens => {
                let message = format!("{} is not supported by {SLUG} for this model", call.operation.name());
                Err(Fault::new(FaultKind::Unsupported, message).on("model"))
            }
            _ => {
                one_answer(call.body)?;
                let mut out = (&OPEN).request(&Call { query: None, ..call.clone() })?;
                let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
                out.path = Some([prefix(call.model), "/chat/completions", &query].concat());
                Ok(out)
            }
        }
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if is_claude(call.model) && call.operation != ListModels {
            return CLAUDE.response(call, body);
        }
        (&OPEN).response(call, body)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        if is_claude(call.model) { CLAUDE.failure(call, status, body) } else { (&OPEN).failure(call, status, body) }
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        if is_claude(call.model) { CLAUDE.stream(call) } else { (&OPEN).stream(call) }
    }
}

fn claude(call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let mut out = CLAUDE.request(call)?;
    let counts = if call.operation == CountTokens { "/count_tokens" } else { "" };
    let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
    out.path = Some(["/anthropic/v1/messages", counts, &query].concat());
    let version = VERSION.iter().map(|(name, text)| (HeaderName::from_static(name), HeaderValue::from_static(text)));
    out.headers.extend(version);
    Ok(out)
}

/// It gives one answer to a request, and would not say that it left out the others.
fn one_answer(body: &[u8]) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct WantedChoices {
        n: Option<u64>,
    }
    match memchr::memmem::find(body, b"\"n\"").and_then(|_| read::<WantedChoices>(body)?.n) {
        Some(n) if n > 1 => Err(super::refused("n", "must be 1: this provider gives one answer to a request")),
        _ => Ok(()),
    }
}
