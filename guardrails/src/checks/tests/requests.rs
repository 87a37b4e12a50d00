//! Checks of what a request asks for: models, types, metadata, parameters, tokens, and prefixes.

use super::{check, only};
use crate::external_call::{CheckQuery, CheckReply, FailureKind, QueryFailure};
use crate::fixture::{NOW, chat, completion, facts, judge, one, request, subject, text_of};
use crate::{BodyShape, CheckResult, Facts, GuardrailSubject, Run, Timing};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::sync::Arc;

fn with_facts(id: &str, parameters: &Value, change: impl Fn(&mut Facts)) -> CheckResult {
    let mut all = facts();
    change(&mut all);
    let subject = GuardrailSubject { facts: Arc::new(all), ..subject(chat("x")) };
    let run = Run::begin(&[one(id, parameters)], subject, Timing::Sync, NOW);
    assert!(run.is_done());
    only(&run.finish(NOW))
}

#[test]
fn models_are_listed() {
    for (id, parameters, verdict) in [
        ("modelWhitelist", json!({"models": ["gpt-4o"]}), true),
        ("modelwhitelist", json!({"models": "@team/gpt-4o"}), true),
        ("modelWhitelist", json!({"models": ["gpt-4"]}), false),
        ("modelWhitelist", json!({"models": ["gpt-4*"], "not": true}), false),
        ("modelWhitelist", json!({"models": ["*"]}), true),
        ("modelRules", json!({"rules": {"defaults": ["o1"], "metadata": {"team": {"red": ["gpt-4o"]}}}}), true),
        ("modelRules", json!({"rules": {"defaults": ["o1"], "metadata": {"team": {"blue": ["gpt-4o"]}}}}), false),
        ("modelRules", json!({"rules": {"metadata": {"team": {"red": ["o1"]}, "user": {"ann": ["gpt-4o"]}}}}), true),
        ("modelRules", json!({"rules": {"defaults": "gpt-4o"}, "not": true}), false),
    ] {
        assert_eq!(check(id, &parameters, chat("x")).verdict, verdict, "{id} {parameters}");
        assert_eq!(check(id, &parameters, completion(&["x"])).verdict, verdict, "on answers too: {id}");
    }
    let found = check("modelRules", &json!({"rules": {"metadata": {"team": {"blue": ["a"]}}}}), chat("x"));
    assert!(found.error.is_some() && found.verdict, "no rule applies");
    let found = check("modelWhitelist", &json!({"models": ["o1"]}), chat("x"));
    assert_eq!((&found.data["requestedModel"], &found.data["allowedModels"]), (&json!("gpt-4o"), &json!(["o1"])));
}

#[test]
fn request_types_are_allowed_or_blocked() {
    for (parameters, streams, verdict, mode) in [
        (json!({}), false, true, "unrestricted"),
        (json!({"allowedTypes": ["chatComplete"]}), true, true, "allowlist"),
        (json!({"allowedTypes": "embed, complete"}), false, false, "allowlist"),
        (json!({"allowedTypes": ["stream-chatComplete"]}), false, false, "allowlist"),
        (json!({"allowedTypes": ["stream-chatComplete"]}), true, true, "allowlist"),
        (json!({"blockedTypes": ["chatComplete"]}), true, false, "blocklist"),
        (json!({"blockedTypes": ["stream-chatComplete"]}), false, true, "blocklist"),
        (json!({"allowedTypes": ["chatComplete"], "blockedTypes": ["stream-chatComplete"]}), true, false, "combined"),
    ] {
        let found = with_facts("allowedRequestTypes", &parameters, |f| f.streams = streams);
        assert_eq!((found.verdict, found.data["mode"].as_str()), (verdict, Some(mode)), "{parameters} {streams}");
    }
    let found = with_facts("allowedRequestTypes", &json!({}), |f| {
        f.metadata = vec![("blocked_endpoints".into(), "embed,chatComplete".into())];
    });
    assert!(!found.verdict && found.data["source"] == "metadata");
    let found = with_facts("allowedRequestTypes", &json!({}), |f| {
        f.metadata = vec![("blocked_endpoints".into(), "embed".into()), ("supported_endpoints".into(), "embed".into())];
    });
    assert!(found.error.is_some(), "both lists hold it");
    assert_eq!(with_facts("allowedRequestTypes", &json!({}), |_| {}).data["allowedTypes"], json!(["all"]));
}

