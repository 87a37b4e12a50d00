//! Google Vertex AI: one address, and the dialect of whichever publisher made the model. Google's models speak Gemini,
//! Anthropic's Messages, Meta's and own endpoints OpenAI, Mistral's OpenAI below `rawPredict`.

mod imagen;
mod place;
mod rerank;
mod speech;

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::anthropic;
use crate::compat::{CompatRow, StreamUsage};
use crate::convert::chat::{self as chat_request, ChatForm};
use crate::convert::messages::from_chat;
use crate::gemini::{self, GeminiRequestBody};
use crate::model_place::{self, ModelPlace, Untouched};
use crate::{edit, json_mode, model, shapes, tuning};
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use place::{Publisher, VertexModel};

const SLUG: &str = "vertex-ai";

/// The version of Messages that Vertex AI names
/// (<https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude>).
const MESSAGES_VERSION: &str = "\"vertex-2023-10-16\"";

static INFO: ProviderInfo = ProviderInfo {
    slug: SLUG,
    name: "Google Vertex AI",
    // No address serves all: each region has its own.
    base_url: None,
    auth: AuthStyle::Bearer,
    dialect: Dialect::OpenAi,
};

/// The parts of it that speak OpenAI.
static OPEN: CompatRow = CompatRow::speaking_chat(SLUG, "Google Vertex AI", AuthStyle::Bearer);
/// Mistral refuses what it does not know, here as at home.
static MISTRAL: CompatRow = CompatRow { stream_usage: StreamUsage::Refuses, old_limit: true, ..OPEN };

pub(crate) struct Vertex;

impl Adapter for Vertex {
    fn info(&self) -> &'static ProviderInfo {
        &INFO
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    /// The version of Messages stands in the body here.
    fn takes_header(&self, name: &str, model: Option<&str>) -> bool {
        let claude = || model.is_some_and(|model| Publisher::of(model).0 == Publisher::Anthropic);
        name.starts_with("x-vertex-") || (name == "anthropic-beta" && claude())
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            Operation::ChatCompletions
            | Operation::Messages
            | Operation::Responses
            | Operation::CountTokens
            | Operation::Embeddings
            | Operation::Ocr
            | Operation::ImagesGenerate
            | Operation::ImagesEdit
            | Operation::Speech
            | Operation::Transcription => {
                "/v1/projects/{project}/locations/{region}/publishers/{publisher}/models/{model}"
            }
            Operation::Rerank => "/v1/projects/{project}/locations/global/rankingConfigs/default_ranking_config:rank",
            Operation::ListModels => "/v1beta1/publishers/google/models?pageSize=1000",
            Operation::Proxy => "",
            operation => return tuning::endpoint(SLUG, operation),
        };
        Some(Endpoint { path: path.into(), headers: &[] })
    }

    fn reshapes(&self, operation: Operation) -> bool {
        tuning::reshapes(SLUG, operation)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if self.reshapes(call.operation) {
            return tuning::request(SLUG, call);
        }
        if call.operation == Operation::ListModels {
            let path = call.query.map(|query| format!("/v1beta1/publishers/google/models?{query}"));
            return Ok(ProviderRequest {
                path,
                headers: Vec::new(),
                body: BodyPieces::One(Bytes::new()),
                adjusted: Vec::new(),
            });
        }
        if call.operation == Operation::Rerank {
            return rerank::request(call);
        }
        let place = VertexModel::of(call)?;
        if speech::is_one(call) {
            return speech::request(call, &place);
        }
        match (place.publisher, call.operation) {
            (Publisher::Mistral, Operation::Ocr) => {
                let body = shapes::asked_for_pages(&Call { model: Some(&place.name), ..call.clone() })?;
                Ok(ProviderRequest {
                    path: Some(place.model_path("rawPredict")),
                    headers: Vec::new(),
                    body,
                    adjusted: Vec::new(),
                })
            }
            (publisher, operation) if !is_served(publisher, operation) => Err(unserved(call)),
            (Publisher::Google, operation) => google(call, &place, operation),
            (Publisher::Anthropic, operation) if operation != Operation::Embeddings => claude(call, &place),
            (_, Operation::Embeddings | Operation::CountTokens) => Err(unserved(call)),
            (Publisher::Mistral | Publisher::Anthropic, _) => {
                let named = Call { model: Some(&place.name), ..call.clone() };
                let verb = if call.stream { "streamRawPredict" } else { "rawPredict" };
                Ok(ProviderRequest { path: Some(place.model_path(verb)), ..(&MISTRAL).request(&named)? })
            }
            (Publisher::Meta | Publisher::Endpoint, _) => {
                let named = Call { model: Some(&place.name), ..call.clone() };
                Ok(ProviderRequest { path: Some(place.chat_path()), ..(&OPEN).request(&named)? })
            }
        }
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::vertex(call)
    }

    fn spellings(&self, model: &str, _settings: &CloudSettings) -> Vec<String> {
        Publisher::spellings(model)
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        match (publisher(call), call.operation) {
            (_, Operation::ListModels) => gemini::models::response(SLUG, body),
            (_, operation) if self.reshapes(operation) => tuning::response(SLUG, call, body),
            (_, Operation::Embeddings) => gemini::embeddings::response(SLUG, call, body),
            (_, Operation::Rerank) => rerank::response(SLUG, call, body),
            (_, Operation::Ocr) => shapes::pages_of_mistral(SLUG, call, body),
            (_, Operation::ImagesGenerate)
                if call.model.is_some_and(|model| imagen::is_one(Publisher::of(model).1)) =>
            {
                imagen::response(SLUG, call, body)
            }
            _ if speech::is_one(call) => speech::response(SLUG, call, body),
            (_, operation) if gemini::media::serves(operation) => gemini::media::response(SLUG, call, body),
            (Publisher::Google, Operation::CountTokens) => gemini::chat::counted(SLUG, call, body),
            (Publisher::Google, _) => gemini::chat::response(SLUG, call, body),
            (Publisher::Anthropic, Operation::Messages | Operation::CountTokens) => {
                anthropic::native::response(SLUG, call, body)
            }
            (Publisher::Anthropic, _) => anthropic::chat::response(SLUG, call, body),
            _ => (&OPEN).response(call, body),
        }
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        gemini::media::media(call)
    }

    /// Errors of the platform come before a publisher is asked, and have Google's form whatever the model.
    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        match publisher(call) {
            Publisher::Anthropic
                if call.dialect == Dialect::Anthropic && gemini::trouble(body).is_none_or(|t| t.code.is_null()) =>
            {
                anthropic::native::failure(SLUG, status, body)
            }
            _ => gemini::failure(SLUG, status, body, call.dialect),
        }
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        match (publisher(call), call.operation) {
            (Publisher::Google, _) => gemini::chat::stream(SLUG, call),
            (Publisher::Anthropic, Operation::Messages) => anthropic::native::stream(SLUG),
            (Publisher::Anthropic, _) => anthropic::chat::stream(SLUG, call),
            _ => (&OPEN).stream(call),
        }
    }
}

