//! Limits over several nodes: exact with Redis, by each policy's word while it is out of reach, divided without.

use crate::harness::{Answer, Gateway, Upstream, Wire, eventually, gateway::target, hello, reply, with};
use futures_util::{StreamExt, stream};
use gateway_testing::{Postgres, Redis};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn blocking<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(make).await.expect("no panic")
}

/// Nodes on one database, and one Redis if they share it.
struct Nodes {
    all: Vec<Gateway>,
    _postgres: Arc<Postgres>,
}

impl Nodes {
    async fn start(name: &'static str, count: usize, flags: &[&str]) -> Self {
        let (postgres, url) = blocking(move || (Postgres::shared(), Postgres::shared().create(name))).await;
        let flags = [&["--database-url", &url], flags].concat();
        let mut all = vec![Gateway::with(&flags).await];
        let key = all[0].folder().join("data/master.key").display().to_string();
        let flags = [&flags[..], &["--master-key-file", &key]].concat();
        for _ in 1..count {
            all.push(Gateway::with(&flags).await);
        }
        Self { all, _postgres: postgres }
    }

    fn admin(&self) -> crate::harness::admin::Admin<'_> {
        self.all[0].admin()
    }

    async fn limit(&self, fields: Value) {
        limit(&self.all[0], fields).await;
        let metrics = self.all[0].metrics().await;
        let revision = metrics.lines().find(|l| l.starts_with("gateway_config_revision ")).expect("the metric");
        for node in &self.all {
            eventually("the policy on every node", || async { node.metrics().await.contains(revision).then_some(()) })
                .await;
        }
    }
}

async fn limit(gateway: &Gateway, fields: Value) {
    let base = json!({
        "name": "All of us", "type": "requests", "unit": "rpd", "conditions": [{ "key": "workspace_id", "value": "*" }],
    });
    gateway.admin().post("/policies/rate-limits", &with(base, fields)).await.expect(200);
}

async fn counting(node: &Gateway, mode: &str) {
    let line = format!("gateway_limits_mode{{mode=\"{mode}\"}} 1\n");
    eventually(mode, || async { node.metrics().await.contains(&line).then_some(()) }).await;
}

async fn status(node: &Gateway) -> Value {
    let answer = node.client().get(node.admin_url("/health/status")).send().await.expect("the status");
    answer.json().await.expect("JSON")
}

/// Numbers that look random and are the same in every run.
fn dice(n: usize) -> u64 {
    (n as u64 + 1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33
}

/// Answers after a short while with the usage that the request asks for by its `seed`.
async fn upstream() -> Upstream {
    Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            let used = seen.json()["seed"].as_u64().unwrap_or(1);
            peer.pause(used * 3 % 17).await;
            let mut answer = reply::completion("hi");
            answer["usage"] = json!({ "prompt_tokens": 1, "completion_tokens": used - 1, "total_tokens": used });
            let sent = if seen.json()["user"] == "unlucky" {
                peer.send(reply::error(500, &[])).await
            } else {
                peer.send(reply::json(200, &answer)).await
            };
            if !sent {
                return;
            }
        }
    })
    .await
}

/// 64 clients at once, `calls` calls over all nodes: some leave before their answer, some are called again after a
/// failure. Gives the statuses that were heard; a client that left hears 0.
async fn storm(nodes: &Nodes, upstream: &Upstream, calls: usize, most: u64) -> Vec<(u16, u64)> {
    let config = with(target(upstream), json!({ "retry": { "attempts": 1, "on_status_codes": [500] } }));
    let call = async |i: usize| {
        let used = 1 + dice(i) % most;
        let user = if dice(i * 7).is_multiple_of(16) { "unlucky" } else { "lucky" };
        let body = with(hello(), json!({ "max_tokens": most, "seed": used, "user": user }));
        let call = nodes.all[i % nodes.all.len()].chat().config(&config).json(&body).attempt();
        let patience = Duration::from_millis(if dice(i * 3).is_multiple_of(5) { dice(i * 11) % 20 } else { 60_000 });
        match tokio::time::timeout(patience, call).await {
            Err(_) => (0, used),
            Ok(answer) => {
                let answer = answer.expect("an answer");
                let status = answer.status().as_u16();
                let _ = answer.bytes().await;
                (status, used)
            }
        }
    };
    stream::iter(0..calls).map(call).buffer_unordered(64).collect().await
}

