//! Agents through the gateway: both versions and bindings, whose tasks are whose, limits, guardrails, streams that
//! break, and where calls go whatever a card claims. The agent is scripted, so that what reaches it can be read.

use crate::agent_script::{AgentScript, CREDENTIAL, PUBLIC, ServedAgent, says, sse_events};
use crate::harness::{Answer, eventually, stand_at_noon};
use serde_json::{Value, json};

fn code(answer: &Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", answer.text()))
}

#[tokio::test]
async fn messages_pass_in_both_versions_and_both_bindings() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let new = served.rpc("1.0", "SendMessage", says("hi")).await.expect(200).json();
    assert_eq!(new["id"], "r-1");
    assert_eq!(new["result"]["task"]["artifacts"][0]["parts"][0]["text"], "hi");
    let message =
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "ho"}]});
    for version in ["", "0.3"] {
        let old = served.rpc(version, "message/send", json!({"message": message})).await.expect(200).json();
        assert_eq!(old["result"]["artifacts"][0]["parts"][0]["text"], "ho", "{old}");
    }
    let rest = served.call("POST", "/rest/message:send").header("a2a-version", "1.0").json(&says("rest"));
    let rest = rest.send().await.expect(200).json();
    assert_eq!(rest["task"]["artifacts"][0]["parts"][0]["text"], "rest");
    let task = rest["task"]["id"].as_str().expect("an id").to_owned();
    let again = served.call("GET", &format!("/rest/tasks/{task}?historyLength=2")).header("a2a-version", "1.0");
    assert_eq!(again.send().await.expect(200).json()["id"], task, "the same id each time");
    let heard = served.heard();
    let targets: Vec<&str> = heard.iter().map(|seen| seen.target.as_str()).collect();
    let rest = ["/v1/rest/message:send", "/v1/rest/tasks/task-7?historyLength=2"];
    assert_eq!(targets, [&["/v1/a2a"; 3][..], &rest].concat());
    assert!(heard.iter().all(|seen| seen.header("authorization") == Some(CREDENTIAL)), "{heard:?}");
    assert!(heard.iter().all(|seen| !format!("{:?}{}", seen.headers, seen.text()).contains(&served.key)));
    let older = json!({"id": "mine", "sessionId": "s", "message": message});
    let older = served.rpc("", "tasks/send", older).await.expect(200).json();
    assert_eq!((&older["result"]["id"], &older["result"]["sessionId"]), (&json!("mine"), &json!("s")));
    assert_eq!(code(&served.rpc("2.0", "SendMessage", says("x")).await.expect(200)), -32009);
    assert_eq!(code(&served.rpc("1.0", "message/send", says("x")).await.expect(200)), -32601);
    let unread = served.call("POST", "").body("application/json", "{").send().await;
    assert_eq!(code(&unread.expect(200)), -32700);
}

