//! A record in the documented form. Messages stand in it as far as they
//! were kept; what was not is empty.

use super::restricted;
use gateway_domain::export::{LogField, LogFields};
use gateway_domain::feedback::TraceFeedback;
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{Bodies, CacheStatus, Detail, LogRecord, RecordedBody, RecordedMessage};
use gateway_domain::usage::Usage;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Who looks, and what the record itself does not know.
pub(super) struct LogViewer<'a> {
    /// Name of the organisation, whose record it is.
    pub(super) organisation: &'a str,
    /// Whether the request's metadata may be seen.
    pub(super) open: bool,
    /// Prefixes of the gateway's headers.
    pub(super) own: &'a [String],
    /// Fields that are not shown.
    pub(super) hidden: LogFields,
}

/// Version of this form; higher when a field changes its meaning, not when one is added.
const FORMAT: u32 = 1;

pub(super) fn record(r: &LogRecord, reader: &LogViewer<'_>) -> Value {
    let millis = r.timings.total_us / 1000;
    let kept = r.bodies.as_deref();
    let (request, response) = (kept.map(|b| &b.request), kept.and_then(|b| b.response.as_ref()));
    let (gateway_headers, headers) = split(request, reader.own);
    let mut shown = json!({
        "_id": r.id,
        "id": r.id,
        "object": "log",
        "organisation_id": r.org,
        "workspace_id": r.workspace,
        "created_at": r.created_at,
        "log_format": FORMAT,
        "trace_id": r.trace_id,
        "attempt": r.attempt,
        "last": r.last,
        "fault": r.fault,
        "client_ip": r.client_text(),
        "kind": r.operation.kind().name(),
        "adjusted_params": r.llm_or_none().adjusted,
        "request": {
            "url": request.map_or(&*r.path, |m| m.url.as_str()),
            "method": r.method,
            "headers": headers,
            "body": request.map_or_else(|| json!({}), |m| body(&m.body, None)),
            "gatewayHeaders": gateway_headers,
            "bytes": r.request_bytes,
        },
        "response": {
            "status": r.status,
            "headers": response.map_or_else(Map::new, |m| headers_of(&m.headers)),
            "body": response.map_or_else(|| json!({}), |m| body(&m.body, None)),
            "responseTime": millis,
            "lastUsedOptionJsonPath": r.option_index,
            "bytes": r.response_bytes,
        },
        "metrics": metrics(r, reader),
    });
    if let (Some(hooks), Value::Object(shown)) = (&r.hooks, &mut shown) {
        shown.insert("hook_results".into(), serde_json::from_str(&hooks.json).unwrap_or_default());
    }
    if let (Some(note), Value::Object(shown)) = (&r.llm_or_none().realtime, &mut shown) {
        shown.insert("realtime".into(), serde_json::to_value(&**note).unwrap_or_default());
    }
    if let (Some((kind, told)), Value::Object(shown)) = (detail(r), &mut shown) {
        shown.insert(kind.into(), told);
    }
    if let (Some(kept), Value::Object(shown)) = (kept, &mut shown) {
        copies(kept, shown);
    }
    restricted::conceal(&mut shown, reader.hidden);
    shown
}

/// What only its kind of record has, under the name of that. What calls of models have stands among the metrics.
fn detail(r: &LogRecord) -> Option<(&'static str, Value)> {
    let named = |name: &'_ str| if name.is_empty() { Value::Null } else { name.into() };
    let told = match r.operation.detail() {
        Detail::Llm(_) => return None,
        Detail::Tool(tool) => {
            let (protocol, method) = r.operation.name().split_once('.').unwrap_or_default();
            json!({
                "protocol": protocol, "method": method, "server": named(&r.virtual_key), "name": named(&r.model),
                "task_state": tool.task_state,
            })
        }
        // What older records tell of it stands in their metadata.
        Detail::Batch(batch) => {
            let batch = batch.as_deref()?;
            json!({
                "status": batch.status, "endpoint": batch.endpoint, "lines": batch.lines, "completed": batch.completed,
                "failed": batch.failed, "input_tokens": batch.input_tokens, "output_tokens": batch.output_tokens,
                "cost": batch.cost.cents(),
            })
        }
    };
    Some((r.operation.kind().name(), told))
}

