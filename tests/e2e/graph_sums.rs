//! Every graph tells what the records say, whoever wrote them and whatever died meanwhile: asked without a filter it
//! reads sums by hour and day, with one that those do not know it reads the records.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use gateway_testing::Postgres;
use serde_json::{Value, json};

const GRAPHS: [&str; 13] = [
    "requests",
    "cost",
    "latency",
    "tokens",
    "users",
    "users/requests",
    "errors",
    "errors/rate",
    "errors/stacks",
    "errors/status-codes",
    "requests/rescued",
    "cache/hit-rate",
    "cache/latency",
];

/// What all calls of the test carry, and no sum is kept by.
const OF_ALL: &str = "metadata=%7B%22all%22%3A%22yes%22%7D";

async fn graph(gateway: &Gateway, name: &str, filter: &str) -> Value {
    let range = "time_of_generation_min=2025-01-01&time_of_generation_max=2034-01-01";
    let told = gateway.admin().get(&format!("/analytics/graphs/{name}?{range}&{filter}")).await.expect(200).json();
    assert_eq!((&told["partial"], &told["cut"]), (&json!(false), &json!(false)), "{name}: {told}");
    json!([told["summary"], told["data_points"]])
}

/// The calls that are counted by now.
async fn count(gateway: &Gateway) -> u64 {
    graph(gateway, "requests", "").await[0]["total"].as_u64().expect("a number")
}

async fn counted(gateway: &Gateway, least: u64) {
    eventually("the calls are counted", || async { (count(gateway).await >= least).then_some(()) }).await;
}

/// Makes calls of several users; every fifth fails, every seventh is rescued by a retry unless the other node's calls
/// bring that to a seventh place again, and some are answered from the cache.
async fn called(gateway: &Gateway, config: &Value, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let mut config = config.clone();
        if n.is_multiple_of(3) {
            config["cache"] = json!({ "mode": "simple" });
        }
        let most = if n.is_multiple_of(5) { 1 } else { 10 + n % 2 };
        let model = ["gpt-4o", "gpt-4o-mini"][n % 2];
        let body = with(hello(), json!({ "model": model, "max_tokens": most }));
        let metadata = json!({ "all": "yes", "_user": format!("user-{}", n % 4) }).to_string();
        let call = gateway.chat().config(&config).header("x-gateway-trace-id", &format!("call-{n}"));
        let call = call.header("x-gateway-metadata", &metadata).json(&body);
        let status = call.send().await.status;
        assert!([200, 500, 503].contains(&status), "{status}");
    }
}

const SCORES: [i64; 3] = [-2, 3, 5];

/// Half of them with half the weight.
async fn rated(gateway: &Gateway, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let weight = if n.is_multiple_of(4) { 0.5 } else { 1.0 };
        let told = json!({ "trace_id": format!("call-{n}"), "value": SCORES[n % 3], "weight": weight });
        gateway.post("/v1/feedback").json(&told).send().await.expect(200);
    }
}

/// What the graphs of feedback have to tell of the first `count` calls, added up by hand.
fn expected_feedback(count: usize) -> [(&'static str, Value); 3] {
    let average = |of: &dyn Fn(usize) -> bool| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for n in (0..count).filter(|n| of(*n)) {
            let weight = if n.is_multiple_of(4) { 0.5 } else { 1.0 };
            sum += weight * SCORES[n % 3] as f64;
            weights += weight;
        }
        (sum / weights * 100.0_f64).round() / 100.0
    };
    let scores = SCORES.into_iter().enumerate();
    let scores =
        scores.map(|(at, score)| json!({ "score": score, "total": (0..count).filter(|n| n % 3 == at).count() }));
    let models = ["gpt-4o", "gpt-4o-mini"].into_iter().enumerate().map(|(at, model)| {
        let of = move |n: usize| n % 2 == at;
        json!({ "ai_model": model, "total": (0..count).filter(|n| of(*n)).count(), "avg_weighted_feedback": average(&of) })
    });
    [
        ("feedbacks/scores", json!([{ "total": count }, scores.collect::<Vec<_>>()])),
        ("feedbacks/weighted", json!({ "avg": average(&|_| true) })),
        ("feedbacks/ai-models", json!([{}, models.collect::<Vec<_>>()])),
    ]
}

async fn flaky() -> Upstream {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Upstream::replying(move |seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let n = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match (&body["max_tokens"], n % 7) {
            (most, _) if *most == 1 => {
                reply::whole(500, &[("content-type", "application/json")], json!({"error": {}}).to_string())
            }
            (_, 0) => reply::whole(503, &[("content-type", "application/json")], json!({"error": {}}).to_string()),
            _ => reply::chat("hi"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_graph_is_the_sum_of_the_records_after_kills_and_with_two_nodes() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("graphs"))).await;
    let (_postgres, url) = database.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
    let upstream = flaky().await;
    let mut config = target(&upstream);
    config["retry"] = json!({ "attempts": 1, "on_status_codes": [503] });
    tokio::join!(called(&one, &config, 0..15), called(&two, &config, 15..30));
    counted(&two, 30).await;
    tokio::join!(rated(&one, 0..12), rated(&two, 12..20));
    // Killed with records under way: some may be lost with it, and none is counted twice.
    called(&one, &config, 30..40).await;
    let one = one.restart_after_kill(&["--database-url", &url]).await;
    tokio::join!(called(&one, &config, 40..50), called(&two, &config, 50..60));
    counted(&two, 50).await;
    tokio::join!(rated(&one, 20..26), rated(&two, 26..30));
    let total = count(&two).await;
    assert!((50..=60).contains(&total), "{total}");
    for name in GRAPHS {
        eventually(name, || async {
            let (sums, records) = (graph(&one, name, "").await, graph(&two, name, OF_ALL).await);
            (sums == records).then_some(())
        })
        .await;
    }
    for gateway in [&one, &two] {
        assert_eq!(graph(gateway, "feedbacks", "").await[0]["total"], 30);
        for (name, wanted) in expected_feedback(30) {
            let told = graph(gateway, name, "").await;
            assert_eq!(if wanted.is_array() { &told } else { &told[0] }, &wanted, "{name}");
        }
    }
    // All of them have something to tell.
    let summary = async |name: &str| graph(&one, name, "").await[0].clone();
    assert!(summary("cost").await["total"].as_f64() > Some(0.0));
    assert_eq!(summary("users").await["total"], 4);
    assert!(summary("errors").await["total"].as_u64() >= Some(10));
    assert!(summary("requests/rescued").await["retry"].as_u64() > Some(0));
    assert!(summary("cache/hit-rate").await["total"].as_u64() > Some(0));
    // Once more after a kill of the other, with nothing under way: nothing moves.
    let before = summary("tokens").await;
    drop(two.restart_after_kill(&["--database-url", &url, "--master-key-file", &key]).await);
    assert_eq!(summary("tokens").await, before);
}
