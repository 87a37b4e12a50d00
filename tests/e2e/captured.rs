//! What records keep of messages: by setting, by request and by organisation, in the documented copies.

use crate::harness::{Answer, Gateway, Upstream, eventually, hello, reply, with};
use serde_json::{Value, json};

/// The one record with this trace id, read whole.
async fn record(gateway: &Gateway, trace: &str) -> Value {
    let path = format!("/logs?trace_id={trace}");
    let id = eventually("a record", || async {
        let found = gateway.admin().get(&path).await.expect(200).json();
        found["data"][0]["id"].as_str().map(ToOwned::to_owned)
    })
    .await;
    gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json()
}

async fn ask(gateway: &Gateway, upstream: &Upstream, trace: &str, headers: &[(&str, &str)], fields: Value) -> Answer {
    let mut call = gateway.chat_through(upstream).header("x-gateway-trace-id", trace);
    for (name, value) in headers {
        call = call.header(name, value);
    }
    call.json(&with(hello(), fields)).send().await
}

fn said(record: &Value) -> &Value {
    &record["response"]["body"]
}

#[tokio::test]
async fn failures_are_kept_by_default_and_successes_are_not() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::chat("hi"), reply::error(500, &[("x-request-id", "r-1")])]).await;
    ask(&gateway, &upstream, "good", &[], json!({})).await.expect(200);
    ask(&gateway, &upstream, "bad", &[], json!({ "user": "ann" })).await.expect(500);
    let good = record(&gateway, "good").await;
    assert_eq!((&good["request"]["body"], said(&good)), (&json!({}), &json!({})));
    assert!(good.get("transformedRequest").is_none() && good["request"]["headers"] == json!({}));
    let bad = record(&gateway, "bad").await;
    assert_eq!(bad["request"]["body"]["user"], "ann");
    assert_eq!(bad["request"]["gatewayHeaders"]["x-gateway-trace-id"], "bad");
    assert_eq!(bad["request"]["gatewayHeaders"]["x-gateway-api-key"], "***");
    assert!(!bad["request"]["gatewayHeaders"]["x-gateway-config"].to_string().contains("sk-upstream"), "{bad}");
    assert_eq!(bad["transformedRequest"]["body"]["user"], "ann", "the same bytes, shown in both places");
    assert_eq!(bad["transformedRequest"]["headers"]["authorization"], "***");
    assert_eq!(bad["transformedRequest"]["url"], format!("{}/chat/completions", upstream.url()));
    assert_eq!(bad["originalResponse"]["headers"]["x-request-id"], "r-1");
    assert_eq!(bad["originalResponse"]["body"]["error"]["message"], "scripted 500");
    assert_eq!(said(&bad)["error"]["message"], "scripted 500");
}

#[tokio::test]
async fn a_body_against_the_rules_is_kept_with_its_refusal() {
    let gateway = Gateway::start().await;
    let call = gateway.chat().provider("mock").header("x-gateway-trace-id", "wrong");
    call.json(&with(hello(), json!({ "temperature": 9 }))).send().await.expect(400);
    let kept = record(&gateway, "wrong").await;
    assert_eq!(kept["request"]["body"]["temperature"], 9);
    assert!(said(&kept)["error"]["message"].as_str().is_some_and(|m| m.contains("temperature")), "{kept}");
}

#[tokio::test]
async fn all_keeps_both_sides_of_a_translated_stream() {
    let gateway = Gateway::with(&["--log-bodies", "all"]).await;
    let upstream = Upstream::replying(|_| reply::stream(&["one ", "two"])).await;
    ask(&gateway, &upstream, "stream", &[], json!({ "stream": true })).await.expect(200);
    let kept = record(&gateway, "stream").await;
    for side in [said(&kept), &kept["originalResponse"]["body"]] {
        let text = side.as_str().expect("events are text");
        assert!(text.contains("\"one \"") && text.contains("two") && text.contains("[DONE]"), "{text}");
    }
    assert_eq!(kept["originalResponse"]["truncated"], false);
    assert_eq!(kept["request"]["body"]["stream"], true);
}

#[tokio::test]
async fn long_bodies_are_cut_and_marked() {
    let gateway = Gateway::with(&["--log-bodies", "all"]).await;
    let upstream = Upstream::replying(|_| reply::chat(&"x".repeat(200_000))).await;
    ask(&gateway, &upstream, "long", &[], json!({ "user": "u".repeat(100_000) })).await.expect(200);
    let kept = record(&gateway, "long").await;
    for copy in ["finalUntransformedRequest", "transformedRequest", "originalResponse"] {
        assert_eq!(kept[copy]["truncated"], true, "{copy}");
        assert_eq!(kept[copy]["body"].as_str().map(str::len), Some(64 << 10), "{copy}");
        assert!(kept[copy]["bytes"].as_u64().is_some_and(|n| n > 100_000), "{copy}");
    }
}

