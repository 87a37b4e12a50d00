//! What is held to on every way through the gateway, whatever a way leads to: the checks that the tables of ways share.

use crate::harness::{ADMIN_KEY, Gateway, eventually};
use serde_json::{Value, json};
use std::fmt::Debug;

/// One way through the gateway.
pub(crate) trait GatewayWay: Copy + Debug {
    /// Takes it with these headers, and with a key that opens it unless they name one.
    async fn take(self, gateway: &Gateway, headers: &[(&str, &str)]) -> WayAnswer;

    /// The status of a success.
    fn success(self) -> u16;
}

#[derive(Debug)]
pub(crate) struct WayAnswer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// Keys that are none, of the other port, and without the scope. `headers`: what the way needs besides.
pub(crate) async fn refuse_whoever_may_not<W: GatewayWay>(gateway: &Gateway, ways: &[W], headers: &[(&str, &str)]) {
    let (_, scopeless) = gateway.admin().workspace_key("k", json!({ "scopes": ["logs.view"] })).await;
    for way in ways {
        for (key, status) in [("unknown", 401), (ADMIN_KEY, 403), (scopeless.as_str(), 403)] {
            let headers = [&[("x-gateway-api-key", key)], headers].concat();
            let answer = way.take(gateway, &headers).await;
            assert_eq!(answer.status, status, "{way:?}: {}", answer.text);
        }
    }
}

/// Each way leaves one record, which `check` looks at.
pub(crate) async fn leave_a_record<W: GatewayWay>(
    gateway: &Gateway,
    ways: &[W],
    headers: &[(&str, &str)],
    check: impl Fn(W, &Value),
) {
    for way in ways {
        let trace = format!("record-{}", trace_of(*way));
        let headers = [&[("x-gateway-trace-id", trace.as_str())], headers].concat();
        let answer = way.take(gateway, &headers).await;
        assert_eq!(answer.status, way.success(), "{way:?}: {}", answer.text);
    }
    for way in ways {
        eventually(&format!("the record of {way:?}"), || async {
            let path = format!("/logs?trace_id=record-{}", trace_of(*way));
            let list = gateway.admin().get(&path).await.expect(200).json();
            let rows = list["data"].as_array().filter(|rows| rows.len() == 1)?;
            check(*way, &rows[0]);
            Some(())
        })
        .await;
    }
}

/// The way's name in a form that a header and a query can carry.
pub(crate) fn trace_of(way: impl Debug) -> String {
    format!("{way:?}").chars().filter(char::is_ascii_alphanumeric).collect()
}