#[expect(clippy::cast_precision_loss, reason = "small numbers for people")]
pub(super) fn feedback(told: &TraceFeedback, open: bool) -> Value {
    let metadata: Value = serde_json::from_str(&told.opinion.metadata).unwrap_or_default();
    json!({
        "id": told.id,
        "value": told.opinion.value as f64 / 1e3,
        "weight": told.opinion.weight as f64 / 1e6,
        "metadata": if open { metadata } else { json!({}) },
        "source": told.source,
        "created_at": told.created_at,
    })
}

/// The three copies: what the client sent, what went to the provider, what it answered.
fn copies(kept: &Bodies, shown: &mut Map<String, Value>) {
    let mut put = |name: &str, message: Option<&RecordedMessage>, other: Option<&RecordedBody>| {
        shown.insert(name.into(), message.map_or(Value::Null, |m| message_of(m, other)));
    };
    put("finalUntransformedRequest", Some(&kept.request), None);
    put("transformedRequest", kept.sent.as_ref(), Some(&kept.request.body));
    put("originalResponse", kept.received.as_ref(), kept.response.as_ref().map(|m| &m.body));
}

fn message_of(m: &RecordedMessage, other: Option<&RecordedBody>) -> Value {
    let status = (m.status > 0).then_some(m.status);
    let body_told = body(&m.body, other);
    let cut = other.filter(|_| m.body.is_same()).unwrap_or(&m.body).is_cut();
    json!({
        "url": m.url, "method": m.method, "status": status, "headers": headers_of(&m.headers), "body": body_told,
        "bytes": m.body.length(), "truncated": cut,
    })
}

/// JSON as such, other text as a string; `{}` where nothing was kept.
fn body(kept: &RecordedBody, other: Option<&RecordedBody>) -> Value {
    let kept = if kept.is_same() { other.unwrap_or(kept) } else { kept };
    match kept.text() {
        Some(text) if !text.is_empty() => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        _ => json!({}),
    }
}

fn headers_of(pairs: &[(String, String)]) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in pairs {
        match map.get_mut(name) {
            Some(Value::String(before)) => {
                before.push_str(", ");
                before.push_str(value);
            }
            _ => drop(map.insert(name.clone(), value.as_str().into())),
        }
    }
    map
}

/// The gateway's own request headers, and the others.
fn split(request: Option<&RecordedMessage>, own: &[String]) -> (Map<String, Value>, Map<String, Value>) {
    let pairs = request.map(|m| m.headers.as_slice()).unwrap_or_default();
    let is_own = |(name, _): &&(String, String)| {
        name.starts_with("x-gateway-") || own.iter().any(|prefix| name.starts_with(prefix.as_str()))
    };
    let (own, others): (Vec<_>, Vec<_>) = pairs.iter().partition::<Vec<_>, _>(is_own);
    let owned = |list: Vec<&(String, String)>| headers_of(&list.into_iter().cloned().collect::<Vec<_>>());
    (owned(own), owned(others))
}

fn metrics(r: &LogRecord, reader: &LogViewer<'_>) -> Value {
    let mut out = Map::new();
    for part in [identity(r, reader), outcome(r), timings(r), client(r)] {
        out.extend(part.as_object().cloned().unwrap_or_default());
    }
    let is_open = reader.open && !reader.hidden.contains(LogField::Metadata);
    let metadata: Map<String, Value> =
        if is_open { serde_json::from_str(&r.metadata).unwrap_or_default() } else { Map::new() };
    let (keys, values): (Vec<String>, Vec<Value>) = metadata.into_iter().unzip();
    out.insert("metadata.key".into(), json!(keys));
    out.insert("metadata.value".into(), Value::Array(values));
    Value::Object(out)
}

/// The call's span: as the client named it, else as traces tell it, else by the record.
struct NamedSpan {
    id: String,
    name: String,
    parent: Option<String>,
}

fn span(r: &LogRecord) -> NamedSpan {
    let trace = r.trace.as_deref();
    let own = || match trace.filter(|t| t.span != 0) {
        Some(trace) => format!("{:016x}", trace.call(r.attempt)),
        None => format!("{:016x}", r.id.as_u64_pair().1),
    };
    let text = |given: Option<&Arc<str>>| given.map(|t| t.to_string());
    let name = || format!("{} {}", r.method, r.path);
    NamedSpan {
        id: text(trace.and_then(|t| t.span_id.as_ref())).unwrap_or_else(own),
        name: text(trace.and_then(|t| t.span_name.as_ref())).unwrap_or_else(name),
        parent: trace.and_then(|t| {
            text(t.parent_span_id.as_ref()).or_else(|| (t.parent != 0).then(|| format!("{:016x}", t.parent)))
        }),
    }
}

