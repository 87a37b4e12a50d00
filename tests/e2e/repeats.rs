//! Writes that are sent again because their gateway was killed: each is done once, whenever that was.

use crate::harness::Gateway;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

/// Sends the same named writes until each is answered; `None` where the gateway went away before.
async fn write(gateway: &Gateway, n: usize) -> Option<Value> {
    let body = json!({ "name": format!("ws {n}") });
    let call = gateway.client().post(gateway.admin_url("/v1/admin/workspaces")).json(&body);
    let call = call.header("x-gateway-api-key", crate::harness::ADMIN_KEY).header("idempotency-key", format!("w-{n}"));
    let answer = call.send().await.ok()?;
    assert_eq!(answer.status(), 200, "{n}");
    answer.json().await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_gateway_was_killed_is_done_once() {
    const WRITES: usize = 24;
    let mut gateway = Gateway::start().await;
    for round in 0..4_u64 {
        let urls = (gateway.client().clone(), gateway.admin_url("/v1/admin/workspaces"));
        let mut sent = JoinSet::new();
        for n in 0..WRITES {
            let (client, url) = urls.clone();
            sent.spawn(async move {
                let body = json!({ "name": format!("ws {n}") });
                let call = client.post(url).json(&body).header("x-gateway-api-key", crate::harness::ADMIN_KEY);
                drop(call.header("idempotency-key", format!("w-{n}")).send().await);
            });
        }
        // The moment of the kill is the point of the test: some are done, some under way, some not begun.
        tokio::time::sleep(Duration::from_millis(3 + 17 * round)).await;
        gateway = gateway.restart_after_kill(&[]).await;
        sent.join_all().await;
    }
    for n in 0..WRITES {
        let first = write(&gateway, n).await.expect("answered");
        assert_eq!(write(&gateway, n).await.as_ref(), Some(&first));
        let found = gateway.admin().get(&format!("/admin/workspaces?exact_name=ws%20{n}")).await.expect(200).json();
        assert_eq!((&found["total"], &found["data"][0]["id"]), (&json!(1), &first["id"]), "write {n}");
    }
}

#[tokio::test]
async fn both_ports_listen_to_the_headers_of_states_and_repeats() {
    let gateway = Gateway::start().await;
    let slug = gateway.admin().config("main", &json!({ "provider": "mock" })).await;
    let one = format!("/v1/configs/{slug}");
    for (port, at) in [("admin", gateway.admin_url(&one)), ("proxy", gateway.url(&one))] {
        let ask = |method: reqwest::Method, header: &'static str, value: &str| {
            let call = gateway.client().request(method, &at).header("x-gateway-api-key", crate::harness::ADMIN_KEY);
            call.header(header, value).json(&json!({ "name": port })).send()
        };
        let read = ask(reqwest::Method::GET, "accept", "*/*").await.expect("answered");
        let tag = read.headers()["etag"].to_str().expect("text").to_owned();
        let status = async |method, header, value: &str| ask(method, header, value).await.expect("answered").status();
        assert_eq!(status(reqwest::Method::GET, "if-none-match", &tag).await, 304, "{port}");
        assert_eq!(status(reqwest::Method::PUT, "if-match", "\"999999\"").await, 412, "{port}");
        assert_eq!(status(reqwest::Method::PUT, "if-match", &tag).await, 200, "{port}");
        assert_eq!(status(reqwest::Method::PUT, "if-match", &tag).await, 412, "{port}");
        let name = format!("put on {port}");
        for is_again in [false, true] {
            let answer = ask(reqwest::Method::PUT, "idempotency-key", &name).await.expect("answered");
            assert_eq!(answer.status(), 200, "{port}");
            assert_eq!(answer.headers().contains_key("idempotency-replayed"), is_again, "{port}");
        }
    }
}
