//! Guardrails as a whole: order, denial, errors, rewrites, results and their place in answers.

use super::{GuardrailSubject, Run, Timing, Verdict};
use crate::content::Selection;
use crate::external_call::{CheckReply, FailureKind, QueryFailure};
use crate::fixture::{
    NOW, answer, chat, completion, guardrail, hook, judge, outgoing, reply, request, run, subject, text_of,
};
use crate::results::{HookResult, HookResults, SoftDenial, denial, header_value, soft_denial, with_results};
use crate::{BodyShape, Content, Direction};
use gateway_domain::{Dialect, Timestamp};
use serde_json::{Value, json};
use std::cell::RefCell;

fn passing() -> Value {
    json!({"id": "contains", "parameters": {"words": ["a"]}})
}

fn failing() -> Value {
    json!({"id": "contains", "parameters": {"words": ["zz"]}})
}

fn replacing(rule: &str, text: &str) -> Value {
    json!({"id": "regexReplace", "parameters": {"rule": rule, "redactText": text}})
}

fn said(content: &Content) -> String {
    content.joined(Selection::TEXT)[0].text.clone()
}

/// Denial, soft failure and passing, on requests and on answers.
#[test]
fn verdicts_follow_checks_and_deny() {
    for (checks, actions, verdict) in [
        (json!([passing()]), json!({"deny": true}), Verdict::Pass),
        (json!([passing(), failing()]), json!({"deny": true}), Verdict::Deny),
        (json!([passing(), failing()]), json!({}), Verdict::Soft),
        (
            json!([{"id": "contains", "is_enabled": false, "parameters": {"words": ["zz"]}}, passing()]),
            json!({"deny": true}),
            Verdict::Pass,
        ),
    ] {
        for content in [chat("a"), completion(&["a"])] {
            let judged = judge(&[guardrail(&checks, &actions)], content);
            assert_eq!(judged.verdict, verdict, "{checks} {actions}");
            assert_eq!(hook(&judged, 0).deny, verdict == Verdict::Deny);
        }
    }
    let soft = guardrail(&json!([failing()]), &json!({}));
    let hard = guardrail(&json!([failing()]), &json!({"deny": true}));
    assert_eq!(judge(&[hard.clone(), soft.clone()], chat("a")).verdict, Verdict::Deny);
    assert_eq!(judge(&[soft, hard], chat("a")).verdict, Verdict::Deny);
    assert_eq!(judge(&[], chat("a")).verdict, Verdict::Pass);
}

/// Every field, in its order.
#[test]
fn results_have_their_exact_form() {
    let checks = json!([{"id": "endsWith", "parameters": {"suffix": "z", "failOnError": true}}, passing()]);
    let judged = judge(&[guardrail(&checks, &json!({"deny": true}))], chat("a"));
    let time = NOW.to_string();
    let expected = format!(
        concat!(
            r#"{{"verdict":false,"id":"g","transformed":false,"checks":["#,
            r#"{{"data":{{"suffix":"z","not":false,"verdict":false,"explanation":"The text does not end so","textExcerpt":"a"}},"#,
            r#""verdict":false,"id":"default.endsWith","execution_time":0,"transformed":false,"created_at":"{0}","log":null,"fail_on_error":true}},"#,
            r#"{{"data":{{"explanation":"The check passed: 1 of 1 words were found","foundWords":["a"],"missingWords":[],"operator":"any"}},"#,
            r#""verdict":true,"id":"default.contains","execution_time":0,"transformed":false,"created_at":"{0}","log":null,"fail_on_error":false}}],"#,
            r#""feedback":null,"execution_time":0,"async":false,"type":"guardrail","created_at":"{0}","deny":true}}"#,
        ),
        time
    );
    assert_eq!(serde_json::to_string(&judged.results[0]).unwrap(), expected);
    let results = HookResults { before_request_hooks: judged.results, after_request_hooks: Vec::new() };
    let body = String::from_utf8(denial(Dialect::OpenAi, &results).to_vec()).unwrap();
    let message = "The guardrail checks defined in the config failed. You can find more information in the `hook_results` object.";
    assert_eq!(
        body,
        format!(
            r#"{{"error":{{"message":"{message}","type":"hooks_failed","param":null,"code":null}},"hook_results":{{"before_request_hooks":[{expected}],"after_request_hooks":[]}}}}"#
        )
    );
    let body: Value = serde_json::from_slice(&denial(Dialect::Anthropic, &results)).unwrap();
    assert_eq!(
        (&body["type"], &body["error"]),
        (&json!("error"), &json!({"type": "hooks_failed", "message": message}))
    );
    assert!(body["hook_results"]["before_request_hooks"].is_array());
}