#[tokio::test]
async fn none_keeps_nothing_and_a_share_some() {
    let upstream = Upstream::replying(|_| reply::error(500, &[])).await;
    let gateway = Gateway::with(&["--log-bodies", "none"]).await;
    ask(&gateway, &upstream, "none", &[], json!({})).await.expect(500);
    assert_eq!(record(&gateway, "none").await["request"]["body"], json!({}));
    let gateway = Gateway::with(&["--log-bodies", "0.5"]).await;
    for n in 0..40 {
        gateway.chat().provider("mock").header("x-gateway-trace-id", &format!("t{n}")).json(&hello()).send().await;
    }
    let mut kept = 0;
    for n in 0..40 {
        let found = record(&gateway, &format!("t{n}")).await;
        kept += u32::from(found["request"]["body"] != json!({}));
    }
    // Fewer than 2 or more than 38 of 40 heads is one chance in ten billion.
    assert!((2..=38).contains(&kept), "{kept} of 40");
}

#[tokio::test]
async fn the_debug_header_and_the_organisation_say_metrics_only() {
    let gateway = Gateway::with(&["--log-bodies", "all"]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let (yes, no) = (("x-gateway-debug", "true"), ("x-gateway-debug", "false"));
    let kept = async |trace: &str, header: Option<(&str, &str)>| {
        ask(&gateway, &upstream, trace, header.as_slice(), json!({})).await.expect(200);
        let record = record(&gateway, trace).await;
        assert!(record["metrics"]["total_units"].as_u64().is_some_and(|n| n > 0), "{record}");
        record["request"]["body"] != json!({})
    };
    assert!(kept("open", None).await && kept("yes", Some(yes)).await && !kept("no", Some(no)).await);
    gateway.admin().put("/admin/organisation", &json!({ "debug_log": false })).await.expect(200);
    assert!(!kept("org", None).await && kept("org-yes", Some(yes)).await);
    let enforced = json!({ "enforce_debug_log_setting": true });
    gateway.admin().put("/admin/organisation", &enforced).await.expect(200);
    assert!(!kept("enforced", Some(yes)).await);
    gateway.admin().put("/admin/organisation", &json!({ "debug_log": true })).await.expect(200);
    assert!(kept("enforced-open", Some(no)).await);
}

#[tokio::test]
async fn headers_are_shown_by_list() {
    let flags = ["--log-bodies", "all", "--log-headers-hashed", "user-agent", "--log-headers-shown", "x-team"];
    let gateway = Gateway::with(&flags).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let headers = [
        ("x-team", "blue"),
        ("x-other", "red"),
        ("user-agent", "me"),
        ("accept-language", "de"),
        ("x-gateway-sensitive-headers", "Accept-Language"),
    ];
    ask(&gateway, &upstream, "heads", &headers, json!({})).await.expect(200);
    let kept = record(&gateway, "heads").await;
    let shown = &kept["request"]["headers"];
    assert_eq!((&shown["x-team"], &shown["content-type"]), (&json!("blue"), &json!("application/json")));
    for name in ["x-other", "user-agent", "accept-language"] {
        assert!(shown[name].as_str().is_some_and(|v| v.starts_with("sha256:")), "{name}: {shown}");
    }
    assert!(!kept.to_string().contains("red"));
}

#[tokio::test]
async fn a_target_that_was_left_keeps_its_own_copies() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let whole = Upstream::replying(|_| reply::chat("hi")).await;
    let target = |u: &Upstream| json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": u.url() });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&broken), target(&whole)] });
    gateway.chat().config(&config).header("x-gateway-trace-id", "two").json(&hello()).send().await.expect(200);
    let rows = eventually("two records", || async {
        let found = gateway.admin().get("/logs?trace_id=two").await.expect(200).json();
        found["data"].as_array().filter(|rows| rows.len() == 2).cloned()
    })
    .await;
    let first = rows.iter().find(|r| r["attempt"] == 1).expect("the first target");
    let id = first["id"].as_str().expect("an id");
    let first = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
    assert_eq!(first["originalResponse"]["body"]["error"]["message"], "scripted 503");
    assert_eq!((&first["originalResponse"]["status"], said(&first)), (&json!(503), &json!({})));
}

#[tokio::test]
async fn equal_copies_are_written_once() {
    let nobody = crate::harness::ports::Port::reserve();
    // A store that is never there: what is recorded stays in the journal.
    let store = format!("postgres://user@{}/logs", nobody.address);
    let gateway = Gateway::with(&["--log-bodies", "all", "--log-store-url", &store]).await;
    let upstream = Upstream::replying(|_| reply::chat("said-just-once")).await;
    ask(&gateway, &upstream, "once", &[], json!({ "user": "asked-just-once" })).await.expect(200);
    let written = eventually("a record in the journal", || async {
        let files = std::fs::read_dir(gateway.folder().join("data/journal")).expect("a folder");
        let all: Vec<u8> = files.flat_map(|f| std::fs::read(f.expect("a file").path()).unwrap_or_default()).collect();
        memchr::memmem::find(&all, b"said-just-once").is_some().then_some(all)
    })
    .await;
    for marker in ["asked-just-once", "said-just-once"] {
        assert_eq!(memchr::memmem::find_iter(&written, marker).count(), 1, "{marker}");
    }
    // Once a store is there both copies are shown, and one is kept.
    let gateway = gateway.restart_with(&["--log-bodies", "all"]).await;
    let kept = record(&gateway, "once").await;
    for copy in ["finalUntransformedRequest", "transformedRequest"] {
        assert_eq!(kept[copy]["body"]["user"], "asked-just-once", "{copy}");
    }
    for answer in [&kept["originalResponse"]["body"], said(&kept)] {
        assert_eq!(answer["choices"][0]["message"]["content"], "said-just-once");
    }
}
