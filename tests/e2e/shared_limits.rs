//! Limits over several nodes: with Redis, by each policy's word while it is out of reach, divided without. That Redis
//! counts exactly is shown in `exact.rs`.

use crate::harness::{Answer, Gateway, Wire, eventually, hello, stand_at_noon, with};
use gateway_testing::{Postgres, Redis};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) async fn blocking<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(make).await.expect("no panic")
}

/// Nodes on one database, and one Redis if they share it.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Gateway>,
    flags: Vec<String>,
    _postgres: Arc<Postgres>,
}

impl Nodes {
    pub(crate) async fn start(name: &'static str, count: usize, flags: &[&str]) -> Self {
        let (postgres, url) = blocking(move || (Postgres::shared(), Postgres::shared().create(name))).await;
        let flags = [&["--database-url", &url], flags].concat();
        let mut all = vec![Gateway::with(&flags).await];
        let key = all[0].folder().join("data/master.key").display().to_string();
        let flags = [&flags[..], &["--master-key-file", &key]].concat();
        for _ in 1..count {
            all.push(Gateway::with(&flags).await);
        }
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Self { all, flags, _postgres: postgres }
    }

    /// Kills the first node and starts it again on what it left behind.
    async fn revive_first(&mut self) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let first = self.all.remove(0).restart_after_kill(&flags).await;
        self.all.insert(0, first);
    }

    pub(crate) fn admin(&self) -> crate::harness::admin::Admin<'_> {
        self.all[0].admin()
    }

    pub(crate) async fn limit(&self, fields: Value) {
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

pub(crate) async fn counting(node: &Gateway, mode: &str) {
    let line = format!("gateway_limits_mode{{mode=\"{mode}\"}} 1\n");
    eventually(mode, || async { node.metrics().await.contains(&line).then_some(()) }).await;
}

async fn status(node: &Gateway) -> Value {
    let answer = node.client().get(node.admin_url("/health/status")).send().await.expect("the status");
    answer.json().await.expect("JSON")
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
async fn without_redis_nodes_divide_limits_and_say_so() {
    stand_at_noon();
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
    stand_at_noon();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_once_for_a_redis_that_says_nothing() {
    stand_at_noon();
    const LIMIT: Duration = Duration::from_secs(2);
    /// What else a call takes on a busy machine.
    const SLACK: Duration = Duration::from_millis(1_500);
    let redis = blocking(Redis::start).await;
    let node = Gateway::with(&["--redis-url", &redis.url(), "--redis-timeout", "2s"]).await;
    // Two stages: the caller's, and that of the target.
    for key in ["api_key", "provider"] {
        let of = json!({ "value": 1_000_000, "fail_mode": "open", "conditions": [{ "key": key, "value": "*" }] });
        limit(&node, of).await;
    }
    counting(&node, "redis").await;
    let timed = async || {
        let began = Instant::now();
        ask(&node, "ann").await.expect(200);
        began.elapsed()
    };
    assert!(timed().await < SLACK);
    redis.freeze();
    let first = timed().await;
    assert!(first >= LIMIT && first < LIMIT + SLACK, "{first:?}");
    // Whoever still finds Redis to be there waits no longer, and after a while nobody does.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let took = timed().await;
        assert!(took < LIMIT + SLACK, "{took:?}");
        if node.metrics().await.contains("gateway_redis_connected 0\n") {
            break;
        }
        assert!(Instant::now() < until, "it is not told that Redis is away");
    }
    for _ in 0..5 {
        let took = timed().await;
        assert!(took < SLACK, "{took:?}");
    }
    let told = node.metrics().await;
    let figure = |name: &str| {
        let line = told.lines().find(|line| line.starts_with(name)).expect("the metric");
        line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!(figure("gateway_limits_decisions{by=\"redis\"}"), 2, "of the first call");
    assert!(figure("gateway_limits_decisions{by=\"open\"}") >= 12);
    assert!(figure("gateway_limits_redis_failures ") >= 1 && figure("gateway_redis_connected ") == 0);
    assert_eq!(status(&node).await["limits"], "approximate");
    redis.wake();
    counting(&node, "redis").await;
    ask(&node, "ann").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_redis_hear_of_each_others_budgets_within_seconds() {
    stand_at_noon();
    let nodes = Nodes::start("budgets_shared", 2, &[]).await;
    let [one, two] = &nodes.all[..] else { panic!("two nodes") };
    for node in [one, two] {
        counting(node, "divided").await;
    }
    let base = json!({
        "name": "Spend", "type": "requests", "credit_limit": 40, "conditions": [{ "key": "metadata._user", "value": "*" }],
        "group_by": [{ "key": "metadata._user" }],
    });
    let made = nodes.admin().post("/policies/usage-limits", &base).await.expect(200).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let entities = format!("/policies/usage-limits/{id}/entities");
    for (node, user) in [(one, "bob"), (two, "cid")] {
        eventually("the policy", || async {
            ask(node, user).await;
            let told = nodes.admin().get(&entities).await.expect(200).text();
            told.contains(user).then_some(())
        })
        .await;
    }
    // Not divided: one node may spend all of it.
    let seen = statuses(one, "ann", 41).await;
    assert!(seen[..40].iter().all(|status| *status == 200) && seen[40] == 412, "{seen:?}");
    let spent = Instant::now();
    // The other hears of it before it could have spent as much itself.
    let mut passed = 0;
    while ask(two, "ann").await.status == 200 {
        passed += 1;
        assert!(passed < 30, "node two does not hear of what node one spent");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(spent.elapsed() < Duration::from_secs(5), "{:?}, {passed} passed", spent.elapsed());
    eventually("all that was spent", || async {
        let told = nodes.admin().get(&format!("{entities}?search=ann")).await.expect(200).json();
        (told["data"][0]["current_usage"].as_f64() == Some(40.0 + f64::from(passed))).then_some(())
    })
    .await;
    let reset = json!({ "reset_usage_for_value": "metadata._user:ann" });
    nodes.admin().put(&format!("/policies/usage-limits/{id}"), &reset).await.expect(200);
    for node in [one, two] {
        eventually("the reset", || async { (ask(node, "ann").await.status == 200).then_some(()) }).await;
    }
}

/// What was counted while Redis was away outlives a kill, and a Redis that lost everything hears it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_outlive_a_kill_while_redis_is_away_and_a_redis_that_is_lost() {
    stand_at_noon();
    let mut redis = blocking(Redis::start).await;
    let wire = Wire::to(redis.port()).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let mut nodes = Nodes::start("redis_kills", 2, &["--redis-url", &url, "--redis-timeout", "5s"]).await;
    nodes.limit(with(of("ann", "local"), json!({ "value": 10 }))).await;
    let shared = async |nodes: &Nodes| {
        for node in &nodes.all {
            counting(node, "redis").await;
        }
    };
    let stored = async |nodes: &Nodes, calls: usize| {
        eventually("records", || async {
            let list = nodes.all[1].admin().get("/logs").await.expect(200).json();
            (list["total"].as_u64() == Some(calls as u64)).then_some(())
        })
        .await;
    };
    shared(&nodes).await;
    let pass = async |node: &Gateway, calls: usize| {
        for _ in 0..calls {
            ask(node, "ann").await.expect(200);
        }
    };
    pass(&nodes.all[0], 3).await;
    pass(&nodes.all[1], 2).await;
    wire.cut();
    counting(&nodes.all[0], "redis-away").await;
    pass(&nodes.all[0], 2).await;
    stored(&nodes, 7).await;
    nodes.revive_first().await;
    wire.mend();
    shared(&nodes).await;
    // Seven of ten are used; one more, and Redis forgets all of them while the node is killed.
    pass(&nodes.all[0], 1).await;
    stored(&nodes, 8).await;
    wire.cut();
    // Who has not noticed yet would tell Redis later than the other asks it.
    counting(&nodes.all[1], "redis-away").await;
    let _redis = blocking(move || {
        redis.stop();
        redis.resume();
        redis
    })
    .await;
    nodes.revive_first().await;
    wire.mend();
    shared(&nodes).await;
    pass(&nodes.all[1], 1).await;
    assert_eq!(statuses_of(&nodes.all[0], 3).await, [200, 429, 429]);
    assert_eq!(statuses_of(&nodes.all[1], 1).await, [429]);
}

async fn statuses_of(node: &Gateway, calls: usize) -> Vec<u16> {
    let mut seen = Vec::new();
    for _ in 0..calls {
        seen.push(ask(node, "ann").await.status);
    }
    seen
}

#[tokio::test]
async fn a_cluster_counts_as_a_single_redis_does() {
    stand_at_noon();
    let redis = blocking(Redis::start_cluster).await;
    let url = redis.url();
    let node = Gateway::with(&["--redis-url", &format!("{url},{url}"), "--redis-timeout", "5s"]).await;
    for value in [3, 5] {
        limit(&node, json!({ "value": value, "conditions": [{ "key": "metadata._user", "value": "*" }] })).await;
    }
    counting(&node, "redis").await;
    let calls = || {
        let mut redis = redis::Client::open(url.as_str()).expect("a client").get_connection().expect("connected");
        let told: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).expect("figures");
        let line = told.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0");
        line.split(',').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let before = calls();
    assert_eq!(statuses_of(&node, 5).await, [200, 200, 200, 429, 429]);
    assert_eq!(calls() - before, 5, "one call for both limits of the stage, and requests need no settling");
}