/// Every other byte of an answer stays.
#[test]
fn results_are_the_last_key_and_move_nothing() {
    let judged = judge(&[guardrail(&json!([passing()]), &json!({}))], completion(&["a"]));
    let results = HookResults { before_request_hooks: Vec::new(), after_request_hooks: judged.results };
    let json = results.json().unwrap();
    for (body, expected) in [
        ("{ \"n\" : 1.0e0,\"x\":{} }\n", format!("{{ \"n\" : 1.0e0,\"x\":{{}} ,\"hook_results\":{json}}}\n")),
        ("{}", format!("{{\"hook_results\":{json}}}")),
        ("[1]", "[1]".to_owned()),
        ("no json", "no json".to_owned()),
    ] {
        assert_eq!(with_results(&body.to_owned().into(), &results), expected, "{body}");
    }
    assert_eq!(with_results(&"{}".into(), &HookResults::default()), "{}", "no hooks, no key");
}

#[test]
fn soft_denials_read_as_answers() {
    for (shape, pointer, finish) in [
        (BodyShape::Chat, "/choices/0/message/content", ("/choices/0/finish_reason", "stop")),
        (BodyShape::Messages, "/content/0/text", ("/stop_reason", "end_turn")),
        (BodyShape::Responses, "/output/0/content/0/text", ("/status", "completed")),
        (BodyShape::Completions, "/choices/0/text", ("/choices/0/finish_reason", "stop")),
    ] {
        let denied = SoftDenial { shape, model: "m", id: "1", created_secs: 5 };
        let body: Value = serde_json::from_slice(&soft_denial(denied, &HookResults::default()).unwrap()).unwrap();
        assert!(body.pointer(pointer).unwrap().as_str().unwrap().starts_with("The guardrail checks"), "{body}");
        assert_eq!(body.pointer(finish.0).unwrap(), finish.1);
        assert_eq!(body["model"], "m");
    }
    let denied = SoftDenial { shape: BodyShape::Embeddings, model: "m", id: "1", created_secs: 5 };
    assert!(soft_denial(denied, &HookResults::default()).is_none());
    let wants = |soft| guardrail(&json!([failing()]), &json!({"deny": true, "soft_deny_200": soft}));
    assert!(judge(&[wants(true)], chat("a")).soft_deny_200);
    assert!(!judge(&[wants(true), wants(false)], chat("a")).soft_deny_200);
}

/// Checks in sequence see what the former made; checks beside each other see the original.
#[test]
fn rewrites_are_composed_and_seen_in_sequence_only() {
    let see = |word: &str| json!({"id": "contains", "parameters": {"words": [word]}});
    let in_turn =
        guardrail(&json!([replacing("a", "b"), see("b"), replacing("b", "c"), see("c")]), &json!({"sequential": true}));
    let judged = judge(&[in_turn], chat("a"));
    assert_eq!((judged.verdict, said(&judged.rewritten.unwrap())), (Verdict::Pass, "c".into()));
    let beside = guardrail(&json!([replacing("a", "b"), see("a"), see("b")]), &json!({}));
    let judged = judge(&[beside], chat("a"));
    let verdicts: Vec<bool> = hook(&judged, 0).checks.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [true, true, false], "checks beside a rewrite see the original");
    let first = guardrail(&json!([replacing("one", "1")]), &json!({}));
    let second = guardrail(&json!([replacing("two", "2"), replacing("1 2", "12")]), &json!({}));
    let judged = judge(&[first, second], completion(&["one two"]));
    assert_eq!(said(&judged.rewritten.clone().unwrap()), "12", "none is lost, in declared order");
    assert!(hook(&judged, 0).transformed && hook(&judged, 1).transformed);
}

#[test]
fn webhooks_take_their_turn_among_rewrites() {
    let hooks = [
        guardrail(&json!([replacing("a", "b")]), &json!({})),
        guardrail(&json!([{"id": "webhook", "parameters": {"webhookURL": "https://one.example"}}]), &json!({})),
        guardrail(&json!([{"id": "webhook", "parameters": {"webhookURL": "https://two.example"}}]), &json!({})),
    ];
    let order = RefCell::new(Vec::new());
    let judged = run(&hooks, subject(chat("a")), &|ask| {
        let sent: Value = serde_json::from_slice(&outgoing(ask).body).unwrap();
        let text = sent["request"]["text"].as_str().unwrap().to_owned();
        order.borrow_mut().push((outgoing(ask).url.clone(), text.clone(), sent["request"]["isTransformed"].clone()));
        let json = json!({"messages": [{"role": "user", "content": format!("{text}+")}]});
        reply(200, &json!({"verdict": true, "transformedData": {"request": {"json": json}}}))
    });
    let told = |url: &str, text: &str| (format!("https://{url}.example"), text.to_owned(), json!(true));
    assert_eq!(order.into_inner(), [told("one", "b"), told("two", "b+")]);
    assert_eq!(said(&judged.rewritten.unwrap()), "b++");
}

