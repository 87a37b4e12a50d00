//! How calls of agents go on and end: clocks, clients that leave, and a process that takes leave.

use crate::agent_script::sse_events;
use crate::agent_slow::{saying, slow_agent, slow_gateway, streaming};
use crate::harness::eventually;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn what_is_said_keeps_a_stream_alive_and_silence_ends_it() {
    let agent = slow_agent().await;
    let (gateway, key) = slow_gateway(&agent, &["--mcp-timeout", "1s"]).await;
    let long = streaming(&gateway, &key, "work").send().await.expect(200);
    let events = sse_events(&long);
    assert_eq!(events[6]["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{events:?}");
    assert!(long.took > Duration::from_millis(1500), "{:?}", long.took);
    let silent = streaming(&gateway, &key, "mute").send().await.expect(200);
    let events = sse_events(&silent);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((&events[1]["error"]["code"], &events[1]["id"]), (&json!(408), &json!("s-1")), "{events:?}");
    assert!(silent.took < Duration::from_secs(4), "{:?}", silent.took);
    eventually("the agent is let go of", || async { (agent.upstream.open() <= 1).then_some(()) }).await;
}

#[tokio::test]
async fn a_call_that_takes_longer_than_any_may_is_ended_though_the_agent_speaks_on() {
    let agent = slow_agent().await;
    let (gateway, key) = slow_gateway(&agent, &["--mcp-max-time", "1s"]).await;
    let endless = streaming(&gateway, &key, "endless").send().await.expect(200);
    let last = sse_events(&endless).pop().expect("events");
    assert_eq!((&last["error"]["code"], &last["id"]), (&json!(408), &json!("s-1")), "{last}");
    assert!(endless.took < Duration::from_secs(4), "{:?}", endless.took);
    // An answer that is no stream, and never whole.
    let drip = saying(&gateway, &key, "SendMessage", "drip").send().await.expect(408);
    assert_eq!(drip.json()["error"]["code"], 408, "{}", drip.text());
    assert!(drip.took < Duration::from_secs(4), "{:?}", drip.took);
    eventually("the agent is let go of", || async { (agent.upstream.open() <= 1).then_some(()) }).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_charged_and_its_agent_let_go_of() {
    let agent = slow_agent().await;
    let (gateway, key) = slow_gateway(&agent, &[]).await;
    let call = streaming(&gateway, &key, "endless").header("x-gateway-trace-id", "left-early");
    let mut call = call.open().await;
    call.chunk().await.expect("a piece").expect("more");
    let open = agent.upstream.open();
    drop(call);
    eventually("the stream ends upstream", || async { (agent.upstream.open() < open).then_some(()) }).await;
    let row = eventually("it is recorded", || async {
        let logs = gateway.admin().get("/logs?trace_id=left-early").await.expect(200).json();
        logs["data"].as_array()?.first().cloned()
    })
    .await;
    assert!(row.to_string().contains("client_gone") && row.to_string().contains("499"), "{row}");
    assert_eq!(row["metrics"]["cost"].as_f64().map(|cents| cents.round()), Some(40.0), "{row}");
    // The budget is charged too: a dollar is two messages of 40 cents.
    let fields = json!({"scopes": ["agents.invoke"], "usage_limits": {"credit_limit": 1, "type": "cost"}});
    let (_, held) = gateway.admin().workspace_key("held", fields).await;
    for _ in 0..2 {
        let mut call = streaming(&gateway, &held, "endless").open().await;
        call.chunk().await.expect("a piece").expect("more");
    }
    eventually("nothing is left", || async {
        let answer = saying(&gateway, &held, "SendMessage", "drip").attempt();
        let answer = tokio::time::timeout(Duration::from_millis(500), answer).await.ok()?.ok()?;
        (answer.status().as_u16() == 412).then_some(())
    })
    .await;
}

#[tokio::test]
async fn streams_end_cleanly_when_the_process_takes_leave() {
    let agent = slow_agent().await;
    let (mut gateway, key) = slow_gateway(&agent, &[]).await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(streaming(&gateway, &key, "work").send());
    eventually("it is under way", || async { agent.upstream.seen().iter().any(|s| s.method == "POST").then_some(()) })
        .await;
    gateway.process.signal("TERM");
    let answer = calls.join_next().await.expect("an answer").expect("no panic");
    let events = sse_events(&answer);
    assert!(answer.whole, "{}", answer.text());
    let last = &events.last().expect("events")["result"]["statusUpdate"]["status"]["state"];
    assert_eq!(last, "TASK_STATE_COMPLETED", "{events:?}");
    assert!(gateway.process.exit(Duration::from_secs(20)).await.success());
}

#[tokio::test]
async fn a_stream_that_does_not_end_is_cut_when_the_time_to_leave_is_over() {
    let agent = slow_agent().await;
    let (mut gateway, key) = slow_gateway(&agent, &["--drain-timeout", "700ms"]).await;
    let mut call = streaming(&gateway, &key, "endless").open().await;
    call.chunk().await.expect("a piece").expect("more");
    let began = std::time::Instant::now();
    gateway.process.signal("TERM");
    gateway.process.exit(Duration::from_secs(10)).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(600) && took < Duration::from_secs(4), "{took:?}");
}
