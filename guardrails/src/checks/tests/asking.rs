//! Checks that ask outside: what they ask, and how they read what comes back.

use super::only;
use crate::external_call::{CheckQuery, CheckReply, FailureKind, QueryFailure};
use crate::fixture::{chat, completion, facts, hook, one, outgoing, reply, request, run, subject, text_of};
use crate::{BodyShape, Content, Direction, GuardrailSubject, Judged};
use http::HeaderValue;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::sync::Arc;

fn failed(kind: FailureKind) -> CheckReply {
    CheckReply::Failed(QueryFailure { kind, message: "it failed".into() })
}

fn ask_one(id: &str, parameters: &Value, content: Content, answer: &dyn Fn(&CheckQuery) -> CheckReply) -> Judged {
    run(&[one(id, parameters)], subject(content), answer)
}

/// What a webhook and a log are told, and what they never are.
#[test]
fn webhooks_are_told_all_but_the_clients_headers() {
    let mut all = facts();
    all.headers.insert("authorization", HeaderValue::from_static("Bearer canary-1"));
    all.headers.insert("x-team", HeaderValue::from_static("red"));
    for (id, url) in [("webhook", "webhookURL"), ("log", "logURL")] {
        let content = completion(&["said"]);
        let told = RefCell::new(Value::Null);
        let parameters = json!({url: "https://hook.example/x?token=canary-2", "headers": "{\"x-own\": \"o\"}", "forwardHeaders": ["x-team", "traceparent"]});
        let subject = GuardrailSubject { facts: Arc::new(all.clone()), ..subject(content) };
        let judged = run(&[one(id, &parameters)], subject, &|ask| {
            let outgoing = outgoing(ask);
            *told.borrow_mut() = serde_json::from_slice(&outgoing.body).unwrap();
            let headers: Vec<(&str, &str)> =
                outgoing.headers.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
            assert_eq!(
                headers,
                [
                    ("content-type", "application/json"),
                    ("x-team", "red"),
                    ("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"),
                    ("x-own", "o")
                ]
            );
            assert_eq!((outgoing.timeout_ms, outgoing.redirects), (3_000, 0));
            assert!(!format!("{outgoing:?}").contains("canary"));
            reply(200, &json!({"verdict": true, "data": {"a": 1}}))
        });
        let told = told.into_inner();
        assert_eq!(
            told["request"],
            json!({"json": {"model": "m", "messages": [{"role": "user", "content": "what was asked"}]},
            "text": "what was asked", "isStreamingRequest": false, "isTransformed": false})
        );
        assert_eq!(told["response"]["text"], "said");
        assert_eq!(told["response"]["statusCode"], 200);
        assert_eq!(
            (&told["provider"], &told["requestType"], &told["eventType"]),
            (&json!("openai"), &json!("chatComplete"), &json!("afterRequestHook"))
        );
        assert_eq!(told["metadata"], json!({"user": "ann", "team": "red"}));
        assert!(!told.to_string().contains("canary"));
        let found = only(&judged);
        assert!(found.verdict && !found.data.to_string().contains("canary"), "{}", found.data);
        if id == "webhook" {
            assert_eq!(found.data["webhookUrl"], "https://hook.example/x");
            assert_eq!(
                (&found.data["responseData"], &found.data["requestContext"]),
                (&json!({"a": 1}), &json!({"timeout": 3000}))
            );
        }
    }
    let parameters = json!({"webhookURL": "https://hook.example"});
    ask_one("webhook", &parameters, chat("said"), &|ask| {
        let told: Value = serde_json::from_slice(&outgoing(ask).body).unwrap();
        assert_eq!(told["response"], json!({"json": {}, "text": "", "statusCode": null, "isTransformed": false}));
        assert_eq!(told["eventType"], "beforeRequestHook");
        reply(200, &json!({"verdict": true}))
    });
}