/// The card's ids, in either version's card; a card that is too long or has no name; a task of somebody else's.
#[tokio::test]
async fn cards_lead_to_the_gateway_bad_cards_are_refused_and_tasks_of_others_are_not_found() {
    let served = ServedAgent::start(AgentScript::default()).await;
    for place in ["/.well-known/agent-card.json", "/.well-known/agent.json"] {
        let answer = served.call("GET", place).send().await.expect(200);
        assert_eq!(answer.header("cache-control"), Some("private, max-age=300"));
        let tag = answer.header("etag").expect("a tag").to_owned();
        let card = answer.json();
        let base = format!("{PUBLIC}/v1/agent/helper");
        assert_eq!(card["url"], format!("{base}/a2a"));
        assert_eq!(card["supportedInterfaces"][1]["url"], format!("{base}/rest"));
        assert!(!card.to_string().contains(&served.agent.url()), "{card}");
        let same = served.call("GET", place).header("if-none-match", &tag).send().await.expect(304);
        assert!(same.text().is_empty());
    }
    for body in [json!({"url": "https://a"}), json!({"name": "a", "url": "https://a", "x": "x".repeat(1 << 20)})] {
        let bad = crate::agent_script::carded(move |_| body.clone()).await;
        let asked = json!({"url": bad.url()});
        served.gateway.admin().post("/agent-integrations/fetch-agent-card", &asked).await.expect(400);
    }
    let begun = served.rpc("1.0", "SendMessage", says("mine")).await.expect(200).json();
    let (task, context) = (&begun["result"]["task"]["id"], &begun["result"]["task"]["contextId"]);
    assert!(!begun.to_string().contains("task-7"), "{begun}");
    let own = served.rpc("1.0", "GetTask", json!({"id": task})).await.expect(200).json();
    assert_eq!((&own["result"]["id"], own["result"]["status"]["state"].as_str()), (task, Some("TASK_STATE_COMPLETED")));
    assert_eq!(served.heard().pop().expect("a call").json()["params"]["id"], "task-7");
    let (other, before) = (served.other_key().await, served.heard().len());
    for (method, params) in [
        ("GetTask", json!({"id": task})),
        ("GetTask", json!({"id": "task-7"})),
        ("CancelTask", json!({"id": task})),
        ("SubscribeToTask", json!({"id": task})),
        ("SendMessage", json!({"message": {"messageId": "m", "taskId": task, "parts": []}})),
        ("SendMessage", json!({"message": {"messageId": "m", "task_id": "task-7", "parts": []}})),
        ("SendMessage", json!({"message": {"messageId": "m", "contextId": context, "parts": []}})),
        ("SendMessage", json!({"message": {"messageId": "m", "referenceTaskIds": [task], "parts": []}})),
    ] {
        let refused = served.rpc_as(&other, "1.0", method, params.clone()).await.expect(200);
        assert_eq!(code(&refused), -32001, "{method} {params}: {}", refused.text());
    }
    let path = format!("/v1/agent/helper/rest/tasks/{}", task.as_str().expect("an id"));
    let refused = served.gateway.get(&path).key(&other).header("a2a-version", "1.0").send().await.expect(404).json();
    assert_eq!(refused["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
    let listed = served.rpc("1.0", "ListTasks", json!({})).await.expect(200);
    assert_eq!((code(&listed), served.heard().len()), (-32004, before), "nothing of it reached the agent");
    // A context of a client's own is that client's, whatever others call theirs.
    let named = json!({"message": {"messageId": "m", "contextId": "chat-1", "parts": [{"text": "x"}]}});
    let mine = served.rpc("1.0", "SendMessage", named.clone()).await.expect(200).json();
    served.rpc_as(&other, "1.0", "SendMessage", named).await.expect(200);
    assert_eq!(mine["result"]["task"]["contextId"], "chat-1");
    let context = |at: usize| served.heard()[at].json()["params"]["message"]["contextId"].clone();
    let heard = served.heard().len();
    assert_ne!(context(heard - 1), context(heard - 2));
}

#[tokio::test]
async fn calls_go_to_the_registered_address_whatever_a_card_claims() {
    let served = ServedAgent::start(AgentScript { is_far: true, ..AgentScript::default() }).await;
    let answer = served.rpc("1.0", "SendMessage", says("hi")).await.expect(200).json();
    assert_eq!(answer["result"]["task"]["artifacts"][0]["parts"][0]["text"], "hi");
    assert_eq!(served.heard().pop().expect("a call").target, "/v1", "and not to far.example.com");
    let card = served.call("GET", "/.well-known/agent-card.json").send().await.expect(200);
    assert!(!card.text().contains("far.example.com"), "{}", card.text());
}

#[tokio::test]
async fn streams_pass_as_they_come_and_one_that_breaks_ends_with_an_error() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let answer = served.rpc("1.0", "SendStreamingMessage", says("hello")).await.expect(200);
    let events = sse_events(&answer);
    assert_eq!(events.len(), 4, "{}", answer.text());
    let task = &events[0]["result"]["task"]["id"];
    assert_eq!((&events[3]["result"]["statusUpdate"]["taskId"], &events[3]["id"]), (task, &json!("r-1")));
    let message = json!({"messageId": "m", "parts": [{"kind": "text", "text": "hello"}]});
    let old = sse_events(&served.rpc("", "message/stream", json!({"message": message})).await.expect(200));
    assert_eq!((&old[0]["result"]["id"], &old[3]["result"]["final"]), (&old[3]["result"]["taskId"], &json!(true)));
    let rest = served.call("POST", "/rest/message:stream").header("a2a-version", "1.0").json(&says("hello"));
    let rest = sse_events(&rest.send().await.expect(200));
    assert_eq!(rest[3]["statusUpdate"]["taskId"], rest[0]["task"]["id"]);
    let broken = ServedAgent::start(AgentScript { breaks: true, ..AgentScript::default() }).await;
    let events = sse_events(&broken.rpc("1.0", "SendStreamingMessage", says("hello")).await.expect(200));
    assert_eq!((events.len(), &events[2]["error"]["code"], &events[2]["id"]), (3, &json!(502), &json!("r-1")));
    let rest = broken.call("POST", "/rest/message:stream").header("a2a-version", "1.0").json(&says("hello"));
    let events = sse_events(&rest.send().await.expect(200));
    assert_eq!(events[2]["error"]["code"], 502, "{events:?}");
}

#[tokio::test]
async fn who_may_not_call_hears_so_and_what_is_elsewhere_is_missing() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let admin = served.gateway.admin();
    let (_, without) = admin.workspace_key("models", json!({"scopes": ["completions.write", "mcp.invoke"]})).await;
    let refused = served.rpc_as(&without, "1.0", "SendMessage", says("x")).await.expect(403);
    assert!(refused.text().contains("agents.invoke"), "{}", refused.text());
    served.gateway.call("POST", "/v1/agent/nobody").key(&served.key).json(&json!({})).send().await.expect(404);
    for below in ["/other", "/tasks/x/y", "/.well-known/other.json", "/rest"] {
        served.call("GET", below).send().await.expect(404);
    }
    let deny = json!({"default_user_access": "deny"});
    admin.put("/agent-servers/helper/user-access", &deny).await.expect(200);
    served.rpc("1.0", "SendMessage", says("x")).await.expect(403);
    admin.put("/agent-servers/helper/user-access", &json!({"default_user_access": "allow"})).await.expect(200);
    let shut = json!({"workspaces": [], "global_workspace_access": {"enabled": false}});
    admin.put("/agent-integrations/a-int/workspaces", &shut).await.expect(200);
    served.rpc("1.0", "SendMessage", says("x")).await.expect(404);
    assert_eq!(served.heard().len(), 0, "nothing of it reached the agent");
}