#[test]
fn metadata_is_required() {
    for (id, parameters, verdict) in [
        ("requiredMetadataKeys", json!({"metadataKeys": ["user", "team"]}), true),
        ("requiredMetadataKeys", json!({"metadataKeys": ["user", "cost"]}), false),
        ("requiredMetadataKeys", json!({"metadataKeys": ["user", "cost"], "operator": "any"}), true),
        ("requiredMetadataKeys", json!({"metadataKeys": ["user"], "operator": "none"}), false),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": "ann"}}), true),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": ["bob", "ann"]}}), true),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": "an"}}), false),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": "an"}, "matchType": "contains"}), true),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": ["a", "b"]}, "matchType": "containsAll"}), false),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": "^a.n$"}, "matchType": "regex"}), true),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": {"user": "x", "team": "red"}, "operator": "any"}), true),
        ("requiredMetadataKeyPairs", json!({"metadataPairs": [{"key": "team", "value": "red"}]}), true),
    ] {
        assert_eq!(check(id, &parameters, chat("x")).verdict, verdict, "{id} {parameters}");
    }
    let found = with_facts("requiredMetadataKeys", &json!({"metadataKeys": ["a", "b"]}), |f| {
        f.metadata = vec![("a".into(), String::new())];
    });
    assert_eq!(found.data["found_metadata_keys"], json!(["a"]), "an empty value is there");
    assert_eq!(found.data["missing_metadata_keys"], json!(["b"]));
}

#[test]
fn parameters_and_tools_are_allowed_or_blocked() {
    let body = json!({"model": "m", "temperature": 1.0, "n": 2, "stop": ["a"], "tools": [
        {"type": "function", "function": {"name": "search"}}, {"type": "web_search"}, {"name": "lookup", "type": "custom"}]});
    for (parameters, tools, params) in [
        (
            json!({"tools": {"blockedTypes": ["web_search"]}}),
            json!([{"type": "web_search", "name": "web_search", "reasons": ["type_blocked"]}]),
            json!([]),
        ),
        (
            json!({"tools": {"allowedFunctionNames": ["search", "web_search"]}}),
            json!([{"type": "custom", "name": "lookup", "reasons": ["name_not_allowed"]}]),
            json!([]),
        ),
        (json!({"tools": {"allowedTypes": []}}), json!([]), json!([])),
        (
            json!({"params": {"blockedKeys": ["n"]}}),
            json!([]),
            json!([{"param": "n", "value": 2, "reasons": ["key_blocked"]}]),
        ),
        (
            json!({"params": {"allowedKeys": ["model", "temperature", "n", "tools"]}}),
            json!([]),
            json!([{"param": "stop", "value": null, "reasons": ["key_not_allowed"]}]),
        ),
        (json!({"params": {"values": {"temperature": {"allowedValues": [0, 1]}}}}), json!([]), json!([])),
        (
            json!({"params": {"values": {"n": {"blockedValues": [2], "allowedValues": [1]}}}}),
            json!([]),
            json!([{"param": "n", "value": 2, "reasons": ["value_blocked", "value_not_allowed"]}]),
        ),
        (json!({"params": {"values": {"n": {"blockedValues": ["2"]}}}}), json!([]), json!([])),
        (json!({"params": {"values": {"stop": {"blockedValues": ["a"]}}}}), json!([]), json!([])),
    ] {
        let found = check("requestParametersCheck", &parameters, request(&body, BodyShape::Chat));
        assert_eq!(found.data["blockedToolsFound"], tools, "{parameters}");
        assert_eq!(found.data["blockedParamsFound"], params, "{parameters}");
        assert_eq!(found.verdict, tools == json!([]) && params == json!([]));
    }
    let twice = crate::Content::new(
        r#"{"tools":[{"type":"web_search"}],"tools":[]}"#.into(),
        BodyShape::Chat,
        crate::Direction::Input,
    );
    assert!(!check("requestParametersCheck", &json!({"tools": {"blockedTypes": ["web_search"]}}), twice).verdict);
}

