//! Clients of 2024-11-05 before the gateway (`--mcp-legacy-sse`): a stream of events, messages that are posted beside
//! it, and every check that other clients meet.

use crate::harness::call::Call;
use crate::harness::{Gateway, eventually, stand_at_noon};
use crate::mcp_script::{Script, Served, initialize, request, tool_call};
use crate::mcp_sse_server::SseServed;
use serde_json::{Value, json};
use std::time::Duration;

const FLAG: &[&str] = &["--mcp-legacy-sse", "true"];

/// A client that reads its stream.
struct LegacyClient<'g> {
    gateway: &'g Gateway,
    key: String,
    stream: reqwest::Response,
    held: String,
    endpoint: String,
}

fn get(gateway: &Gateway, path: &str, key: &str) -> Call {
    gateway.call("GET", path).key(key).header("accept", "text/event-stream")
}

impl<'g> LegacyClient<'g> {
    async fn connect(gateway: &'g Gateway, path: &str, key: &str) -> Self {
        let stream = get(gateway, path, key).open().await;
        assert_eq!(stream.status(), 200);
        let (held, endpoint) = (String::new(), String::new());
        let mut client = Self { gateway, key: key.to_owned(), stream, held, endpoint };
        let (event, endpoint) = client.event().await.expect("an event");
        assert_eq!(event, "endpoint");
        client.endpoint = endpoint;
        client
    }

    /// Opens a session as a client of that time does.
    async fn open(gateway: &'g Gateway, path: &str, key: &str, capabilities: Value) -> Self {
        let mut client = Self::connect(gateway, path, key).await;
        let mut body = initialize("2024-11-05");
        body["params"]["capabilities"] = capabilities;
        client.send(&body).await;
        let answer = client.message().await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05", "{answer}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    fn post(&self, key: &str, body: &Value) -> Call {
        self.gateway.call("POST", &self.endpoint).key(key).json(body)
    }

    async fn send(&self, body: &Value) {
        let taken = self.post(&self.key, body).send().await.expect(202);
        assert!(taken.text().is_empty(), "{}", taken.text());
    }

    /// The next event, by name and data; `None`: the stream has ended.
    async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.held.split_once("\n\n") {
                let named = |field: &str| event.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned);
                let found = named("event: ").zip(named("data: "));
                self.held = rest.to_owned();
                match found {
                    Some(found) => return Some(found),
                    None => continue,
                }
            }
            let next = tokio::time::timeout(Duration::from_secs(20), self.stream.chunk()).await.expect("in time");
            self.held.push_str(&String::from_utf8_lossy(&next.ok().flatten()?));
        }
    }

    async fn message(&mut self) -> Value {
        let (event, data) = self.event().await.expect("a message");
        assert_eq!(event, "message");
        serde_json::from_str(&data).expect("JSON")
    }

    /// The next that answers something; what the server notes meanwhile is skipped.
    async fn answer(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    async fn asked(&mut self, body: &Value) -> Value {
        self.send(body).await;
        self.message().await
    }
}

#[tokio::test]
async fn they_are_not_served_unless_somebody_says_so() {
    let served = Served::start(Script::default()).await;
    let unknown = served.gateway.get("/files/nothing").key(&served.key).send().await;
    let got = get(&served.gateway, "/files/sse", &served.key).send().await;
    let posted = served.gateway.post("/files/messages?sessionId=1").key(&served.key).json(&initialize("2024-11-05"));
    assert_eq!([unknown.status, got.status, posted.send().await.status], [404; 3]);
}