#[tokio::test]
async fn what_is_switched_off_is_refused_and_agents_call_nobody_unasked() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let admin = served.gateway.admin();
    let hook = |url: &str| json!({"taskId": "t", "url": url});
    let with_hook = |url: &str| {
        json!({"message": {"messageId": "m", "parts": []},
            "configuration": {"task_push_notification_config": {"url": url}}})
    };
    for (method, params) in [
        ("CreateTaskPushNotificationConfig", hook("https://hooks.example.com/")),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "t"})),
        ("SendMessage", with_hook("https://hooks.example.com/")),
    ] {
        assert_eq!(code(&served.rpc("1.0", method, params).await.expect(200)), -32003, "{method}");
    }
    let on = json!({"capabilities": [{"name": "push_notifications", "enabled": true}]});
    admin.put("/agent-integrations/a-int/capabilities", &on).await.expect(200);
    for url in ["http://169.254.169.254/latest", "http://10.0.0.1/", "ftp://a", ""] {
        assert_eq!(code(&served.rpc("1.0", "SendMessage", with_hook(url)).await.expect(200)), -32602, "{url}");
    }
    assert_eq!(served.heard().len(), 0);
    served.rpc("1.0", "SendMessage", with_hook("https://hooks.example.com/")).await.expect(200);
    assert_eq!(served.heard().len(), 1);
    let off = json!({"capabilities": [{"name": "streaming", "enabled": false},
        {"name": "extended_agent_card", "enabled": false}]});
    let extended = served.rpc("1.0", "GetExtendedAgentCard", json!({})).await.expect(200).json();
    assert_eq!(extended["result"]["url"], format!("{PUBLIC}/v1/agent/helper/a2a"));
    admin.put("/agent-servers/helper/capabilities", &off).await.expect(200);
    assert_eq!(code(&served.rpc("1.0", "SendStreamingMessage", says("x")).await.expect(200)), -32004);
    assert_eq!(code(&served.rpc("1.0", "GetExtendedAgentCard", json!({})).await.expect(200)), -32007);
}

