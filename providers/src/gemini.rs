//! Google's Gemini API. Chat, embeddings, pictures, sound and the list of models are translated; its native API passes
//! through. What Vertex AI shares with it (bodies, answers, errors) is in the modules below, without addresses.

pub(crate) mod chat;
pub(crate) mod embeddings;
pub(crate) mod media;
pub(crate) mod models;

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::without_json;
use crate::failure::ProviderError;
use crate::model_place::{self, ModelPlace, Untouched};
use crate::raw;
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use serde_json::Value;

const SLUG: &str = "google";

static INFO: ProviderInfo = ProviderInfo {
    slug: SLUG,
    name: "Google Gemini (AI Studio)",
    base_url: Some("https://generativelanguage.googleapis.com"),
    // Also taken as `?key=`, but an address is logged more easily than a header.
    auth: AuthStyle::Header("x-goog-api-key"),
    dialect: Dialect::OpenAi,
};

pub(crate) struct Gemini;

impl Adapter for Gemini {
    fn info(&self) -> &'static ProviderInfo {
        &INFO
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            Operation::ChatCompletions | Operation::Messages | Operation::Responses => {
                "/v1beta/models/{model}:generateContent"
            }
            Operation::CountTokens => "/v1beta/models/{model}:countTokens",
            operation if media::serves(operation) => "/v1beta/models/{model}:generateContent",
            Operation::Embeddings => "/v1beta/models/{model}:batchEmbedContents",
            Operation::ListModels => "/v1beta/models?pageSize=1000",
            Operation::Proxy => "",
            _ => return None,
        };
        Some(Endpoint { path: path.into(), headers: &[] })
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        match call.operation {
            Operation::ListModels => {
                let path = call.query.map(|query| format!("/v1beta/models?{query}"));
                Ok(ProviderRequest {
                    path,
                    headers: Vec::new(),
                    body: BodyPieces::One(Bytes::new()),
                    adjusted: Vec::new(),
                })
            }
            Operation::Embeddings => {
                let model = named(call)?;
                let made = embeddings::batch(call.body, &resource(model))?;
                Ok(made.to(format!("/v1beta/{}:batchEmbedContents", resource(model))))
            }
            Operation::CountTokens => {
                let model = named(call)?;
                let made = chat::count(call, model, &resource(model))?;
                Ok(made.to(format!("/v1beta/{}:countTokens", resource(model))))
            }
            operation if media::serves(operation) => {
                let path = format!("/v1beta/{}:generateContent", resource(named(call)?));
                Ok(media::request(call)?.to(path))
            }
            _ => {
                let model = named(call)?;
                let made = chat::request(call, model)?;
                Ok(made.to(format!("/v1beta/{}:{}", resource(model), chat::verb(call.stream))))
            }
        }
    }

    fn untouched(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        Ok(versioned(raw::request(call)))
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::google(call)
    }

    fn spellings(&self, model: &str, _settings: &CloudSettings) -> Vec<String> {
        model.strip_prefix("models/").map(str::to_owned).into_iter().collect()
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        match call.operation {
            Operation::ListModels => models::response(SLUG, body),
            Operation::Embeddings => embeddings::response(SLUG, call, body),
            Operation::CountTokens => chat::counted(SLUG, call, body),
            operation if media::serves(operation) => media::response(SLUG, call, body),
            _ => chat::response(SLUG, call, body),
        }
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        media::media(call)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        failure(SLUG, status, body, call.dialect)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        chat::stream(SLUG, call)
    }
}

/// All of Google's addresses begin with a version. A client that asks for `/v1/models/…:generateContent` at the root of
/// the gateway asks for the first one, which stands for the gateway's own routes here and is taken off on the way.
fn versioned(mut asked: ProviderRequest) -> ProviderRequest {
    let bare = |path: &&String| ["/models/", "/tunedModels/"].iter().any(|start| path.starts_with(start));
    if let Some(path) = asked.path.as_ref().filter(bare) {
        asked.path = Some(["/v1", path].concat());
    }
    asked
}

/// A body for Gemini and what became of the client's.
pub(crate) struct GeminiRequestBody {
    pub(crate) body: Vec<u8>,
    pub(crate) adjusted: Vec<&'static str>,
}

impl GeminiRequestBody {
    pub(crate) fn to(self, path: String) -> ProviderRequest {
        let body = BodyPieces::One(self.body.into());
        ProviderRequest { path: Some(path), headers: Vec::new(), body, adjusted: self.adjusted }
    }
}

/// The model of the call, which stands in the path and must not leave its place there.
pub(crate) fn named<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    let refused = |rule: &str| Fault::new(FaultKind::Refused, format!("model {rule}")).on("model");
    let model = call.model.ok_or_else(|| refused("is needed: it is part of this provider's path"))?;
    if crate::compat::safe(model) {
        Ok(model)
    } else {
        Err(refused("does not fit into a path: only letters, digits, `-`, `_`, `.`, `:` and single `/`"))
    }
}

/// `models/…`, unless the client names a resource of another kind (`tunedModels/…`).
fn resource(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("models/{model}") }
}

/// Google's error, in the object that all its APIs share, or in an array of one as the stream without events has it
/// (<https://google.aip.dev/193>).
pub(crate) fn trouble(body: &[u8]) -> Option<ProviderError> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error")?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(ProviderError {
        message: text("message").or_else(|| error.as_str().map(str::to_owned)).unwrap_or_else(|| error.to_string()),
        kind: text("status"),
        code: error.get("code").cloned().unwrap_or_default(),
        ..ProviderError::default()
    })
}

pub(crate) fn failure(slug: &str, status: u16, body: &[u8], dialect: Dialect) -> Failure {
    match trouble(body).or_else(|| ProviderError::read(body)) {
        Some(trouble) => trouble.render(slug, status, dialect),
        None => without_json(slug, status, body, dialect),
    }
}

#[cfg(test)]
mod tests;
