//! What a caller is told: standing, refusal, time to wait; and what becomes of a hold.

use super::fixture::{Engine, NOW, index, pairs, requests, seconds, subject};
use crate::{Hold, Subject};
use gateway_domain::FaultKind;
use gateway_domain::counters::Cause;
use gateway_domain::counters::LimitStatus;
use serde_json::json;

#[test]
fn nothing_matched_nothing_taken() {
    let engine = Engine::default();
    let index = index(&[requests("rpm", 1, &json!([{"key": "config", "value": "other"}]), &[])]);
    let hold = engine.caller(&index, &subject(), NOW).unwrap();
    assert!(hold.is_empty() && hold.standings().is_empty());
    hold.release();
    assert!(engine.is_empty());
}

#[test]
fn the_tightest_limit_is_shown() {
    let engine = Engine::default();
    let all = json!([{"key": "api_key", "value": "*"}]);
    let index = index(&[requests("rpd", 100, &all, &[]), requests("rpm", 3, &all, &[]), requests("rph", 3, &all, &[])]);
    let standing = |left| LimitStatus { limit: 3, remaining: left, reset_at: "2026-11-18T11:00:00Z".parse().unwrap() };
    let at = "2026-11-18T10:20:30Z".parse().unwrap();
    for left in [2, 1, 0] {
        let hold = engine.caller(&index, &subject(), at).unwrap();
        assert_eq!(hold.standings().requests, Some(standing(left)), "the one that is longest short");
        hold.count();
    }
    let denied = engine.caller(&index, &subject(), at).unwrap_err();
    assert_eq!(denied.standings().requests, Some(standing(0)));
    assert_eq!(denied.name.to_string(), "policy \"Policy 3\" (policy-3)", "the one to wait for longest");
    let later = "2026-11-18T11:00:00Z".parse().unwrap();
    let hold = engine.caller(&index, &subject(), later).unwrap();
    let tightest = LimitStatus { reset_at: "2026-11-18T12:00:00Z".parse().unwrap(), ..standing(2) };
    assert_eq!(hold.standings().requests, Some(tightest));
    hold.count();
}

#[test]
fn a_refusal_names_policy_limit_and_wait() {
    let engine = Engine::default();
    let index = index(&[requests("rpm", 2, &json!([{"key": "api_key", "value": "*"}]), &[])]);
    let at = "2026-11-18T10:20:30.0005Z".parse().unwrap();
    assert_eq!(engine.admitted(&index, &subject(), at, 2), 2);
    let denied = engine.caller(&index, &subject(), at).unwrap_err();
    assert_eq!((denied.cause, denied.limit, denied.retry_after_ms), (Cause::Limit, 2, 30_000));
    assert_eq!(
        denied.to_string(),
        "rate limit exceeded: policy \"Policy 1\" (policy-1) allows 2 requests per minute (rpm); resets at 2026-11-18T10:21:00.000Z"
    );
    let fault = denied.fault();
    assert_eq!((fault.kind(), fault.retry_after()), (FaultKind::RateLimited, Some(30_000)));
    let last = "2026-11-18T10:20:59.999999Z".parse().unwrap();
    assert_eq!(engine.caller(&index, &subject(), last).unwrap_err().retry_after_ms, 1);
}

#[test]
fn a_refused_call_takes_from_nobody() {
    let engine = Engine::default();
    let index = index(&[
        requests("rpd", 10, &json!([{"key": "api_key", "value": "*"}]), &[]),
        requests("rpd", 1, &json!([{"key": "metadata.user", "value": "*"}]), &["metadata.user"]),
        requests("rpd", 10, &json!([{"key": "model", "value": "gpt-*"}]), &["model"]),
    ]);
    let ann = pairs(&[("user", "ann")]);
    let ann = Subject { metadata: &ann, ..subject() };
    assert_eq!(engine.admitted(&index, &ann, NOW, 100), 1);
    assert_eq!(engine.admitted(&index, &subject(), NOW, 100), 9);
}

#[test]
fn what_is_given_back_can_be_taken_again() {
    let engine = Engine::default();
    let all = json!([{"key": "api_key", "value": "*"}]);
    let index = index(&[requests("rpm", 2, &all, &[]), requests("rph", 5, &all, &[])]);
    let take = |now| engine.caller(&index, &subject(), now);
    take(NOW).unwrap().count();
    let hold = take(NOW).unwrap();
    assert!(take(NOW).is_err());
    hold.release();
    let hold = take(NOW).unwrap();
    assert!(take(NOW).is_err());

    // Given back a minute later: the hour gets it, the new minute has nothing to do with it.
    let next = seconds(60);
    let minute: Vec<Hold> = (0..2).map(|_| take(next).unwrap()).collect();
    assert!(take(next).is_err());
    hold.release();
    assert!(take(next).is_err());
    assert_eq!(engine.admitted(&index, &subject(), seconds(120), 9), 2, "5 an hour: 1 kept, 2 held, 2 left");
    assert_eq!(minute.len(), 2);
    assert_eq!(engine.admitted(&index, &subject(), seconds(180), 9), 0);
    minute.into_iter().for_each(Hold::release);
    assert_eq!(engine.admitted(&index, &subject(), seconds(180), 9), 2);
}

#[test]
fn weeks_begin_on_monday() {
    let engine = Engine::default();
    let index = index(&[requests("rpw", 1, &json!([{"key": "api_key", "value": "*"}]), &[])]);
    let at = |day: &str| engine.admitted(&index, &subject(), day.parse().unwrap(), 3);
    assert_eq!(at("2026-11-16T00:00:00Z"), 1);
    assert_eq!(at("2026-11-22T23:59:59.999Z"), 0);
    assert_eq!(at("2026-11-23T00:00:00Z"), 1);
}

#[test]
fn a_late_reader_of_the_clock_is_counted_in_its_own_window() {
    let engine = Engine::default();
    let index = index(&[requests("rpm", 2, &json!([{"key": "api_key", "value": "*"}]), &[])]);
    assert_eq!(engine.admitted(&index, &subject(), NOW, 1), 1);
    assert_eq!(engine.admitted(&index, &subject(), seconds(60), 9), 2);
    assert_eq!(engine.admitted(&index, &subject(), NOW, 9), 1);
    assert_eq!(engine.admitted(&index, &subject(), seconds(60), 9), 0);
}
