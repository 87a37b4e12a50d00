//! Gemini for clients that speak something else: requests by way of chat, answers by way of steps.

use super::{GeminiRequestBody, trouble};
use crate::adapter::{Call, Failure, Reply, StreamTranslator};
use crate::convert::chat::{self as chat_request, ChatForm};
use crate::convert::gemini::from_chat;
use crate::convert::steps::from_gemini::GeminiReader;
use crate::failure;
use crate::translate::{self, EventError, EventReader, Stream};
use crate::wire::read;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Operation};
use serde::Deserialize;

/// Streams are asked for as events; without `alt` they come as one growing array.
pub(crate) fn verb(stream: bool) -> &'static str {
    if stream { "streamGenerateContent?alt=sse" } else { "generateContent" }
}

/// `generateContent`, of whatever the client sent.
pub(crate) fn request(call: &Call<'_>, model: &str) -> Result<GeminiRequestBody, Fault> {
    let name = model.rsplit('/').next().unwrap_or(model);
    // A count is asked for with the body of the call that is to be counted.
    let counted =
        (call.operation == Operation::CountTokens).then(|| Call { operation: Operation::Messages, ..call.clone() });
    let asked = chat_request::asked(counted.as_ref().unwrap_or(call), ChatForm::Extended)?;
    let mut made = from_chat::request(&asked.body, name, call.origin)?;
    made.adjusted.extend(asked.adjusted);
    Ok(GeminiRequestBody { body: made.body, adjusted: made.adjusted })
}

/// `countTokens` of the Gemini API, which counts a whole request only inside this field.
pub(crate) fn count(call: &Call<'_>, model: &str, resource: &str) -> Result<GeminiRequestBody, Fault> {
    let made = request(call, model)?;
    let model = serde_json::to_string(resource).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    let mut body = format!("{{\"generateContentRequest\":{{\"model\":{model},").into_bytes();
    body.extend_from_slice(made.body.strip_prefix(b"{").unwrap_or_default());
    body.push(b'}');
    Ok(GeminiRequestBody { body, ..made })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTokenCount {
    total_tokens: u64,
}

/// The answer of `countTokens` as a client of Messages reads it.
pub(crate) fn counted(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let counted: GeminiTokenCount =
        read(body).ok_or_else(|| failure::unreadable(slug, "the count", body, call.dialect))?;
    let told = serde_json::json!({ "input_tokens": counted.total_tokens });
    Ok(Reply { body: told.to_string().into(), usage: None, model: None })
}

fn reader(call: &Call<'_>) -> GeminiReader {
    GeminiReader::new(call.dice ^ call.now_ms.unsigned_abs().rotate_left(32))
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let (mut reader, mut steps) = (reader(call), Vec::with_capacity(8));
    let trouble = match reader.event(body, &mut steps) {
        Ok(()) if reader.settle() => None,
        Err(EventError::ProviderError(trouble)) => Some(*trouble),
        Ok(()) | Err(EventError::Unreadable) => match trouble(body) {
            Some(trouble) => Some(trouble),
            None => return Err(failure::unreadable(slug, "the answer", body, call.dialect)),
        },
    };
    if let Some(trouble) = trouble {
        return Err(trouble.render(slug, trouble.status(), call.dialect));
    }
    let mut last = Vec::with_capacity(2);
    reader.close(&mut last);
    steps.extend(last);
    Ok(translate::whole(call, slug, &reader, &steps))
}

pub(crate) fn stream(slug: &'static str, call: &Call<'_>) -> Box<dyn StreamTranslator> {
    Box::new(Stream::new(call, slug, reader(call)))
}
