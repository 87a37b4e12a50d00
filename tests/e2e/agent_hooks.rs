//! Webhooks that agents are to call: none until somebody allows them, then only those that anybody may have called,
//! each of its caller's own tasks.

use crate::agent_script::{AgentScript, ServedAgent, says};
use crate::forbidden::hosts;
use crate::harness::Answer;
use serde_json::{Value, json};

const HOOK: &str = "https://hooks.example.com/a?b=c";

fn code(answer: &Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", answer.text()))
}

/// Every place of a request where a webhook's address may stand: version, method, parameters.
fn placed(task: &str, url: &str) -> Vec<(&'static str, &'static str, Value)> {
    let message = |parts: Value| json!({"messageId": "m", "role": "user", "parts": parts});
    let new = message(json!([{"text": "x"}]));
    let old = message(json!([{"kind": "text", "text": "x"}]));
    let config = json!({"url": url});
    vec![
        ("1.0", "CreateTaskPushNotificationConfig", json!({"taskId": task, "url": url})),
        ("1.0", "SendMessage", json!({"message": new, "configuration": {"taskPushNotificationConfig": config}})),
        (
            "1.0",
            "SendStreamingMessage",
            json!({"message": new, "configuration": {"task_push_notification_config": config}}),
        ),
        ("0.3", "tasks/pushNotificationConfig/set", json!({"taskId": task, "pushNotificationConfig": config})),
        ("0.3", "message/send", json!({"message": old, "configuration": {"pushNotificationConfig": config}})),
        ("0.3", "message/stream", json!({"message": old, "configuration": {"push_notification_config": config}})),
        ("0.3", "tasks/send", json!({"id": task, "message": old, "pushNotification": config})),
    ]
}

/// An agent whose push notifications are allowed, and a task of the caller's.
async fn allowed() -> (ServedAgent, String) {
    let served = ServedAgent::start(AgentScript::default()).await;
    let begun = served.rpc("1.0", "SendMessage", says("mine")).await.expect(200).json();
    let task = begun["result"]["task"]["id"].as_str().expect("a task").to_owned();
    let on = json!({"capabilities": [{"name": "push_notifications", "enabled": true}]});
    served.gateway.admin().put("/agent-integrations/a-int/capabilities", &on).await.expect(200);
    (served, task)
}

#[tokio::test]
async fn webhooks_are_refused_in_every_place_until_they_are_allowed() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let begun = served.rpc("1.0", "SendMessage", says("mine")).await.expect(200).json();
    let task = begun["result"]["task"]["id"].as_str().expect("a task");
    let before = served.heard().len();
    for (version, method, params) in placed(task, HOOK) {
        assert_eq!(code(&served.rpc(version, method, params).await.expect(200)), -32003, "{version} {method}");
    }
    let path = format!("/rest/tasks/{task}/pushNotificationConfigs");
    let rest = served.call("POST", &path).header("a2a-version", "1.0").json(&json!({"url": HOOK}));
    let refused = rest.send().await.expect(400).json();
    assert_eq!(refused["error"]["details"][0]["reason"], "PUSH_NOTIFICATION_NOT_SUPPORTED", "{refused}");
    assert_eq!(served.heard().len(), before, "the agent heard nothing of it");
}

#[tokio::test]
async fn a_webhook_that_is_allowed_reaches_the_agent_for_its_own_task_and_for_no_others() {
    let (served, task) = allowed().await;
    for (version, method, params) in placed(&task, HOOK) {
        let before = served.heard().len();
        let answer = served.rpc(version, method, params).await.expect(200);
        let heard = served.heard().pop().expect("a call");
        assert_eq!(served.heard().len(), before + 1, "{method}: {}", answer.text());
        assert!(heard.text().contains(HOOK), "{method}: {}", heard.text());
        assert!(!heard.text().contains(&task) || method == "tasks/send", "by the agent's own id: {}", heard.text());
    }
    let named = json!({"taskId": task, "id": "h-1"});
    for method in
        ["GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"]
    {
        let told = served.rpc("1.0", method, named.clone()).await.expect(200).text();
        assert_eq!(served.heard().pop().expect("a call").json()["params"]["taskId"], "task-7", "{method}");
        assert!(!told.contains("task-7") && !told.contains("error"), "{method}: {told}");
    }
    // In version 0.3 the parameters of these name the task by `id`.
    let old = json!({"id": task, "pushNotificationConfigId": "h-1"});
    for method in
        ["tasks/pushNotificationConfig/get", "tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete"]
    {
        served.rpc("0.3", method, old.clone()).await.expect(200);
        assert_eq!(served.heard().pop().expect("a call").json()["params"]["id"], "task-7", "{method}");
    }
    let path = format!("/rest/tasks/{task}/pushNotificationConfigs");
    let rest = |method: &str, path: &str| served.call(method, path).header("a2a-version", "1.0");
    let made = rest("POST", &path).json(&json!({"url": HOOK})).send().await.expect(200).json();
    assert_eq!((&made["taskId"], &made["url"]), (&json!(task), &json!(HOOK)));
    rest("DELETE", &format!("{path}/h-1")).send().await.expect(200);
    assert_eq!(served.heard().pop().expect("a call").target, "/v1/rest/tasks/task-7/pushNotificationConfigs/h-1");
    // Somebody else's task is not found, whatever is asked of its webhooks.
    let (other, before) = (served.other_key().await, served.heard().len());
    for (method, params) in [
        ("CreateTaskPushNotificationConfig", json!({"taskId": task, "url": HOOK})),
        ("GetTaskPushNotificationConfig", named.clone()),
        ("ListTaskPushNotificationConfigs", named.clone()),
        ("DeleteTaskPushNotificationConfig", named),
    ] {
        let refused = served.rpc_as(&other, "1.0", method, params).await.expect(200);
        assert_eq!(code(&refused), -32001, "{method}");
    }
    assert_eq!(served.heard().len(), before, "nothing of it reached the agent");
}

#[tokio::test]
async fn no_webhook_leads_where_nobody_may_be_called() {
    let (served, task) = allowed().await;
    let (before, mut tried) = (served.heard().len(), 0);
    for host in hosts() {
        // Hosts of this very test are trusted.
        let saved = json!({"url": host, "auth_type": "none", "transport": "http"});
        if served.gateway.admin().post("/mcp-integrations/test", &saved).await.status != 400 {
            continue;
        }
        tried += 1;
        for (version, method, params) in placed(&task, host) {
            let refused = served.rpc(version, method, params).await.expect(200);
            assert_eq!(code(&refused), -32602, "{host} in {version} {method}");
            assert!(refused.text().contains("webhook"), "{}", refused.text());
        }
        let path = format!("/rest/tasks/{task}/pushNotificationConfigs");
        let rest = served.call("POST", &path).header("a2a-version", "1.0").json(&json!({"url": host}));
        let refused = rest.send().await.expect(400);
        assert!(refused.text().contains("webhook"), "{host}: {}", refused.text());
    }
    assert_eq!(served.heard().len(), before, "nothing of it reached the agent");
    assert!(tried >= 40, "{tried} were tried");
}
