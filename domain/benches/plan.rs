//! What choosing a target costs: a config of a hundred targets, nested, with conditions over metadata, body and path,
//! sticky and weighted. `cargo bench -p gateway-domain --bench plan`; exits with 1 when a plan takes 2 µs or more.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for developers")]

use gateway_domain::Secret;
use gateway_domain::config::plan::{Asks, Plan, RequestAttributes, Sticks};
use gateway_domain::config::{BreakerSet, Config, Context, compile, params};
use gateway_domain::egress::Trusted;
use serde_json::{Value, json};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ten strategies below a conditional, each over ten targets.
fn hundred() -> Value {
    let leaves = |n: usize| -> Vec<Value> {
        let leaf = |i: usize| json!({ "provider": format!("@p-{n}-{i}"), "weight": i + 1, "override_params": { "model": "m" } });
        (0..10).map(leaf).collect()
    };
    let branch = |n: usize| {
        let sticky = json!({ "enabled": true, "hash_fields": ["metadata._user"], "ttl": 600 });
        let strategy = match n % 3 {
            0 => json!({ "mode": "loadbalance", "sticky": sticky }),
            1 => json!({ "mode": "loadbalance" }),
            _ => json!({ "mode": "fallback", "cb_config": { "failure_threshold": 5 } }),
        };
        json!({ "name": format!("t{n}"), "strategy": strategy, "targets": leaves(n), "retry": { "attempts": 2 } })
    };
    let condition = |n: usize| {
        let query = json!({ "$or": [
            { "metadata.plan": { "$eq": format!("plan-{n}") } },
            { "$and": [{ "params.model": { "$regex": format!("^model-{n}-") } }, { "params.max_tokens": { "$gt": 4000 } }] },
        ] });
        json!({ "query": query, "then": format!("t{n}") })
    };
    json!({
        "strategy": { "mode": "conditional", "conditions": (0..9).map(condition).collect::<Vec<_>>(), "default": "t9" },
        "targets": (0..10).map(branch).collect::<Vec<_>>(),
    })
}

fn compiled(config: &Value) -> Config {
    let trusted = Trusted::default();
    let context = Context {
        known_provider: &|_| true,
        trusted: &trusted,
        open: &|plain| Some(Secret::new(plain.to_owned())),
        saved: true,
    };
    compile(config, &context).expect("the config is valid")
}

/// A request of about a kilobyte; its body is read when a condition first asks.
struct Asked<'a> {
    config: &'a Config,
    body: &'a [u8],
    plan: &'a str,
    params: OnceCell<Vec<Option<Value>>>,
}

impl RequestAttributes for Asked<'_> {
    fn metadata(&self, key: &str) -> Option<&str> {
        match key {
            "plan" => Some(self.plan),
            "_user" => Some("ann"),
            _ => None,
        }
    }

    fn param(&self, key: &str) -> Option<&Value> {
        let read = || params::read(self.body, &self.config.params);
        let place = self.config.params.iter().position(|name| **name == *key)?;
        self.params.get_or_init(read)[place].as_ref()
    }

    fn pathname(&self) -> &str {
        "/v1/chat/completions"
    }
}

#[derive(Default)]
struct Remembered(RefCell<HashMap<u128, (usize, i64)>>);

impl Sticks for Remembered {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.0.borrow().get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| *place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.0.borrow_mut().insert(key, (place, until_ms));
    }
}

/// The median of many rounds, for one call.
fn measure(mut call: impl FnMut()) -> Duration {
    const CALLS: u32 = 2_000;
    let mut rounds: Vec<Duration> = (0..51)
        .map(|_| {
            let started = Instant::now();
            (0..CALLS).for_each(|_| call());
            started.elapsed() / CALLS
        })
        .collect();
    rounds.sort_unstable();
    rounds[rounds.len() / 2]
}

fn main() -> ExitCode {
    let (document, sticks, thrown) = (hundred(), Remembered::default(), Cell::new(0.0));
    let config = Arc::new(compiled(&document));
    let breakers = BreakerSet::new(&config);
    let text = "lorem ipsum dolor sit amet ".repeat(30);
    let body =
        json!({ "model": "model-7-large", "max_tokens": 5000, "messages": [{ "role": "user", "content": text }] });
    let body = body.to_string();
    let mut worst = Duration::ZERO;
    for (what, plan, falls) in [
        ("first condition, sticky", "plan-0", false),
        ("second condition, by weight", "plan-1", false),
        ("sixth condition, fallback to its second target", "plan-5", true),
        ("eighth condition, by the body", "none", false),
    ] {
        let took = measure(|| {
            let mut dice = || {
                thrown.set((thrown.get() + 0.37) % 1.0);
                thrown.get()
            };
            let look = Asked { config: &config, body: body.as_bytes(), plan, params: OnceCell::new() };
            let mut asks = Asks {
                dice: &mut dice,
                now_ms: 1_800_000_000_000,
                look: &look,
                sticks: &sticks,
                breakers: breakers.all(),
                tenant: b"workspace",
            };
            let mut plan = Plan::begin(config.clone(), &mut asks).expect("there is a default");
            if falls {
                assert!(plan.next(503, false, &mut asks), "there is a second target");
            }
            black_box(plan.leaf());
        });
        worst = worst.max(took);
        println!("{:>8} ns  {what}", took.as_nanos());
    }
    let text = document.to_string();
    let took = measure_few(|| {
        let value = serde_json::from_str(&text).expect("JSON");
        black_box(compiled(&value));
    });
    println!("{:>8} ns  for comparison: to read and compile the {} bytes of it", took.as_nanos(), text.len());
    if worst < Duration::from_micros(2) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure_few(mut call: impl FnMut()) -> Duration {
    let started = Instant::now();
    (0..50).for_each(|_| call());
    started.elapsed() / 50
}
