//! Moderations of Mistral's, whose results lack the one word that clients of OpenAI read first
//! (<https://docs.mistral.ai/api/endpoint/classifiers>). Its categories keep their names.

use super::NativeShape;
use crate::adapter::{Call, Failure, ProviderRequest, Reply};
use crate::failure;
use crate::model;
use crate::wire::read;
use crate::wire::usage::OpenAiUsage;
use bytes::Bytes;
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct MistralModeration;

pub(crate) static MISTRAL_MODERATION: MistralModeration = MistralModeration;

#[derive(Deserialize)]
struct JudgedInput {
    usage: Option<OpenAiUsage>,
    model: Option<String>,
}

impl NativeShape for MistralModeration {
    fn path(&self) -> &'static str {
        "/moderations"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let body = model::replaced(call, model::changed(call, call.model)?, "")?;
        Ok(ProviderRequest { path: None, headers: Vec::new(), body, adjusted: Vec::new() })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
        let mut answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
        for result in answer["results"].as_array_mut().ok_or_else(unreadable)? {
            let categories = result["categories"].as_object().into_iter().flatten();
            let flagged = categories.into_iter().any(|(_, is)| is == true);
            if let Value::Object(result) = result {
                result.entry("flagged").or_insert(flagged.into());
            }
        }
        let JudgedInput { usage, model } = read(body).ok_or_else(unreadable)?;
        let usage = usage.and_then(|usage| usage.split());
        Ok(Reply { body: answer.to_string().into(), usage, model })
    }
}
