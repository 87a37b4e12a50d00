//! What metrics tell apart, and what they do not: labels that operators opt into, bounds that clients cannot pass, and
//! the gateway's own share of a request's time.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::json;
use std::collections::BTreeSet;

/// The value of a label of a sample.
fn label<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let from = line.find(&format!("{{{name}=\"")).or_else(|| line.find(&format!(",{name}=\"")))?;
    line[from..].split('"').nth(1)
}

fn values(metrics: &str, metric: &str, name: &str) -> BTreeSet<String> {
    let lines = metrics.lines().filter(|l| l.starts_with(&format!("{metric}{{")));
    lines.filter_map(|l| label(l, name)).map(str::to_owned).collect()
}

/// All samples of the metric together.
fn sum(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines().filter(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn counted(gateway: &Gateway, requests: u32) -> String {
    eventually(&format!("{requests} requests in the metrics"), || async {
        let metrics = gateway.metrics().await;
        let whole = ["request_count", "gateway_overhead_seconds_count", "http_request_duration_seconds_count"];
        whole.iter().all(|metric| sum(&metrics, metric) == f64::from(requests)).then_some(metrics)
    })
    .await
}

#[tokio::test]
async fn labels_are_opted_into_and_their_values_are_bounded() {
    let gateway = Gateway::with(&["--metrics-labels", "model,config_name,api_key_name,workspace,metadata_team"]).await;
    let (_, key) = gateway.admin().workspace_key("of the team", json!({})).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let slug = gateway.admin().config("named", &target(&upstream)).await;
    let call = gateway.chat().key(&key).header("x-gateway-config", &slug);
    call.header("x-gateway-metadata", r#"{"team":"blue"}"#).json(&hello()).send().await.expect(200);
    let told = [
        "request_count",
        "llm_request_duration_milliseconds_count",
        "gateway_request_duration_milliseconds_count",
        "llm_token_sum",
        "llm_cost_sum",
    ];
    // A record is counted in one after the other.
    let metrics = eventually("the call in all of them", || async {
        let metrics = gateway.metrics().await;
        told.iter().all(|metric| sum(&metrics, metric) > 0.0).then_some(metrics)
    })
    .await;
    for metric in told {
        for (name, value) in [
            ("model", "gpt-4o-mini"),
            ("config_name", &slug),
            ("api_key_name", "of the team"),
            ("workspace", "default"),
            ("metadata_team", "blue"),
        ] {
            assert_eq!(values(&metrics, metric, name), [value.to_owned()].into(), "{metric} {name}: {metrics}");
        }
    }
    for n in 0..250 {
        let call =
            gateway.chat().provider("mock").header("x-gateway-metadata", &json!({ "team": n.to_string() }).to_string());
        call.json(&with(hello(), json!({ "model": format!("model-{n}") }))).send().await.expect(200);
    }
    let metrics = counted(&gateway, 251).await;
    for name in ["model", "metadata_team"] {
        let told = values(&metrics, "request_count", name);
        assert!(told.len() == 201 && told.contains("other") && !told.contains("249"), "{name}: {told:?}");
    }
    let rest = metrics.lines().find(|l| l.starts_with("request_count{") && l.contains("metadata_team=\"other\""));
    assert!(rest.is_some_and(|l| l.ends_with(" 51")), "the first was of 200: {rest:?}");
}

#[tokio::test]
async fn clients_add_no_labels_of_their_own() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for n in 0..20 {
        let call = gateway.post(&format!("/v1/brand/new/{n}")).config(&target(&upstream));
        let call = call.header("x-gateway-metadata", &json!({ "team": n.to_string() }).to_string());
        call.json(&with(hello(), json!({ "model": format!("m{n}") }))).send().await.expect(200);
        gateway.chat().provider(&format!("nobody-{n}")).json(&hello()).send().await;
    }
    let metrics = counted(&gateway, 40).await;
    let series = metrics.lines().filter(|l| l.starts_with("request_count{")).count();
    assert_eq!(series, 2, "{metrics}");
    for name in ["model", "config_name", "api_key_name", "metadata_team"] {
        assert!(values(&metrics, "request_count", name).is_empty(), "{name} was not asked for");
    }
}

#[tokio::test]
async fn the_overhead_is_the_gateways_own_time() {
    let gateway = Gateway::start().await;
    let slow = Upstream::scripted(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.pause(600).await;
            peer.send(reply::chat("hi")).await;
        }
    })
    .await;
    gateway.chat_through(&slow).json(&hello()).send().await.expect(200);
    let form = gateway.post("/v1/files").config(&target(&slow)).body("multipart/form-data; boundary=b", "--b--\r\n");
    form.send().await.expect(200);
    let metrics = counted(&gateway, 2).await;
    assert_eq!(sum(&metrics, "gateway_overhead_seconds_count"), 2.0);
    let (own, all) =
        (sum(&metrics, "gateway_overhead_seconds_sum"), sum(&metrics, "http_request_duration_seconds_sum"));
    assert!(own > 0.0 && own < 0.9 && all >= 1.2, "{own} of {all} seconds");
    assert!(sum(&metrics, "llm_request_duration_milliseconds_sum") >= 1_200.0);
}
