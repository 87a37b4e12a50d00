//! The engine's memory: bounded, swept of ended windows and of nothing else.

use super::fixture::{Engine, NOW, index, pairs, requests, seconds, subject};
use crate::{Index, Subject};
use gateway_domain::Timestamp;
use gateway_domain::counters::Cause;
use serde_json::json;

fn per_user(unit: &str, value: u64) -> Index {
    index(&[requests(unit, value, &json!([{"key": "metadata.user", "value": "*"}]), &["metadata.user"])])
}

/// One call of a user: admitted, or why not.
fn call(engine: &Engine, index: &Index, user: usize, now: Timestamp) -> Option<Cause> {
    let metadata = pairs(&[("user", &user.to_string())]);
    match engine.caller(index, &Subject { metadata: &metadata, ..subject() }, now) {
        Ok(hold) => {
            hold.count();
            None
        }
        Err(denied) => Some(denied.cause),
    }
}

#[test]
fn full_means_shed_and_counted_never_let_through() {
    let engine = Engine::new(1_024);
    let index = per_user("rpw", 2);
    let mut known = Vec::new();
    for user in 0..10_000 {
        match call(&engine, &index, user, NOW) {
            None => known.push(user),
            Some(cause) => assert_eq!(cause, Cause::Full),
        }
        assert_eq!(engine.len(), known.len());
    }
    assert_eq!((engine.len(), engine.capacity()), (1_024, 1_024), "so many users find every corner");
    assert_eq!(engine.shed(), 10_000 - 1_024);
    for user in known {
        assert_eq!(call(&engine, &index, user, NOW), None, "who has a counter goes on");
        assert_eq!(call(&engine, &index, user, NOW), Some(Cause::Limit));
    }
    let metadata = pairs(&[("user", "new")]);
    let denied = engine.caller(&index, &Subject { metadata: &metadata, ..subject() }, NOW).unwrap_err();
    assert_eq!((denied.cause, denied.retry_after_ms), (Cause::Full, 1_000));
    assert!(denied.to_string().contains("\"Policy 1\" (policy-1)"), "{denied}");

    let next_week = seconds(7 * 86_400);
    assert_eq!(call(&engine, &index, 0, next_week), None, "room comes back");
}

#[test]
fn only_ended_windows_are_forgotten() {
    let engine = Engine::default();
    let (minute, day) = (per_user("rpm", 1), per_user("rpd", 1));
    for user in 0..500 {
        assert_eq!(call(&engine, &minute, user, NOW), None);
        assert_eq!(call(&engine, &day, user, NOW), None);
    }
    assert_eq!(engine.len(), 1_000);
    // The minute ended half a minute after NOW; its memory stays for another.
    engine.sweep(seconds(89));
    assert_eq!(engine.len(), 1_000);
    assert_eq!(call(&engine, &minute, 0, NOW), Some(Cause::Limit), "late, but not let through twice");
    engine.sweep(seconds(90));
    assert_eq!(engine.len(), 500);
    for user in 0..500 {
        assert_eq!(call(&engine, &day, user, seconds(90)), Some(Cause::Limit));
    }
    engine.sweep(seconds(2 * 86_400));
    assert!(engine.is_empty());
}

#[test]
fn new_counters_sweep_the_old_ones_of_their_shard() {
    let engine = Engine::default();
    let index = per_user("rpm", 1);
    for minute in 0..10 {
        for user in 0..3_000 {
            assert_eq!(call(&engine, &index, minute * 3_000 + user, seconds(60 * minute as i64)), None);
        }
        assert!(engine.len() <= 2 * 3_000, "this minute and the one just ended: {}", engine.len());
    }
}

#[test]
fn a_clock_that_jumped_ahead_does_no_lasting_harm() {
    let engine = Engine::default();
    let index = per_user("rpm", 1);
    assert_eq!(call(&engine, &index, 1, seconds(40_000_000)), None);
    assert_eq!(call(&engine, &index, 1, NOW), None);
    assert_eq!(call(&engine, &index, 1, NOW), Some(Cause::Limit));
}

#[test]
fn a_clock_that_steps_back_and_forth_lets_nobody_through_twice() {
    let engine = Engine::default();
    let index = per_user("rpm", 1);
    let at = |moment| call(&engine, &index, 1, seconds(moment));
    assert_eq!((at(600), at(600)), (None, Some(Cause::Limit)));
    assert_eq!((at(0), at(0)), (None, Some(Cause::Limit)), "ten minutes back is a minute of its own");
    assert_eq!(at(600), Some(Cause::Limit));
    engine.sweep(seconds(600));
    assert_eq!(engine.len(), 1, "what ended is forgotten, what runs is not");
    assert_eq!(at(600), Some(Cause::Limit));
}
