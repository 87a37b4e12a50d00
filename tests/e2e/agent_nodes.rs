//! Agents belong to no node: tasks that one node told of any other knows, for the same caller alone, after a restart
//! too; and what a node that is killed had done is not lost.

use crate::agent_script::{AgentScript, CREDENTIAL, PUBLIC, ServedAgent, agent, says, sse_events};
use crate::harness::{Answer, Gateway, eventually};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A database that two nodes share.
async fn database(name: &'static str) -> (Arc<Postgres>, String) {
    let made = tokio::task::spawn_blocking(move || (Postgres::shared(), Postgres::shared().create(name))).await;
    made.expect("no panic")
}

fn code(answer: &Answer) -> Option<i64> {
    answer.json()["error"]["code"].as_i64()
}

async fn ask(gateway: &Gateway, key: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let call = gateway.call("POST", "/v1/agent/helper").key(key).header("a2a-version", "1.0");
    call.json(&body).send().await
}

#[tokio::test]
async fn a_task_is_known_on_another_node_and_after_a_restart_to_its_caller_alone() {
    let (_postgres, url) = database("agent_nodes").await;
    let flags = ["--database-url", &url];
    let served = ServedAgent::with(AgentScript::default(), &flags).await;
    let other_key = served.other_key().await;
    let begun = served.rpc("1.0", "SendMessage", says("mine")).await.expect(200).json();
    let (task, context) = (begun["result"]["task"]["id"].clone(), begun["result"]["task"]["contextId"].clone());
    let master = served.gateway.folder().join("data/master.key").display().to_string();
    let second = Gateway::with(&["--database-url", &url, "--master-key-file", &master, "--public-url", PUBLIC]).await;
    let ServedAgent { mut gateway, agent, key } = served;
    let named = json!({"id": task});
    eventually("the other node knows the agent and both keys", || async {
        let all = [ask(&second, &key, "GetTask", named.clone()), ask(&second, &other_key, "GetTask", named.clone())];
        futures_util::future::join_all(all).await.iter().all(|answer| answer.status == 200).then_some(())
    })
    .await;
    for round in ["on another node", "after a restart", "after a kill"] {
        for node in [&gateway, &second] {
            let found = ask(node, &key, "GetTask", named.clone()).await.expect(200).json();
            assert_eq!(found["result"]["id"], task, "{round}: {found}");
            let more = json!({"message": {"messageId": "m", "taskId": task, "contextId": context, "parts": []}});
            let more = ask(node, &key, "SendMessage", more).await.expect(200).json();
            assert_eq!((&more["result"]["task"]["id"], &more["result"]["task"]["contextId"]), (&task, &context));
            let before = agent.seen().len();
            let refused = ask(node, &other_key, "GetTask", named.clone()).await.expect(200);
            assert_eq!((code(&refused), agent.seen().len()), (Some(-32001), before), "{round}");
        }
        // The task has the same id each time, so that a client may go by it.
        let streamed = ask(&second, &key, "SendStreamingMessage", says("again")).await.expect(200);
        assert_eq!(sse_events(&streamed)[0]["result"]["task"]["id"], task, "{round}");
        let flags = ["--database-url", url.as_str(), "--public-url", PUBLIC];
        gateway = match round {
            "on another node" => gateway.restart_with(&flags).await,
            _ => gateway.restart_after_kill(&flags).await,
        };
    }
}

#[tokio::test]
async fn what_is_changed_at_one_node_holds_on_the_other_though_the_first_is_killed() {
    let (_postgres, url) = database("agent_changes").await;
    let mut served = ServedAgent::with(AgentScript::default(), &["--database-url", &url]).await;
    let master = served.gateway.folder().join("data/master.key").display().to_string();
    let second = Gateway::with(&["--database-url", &url, "--master-key-file", &master, "--public-url", PUBLIC]).await;
    eventually("the other node knows the agent", || async {
        (ask(&second, &served.key, "SendStreamingMessage", says("x")).await.status == 200).then_some(())
    })
    .await;
    // The last thing that the first node did was to write all this.
    let admin = served.gateway.admin();
    let off = json!({"capabilities": [{"name": "streaming", "enabled": false}]});
    let moved = agent(AgentScript { says: Some("moved"), ..AgentScript::default() }).await;
    let more = json!({"name": "More", "slug": "more", "agent_integration_id": "a-int"});
    admin.put("/agent-servers/helper/capabilities", &off).await.expect(200);
    admin.post("/agent-servers", &more).await.expect(200);
    let there = json!({"url": moved.url(), "configurations": {"custom_headers": {"authorization": CREDENTIAL}}});
    admin.put("/agent-integrations/a-int", &there).await.expect(200);
    served.gateway.process.signal("KILL");
    served.gateway.process.exit(Duration::from_secs(20)).await;
    eventually("all of it holds", || async {
        let refused = ask(&second, &served.key, "SendStreamingMessage", says("x")).await;
        let sent = ask(&second, &served.key, "SendMessage", says("x")).await;
        (code(&refused) == Some(-32004) && sent.text().contains("moved")).then_some(())
    })
    .await;
    assert_eq!(moved.seen().pop().expect("a call").header("authorization"), Some(CREDENTIAL));
    let shown = second.admin().get("/agent-servers/more/agent-card").await.expect(200).json();
    assert_eq!(shown["url"], format!("{PUBLIC}/v1/agent/more/a2a"), "with the card that was fetched there");
}

#[tokio::test]
async fn what_a_message_cost_is_known_after_a_kill() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let admin = served.gateway.admin();
    let priced = json!({"configurations": {"pricing": {"default_usd_per_call": 0.4}}});
    admin.put("/agent-integrations/a-int", &priced).await.expect(200);
    let fields = json!({"scopes": ["agents.invoke"], "usage_limits": {"credit_limit": 1, "type": "cost"}});
    let (_, key) = admin.workspace_key("held", fields).await;
    let before = served.gateway.journal_bytes();
    for method in ["SendMessage", "SendStreamingMessage"] {
        served.rpc_as(&key, "1.0", method, says("hi")).await.expect(200);
    }
    eventually("both would outlive a kill", || async { (served.gateway.journal_bytes() > before).then_some(()) }).await;
    // What was written last is as good as written once it is on disk, which is a moment later.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let ServedAgent { gateway, agent, .. } = served;
    let gateway = gateway.restart_after_kill(&["--public-url", PUBLIC]).await;
    let heard = agent.seen().len();
    let refused = ask(&gateway, &key, "SendMessage", says("hi")).await.expect(412);
    assert_eq!((code(&refused), agent.seen().len()), (Some(412), heard), "{}", refused.text());
    let admin = gateway.admin();
    eventually("both are recorded once", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let rows = logs["data"].as_array().expect("logs").iter();
        let costs = rows.filter(|row| row["metrics"]["cost"].as_f64() > Some(0.0)).count();
        assert!(costs <= 2, "{logs}");
        (costs == 2).then_some(())
    })
    .await;
}