#[test]
fn asks_of_different_checks_are_out_together_and_answers_come_in_any_order() {
    let url = |n: usize| format!("https://{n}.example/");
    let text: String = (0..20).map(|n| url(n) + " ").collect();
    let hooks = [
        guardrail(&json!([{"id": "validUrls"}]), &json!({})),
        guardrail(&json!([{"id": "pro.moderateContent", "parameters": {"categories": ["hate"]}}]), &json!({})),
    ];
    let mut run = Run::begin(&hooks, subject(completion(&[text.as_str()])), Timing::Sync, NOW);
    let mut out = run.take_asks();
    assert_eq!(out.len(), 9, "eight of the one check, and one of the other");
    assert!(run.take_asks().is_empty(), "each is given once");
    let mut most = out.len();
    let mut later = NOW;
    while let Some(pending) = out.pop() {
        later = Timestamp(later.0 + 1_000);
        let answer = match pending.check.id() {
            "default.validUrls" => reply(200, &json!({})),
            _ => reply(200, &json!({"results": [{"categories": {}}]})),
        };
        run.answer(pending.id, answer.clone(), later);
        run.answer(pending.id, reply(500, &json!({})), later);
        out.extend(run.take_asks());
        most = most.max(out.len());
    }
    assert!(run.is_done() && most == 9);
    let judged = run.finish(later);
    assert_eq!(judged.verdict, Verdict::Pass);
    assert_eq!(hook(&judged, 0).checks[0].data["validUrls"].as_array().unwrap().len(), 20);
    assert!(hook(&judged, 0).execution_time >= 20, "the time that it took");
}

#[test]
fn what_is_not_answered_in_time_is_an_error() {
    let hook_of =
        |fails| json!([{"id": "webhook", "parameters": {"webhookURL": "https://a.example", "failOnError": fails}}]);
    for (fails, verdict) in [(false, Verdict::Pass), (true, Verdict::Deny)] {
        let run =
            Run::begin(&[guardrail(&hook_of(fails), &json!({"deny": true}))], subject(chat("a")), Timing::Sync, NOW);
        assert!(!run.is_done());
        let judged = run.finish(NOW);
        assert_eq!(
            (judged.verdict, hook(&judged, 0).checks[0].error.as_ref().unwrap().name.as_str()),
            (verdict, "Timeout")
        );
    }
}

