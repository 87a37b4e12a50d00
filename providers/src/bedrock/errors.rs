//! Errors of AWS: a message in the body, the type in a header or beside it, and exceptions inside streams.

use crate::failure::ProviderError;
use crate::frames::{Frame, FrameKind};
use serde_json::Value;

/// What follows may repeat headers of the request, a session token among them.
const SECRETS: &str = "The Canonical String";

/// `kind` is the header `x-amzn-errortype`, `ValidationException:http://…`.
pub(super) fn of_body(kind: Option<&str>, body: &[u8]) -> Option<ProviderError> {
    let Value::Object(said) = serde_json::from_slice(body).ok()? else { return None };
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    let kind = kind.and_then(|kind| kind.split(':').next()).or_else(|| text("__type")?.rsplit('#').next());
    let message = ["message", "Message", "originalMessage"].iter().find_map(|key| text(key));
    let message = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    let message = message.split(SECRETS).next().unwrap_or_default().trim_end().to_owned();
    Some(ProviderError { kind: kind.map(str::to_owned), ..ProviderError::new(message) })
}

/// An exception in the place of an event, with the status that it would have had as a whole answer.
pub(super) fn of_frame(frame: &Frame) -> ProviderError {
    let trouble = match frame.kind {
        FrameKind::Error => None,
        FrameKind::Event | FrameKind::Exception => of_body(Some(&frame.name), &frame.payload),
    };
    let trouble = trouble.unwrap_or_else(|| ProviderError {
        kind: Some(frame.name.clone()),
        ..ProviderError::new(String::from_utf8_lossy(&frame.payload))
    });
    ProviderError { code: status_of(&frame.name).into(), ..trouble }
}

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html> and the errors of the
/// operation.
fn status_of(exception: &str) -> u16 {
    match exception {
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "modelTimeoutException" => 408,
        "modelStreamErrorException" | "modelErrorException" => 424,
        "throttlingException" | "modelNotReadyException" => 429,
        "serviceUnavailableException" => 503,
        // internalServerException, errors of the protocol, and whatever comes.
        _ => 500,
    }
}
