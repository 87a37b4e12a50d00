//! What makes a batch: read from the body, held to its bounds, and noted with all that its lines are sent with.

use super::{KeptAnswer, OwnParts, fault, is_named, names_nobody, owner, unknown};
use crate::batches::{self, BY_PROVIDER, ConfigOfBatch, KEPT_SECS, LineSetup, NewBatch};
use crate::proxy::headers::{SELF, suffix_of};
use crate::proxy::request::Request;
use crate::proxy::target;
use gateway_domain::operation::route;
use gateway_domain::{Dialect, Fault, FaultKind, Operation};
use gateway_providers::native_batches::native_batches;
use http::{HeaderMap, HeaderValue, Method};
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
    "/v1/images/edits",
    "/v1/messages",
    "/v1/rerank",
];

/// The gateway's own headers that are not sent with each line: what they say is said anew, or of the batch alone.
const NOT_OF_LINES: &[&str] = &["api-key", "trace-id", "span-id", "parent-span-id", "span-name", "metadata"];

/// Headers that say who is asked; `gateway_options` may say so too.
const LED_BY: &[&str] = &["config", "provider", "virtual-key"];
/// Fields of a provider's batch that `provider_options` may not set: the request for the batch says them itself.
const SAID_ALREADY: &[&str] = &["input_file_id", "endpoint", "completion_window"];

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
    output_expires_after: Option<Map<String, Value>>,
    #[serde(rename = "gateway_options", default)]
    _gateway: Option<Map<String, Value>>,
    /// Options for the batch that a provider makes.
    #[serde(default)]
    provider_options: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct InputNamed {
    input_file_id: Option<String>,
}

#[derive(Deserialize)]
struct OptionsNamed {
    #[serde(default)]
    gateway_options: Option<Map<String, Value>>,
}

/// Lets what the batch itself says of its config and provider (`gateway_options`) stand for the headers of that name.
pub(crate) fn apply_options(request: &mut Request) -> Result<(), Fault> {
    // What cannot be read is refused when the whole of it is.
    let named: Option<OptionsNamed> = serde_json::from_slice(&request.ask.content.bytes).ok();
    let Some(options) = named.and_then(|named| named.gateway_options) else { return Ok(()) };
    let headers = &mut request.ask.headers;
    for (name, value) in &options {
        let field = format!("gateway_options.{name}");
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Object(_) if name.ends_with("config") => value.to_string(),
            _ => return Err(bad(&field, "must be a text")),
        };
        match name.strip_prefix("x-gateway-").unwrap_or(name) {
            "config" => {
                let value = HeaderValue::from_str(&text).map_err(|_| bad(&field, "must be visible ASCII"))?;
                headers.config = Some(value);
            }
            "provider" => headers.provider = Some(text.into()),
            "virtual-key" | "virtual_key" => headers.virtual_key = Some(text.trim_start_matches('@').into()),
            _ => return Err(bad(&field, "is not known here: config, provider and virtual-key are")),
        }
    }
    Ok(())
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
    if matches!(config, ConfigOfBatch::None) && request.ask.headers.virtual_key.is_none() {
        check_provider(request, &new)?;
    }
    new.setup.config = config;
    let made = own.batches.apart(async move { work.create(owner, new).await }).await;
    made.map(|(id, batch)| KeptAnswer::Json(batch.shown(id))).map_err(fault)
}

/// A provider that the batch itself names is one that can run it, where no config leads elsewhere.
fn check_provider(request: &Request, new: &NewBatch) -> Result<(), Fault> {
    let named: Option<OptionsNamed> = serde_json::from_slice(&request.ask.content.bytes).ok();
    let options = named.and_then(|named| named.gateway_options).unwrap_or_default();
    let is_said = ["provider", "x-gateway-provider"].iter().any(|name| options.contains_key(*name));
    let Some(family) = target::named_family(request).filter(|_| is_said && !is_named(request)) else { return Ok(()) };
    let field = "gateway_options.provider";
    let family = family.map_err(|fault| bad(field, &format!("cannot be asked: {}", fault.message())))?;
    let Some(routed) = route(&Method::POST, &new.endpoint) else { return Ok(()) };
    let (slug, by_provider) = (family.info().slug, new.window == BY_PROVIDER);
    let serves = |operation, dialect| family.endpoint(operation, dialect).is_some();
    let runs = match native_batches(slug).filter(|_| by_provider) {
        Some(batches) => batches.serves(routed.operation),
        None => {
            let has_batches = !by_provider || serves(Operation::CreateBatch, Dialect::OpenAi);
            has_batches && serves(routed.operation, routed.dialect)
        }
    };
    if runs {
        return Ok(());
    }
    let what = if by_provider { "runs no batches of" } else { "does not serve" };
    Err(bad(field, &format!("names a provider that {what} {}: {slug}", new.endpoint)))
}

