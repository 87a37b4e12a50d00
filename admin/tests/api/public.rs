//! What is answered without a key, and how the unknown is refused.

use crate::harness::House;
use axum::body::Body;
use gateway_admin::Counting;
use http::{Method, Request, StatusCode, header};
use serde_json::json;

#[tokio::test]
async fn greeting_health_and_metrics_need_no_key() {
    let house = House::new().await;
    let get = |path: &str| Request::get(path).body(Body::empty()).expect("a request");
    let greeting = house.send(get("/")).await;
    assert_eq!(greeting.status, StatusCode::OK);
    assert!(greeting.text.contains("gateway"), "{}", greeting.text);
    let health = house.send(get("/v1/health")).await.expect(200);
    assert_eq!((&health["status"], &health["version"]), (&json!("success"), &json!("9.9.9")));
    assert_eq!(house.send(get("/health/live")).await.expect(200)["status"], "alive");
    let metrics = house.send(get("/metrics")).await;
    assert_eq!(metrics.headers[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    assert!(metrics.text.contains("request_count 3"), "{}", metrics.text);
}

#[tokio::test]
async fn readiness_says_why_not() {
    let house = House::new().await;
    let ready = || Request::get("/health/ready").body(Body::empty()).expect("a request");
    assert_eq!(house.send(ready()).await.expect(200)["revision"], 1);
    *house.process.ready.lock().expect("unpoisoned") = Err("draining".to_owned());
    let body = house.send(ready()).await.expect(503);
    assert_eq!((&body["status"], &body["reason"]), (&json!("not ready"), &json!("draining")));
}

#[tokio::test]
async fn the_status_page_tells_of_each_part_and_stays_200() {
    let house = House::new().await;
    let status = || Request::get("/health/status").body(Body::empty()).expect("a request");
    let told = house.send(status()).await.expect(200);
    assert_eq!((&told["status"], &told["ready"], &told["limits"]), (&json!("ok"), &json!(true), &json!("exact")));
    assert_eq!(told["components"]["proxy"], json!({ "status": "ok", "requests_in_flight": 2 }));
    *house.process.trouble.lock().expect("unpoisoned") = Some("the disk is full".to_owned());
    *house.process.ready.lock().expect("unpoisoned") = Err("draining".to_owned());
    *house.process.counting.lock().expect("unpoisoned") = Counting::RedisAway;
    let told = house.send(status()).await.expect(200);
    assert_eq!((&told["status"], &told["reason"]), (&json!("degraded"), &json!("draining")));
    assert_eq!((&told["ready"], &told["limits"]), (&json!(false), &json!("approximate")));
    assert_eq!(told["components"]["journal"], json!({ "status": "degraded", "reason": "the disk is full" }));
}

#[tokio::test]
async fn unknown_routes_and_methods() {
    let house = House::new().await;
    let lost = house.as_admin().get("/no-such-thing").await;
    lost.refused(404, "AB02");
    assert_eq!((&lost.json()["message"], &lost.json()["ok"]), (&json!("Not Found"), &json!(false)));
    let patched = house.as_admin().ask(Method::PATCH, "/configs", Some(json!({}))).await;
    patched.refused(405, "AB01");
    assert!(patched.headers.contains_key(header::ALLOW), "{:?}", patched.headers);
}

#[tokio::test]
async fn what_is_in_the_contract_and_not_here_says_so() {
    let house = House::new().await;
    for (method, path) in [
        (Method::POST, "/dp/metrics"),
        (Method::PATCH, "/dp/metrics"),
        (Method::POST, "/scim/Bulk"),
        (Method::GET, "/%64p/metrics/"),
    ] {
        let answer = house.as_admin().ask(method.clone(), path, None).await;
        let message = answer.refused(501, "AB01");
        assert!(message.contains("not in this version"), "{method} {path}: {message}");
    }
    for path in ["/configs/", "/c%6Fnfigs?page_size=1"] {
        house.as_admin().get(path).await.expect(200);
    }
    house.as_admin().ask(Method::DELETE, "/logs/x", None).await.refused(405, "AB01");
    house.as_admin().get("/logs/x/y").await.refused(404, "AB02");
    for path in ["/./configs", "/%2e%2e/configs", "//configs"] {
        house.as_admin().get(path).await.refused(400, "AB01");
    }
}

#[tokio::test]
async fn each_version_prefix_serves_the_same() {
    let house = House::new().await;
    for prefix in ["/v1", "/v2", "/v1/v2"] {
        house.as_admin().get(&format!("{prefix}/configs")).await.expect(200);
    }
    let request = |key: &str| {
        let request = Request::get("/v1/configs").header("x-acme-api-key", key);
        request.body(Body::empty()).expect("a request")
    };
    house.send(request(crate::harness::SERVICE)).await.expect(200);
    house.send(request("nobody")).await.refused(401, "AB05");
}

#[tokio::test]
async fn bodies_over_the_cap_are_refused_before_they_are_read() {
    let house = House::new().await;
    let long = json!({"name": "x".repeat(5 * 1024 * 1024), "config": {}});
    house.as_admin().post("/configs", long.clone()).await.refused(413, "AB01");
    // Who may not write is told that first.
    let answer = house.nobody().post("/configs", long).await;
    answer.refused(401, "AB05");
    assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn the_price_of_a_model_is_told_without_a_key() {
    let house = House::new().await;
    let get = |model: &str| {
        Request::get(format!("/model-configs/pricing/openai/{model}")).body(Body::empty()).expect("a request")
    };
    let answer = house.send(get("gpt-4o")).await;
    assert!(answer.text.contains("0.00025"), "as people write it, and not as 2.5e-4: {}", answer.text);
    let price = answer.expect(200);
    assert_eq!(price["pay_as_you_go"]["request_token"], json!({"price": 0.000_25}), "cents per token");
    assert_eq!(price["currency"], "USD");
    assert_eq!(house.send(get("gpt-4o-2099-01-01")).await.expect(200), price, "a dated one costs the same");
    let lost = house.send(get("gpt-0")).await.expect(404);
    assert_eq!(lost, json!({"error": "no price is known for openai/gpt-0"}));
    let told = house.send(get("gpt-5.5")).await.expect(200);
    assert_eq!(told["batch_config"]["pay_as_you_go"]["request_token"], json!({"price": 0.000_25}));
    let long = &told["long_context_config"];
    assert_eq!((&long["threshold_tokens"], &long["inclusive"]), (&json!(272_000), &json!(false)));
    assert_eq!(long["pay_as_you_go"]["response_token"], json!({"price": 0.0045}));
    assert_eq!(told["pay_as_you_go"]["cache_write_input_token"], json!({"price": 0, "known": false}));
    assert_eq!(told["pay_as_you_go"]["additional_units"]["web_search"], json!({"price": 1.0}));
    let product =
        json!({"operation": "multiply", "operands": [{"value": "input_tokens"}, {"value": "rates.request_token"}]});
    assert_eq!(told["calculate"]["request"]["operands"][0], product);
    for path in
        ["pricing/workers-ai/@cf/meta/llama-3.1-8b-instruct", "pricing/workers-ai/@cf%2Fmeta%2Fllama-3.1-8b-instruct"]
    {
        let asked = Request::get(format!("/model-configs/{path}")).body(Body::empty()).expect("a request");
        assert_eq!(house.send(asked).await.expect(200)["currency"], "USD", "{path}");
    }
    let head = Request::head("/model-configs/pricing/openai/gpt-4o").body(Body::empty()).expect("a request");
    assert_eq!(house.send(head).await.status, 200);
    let general = Request::get("/model-configs/general/openai/gpt-4o").body(Body::empty()).expect("a request");
    let general = house.send(general).await.expect(200);
    assert_eq!((&general["type"]["primary"], &general["params"]), (&json!("chat"), &json!([])));
    assert!(general["type"]["supported"].as_array().is_some_and(|can| can.contains(&json!("tools"))), "{general}");
}
