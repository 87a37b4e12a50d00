//! Records that clients tell of themselves: kept once, under their key and workspace, priced, masked and summed up.

use crate::harness::{House, now};
use serde_json::{Value, json};

fn log_body(trace: &str, span: &str) -> Value {
    json!({
        "request": {
            "url": "https://api.openai.com/v1/chat/completions?api_key=key-of-the-address&stream=true",
            "headers": {"Authorization": "Bearer sk-secret-secret", "user-agent": "mine"},
            "body": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}], "api_key": "sk-inner-secret"},
        },
        "response": {
            "status": 200,
            "headers": {"content-type": "application/json", "set-cookie": "a=b"},
            "body": {"model": "gpt-4o-mini-2024-07-18", "usage": {"prompt_tokens": 1000, "completion_tokens": 100}},
            "response_time": 1500.5,
        },
        "metadata": {"trace_id": trace, "spanId": span, "span_name": "ask", "_user": "ann"},
    })
}

async fn graph(house: &House, name: &str) -> Value {
    let day = 86_400_000_000;
    let (from, to) = (now().plus_micros(-day), now().plus_micros(day));
    let path = format!("/analytics/graphs/{name}?time_of_generation_min={from}&time_of_generation_max={to}");
    house.as_service().get(&path.replace('+', "%2B")).await.expect(200)["summary"].clone()
}

#[tokio::test]
async fn a_call_that_is_told_of_is_a_record_like_any_other() {
    let house = House::new().await;
    let made = house.as_service().post("/logs", log_body("t", "s")).await.expect(200);
    let id = made["ids"][0].as_str().expect("an id");
    let shown = house.as_service().get(&format!("/logs/{id}")).await.expect(200);
    let metrics = &shown["metrics"];
    for (field, value) in [
        ("ai_org", json!("openai")),
        ("ai_model", json!("gpt-4o-mini")),
        ("response_model", json!("gpt-4o-mini-2024-07-18")),
        ("req_units", json!(1000)),
        ("res_units", json!(100)),
        ("response_time", json!(1500)),
        ("trace_id", json!("t")),
        ("span_id", json!("s")),
        ("span_name", json!("ask")),
        ("source", json!("api")),
        ("metadata.key", json!(["_user"])),
        ("is_success", json!(true)),
    ] {
        assert_eq!(metrics[field], value, "{field}");
    }
    assert_eq!(shown["request"]["body"]["messages"][0]["content"], "hello");
    assert_eq!(shown["request"]["headers"]["user-agent"], "mine");
    for secret in ["key-of-the-address", "sk-secret", "sk-inner", "a=b"] {
        assert!(!shown.to_string().contains(secret), "{secret} in {shown}");
    }
    assert_eq!(graph(&house, "requests").await["total"], 1);
    assert_eq!(graph(&house, "tokens").await["total"], 1100);
    assert_eq!(graph(&house, "users").await["total"], 1);
}

#[tokio::test]
async fn a_span_that_is_told_of_again_is_the_same_record() {
    let house = House::new().await;
    let first = house.as_service().post("/logs", log_body("t", "s")).await.expect(200)["ids"].clone();
    crate::harness::pass_seconds(7_200);
    // Another node, another day perhaps, and beside others.
    let other = house.beside().await;
    let again =
        other.as_service().post("/logs", json!([log_body("t", "s"), log_body("t", "u"), log_body("t", "u")])).await;
    let again = again.expect(200)["ids"].clone();
    assert_eq!((&again[0], &again[1]), (&first[0], &again[2]));
    assert!(again[1] != first[0]);
    assert_eq!(graph(&house, "requests").await["total"], 2);
    // A record without a span is one of its own each time, and so is the same span in another workspace.
    let bare = || {
        let mut bare = log_body("t", "");
        bare["metadata"] = json!({"trace_id": "t"});
        bare
    };
    house.as_service().post("/logs", json!([bare(), bare()])).await.expect(200);
    assert_eq!(graph(&house, "requests").await["total"], 4);
    let elsewhere = house.workspace("elsewhere").await;
    let fields = json!({"scopes": ["logs.write", "completions.write"], "workspace_id": elsewhere});
    let (_, far) = house.key("workspace/service", fields).await;
    let made = house.with(&far).post("/logs", log_body("t", "s")).await.expect(200)["ids"].clone();
    assert!(made[0] != first[0]);
    let hidden = house.as_service().get(&format!("/logs/{}", made[0].as_str().expect("an id"))).await;
    hidden.refused(404, "AB08");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_of_it_is_kept() {
    let house = House::new().await;
    let with = |pointer: &str, value: Value| {
        let mut body = log_body("t", "s");
        let (at, name) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(at).expect("there")[name] = value;
        body
    };
    for (body, says) in [
        (with("/request/url", json!("ftp://x/y")), "request.url must be the address"),
        (with("/request/url", json!("https://u:p@x/y")), "request.url must be the address"),
        (with("/request/url", json!(format!("/{}", "x".repeat(3_000)))), "request.url must be at most 2048 bytes"),
        (with("/request/method", json!("BREW")), "request.method must be one of GET"),
        (with("/request/provider", json!("@nobody")), "request.provider names no provider of this workspace"),
        (with("/request/body/model", json!(5)), "request.body.model must be a string"),
        (with("/request/body", json!("text")), "request.body"),
        (with("/request/headers", json!({"a": 1})), "request.headers must be an object of strings"),
        (with("/request/colour", json!("red")), "request.colour"),
        (with("/response/status", json!(99)), "response.status must be an integer of 100..599"),
        (with("/response/response_time", json!(-1)), "response.response_time must be a number"),
        (with("/metadata/trace_id", json!("x".repeat(513))), "metadata.trace_id must be at most 512 bytes"),
        (with("/metadata/span_id", json!(7)), "metadata.span_id must be a string"),
        (with("/metadata/team", json!("x".repeat(129))), "metadata value of `team`"),
        (with("/metadata/team", json!(7)), "metadata value of `team` must be a string"),
        (json!({"request": {"url": "/x", "body": {}}}), "response"),
        (json!([log_body("a", "b"), with("/response/status", json!(600))]), "[1].response.status"),
    ] {
        let said = house.as_service().post("/logs", body).await.refused(400, "AB01");
        assert!(said.contains(says), "{says}: {said}");
    }
    let many: Vec<Value> = (0..101).map(|n| log_body("t", &n.to_string())).collect();
    let said = house.as_service().post("/logs", json!(many)).await.refused(400, "AB01");
    assert!(said.contains("at most 100"), "{said}");
    assert_eq!(graph(&house, "requests").await["total"], 0);
    for scopes in [json!(["logs.write"]), json!(["completions.write"])] {
        let (_, key) = house.key("workspace/service", json!({"scopes": scopes})).await;
        house.with(&key).post("/logs", log_body("t", "s")).await.refused(403, "AB03");
    }
    house.as_admin().post("/logs", log_body("t", "s")).await.refused(403, "AB03");
    // The organisation keeps no messages.
    house.as_admin().put("/admin/organisation", json!({"debug_log": false})).await.expect(200);
    let made = house.as_service().post("/logs", log_body("t", "quiet")).await.expect(200);
    let shown = house.as_service().get(&format!("/logs/{}", made["ids"][0].as_str().expect("an id"))).await.expect(200);
    assert_eq!((&shown["request"]["body"], &shown["request"]["headers"]), (&json!({}), &json!({})));
}
