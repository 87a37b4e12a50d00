//! AWS Bedrock. Chat goes to Converse whatever the model; Anthropic's Messages go to its models as they are, through
//! InvokeModel, which carries more; embeddings go through InvokeModel in the form of who made the model. Knows nothing
//! of signatures: a request is signed when it goes out.

mod embeddings;
mod errors;
pub(crate) mod mantle;
mod models;
mod native;
mod passthrough;
mod path;
mod pictures;
mod rerank;
mod stream;

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::anthropic;
use crate::compat::without_json;
use crate::convert::chat::{self as chat_request, ChatForm};
use crate::convert::converse::from_chat::{self, Wish};
use crate::convert::converse::vendor::Maker;
use crate::convert::request::TranslatedBody;
use crate::convert::steps::from_converse::ConverseReader;
use crate::model_place::{self, ModelPlace, Untouched};
use crate::wire::converse::ConverseResponse;
use crate::wire::read;
use crate::{failure, json_mode, translate, tuning};
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use http::HeaderMap;
use serde::Deserialize;
use stream::{FrameStream, Unwrapped};

const SLUG: &str = "bedrock";

static INFO: ProviderInfo = ProviderInfo {
    slug: SLUG,
    name: "AWS Bedrock",
    // No address serves all: each region has its own.
    base_url: None,
    // An API key; other credentials sign.
    auth: AuthStyle::Bearer,
    dialect: Dialect::OpenAi,
};

pub(crate) struct Bedrock;

impl Adapter for Bedrock {
    fn info(&self) -> &'static ProviderInfo {
        &INFO
    }

    fn translates(&self, _operation: Operation, _dialect: Dialect) -> bool {
        true
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            Operation::ChatCompletions | Operation::Messages | Operation::Responses => "/model/{model}/converse",
            Operation::CountTokens => "/model/{model}/count-tokens",
            Operation::Embeddings | Operation::ImagesGenerate | Operation::ImagesEdit => "/model/{model}/invoke",
            Operation::Rerank => "/rerank",
            Operation::ListModels => "/foundation-models",
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
            let path = call.query.map(|query| format!("/foundation-models?{query}"));
            return Ok(ProviderRequest {
                path,
                headers: Vec::new(),
                body: BodyPieces::One(Bytes::new()),
                adjusted: Vec::new(),
            });
        }
        let (model, maker) = (path::named(call)?, maker(call));
        match call.operation {
            Operation::Embeddings => {
                let (body, adjusted) = embeddings::request(call.body, maker)?;
                Ok(outgoing(path::of(model, "invoke"), body, adjusted))
            }
            Operation::ImagesGenerate | Operation::ImagesEdit => {
                let (body, adjusted) = pictures::request(call, model)?;
                Ok(outgoing(path::of(model, "invoke"), body, adjusted))
            }
            Operation::Rerank => Ok(outgoing("/rerank".to_owned(), rerank::request(call, model)?, Vec::new())),
            // Profiles cannot count; the model that they lead to can.
            Operation::CountTokens if maker.claude().is_some() => Ok(outgoing(
                path::of(path::foundation(model, maker), "count-tokens"),
                native::count(call.body)?,
                Vec::new(),
            )),
            Operation::CountTokens => {
                let messages = Call { operation: Operation::Messages, ..call.clone() };
                let made = converse(&messages, maker, from_chat::prompt)?;
                Ok(outgoing(path::of(path::foundation(model, maker), "count-tokens"), made.body, made.adjusted))
            }
            _ if is_native(call) => native::request(call, model),
            _ => {
                let made = converse(call, maker, from_chat::request)?;
                let verb = if call.stream { "converse-stream" } else { "converse" };
                Ok(outgoing(path::of(model, verb), made.body, made.adjusted))
            }
        }
    }

    fn overheard(&self, call: &Call<'_>, body: &Bytes) -> Reply {
        passthrough::response(call, body)
    }

    fn overheard_stream(&self, _call: &Call<'_>) -> Box<dyn StreamTranslator> {
        Box::new(passthrough::Overheard::new())
    }

    fn model_place(&self, call: &Untouched<'_>) -> ModelPlace {
        model_place::bedrock(call)
    }

    /// An ARN of a model or of a profile ends with its id.
    fn spellings(&self, model: &str, _settings: &CloudSettings) -> Vec<String> {
        let kinds = [":foundation-model/", "/foundation-model/", ":inference-profile/"];
        let id = kinds.iter().find_map(|kind| model.split_once(kind).map(|(_, id)| id.to_owned()));
        id.filter(|_| model.starts_with("arn:")).into_iter().collect()
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        match call.operation {
            Operation::ListModels => models::response(SLUG, body),
            operation if self.reshapes(operation) => tuning::response(SLUG, call, body),
            Operation::Embeddings => embeddings::response(SLUG, call, maker(call), body),
            Operation::CountTokens => counted(call, body),
            Operation::ImagesGenerate | Operation::ImagesEdit => pictures::response(SLUG, call, body),
            Operation::Rerank => rerank::response(SLUG, call, body),
            _ if is_native(call) => anthropic::native::response(SLUG, call, body),
            _ => answer(call, body),
        }
    }

    fn failed(&self, call: &Call<'_>, status: u16, head: &HeaderMap, body: &Bytes) -> Failure {
        let kind = head.get("x-amzn-errortype").and_then(|v| v.to_str().ok());
        match errors::of_body(kind, body) {
            Some(trouble) => trouble.render(SLUG, status, call.dialect),
            None => without_json(SLUG, status, body, call.dialect),
        }
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        self.failed(call, status, &HeaderMap::new(), body)
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        match call.operation {
            _ if is_native(call) => Box::new(Unwrapped::new(SLUG, call.dialect)),
            _ => Box::new(FrameStream::new(call, SLUG, ConverseReader::new(call.model))),
        }
    }
}

