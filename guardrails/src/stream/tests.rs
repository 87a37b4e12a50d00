//! Streams: what leaves is what the whole text would give, at every split; what is forbidden never leaves.

use super::{EventBuffer, Guard, HoldLimit, LaneId, LaneKind, LaneText, MOST_HOLD, judge_tool_call};
use crate::content::Selection;
use crate::engine::Verdict;
use crate::external_call::{CheckReply, FailureKind, QueryFailure};
use crate::fixture::{NOW, completion, facts, guardrail, hook, judge, outgoing, reply, subject};
use crate::{Guardrail, Run, Timing};
use gateway_domain::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const LANE: LaneId = LaneId { choice: 0, kind: LaneKind::Text, part: 0 };

fn start(guardrails: &[Arc<Guardrail>]) -> Guard<usize> {
    Guard::new(guardrails, Arc::new(facts()), None, NOW).expect("some judge as the text flows")
}

fn piece(text: &str) -> Vec<LaneText> {
    vec![LaneText { lane: LANE, text: text.to_owned() }]
}

/// What came of a stream of one text.
struct Flowed {
    /// What left before the end, and all that left.
    early: String,
    all: String,
    stopped: bool,
    failed: bool,
    /// Numbers of the events that left, in order.
    events: Vec<usize>,
    emptied: usize,
}

fn flow(guardrails: &[Arc<Guardrail>], pieces: &[&str]) -> Flowed {
    let mut guard = start(guardrails);
    let (mut all, mut events, mut emptied) = (String::new(), Vec::new(), 0);
    let take = |guard: &mut Guard<usize>, all: &mut String, events: &mut Vec<usize>, emptied: &mut usize| {
        for released in guard.take() {
            all.push_str(&released.texts.concat());
            events.push(released.event);
            *emptied += usize::from(released.is_emptied);
        }
    };
    for (number, text) in pieces.iter().enumerate() {
        guard.push(number, piece(text), NOW);
        take(&mut guard, &mut all, &mut events, &mut emptied);
    }
    let early = all.clone();
    guard.end(NOW);
    take(&mut guard, &mut all, &mut events, &mut emptied);
    Flowed { early, all, stopped: guard.stop().is_some(), failed: guard.has_failed(), events, emptied }
}

/// Lets texts be heard: those of which nothing waits leave at once. Gives what left, and whether it was stopped.
fn heard(guardrails: &[Arc<Guardrail>], pieces: &[&str]) -> (String, bool) {
    let mut guard = start(guardrails);
    let mut all = String::new();
    let take = |guard: &mut Guard<usize>, all: &mut String| {
        for released in guard.take() {
            match released.is_touched {
                true => all.push_str(&released.texts.concat()),
                false => all.push_str(pieces[released.event]),
            }
        }
    };
    for (number, text) in pieces.iter().enumerate() {
        match guard.hear(LANE, text, NOW) {
            None => all.push_str(text),
            Some(waits) => guard.queue(number, waits),
        }
        // Several come at once now and then.
        if number % 3 != 0 {
            take(&mut guard, &mut all);
        }
    }
    guard.end(NOW);
    take(&mut guard, &mut all);
    (all, guard.stop().is_some())
}

#[expect(clippy::needless_pass_by_value, reason = "rows of tables read better without a sign before each value")]
fn check(id: &str, parameters: Value, actions: Value) -> Arc<Guardrail> {
    guardrail(&json!([{"id": id, "parameters": parameters}]), &actions)
}

/// The text cut into pieces at the given places.
fn split<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
    let mut places: Vec<usize> =
        cuts.iter().map(|c| c % (text.len() + 1)).filter(|c| text.is_char_boundary(*c)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|w| &text[w[0]..w[1]]).collect()
}

fn redacted_whole(guardrails: &[Arc<Guardrail>], text: &str) -> String {
    let judged = judge(guardrails, completion(&[text]));
    judged.rewritten.map_or_else(|| text.to_owned(), |c| c.joined(Selection::TEXT)[0].text.clone())
}