#[tokio::test]
async fn messages_at_their_limit_are_a_429_and_to_ask_how_a_task_stands_is_free() {
    stand_at_noon();
    let served = ServedAgent::start(AgentScript::default()).await;
    let policy = json!({"name": "One Message", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 1,
        "conditions": [{"key": "mcp_server", "value": "helper"}], "group_by": [{"key": "mcp_server"}]});
    served.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let begun = served.rpc("1.0", "SendMessage", says("hi")).await.expect(200).json();
    let refused = served.rpc("1.0", "SendMessage", says("hi")).await.expect(429);
    let body = refused.json();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!("r-1"), &json!(429)), "{body}");
    assert!(refused.header("retry-after").is_some() && body.to_string().contains("One Message"), "{body}");
    served.rpc("1.0", "GetTask", json!({"id": begun["result"]["task"]["id"]})).await.expect(200);
    assert_eq!(served.heard().len(), 2);
}

#[tokio::test]
async fn guardrails_judge_what_is_sent_and_what_is_said_in_pieces_too() {
    let served = ServedAgent::start(AgentScript { says: Some("a forbidden thing"), ..AgentScript::default() }).await;
    let admin = served.gateway.admin();
    let check = |word: &str| json!([{"id": "contains", "parameters": {"words": [word], "operator": "none"}}]);
    let denies = json!({"deny": true});
    let mut slugs = Vec::new();
    for (name, word) in [("in", "secret"), ("out", "forbidden")] {
        let body = json!({"name": name, "checks": check(word), "actions": denies});
        slugs.push(admin.post("/guardrails", &body).await.expect(200).json()["slug"].clone());
    }
    let defaults = json!({"defaults": {"input_guardrails": [slugs[0]], "output_guardrails": [slugs[1]]}});
    admin.put("/admin/workspaces/default", &defaults).await.expect(200);
    let refused = served.rpc("1.0", "SendMessage", says("a secret")).await.expect(200).json();
    assert_eq!((&refused["error"]["code"], served.heard().len()), (&json!(446), 0), "{refused}");
    let refused = served.rpc("1.0", "SendMessage", says("plain")).await.expect(200);
    assert_eq!(code(&refused), 446);
    assert!(!refused.text().contains("a forbidden thing"), "{}", refused.text());
    let refused = served.rpc("1.0", "SendStreamingMessage", says("plain")).await.expect(200);
    let events = sse_events(&refused);
    assert_eq!((events.len(), &events[0]["error"]["code"]), (1, &json!(446)), "{}", refused.text());
}

#[tokio::test]
async fn records_name_the_method_the_agent_and_how_its_task_stands() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let priced = json!({"configurations": {"pricing": {"default_usd_per_call": 0.5}}});
    served.gateway.admin().put("/agent-integrations/a-int", &priced).await.expect(200);
    served.rpc("1.0", "SendStreamingMessage", says("hi")).await.expect(200);
    served.rpc("1.0", "GetTask", json!({"id": "foreign"})).await.expect(200);
    let admin = served.gateway.admin();
    let found = eventually("both are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let rows: Vec<Value> = logs["data"].as_array().expect("logs").clone();
        let rows: Vec<Value> = rows.into_iter().filter(|row| row.to_string().contains("a2a.")).collect();
        (rows.len() >= 2).then_some(rows)
    })
    .await;
    let tool = |method: &str| found.iter().map(|row| &row["tool"]).find(|tool| tool["method"] == method).cloned();
    let sent = tool("SendStreamingMessage").expect("a message");
    assert_eq!((&sent["protocol"], &sent["server"]), (&json!("a2a"), &json!("helper")));
    assert_eq!((&sent["name"], &sent["task_state"]), (&Value::Null, &json!("completed")));
    let all = Value::from(found).to_string();
    for told in ["a2a.SendStreamingMessage", "a2a.GetTask", "helper", "completed"] {
        assert!(all.contains(told), "{told}: {all}");
    }
}

