//! A record in the documented form (`spec/logs-analytics.md`, log record). Bodies are not kept yet, so the
//! copies of request and response hold their heads only.

use gateway_domain::money::NanoUsd;
use gateway_domain::record::LogRecord;
use gateway_domain::usage::Usage;
use serde_json::{Map, Value, json};

/// `open`: whether the reader may see the request's metadata.
pub(super) fn record(r: &LogRecord, open: bool) -> Value {
    let millis = r.timings.total_us / 1000;
    json!({
        "_id": r.id,
        "id": r.id,
        "object": "log",
        "organisation_id": r.org,
        "workspace_id": r.workspace,
        "created_at": r.created_at,
        "trace_id": r.trace_id,
        "attempt": r.attempt,
        "last": r.last,
        "fault": r.fault,
        "client_ip": r.client_ip,
        "adjusted_params": r.adjusted,
        "request": {"url": r.path, "method": r.method, "headers": {}, "body": {}, "gatewayHeaders": {}, "bytes": r.request_bytes},
        "response": {
            "status": r.status,
            "headers": {},
            "body": {},
            "responseTime": millis,
            "lastUsedOptionJsonPath": r.option_index,
            "bytes": r.response_bytes,
        },
        "metrics": metrics(r, open),
    })
}

fn metrics(r: &LogRecord, open: bool) -> Value {
    let usage = r.usage.unwrap_or_default();
    let mut out = Map::new();
    for part in [identity(r), outcome(r, &usage)] {
        out.extend(part.as_object().cloned().unwrap_or_default());
    }
    let metadata: Map<String, Value> =
        if open { serde_json::from_str(&r.metadata).unwrap_or_default() } else { Map::new() };
    let (keys, values): (Vec<String>, Vec<Value>) = metadata.into_iter().unzip();
    out.insert("metadata.key".into(), json!(keys));
    out.insert("metadata.value".into(), Value::Array(values));
    Value::Object(out)
}

fn identity(r: &LogRecord) -> Value {
    json!({
        "id": r.id,
        "organisation_id": r.org,
        "workspace_slug": r.workspace_slug,
        "created_at": r.created_at,
        "trace_id": r.trace_id,
        "api_key_id": r.key,
        "config": r.config,
        "virtual_key": r.virtual_key,
        "ai_org": r.provider,
        "ai_model": r.model,
        "response_model": r.response_model,
        "operation": r.operation,
        "mode": r.strategy,
        "last_used_option_index": r.option_index,
    })
}

fn outcome(r: &LogRecord, usage: &Usage) -> Value {
    json!({
        "is_success": (200..300).contains(&r.status),
        "req_units": usage.prompt(),
        "res_units": usage.completion(),
        "total_units": usage.total(),
        "usage": r.usage,
        "cost": r.cost.map(NanoUsd::cents),
        "cost_currency": "USD",
        "request_url": r.path,
        "request_method": r.method,
        "response_status_code": r.status,
        "response_time": r.timings.total_us / 1000,
        "upstream_response_time": r.timings.upstream_us / 1000,
        "gateway_processing_time": r.timings.gateway_us / 1000,
        "is_proxy_call": r.operation == "proxy",
        "stream_mode": u8::from(r.stream),
        "cache_status": r.cache.label(),
        "retry_success_count": r.retries,
    })
}