/// A forbidden word split at every place: no character of it leaves.
#[test]
fn no_character_of_a_forbidden_word_leaves() {
    let deny = json!({"deny": true});
    for rule in [
        check("contains", json!({"words": ["secret", "sec", "other"], "operator": "none"}), deny.clone()),
        check("regexMatch", json!({"rule": "s.cret|sec", "not": true}), deny.clone()),
        check("regexMatch", json!({"rule": "(?<!un)secr?e?t?", "not": true}), deny.clone()),
        check("regexReplace", json!({"rule": "sec(ret)?", "failOnDetection": true}), deny.clone()),
    ] {
        let text = "well, my secret is out";
        for first in 0..text.len() {
            for second in first..text.len() {
                let flowed = flow(std::slice::from_ref(&rule), &split(text, &[first, second]));
                assert!(flowed.stopped, "{rule:?} {first} {second}");
                assert!(!flowed.all.contains("my s"), "{first} {second}: {}", flowed.all);
            }
        }
        let flowed = flow(std::slice::from_ref(&rule), &split("well, my sick cat", &[3, 9, 11]));
        assert!(!flowed.stopped && flowed.all == "well, my sick cat" && flowed.events == [0, 1, 2, 3]);
    }
}

/// Words that are not begun hold nothing.
#[test]
fn only_what_may_become_a_match_is_held() {
    let words = check("contains", json!({"words": ["secret"], "operator": "none"}), json!({"deny": true}));
    let mut guard = start(&[words]);
    for (number, (text, leaves)) in
        [("hello ", 1), ("the se", 0), ("cond", 2), (" secre", 0), ("s", 1)].into_iter().enumerate()
    {
        guard.push(number, piece(text), NOW);
        assert_eq!(guard.take().len(), leaves, "{text}");
    }
    let bounded = check("regexMatch", json!({"rule": "\\d{3}-\\d{4}", "not": true}), json!({"deny": true}));
    let mut guard = start(&[bounded]);
    guard.push(0, piece("0123456789abcdef"), NOW);
    assert_eq!(guard.take().len(), 0, "the last seven characters wait, and the event with them");
    guard.push(1, piece("ghijklm"), NOW);
    assert_eq!(guard.take().len(), 1);
}

/// What is held leaves as it came; beyond the bound every check that wanted the whole fails.
#[test]
fn held_answers_leave_as_they_came_or_fail() {
    let mut hold = EventBuffer::default();
    assert_eq!((0..3).map(|n| hold.push(n, 10)).collect::<Vec<_>>(), vec![Ok(()); 3]);
    assert_eq!((hold.bytes(), hold.release(), hold.bytes()), (30, vec![0, 1, 2], 0));
    assert_eq!(hold.push(3, MOST_HOLD), Ok(()));
    assert_eq!((hold.push(4, 1), hold.release()), (Err(HoldLimit), vec![]));
    let wants = |deny: bool| check("contains", json!({"words": ["ok"]}), json!({"deny": deny}));
    for (deny, verdict) in [(true, Verdict::Deny), (false, Verdict::Soft)] {
        let judged = Run::hold_limit(&[wants(deny)], subject(completion(&["o"])), Timing::Sync, NOW);
        let found = &hook(&judged, 0).checks[0];
        assert_eq!((judged.verdict, found.error.as_ref().unwrap().name.as_str()), (verdict, "HoldLimit"));
    }
}

