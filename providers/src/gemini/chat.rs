//! Gemini for clients that speak something else: requests by way of chat, answers by way of steps.

use super::{Made, trouble};
use crate::adapter::{Call, Failure, Reply, StreamTranslator};
use crate::convert::gemini::from_chat;
use crate::convert::steps::from_gemini::GeminiReader;
use crate::failure;
use crate::translate::{self, Bad, Reader, Stream};
use bytes::Bytes;
use gateway_domain::Fault;

/// Streams are asked for as events; without `alt` they come as one growing array.
pub(crate) fn verb(stream: bool) -> &'static str {
    if stream { "streamGenerateContent?alt=sse" } else { "generateContent" }
}

/// `model` without what stands before its name.
pub(crate) fn request(call: &Call<'_>, model: &str) -> Result<Made, Fault> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let made = from_chat::request(call.body, name, call.origin)?;
    Ok(Made { body: made.body, adjusted: made.adjusted })
}

fn reader(call: &Call<'_>) -> GeminiReader {
    GeminiReader::new(call.dice ^ call.now_ms.unsigned_abs().rotate_left(32))
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let (mut reader, mut steps) = (reader(call), Vec::with_capacity(8));
    let trouble = match reader.event(body, &mut steps) {
        Ok(()) if reader.settle() => None,
        Err(Bad::Trouble(trouble)) => Some(*trouble),
        Ok(()) | Err(Bad::Unreadable) => match trouble(body) {
            Some(trouble) => Some(trouble),
            None => return Err(failure::unreadable(slug, "the answer", body, call.dialect)),
        },
    };
    if let Some(trouble) = trouble {
        return Err(trouble.tell(slug, trouble.status(), call.dialect));
    }
    let mut last = Vec::with_capacity(2);
    reader.close(&mut last);
    steps.extend(last);
    Ok(translate::whole(call, slug, &reader, &steps))
}

pub(crate) fn stream(slug: &'static str, call: &Call<'_>) -> Box<dyn StreamTranslator> {
    Box::new(Stream::new(call, slug, reader(call)))
}
