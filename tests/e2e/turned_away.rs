//! Callers that are not let in leave a trace: a counter by reason, a line of the access log, and in the audit trail of
//! the organisation that they name a row, on either port. Nothing of it grows with how often they come.

use crate::harness::issuer::{FIRST, Issuer, SECOND, in_seconds};
use crate::harness::{ADMIN_KEY, Gateway, eventually, hello};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn count(metrics: &str, reason: &str) -> u64 {
    let name = format!("gateway_refused_callers_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("the counter");
    line.parse().expect("a number")
}

/// Lines of the access log about callers that were refused.
pub(crate) fn lines(gateway: &Gateway) -> Vec<Value> {
    let lines = gateway.process.output();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line.get("refused").is_some()).collect()
}

pub(crate) async fn rows(gateway: &Gateway, org: &str) -> Vec<Value> {
    let asked = format!(
        "/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01&action=authenticate&page_size=100"
    );
    let told = gateway.admin().get(&asked).await.expect(200).json();
    told["records"].as_array().expect("rows").clone()
}

#[tokio::test]
async fn who_is_not_let_in_is_told_of_on_both_ports() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "jwks_uris": issuer.uri() })).await.expect(200);
    let org = admin.get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    let (id, expired) = admin.workspace_key("team", json!({})).await;
    let soon = SystemTime::now() + Duration::from_millis(1200);
    let soon = i64::try_from(soon.duration_since(UNIX_EPOCH).expect("after 1970").as_micros()).expect("in range");
    let ends = json!({ "expires_at": gateway_domain::Timestamp(soon).to_string() });
    admin.put(&format!("/api-keys/{id}"), &ends).await.expect(200);
    // The Admin API says when the key is over: to ask with the key itself would be counted.
    eventually("the key to end", || async {
        let shown = admin.get(&format!("/api-keys/{id}")).await.expect(200).json();
        (shown["status"] == "expired").then_some(())
    })
    .await;
    let claims = |expires: i64| json!({ "scope": "completions.write", "sub": "ann", "exp": in_seconds(expires) });
    let (forged, over) = (SECOND.sign(&claims(3600)), FIRST.sign(&claims(-3600)));
    let chat = |key: &str| gateway.chat().key(key).provider("mock").json(&hello()).send();
    let list = |key: &str| gateway.call("GET", "/v1/configs?page_size=1&token=hidden").key(key).send();
    for key in ["nobody-knows-this-key", &*expired, &*forged, &*over] {
        chat(key).await.expect(401);
        list(key).await.expect(401);
        admin.with_key(key).get("/configs").await.expect(401);
    }
    gateway.chat().without("x-gateway-api-key").json(&hello()).send().await.expect(401);
    chat(ADMIN_KEY).await.expect(403);
    let metrics = gateway.metrics().await;
    let counted = ["unknown_key", "expired_key", "bad_token", "no_key", "wrong_kind", "inactive_key", "no_place"];
    assert_eq!(counted.map(|reason| count(&metrics, reason)), [3, 3, 6, 1, 1, 0, 0], "{metrics}");

    let told = eventually("the lines", || async { Some(lines(&gateway)).filter(|lines| lines.len() >= 14) }).await;
    let of = |reason: &str| told.iter().filter(|line| line["refused"] == reason).cloned().collect::<Vec<_>>();
    assert_eq!(of("expired_key").len(), 3);
    let line = &of("expired_key")[0];
    assert_eq!((&line["key"], &line["status"], &line["client"]), (&json!(id), &json!(401), &json!("127.0.0.1")));
    assert_eq!((&line["method"], &line["path"]), (&json!("POST"), &json!("/v1/chat/completions")));
    assert!(of("unknown_key").iter().any(|line| line["path"] == "/v1/configs"), "{told:?}");

    // One row for each key and reason; whom nobody knows names no organisation.
    let all =
        eventually("the rows", || async { Some(rows(&gateway, &org).await).filter(|rows| rows.len() >= 3) }).await;
    assert_eq!(all.len(), 3, "{all:?}");
    let row = all.iter().find(|row| row["resource_id"] == json!(id)).expect("a row of the key");
    assert_eq!((&row["resource_type"], &row["response_status_code"]), (&json!("api_key"), &json!(401)));
    assert!(row["refused"].as_str().is_some_and(|why| why.contains("expired")), "{row}");
    assert!(all.iter().any(|row| row["refused"].as_str().is_some_and(|why| why.contains("signed with a key"))));
    // Nothing of what they brought is kept.
    let kept = format!("{all:?}{}", gateway.process.output());
    for secret in [&*expired, &*forged, &*over, "nobody-knows-this-key", "hidden"] {
        assert!(!kept.contains(secret), "{secret} is kept");
    }
}

#[tokio::test]
async fn a_flood_of_the_refused_writes_no_flood() {
    let gateway = Gateway::with(&["--unknown-key-rate", "0"]).await;
    for _ in 0..400 {
        gateway.chat().key("nobody-knows-this-key").json(&hello()).send().await.expect(401);
    }
    let metrics = gateway.metrics().await;
    assert_eq!(count(&metrics, "unknown_key"), 400);
    let unlogged = metrics.lines().find_map(|line| line.strip_prefix("gateway_refused_callers_unlogged_total "));
    let unlogged: usize = unlogged.and_then(|n| n.parse().ok()).expect("the counter");
    eventually("the lines", || async { (lines(&gateway).len() + unlogged == 400).then_some(()) }).await;
}
