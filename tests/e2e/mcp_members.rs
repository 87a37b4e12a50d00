//! MCP servers made of others: names that never collide, lists of all with one that fails, sessions over several that
//! any node serves, and what members ask of the client.

use crate::harness::{Answer, Gateway, Seen, Upstream, eventually, reply, stand_at_noon};
use crate::mcp_script::{JSON, Script, ScriptedMcp, Served, code, initialize, modern_call, request, tool_call};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A gateway with `files`, `mail`, and `suite` made of both; calls go to `suite`.
struct Suite {
    served: Served,
    mail: ScriptedMcp,
}

async fn integration(gateway: &Gateway, slug: &str, url: String) {
    let body =
        json!({"name": slug, "slug": format!("{slug}-int"), "url": url, "auth_type": "none", "transport": "http"});
    gateway.admin().post("/mcp-integrations", &body).await.expect(200);
    let server = json!({"name": slug, "slug": slug, "mcp_integration_id": format!("{slug}-int")});
    gateway.admin().post("/mcp-servers", &server).await.expect(200);
}

async fn suite(gateway: &Gateway, members: Value) {
    let body = json!({"name": "Suite", "slug": "suite", "members": members});
    gateway.admin().post("/mcp-servers", &body).await.expect(200);
}

fn both() -> Value {
    json!([{"mcp_server_id": "files"}, {"mcp_server_id": "mail", "prefix": "post"}])
}

impl Suite {
    async fn start(files: Script, mail: Script) -> Self {
        Self::of(Served::start(files).await, mail).await
    }

    async fn of(served: Served, mail: Script) -> Self {
        let mail = ScriptedMcp::start(mail).await;
        integration(&served.gateway, "mail", mail.upstream.url()).await;
        suite(&served.gateway, both()).await;
        Self { served: Served { path: "/suite/mcp", ..served }, mail }
    }