/// Pictures and sound are Google's, pages are Mistral's.
const fn is_served(publisher: Publisher, operation: Operation) -> bool {
    match operation {
        Operation::Ocr => matches!(publisher, Publisher::Mistral),
        operation if gemini::media::serves(operation) => matches!(publisher, Publisher::Google),
        _ => true,
    }
}

fn unserved(call: &Call<'_>) -> Fault {
    let message = format!("{} is not supported by {SLUG} for this model", call.operation.name());
    Fault::new(FaultKind::Unsupported, message).on("model")
}

fn publisher(call: &Call<'_>) -> Publisher {
    call.model.map_or(Publisher::Google, |model| Publisher::of(model).0)
}

fn google(call: &Call<'_>, place: &VertexModel<'_>, operation: Operation) -> Result<ProviderRequest, Fault> {
    Ok(match operation {
        Operation::Embeddings => gemini::embeddings::predict(call.body)?.to(place.model_path("predict")),
        Operation::ImagesGenerate if imagen::is_one(&place.name) => {
            imagen::request(call)?.to(place.model_path("predict"))
        }
        operation if gemini::media::serves(operation) => {
            gemini::media::request(call)?.to(place.model_path("generateContent"))
        }
        Operation::CountTokens => counting(call, place)?.to(place.model_path("countTokens")),
        _ => gemini::chat::request(call, &place.name)?.to(place.model_path(gemini::chat::verb(call.stream))),
    })
}

/// Vertex AI counts what the prompt is made of, and refuses fields that only steer the answer.
fn counting(call: &Call<'_>, place: &VertexModel<'_>) -> Result<GeminiRequestBody, Fault> {
    let made = gemini::chat::request(call, &place.name)?;
    let steering = [("toolConfig", None), ("safetySettings", None), ("cachedContent", None)];
    let body = edit::set_top_level(&made.body.into(), &steering).map_err(|e| model::not_an_object(&e))?;
    Ok(GeminiRequestBody { body: body.to_vec(), adjusted: made.adjusted })
}

/// A Messages request as Vertex AI wants it: the model is in the path, a version in the body.
fn claude(call: &Call<'_>, place: &VertexModel<'_>) -> Result<ProviderRequest, Fault> {
    let counts = call.operation == Operation::CountTokens;
    let (body, adjusted) = match call.operation {
        Operation::Messages | Operation::CountTokens => (call.body.clone(), Vec::new()),
        _ => {
            let asked = chat_request::asked(call, ChatForm::Extended)?;
            let asked_call = Call { model: Some(&place.name), ..asked.call(call) };
            let mut made = from_chat::request(&asked_call)?;
            json_mode::name_as_asked(call, &mut made.adjusted);
            made.adjusted.extend(asked.adjusted);
            (made.body.into(), made.adjusted)
        }
    };
    // The counter is a model of its own, and is told in the body which one it counts for.
    let counted = format!("\"{}\"", place.name);
    let found = edit::members(&body).map_err(|e| model::not_an_object(&e))?;
    if found.iter().any(|m| m.key == "thread" && body.get(m.value.clone()).is_some_and(|value| value != b"null")) {
        return Err(chat_request::unthreaded());
    }
    let versioned = found.iter().any(|m| m.key == "anthropic_version");
    let mut changes = vec![("model", counts.then_some(counted.as_str()))];
    if !versioned {
        changes.push(("anthropic_version", Some(MESSAGES_VERSION)));
    }
    let body = edit::set_top_level(&body, &changes).map_err(|e| model::not_an_object(&e))?;
    let path = if counts {
        place.with_name("count-tokens").model_path("rawPredict")
    } else {
        place.model_path(if call.stream { "streamRawPredict" } else { "rawPredict" })
    };
    Ok(ProviderRequest { path: Some(path), headers: Vec::new(), body: BodyPieces::One(body), adjusted })
}
