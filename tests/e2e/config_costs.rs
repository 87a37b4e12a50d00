//! What one tenant's configs cost the others: costly ones are refused by name, and once; what is compiled holds up
//! nobody and takes a bounded share of memory; metadata is as short in a header as everywhere else.

use crate::harness::{Gateway, hello};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A conditional config of so many patterns.
fn patterns(pattern: &str, count: usize) -> Value {
    let condition = json!({ "query": { "metadata.u": { "$regex": pattern } }, "then": "a" });
    json!({ "strategy": { "mode": "conditional", "conditions": vec![condition; count], "default": "a" },
            "targets": [{ "name": "a", "provider": "mock" }] })
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics().await;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name)).expect("the metric");
    line.split(' ').nth(1).and_then(|value| value.parse::<f64>().ok()).expect("a number") as u64
}

#[tokio::test]
async fn a_costly_config_is_refused_by_name_and_once() {
    let gateway = Gateway::start().await;
    for (config, told) in [
        (patterns("^a", 129), "strategy,conditions,128, message: goes beyond the 128 conditions that an inline config"),
        (patterns("^a", 33), "strategy,conditions,32,query,metadata.u,$regex, message: goes beyond the 32 patterns"),
        (patterns(r"\w{5}", 8), "goes beyond the 262144 bytes of compiled patterns that an inline config may have"),
        (patterns(r"\w{50}", 1), "is too large a pattern: it takes more than 128 KiB once compiled"),
        (patterns(&"a".repeat(600), 1), "must be a pattern of at most 512 bytes"),
    ] {
        let before = metric(&gateway, "gateway_inline_compilations").await;
        for _ in 0..3 {
            let refused = gateway.chat().config(&config).json(&hello()).send().await.expect(400).json();
            let errors = refused["errors"].to_string();
            assert!(errors.contains(told), "{told}: {errors}");
        }
        assert_eq!(metric(&gateway, "gateway_inline_compilations").await - before, 1, "{told}");
    }
    let large = with_text(33 << 10);
    let refused = gateway.chat().config(&large).json(&hello()).send().await.expect(400);
    assert!(refused.text().contains("x-gateway-config must be at most 32768 bytes"), "{}", refused.text());

    // Saved configs may be larger, and are bounded in the same words.
    let save = |config: Value| {
        let body = json!({ "name": "costly", "config": config });
        let gateway = &gateway;
        async move { gateway.admin().post("/configs", &body).await }
    };
    let slug = save(patterns("^a", 200)).await.expect(200).json()["slug"].as_str().expect("a slug").to_owned();
    gateway.chat().header("x-gateway-config", &slug).json(&hello()).send().await.expect(200);
    let refused = save(patterns("^a", 257)).await.expect(400);
    assert!(refused.text().contains("goes beyond the 256 patterns that a saved config may have"), "{}", refused.text());
}

fn with_text(bytes: usize) -> Value {
    json!({ "provider": "mock", "override_params": { "x": "y".repeat(bytes) } })
}

#[tokio::test]
async fn configs_of_one_tenant_neither_hold_up_another_nor_fill_the_memory() {
    let gateway = Gateway::with(&["--threads", "1"]).await;
    let made = gateway.admin().post("/admin/workspaces", &json!({ "name": "other" })).await.expect(200).json();
    let fields = json!({ "workspace_id": made["id"], "name": "k", "scopes": ["completions.write"] });
    let key = gateway.admin().post("/api-keys/workspace/service", &fields).await.expect(200).json()["key"].clone();
    let key = key.as_str().expect("a key");
    let ping = || gateway.chat().key(key).provider("mock").json(&hello()).send();
    ping().await.expect(200);
    let before = gateway.memory("VmRSS");

    // Hundreds of different configs come at once, each with costly patterns.
    let costly = |n: usize| gateway.chat().config(&patterns(&format!(r"\w{{4}}{n}"), 3)).json(&hello()).send();
    let all = futures_util::future::join_all((0..400).map(costly));
    let pings = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            ping().await.expect(200);
            slowest = slowest.max(began.elapsed());
        }
        slowest
    };
    let (answers, slowest) = tokio::join!(all, pings);
    let (taken, shed): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!(taken.len() >= 64, "{} were served", taken.len());
    for refused in shed {
        assert_eq!(refused.status, 429, "{}", refused.text());
        assert!(refused.text().contains("different configs of this workspace wait to be compiled"));
    }
    assert!(slowest < Duration::from_secs(2), "another tenant waited {slowest:?}");
    for n in 400..700 {
        costly(n).await.expect(200);
    }
    let (bytes, grown) = (metric(&gateway, "gateway_inline_config_bytes").await, gateway.memory("VmRSS") - before);
    assert!((16 << 20..=64 << 20).contains(&bytes), "{bytes}");
    assert!(grown < 200, "{grown} MiB more");
}

#[tokio::test]
async fn metadata_is_bounded_in_number_and_length() {
    let gateway = Gateway::start().await;
    let call = |metadata: Value| {
        gateway.chat().provider("mock").header("x-gateway-metadata", &metadata.to_string()).json(&hello()).send()
    };
    let pairs = |n: usize| Value::Object((0..n).map(|i| (format!("k{i}"), json!("v"))).collect());
    let key = |n: usize| json!({ "k".repeat(n): "v" });
    call(pairs(64)).await.expect(200);
    call(key(128)).await.expect(200);
    for (metadata, told) in [
        (pairs(65), "x-gateway-metadata must hold at most 64 pairs"),
        (key(129), "must be at most 128 characters"),
        (json!({ "k": "v".repeat(129) }), "value of `k` must be at most 128 characters"),
    ] {
        let refused = call(metadata).await.expect(400);
        assert!(refused.text().contains(told), "{}", refused.text());
    }
}
