//! Tasks of MCP servers: a client's word for one leads to the server that has it, for whoever began it and for nobody
//! else, and what a task came to is judged as the result of a call is.

use crate::mcp_script::{Script, Served, code, modern_call};
use serde_json::{Value, json};

const MODERN: Script = Script { streams: false, stateless: false, modern: true, both: false, listens: false };

async fn begin(served: &Served) -> String {
    let call = modern_call(served, "tools/call", json!({"name": "slow", "arguments": {}}));
    let result = call.send().await.expect(200).json()["result"].clone();
    assert_eq!((&result["resultType"], &result["status"]), (&json!("task"), &json!("working")));
    let id = result["taskId"].as_str().expect("an id").to_owned();
    assert!(!id.contains("task-1"));
    id
}

async fn ask(served: &Served, method: &str, task: &str) -> crate::harness::Answer {
    modern_call(served, method, json!({"taskId": task, "inputResponses": {}})).send().await
}

#[tokio::test]
async fn a_task_is_found_again_by_whoever_began_it() {
    let served = Served::start(MODERN).await;
    let discovered = modern_call(&served, "server/discover", json!({})).send().await.expect(200).json();
    assert!(discovered["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    let task = begin(&served).await;
    let told = ask(&served, "tasks/get", &task).await.expect(200).json()["result"].clone();
    assert_eq!((&told["taskId"], &told["status"]), (&json!(task), &json!("completed")));
    assert_eq!(told["result"]["content"][0]["text"], "a forbidden thing");
    for method in ["tasks/update", "tasks/cancel"] {
        let told = ask(&served, method, &task).await.expect(200).json();
        assert_eq!(told["result"]["resultType"], "complete");
    }
    let heard = served.mcp.heard("tasks/get");
    assert_eq!(heard[0].json()["params"]["taskId"], "task-1");
    assert_eq!(heard[0].header("mcp-name"), Some("task-1"));
}

#[tokio::test]
async fn a_task_of_somebody_else_is_an_unknown_one() {
    let served = Served::start(MODERN).await;
    let task = begin(&served).await;
    let (_, other) = served.gateway.admin().workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    let other = Served { key: other, ..served };
    let changed = format!("{}x", &task[..task.len() - 1]);
    for (served, id) in [(&other, task.as_str()), (&other, "task-1"), (&other, &changed), (&other, "")] {
        let answer = ask(served, "tasks/get", id).await.expect(200);
        assert_eq!(code(&answer), -32602, "{id}");
        assert!(!answer.text().contains("forbidden"));
    }
    assert!(other.mcp.heard("tasks/get").is_empty());
}

#[tokio::test]
async fn a_task_of_a_tool_that_is_switched_off_is_an_unknown_one() {
    let served = Served::start(MODERN).await;
    let task = begin(&served).await;
    let off = json!({"capabilities": [{"name": "slow", "type": "tool", "enabled": false}]});
    served.gateway.admin().put("/mcp-servers/files/capabilities", &off).await.expect(200);
    assert_eq!(code(&ask(&served, "tasks/get", &task).await.expect(200)), -32602);
    assert!(served.mcp.heard("tasks/get").is_empty());
}

#[tokio::test]
async fn what_a_task_came_to_is_judged() {
    let served = Served::start(MODERN).await;
    let task = begin(&served).await;
    let words = json!({"id": "default.contains", "parameters": {"words": ["forbidden"], "operator": "none"}});
    let guardrail = json!({"name": "words", "checks": [words], "actions": {"deny": true}});
    let made = served.gateway.admin().post("/guardrails", &guardrail).await.expect(200).json();
    let defaults = json!({"defaults": {"output_guardrails": [made["slug"]]}});
    served.gateway.admin().put("/admin/workspaces/default", &defaults).await.expect(200);
    let told = ask(&served, "tasks/get", &task).await.expect(200);
    assert!(!told.text().contains("forbidden thing"), "{}", told.text());
    let result: Value = told.json()["result"].clone();
    assert_eq!((&result["taskId"], &result["result"]["isError"]), (&json!(task), &json!(true)));
}

#[tokio::test]
async fn a_task_outlives_the_node_and_is_found_among_members() {
    let served = Served::start(MODERN).await;
    let members = json!([{"mcp_server_id": "files"}]);
    let body = json!({"name": "Suite", "slug": "suite", "members": members});
    served.gateway.admin().post("/mcp-servers", &body).await.expect(200);
    let served = Served { path: "/suite/mcp", ..served };
    let call = modern_call(&served, "tools/call", json!({"name": "files__slow", "arguments": {}}));
    let task = call.send().await.expect(200).json()["result"]["taskId"].as_str().expect("an id").to_owned();
    let Served { gateway, mcp, key, path } = served;
    let served = Served { gateway: gateway.restart_with(&[]).await, mcp, key, path };
    let told = ask(&served, "tasks/get", &task).await.expect(200).json();
    assert_eq!(told["result"]["status"], "completed");
}

#[tokio::test]
async fn a_server_without_tasks_has_no_such_methods() {
    let served = Served::start(Script::default()).await;
    assert_eq!(code(&ask(&served, "tasks/get", "x").await), -32601);
}