/// One bad choice, or one bad argument, fails the answer.
#[test]
fn every_choice_and_every_call_is_judged() {
    let forbid = guardrail(
        &json!([{"id": "contains", "parameters": {"words": ["bad"], "operator": "none"}}]),
        &json!({"deny": true}),
    );
    assert_eq!(judge(std::slice::from_ref(&forbid), completion(&["good", "bad"])).verdict, Verdict::Deny);
    let call = |arguments: &str| {
        answer(
            &json!({"choices": [{"message": {"content": null, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}}]}),
            BodyShape::Chat,
        )
    };
    for (arguments, verdict) in [
        (r#"{"q":"bad"}"#, Verdict::Deny),
        (r#"{"q":"b\u0061d"}"#, Verdict::Deny),
        (r#"{"q":["a",{"x":"bad"}]}"#, Verdict::Deny),
        ("bad, and no JSON", Verdict::Deny),
        (r#"{"q":"good"}"#, Verdict::Pass),
    ] {
        assert_eq!(judge(std::slice::from_ref(&forbid), call(arguments)).verdict, verdict, "{arguments}");
    }
    let wanted = guardrail(&json!([{"id": "contains", "parameters": {"words": ["ok"]}}]), &json!({}));
    let judged = judge(&[wanted], completion(&["ok", "ok so", "not"]));
    assert_eq!(hook(&judged, 0).checks[0].data["missingWords"], json!(["ok"]), "data tells of the first that failed");
}

/// Soft, denied, and refused to be changed.
#[test]
fn bodies_that_are_passed_through_are_judged_and_never_changed() {
    let forbid = guardrail(
        &json!([{"id": "contains", "parameters": {"words": ["bad"], "operator": "none"}}]),
        &json!({"deny": true}),
    );
    for body in [
        json!({"contents": [{"role": "user", "parts": [{"text": "bad"}]}]}),
        json!({"messages": [{"content": "bad"}]}),
        json!({"prompt": "bad"}),
        json!({"input": "bad"}),
        json!({"input": [{"role": "user", "content": "bad"}]}),
    ] {
        assert_eq!(
            judge(std::slice::from_ref(&forbid), request(&body, BodyShape::Unknown)).verdict,
            Verdict::Deny,
            "{body}"
        );
    }
    let body = json!({"candidates": [{"content": {"parts": [{"text": "bad"}]}}]});
    assert_eq!(judge(&[forbid], answer(&body, BodyShape::Unknown)).verdict, Verdict::Deny);
    let redact = guardrail(&json!([replacing("bad", "x")]), &json!({}));
    let judged = judge(&[redact], request(&json!({"prompt": "bad"}), BodyShape::Unknown));
    assert!(judged.rewritten.is_none());
    assert_eq!(
        (judged.verdict, hook(&judged, 0).checks[0].error.as_ref().unwrap().name.as_str()),
        (Verdict::Soft, "UnchangeableBody")
    );
    // Multipart: no text, and checks without text all the same.
    let opaque = Content::new("--x".into(), BodyShape::Opaque, Direction::Input);
    let metadata =
        guardrail(&json!([{"id": "requiredMetadataKeys", "parameters": {"metadataKeys": ["none"]}}]), &json!({}));
    assert_eq!(judge(&[metadata], opaque.clone()).verdict, Verdict::Soft);
    let word = guardrail(&json!([{"id": "wordCount", "parameters": {"maxWords": 1}}]), &json!({}));
    assert!(hook(&judge(&[word], opaque), 0).checks[0].error.is_some());
}

#[test]
fn feedback_tells_which_checks_led_to_it() {
    let rules = json!({"on_success": {"feedback": {"value": 5, "weight": 1, "metadata": {"by": "us"}}},
        "on_fail": {"feedback": {"value": -5, "weight": 0.5}}});
    let checks = json!([passing(), failing(), {"id": "wordCount", "parameters": {}}]);
    let judged = judge(&[guardrail(&checks, &rules)], completion(&["a"]));
    assert_eq!(
        hook(&judged, 0).feedback,
        Some(json!({"value": -5, "weight": 0.5, "metadata":
        {"successfulChecks": "default.contains, default.wordCount", "failedChecks": "default.contains", "erroredChecks": ""}}))
    );
    let judged =
        judge(&[guardrail(&json!([{"id": "endsWith", "parameters": {"suffix": "a"}}]), &rules)], completion(&[""]));
    let feedback = hook(&judged, 0).feedback.clone().unwrap();
    assert_eq!(
        (&feedback["value"], &feedback["metadata"]["by"], &feedback["metadata"]["erroredChecks"]),
        (&json!(5), &json!("us"), &json!("default.endsWith"))
    );
}

#[test]
fn async_guardrails_run_beside_and_change_nothing() {
    let sync = guardrail(&json!([passing()]), &json!({}));
    let beside = guardrail(&json!([failing(), replacing("a", "b")]), &json!({"async": true, "deny": true}));
    let both = [sync, beside];
    let judged = judge(&both, chat("a"));
    assert_eq!((judged.verdict, judged.results.len()), (Verdict::Pass, 1));
    let run = Run::begin(&both, subject(chat("a")), Timing::Async, NOW);
    let judged = run.finish(NOW);
    assert!(judged.rewritten.is_none() && hook(&judged, 0).is_async && !hook(&judged, 0).verdict);
    let results = HookResults { before_request_hooks: judged.results, after_request_hooks: Vec::new() };
    assert_eq!(results.json(), None, "clients see nothing of them");
    let skipped = HookResult::skipped("m", crate::HookType::Mutator);
    assert_eq!(serde_json::to_value(&skipped).unwrap(), json!({"id": "m", "type": "mutator", "skipped": true}));
}

#[test]
fn embeddings_are_rewritten_in_place_and_tokens_are_no_text() {
    let redact = || [guardrail(&json!([replacing("b", "x")]), &json!({}))];
    let judged = judge(&redact(), request(&json!({"input": ["ab", "c"], "n": [1, 2]}), BodyShape::Embeddings));
    assert_eq!(text_of(&judged.rewritten.unwrap()), r#"{"input":["ax","c"],"n":[1,2]}"#);
    let judged = judge(&redact(), request(&json!({"input": [1, 2, 3]}), BodyShape::Embeddings));
    assert!(judged.rewritten.is_none() && hook(&judged, 0).checks[0].error.is_some());
}

#[test]
fn the_header_tells_both_sides() {
    assert_eq!(header_value(Some(Verdict::Pass), Some(Verdict::Soft)).as_deref(), Some("in=pass; out=soft"));
    assert_eq!(header_value(None, Some(Verdict::Deny)).as_deref(), Some("out=deny"));
    assert_eq!(header_value(None, None), None);
}

#[test]
fn busy_hosts_are_an_error_by_name() {
    let hook_of = json!([{"id": "webhook", "parameters": {"webhookURL": "https://a.example"}}]);
    let busy = CheckReply::Failed(QueryFailure { kind: FailureKind::Busy, message: "busy".into() });
    let judged = run(&[guardrail(&hook_of, &json!({}))], GuardrailSubject { ..subject(chat("a")) }, &|_| busy.clone());
    assert_eq!(hook(&judged, 0).checks[0].error.as_ref().unwrap().name, "Busy");
}
