//! What makes a batch: read from the body, held to its bounds, and noted with all that its lines are sent with.

use super::{KeptAnswer, OwnParts, fault, is_named, owner, unknown};
use crate::batches::{self, ConfigOfBatch, KEPT_SECS, LineSetup, NewBatch};
use crate::proxy::headers::{SELF, suffix_of};
use crate::proxy::request::Request;
use gateway_domain::{Fault, FaultKind};
use http::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use uuid::Uuid;

/// What a batch may ask.
const ENDPOINTS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/messages",
    "/v1/rerank",
];

/// The gateway's own headers that are not sent with each line: what they say is said anew, or of the batch alone.
const NOT_OF_LINES: &[&str] = &["api-key", "trace-id", "span-id", "parent-span-id", "span-name", "metadata"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchAsked {
    #[serde(rename = "input_file_id")]
    _input: IgnoredAny,
    endpoint: String,
    completion_window: String,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    output_expires_after: Option<ExpiresAfter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiresAfter {
    anchor: String,
    seconds: i64,
}

#[derive(Deserialize)]
struct InputNamed {
    input_file_id: Option<String>,
}

/// The file of a batch that the gateway is to run; `None`: a provider is asked.
pub(crate) fn input_of(request: &Request) -> Option<Result<Uuid, Fault>> {
    let named: Option<InputNamed> = serde_json::from_slice(&request.ask.content.bytes).ok();
    let id = named.and_then(|named| named.input_file_id).unwrap_or_default();
    match batches::read_id("file", &id) {
        Some(id) => Some(Ok(id)),
        None if is_named(request) || id.starts_with("gw_file_") => Some(Err(unknown())),
        None => None,
    }
}

fn bad(field: &str, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("{field} {why}")).on(field)
}

/// Makes the batch, and has it run.
pub(crate) async fn create(
    own: OwnParts<'_>,
    client: &HeaderMap,
    request: &Request,
    (input, config): (Uuid, ConfigOfBatch),
) -> Result<KeptAnswer, Fault> {
    let (mut new, owner, work) = (new_batch(own, client, request, input)?, owner(request), own.batches.clone());
    new.setup.config = config;
    let made = own.batches.apart(async move { work.create(owner, new).await }).await;
    made.map(|(id, batch)| KeptAnswer::Json(batch.shown(id))).map_err(fault)
}

fn new_batch(own: OwnParts<'_>, client: &HeaderMap, request: &Request, input: Uuid) -> Result<NewBatch, Fault> {
    let body = &mut serde_json::Deserializer::from_slice(&request.ask.content.bytes);
    let asked: BatchAsked = serde_path_to_error::deserialize(body).map_err(|e| {
        let path = e.path().to_string();
        let fault = Fault::new(FaultKind::BadBody, format!("The batch cannot be read at {path}: {}", e.inner()));
        fault.on(path)
    })?;
    if !ENDPOINTS.contains(&asked.endpoint.as_str()) {
        return Err(bad("endpoint", &format!("must be one of {}", ENDPOINTS.join(", "))));
    }
    if asked.completion_window != "immediate" {
        let why = "must be immediate: the gateway runs the lines of its own files itself. Upload the file to a provider for a \
                   batch of that provider's";
        return Err(bad("completion_window", why));
    }
    if request.caller.tenant.key.token.is_some() {
        let why = "A batch outlives a token: make it with an API key of the workspace";
        return Err(Fault::new(FaultKind::Forbidden, why));
    }
    let output_secs = match &asked.output_expires_after {
        None => KEPT_SECS,
        Some(after) => expiry("output_expires_after", &after.anchor, after.seconds)?,
    };
    let metadata = metadata(asked.metadata)?;
    let setup = setup(own, client, request);
    let key = request.caller.tenant.key.id.0;
    let (endpoint, window) = (asked.endpoint, asked.completion_window);
    Ok(NewBatch { endpoint, input, window, metadata, key, output_secs, setup })
}

/// How long something is kept, as a client asks for it.
pub(super) fn expiry(field: &str, anchor: &str, seconds: i64) -> Result<i64, Fault> {
    if anchor != "created_at" {
        return Err(bad(&format!("{field}.anchor"), "must be created_at"));
    }
    if !(3_600..=KEPT_SECS).contains(&seconds) {
        return Err(bad(&format!("{field}.seconds"), "must be a number of 3600..2592000"));
    }
    Ok(seconds)
}

fn metadata(asked: Option<Map<String, Value>>) -> Result<Value, Fault> {
    let Some(pairs) = asked else { return Ok(Value::Null) };
    let fits = |(name, value): (&String, &Value)| {
        name.chars().count() <= 64 && value.as_str().is_some_and(|value| value.chars().count() <= 512)
    };
    if pairs.len() > 16 || !pairs.iter().all(fits) {
        return Err(bad("metadata", "must have at most 16 pairs, of at most 64 and 512 characters"));
    }
    Ok(Value::Object(pairs))
}

/// What each line is sent with, as the batch was.
fn setup(own: OwnParts<'_>, client: &HeaderMap, request: &Request) -> LineSetup {
    let mut headers = Vec::new();
    for (name, value) in client {
        let Some(suffix) = suffix_of(name.as_str(), &own.settings.header_alias) else { continue };
        let Ok(value) = value.to_str() else { continue };
        let is_self = suffix == "provider" && value == SELF;
        if !NOT_OF_LINES.contains(&suffix) && !is_self {
            headers.push((format!("x-gateway-{suffix}"), value.to_owned()));
        }
    }
    if let Some(credential) = &request.ask.credential {
        headers.push(("authorization".to_owned(), format!("Bearer {}", credential.expose())));
    }
    let told = request.ask.headers.metadata.iter();
    let metadata = told.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    LineSetup { headers, metadata, config: ConfigOfBatch::Request }
}
