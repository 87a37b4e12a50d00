//! What is known afterwards: a record for each target that was tried, and counters.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};

fn rows(list: &Value) -> Vec<Value> {
    list["data"].as_array().unwrap_or_else(|| panic!("no list: {list}")).clone()
}

/// Records are written behind the answer: waits until as many are there.
async fn records(gateway: &Gateway, query: &str, count: usize) -> Vec<Value> {
    let admin = gateway.admin();
    eventually(&format!("{count} records for {query}"), || async {
        let list = admin.get(&format!("/logs?{query}")).await.expect(200).json();
        let rows = rows(&list);
        assert!(rows.len() <= count, "more than {count}: {list}");
        (rows.len() == count).then_some(rows)
    })
    .await
}

#[tokio::test]
async fn each_target_tried_leaves_a_record() {
    let gateway = Gateway::start().await;
    let busy = Upstream::in_turn(vec![reply::error(429, &[("retry-after-ms", "1")])]).await;
    let good = Upstream::replying(|_| reply::chat("good")).await;
    let first = with(target(&busy), json!({ "retry": { "attempts": 2, "use_retry_after_header": true } }));
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "trace-9");
    let call = call.header("x-gateway-metadata", r#"{"_user":"ann"}"#);
    call.json(&hello()).send().await.expect(200);
    let rows = records(&gateway, "trace_id=trace-9", 2).await;
    let text = json!(rows).to_string();
    assert!(!text.contains("sk-upstream") && !text.contains(crate::harness::WORKSPACE_KEY), "a secret is recorded");
    let details: Vec<Value> = futures_util::future::join_all(rows.iter().map(|row| {
        let id =
            row["id"].as_str().or_else(|| row["_id"].as_str()).unwrap_or_else(|| panic!("no id: {row}")).to_owned();
        let admin = gateway.admin();
        async move { admin.get(&format!("/logs/{id}")).await.expect(200).json() }
    }))
    .await;
    let mut seen: Vec<(Value, Value, Value)> = details
        .iter()
        .map(|d| {
            let d = if d["data"].is_object() { &d["data"] } else { d };
            let m = &d["metrics"];
            (m["response_status_code"].clone(), m["last_used_option_index"].clone(), m["trace_id"].clone())
        })
        .collect();
    seen.sort_by_key(|(_, index, _)| index.to_string());
    let trace = json!("trace-9");
    assert_eq!(seen, [(json!(429), json!(0), trace.clone()), (json!(200), json!(1), trace)], "{details:?}");
}

#[tokio::test]
async fn a_record_tells_model_usage_cost_and_times() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    for stream in [false, true] {
        let trace = format!("usage-{stream}");
        let body = with(hello(), json!({ "stream": stream }));
        let upstream = if stream {
            Upstream::replying(|_| reply::stream(&["h", "i"])).await
        } else {
            Upstream::replying(|_| reply::chat("hi")).await
        };
        let call = gateway.chat_through(&upstream).header("x-gateway-trace-id", &trace);
        call.json(&body).send().await.expect(200);
        let row = &records(&gateway, &format!("trace_id={trace}"), 1).await[0];
        let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
        let detail = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
        let detail = if detail["data"].is_object() { detail["data"].clone() } else { detail };
        let metrics = &detail["metrics"];
        assert_eq!((&metrics["ai_org"], &metrics["ai_model"]), (&json!("openai"), &json!("gpt-4o-mini")), "{detail}");
        assert_eq!(
            (&metrics["is_success"], &metrics["stream_mode"]),
            (&json!(true), &json!(u8::from(stream))),
            "{detail}"
        );
        assert_eq!(
            (&metrics["cost_currency"], &metrics["request_method"]),
            (&json!("USD"), &json!("POST")),
            "{detail}"
        );
        assert!(metrics["response_time"].is_number(), "{detail}");
        if !stream {
            assert_eq!(
                (&metrics["req_units"], &metrics["res_units"], &metrics["total_units"]),
                (&json!(5), &json!(3), &json!(8))
            );
            // 5 tokens at 15 and 3 at 60 cents the million.
            let cost = metrics["cost"].as_f64().expect("a cost");
            assert!((cost - 0.000_255).abs() < 1e-9, "{cost} cents");
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn records_are_filtered_and_paged() {
    let gateway = Gateway::start().await;
    let ask = async |trace: &str, user: &str, status: u16| {
        let call = gateway.chat().provider("mock").header("x-gateway-trace-id", trace);
        let call = call.header("x-gateway-metadata", &json!({ "_user": user }).to_string());
        let call =
            call.header("x-gateway-forward-headers", "x-mock-status").header("x-mock-status", &status.to_string());
        call.json(&hello()).send().await.expect(status);
    };
    for i in 0..5 {
        ask(&format!("t{i}"), if i % 2 == 0 { "ann" } else { "bob" }, if i == 4 { 500 } else { 200 }).await;
    }
    records(&gateway, "page_size=50", 5).await;
    assert_eq!(records(&gateway, "status_code=500", 1).await.len(), 1);
    assert_eq!(records(&gateway, "status_code=200", 4).await.len(), 4);
    assert_eq!(records(&gateway, "trace_id=t3", 1).await.len(), 1);
    assert_eq!(records(&gateway, "metadata=%7B%22_user%22%3A%22bob%22%7D", 2).await.len(), 2);
    records(&gateway, "trace_id=none", 0).await;
    let mut ids = Vec::new();
    for page in 0..3 {
        let list = gateway.admin().get(&format!("/logs?page_size=2&current_page={page}")).await.expect(200).json();
        assert_eq!(list["total"], 5, "{list}");
        ids.extend(
            rows(&list).iter().map(|r| r["id"].as_str().or_else(|| r["_id"].as_str()).unwrap_or_default().to_owned()),
        );
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), count), (5, 5));
    gateway.admin().get("/logs?status_code=x").await.expect(400);
    gateway.admin().get("/logs/00000000-0000-0000-0000-000000000000").await.expect(404);
}

