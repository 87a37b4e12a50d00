//! What a decision on limits costs in process: finding the policies of a call, taking from their counters, settling.
//! With few and with many policies, and with all threads at one counter. Prints tables for `benches/README.md`.

#![expect(clippy::print_stdout, reason = "the tables are what the program is for")]

use gateway_domain::Timestamp;
use gateway_domain::counters::{Counters, LimitDecision};
use gateway_domain::id::{KeyId, PolicyId, WorkspaceId};
use gateway_domain::snapshot::Policy;
use gateway_policies::{Estimate, Hold, Index, Ledger, ReservationRequest, Stage, Subject, Used};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Each figure is the best of this many rounds, short enough that some are not disturbed by whatever else runs.
const ROUNDS: usize = 200;
const ROUND: Duration = Duration::from_millis(4);

const NOW: Timestamp = Timestamp(1_794_997_230_000_000);
const KEY: Uuid = Uuid::from_u128(7);
const WORKSPACE: Uuid = Uuid::from_u128(9);
const ESTIMATE: Estimate = Estimate { prompt: 20, output: Some(100) };
/// Never reached here.
const PLENTY: u64 = 1 << 50;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The policies of one workspace, of which a call meets as many as the name says.
struct Case {
    name: &'static str,
    rule: fn(usize) -> Value,
}

const CASES: &[Case] = &[
    Case { name: "none matches", rule: |i| requests(&json!([{ "key": "metadata._user", "value": format!("u-{i}") }])) },
    Case {
        name: "one matches, by its key",
        rule: |i| {
            let key = if i == 3 { KEY } else { Uuid::from_u128(1000 + i as u128) };
            requests(&json!([{ "key": "api_key", "value": key }]))
        },
    },
    Case {
        name: "one matches, by its model, grouped by user",
        rule: |i| {
            let mut rule = requests(&json!([{ "key": "model", "value": format!("gpt-{i}-*") }]));
            rule["group_by"] = json!([{ "key": "metadata._user" }]);
            rule
        },
    },
    Case {
        name: "three match: requests, tokens, tokens of the user",
        rule: |i| {
            let mut rule = requests(&json!([{ "key": "config", "value": format!("pc-{}", i / 3) }]));
            if i % 3 > 0 {
                rule["type"] = json!("tokens");
            }
            if i % 3 == 2 {
                rule["group_by"] = json!([{ "key": "metadata._user" }]);
            }
            rule
        },
    },
];

fn requests(conditions: &Value) -> Value {
    json!({ "type": "requests", "unit": "rph", "value": PLENTY, "conditions": conditions, "group_by": [] })
}

fn index(count: usize, rule: impl Fn(usize) -> Value) -> Outcome<Index> {
    let mut policies = BTreeMap::new();
    for i in 0..count {
        let id = PolicyId(Uuid::from_u128(i as u128 + 1));
        let rule = serde_json::from_value(rule(i))?;
        let (name, slug) = (format!("Policy {i}").into(), format!("policy-{i}").into());
        policies.insert(id, Arc::new(Policy { id, name, slug, revision: 1, rule }));
    }
    Ok(Index::build(&policies, &BTreeMap::new()))
}

fn subject(metadata: &[(String, String)]) -> Subject<'_> {
    Subject {
        api_key: Some(KeyId(KEY)),
        workspace: WorkspaceId(WORKSPACE),
        metadata,
        virtual_key: None,
        provider: None,
        config: Some("pc-1"),
        prompt: None,
        model: Some("gpt-3-mini"),
        endpoint_type: "chatComplete",
        mcp_server: None,
        mcp_tool: None,
        unread: false,
    }
}

/// All that a call does with its limits at the caller's stage.
fn decide(index: &Index, ledger: &Arc<dyn Counters>, subject: &Subject<'_>) -> usize {
    let mut wants = ReservationRequest::default();
    wants.gather(index, Stage::Caller, subject, NOW);
    if wants.is_empty() {
        return 0;
    }
    wants.measure(&ESTIMATE, None);
    let found = wants.asks().len();
    let LimitDecision::Now(Ok(())) = ledger.reserve(wants.asks(), NOW, Duration::ZERO) else { return usize::MAX };
    let hold: Hold = wants.granted(Stage::Caller, ledger, ESTIMATE);
    hold.settle(Used { tokens: 90, cost: None });
    found
}

fn nanos(mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (begin, mut runs) = (Instant::now(), 0_u32);
        while begin.elapsed() < ROUND {
            for _ in 0..64 {
                work();
            }
            runs += 64;
        }
        least = least.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(runs));
    }
    least
}

fn decisions() -> Outcome<()> {
    let metadata = [("_user".to_owned(), "ann".to_owned()), ("team".to_owned(), "blue".to_owned())];
    let call = subject(&metadata);
    println!("| policies of which | 10: ns | 10,000: ns |");
    println!("|---|---:|---:|");
    for case in CASES {
        let mut shown = Vec::new();
        for count in [10, 10_000] {
            let index = index(count, case.rule)?;
            let ledger: Arc<dyn Counters> = Arc::new(Ledger::default());
            let found = decide(&index, &ledger, &call);
            if found == usize::MAX {
                return Err("a limit was reached that nothing reaches".into());
            }
            shown.push(nanos(|| {
                black_box(decide(&index, &ledger, &call));
            }));
        }
        println!("| {} | {:.0} | {:.0} |", case.name, shown[0], shown[1]);
    }
    Ok(())
}

/// Decisions of all threads together in a second.
fn together(threads: usize, index: &Index, user: impl Fn(usize) -> String + Sync) -> f64 {
    let ledger: Arc<dyn Counters> = Arc::new(Ledger::default());
    let mut best = 0_f64;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let made: u64 = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let (ledger, user) = (ledger.clone(), user(thread));
                scope.spawn(move || {
                    let metadata = [("_user".to_owned(), user)];
                    let (call, mut made) = (subject(&metadata), 0_u64);
                    while begin.elapsed() < ROUND {
                        for _ in 0..64 {
                            black_box(decide(index, &ledger, &call));
                        }
                        made += 64;
                    }
                    made
                })
            };
            let all: Vec<_> = (0..threads).map(work).collect();
            all.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
        });
        #[expect(clippy::cast_precision_loss, reason = "a count of a moment")]
        let made = made as f64;
        best = best.max(made / begin.elapsed().as_secs_f64());
    }
    best
}

fn contention() -> Outcome<()> {
    let mut rule = requests(&json!([{ "key": "workspace_id", "value": "*" }]));
    let one = index(1, |_| rule.clone())?;
    rule["group_by"] = json!([{ "key": "metadata._user" }]);
    let apart = index(1, |_| rule.clone())?;
    let cores = std::thread::available_parallelism()?.get();
    println!("\n| threads | one counter for all: decisions/s | a counter each: decisions/s |");
    println!("|---:|---:|---:|");
    for threads in [1, cores, 4 * cores] {
        let hot = together(threads, &one, |_| "ann".to_owned());
        let cool = together(threads, &apart, |thread| format!("user-{thread}"));
        println!("| {threads} | {:.2} M | {:.2} M |", hot / 1e6, cool / 1e6);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    decisions()?;
    contention()
}
