//! Cohere's v2 API. Chat, embeddings, rerank, transcripts, pages and the list of models are translated; anything else
//! passes through.

mod embeddings;

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::without_json;
use crate::convert::chat::{self, ChatForm};
use crate::convert::cohere::from_chat;
use crate::convert::steps::from_cohere::CohereReader;
use crate::failure::{self, ProviderError};
use crate::shapes::{self, NativeShape};
use crate::translate::{self, EventError, Stream};
use crate::wire::cohere::CohereResponse;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use serde::Deserialize;
use serde_json::json;

const SLUG: &str = "cohere";

static INFO: ProviderInfo = ProviderInfo {
    slug: SLUG,
    name: "Cohere",
    base_url: Some("https://api.cohere.ai"),
    auth: AuthStyle::Bearer,
    dialect: Dialect::OpenAi,
};

pub(crate) struct Cohere;

impl Adapter for Cohere {
    fn info(&self) -> &'static ProviderInfo {
        &INFO
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            Operation::ChatCompletions | Operation::Messages | Operation::Responses => "/v2/chat",
            Operation::Embeddings => "/v2/embed",
            operation if shape(operation).is_some() => {
                return shape(operation).map(|shape| Endpoint { path: shape.path().into(), headers: &[] });
            }
            Operation::ListModels => "/v1/models?page_size=1000",
            Operation::Proxy => "",
            _ => return None,
        };
        Some(Endpoint { path: path.into(), headers: &[] })
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if let Some(shape) = shape(call.operation) {
            return shape.request(call);
        }
        match call.operation {
            Operation::ListModels => Ok(outgoing(Vec::new(), Vec::new())),
            Operation::Embeddings => {
                let (body, adjusted) = embeddings::request(call.body, named(call)?)?;
                Ok(outgoing(body, adjusted))
            }
            _ => {
                let asked = chat::asked(call, ChatForm::Extended)?;
                let mut made = from_chat::request(&asked.body, named(call)?, call.stream)?;
                made.adjusted.extend(asked.adjusted);
                Ok(outgoing(made.body, made.adjusted))
            }
        }
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if let Some(shape) = shape(call.operation) {
            return shape.response(SLUG, call, body);
        }
        match call.operation {
            Operation::ListModels => models(body),
            Operation::Embeddings => embeddings::response(SLUG, call, body),
            _ => answer(call, body),
        }
    }

    fn media(&self, call: &Call<'_>) -> Option<&'static str> {
        shape(call.operation)?.media(call)
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        match ProviderError::read(body) {
            Some(trouble) => trouble.render(SLUG, status, call.dialect),
            None => without_json(SLUG, status, body, call.dialect),
        }
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        Box::new(Stream::new(call, SLUG, CohereReader::new(call.model)))
    }
}

/// What is served in a shape of its own.
fn shape(operation: Operation) -> Option<&'static dyn NativeShape> {
    Some(match operation {
        Operation::Rerank => &shapes::COHERE_RERANK,
        Operation::Transcription => &shapes::COHERE_HEARS,
        Operation::Ocr => &shapes::COHERE_PARSE,
        _ => return None,
    })
}

fn outgoing(body: Vec<u8>, adjusted: Vec<&'static str>) -> ProviderRequest {
    ProviderRequest { path: None, headers: Vec::new(), body: BodyPieces::One(body.into()), adjusted }
}

fn named<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    call.model.ok_or_else(|| Fault::new(FaultKind::Refused, "model is needed").on("model"))
}

fn answer(call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || match ProviderError::read(body).filter(|t| !t.message.starts_with('{')) {
        Some(trouble) => trouble.render(SLUG, trouble.status(), call.dialect),
        None => failure::unreadable(SLUG, "the answer", body, call.dialect),
    };
    let answer: CohereResponse<'_> = read(body).ok_or_else(unreadable)?;
    let (mut reader, mut steps) = (CohereReader::new(call.model), Vec::with_capacity(8));
    match reader.whole(answer, &mut steps) {
        Ok(()) => Ok(translate::whole(call, SLUG, &reader, &steps)),
        Err(EventError::ProviderError(trouble)) => Err(trouble.render(SLUG, trouble.status(), call.dialect)),
        Err(EventError::Unreadable) => Err(unreadable()),
    }
}

#[derive(Deserialize)]
struct CohereModels<'a> {
    #[serde(borrow)]
    models: Vec<CohereModel<'a>>,
}

#[derive(Deserialize)]
struct CohereModel<'a> {
    #[serde(borrow)]
    name: JsonStr<'a>,
}

fn models(body: &Bytes) -> Result<Reply, Failure> {
    let theirs: CohereModels<'_> =
        read(body).ok_or_else(|| failure::unreadable(SLUG, "the list of models", body, Dialect::OpenAi))?;
    // When a model was made is not told.
    let entry = |m: &CohereModel<'_>| json!({ "id": m.name.0, "object": "model", "created": 0, "owned_by": SLUG });
    let data: Vec<_> = theirs.models.iter().map(entry).collect();
    let list = json!({ "object": "list", "data": data, "provider": SLUG });
    Ok(Reply { body: list.to_string().into(), usage: None, model: None })
}