#[tokio::test]
async fn refusals_after_the_key_is_known_are_recorded_too() {
    let gateway = Gateway::start().await;
    let conditions = json!([{ "key": "api_key", "value": "*" }]);
    let policy = json!({ "name": "none", "type": "requests", "unit": "rpw", "value": 1, "conditions": conditions, "group_by": [{ "key": "api_key" }] });
    gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    for (trace, status) in [("passes", 200), ("refused", 429)] {
        let call = gateway.chat().provider("mock").header("x-gateway-trace-id", trace);
        call.json(&hello()).send().await.expect(status);
    }
    let row = &records(&gateway, "trace_id=refused", 1).await[0];
    assert!(row.to_string().contains("429"), "{row}");
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded_with_what_it_used() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("one "), &reply::delta("two ")].concat()).await;
        peer.gone().await;
    })
    .await;
    let call = gateway.chat_through(&upstream).header("x-gateway-trace-id", "left");
    let mut response = call.json(&with(hello(), json!({ "stream": true }))).open().await;
    response.chunk().await.expect("bytes").expect("events");
    drop(response);
    let row = &records(&gateway, "trace_id=left", 1).await[0];
    let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
    let detail = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
    let detail = if detail["data"].is_object() { detail["data"].clone() } else { detail };
    assert!(detail["metrics"]["total_units"].as_u64().is_some_and(|n| n > 0), "used tokens are estimated: {detail}");
}

#[tokio::test]
async fn the_clients_address_is_believed_from_trusted_proxies_only() {
    for (flags, address) in [(&[][..], "127.0.0.1"), (&["--trusted-proxies", "127.0.0.0/8"], "203.0.113.9")] {
        let gateway = Gateway::with(flags).await;
        let call = gateway.chat().provider("mock").header("x-forwarded-for", "198.51.100.1, 203.0.113.9");
        call.header("x-gateway-trace-id", "who").json(&hello()).send().await.expect(200);
        let row = &records(&gateway, "trace_id=who", 1).await[0];
        let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
        let detail = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).text();
        assert!(detail.contains(&format!("\"{address}\"")), "{flags:?}: {detail}");
    }
}

#[tokio::test]
async fn metrics_are_counted_under_their_names() {
    let gateway = Gateway::start().await;
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    gateway.chat().provider("mock").json(&with(hello(), json!({ "stream": true }))).send().await.expect(200);
    gateway.chat().key("unknown").provider("mock").json(&hello()).send().await.expect(401);
    let scrape = async || {
        let response = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        response.text().await.expect("text")
    };
    let text = eventually("counted requests", || async {
        let text = scrape().await;
        text.contains("request_count").then_some(text)
    })
    .await;
    for name in [
        "request_count",
        "http_request_duration_seconds",
        "llm_request_duration_milliseconds",
        "llm_token_sum",
        "llm_cost_sum",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not in\n{text}");
    }
    let sample = text.lines().find(|l| l.starts_with("request_count{") && l.contains("mock")).expect("a sample");
    for label in ["method=", "endpoint=", "code=\"200\"", "provider=\"mock\"", "stream="] {
        assert!(sample.contains(label), "{label} is not in {sample}");
    }
}
