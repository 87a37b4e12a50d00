//! Anthropic. Clients of its own Messages pass through; clients of OpenAI's chat
//! and Responses are translated both ways.

pub(crate) mod chat;
mod files;
mod models;
pub(crate) mod native;

use crate::adapter::{Adapter, BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply, StreamTranslator};
use crate::compat::without_json;
use crate::convert::chat::{self as chat_request, ChatForm};
use crate::convert::messages::from_chat;
use crate::failure::ProviderError;
use crate::json_mode;
use crate::raw;
use bytes::Bytes;
use gateway_domain::catalog::{AuthStyle, ProviderInfo};
use gateway_domain::{Dialect, Fault, Operation};
use std::borrow::Cow;

static INFO: ProviderInfo = ProviderInfo {
    slug: "anthropic",
    name: "Anthropic",
    base_url: Some("https://api.anthropic.com/v1"),
    auth: AuthStyle::Header("x-api-key"),
    dialect: Dialect::Anthropic,
};

/// The version whose shapes are translated here; a client may ask for another one by the same header.
pub(crate) const VERSION: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

/// Anthropic's API, at its own host or wherever else it is served unchanged.
pub(crate) struct Anthropic {
    pub(crate) info: &'static ProviderInfo,
}

impl Anthropic {
    pub(crate) const HOME: Self = Self { info: &INFO };
}

impl Adapter for Anthropic {
    fn info(&self) -> &'static ProviderInfo {
        self.info
    }

    fn endpoint(&self, operation: Operation, _dialect: Dialect) -> Option<Endpoint> {
        let path = match operation {
            Operation::ChatCompletions | Operation::Responses => "/messages",
            Operation::Messages | Operation::CountTokens => return native::endpoint(operation),
            // More than any account has, where the default would be 20.
            Operation::ListModels => "/models?limit=1000",
            Operation::Proxy => "",
            operation if self.reshapes(operation) => return Some(files::endpoint()),
            _ => return None,
        };
        Some(Endpoint { path: Cow::Borrowed(path), headers: VERSION })
    }

    /// Files at home: elsewhere its API is served without them, or in part.
    fn reshapes(&self, operation: Operation) -> bool {
        self.info.slug == INFO.slug && files::serves(operation)
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        match call.operation {
            operation if files::serves(operation) => Ok(files::request(call)),
            Operation::ChatCompletions | Operation::Responses => {
                let asked = chat_request::asked(call, ChatForm::Extended)?;
                let mut made = from_chat::request(&asked.call(call))?;
                json_mode::name_as_asked(call, &mut made.adjusted);
                made.adjusted.extend(asked.adjusted);
                let body = BodyPieces::One(made.body.into());
                Ok(ProviderRequest { path: None, headers: Vec::new(), body, adjusted: made.adjusted })
            }
            Operation::ListModels => {
                let path = call.query.map(|query| format!("/models?{query}"));
                Ok(ProviderRequest {
                    path,
                    headers: Vec::new(),
                    body: BodyPieces::One(Bytes::new()),
                    adjusted: Vec::new(),
                })
            }
            _ => native::request(call),
        }
    }

    fn response(&self, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        match call.operation {
            Operation::ChatCompletions | Operation::Responses => chat::response(self.info.slug, call, body),
            Operation::ListModels => models::response(body),
            operation if files::serves(operation) => files::response(self.info.slug, call, body),
            _ => native::response(self.info.slug, call, body),
        }
    }

    fn failure(&self, call: &Call<'_>, status: u16, body: &Bytes) -> Failure {
        match call.dialect {
            Dialect::Anthropic => native::failure(self.info.slug, status, body),
            Dialect::OpenAi | Dialect::Google => match ProviderError::read(body) {
                Some(trouble) => trouble.render(self.info.slug, status, Dialect::OpenAi),
                None => without_json(self.info.slug, status, body, Dialect::OpenAi),
            },
        }
    }

    fn stream(&self, call: &Call<'_>) -> Box<dyn StreamTranslator> {
        match call.operation {
            Operation::ChatCompletions | Operation::Responses => chat::stream(self.info.slug, call),
            Operation::Messages => native::stream(self.info.slug),
            _ => Box::new(raw::Relay::new(call)),
        }
    }
}

#[cfg(test)]
mod tests;
