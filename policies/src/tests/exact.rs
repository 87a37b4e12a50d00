//! Admitted equals allowed, with real threads: no more, and never fewer than asked and allowed.

use super::fixture::{Engine, NOW, index, pairs, requests, seconds, subject};
use crate::{Index, Stage, Subject};
use gateway_domain::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

const THREADS: usize = 8;

/// Runs `work` on all threads at once, each with its number, and gathers what they return.
fn together<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(THREADS);
    let (start, work) = (&start, &work);
    thread::scope(|scope| {
        let run = |number| {
            scope.spawn(move || {
                start.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..THREADS).map(run).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn minute(now: Timestamp) -> i64 {
    now.secs().div_euclid(60)
}

fn per_minute(limit: u64) -> Index {
    index(&[requests("rpm", limit, &json!([{"key": "api_key", "value": "*"}]), &[])])
}

fn by_minute(admitted: impl IntoIterator<Item = i64>) -> BTreeMap<i64, usize> {
    let mut total = BTreeMap::new();
    admitted.into_iter().for_each(|minute| *total.entry(minute).or_default() += 1);
    total
}

#[test]
fn each_window_admits_its_limit_also_to_those_whose_clock_is_behind() {
    let (engine, index) = (Engine::default(), per_minute(500));
    let tick = Barrier::new(THREADS);
    // Up to 28 seconds apart: at each turn some threads are still in the old window, others in the new one.
    let admitted = together(|number| {
        let mut admitted = Vec::new();
        for step in 0..27 {
            tick.wait();
            for _ in 0..40 {
                let now = seconds(10 * step - 4 * number as i64);
                if engine.admitted(&index, &subject(), now, 1) == 1 {
                    admitted.push(minute(now));
                }
            }
        }
        admitted
    });
    let total = by_minute(admitted.into_iter().flatten());
    assert_eq!(total.len(), 5);
    assert!(total.values().all(|n| *n == 500), "{total:?}");
}

#[test]
fn one_clock_for_all_turns_from_window_to_window_exactly() {
    for _ in 0..20 {
        let (engine, index) = (Engine::default(), per_minute(100));
        let turn = seconds(30);
        let clock = AtomicI64::new(turn.micros() - 4_000);
        let admitted = together(|_| {
            let mut admitted = Vec::new();
            for _ in 0..1_000 {
                let now = Timestamp(clock.fetch_add(1, Ordering::Relaxed));
                if engine.admitted(&index, &subject(), now, 1) == 1 {
                    admitted.push(minute(now));
                }
            }
            admitted
        });
        let total = by_minute(admitted.into_iter().flatten());
        assert_eq!(total, BTreeMap::from([(minute(turn) - 1, 100), (minute(turn), 100)]));
    }
}

/// One limit for all, one per user, one for a single user: each call is under two or three of them.
fn overlapping(for_all: u64) -> Index {
    index(&[
        requests("rpd", for_all, &json!([{"key": "api_key", "value": "*"}]), &[]),
        requests("rpd", 100, &json!([{"key": "metadata.user", "value": "*"}]), &["metadata.user"]),
        requests("rpw", 30, &json!([{"key": "metadata.user", "value": "u0"}]), &["endpoint_type"]),
    ])
}

#[test]
fn overlapping_limits_are_all_met_exactly() {
    let engine = Engine::default();
    let index = overlapping(600);
    let users: Vec<_> = (0..10).map(|i| pairs(&[("user", &format!("u{i}"))])).collect();
    let counts = together(|number| {
        let mut admitted = [0; 10];
        for step in 0..4_000 {
            let user = (number + step) % 10;
            let call = Subject { metadata: &users[user], ..subject() };
            admitted[user] += engine.admitted(&index, &call, NOW, 1);
        }
        admitted
    });
    let of = |user: usize| counts.iter().map(|c| c[user]).sum::<usize>();
    assert_eq!((0..10).map(of).sum::<usize>(), 600, "users alone would have been allowed 930");
    assert!(of(0) <= 30 && (1..10).all(|user| of(user) <= 100));
    // Refused calls left nothing behind: once there is room for all, each user gets the rest of his own limit.
    let raised = overlapping(10_000);
    for (user, metadata) in users.iter().enumerate() {
        let limit = if user == 0 { 30 } else { 100 };
        let call = Subject { metadata, ..subject() };
        assert_eq!(engine.admitted(&raised, &call, NOW, 200), limit - of(user));
    }
}

/// What a reserve-and-undo would get wrong: those who are refused elsewhere must not, even for a moment, stand
/// in the way of others.
#[test]
fn the_refused_never_take_room_from_others() {
    let engine = Engine::default();
    let index = index(&[
        requests("rpd", 2_000, &json!([{"key": "api_key", "value": "*"}]), &[]),
        requests("rpd", 1, &json!([{"key": "metadata.user", "value": "greedy"}]), &[]),
    ]);
    let greedy = pairs(&[("user", "greedy")]);
    let greedy = Subject { metadata: &greedy, ..subject() };
    assert_eq!(engine.admitted(&index, &greedy, NOW, 1), 1);
    // Exactly as many modest calls as there is room for: each of them must be let through.
    let modest = THREADS / 2;
    let counts = together(|number| {
        if number < modest {
            engine.admitted(&index, &subject(), NOW, if number == 0 { 499 } else { 500 })
        } else {
            engine.admitted(&index, &greedy, NOW, 5_000)
        }
    });
    assert_eq!(counts[..modest].iter().sum::<usize>(), 1_999);
    assert_eq!(counts[modest..].iter().sum::<usize>(), 0);
}

#[test]
fn holds_come_and_go_within_the_limit() {
    const LIMIT: i64 = 20;
    let engine = Engine::default();
    let all = json!([{"key": "api_key", "value": "*"}]);
    let index = index(&[
        requests("rpd", LIMIT.unsigned_abs(), &all, &[]),
        requests("rpd", 1_000, &all, &["model"]),
        requests("rpd", LIMIT.unsigned_abs() + 2, &json!([{"key": "provider", "value": "*"}]), &[]),
    ]);
    let (out, kept) = (AtomicI64::new(0), AtomicI64::new(0));
    together(|number| {
        let call = Subject { provider: Some("openai"), ..subject() };
        for step in 0..3_000 {
            let Ok(caller) = engine.admit(&index, Stage::Caller, &call, NOW) else { continue };
            let target = engine.admit(&index, Stage::Target, &call, NOW);
            assert!(out.fetch_add(1, Ordering::SeqCst) < LIMIT);
            let keep = number == 0 && step % 500 == 0;
            if keep {
                kept.fetch_add(1, Ordering::SeqCst);
                target.unwrap().count();
                caller.count();
                continue;
            }
            out.fetch_sub(1, Ordering::SeqCst);
            target.unwrap().release();
            caller.release();
        }
    });
    let kept = kept.into_inner();
    assert!(kept > 0);
    assert_eq!(engine.admitted(&index, &subject(), NOW, 100), usize::try_from(LIMIT - kept).unwrap());
}