#[tokio::test]
async fn a_message_costs_its_price_in_the_record_and_of_the_budget() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let admin = served.gateway.admin();
    let priced = json!({"configurations": {"pricing": {"default_usd_per_call": 0.4}}});
    admin.put("/agent-integrations/a-int", &priced).await.expect(200);
    // A dollar is two messages of 40 cents, and what is left is too little for a third.
    let fields = json!({"scopes": ["agents.invoke"], "usage_limits": {"credit_limit": 1, "type": "cost"}});
    let (_, key) = admin.workspace_key("held", fields).await;
    for method in ["SendMessage", "SendStreamingMessage"] {
        served.rpc_as(&key, "1.0", method, says("hi")).await.expect(200);
    }
    let refused = served.rpc_as(&key, "1.0", "SendMessage", says("hi")).await.expect(412);
    assert_eq!((code(&refused), &refused.json()["id"]), (412, &json!("r-1")), "{}", refused.text());
    assert_eq!(served.heard().len(), 2, "what was refused reached nobody");
    let costs = eventually("all messages have their cost", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let calls = logs["data"].as_array().expect("logs").iter();
        let costs: Vec<f64> = calls.filter_map(|r| r["metrics"]["cost"].as_f64()).filter(|cost| *cost > 0.0).collect();
        (costs.len() == 2).then_some(costs)
    })
    .await;
    assert!(costs.iter().all(|cents| (cents - 40.0).abs() < 1e-9), "{costs:?}");
    // An answer that a guardrail keeps back was given all the same.
    let word = json!([{"id": "contains", "parameters": {"words": ["hi"], "operator": "none"}}]);
    let guardrail = json!({"name": "words", "checks": word, "actions": {"deny": true}});
    let slug = admin.post("/guardrails", &guardrail).await.expect(200).json()["slug"].clone();
    let defaults = json!({"defaults": {"output_guardrails": [slug]}});
    admin.put("/admin/workspaces/default", &defaults).await.expect(200);
    for method in ["SendMessage", "SendStreamingMessage"] {
        let denied = served.rpc("1.0", method, says("hi")).await.expect(200);
        assert!(denied.text().contains("446"), "{}", denied.text());
    }
    eventually("what was denied has its cost too", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let calls = logs["data"].as_array().expect("logs").iter();
        let count = calls.filter(|r| r["metrics"]["cost"].as_f64() > Some(0.0)).count();
        (count == 4).then_some(())
    })
    .await;
    let metrics = served.gateway.metrics().await;
    assert!(metrics.contains("a2a.SendMessage"), "{metrics}");
}

#[tokio::test]
async fn an_agent_that_fails_again_and_again_is_left_alone() {
    let served = ServedAgent::start(AgentScript::default()).await;
    let ServedAgent { gateway, agent, key } = served;
    drop(agent);
    let call = |text: &str| {
        let call = gateway.call("POST", "/v1/agent/helper").key(&key).header("a2a-version", "1.0");
        call.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says(text)})).send()
    };
    for _ in 0..5 {
        let away = call("hi").await.expect(503);
        assert!(away.text().contains("cannot be reached"), "{}", away.text());
    }
    let left = call("hi").await.expect(503);
    assert!(left.text().contains("left alone"), "{}", left.text());
}

#[tokio::test]
async fn nothing_secret_of_an_agent_is_told() {
    let served = ServedAgent::start(AgentScript { says: Some("a quiet word"), ..AgentScript::default() }).await;
    let admin = served.gateway.admin();
    for method in ["SendMessage", "SendStreamingMessage"] {
        let answer = served.rpc("1.0", method, says("hi")).await.expect(200);
        assert!(!format!("{:?}{}", answer.headers, answer.text()).contains("upstream-secret"));
    }
    let records = eventually("both are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200);
        (logs.json()["data"].as_array().expect("logs").len() >= 2).then(|| logs.text())
    })
    .await;
    let shown = [
        records,
        admin.get("/agent-integrations/a-int").await.expect(200).text(),
        admin.get("/agent-servers/helper/agent-card").await.expect(200).text(),
        served.gateway.metrics().await,
    ];
    for text in shown {
        assert!(!text.contains("upstream-secret-1234") && !text.contains(&served.key), "{text}");
    }
    assert!(served.heard().iter().all(|seen| !format!("{:?}{}", seen.headers, seen.text()).contains(&served.key)));
}
