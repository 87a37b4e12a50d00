//! The access log: one JSON line for each request on standard output, and for callers that were not let in; a batch in
//! one write.
//! Holds what the record holds of names, numbers and times; never a body or a header.

use gateway_domain::NanoUsd;
use gateway_domain::denied_caller::TurnedAway;
use gateway_domain::id::KeyId;
use gateway_domain::record::LogRecord;
use gateway_domain::usage::Usage;
use serde::Serialize;
use std::io::Write;
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

#[derive(Serialize)]
struct AccessLogLine<'a> {
    time: String,
    trace_id: &'a str,
    method: &'a str,
    path: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<&'static str>,
    client: String,
    workspace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyId>,
    /// The person behind a user key.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Uuid>,
    #[serde(skip_serializing_if = "str::is_empty")]
    provider: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    attempt: u32,
    stream: bool,
    total_ms: f64,
    upstream_ms: f64,
    gateway_ms: f64,
    request_bytes: u64,
    response_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// US cents.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

pub(super) fn write(records: &[LogRecord]) {
    put(&lines(records));
}

/// One for each request: the record of the target whose answer the client got.
#[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
pub(super) fn lines(records: &[LogRecord]) -> Vec<u8> {
    let mut text = Vec::with_capacity(records.len() * 384);
    let ms = |us: u64| us as f64 / 1e3;
    for r in records.iter().filter(|r| r.last) {
        let line = AccessLogLine {
            time: r.created_at.to_string(),
            trace_id: &r.trace_id,
            method: &r.method,
            path: &r.path,
            status: r.status,
            fault: r.fault,
            client: r.client_text(),
            workspace: &r.workspace_slug,
            key: r.key,
            user: r.owner,
            provider: &r.provider,
            model: &r.model,
            attempt: r.attempt,
            stream: r.stream,
            total_ms: ms(r.timings.total_us),
            upstream_ms: ms(r.timings.upstream_us),
            gateway_ms: ms(r.timings.gateway_us),
            request_bytes: r.request_bytes,
            response_bytes: r.response_bytes,
            tokens: r.usage().map(Usage::total),
            cost: r.cost.map(NanoUsd::cents),
        };
        if serde_json::to_writer(&mut text, &line).is_ok() {
            text.push(b'\n');
        }
    }
    text
}

fn put(text: &[u8]) {
    // A closed standard output must not stop the records themselves.
    let _ = std::io::stdout().lock().write_all(text);
}

/// What is known of a caller that was not let in.
#[derive(Serialize)]
struct StrangerLine<'a> {
    time: String,
    method: &'a str,
    path: &'a str,
    status: u16,
    /// Why the caller was refused; stands where the line of a known caller's request has its fault.
    refused: &'static str,
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyId>,
}

pub(super) fn write_turned_away(waiting: &mut Receiver<TurnedAway>) {
    let text = lines_of_turned_away(waiting);
    if !text.is_empty() {
        put(&text);
    }
}

/// One line for each that waits.
pub(super) fn lines_of_turned_away(waiting: &mut Receiver<TurnedAway>) -> Vec<u8> {
    let mut text = Vec::new();
    while let Ok(caller) = waiting.try_recv() {
        let line = StrangerLine {
            time: caller.at.to_string(),
            method: &caller.method,
            path: &caller.path,
            status: caller.status,
            refused: caller.stranger.why.label(),
            client: caller.client.map_or_else(String::new, |client| client.to_string()),
            key: caller.stranger.key,
        };
        if serde_json::to_writer(&mut text, &line).is_ok() {
            text.push(b'\n');
        }
    }
    text
}