#[test]
fn prefixes_go_before_the_first_message_of_a_role() {
    let chat_body = json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]});
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]});
    for (parameters, body, shape, expected) in [
        (
            json!({"prefix": "P "}),
            &chat_body,
            BodyShape::Chat,
            r#"{"messages":[{"role":"user","content":"P a"},{"role":"user","content":"b"}]}"#,
        ),
        (
            json!({"prefix": "P", "applyToRole": "system"}),
            &chat_body,
            BodyShape::Chat,
            r#"{"messages":[{"role":"system","content":"P"},{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#,
        ),
        (
            json!({"prefix": "P", "applyToRole": "assistant"}),
            &chat_body,
            BodyShape::Chat,
            r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"P"}]}"#,
        ),
        (
            json!({"prefix": "P", "addToExisting": false}),
            &chat_body,
            BodyShape::Chat,
            r#"{"messages":[{"role":"user","content":"P"},{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#,
        ),
        (json!({"prefix": "P", "onlyIfEmpty": true}), &chat_body, BodyShape::Chat, ""),
        (
            json!({"prefix": "P"}),
            &image,
            BodyShape::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"P"},{"type":"image_url","image_url":{"url":"u"}}]}]}"#,
        ),
        (
            json!({"prefix": "P", "applyToRole": "system"}),
            &chat_body,
            BodyShape::Messages,
            r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"system":"P"}"#,
        ),
        (
            json!({"prefix": "P", "applyToRole": "system"}),
            &json!({"system": [{"type": "text", "text": "s"}], "messages": []}),
            BodyShape::Messages,
            r#"{"system":[{"type":"text","text":"Ps"}],"messages":[]}"#,
        ),
        (json!({"prefix": "P"}), &json!({"prompt": "a"}), BodyShape::Completions, r#"{"prompt":"Pa"}"#),
        (json!({"prefix": "P"}), &json!({"input": "a"}), BodyShape::Responses, r#"{"input":"Pa"}"#),
        (
            json!({"prefix": "P", "applyToRole": "system"}),
            &json!({"input": "a"}),
            BodyShape::Responses,
            r#"{"input":"a","instructions":"P"}"#,
        ),
        (json!({"prefix": "P"}), &json!({"input": "a"}), BodyShape::Embeddings, ""),
    ] {
        let judged = judge(&[one("addPrefix", &parameters)], request(body, shape));
        let found = only(&judged);
        assert!(found.verdict && found.data["prefix"] == parameters["prefix"], "{parameters}");
        let rewritten = judged.rewritten.map(|c| text_of(&c)).unwrap_or_default();
        assert_eq!(rewritten, expected, "{parameters} {body}");
    }
    assert!(
        judge(&[one("addPrefix", &json!({"prefix": "P"}))], completion(&["a"])).rewritten.is_none(),
        "answers stay"
    );
}

const KEY_SET: &str = include_str!("../../../tests/jwt/keys.json");
const TOKENS: &str = include_str!("../../../tests/jwt/tokens.json");

fn token(name: &str) -> String {
    let tokens: Value = serde_json::from_str(TOKENS).unwrap();
    tokens[name].as_str().unwrap_or_else(|| panic!("token {name}")).to_owned()
}

