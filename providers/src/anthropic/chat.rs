//! Answers of Anthropic's for clients that speak something else, whole and streamed.

use crate::adapter::{Call, Failure, Reply, StreamTranslator};
use crate::convert::steps::from_messages::MessageReader;
use crate::failure::{self, ProviderError};
use crate::json_mode::PromisedJson;
use crate::translate::{self, Stream};
use crate::wire::messages::MessagesResponse;
use crate::wire::read;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// What tells a message from an error or from something else.
#[derive(Deserialize)]
struct MessagesReplyProbe<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(rename = "content")]
    _content: Option<Vec<IgnoredAny>>,
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let shape = read::<MessagesReplyProbe<'_>>(body);
    if shape.as_ref().is_some_and(|s| s.error.is_some()) {
        let trouble = ProviderError::read(body).unwrap_or_default();
        return Err(trouble.render(slug, trouble.status(), call.dialect));
    }
    let message = shape.filter(|s| s._content.is_some()).and_then(|_| read::<MessagesResponse<'_>>(body));
    let Some(message) = message else { return Err(failure::unreadable(slug, "the answer", body, call.dialect)) };
    let (mut reader, mut steps) = (MessageReader::default(), Vec::with_capacity(8));
    reader.message(&message, &mut steps);
    translate::whole_as_promised(call, slug, &reader, &steps)
}

pub(crate) fn stream(slug: &'static str, call: &Call<'_>) -> Box<dyn StreamTranslator> {
    Box::new(Stream::new(call, slug, MessageReader::default()).holding_to(PromisedJson::of(call)))
}
