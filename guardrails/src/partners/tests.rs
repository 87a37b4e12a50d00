//! Walks `tests/golden/<partner>/<case>.json`: what a check is given, what it must ask, what the service answers, and
//! what comes of it. No case has code here. `UPDATE_GOLDEN=1` writes what is expected from what is.
//!
//! | field | holds |
//! |---|---|
//! | `source` | where the reply is documented, or `unverified` |
//! | `check`, `parameters`, `hook` | the check, and `input` or `output` |
//! | `text` | what is judged |
//! | `request` | the call that it must make: url, headers, body |
//! | `reply` | the service's answer: `status` and `body` |
//! | `result` | verdict, data, error, and the text as it is then |

use super::row::ROWS;
use super::services::SERVICES;
use super::{credential_fields, namespaces};
use crate::content::Selection;
use crate::external_call::{CheckQuery, CheckReply, FailureKind, QueryFailure};
use crate::fixture::{chat, compile, completion, hook, run, subject};
use crate::{Guardrail, Judged};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Deserialize, Serialize)]
struct Case {
    source: String,
    check: String,
    hook: String,
    parameters: Value,
    text: String,
    #[serde(default)]
    request: Value,
    reply: RecordedReply,
    #[serde(default)]
    result: Value,
}

#[derive(Clone, Deserialize, Serialize)]
struct RecordedReply {
    status: u16,
    body: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn cases() -> Vec<PathBuf> {
    let read = |path: &Path| std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let mut cases: Vec<PathBuf> = read(&folder()).iter().filter(|p| p.is_dir()).flat_map(|p| read(p)).collect();
    cases.sort();
    cases
}

fn judged(case: &Case, guardrail: Guardrail) -> (Judged, Value) {
    let content = if case.hook == "input" { chat(&case.text) } else { completion(&[case.text.as_str()]) };
    let sent = RefCell::new(Value::Null);
    let judged = run(&[Arc::new(guardrail)], subject(content), &|ask| {
        let CheckQuery::Call(out) = ask else { panic!("{ask:?}") };
        let headers: Map<String, Value> =
            out.headers.iter().map(|(n, v)| (n.to_string(), json!(v.to_str().unwrap()))).collect();
        let body: Value = serde_json::from_slice(&out.body).unwrap();
        let mut told = json!({"method": out.method.as_str(), "url": out.url, "headers": headers, "body": body, "timeout": out.timeout_ms});
        if out.sign != crate::external_call::Sign::Nothing {
            told["sign"] = json!(format!("{:?}", out.sign));
        }
        sent.replace(told);
        CheckReply::Reply { status: case.reply.status, body: case.reply.body.to_string().into() }
    });
    (judged, sent.into_inner())
}

fn result(case: &Case, judged: &Judged) -> Value {
    let check = &hook(judged, 0).checks[0];
    let text = judged.rewritten.as_ref().map(|c| {
        c.joined(Selection { scope: crate::content::MessageScope::AllMessages, ..Selection::TEXT })[0].text.clone()
    });
    let mut told = json!({"verdict": check.verdict, "data": check.data});
    if let Some(error) = &check.error {
        told["error"] = json!({"name": error.name, "message": error.message});
    }
    if text.as_ref().is_some_and(|t| *t != case.text) {
        told["text"] = json!(text);
    }
    told
}

/// Request, verdict and rewrite.
#[test]
fn golden_folders_hold() {
    let update = std::env::vars().any(|(k, _)| k == "UPDATE_GOLDEN");
    let mut wrong = Vec::new();
    for path in cases() {
        let mut case: Case =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert!(case.source == "unverified" || case.source.starts_with("https://"), "{path:?} names its source");
        let checks = json!([{"id": case.check, "parameters": case.parameters}]);
        let guardrail = compile(&checks, &json!({})).unwrap_or_else(|p| panic!("{path:?}: {p:?}"));
        let (judged, request) = judged(&case, guardrail);
        let result = result(&case, &judged);
        if (&request, &result) != (&case.request, &case.result) {
            wrong.push(format!("{}:\n {request}\n {result}", path.display()));
            (case.request, case.result) = (request, result);
            if update {
                std::fs::write(&path, serde_json::to_string_pretty(&case).unwrap() + "\n").unwrap();
            }
        }
    }
    assert!(update || wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each check has a case that passes and one that fails; what may rewrite has one that does.
#[test]
fn every_check_has_its_cases() {
    let mut seen: Vec<(String, bool, bool)> = Vec::new();
    for path in cases() {
        let case: Case = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        seen.push((case.check, case.result["verdict"] == json!(true), case.result.get("text").is_some()));
    }
    let ids = ROWS.iter().map(|r| r.id.as_str()).chain(SERVICES.iter().map(|s| s.id));
    let mut missing = Vec::new();
    for id in ids {
        let of = |verdict: bool| seen.iter().any(|(check, v, _)| check == id && *v == verdict);
        let searches = id.ends_with(".online");
        if !of(true) || !(of(false) || searches) {
            missing.push(id);
        }
        let rewrites = ROWS.iter().any(|r| r.id == id && r.params.contains_key("redact")) || searches;
        if rewrites && !seen.iter().any(|(check, _, rewrote)| check == id && *rewrote) {
            missing.push(id);
        }
    }
    assert!(missing.is_empty(), "without cases: {missing:?}");
}

/// The table can be read: unknown keys are refused, ids stand once.
#[test]
fn rows_are_sound() {
    let table: Vec<Value> = serde_json::from_str(include_str!("../../data/partners.json")).unwrap();
    let parsed: Result<Vec<super::row::PartnerRow>, _> = serde_json::from_str(include_str!("../../data/partners.json"));
    assert_eq!(parsed.map(|r| r.len()).map_err(|e| e.to_string()), Ok(table.len()));
    assert_eq!((ROWS.len(), ROWS.len() + SERVICES.len()), (44, 48));
    let mut ids: Vec<&str> = ROWS.iter().map(|r| r.id.as_str()).chain(SERVICES.iter().map(|s| s.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 48, "each id once");
    assert_eq!(namespaces().len(), 23, "one for each partner");
    for namespace in namespaces() {
        let fields = credential_fields(namespace).unwrap();
        assert!(
            fields
                .iter()
                .all(|f| f.is_secret == f.name.to_lowercase().contains("key") || f.is_secret || f.name.ends_with("Id")),
            "{namespace}: {fields:?}"
        );
    }
    assert!(credential_fields("acme").is_none());
}

/// A service that fails, lies or is slow is an error, which passes unless told.
#[test]
fn services_that_fail_are_errors() {
    let answers = [
        (CheckReply::Reply { status: 500, body: "".into() }, "HttpError"),
        (CheckReply::Reply { status: 200, body: "<html>".into() }, "InvalidReply"),
        (CheckReply::Failed(QueryFailure { kind: FailureKind::Timeout, message: "slow".into() }), "Timeout"),
    ];
    for path in cases() {
        let case: Case = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (answer, name) in &answers {
            for fails in [false, true] {
                let mut parameters = case.parameters.clone();
                parameters["failOnError"] = json!(fails);
                let guardrail = compile(&json!([{"id": case.check, "parameters": parameters}]), &json!({})).unwrap();
                let content = if case.hook == "input" { chat(&case.text) } else { completion(&[case.text.as_str()]) };
                let judged = run(&[Arc::new(guardrail)], subject(content), &|_| answer.clone());
                let check = &hook(&judged, 0).checks[0];
                assert_eq!(check.error.as_ref().map(|e| e.name.as_str()), Some(*name), "{}", path.display());
                assert!(check.verdict != fails && judged.rewritten.is_none(), "{}", path.display());
            }
        }
    }
}

#[test]
fn saved_credentials_are_used_and_own_ones_come_first() {
    let saved = json!({"apiKey": "saved", "domain": "saved.example"}).as_object().cloned();
    let lookup = |namespace: &str| if namespace == "pangea" { saved.clone() } else { None };
    let trusted = gateway_domain::egress::Trusted::default();
    let setup = crate::definition::CompileContext { credentials: &lookup, trusted: &trusted };
    for (own, key, host) in
        [(json!({}), "Bearer saved", "saved.example"), (json!({"apiKey": "own"}), "Bearer own", "saved.example")]
    {
        let checks = json!([{"id": "pangea.textGuard", "parameters": {"credentials": own}}]);
        let guardrail = crate::definition::saved("g", &checks, &json!({}), &setup).unwrap();
        let shown = format!("{guardrail:?}");
        assert!(!shown.contains("saved") && !shown.contains("own"), "{shown}");
        run(&[Arc::new(guardrail)], subject(chat("x")), &|ask| {
            let out = crate::fixture::outgoing(ask);
            let found = out.headers.iter().find(|(n, _)| n == "authorization").unwrap();
            assert_eq!(
                (found.1.to_str().unwrap(), out.url.as_str()),
                (key, format!("https://ai-guard.{host}/v1/text/guard").as_str())
            );
            assert!(found.1.is_sensitive());
            crate::fixture::reply(200, &json!({"status": "Success"}))
        });
    }
}