    /// Names of all pages of a list.
    async fn listed(&self, session: &str, method: &str, member: &str) -> Vec<String> {
        self.served.names(session, method, member).await
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn equal_names_of_two_members_are_two_and_each_reaches_its_own() {
    let suite = Suite::start(Script::default(), Script::default()).await;
    let served = &suite.served;
    let opened = served.post(None, &initialize("2025-06-18")).await.expect(200);
    let told = opened.json()["result"].clone();
    assert_eq!((&told["serverInfo"]["name"], &told["protocolVersion"]), (&json!("suite"), &json!("2025-06-18")));
    assert_eq!(told["capabilities"]["tools"]["listChanged"], true, "{told}");
    assert!(told["capabilities"].get("tasks").is_none() && told["capabilities"].get("resources").is_some(), "{told}");
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let tools = suite.listed(&session, "tools/list", "tools").await;
    let each = ["echo", "secret", "fail", "last"];
    let expected: Vec<String> =
        ["files", "post"].iter().flat_map(|p| each.map(|name| format!("{p}__{name}"))).collect();
    assert_eq!(tools, expected, "all pages of all members");
    let prompts = suite.listed(&session, "prompts/list", "prompts").await;
    assert_eq!(prompts, strings(&["files__greet", "files__scold", "post__greet", "post__scold"]));
    let resources = suite.listed(&session, "resources/list", "resources").await;
    assert_eq!(resources, strings(&["files+file:///a", "files+file:///b", "post+file:///a", "post+file:///b"]));
    let called = served.tool(&session, "post__echo", "c-1").await.expect(200).json();
    assert_eq!((&called["id"], &called["result"]["content"][0]["text"]), (&json!("c-1"), &json!(r#"{"say":"hi"}"#)));
    let heard = suite.mail.heard("tools/call").pop().expect("a call").json();
    assert_eq!(heard["params"]["name"], "echo");
    assert!(served.mcp.heard("tools/call").is_empty(), "a call touches its member alone");
    let read = served.post(Some(&session), &request("resources/read", json!({"uri": "files+file:///a"}))).await;
    assert_eq!(read.expect(200).json()["result"]["contents"][0]["uri"], "files+file:///a");
    let heard = served.mcp.heard("resources/read").pop().expect("a read").json();
    assert_eq!(heard["params"]["uri"], "file:///a");
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "files__greet"}, "argument": {"name": "a", "value": "b"}});
    served.post(Some(&session), &request("completion/complete", complete)).await.expect(200);
    assert_eq!(served.mcp.heard("completion/complete").pop().expect("one").json()["params"]["ref"]["name"], "greet");
    for name in ["echo", "other__echo", "mail__echo", "__echo", "files"] {
        assert_eq!(code(&served.tool(&session, name, 1).await.expect(200)), -32602, "{name}");
    }
    let heard = served.mcp.heard("tools/call").into_iter().chain(suite.mail.heard("tools/call"));
    for seen in heard {
        assert!(
            seen.header("mcp-session-id").is_some_and(|id| id.starts_with("up-")),
            "each its own session: {seen:?}"
        );
    }
}

#[tokio::test]
async fn what_is_switched_off_anywhere_is_missing_and_limits_count_the_member() {
    stand_at_noon();
    let suite = Suite::start(Script::default(), Script::default()).await;
    let (served, admin) = (&suite.served, suite.served.gateway.admin());
    let session = served.open().await;
    let off = |name: &str| json!({"capabilities": [{"name": name, "type": "tool", "enabled": false}]});
    admin.put("/mcp-integrations/files-int/capabilities", &off("secret")).await.expect(200);
    admin.put("/mcp-servers/mail/capabilities", &off("fail")).await.expect(200);
    admin.put("/mcp-servers/suite/capabilities", &off("post__last")).await.expect(200);
    let tools = suite.listed(&session, "tools/list", "tools").await;
    assert_eq!(tools, strings(&["files__echo", "files__fail", "files__last", "post__echo", "post__secret"]));
    let before = suite.mail.upstream.seen().len() + served.mcp.upstream.seen().len();
    let missing = served.tool(&session, "files__nobody_knows", 1).await.expect(200);
    assert!(missing.text().contains("result"), "the member answers for itself: {}", missing.text());
    for name in ["files__secret", "post__fail", "post__last"] {
        let answer = served.tool(&session, name, 1).await.expect(200);
        assert_eq!(code(&answer), -32602, "{name}");
        assert!(answer.text().contains(name), "told by the name that was asked for: {}", answer.text());
    }
    let after = suite.mail.upstream.seen().len() + served.mcp.upstream.seen().len();
    assert_eq!(after, before + 1, "no member heard of them");
    let held =
        json!({"scopes": ["mcp.invoke"], "mcp_access": {"allow": ["suite"], "deny": ["files/e*", "suite/post__s*"]}});
    let (_, key) = admin.workspace_key("held", held).await;
    let list = request("tools/list", json!({}));
    let told = served.call("POST").key(&key).json(&list).send().await.expect(200).json();
    let names: Vec<&str> =
        told["result"]["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["files__fail", "files__last", "post__echo"], "by the names of the member and of the whole");
    assert_eq!(
        code(&served.call("POST").key(&key).json(&tool_call("files__echo", 1)).send().await.expect(200)),
        -32602
    );
    admin.put("/mcp-servers/mail/user-access", &json!({"default_user_access": "deny"})).await.expect(200);
    let tools = suite.listed(&session, "tools/list", "tools").await;
    assert_eq!(
        tools,
        strings(&["files__echo", "files__fail", "files__last"]),
        "who may not use a member sees none of it"
    );
    assert_eq!(code(&served.tool(&session, "post__echo", 1).await.expect(200)), -32602);
    admin.put("/mcp-servers/mail/user-access", &json!({"default_user_access": "allow"})).await.expect(200);
    let policy = json!({
        "name": "One Echo", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 1,
        "conditions": [{"key": "mcp_server", "value": "mail"}, {"key": "mcp_tool", "value": "echo"}],
        "group_by": [{"key": "mcp_tool"}],
    });
    admin.post("/policies/rate-limits", &policy).await.expect(200);
    served.tool(&session, "post__echo", 1).await.expect(200);
    assert_eq!(code(&served.tool(&session, "post__echo", 2).await.expect(429)), 429);
    served.tool(&session, "files__echo", 3).await.expect(200);
}

/// A server with one tool, until it fails: with this status, or by saying nothing (0).
async fn failing_later(status: u16, fails: Arc<AtomicBool>) -> Upstream {
    Upstream::scripted(move |mut peer| {
        let fails = fails.clone();
        async move {
            while let Some(seen) = peer.request().await {
                let body = seen.json();
                let result = match body["method"].as_str() {
                    _ if fails.load(SeqCst) && status == 0 => return peer.gone().await,
                    _ if fails.load(SeqCst) => Err(reply::whole(status, &[JSON], "{}")),
                    Some("initialize") => Ok(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "later", "version": "1"}})),
                    Some("tools/list") => Ok(json!({"tools": [{"name": "one"}]})),
                    Some("server/discover") => Err(reply::json(400, &json!({}))),
                    _ => Err(reply::whole(202, &[], "")),
                };
                let answer = |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
                let bytes = result.map_or_else(|bytes| bytes, |result| reply::json(200, &answer(result)));
                if !peer.send(bytes).await {
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_member_that_fails_takes_no_other_with_it() {
    // Fails, hangs, is down.
    for failing in [500, 0, 1] {
        let served = Served::with(Script::default(), &["--mcp-timeout", "5s"]).await;
        let (gateway, fails) = (&served.gateway, Arc::new(AtomicBool::new(false)));
        let mail = failing_later(failing, fails.clone()).await;
        integration(gateway, "mail", mail.url()).await;
        suite(gateway, both()).await;
        let strict = json!({"name": "Strict", "slug": "strict",
            "members": [{"mcp_server_id": "files"}, {"mcp_server_id": "mail", "optional": false}]});
        gateway.admin().post("/mcp-servers", &strict).await.expect(200);
        fails.store(true, SeqCst);
        // Its listener is gone with it.
        let _mail = Some(mail).filter(|_| failing != 1);
        let served = Served { path: "/suite/mcp", ..served };
        let session = served.open().await;
        let list = served.post(Some(&session), &request("tools/list", json!({}))).await.expect(200).json();
        let tools = list["result"]["tools"].as_array().expect("tools");
        assert_eq!((tools.len(), &tools[0]["name"]), (4, &json!("files__echo")), "{list}");
        assert_eq!(list["result"]["_meta"]["gateway/unavailable"], json!(["post"]), "{list}");
        served.tool(&session, "files__echo", 1).await.expect(200);
        let strict = Served { path: "/strict/mcp", ..served };
        let session = strict.open().await;
        let list = strict.post(Some(&session), &request("tools/list", json!({}))).await.expect(502);
        assert!(list.text().contains("`mail`"), "a required one fails the whole: {}", list.text());
        strict.tool(&session, "files__echo", 1).await.expect(200);
    }
}

#[tokio::test]
async fn a_server_that_fails_five_times_in_a_row_is_left_alone_and_a_changed_one_is_asked() {
    // A list that is kept would help out.
    let gateway = Gateway::with(&["--mcp-list-ttl", "0s"]).await;
    let fails = Arc::new(AtomicBool::new(false));
    let upstream = failing_later(500, fails.clone()).await;
    integration(&gateway, "mail", upstream.url()).await;
    let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    let list = request("tools/list", json!({}));
    let ask = async || gateway.call("POST", "/mail/mcp").key(&key).json(&list).send().await;
    fails.store(true, SeqCst);
    for _ in 0..4 {
        ask().await.expect(502);
    }
    fails.store(false, SeqCst);
    ask().await.expect(200);
    fails.store(true, SeqCst);
    for _ in 0..5 {
        ask().await.expect(502);
    }
    let before = upstream.seen().len();
    let left = ask().await.expect(503);
    assert!(left.json()["error"]["data"]["retry_after_ms"].is_u64(), "{}", left.text());
    assert_eq!(upstream.seen().len(), before, "it hears nothing meanwhile");
    fails.store(false, SeqCst);
    gateway.admin().put("/mcp-integrations/mail-int", &json!({"description": "mended"})).await.expect(200);
    ask().await.expect(200);
}

#[tokio::test]
async fn a_session_that_a_member_forgot_is_opened_again_unseen() {
    let suite = Suite::start(Script::default(), Script::default()).await;
    let session = suite.served.open().await;
    suite.served.tool(&session, "post__echo", 1).await.expect(200);
    let opened = suite.mail.heard("initialize").len();
    suite.mail.sessions.lock().expect("no panic").clear();
    suite.served.tool(&session, "post__echo", 2).await.expect(200);
    suite.served.tool(&session, "post__echo", 3).await.expect(200);
    suite.mail.sessions.lock().expect("no panic").clear();
    assert_eq!(suite.listed(&session, "tools/list", "tools").await.len(), 8, "for lists too");
    assert_eq!(suite.mail.heard("initialize").len(), opened + 2, "once each time");
    suite.served.call("DELETE").header("mcp-session-id", &session).send().await.expect(204);
    assert!(suite.mail.sessions.lock().expect("no panic").is_empty(), "the end reaches each member");
    assert!(suite.served.mcp.sessions.lock().expect("no panic").is_empty());
    assert_eq!(code(&suite.served.tool(&session, "post__echo", 4).await.expect(404)), -32600);
}

#[tokio::test]
async fn members_of_both_eras_serve_clients_of_both() {
    let suite = Suite::start(Script { modern: true, ..Script::default() }, Script::default()).await;
    let served = &suite.served;
    let found = modern_call(served, "server/discover", json!({})).send().await.expect(200).json();
    assert_eq!(
        (&found["result"]["resultType"], &found["result"]["serverInfo"]["name"]),
        (&json!("complete"), &json!("suite"))
    );
    let list = modern_call(served, "tools/list", json!({})).send().await.expect(200).json();
    assert_eq!((&list["result"]["cacheScope"], &list["result"]["ttlMs"]), (&json!("private"), &json!(0)), "{list}");
    assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(8), "{list}");
    for name in ["files__echo", "post__echo"] {
        let params = json!({"name": name, "arguments": {"say": "hi"}});
        let called = modern_call(served, "tools/call", params).send().await.expect(200).json();
        assert_eq!((&called["result"]["resultType"], &called["id"]), (&json!("complete"), &json!(1)), "{called}");
    }
    let session = served.open().await;
    assert_eq!(suite.listed(&session, "tools/list", "tools").await.len(), 8);
    for name in ["files__echo", "post__echo"] {
        let called = served.tool(&session, name, 5).await.expect(200).json();
        assert!(called["result"].get("resultType").is_none() && called["id"] == 5, "{called}");
    }
    served.post(None, &tool_call("post__echo", 6)).await.expect(200);
    served.post(None, &request("logging/setLevel", json!({"level": "info"}))).await.expect(200);
}

#[tokio::test]
async fn pages_of_a_merged_list_are_cut_and_found_again() {
    let many = |seen: &Seen| {
        let body = seen.json();
        let tools: Vec<Value> = (0..150).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}})).collect();
        let result = match body["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "many", "version": "1"}}),
            Some("tools/list") => json!({"tools": tools}),
            Some("tools/call") => json!({"content": [], "structuredContent": {"name": body["params"]["name"]}}),
            Some("server/discover") => return reply::json(400, &json!({})),
            _ => return reply::whole(202, &[], ""),
        };
        reply::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
    };
    let served = Served::start(Script::default()).await;
    let upstream = Upstream::replying(many).await;
    integration(&served.gateway, "mail", upstream.url()).await;
    suite(&served.gateway, both()).await;
    let served = Served { path: "/suite/mcp", ..served };
    let session = served.open().await;
    let page = async |cursor: Option<&Value>| {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        served.post(Some(&session), &request("tools/list", params)).await.expect(200).json()["result"].clone()
    };
    let first = page(None).await;
    let second = page(Some(&first["nextCursor"])).await;
    let names = |page: &Value| -> Vec<String> {
        page["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .map(|t| t["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let all: Vec<String> = names(&first).into_iter().chain(names(&second)).collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (154, 154));
    assert!(second.get("nextCursor").is_none(), "{second}");
    let bad = served.post(Some(&session), &request("tools/list", json!({"cursor": "more"}))).await.expect(200);
    assert_eq!(code(&bad), -32602);
}

#[tokio::test]
async fn names_too_long_for_clients_are_cut_and_still_reach_their_tool() {
    let long = |last: char| format!("{}{last}", "x".repeat(140));
    let upstream = Upstream::replying(move |seen| {
        let body = seen.json();
        let result = match body["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "long", "version": "1"}}),
            Some("tools/list") => json!({"tools": [{"name": long('a')}, {"name": long('b')}]}),
            Some("tools/call") => json!({"content": [], "structuredContent": {"name": body["params"]["name"]}}),
            Some("server/discover") => return reply::json(400, &json!({})),
            _ => return reply::whole(202, &[], ""),
        };
        reply::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
    })
    .await;
    let served = Served::start(Script::default()).await;
    integration(&served.gateway, "mail", upstream.url()).await;
    suite(&served.gateway, json!([{"mcp_server_id": "mail"}])).await;
    let served = Served { path: "/suite/mcp", ..served };
    let list = served.post(None, &request("tools/list", json!({}))).await.expect(200).json();
    let names: Vec<&str> =
        list["result"]["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.len() == 2 && names[0] != names[1] && names.iter().all(|name| name.len() == 128), "{names:?}");
    for (name, last) in names.iter().zip(['a', 'b']) {
        let called = served.post(None, &tool_call(name, 1)).await.expect(200).json();
        assert_eq!(called["result"]["structuredContent"]["name"], json!(long(last)), "{called}");
    }
    let other = format!("{}_00000000", &names[0][..119]);
    assert_eq!(code(&served.post(None, &tool_call(&other, 1)).await.expect(200)), -32602);
}

/// A server whose tool asks the client something before it answers, and that takes the answer on any connection.
async fn asking() -> Upstream {
    let told: Arc<(Mutex<Option<Value>>, tokio::sync::Notify)> = Arc::default();
    Upstream::scripted(move |mut peer| {
        let told = told.clone();
        async move {
            while let Some(seen) = peer.request().await {
                let body = if seen.body.is_empty() { json!({}) } else { seen.json() };
                let answer = |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
                let sent = match body["method"].as_str() {
                    Some("initialize") => {
                        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "asking", "version": "1"}});
                        let session = ("mcp-session-id", "asking-1");
                        peer.send(reply::whole(200, &[JSON, session], answer(result).to_string())).await
                    }
                    Some("tools/list") => {
                        peer.send(reply::json(200, &answer(json!({"tools": [{"name": "ask"}]})))).await
                    }
                    Some("tools/call") => {
                        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}});
                        let event = reply::chunk(format!("id: 1\ndata: \n\nid: 2\ndata: {ask}\n\n"));
                        peer.send([reply::STREAM, &event].concat()).await;
                        let said = loop {
                            if let Some(said) = told.0.lock().expect("no panic").take() {
                                break said;
                            }
                            told.1.notified().await;
                        };
                        let done = answer(json!({"content": [{"type": "text", "text": said.to_string()}]}));
                        let last = reply::chunk(format!("data: {done}\n\n"));
                        peer.send([&*last, reply::LAST_CHUNK].concat()).await
                    }
                    None if seen.method == "POST" => {
                        assert_eq!(body["id"], 7, "by the id that it gave: {body}");
                        *told.0.lock().expect("no panic") = Some(body["result"].clone());
                        told.1.notify_one();
                        peer.send(reply::whole(202, &[], "")).await
                    }
                    Some("server/discover") => peer.send(reply::json(400, &json!({}))).await,
                    _ if seen.method == "GET" => peer.send(reply::whole(405, &[], "")).await,
                    _ => peer.send(reply::whole(202, &[], "")).await,
                };
                if !sent {
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_serves_a_session_and_takes_the_answer_to_what_a_member_asked() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_members"))).await;
    let (_postgres, url) = database.expect("no panic");
    let mail = ScriptedMcp::start(Script::default()).await;
    let asker = asking().await;
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key, "--role", "proxy"]).await;
    integration(&one, "files", asker.url()).await;
    integration(&one, "mail", mail.upstream.url()).await;
    suite(&one, both()).await;
    let (_, key) = one.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    let on = |gateway: &Gateway, body: &Value| {
        let call = gateway.call("POST", "/suite/mcp").key(&key).header("accept", "application/json, text/event-stream");
        call.json(body)
    };
    let mut open = initialize("2025-06-18");
    open["params"]["capabilities"] = json!({"elicitation": {}});
    let session = on(&one, &open).send().await.expect(200).header("mcp-session-id").expect("a session").to_owned();
    let of = |seen: &Seen| !seen.body.is_empty() && seen.json()["method"] == "initialize";
    let heard = asker.seen().into_iter().rfind(of);
    let heard = heard.expect("opened").json();
    assert_eq!(heard["params"]["capabilities"], json!({"elicitation": {}}), "members know what the client can do");
    eventually("the other node knows", || async {
        let answer = on(&two, &request("ping", json!({}))).header("mcp-session-id", &session).send().await;
        (answer.status == 200).then_some(())
    })
    .await;
    for gateway in [&one, &two] {
        on(gateway, &tool_call("post__echo", 1)).header("mcp-session-id", &session).send().await.expect(200);
    }
    let used: BTreeSet<_> =
        mail.heard("tools/call").iter().map(|s| s.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(used.len(), 1, "both nodes speak in the same session");
    let mut answer = on(&one, &tool_call("files__ask", 9)).header("mcp-session-id", &session).open().await;
    let mut text = String::new();
    while !text.contains("elicitation/create") {
        text.push_str(&String::from_utf8_lossy(&answer.chunk().await.expect("a piece").expect("more")));
    }
    let asked =
        text.lines().find_map(|l| l.strip_prefix("data: ").filter(|d| d.contains("elicitation"))).expect("asked");
    let asked: Value = serde_json::from_str(asked).expect("json");
    assert!(asked["id"].as_str().is_some_and(|id| id.ends_with(".n.7")), "{asked}");
    let said = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}});
    on(&two, &said).header("mcp-session-id", &session).send().await.expect(202);
    while let Some(piece) = answer.chunk().await.expect("a piece") {
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(text.contains("accept") && text.contains(r#""id":9"#), "{text}");
    // A node that dies takes no session with it.
    let one = one.restart_after_kill(&["--database-url", &url]).await;
    on(&one, &tool_call("post__echo", 2)).header("mcp-session-id", &session).send().await.expect(200);
    let used: BTreeSet<_> =
        mail.heard("tools/call").iter().map(|s| s.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(used.len(), 1, "nor does it open another");
}

/// A stream of notices that says one thing and stays open.
fn noticing() -> impl Fn(&Seen) -> Vec<u8> {
    |seen| {
        let body = if seen.body.is_empty() { json!({}) } else { seen.json() };
        let result = match body["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "serverInfo": {"name": "n", "version": "1"},
                "capabilities": {"resources": {"subscribe": true}}}),
            Some("server/discover") => return reply::json(400, &json!({})),
            Some("resources/subscribe") => json!({}),
            None if seen.method == "GET" => {
                let note =
                    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}});
                return [reply::STREAM, &reply::chunk(format!("id: 5\ndata: {note}\n\n"))].concat();
            }
            _ => return reply::whole(202, &[], ""),
        };
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        reply::whole(200, &[JSON, ("mcp-session-id", "n-1")], answer)
    }
}

