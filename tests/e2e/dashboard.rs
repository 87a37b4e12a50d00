//! The dashboard of `deploy/grafana` against a real Prometheus that scrapes the gateway: every query of every panel
//! is one that Prometheus understands and that has data.

use crate::harness::gateway::target;
use crate::harness::ports::Port;
use crate::harness::process::Process;
use crate::harness::{Gateway, Upstream, eventually, hello, reply, with};
use crate::journal::blocking;
use gateway_testing::Redis;
use serde_json::{Value, json};
use std::process::Command;

const DASHBOARD: &str = include_str!("../../deploy/grafana/gateway.json");
const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// Title and query of every target of every panel.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").clone();
    let of = |panel: &Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |t| (title.clone(), t["expr"].as_str().expect("a query").to_owned()))
    };
    panels.iter().flat_map(of).collect()
}

/// Every kind of thing that the panels tell of.
async fn traffic(gateway: &Gateway) {
    let broken = Upstream::replying(|_| reply::error(500, &[])).await;
    let whole = Upstream::replying(|_| reply::chat("hi")).await;
    for _ in 0..3 {
        gateway.chat_through(&whole).json(&hello()).send().await.expect(200);
        gateway.chat_through(&broken).json(&hello()).send().await.expect(500);
        gateway.chat().provider("mock").json(&with(hello(), json!({ "stream": true }))).send().await.expect(200);
        gateway.chat_through(&whole).json(&with(hello(), json!({ "model": "of-no-price" }))).send().await.expect(200);
    }
    let guarded = json!([{ "default.contains": { "words": ["x"], "operator": "none" } }]);
    for _ in 0..3 {
        let config = with(target(&whole), json!({ "output_guardrails": guarded }));
        gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    }
    // These are answered from the cache, and past a breaker.
    let cached = with(target(&whole), json!({ "cache": { "mode": "simple" } }));
    for _ in 0..2 {
        gateway.chat().config(&cached).json(&hello()).send().await.expect(200);
    }
    let rules = json!({ "failure_threshold": 3, "cooldown_interval": 30_000, "failure_status_codes": [500] });
    let strategy = json!({ "mode": "fallback", "cb_config": rules });
    let config = json!({ "strategy": strategy, "targets": [target(&broken), target(&whole)] });
    let slug = gateway.admin().config("with breaker", &config).await;
    gateway.chat().header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
    gateway.chat().key(&"k".repeat(40)).provider("mock").json(&hello()).send().await.expect(401);
    // A policy that lets nothing pass gives the 429.
    let conditions = json!([{ "key": "api_key", "value": "*" }]);
    let policy = json!({
        "name": "one", "type": "requests", "unit": "rpw", "value": 1, "conditions": conditions,
        "group_by": [{ "key": "api_key" }],
    });
    let made = gateway.admin().post("/policies/rate-limits", &policy).await.expect(200).json();
    let id = made["id"].as_str().or_else(|| made["data"]["id"].as_str()).expect("an id").to_owned();
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    for _ in 0..3 {
        gateway.chat().provider("mock").json(&hello()).send().await.expect(429);
    }
    gateway.admin().delete(&format!("/policies/rate-limits/{id}")).await;
}

#[tokio::test]
async fn every_query_of_the_dashboard_has_data() {
    let queries = queries();
    assert!(queries.len() > 60, "{} queries", queries.len());
    let redis = blocking(Redis::start).await;
    let collector = Upstream::replying(|_| reply::whole(200, &[], b"")).await;
    let (endpoint, url) = (collector.url().replace("/v1", ""), redis.url());
    let const_labels = ["--metrics-const-labels", "app=gateway,env=test"];
    let gateway =
        Gateway::with(&[&const_labels[..], &["--redis-url", &url, "--otlp-endpoint", &endpoint]].concat()).await;
    eventually("limits counted in Redis", || async {
        let metrics = gateway.metrics().await;
        let mut modes = metrics.lines().filter(|l| l.starts_with("gateway_limits_mode{") && l.ends_with(" 1"));
        modes.any(|l| l.contains("mode=\"redis\"")).then_some(())
    })
    .await;
    let (folder, port) = (gateway.folder(), Port::reserve());
    let config = format!(
        "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms }}\nscrape_configs:\n  - job_name: gateway\n    \
         static_configs: [{{ targets: ['{}'] }}]\n",
        gateway.admin
    );
    std::fs::write(folder.join("prometheus.yml"), config).expect("written");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "prometheus"]);
    command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()));
    command.arg(format!("--web.listen-address={}", port.address));
    let _prometheus = Process::spawn(command, &folder.join("prometheus.log"));
    let api = format!("http://{}/api/v1", port.address);
    let ask = async |query: &str| {
        let asked = gateway.client().get(format!("{api}/query")).query(&[("query", query)]).send().await.ok()?;
        asked.json::<Value>().await.ok()
    };
    eventually("a first scrape", || async {
        let up = ask("up{job=\"gateway\"} == 1").await?;
        up["data"]["result"].as_array().is_some_and(|r| !r.is_empty()).then_some(())
    })
    .await;
    // Rates need what was there before to have grown.
    traffic(&gateway).await;
    eventually("records in the metrics", || async {
        let seen = ask("request_count{code=\"429\"}").await?;
        seen["data"]["result"].as_array().is_some_and(|r| !r.is_empty()).then_some(())
    })
    .await;
    traffic(&gateway).await;
    for (panel, query) in queries {
        let query = query.replace("$__rate_interval", "30s");
        eventually(&format!("data for `{panel}`: {query}"), || async {
            let answer = ask(&query).await?;
            assert_eq!(answer["status"], "success", "{panel}: {query}: {answer}");
            let rows = answer["data"]["result"].as_array()?.clone();
            let told = |r: &Value| r["value"][1].as_str().is_some_and(|v| v.parse::<f64>().is_ok_and(f64::is_finite));
            rows.iter().any(told).then_some(())
        })
        .await;
    }
    covers(&gateway.metrics().await);
    let labelled = ask("request_count{app=\"gateway\",env=\"test\"}").await.expect("an answer");
    assert!(labelled["data"]["result"].as_array().is_some_and(|r| !r.is_empty()), "{labelled}");
}

/// Whatever is told stands in the page and, but for the process's own figures, in a panel.
#[track_caller]
fn covers(metrics: &str) {
    let queries: String = queries().into_iter().map(|(_, query)| query + "\n").collect();
    let shown = |name: &str| {
        queries.match_indices(name).any(|(at, _)| {
            let rest = &queries[at + name.len()..];
            let rest = ["_bucket", "_sum", "_count"].iter().find_map(|tail| rest.strip_prefix(tail)).unwrap_or(rest);
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let named = metrics.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next());
    let named = named.filter(|name| !name.starts_with("process_"));
    let (mut unseen, mut untold) = (Vec::new(), Vec::new());
    for name in named {
        if !shown(name) {
            unseen.push(name);
        }
        if !OPERATIONS.contains(&format!("`{name}`")) {
            untold.push(name);
        }
    }
    assert!(unseen.is_empty() && untold.is_empty(), "in no panel: {unseen:?}; not in the page: {untold:?}");
}