fn new_batch(own: OwnParts<'_>, client: &HeaderMap, request: &Request, input: Uuid) -> Result<NewBatch, Fault> {
    let body = &mut serde_json::Deserializer::from_slice(&request.ask.content.bytes);
    let asked: BatchAsked = serde_path_to_error::deserialize(body).map_err(|e| {
        let path = e.path().to_string();
        let why = e.inner().to_string().replace("expected a map", "expected an object");
        Fault::new(FaultKind::BadBody, format!("The batch cannot be read at {path}: {why}")).on(path)
    })?;
    if !ENDPOINTS.contains(&asked.endpoint.as_str()) {
        return Err(bad("endpoint", &format!("must be one of {}", ENDPOINTS.join(", "))));
    }
    let by_provider = asked.completion_window == BY_PROVIDER;
    if !by_provider && asked.completion_window != "immediate" {
        return Err(bad("completion_window", "must be immediate, or 24h for a batch that a provider runs"));
    }
    let headers = &request.ask.headers;
    if by_provider && names_nobody(request) && headers.provider.is_none() {
        let why = "asks for the provider that is to run the batch: x-gateway-provider, x-gateway-config, or \
                   gateway_options with provider or config";
        return Err(bad("completion_window", &format!("24h {why}")));
    }
    let options = asked.provider_options.unwrap_or_default();
    if !by_provider && !options.is_empty() {
        return Err(bad("provider_options", "are for batches that a provider runs (completion_window 24h)"));
    }
    if let Some(name) = SAID_ALREADY.iter().find(|name| options.contains_key(**name)) {
        return Err(bad(&format!("provider_options.{name}"), "is said by the batch itself"));
    }
    if request.caller.tenant.key.token.is_some() {
        let why = "A batch outlives a token: make it with an API key of the workspace";
        return Err(Fault::new(FaultKind::Forbidden, why));
    }
    let output_secs = match &asked.output_expires_after {
        None => KEPT_SECS,
        Some(after) => {
            if let Some(name) = after.keys().find(|name| !matches!(name.as_str(), "anchor" | "seconds")) {
                return Err(bad(&format!("output_expires_after.{name}"), "is not known here"));
            }
            let anchor = after.get("anchor").and_then(Value::as_str).unwrap_or_default();
            let seconds = after.get("seconds").and_then(Value::as_i64).unwrap_or_default();
            expiry("output_expires_after", anchor, seconds)?
        }
    };
    let metadata = metadata(asked.metadata)?;
    let setup = LineSetup { options, ..setup(own, client, request) };
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
        if !NOT_OF_LINES.contains(&suffix) && !is_self && !LED_BY.contains(&suffix) {
            headers.push((format!("x-gateway-{suffix}"), value.to_owned()));
        }
    }
    // What these headers say is taken as it stands now: `gateway_options` in the request for the batch may have put
    // something else in their place.
    let led = &request.ask.headers;
    let config = led.config.as_ref().and_then(|value| value.to_str().ok());
    let provider = led.provider.as_deref().filter(|name| *name != SELF);
    for (name, value) in LED_BY.iter().zip([config, provider, led.virtual_key.as_deref()]) {
        headers.extend(value.map(|value| (format!("x-gateway-{name}"), value.to_owned())));
    }
    if let Some(credential) = &request.ask.credential {
        headers.push(("authorization".to_owned(), format!("Bearer {}", credential.expose())));
    }
    let told = request.ask.headers.metadata.iter();
    let metadata = told.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    LineSetup { headers, metadata, config: ConfigOfBatch::Request, options: Map::new() }
}