fn judged_token(parameters: &Value, token: &str, reply: &dyn Fn(&CheckQuery) -> CheckReply) -> CheckResult {
    let mut all = facts();
    if !token.is_empty() {
        all.headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let subject = GuardrailSubject { facts: Arc::new(all), ..subject(chat("x")) };
    only(&crate::fixture::run(&[one("jwt", parameters)], subject, reply))
}

/// What cannot be read, found or verified does not pass. `guardrails/tests/jwt/tokens.py` signs the tokens.
#[test]
fn tokens_pass_only_when_all_of_them_is_sound() {
    let keys: Value = serde_json::from_str(KEY_SET).unwrap();
    let inline = json!({"jwks": keys});
    let strict = json!({"jwks": keys, "requiredClaims": ["sub"], "claimValues": {"scope": {"values": ["write"], "matchType": "contains"}}});
    let never = |ask: &CheckQuery| panic!("{ask:?}");
    for (parameters, name, verdict) in [
        (&inline, "good", true),
        (&strict, "good", true),
        (&inline, "expired", false),
        (&inline, "not_yet", false),
        (&inline, "without_iat", false),
        (&inline, "old", false),
        (&inline, "other_key", false),
        (&inline, "without_kid", false),
        (&inline, "unknown_kid", false),
        (&inline, "hs256_by_public_key", false),
        (&inline, "none", false),
        (&inline, "tampered", false),
        (&json!({"jwks": keys, "requiredClaims": ["tenant"]}), "good", false),
        (&json!({"jwks": keys, "claimValues": {"sub": {"values": ["bob"]}}}), "good", false),
        (&json!({"jwks": keys, "headerPayloadMatch": ["sub"]}), "good", false),
        (&json!({"jwks": keys, "algorithms": ["ES256"]}), "good", false),
        (&json!({"jwks": keys, "maxTokenAge": "30s", "clockTolerance": 0}), "good", false),
    ] {
        let found = judged_token(parameters, &token(name), &never);
        assert_eq!(found.verdict, verdict, "{name}: {}", found.data);
    }
    for garbage in ["", "x", "a.b.c", "eyJhbGciOiJSUzI1NiJ9.e30.", "🦀"] {
        let found = if garbage == "🦀" {
            judged_token(&inline, "%F0", &never)
        } else {
            judged_token(&inline, garbage, &never)
        };
        assert!(!found.verdict && found.error.is_none(), "{garbage}");
    }
}

#[test]
fn a_key_set_is_asked_for_again_once_and_its_absence_closes() {
    let published = json!({"jwksUri": "https://issuer.example/keys", "cacheMaxAge": 600});
    let found = judged_token(&published, &token("good"), &|ask| {
        let CheckQuery::KeySet { uri, max_age_secs: 600, fresh: false } = ask else { panic!("{ask:?}") };
        assert_eq!(uri, "https://issuer.example/keys");
        CheckReply::Reply { status: 200, body: KEY_SET.into() }
    });
    assert!(found.verdict);
    let older = |ask: &CheckQuery| match ask {
        CheckQuery::KeySet { fresh: false, .. } => CheckReply::Reply { status: 200, body: "{\"keys\":[]}".into() },
        _ => CheckReply::Reply { status: 200, body: KEY_SET.into() },
    };
    assert!(judged_token(&published, &token("good"), &older).verdict, "the newer set has the key");
    assert!(!judged_token(&published, &token("unknown_kid"), &older).verdict, "asked again once only");
    for answer in [
        CheckReply::Failed(QueryFailure { kind: FailureKind::Unreachable, message: "no route".into() }),
        CheckReply::Reply { status: 500, body: "".into() },
        CheckReply::Reply { status: 200, body: "<html>".into() },
    ] {
        let open = json!({"jwksUri": "https://issuer.example/keys", "failOnError": false});
        let found = judged_token(&open, &token("good"), &|_| answer.clone());
        assert!(!found.verdict && found.error.is_some(), "closed, whatever failOnError says");
    }
    let asked = json!({"introspectEndpoint": "https://issuer.example/introspect"});
    for (active, verdict) in
        [(json!({"active": true, "scope": "a"}), true), (json!({"active": false}), false), (json!({}), false)]
    {
        let found = judged_token(&asked, "opaque", &|ask| {
            assert_eq!(crate::fixture::outgoing(ask).body, "token=opaque".as_bytes());
            crate::fixture::reply(200, &active)
        });
        assert_eq!(found.verdict, verdict);
    }
}

#[test]
fn the_tokens_of_the_fixture_are_what_they_are_called() {
    let head = |name: &str| -> Value {
        let token = token(name);
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap()
    };
    assert_eq!(head("hs256_by_public_key")["alg"], "HS256");
    assert_eq!(head("none")["alg"], "none");
    assert_eq!(head("unknown_kid")["kid"], "k9");
    assert!(head("without_kid").get("kid").is_none());
}