/// Calls one after the other until one is refused; how many passed, and what they used.
async fn until_refused(nodes: &Nodes, upstream: &Upstream, most: u64) -> usize {
    let body = with(hello(), json!({ "max_tokens": most, "seed": 1 }));
    for passed in 0.. {
        let answer = nodes.all[passed % nodes.all.len()].chat_through(upstream).json(&body).send().await;
        if answer.status == 429 {
            return passed;
        }
        answer.expect(200);
    }
    unreachable!("somebody is refused")
}

/// Records of all calls that were let in. A last call on each node, refused by now, tells that its others are stored.
async fn let_in(nodes: &Nodes, upstream: &Upstream) -> Vec<Value> {
    for (i, node) in nodes.all.iter().enumerate() {
        eventually("no call under way", || async {
            node.metrics().await.contains("gateway_requests_in_flight 0\n").then_some(())
        })
        .await;
        let call = node.chat_through(upstream).header("x-gateway-trace-id", &format!("last-{i}"));
        call.json(&hello()).send().await.expect(429);
        let last = format!("/logs?trace_id=last-{i}");
        eventually("the last record", || async {
            let list = nodes.admin().get(&last).await.expect(200).json();
            (list["data"].as_array().map(Vec::len) == Some(1)).then_some(())
        })
        .await;
    }
    let mut rows = Vec::new();
    for page in 0.. {
        let list = nodes.admin().get(&format!("/logs?page_size=100&current_page={page}")).await.expect(200).json();
        let some = list["data"].as_array().expect("a list").clone();
        if some.is_empty() {
            break;
        }
        rows.extend(some);
    }
    rows.retain(|row| row["response"]["status"] != 429);
    rows
}

/// On several nodes, with a deadline that no busy machine misses.
async fn sharing(name: &'static str, redis: &Redis) -> Nodes {
    let url = redis.url();
    let nodes = Nodes::start(name, 4, &["--redis-url", &url, "--redis-timeout", "20s", "--threads", "1"]).await;
    for node in &nodes.all {
        counting(node, "redis").await;
    }
    nodes
}

async fn ask(node: &Gateway, user: &str) -> Answer {
    let call = node.chat().provider("mock").header("x-gateway-metadata", &json!({ "_user": user }).to_string());
    call.json(&hello()).send().await
}

fn of(user: &str, mode: &str) -> Value {
    json!({ "value": 2, "fail_mode": mode, "conditions": [{ "key": "metadata._user", "value": user }] })
}

async fn statuses(node: &Gateway, user: &str, calls: usize) -> Vec<u16> {
    let mut seen = Vec::new();
    for _ in 0..calls {
        let began = Instant::now();
        seen.push(ask(node, user).await.status);
        // The deadline, and the time that a busy machine takes for a call anyway.
        assert!(began.elapsed() < DEADLINE + Duration::from_secs(1), "{:?}", began.elapsed());
    }
    seen
}