fn identity(r: &LogRecord, reader: &LogViewer<'_>) -> Value {
    let (span, llm) = (span(r), r.llm_or_none());
    let prompt = llm.prompt.as_deref();
    json!({
        "id": r.id,
        "organisation_id": r.org,
        "organisation_name": reader.organisation,
        "workspace_slug": r.workspace_slug,
        "created_at": r.created_at,
        "trace_id": r.trace_id,
        "span_id": span.id,
        "span_name": span.name,
        "parent_span_id": span.parent,
        "internal_trace_id": r.trace.as_ref().map(|t| format!("{:032x}", t.id)),
        "api_key_id": r.key,
        "config": r.config,
        "config_id": r.config_id,
        "config_version_id": r.config_version,
        "prompt_id": prompt.map(|p| p.id),
        "prompt_version_id": prompt.map(|p| p.version_id),
        "prompt_slug": prompt.map(|p| &p.slug),
        "virtual_key": r.virtual_key,
        "ai_org": r.provider,
        "ai_model": r.model,
        "response_model": llm.response_model,
        "operation": r.operation.name(),
        "mode": r.strategy,
        "last_used_option_index": option_index(&r.option_index),
        // Records lie in no object store of the reader's.
        "log_store_file_path_format": null,
    })
}

/// The number of the target within its list; where it stands is told by `response.lastUsedOptionJsonPath`.
fn option_index(path: &str) -> Option<u32> {
    path.strip_suffix(']')?.rsplit_once('[')?.1.parse().ok()
}

/// Whether a call is known to have used nothing: it was refused, or never sent. If a provider answered without telling
/// its usage, nobody knows what the call used. The store filters by the same rule.
fn is_without_use(r: &LogRecord) -> bool {
    r.usage().is_none() && (r.provider.is_empty() || r.status >= 400)
}

fn outcome(r: &LogRecord) -> Value {
    let nothing = is_without_use(r);
    let usage = r.usage().copied().or_else(|| nothing.then(Usage::default));
    let cost = r.cost.or_else(|| nothing.then_some(NanoUsd(0)));
    json!({
        "is_success": (200..300).contains(&r.status),
        "req_units": usage.map(|u| u.prompt()),
        "res_units": usage.map(|u| u.completion()),
        "total_units": usage.map(|u| u.total()),
        "usage": r.usage(),
        "cost": cost.map(NanoUsd::cents),
        "cost_currency": "USD",
        "request_url": r.path,
        "request_method": r.method,
        "response_status_code": r.status,
        "is_proxy_call": r.operation.name() == "proxy" || r.path.starts_with("/v1/proxy/"),
        "stream_mode": u8::from(r.stream),
        "cache_status": r.cache().label(),
        "cache_type": (r.cache() != CacheStatus::Disabled).then_some("simple"),
        "retry_success_count": r.llm_or_none().retries,
    })
}

/// Milliseconds; parts of the gateway's own work lie below one.
fn timings(r: &LogRecord) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
    let millis = |us: u64| us as f64 / 1e3;
    json!({
        "response_time": r.timings.total_us / 1000,
        "upstream_response_time": r.timings.upstream_us / 1000,
        "gateway_processing_time": millis(r.timings.gateway_us),
        "request_parsing_time": millis(r.steps.parse_us),
        "pre_processing_time": millis(r.steps.before_us),
        "cache_processing_time": millis(r.steps.cache_us),
        "response_parsing_time": millis(r.steps.after_us),
    })
}

/// Where the record comes from, and what the client's library told of itself.
fn client(r: &LogRecord) -> Value {
    let told = r.client.as_deref();
    json!({
        "source": if r.is_own_call() { "api" } else { "gateway" },
        "runtime": told.and_then(|c| c.runtime.as_deref()),
        "runtime_version": told.and_then(|c| c.runtime_version.as_deref()),
        "sdk_version": told.and_then(|c| c.sdk_version.as_deref()),
    })
}