/// A check looks at the same kinds of text on a stream as without one.
#[test]
fn checks_look_at_the_kinds_of_text_that_they_name() {
    let reasoning = LaneId { kind: LaneKind::Reasoning, ..LANE };
    let rule = |scan: Value| {
        check("contains", json!({"words": ["bad"], "operator": "none", "scan": scan}), json!({"deny": true}))
    };
    for (scan, lane, stopped) in [
        (json!(["text", "tool"]), LANE, true),
        (json!(["text", "tool"]), reasoning, false),
        (json!(["reasoning"]), reasoning, true),
        (json!(["reasoning"]), LANE, false),
    ] {
        let mut guard = start(&[rule(scan.clone())]);
        guard.push(0, vec![LaneText { lane, text: "bad".to_owned() }], NOW);
        guard.end(NOW);
        assert_eq!((guard.stop().is_some(), guard.take().len()), (stopped, usize::from(!stopped)), "{scan} {lane:?}");
    }
    let failed = |scan: Value| judge_tool_call(&[rule(scan)], r#"{"q":"bad"}"#).failed;
    assert_eq!((failed(json!(["tool"])), failed(json!(["text"]))), (vec![0], vec![]));
}

/// What is kept of a long text is not its beginning.
#[test]
fn the_beginning_of_a_text_is_its_beginning_only() {
    let small = json!({"deny": true, "stream": {"mode": "window", "overlap": 10}});
    for rule in ["^b+a", "(?<!b{3})a", "^b"] {
        let rule = check("regexMatch", json!({"rule": rule, "not": true}), small.clone());
        let text = format!("c{}a", "b".repeat(9_000));
        let pieces: Vec<&str> = text.as_bytes().chunks(7).map(|c| std::str::from_utf8(c).unwrap()).collect();
        let flowed = flow(std::slice::from_ref(&rule), &pieces);
        assert!(!flowed.stopped && flowed.all == text, "{rule:?}");
    }
}

#[test]
fn undecided_matches_wait_for_what_follows() {
    let rule = check("regexMatch", json!({"rule": "\\bfoo\\b", "not": true}), json!({"deny": true}));
    assert!(!flow(std::slice::from_ref(&rule), &["a foo", "d b"]).stopped, "a longer word");
    assert!(flow(std::slice::from_ref(&rule), &["a foo", " b"]).stopped);
    assert!(flow(std::slice::from_ref(&rule), &["a ", "foo"]).stopped, "at the end of the text");
    assert!(flow(&[rule], &["foo"]).stopped);
    let greedy = check("regexReplace", json!({"rule": "a+", "redactText": "*"}), json!({}));
    assert_eq!(flow(std::slice::from_ref(&greedy), &["xa", "a", "a", "y"]).all, "x*y");
    let begin = check("regexReplace", json!({"rule": "^a", "redactText": "*"}), json!({}));
    assert_eq!(flow(&[begin], &["a", "a", &"b".repeat(3_000), "a"]).all, format!("*a{}a", "b".repeat(3_000)));
    let empty = check("regexMatch", json!({"rule": "x*", "not": true}), json!({"deny": true}));
    assert!(flow(&[empty], &["abc"]).stopped, "nothing is a match too");
}

/// A match beyond the overlap: of it at most what is longer leaves.
#[test]
fn long_matches_leave_at_most_what_exceeds_the_overlap() {
    let rule = check(
        "regexMatch",
        json!({"rule": "<[^>]*>", "not": true}),
        json!({"deny": true, "stream": {"mode": "window", "overlap": 20}}),
    );
    let text = format!("ok <{}> end", "x".repeat(60));
    for size in [1, 2, 3, 7, 50] {
        let pieces: Vec<&str> = text.as_bytes().chunks(size).map(|c| std::str::from_utf8(c).unwrap()).collect();
        let flowed = flow(std::slice::from_ref(&rule), &pieces);
        let of_match = flowed.all.len().saturating_sub(3);
        assert!(of_match <= 62 - 20, "{size}: {of_match}");
    }
}

#[test]
fn a_text_that_never_ends_its_match_is_bounded() {
    let redact = check("regexReplace", json!({"rule": "a+", "redactText": "*"}), json!({}));
    let mut guard = start(&[redact]);
    let (chunk, mut left, mut most) = ("a".repeat(1_000), 0, 0);
    for number in 0..400 {
        guard.push(number, piece(&chunk), NOW);
        left += guard.take().len();
        most = most.max(number + 1 - left);
    }
    assert!(most < 140 && left > 200, "what waits is bounded: {most}, left {left}");
}

#[test]
fn counts_and_cases_fail_at_the_first_character_too_many() {
    let deny = json!({"deny": true});
    for (id, parameters, pieces, stopped, all) in [
        ("characterCount", json!({"maxCharacters": 5}), vec!["ab", "cé", "f"], false, "abcéf"),
        ("characterCount", json!({"maxCharacters": 5}), vec!["ab", "cé", "fg"], true, "abcé"),
        ("wordCount", json!({"maxWords": 2}), vec!["a", "b ", "c", "d"], false, "ab cd"),
        ("wordCount", json!({"maxWords": 2}), vec!["a", " b ", "c"], true, "a b "),
        ("sentenceCount", json!({"maxSentences": 1}), vec!["A. ", "B", "."], true, "A. B"),
        ("alllowercase", json!({}), vec!["ab", "É"], true, "ab"),
        ("alluppercase", json!({}), vec!["AB", "1!"], false, "AB1!"),
    ] {
        let flowed = flow(&[check(id, parameters.clone(), deny.clone())], &pieces);
        assert_eq!((flowed.stopped, flowed.all.as_str()), (stopped, all), "{id} {parameters} {pieces:?}");
    }
}

#[test]
fn what_fails_without_denying_lets_the_rest_through() {
    let soft = check("contains", json!({"words": ["bad"], "operator": "none"}), json!({}));
    let redact = check("regexReplace", json!({"rule": "c", "redactText": "*"}), json!({}));
    let flowed = flow(&[soft, redact], &["a b", "ad ", "c bad"]);
    assert!(!flowed.stopped && flowed.failed);
    assert_eq!(flowed.all, "a bad * bad");
}

#[test]
fn replacements_stand_in_the_event_of_the_first_character() {
    let redact = check("regexReplace", json!({"rule": "secret", "redactText": "*"}), json!({}));
    let mut guard = start(&[redact]);
    for (number, text) in ["a se", "cre", "t b", ""].into_iter().enumerate() {
        guard.push(number, piece(text), NOW);
    }
    guard.end(NOW);
    let left: Vec<(usize, String, bool, bool)> =
        guard.take().into_iter().map(|r| (r.event, r.texts.concat(), r.is_touched, r.is_emptied)).collect();
    let row = |n, text: &str, touched, emptied| (n, text.to_owned(), touched, emptied);
    assert_eq!(
        left,
        [row(0, "a *", true, false), row(1, "", true, true), row(2, " b", true, false), row(3, "", false, false)]
    );
    let judged = guard.finish(NOW);
    assert!(hook(&judged, 0).transformed && judged.verdict == Verdict::Pass);
}

#[test]
fn texts_are_judged_by_themselves_and_events_leave_in_order() {
    let words = check("contains", json!({"words": ["secret"], "operator": "none"}), json!({"deny": true}));
    let lane = |choice| LaneId { choice, ..LANE };
    let said = |choice, text: &str| LaneText { lane: lane(choice), text: text.to_owned() };
    let mut guard = start(std::slice::from_ref(&words));
    guard.push(0, vec![said(0, "sec")], NOW);
    guard.push(1, vec![said(1, "ret and")], NOW);
    guard.push(2, Vec::new(), NOW);
    assert!(guard.take().is_empty(), "the first waits, and so do all behind it");
    guard.push(3, vec![said(0, "ond"), said(1, " more")], NOW);
    assert_eq!(guard.take().iter().map(|r| r.event).collect::<Vec<_>>(), [0, 1, 2, 3]);
    guard.push(4, vec![said(1, " secret")], NOW);
    assert!(guard.take().is_empty() && guard.stop().is_some(), "one choice ends all");
    guard.push(5, vec![said(0, "x")], NOW);
    assert!(guard.take().is_empty());
    let judged = guard.finish(NOW);
    assert!(judged.verdict == Verdict::Deny && hook(&judged, 0).deny);
    let mut guard = start(&[words]);
    guard.push(0, vec![said(0, "sec")], NOW);
    guard.end_lane(lane(0), NOW);
    assert_eq!(guard.take().len(), 1, "a text that is whole waits for nothing");
    guard.push(1, vec![said(0, "ret")], NOW);
    assert_eq!(guard.take().len(), 1, "what follows is another text");
}

fn outside(actions: Value) -> Arc<Guardrail> {
    let credentials = json!({"apiKey": "k", "domain": "d.example"});
    check("pangea.textGuard", json!({"credentials": credentials, "failOnError": true}), actions)
}

fn verdict(detected: bool) -> Vec<CheckReply> {
    vec![reply(200, &json!({"status": "Success", "result": {"detectors": {"x": {"detected": detected}}}}))]
}

/// Windows by size, by time and at the end, one at a time.
#[test]
fn outside_checks_are_asked_about_windows() {
    let later = |ms: i64| Timestamp(NOW.0 + ms * 1_000);
    let actions = json!({"deny": true, "stream": {"mode": "window", "window": 20, "overlap": 5, "max_wait_ms": 100}});
    let mut guard = start(&[outside(actions)]);
    guard.push(0, piece("0123456789"), NOW);
    assert!(guard.take_asks(NOW).is_empty() && guard.take().is_empty(), "too little to ask about");
    assert_eq!(guard.due(), Some(later(100)));
    guard.push(1, piece("abcdefghij"), NOW);
    let asks = guard.take_asks(NOW);
    let text = |asks: &[super::WindowAsk]| -> Value {
        serde_json::from_slice::<Value>(&outgoing(&asks[0].asks[0]).body).unwrap()["text"].clone()
    };
    assert_eq!((asks.len(), text(&asks)), (1, json!("0123456789abcdefghij")));
    guard.push(2, piece("klmnopqrstuvwxyzklmnopqrst"), NOW);
    assert!(guard.take_asks(NOW).is_empty(), "one at a time");
    guard.answer(asks[0].id, &verdict(false), NOW);
    assert_eq!(guard.take().iter().map(|r| r.event).collect::<Vec<_>>(), [0], "all but the overlap");
    let asks = guard.take_asks(NOW);
    assert_eq!(text(&asks), json!("fghijklmnopqrstuvwxyzklmnopqrst"), "with the overlap before it");
    guard.answer(asks[0].id, &verdict(false), NOW);
    guard.push(3, piece("!"), later(5));
    assert!(guard.take_asks(later(6)).is_empty());
    let asks = guard.take_asks(later(200));
    assert_eq!(asks.len(), 1, "by time alone");
    guard.answer(asks[0].id, &verdict(false), later(201));
    guard.push(4, piece("?"), later(202));
    guard.end(later(203));
    let asks = guard.take_asks(later(203));
    assert_eq!(asks.len(), 1, "what is left at the end");
    assert!(guard.take().iter().all(|r| r.event < 4));
    guard.answer(asks[0].id, &verdict(false), later(204));
    let rest: Vec<usize> = guard.take().iter().map(|r| r.event).collect();
    assert_eq!(rest.last(), Some(&4), "{rest:?}");
    assert_eq!(guard.finish(later(205)).verdict, Verdict::Pass);
}

#[test]
fn outside_checks_cut_on_failure_and_on_errors_that_close() {
    let down = vec![CheckReply::Failed(QueryFailure { kind: FailureKind::Timeout, message: "slow".into() })];
    for (answers, stopped) in [(verdict(true), true), (down, true), (verdict(false), false)] {
        let mut guard = start(&[outside(json!({"deny": true}))]);
        guard.push(0, piece("some text"), NOW);
        guard.end(NOW);
        let asks = guard.take_asks(NOW);
        guard.answer(asks[0].id, &answers, NOW);
        assert_eq!(guard.stop().is_some(), stopped);
        assert_eq!(guard.take().len(), usize::from(!stopped));
    }
}

/// The event that comes next waits for what is said of a call, and all behind it; what passed leaves in order.
#[test]
fn calls_are_told_outside_whole_and_hold_what_follows() {
    for detected in [false, true] {
        let mut guard = start(&[outside(json!({"deny": true}))]);
        assert_eq!(guard.judge_call("{\"n\":1}", NOW), "{\"n\":1}");
        assert!(guard.take_asks(NOW).is_empty(), "numbers are no text");
        guard.judge_call("{\"a\":\"one\",\"b\":[\"two\"]}", NOW);
        guard.push(0, Vec::new(), NOW);
        guard.push(1, Vec::new(), NOW);
        assert!(guard.take().is_empty());
        let asks = guard.take_asks(NOW);
        let body: Value = serde_json::from_slice(&outgoing(&asks[0].asks[0]).body).unwrap();
        assert_eq!((asks.len(), &body["text"]), (1, &json!("one\ntwo")));
        guard.answer(asks[0].id, &verdict(detected), NOW);
        assert_eq!(guard.stop().is_some(), detected);
        let left: Vec<usize> = guard.take().iter().map(|released| released.event).collect();
        assert_eq!(left, if detected { vec![] } else { vec![0, 1] });
        assert!(!guard.is_full());
    }
}

#[test]
fn bounds_and_cases_hold_in_calls_too() {
    let tools = |id: &str, mut parameters: Value| {
        parameters["scan"] = json!(["tool"]);
        [check(id, parameters, json!({"deny": true}))]
    };
    for (rules, fails) in [
        (tools("wordCount", json!({"maxWords": 2})), true),
        (tools("wordCount", json!({"maxWords": 3})), false),
        (tools("alllowercase", json!({})), true),
        (tools("alluppercase", json!({})), true),
    ] {
        let judged = judge_tool_call(&rules, "{\"a\":\"one Two\",\"b\":\"three\"}");
        assert_eq!(judged.failed, if fails { vec![0] } else { vec![] }, "{rules:?}");
    }
}

#[test]
fn a_full_lane_says_so() {
    let mut guard = start(&[outside(json!({"deny": true}))]);
    guard.push(0, piece(&"x".repeat(40_000)), NOW);
    let _ = guard.take_asks(NOW);
    assert!(!guard.is_full());
    guard.push(1, piece(&"x".repeat(40_000)), NOW);
    assert!(guard.is_full());
}

/// Arguments are judged when they are whole, and rewritten in place.
#[test]
fn calls_of_tools_are_judged_whole() {
    let redact = check("regexReplace", json!({"rule": "secret", "redactText": "\"*\""}), json!({}));
    let forbid = check("contains", json!({"words": ["bad"], "operator": "none"}), json!({"deny": true}));
    let both = [redact, forbid];
    for (arguments, expected, failed) in [
        (r#"{"q": "my secret", "n": 1.0, "secret": true}"#, r#"{"q": "my \"*\"", "n": 1.0, "secret": true}"#, vec![]),
        (r#"{"q": ["b\u0061d"]}"#, r#"{"q": ["b\u0061d"]}"#, vec![1]),
        ("no json: secret", "no json: \"*\"", vec![]),
        ("", "", vec![]),
    ] {
        let judged = judge_tool_call(&both, arguments);
        assert_eq!((judged.arguments.as_str(), judged.failed), (expected, failed), "{arguments}");
    }
}

fn redactors() -> Vec<Vec<Arc<Guardrail>>> {
    let replace =
        |rule: &str, text: &str| json!({"id": "regexReplace", "parameters": {"rule": rule, "redactText": text}});
    let pii = json!({"id": "pro.pii", "parameters": {"redact": true, "categories": ["EMAIL_ADDRESS", "SSN", "CREDIT_CARD", "IP_ADDRESS", "PHONE_NUMBER"]}});
    let sets = [
        json!([replace("ab|abc|b+a", "<$&>")]),
        json!([replace("a{1,3}b?", "*")]),
        json!([replace("\\bab?\\b", "W")]),
        json!([replace("a(b)?(c)?", "$2$1")]),
        json!([replace("(?=ab)a|(?<=b)c", "L")]),
        json!([replace("[ab]*c", "*")]),
        json!([replace("a", "bb"), replace("bb+", "a"), replace("^.", "!")]),
        json!([replace("é|😀a?", ""), replace("ab$", "END")]),
        json!([replace("/A.?B/is", "-")]),
        json!([pii]),
        json!([replace("@", " at "), pii]),
    ];
    let actions = json!({"stream": {"mode": "window", "overlap": 40}});
    sets.iter().map(|checks| vec![guardrail(checks, &actions)]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What leaves, joined, equals the redaction of the whole.
    #[test]
    fn a_redacted_stream_is_the_redacted_whole(
        text in "[abcé😀 A\n]{0,30}",
        cuts in prop::collection::vec(0_usize..200, 0..12),
        set in 0_usize..11,
    ) {
        let rules = &redactors()[set];
        let pieces = split(&text, &cuts);
        prop_assert_eq!(flow(rules, &pieces).all, redacted_whole(rules, &text), "{:?}", pieces);
        prop_assert_eq!(heard(rules, &pieces).0, redacted_whole(rules, &text), "heard {:?}", pieces);
    }

    #[test]
    fn personal_data_in_a_stream_is_replaced_as_in_the_whole(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a@b.example", " ", "123-45-6789", "4111 1111 1111 1111", "x", "1.2.3.4", ", ", "+1 555 123 4567", "2001:db8::1", "9", "é", "-", "c.d@e.example",
        ]), 0..8),
        cuts in prop::collection::vec(0_usize..400, 0..12),
        joint in any::<bool>(),
    ) {
        let text = parts.concat();
        // Numbers may run on into one another; what is longer than the overlap is beyond the promise.
        prop_assume!(text.split(|c: char| !c.is_ascii()).all(|t| t.len() < 40) || joint);
        let categories = json!(["EMAIL_ADDRESS", "SSN", "CREDIT_CARD", "IP_ADDRESS", "PHONE_NUMBER"]);
        let rules = [check("pro.pii", json!({"redact": true, "categories": categories}), json!({}))];
        let flowed = flow(&rules, &split(&text, &cuts));
        prop_assert_eq!(flowed.all, redacted_whole(&rules, &text));
    }

    /// What is forbidden is cut in the stream exactly where the whole text fails, and nothing of it leaves before.
    #[test]
    fn a_stream_is_cut_when_the_whole_fails(
        text in "[abc ]{0,30}",
        cuts in prop::collection::vec(0_usize..200, 0..12),
        rule in prop::sample::select(vec!["abc|bca", "a{2,4}b", "\\bcab\\b", "(a|b){3}c", "(?<=a)bc", "^ab|ba$"]),
    ) {
        let actions = json!({"deny": true, "stream": {"mode": "window", "overlap": 40}});
        let rules = [check("regexMatch", json!({"rule": rule, "not": true}), actions)];
        let flowed = flow(&rules, &split(&text, &cuts));
        let judged = judge(&rules, completion(&[text.as_str()]));
        let fails = !text.is_empty() && judged.verdict == Verdict::Deny;
        prop_assert_eq!(flowed.stopped, fails);
        let (left, stopped) = heard(&rules, &split(&text, &cuts));
        prop_assert_eq!(stopped, fails);
        prop_assert!(text.starts_with(&left) && left.len() <= flowed.all.len(), "{:?} {:?}", left, flowed.all);
        let pattern = crate::pattern::Pattern::compile(rule, crate::pattern::PatternFlags::default()).unwrap();
        if let Some(found) = pattern.find_at(&text, 0).unwrap() {
            prop_assert!(flowed.all.len() <= found.start, "left {:?} of {:?}", flowed.all, text);
        } else {
            prop_assert_eq!(&flowed.all, &text);
        }
        prop_assert!(flowed.early.len() <= text.len() && flowed.emptied == 0);
    }
}