const DEADLINE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_let_in_as_many_requests_as_are_allowed() {
    let (redis, upstream) = (blocking(Redis::start).await, upstream().await);
    let nodes = sharing("exact_requests", &redis).await;
    nodes.limit(json!({ "value": 200 })).await;
    let heard = storm(&nodes, &upstream, 420, 8).await;
    let passed = heard.iter().filter(|(status, _)| matches!(status, 200 | 500)).count();
    let left = heard.iter().filter(|(status, _)| *status == 0).count();
    assert!(passed <= 200 && passed + left >= 200, "{passed} passed, {left} left");
    let rest = until_refused(&nodes, &upstream, 8).await;
    assert!(rest <= left, "those who left early made room for no more than themselves: {rest}");
    assert_eq!(let_in(&nodes, &upstream).await.len(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_together_use_no_more_tokens_than_are_allowed() {
    const ALLOWED: u64 = 2_000;
    /// Of the longest answer and a guess at the prompt.
    const HOLD: u64 = 64;
    let (redis, upstream) = (blocking(Redis::start).await, upstream().await);
    let nodes = sharing("exact_tokens", &redis).await;
    nodes.limit(json!({ "type": "tokens", "unit": "tpd", "value": ALLOWED })).await;
    let heard = storm(&nodes, &upstream, 600, 16).await;
    let used: u64 = heard.iter().filter(|(status, _)| *status == 200).map(|(_, used)| used).sum();
    assert!(used <= ALLOWED, "{used} were heard of");
    // What was held and not used comes back: all but the last hold can be used.
    let body = with(hello(), json!({ "max_tokens": 16, "seed": 1 }));
    let mut calls = 0;
    eventually("nothing to be left", || {
        calls += 1;
        let call = nodes.all[calls % nodes.all.len()].chat_through(&upstream).json(&body);
        async move {
            let answer = call.send().await;
            let left = answer.header("x-gateway-ratelimit-remaining-tokens").expect("told").parse::<u64>();
            (answer.status == 429 && left.expect("a number") < HOLD).then_some(())
        }
    })
    .await;
    let rows = let_in(&nodes, &upstream).await;
    let units = |row: &Value| row["metrics"]["total_units"].as_u64().expect("usage");
    let good: u64 = rows.iter().filter(|row| row["response"]["status"] == 200).map(units).sum();
    let all: u64 = rows.iter().map(units).sum();
    assert!(good <= ALLOWED && all + HOLD > ALLOWED, "{good} of {ALLOWED} were used, {all} with those who left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_nodes_divide_limits_and_say_so() {
    let nodes = Nodes::start("divided", 2, &[]).await;
    for node in &nodes.all {
        counting(node, "divided").await;
        assert_eq!(status(node).await["limits"], "approximate");
    }
    nodes.limit(with(of("ann", "local"), json!({ "value": 7 }))).await;
    let mut passed = Vec::new();
    for node in &nodes.all {
        let seen = statuses(node, "ann", 6).await;
        passed.push(seen.iter().filter(|status| **status == 200).count());
    }
    passed.sort_unstable();
    assert_eq!(passed, [3, 4]);
    let base = json!({
        "name": "Exactly", "type": "requests", "unit": "rpd", "value": 1, "fail_mode": "closed",
        "conditions": [{ "key": "api_key", "value": "*" }],
    });
    let refused = nodes.admin().post("/policies/rate-limits", &base).await.expect(400);
    assert!(refused.text().contains("fail_mode"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_or_slow_each_policy_does_as_it_says() {
    let mut redis = blocking(Redis::start).await;
    let wire = Wire::to(redis.port()).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let node = Gateway::with(&["--redis-url", &url, "--redis-timeout", "300ms"]).await;
    for mode in ["local", "open", "closed"] {
        limit(&node, of(mode, mode)).await;
    }
    counting(&node, "redis").await;
    for mode in ["local", "open", "closed"] {
        assert_eq!(statuses(&node, mode, 1).await, [200], "{mode}");
    }
    wire.slow(Duration::from_secs(2));
    assert_eq!(statuses(&node, "closed", 2).await, [503, 503]);
    assert_eq!(statuses(&node, "local", 2).await, [200, 429], "one was used before");
    assert_eq!(statuses(&node, "open", 3).await, [200, 200, 200]);
    counting(&node, "redis-away").await;
    let told = status(&node).await;
    assert_eq!((&told["limits"], &told["status"]), (&json!("approximate"), &json!("degraded")), "{told}");
    let refused = ask(&node, "closed").await.expect(503);
    assert!(refused.error().contains("out of reach"), "{}", refused.error());
    assert!(refused.header("retry-after").is_some());

    wire.slow(Duration::ZERO);
    counting(&node, "redis").await;
    assert_eq!(status(&node).await["limits"], "exact");
    eventually("redis to hear what was used meanwhile", || async {
        (ask(&node, "open").await.status == 429).then_some(())
    })
    .await;
    // What Redis took for those who had stopped waiting comes back.
    eventually("the call that is left", || async { (ask(&node, "closed").await.status == 200).then_some(()) }).await;
    assert_eq!(statuses(&node, "closed", 1).await, [429]);

    wire.cut();
    counting(&node, "redis-away").await;
    assert_eq!(statuses(&node, "closed", 1).await, [503]);
    // Redis comes back with nothing, and hears from the node what it had.
    redis = blocking(move || {
        redis.stop();
        redis.resume();
        redis
    })
    .await;
    wire.mend();
    counting(&node, "redis").await;
    for mode in ["local", "open", "closed"] {
        assert_eq!(statuses(&node, mode, 1).await, [429], "{mode}");
    }
    drop(redis);
}
