//! A record as spans: one of kind CLIENT for each target tried, named and attributed by the `gen_ai.*` conventions,
//! and one of kind SERVER above them for the client's request, made from the record of the answer that it got.

use super::{SCHEMA, attribute, nanos, number, scope, text};
use gateway_domain::operation::template;
use gateway_domain::record::{CacheStatus, LogRecord, Trace};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

/// The parent is another process's (bit 9 of the flags; bit 8 says that bit 9 is known).
const REMOTE_PARENT: u32 = 0x300;
const KNOWN_PARENT: u32 = 0x100;

/// `scheme` is that of the proxy port.
pub(super) fn request(
    records: &[Box<LogRecord>],
    resource: &Resource,
    scheme: &'static str,
) -> ExportTraceServiceRequest {
    let spans = records.iter().flat_map(|r| of(r, scheme)).collect();
    let scoped = ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA.into() };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![scoped],
            schema_url: SCHEMA.into(),
        }],
    }
}

fn of(r: &LogRecord, scheme: &'static str) -> Vec<Span> {
    let Some(trace) = r.trace.as_deref() else { return Vec::new() };
    let mut spans = Vec::with_capacity(2);
    if !r.provider.is_empty() {
        spans.push(call(r, trace));
    }
    if r.last {
        spans.push(server(r, trace, scheme));
    }
    spans
}

/// Microseconds before the end of the record.
fn before_end(r: &LogRecord, us: u64) -> u64 {
    nanos(r.created_at.plus_micros(-i64::try_from(us).unwrap_or(0)))
}

fn span(trace: &Trace, id: u64, parent: u64, times: (u64, u64)) -> Span {
    let bytes = |id: u64| if id == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    Span {
        trace_id: trace.id.to_be_bytes().to_vec(),
        span_id: bytes(id),
        parent_span_id: bytes(parent),
        trace_state: trace.state.as_deref().unwrap_or_default().to_owned(),
        start_time_unix_nano: times.0,
        end_time_unix_nano: times.1,
        ..Span::default()
    }
}

/// 5xx are errors of a server; 4xx are errors of whoever called it.
fn status(r: &LogRecord, from: u16) -> Option<Status> {
    let failed = r.status >= from || r.fault.is_some_and(|f| f != "client_gone" && r.status < 400);
    failed.then(|| Status { code: StatusCode::Error.into(), message: r.fault.unwrap_or_default().to_owned() })
}

fn server(r: &LogRecord, trace: &Trace, scheme: &'static str) -> Span {
    let route = template(&r.method, &r.path);
    let mut attributes = vec![
        text("http.request.method", &r.method),
        text("http.route", &route),
        text("url.path", &r.path),
        text("url.scheme", scheme),
        number("http.response.status_code", r.status.into()),
        number("http.request.body.size", r.request_bytes),
        number("http.response.body.size", r.response_bytes),
    ];
    if r.client_ip.is_some() {
        attributes.push(text("client.address", &r.client_text()));
    }
    attributes.extend(error_type(r, 500));
    attributes.extend(tenant(r));
    let name = trace.span_name.as_deref().map_or_else(|| format!("{} {route}", r.method), str::to_owned);
    let flags = u32::from(trace.sampled) | if trace.parent == 0 { KNOWN_PARENT } else { REMOTE_PARENT };
    let times = (before_end(r, r.timings.total_us), nanos(r.created_at));
    Span {
        name,
        kind: SpanKind::Server.into(),
        attributes,
        status: status(r, 500),
        flags,
        ..span(trace, trace.span, trace.parent, times)
    }
}

