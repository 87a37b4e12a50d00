//! Pictures as OpenAI lists them, and what they count.

use super::defaults::usual;
use super::request::{asked_size, asked_steps};
use crate::adapter::{Call, Failure, Reply};
use crate::failure::{self, ProviderError};
use bytes::Bytes;
use gateway_domain::Usage;
use gateway_domain::usage::{PictureSize, UsageDetail};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Debug, Serialize)]
pub(super) enum Picture<'a> {
    #[serde(rename = "b64_json")]
    Bytes(Cow<'a, str>),
    #[serde(rename = "url")]
    Address(Cow<'a, str>),
}

#[derive(Serialize)]
struct PictureList<'a> {
    created: i64,
    data: &'a [Picture<'a>],
    provider: &'a str,
}

/// `size`: as the provider tells it, else as it was asked for, else what the model gives by itself.
pub(super) fn list(slug: &'static str, call: &Call<'_>, pictures: &[Picture<'_>], size: Option<&str>) -> Reply {
    let (asked, usual) = (asked_size(call), usual(slug, call));
    let asked = if matches!(&*asked, "" | "auto") { usual.size } else { &asked };
    let picture = PictureSize::named("", size.unwrap_or(asked));
    let steps = asked_steps(call).unwrap_or(usual.steps);
    let detail = UsageDetail { picture, steps, ..UsageDetail::default() };
    let usage = Usage { images: pictures.len() as u64, detail, ..Usage::default() };
    let list = PictureList { created: call.now_ms.div_euclid(1000), data: pictures, provider: slug };
    Reply { body: serde_json::to_vec(&list).unwrap_or_default().into(), usage: Some(usage), model: None }
}

pub(super) fn unreadable(slug: &str, call: &Call<'_>, body: &Bytes) -> Failure {
    match ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{')) {
        Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
        None => failure::unreadable(slug, "the answer", body, call.dialect),
    }
}

/// A picture that was made and is withheld.
pub(super) fn filtered(slug: &str, call: &Call<'_>) -> Failure {
    let kind = Some("invalid_request_error".to_owned());
    let code = json!("content_policy_violation");
    let trouble =
        ProviderError { kind, code, ..ProviderError::new("the picture was withheld by the provider's filter") };
    trouble.render(slug, 400, call.dialect)
}

/// Texts of a field, whether it is one or a list.
pub(super) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
