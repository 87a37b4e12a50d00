//! Lines of the access log: each whole, each valid JSON, whatever clients wrote.

use super::super::access::{lines, lines_of_turned_away};
use super::*;
use gateway_domain::NanoUsd;
use gateway_domain::denied_caller::{Stranger, TurnedAway, Unwelcome};
use gateway_domain::id::KeyId;
use serde_json::{Value, json};
use tokio::sync::mpsc::channel;

fn read(text: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(text).expect("text");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_line_tells_names_numbers_and_times() {
    let mut told = record(1);
    told.key = Some(KeyId(Uuid::from_u128(9)));
    told.client_ip = "192.0.2.7".parse().ok();
    told.timings.total_us = 1_500;
    told.cost = Some(NanoUsd(10_000_000));
    let lines = read(lines(&[told]));
    let wanted = json!({
        "time": "2026-01-31T12:00:00.000Z", "trace_id": "trace-1", "method": "POST", "path": "/v1/chat/completions",
        "status": 200, "client": "192.0.2.7", "workspace": "default", "key": Uuid::from_u128(9), "provider": "openai",
        "model": "gpt-4o", "attempt": 1, "stream": false, "total_ms": 1.5, "upstream_ms": 0.0, "gateway_ms": 0.0,
        "request_bytes": 0, "response_bytes": 0, "tokens": 15, "cost": 1.0,
    });
    assert_eq!(lines, [wanted]);
}

#[test]
fn what_is_not_known_is_left_out() {
    let refused = LogRecord { last: true, fault: Some("no_provider"), ..LogRecord::blank() };
    let line = &read(lines(&[refused]))[0];
    assert_eq!(line["fault"], "no_provider");
    for absent in ["key", "user", "provider", "model", "tokens", "cost"] {
        assert_eq!(line.get(absent), None, "{absent}");
    }
}

#[test]
fn there_is_one_line_for_each_request_in_their_order() {
    let tried = LogRecord { last: false, ..record(1) };
    let lines = read(lines(&[tried, record(2), record(3)]));
    let traces: Vec<_> = lines.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(traces, [Some("trace-2"), Some("trace-3")]);
    assert!(read(super::super::access::lines(&[])).is_empty());
}

#[test]
fn no_client_can_forge_a_line() {
    let forged = "/v1/\n{\"status\":200}\r\u{2028}\"\\\u{1}\u{1b}[2J";
    let sent = LogRecord { path: forged.into(), model: "m\"\n".into(), trace_id: "t\n\0".into(), ..record(1) };
    let text = lines(&[sent, record(2)]);
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 2, "two lines for two requests");
    let controls = text.iter().filter(|byte| byte.is_ascii_control() && **byte != b'\n');
    assert_eq!(controls.count(), 0, "a terminal that shows it is safe");
    let lines = read(text);
    let told = |name: &str| lines[0][name].as_str().map(ToOwned::to_owned);
    assert_eq!((told("path").as_deref(), told("model").as_deref()), (Some(forged), Some("m\"\n")));
    assert_eq!(told("trace_id").as_deref(), Some("t\n\0"));
}

#[test]
fn who_was_not_let_in_has_a_line() {
    let (said, mut waiting) = channel(8);
    let caller = |path: &str, key| TurnedAway {
        stranger: Stranger { why: Unwelcome::ExpiredKey, org: None, workspace: None, key },
        at: Timestamp::from_secs(NOON),
        status: 401,
        message: "This key is over".to_owned(),
        method: "GET".to_owned(),
        path: path.to_owned(),
        client: None,
    };
    assert!(lines_of_turned_away(&mut waiting).is_empty());
    said.try_send(caller("/v1/models", Some(KeyId(Uuid::from_u128(9))))).expect("room");
    said.try_send(caller("/\n{}", None)).expect("room");
    let lines = read(lines_of_turned_away(&mut waiting));
    let first = json!({
        "time": "2026-01-31T12:00:00.000Z", "method": "GET", "path": "/v1/models", "status": 401,
        "refused": "expired_key", "client": "", "key": Uuid::from_u128(9),
    });
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], first);
    assert_eq!((lines[1]["path"].as_str(), lines[1].get("key")), (Some("/\n{}"), None));
}