fn call(r: &LogRecord, trace: &Trace) -> Span {
    let (operation, llm) = (operation(r.operation.name()), r.llm_or_none());
    let mut attributes = vec![
        text("gen_ai.operation.name", operation),
        text("gen_ai.provider.name", provider(&r.provider)),
        number("http.response.status_code", r.status.into()),
    ];
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            attributes.push(text(key, value));
        }
    };
    put("gen_ai.request.model", &r.model);
    put("gen_ai.response.model", llm.response_model.as_deref().unwrap_or_default());
    put("gateway.provider.slug", &r.virtual_key);
    put("gateway.config", &r.config);
    put("gateway.strategy", r.strategy);
    put("gateway.option_index", &r.option_index);
    put("gateway.adjusted_params", &llm.adjusted);
    put("gateway.guardrails", r.hooks.as_ref().map_or("", |hooks| &hooks.verdicts));
    attributes.extend(used(r));
    attributes.extend(error_type(r, 400));
    attributes.push(number("gateway.attempt", r.attempt.into()));
    attributes.push(attribute("gateway.retries", Value::IntValue(llm.retries.into())));
    attributes.push(text("gateway.cache.status", llm.cache.label()));
    attributes.extend(tenant(r));
    // What was tried began when the waiting for it did: before its first byte, or before its end.
    let waited = r.timings.upstream_us;
    let begun = match r.timings.first_byte_us {
        0 => waited,
        first => r.timings.total_us.saturating_sub(first) + waited,
    };
    let name = if r.model.is_empty() { operation.to_owned() } else { format!("{operation} {}", r.model) };
    Span {
        name,
        kind: SpanKind::Client.into(),
        attributes,
        status: status(r, 400),
        flags: u32::from(trace.sampled) | KNOWN_PARENT,
        ..span(trace, trace.call(r.attempt), trace.span, (before_end(r, begun), nanos(r.created_at)))
    }
}

fn used(r: &LogRecord) -> Vec<KeyValue> {
    let mut out = Vec::new();
    if let Some(usage) = r.usage() {
        out.push(number("gen_ai.usage.input_tokens", usage.prompt()));
        out.push(number("gen_ai.usage.output_tokens", usage.completion()));
        for (key, n) in [
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
            ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
            ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
        ] {
            if n > 0 {
                out.push(number(key, n));
            }
        }
        out.push(attribute("gateway.usage.estimated", Value::BoolValue(usage.estimated)));
    }
    if let Some(cost) = r.cost.filter(|_| r.cache() != CacheStatus::Hit) {
        out.push(attribute("gateway.cost.usd", Value::DoubleValue(cost.usd())));
    }
    if r.timings.first_byte_us > 0 && r.stream {
        #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
        let seconds = r.timings.first_byte_us as f64 / 1e6;
        out.push(attribute("gateway.time_to_first_byte", Value::DoubleValue(seconds)));
    }
    out
}

fn error_type(r: &LogRecord, from: u16) -> Option<KeyValue> {
    let label = r.fault.map(str::to_owned);
    let label = label.or_else(|| (r.status >= from).then(|| r.status.to_string()));
    label.filter(|_| r.status >= from || r.fault.is_some()).map(|l| text("error.type", &l))
}

/// Who asked.
fn tenant(r: &LogRecord) -> Vec<KeyValue> {
    let mut out = vec![
        text("gateway.log.id", &r.id.to_string()),
        text("gateway.trace.id", &r.trace_id),
        text("gateway.organisation.id", &r.org.0.to_string()),
        text("gateway.workspace.id", &r.workspace.0.to_string()),
        text("gateway.workspace.slug", &r.workspace_slug),
    ];
    if let Some(key) = r.key {
        out.push(text("gateway.api_key.id", &key.0.to_string()));
    }
    let metadata: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&r.metadata).unwrap_or_default();
    out.extend(metadata.iter().filter_map(|(k, v)| Some(text(&format!("gateway.metadata.{k}"), v.as_str()?))));
    out
}

/// Operations as the conventions name them; those that they do not know keep the gateway's name.
pub(crate) fn operation(name: &'static str) -> &'static str {
    match name {
        "chatComplete" | "messages" | "createModelResponse" => "chat",
        "complete" => "text_completion",
        "embed" => "embeddings",
        other => other,
    }
}

/// Providers as the conventions name them.
pub(crate) fn provider(slug: &str) -> &str {
    match slug {
        "bedrock" => "aws.bedrock",
        "azure-openai" => "azure.ai.openai",
        "azure-ai" => "azure.ai.inference",
        "google" => "gcp.gemini",
        "vertex-ai" => "gcp.vertex_ai",
        "mistral-ai" => "mistral_ai",
        "perplexity-ai" => "perplexity",
        "x-ai" => "x_ai",
        other => other,
    }
}