/// Who made the model. A profile of one's own does not say it in its name; the settings may.
fn maker<'c>(call: &Call<'c>) -> Maker<'c> {
    Maker::of(call.settings.get("aws_bedrock_model").or(call.model).unwrap_or_default())
}

/// Whether the client's Messages go to the model as they are.
fn is_native(call: &Call<'_>) -> bool {
    call.operation == Operation::Messages && maker(call).claude().is_some()
}

fn outgoing(path: String, body: Vec<u8>, adjusted: Vec<&'static str>) -> ProviderRequest {
    ProviderRequest { path: Some(path), headers: Vec::new(), body: BodyPieces::One(body.into()), adjusted }
}

/// The call in Converse's form, or the part of it that `make` makes.
fn converse(
    call: &Call<'_>,
    maker: Maker<'_>,
    make: fn(Wish<'_>) -> Result<TranslatedBody, Fault>,
) -> Result<TranslatedBody, Fault> {
    let asked = chat_request::asked(call, ChatForm::Extended)?;
    let mut made = make(Wish { body: &asked.body, original: call.body, maker, origin: call.origin })?;
    json_mode::name_as_asked(call, &mut made.adjusted);
    made.adjusted.extend(asked.adjusted);
    Ok(made)
}

fn answer(call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(SLUG, "the answer", body, call.dialect);
    let answer: ConverseResponse<'_> = read(body).ok_or_else(unreadable)?;
    let (mut reader, mut steps) = (ConverseReader::new(call.model), Vec::with_capacity(8));
    reader.whole(answer, &mut steps);
    translate::whole_as_promised(call, SLUG, &reader, &steps)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockTokenCount {
    input_tokens: u64,
}

fn counted(call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let counted: BedrockTokenCount =
        read(body).ok_or_else(|| failure::unreadable(SLUG, "the count", body, call.dialect))?;
    let told = serde_json::json!({ "input_tokens": counted.input_tokens });
    Ok(Reply { body: told.to_string().into(), usage: None, model: None })
}

fn refused(field: &'static str, rule: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

#[cfg(test)]
mod tests;