#[tokio::test]
async fn notices_of_members_come_in_one_stream_under_the_names_of_the_whole() {
    let served = Served::start(Script::default()).await;
    let upstream = Upstream::replying(noticing()).await;
    integration(&served.gateway, "mail", upstream.url()).await;
    suite(&served.gateway, both()).await;
    let served = Served { path: "/suite/mcp", ..served };
    let session = served.open().await;
    let subscribe = request("resources/subscribe", json!({"uri": "post+a:b"}));
    served.post(Some(&session), &subscribe).await.expect(200);
    let listen = served.call("GET").header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut stream = listen.open().await;
    assert_eq!(stream.status(), 200, "the other member has no stream, and that is its own matter");
    let mut text = String::new();
    while !text.contains("updated") {
        text.push_str(&String::from_utf8_lossy(&stream.chunk().await.expect("a piece").expect("more")));
    }
    assert!(text.contains(r#""uri":"post+a:b""#) && !text.contains("id: 5"), "{text}");
    drop(stream);
    let alone: Answer = served.call("GET").header("accept", "text/event-stream").send().await;
    assert_eq!(alone.status, 405, "without a session there is nothing to listen to");
}

#[tokio::test]
async fn what_makes_no_whole_is_refused_by_name() {
    let served = Served::start(Script::default()).await;
    let (gateway, admin) = (&served.gateway, served.gateway.admin());
    integration(gateway, "odd_", served.mcp.upstream.url()).await;
    suite(gateway, json!([{"mcp_server_id": "files"}])).await;
    let made = |members: Value| json!({"name": "W", "slug": "whole", "members": members});
    let named = |slug: &str, prefix: &str| json!({"mcp_server_id": slug, "prefix": prefix});
    for (members, field) in [
        (json!([]), "members"),
        (json!([{"mcp_server_id": "nobody"}]), "members[0].mcp_server_id"),
        (json!([{"mcp_server_id": "0194f1f2-0000-7000-8000-000000000000"}]), "members[0].mcp_server_id"),
        (json!([{"mcp_server_id": "suite"}]), "members[0].mcp_server_id"),
        (json!([{"mcp_server_id": "odd_"}]), "members[0].mcp_server_id"),
        (json!([named("files", "a__b")]), "members[0].prefix"),
        (json!([named("files", "a_")]), "members[0].prefix"),
        (json!([named("files", "a"), named("odd_", "a")]), "members[1].prefix"),
        (json!([named("files", "a"), named("files", "b")]), "members[1].mcp_server_id"),
        (json!([{"mcp_server_id": "files", "colour": 1}]), "colour"),
        (json!(vec![named("files", "a"); 21]), "members"),
    ] {
        let answer = admin.post("/mcp-servers", &made(members)).await.expect(400);
        assert!(answer.text().contains(field), "{field}: {}", answer.text());
    }
    let neither = admin.post("/mcp-servers", &json!({"name": "W", "slug": "whole"})).await.expect(400);
    assert!(neither.text().contains("mcp_integration_id"), "{}", neither.text());
    let mut two = made(json!([named("files", "a")]));
    two["mcp_integration_id"] = "files-int".into();
    admin.post("/mcp-servers", &two).await.expect(400);
    admin.put("/mcp-servers/files", &json!({"members": [named("odd_", "a")]})).await.expect(400);
    admin.delete("/mcp-servers/files").await.expect(409);
    let shown = admin.get("/mcp-servers/suite").await.expect(200).json();
    assert_eq!(
        (&shown["members"][0]["slug"], &shown["members"][0]["optional"]),
        (&json!("files"), &json!(true)),
        "{shown}"
    );
    let told = admin.get("/mcp-servers/suite/metadata").await.expect(200).json();
    assert_eq!((&told["server_name"], &told["sync_status"]), (&json!("Suite"), &json!("ok")), "{told}");
    let tools = admin.get("/mcp-servers/suite/capabilities?type=tool").await.expect(200).json();
    assert_eq!((&tools["total"], &tools["data"][0]["name"]), (&json!(4), &json!("files__echo")), "{tools}");
    admin.put("/mcp-servers/suite", &json!({"members": [named("files", "f"), named("odd_", "o")]})).await.expect(200);
    let served = Served { path: "/suite/mcp", ..served };
    let session = served.open().await;
    served.tool(&session, "f__echo", 1).await.expect(200);
    served.tool(&session, "o__echo", 1).await.expect(200);
    served.gateway.admin().delete("/mcp-servers/suite").await.expect(200);
    served.gateway.admin().delete("/mcp-servers/files").await.expect(200);
}