/// Down, with and without `failOnError`, and a reply without a verdict.
#[test]
fn webhooks_that_fail_pass_unless_told_and_that_say_nothing_refuse() {
    let url = "https://hook.example";
    for (answer, open, closed, error) in [
        (reply(200, &json!({"verdict": true})), true, true, None),
        (reply(200, &json!({"verdict": false})), false, false, None),
        (reply(200, &json!({})), false, false, None),
        (reply(200, &json!({"verdict": "true"})), false, false, None),
        (reply(200, &json!([])), false, false, None),
        (reply(500, &json!({"why": "x"})), true, false, Some("HttpError")),
        (reply(302, &json!({})), true, false, Some("HttpError")),
        (CheckReply::Reply { status: 200, body: "<html>".into() }, true, false, Some("InvalidReply")),
        (failed(FailureKind::Timeout), true, false, Some("Timeout")),
        (failed(FailureKind::Forbidden), true, false, Some("ForbiddenAddress")),
    ] {
        for (fails, verdict) in [(false, open), (true, closed)] {
            let parameters = json!({"webhookURL": url, "failOnError": fails});
            let found = only(&ask_one("webhook", &parameters, chat("x"), &|_| answer.clone()));
            assert_eq!(found.verdict, verdict, "{answer:?} {fails}");
            assert_eq!(found.error.map(|e| e.name).as_deref(), error, "{answer:?}");
        }
    }
    let found =
        only(&ask_one("webhook", &json!({"webhookURL": url}), chat("x"), &|_| reply(500, &json!({"why": "x"}))));
    assert_eq!(found.data["responseData"], json!({"why": "x"}), "also of a refusal");
}