#[tokio::test]
async fn a_client_of_2024_is_answered_over_its_stream() {
    let served = Served::with(Script { listens: true, streams: true, ..Script::default() }, FLAG).await;
    let mut client = LegacyClient::open(&served.gateway, "/files/sse", &served.key, json!({})).await;
    assert!(client.endpoint.starts_with("/files/messages?sessionId="), "{}", client.endpoint);
    client.send(&request("tools/list", json!({}))).await;
    let listed = client.answer().await;
    assert_eq!(listed["result"]["tools"][0]["name"], "echo", "{listed}");
    let noted = client.asked(&tool_call("echo", "c-1")).await;
    assert_eq!(noted["method"], "notifications/message", "{noted}");
    let called = client.message().await;
    assert_eq!((&called["id"], &called["result"]["content"][0]["text"]), (&json!("c-1"), &json!(r#"{"say":"hi"}"#)));
    assert_eq!(served.mcp.heard("tools/call").len(), 1);
    // What is switched here reaches it as it reaches others.
    let off = json!({"capabilities": [{"name": "secret", "type": "tool", "enabled": false}]});
    served.gateway.admin().put("/mcp-servers/files/capabilities", &off).await.expect(200);
    assert_eq!(client.message().await["method"], "notifications/tools/list_changed");
    let bad = client.gateway.call("POST", &client.endpoint).key(&served.key).body("application/json", "{");
    bad.send().await.expect(400);
    let log = eventually("it is recorded", || async {
        let logs = served.gateway.admin().get("/logs?page_size=50").await;
        logs.text().contains("mcp.tools/call").then(|| logs.text())
    })
    .await;
    assert!(log.contains("echo"), "{log}");
    assert_eq!(served.mcp.sessions.lock().expect("no panic").len(), 1);
    drop(client);
    eventually("the server's session ends with the stream", || async {
        served.mcp.sessions.lock().expect("no panic").is_empty().then_some(())
    })
    .await;
    let metrics = served.gateway.metrics().await;
    assert!(metrics.contains(r#"gateway_mcp_kept{table="legacy_streams"} 0"#), "{metrics}");
}

#[tokio::test]
async fn a_client_is_asked_over_its_stream_and_answers_beside_it() {
    let served = SseServed::start(FLAG).await;
    let mut client = LegacyClient::open(&served.gateway, "/events/sse", &served.key, json!({"sampling": {}})).await;
    let asked = client.asked(&tool_call("ask", 5)).await;
    assert_eq!((&asked["id"], &asked["method"]), (&json!("s-1"), &json!("sampling/createMessage")), "{asked}");
    let sampled = json!({"jsonrpc": "2.0", "id": "s-1", "result": {"role": "assistant", "model": "m",
        "content": {"type": "text", "text": "sampled"}}});
    let answer = client.asked(&sampled).await;
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(5), &json!("sampled")), "{answer}");
    // Leaving takes back what is under way.
    client.send(&tool_call("mute", 6)).await;
    eventually("the call is under way", || async { (served.server.heard("tools/call").len() == 2).then_some(()) })
        .await;
    drop(client);
    eventually("the server hears of it", || async { served.server.heard("notifications/cancelled").pop() }).await;
    eventually("its stream is closed", || async { (served.server.open() == 0).then_some(()) }).await;
}

/// Link: <https://github.com/advisories/GHSA-5gf6-gc35-xjpc>, where clients of older versions met no checks.
#[tokio::test]
async fn older_clients_meet_every_check() {
    stand_at_noon();
    let served = Served::with(Script::default(), FLAG).await;
    let (gateway, admin) = (&served.gateway, served.gateway.admin());
    let (_, other) = admin.workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    let (_, unable) = admin.workspace_key("unable", json!({"scopes": ["completions.write"]})).await;
    let (_, held) =
        admin.workspace_key("held", json!({"scopes": ["mcp.invoke"], "mcp_access": {"deny": ["files/secret"]}})).await;
    admin
        .post("/mcp-servers", &json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "files-int"}))
        .await
        .expect(200);
    let policy = json!({"name": "One Echo", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 1,
        "conditions": [{"key": "mcp_tool", "value": "echo"}], "group_by": [{"key": "api_key"}]});
    admin.post("/policies/rate-limits", &policy).await.expect(200);
    gateway.call("GET", "/files/sse").without("x-gateway-api-key").send().await.expect(401);
    get(gateway, "/files/sse", "gw-nobody").send().await.expect(401);
    get(gateway, "/files/sse", &unable).send().await.expect(403);
    get(gateway, "/nothing/sse", &served.key).send().await.expect(404);
    get(gateway, "/files/sse", &served.key).header("origin", "https://evil.example").send().await.expect(403);
    let mut client = LegacyClient::open(gateway, "/files/sse", &served.key, json!({})).await;
    let call = tool_call("echo", 1);
    for (key, status) in [(&*other, 404), (&*unable, 403), ("gw-nobody", 401)] {
        client.post(key, &call).send().await.expect(status);
    }
    client.post(&served.key, &call).without("x-gateway-api-key").send().await.expect(401);
    client.post(&served.key, &call).header("origin", "https://evil.example").send().await.expect(403);
    let elsewhere = client.endpoint.replace("/files/", "/twin/");
    gateway.call("POST", &elsewhere).key(&served.key).json(&call).send().await.expect(404);
    gateway.call("POST", "/files/messages?sessionId=made-up").key(&served.key).json(&call).send().await.expect(404);
    gateway.call("POST", "/files/messages").key(&served.key).json(&call).send().await.expect(404);
    let form = gateway.call("POST", &client.endpoint).key(&served.key).body("text/plain", call.to_string());
    form.send().await.expect(415);
    assert_eq!(served.mcp.heard("tools/call").len(), 0, "none of them reached the server");
    assert!(client.asked(&call).await["result"].is_object());
    let refused = client.asked(&call).await;
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(429), &json!(1)), "{refused}");
    let off = json!({"capabilities": [{"name": "last", "type": "tool", "enabled": false}]});
    admin.put("/mcp-integrations/files-int/capabilities", &off).await.expect(200);
    let hidden = client.asked(&tool_call("last", 2)).await;
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
    let mut kept = LegacyClient::open(gateway, "/files/sse", &held, json!({})).await;
    assert_eq!(kept.asked(&tool_call("secret", 3)).await["error"]["code"], -32602);
    let deny = json!({"default_user_access": "deny"});
    admin.put("/mcp-servers/files/user-access", &deny).await.expect(200);
    client.post(&served.key, &call).send().await.expect(403);
    assert!(client.event().await.is_none(), "the stream ends when its caller may not call any more");
    get(gateway, "/files/sse", &served.key).send().await.expect(403);
    assert_eq!(served.mcp.heard("tools/call").len(), 1, "one call was allowed");
}

#[tokio::test]
async fn a_stream_lasts_as_long_as_a_session_and_ends_with_the_gateway() {
    let served = Served::with(Script::default(), &["--mcp-legacy-sse", "true", "--mcp-session-ttl", "2s"]).await;
    let mut client = LegacyClient::open(&served.gateway, "/files/sse", &served.key, json!({})).await;
    assert!(client.event().await.is_none());
    client.post(&served.key, &tool_call("echo", 1)).send().await.expect(404);
    let mut served = Served::with(Script::default(), FLAG).await;
    {
        let mut client = LegacyClient::open(&served.gateway, "/files/sse", &served.key, json!({})).await;
        served.gateway.process.signal("TERM");
        assert!(client.event().await.is_none(), "it takes leave cleanly");
    }
    assert!(served.gateway.process.exit(Duration::from_secs(20)).await.success());
}