#[test]
fn webhooks_rewrite_their_own_side_only() {
    let both = json!({"verdict": true, "transformedData": {"request": {"json": {"messages": [{"role": "user", "content": "new"}]}},
        "response": {"json": {"choices": [{"message": {"content": "other"}}]}}}});
    let parameters = json!({"webhookURL": "https://hook.example"});
    let judged = ask_one("webhook", &parameters, chat("old"), &|_| reply(200, &both));
    assert_eq!(text_of(&judged.rewritten.unwrap()), r#"{"messages":[{"role":"user","content":"new"}]}"#);
    let judged = ask_one("webhook", &parameters, completion(&["old"]), &|_| reply(200, &both));
    assert_eq!(text_of(&judged.rewritten.unwrap()), r#"{"choices":[{"message":{"content":"other"}}]}"#);
    let judged = ask_one("webhook", &parameters, chat("old"), &|_| {
        reply(200, &json!({"verdict": true, "transformedData": {"request": {"json": "text"}}}))
    });
    assert!(judged.rewritten.is_none() && only(&judged).error.is_some());
    // A body that is never changed.
    let content =
        Content::new(r#"{"messages":[{"role":"user","content":"a"}]}"#.into(), BodyShape::Unknown, Direction::Input);
    let judged = ask_one("webhook", &parameters, content, &|_| reply(200, &both));
    assert!(judged.rewritten.is_none() && !only(&judged).verdict, "the check fails");
    assert_eq!(only(&judged).error.unwrap().name, "UnchangeableBody");
}

#[test]
fn logs_judge_answers_only() {
    let parameters = json!({"logURL": "https://log.example"});
    let found = only(&ask_one("log", &parameters, completion(&["x"]), &|_| reply(204, &json!({}))));
    assert_eq!(found.data["message"], "The log was delivered");
    let found = only(&ask_one("log", &parameters, completion(&["x"]), &|_| reply(500, &json!({}))));
    assert!(found.verdict && found.error.is_some());
    let found = only(&ask_one("log", &parameters, chat("x"), &|_| reply(204, &json!({}))));
    assert_eq!(found.error.unwrap().name, "NotApplicable");
}

#[test]
fn addresses_in_texts_lead_somewhere() {
    let text = "see https://a.example/x. and http://b.example";
    let good = |ask: &CheckQuery| reply(if outgoing(ask).url.contains("b.example") { 404 } else { 200 }, &json!({}));
    let found = only(&ask_one("validUrls", &json!({}), completion(&[text]), &good));
    assert!(!found.verdict);
    assert_eq!(
        (&found.data["validUrls"], &found.data["invalidUrls"]),
        (&json!(["https://a.example/x"]), &json!(["http://b.example"]))
    );
    assert_eq!(found.data["validationMethod"], "HTTP request");
    assert!(only(&ask_one("validUrls", &json!({"not": true}), completion(&[text]), &good)).verdict);
    let found = only(&ask_one("validUrls", &json!({"onlyDNS": true}), completion(&[text]), &|ask| {
        CheckReply::Resolved(matches!(ask, CheckQuery::Resolve { host, .. } if host.ends_with(".example")))
    }));
    assert!(found.verdict && found.data["validationMethod"] == "DNS lookup");
    let none = |ask: &CheckQuery| panic!("{ask:?}");
    for parameters in [json!({}), json!({"not": true})] {
        let found = only(&ask_one("validUrls", &parameters, completion(&["none"]), &none));
        assert!(!found.verdict && found.data["urls"] == json!([]), "no address, also inverted");
    }
    let many: String = (0..33).map(|i| format!("https://{i}.example ")).collect();
    let found = only(&ask_one("validUrls", &json!({}), completion(&[many.as_str()]), &none));
    assert!(!found.verdict && found.error.unwrap().name == "UrlLimit");
    let forbidden = only(&ask_one("validUrls", &json!({}), completion(&[text]), &|_| failed(FailureKind::Forbidden)));
    assert!(!forbidden.verdict && forbidden.error.is_none(), "what the rules forbid is invalid");
}

#[test]
fn moderations_flag_categories() {
    let parameters = json!({"categories": ["hate", "violence"]});
    let answer = |flagged: &'static str| {
        move |ask: &CheckQuery| {
            assert!(matches!(ask, CheckQuery::Moderation { body, .. } if body == r#"{"input":["x"]}"#), "{ask:?}");
            reply(200, &json!({"results": [{"flagged": true, "categories": {flagged: true, "sexual": true}}]}))
        }
    };
    let found = only(&ask_one("pro.moderateContent", &parameters, chat("x"), &answer("hate")));
    assert!(!found.verdict && found.data["flaggedCategories"] == json!(["hate"]));
    assert!(only(&ask_one("pro.moderateContent", &parameters, chat("x"), &answer("harassment"))).verdict);
    let found = only(&ask_one("pro.moderateContent", &parameters, chat("x"), &|_| reply(200, &json!({}))));
    assert_eq!(found.error.unwrap().name, "InvalidReply");
}

#[test]
fn images_come_into_the_request() {
    let png = CheckReply::Media { content_type: "image/png; q=1".into(), body: "PNG".into() };
    for (body, shape, expected) in [
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://i.example/a", "detail": "low"}}]}]}),
            BodyShape::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H","detail":"low"}}]}]}"#,
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://i.example/a"}}]}]}),
            BodyShape::Messages,
            r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]}]}"#,
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://i.example/a"}]}]}),
            BodyShape::Responses,
            r#"{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,UE5H"}]}]}"#,
        ),
    ] {
        let judged = ask_one("inlineImageUrls", &json!({"maxSizeBytes": 10}), request(&body, shape), &|ask| {
            assert_eq!((outgoing(ask).url.as_str(), outgoing(ask).most_reply), ("https://i.example/a", 10));
            png.clone()
        });
        assert_eq!(text_of(&judged.rewritten.unwrap()), expected);
    }
    let body = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://i.example/a"}}]}]});
    let html = CheckReply::Media { content_type: "text/html".into(), body: "x".into() };
    for answer in [failed(FailureKind::Forbidden), html, failed(FailureKind::TooLong)] {
        let judged = ask_one("inlineImageUrls", &json!({}), request(&body, BodyShape::Chat), &|_| answer.clone());
        assert!(judged.rewritten.is_none() && only(&judged).error.is_some());
    }
    let other = ask_one("inlineImageUrls", &json!({"providers": ["bedrock"]}), request(&body, BodyShape::Chat), &|a| {
        panic!("{a:?}")
    });
    assert!(other.rewritten.is_none() && hook(&other, 0).verdict);
}
