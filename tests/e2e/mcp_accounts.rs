//! Accounts of people at MCP servers that sign people in by themselves: how one is connected, called with, renewed and
//! ended.

use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider};
use crate::harness::{Gateway, eventually};
use crate::mcp_account_server::{
    AccountServer, OPENS, REFRESHED, asked, back, call, connect, connect_server, leave, link, press,
};
use crate::mcp_client::{PUBLIC, PageBrowser, person};
use crate::mcp_script::{Script, ScriptedMcp, request, tool_call};
use gateway_testing::Postgres;
use serde_json::{Value, json};

async fn gateway_before(server: &AccountServer, flags: &[&str]) -> Gateway {
    let gateway = Gateway::with(&[&["--public-url", PUBLIC], flags].concat()).await;
    connect_server(&gateway, server).await;
    gateway
}

/// A legacy client's `initialize`, of one that opens addresses or does not.
fn opening(capabilities: &Value) -> Value {
    request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "0"}}),
    )
}

#[tokio::test]
async fn somebody_connects_an_account_and_calls_with_it() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (ann, key) = person(&gateway, "ann@example.com").await;
    let (_, other) = person(&gateway, "bob@example.com").await;
    let told = call(&gateway, &key, true).await.expect(200).json();
    assert_eq!(told["result"]["resultType"], "input_required", "{told}");
    let request = &told["result"]["inputRequests"]["gateway/connect"];
    assert_eq!((&request["method"], &request["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
    let plain = call(&gateway, &key, false).await.expect(200).json();
    assert_eq!(plain["error"]["code"], 403, "{plain}");
    assert!(plain["error"]["data"]["authorization_url"].as_str().is_some_and(|url| url.starts_with(PUBLIC)));
    // Before anybody has an account nobody knows what the server offers: that is no empty list.
    let listed = asked(&gateway, &key, "tools/list", json!({}), false).await.expect(200).json();
    assert_eq!(listed["error"]["code"], 403, "{listed}");
    connect(&gateway, &server, &key).await;
    let first = server.asked("/token").remove(0);
    for part in ["client_id=https%3A%2F%2Fai.example.com%2Fgw%2Foauth%2Fclient.json", "resource=http", "code_verifier="]
    {
        assert!(first.text().contains(part), "{part}: {}", first.text());
    }
    let again =
        json!({"name": "echo", "arguments": {"a": 1}, "inputResponses": {"gateway/connect": {"action": "accept"}}});
    let called = asked(&gateway, &key, "tools/call", again, true).await.expect(200).json();
    assert_eq!(called["result"]["content"][0]["text"], r#"{"a":1}"#, "{called}");
    let heard = server.called();
    assert!(heard[0].header("authorization").is_some_and(|sent| sent.starts_with(&format!("Bearer {OPENS}"))));
    assert!(!heard[0].text().contains("inputResponses") && !format!("{heard:?}").contains(&key));
    // Somebody else has no account by that, and sees what the server offers all the same.
    let others = call(&gateway, &other, true).await.expect(200).json();
    assert_eq!(others["result"]["resultType"], "input_required");
    let listed = asked(&gateway, &other, "tools/list", json!({}), false).await.expect(200).json();
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 4), "{listed}");
    let declined = json!({"name": "echo", "inputResponses": {"gateway/connect": {"action": "decline"}}});
    let declined = asked(&gateway, &other, "tools/call", declined, true).await.expect(200).json();
    assert_eq!(declined["error"]["code"], 403, "{declined}");
    assert_eq!(server.called().len(), 1, "nobody is called without an account");
    // A key of nobody's has no account, and is sent nowhere.
    let (_, service) = gateway.admin().workspace_key("svc", json!({"scopes": ["mcp.invoke"]})).await;
    let told = call(&gateway, &service, true).await.expect(200).json();
    assert_eq!((&told["error"]["code"], &told["error"]["data"]), (&json!(403), &Value::Null), "{told}");
    let shown = gateway.admin().get("/mcp-servers/files/connections").await.expect(200).json();
    assert_eq!((&shown["total"], &shown["data"][0]["user_id"]), (&json!(1), &json!(ann)), "{shown}");
    assert_eq!(shown["data"][0]["connected"], true);
    let users = gateway.admin().get("/mcp-servers/files/user-access").await.expect(200).json();
    let of = |id: &str| users["data"].as_array().expect("users").iter().find(|u| u["user_id"] == id).cloned();
    assert_eq!(of(&ann).expect("Ann")["connection_status"], "connected", "{users}");
}

#[tokio::test]
async fn a_legacy_client_opens_the_address_that_an_error_names_and_goes_on_in_its_session() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let post = async |session: &str, body: &Value| {
        let call = gateway.call("POST", "/files/mcp").key(&key).header("accept", "application/json, text/event-stream");
        let call = if session.is_empty() { call } else { call.header("mcp-session-id", session) };
        call.json(body).send().await
    };
    let opened = post("", &opening(&json!({"elicitation": {"url": {}}}))).await.expect(200);
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-11-25");
    post(&session, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.expect(202);
    let refused = post(&session, &tool_call("echo", 5)).await.expect(200).json();
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32042), &json!(5)), "{refused}");
    let elicitation = &refused["error"]["data"]["elicitations"][0];
    assert!(elicitation["mode"] == "url" && elicitation["elicitationId"].is_string(), "{elicitation}");
    let link = elicitation["url"].as_str().expect("a url").strip_prefix(PUBLIC).expect("ours").to_owned();
    let simple = post("", &opening(&json!({"elicitation": {}}))).await.expect(200);
    let simple = simple.header("mcp-session-id").expect("a session").to_owned();
    let told = post(&simple, &tool_call("echo", 6)).await.expect(200).json();
    assert!(told["error"]["code"] == 403 && told["error"]["data"]["authorization_url"].is_string(), "{told}");
    let mut browser = PageBrowser::of(&gateway);
    let location = leave(&mut browser, &link, &key).await;
    back(&mut browser, &server.allow(&location)).await.expect(200);
    let called = post(&session, &tool_call("echo", 7)).await.expect(200).json();
    assert!(called["result"]["content"].is_array() && called["id"] == 7, "{called}");
    // One that begins now has a session of the server's own.
    let opened = post("", &opening(&json!({}))).await.expect(200);
    assert_eq!(opened.json()["result"]["serverInfo"]["name"], "accounts");
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    post(&session, &tool_call("echo", 8)).await.expect(200);
    gateway.call("DELETE", "/files/mcp").key(&key).header("mcp-session-id", &session).send().await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_renew_one_rotating_token_with_one_request() {
    let database =
        tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_accounts"))).await;
    let (_postgres, url) = database.expect("no panic");
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &["--database-url", &url]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    // Over by the clock when it is next asked for.
    server.book().lives = 1;
    connect(&gateway, &server, &key).await;
    server.book().lives = 3600;
    let master = gateway.folder().join("data/master.key").display().to_string();
    let flags = ["--public-url", PUBLIC, "--database-url", &url, "--master-key-file", &master];
    let second = Gateway::with(&flags).await;
    eventually("the other node knows the server", || async {
        let answer = asked(&second, &key, "server/discover", json!({}), false).await;
        (answer.status == 200).then_some(())
    })
    .await;
    let before = server.renewals();
    assert!(before <= 1);
    // Whatever node asked meanwhile: let the token be over again.
    server.book().opens.clear();
    let calls = (0..40).map(|n| call(if n % 2 == 0 { &gateway } else { &second }, &key, false));
    for answer in futures_util::future::join_all(calls).await {
        assert!(answer.expect(200).json()["result"]["content"].is_array());
    }
    assert_eq!(server.renewals(), before + 1, "one request of all nodes");
    assert_eq!(server.book().renews.len(), 1, "each refresh token was spent once");
    // What is taken away on one node is let go of by the other within seconds.
    gateway.admin().delete("/mcp-servers/files/connections").await.expect(200);
    eventually("the other node has let go of it", || async {
        let told = call(&second, &key, false).await.json();
        told["error"]["data"]["authorization_url"].is_string().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_member_that_is_called_with_accounts_takes_no_other_with_it() {
    let (server, plain) = (AccountServer::start().await, ScriptedMcp::start(Script::default()).await);
    let gateway = gateway_before(&server, &[]).await;
    let admin = gateway.admin();
    let integration = json!({"name": "Plain", "slug": "plain-int", "url": plain.upstream.url(), "transport": "http",
        "auth_type": "none"});
    admin.post("/mcp-integrations", &integration).await.expect(200);
    let named = json!({"name": "Plain", "slug": "plain", "mcp_integration_id": "plain-int"});
    admin.post("/mcp-servers", &named).await.expect(200);
    let members = json!([{"mcp_server_id": "files"}, {"mcp_server_id": "plain"}]);
    admin.post("/mcp-servers", &json!({"name": "All", "slug": "all-of-it", "members": members})).await.expect(200);
    let (_, key) = person(&gateway, "ann@example.com").await;
    let (_, other) = person(&gateway, "bob@example.com").await;
    connect(&gateway, &server, &other).await;
    let ask = async |method: &str, params: Value| {
        crate::mcp_account_server::asked_at(&gateway, "/all-of-it/mcp", &key, (method, params, true)).await
    };
    let listed = ask("tools/list", json!({})).await.expect(200).json();
    for name in ["files__echo", "plain__echo"] {
        assert!(listed.to_string().contains(name), "{name}: {listed}");
    }
    let called = ask("tools/call", json!({"name": "plain__echo", "arguments": {}})).await.expect(200).json();
    assert!(called["result"]["content"].is_array(), "{called}");
    let refused = ask("tools/call", json!({"name": "files__echo", "arguments": {}})).await.expect(200);
    assert_eq!(refused.json()["result"]["resultType"], "input_required", "{}", refused.text());
    let link = link(&refused);
    let mut browser = PageBrowser::of(&gateway);
    let location = leave(&mut browser, &link, &key).await;
    back(&mut browser, &server.allow(&location)).await.expect(200);
    let called = ask("tools/call", json!({"name": "files__echo", "arguments": {}})).await.expect(200).json();
    assert!(called["result"]["content"].is_array(), "{called}");
    assert_eq!(admin.get("/mcp-servers/all-of-it/connections").await.expect(200).json()["total"], 2);
}

#[tokio::test]
async fn a_token_is_renewed_ahead_of_its_end_and_what_cannot_be_renewed_is_connected_anew() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    server.book().lives = 1;
    connect(&gateway, &server, &key).await;
    server.book().lives = 3600;
    eventually("the token was renewed", || async {
        call(&gateway, &key, false).await.expect(200);
        (server.renewals() == 1).then_some(())
    })
    .await;
    call(&gateway, &key, false).await.expect(200);
    assert_eq!(server.renewals(), 1, "one that holds is not renewed");
    // A token that the server does not take is renewed once, and the call is made again.
    server.book().opens.clear();
    let called = call(&gateway, &key, false).await.expect(200).json();
    assert!(called["result"]["content"].is_array(), "{called}");
    assert_eq!(server.renewals(), 2);
    // Not taken either: the account is over, and is not renewed for each call.
    server.book().is_shut = true;
    assert!(link(&call(&gateway, &key, false).await.expect(200)).starts_with("/oauth/connect/"));
    server.book().is_shut = false;
    let calls = server.called().len();
    for _ in 0..3 {
        link(&call(&gateway, &key, false).await.expect(200));
    }
    assert_eq!((server.renewals(), server.called().len()), (3, calls));
    let shown = gateway.admin().get("/mcp-servers/files/connections").await.expect(200).json();
    assert_eq!(shown["data"][0]["connected"], false, "{shown}");
    connect(&gateway, &server, &key).await;
    assert!(call(&gateway, &key, false).await.expect(200).json()["result"]["content"].is_array());
    // Whatever renews it was taken back at the server.
    server.book().opens.clear();
    server.book().renews.clear();
    link(&call(&gateway, &key, false).await.expect(200));
    link(&call(&gateway, &key, false).await.expect(200));
    assert_eq!(server.renewals(), 4, "what is refused is not asked for again");
}

#[tokio::test]
async fn a_renewal_that_fails_keeps_nobody_waiting() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    connect(&gateway, &server, &key).await;
    // What is there is not taken any more, and what renews it is away.
    server.book().opens.clear();
    server.book().is_busy = true;
    let began = std::time::Instant::now();
    let before = server.renewals();
    let failed = futures_util::future::join_all((0..10).map(|_| call(&gateway, &key, false))).await;
    for answer in failed {
        answer.expect(502);
    }
    call(&gateway, &key, false).await.expect(502);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    let tried = server.renewals() - before;
    assert!((1..=3).contains(&tried), "{tried} renewals for eleven calls");
    server.book().is_busy = false;
    eventually("it was renewed", || async {
        let answer = call(&gateway, &key, false).await;
        (answer.status == 200 && answer.json()["result"]["content"].is_array()).then_some(())
    })
    .await;
    assert!(began.elapsed() < std::time::Duration::from_secs(12), "long before a claim ends: {:?}", began.elapsed());
}

/// Where a page of the gateway leads, and with what.
fn query(location: &str, name: &str) -> String {
    let url = reqwest::Url::parse(location).expect("a URL");
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[tokio::test]
async fn nobody_is_sent_for_one_scope_again_and_again() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    connect(&gateway, &server, &key).await;
    server.book().wants_scope = Some("files:write".to_owned());
    // Once since it was not asked for, and twice more: then the server does not mean what it says.
    for _ in 0..3 {
        let link = link(&call(&gateway, &key, true).await.expect(200));
        let mut browser = PageBrowser::of(&gateway);
        let location = leave(&mut browser, &link, &key).await;
        assert_eq!(query(&location, "scope"), "files:read files:write");
        back(&mut browser, &server.allow(&location)).await.expect(200);
    }
    let told = call(&gateway, &key, true).await.expect(200).json();
    assert_eq!((&told["error"]["code"], &told["error"]["data"]), (&json!(403), &Value::Null), "{told}");
    assert!(told["error"]["message"].as_str().is_some_and(|m| m.contains("asked for before")), "{told}");
    // Another scope is another matter.
    server.book().wants_scope = Some("files:delete".to_owned());
    let link = link(&call(&gateway, &key, true).await.expect(200));
    let location = leave(&mut PageBrowser::of(&gateway), &link, &key).await;
    assert_eq!(query(&location, "scope"), "files:read files:write files:delete");
    server.book().wants_scope = None;
    assert!(call(&gateway, &key, true).await.expect(200).json()["result"]["content"].is_array());
}

#[tokio::test]
async fn of_a_server_that_lists_nothing_without_a_scope_the_version_is_known() {
    let server = AccountServer::start().await;
    server.book().opens_freely = true;
    server.book().wants_scope_to_list = Some("files:list".to_owned());
    // It says what it wants where it lists, and nowhere else.
    server.book().resource = json!({"scopes_supported": ["files:profile"]});
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let begun = link(&call(&gateway, &key, true).await.expect(200));
    let mut browser = PageBrowser::of(&gateway);
    let location = leave(&mut browser, &begun, &key).await;
    assert_eq!(query(&location, "scope"), "files:read", "as the challenge says");
    back(&mut browser, &server.allow(&location)).await.expect(200);
    let told = gateway.admin().get("/mcp-integrations/files-int/metadata").await.expect(200).json();
    assert_eq!((&told["protocol_version"], &told["sync_status"]), (&json!("2025-11-25"), &json!("failed")), "{told}");
    assert_eq!(told["server_name"], "accounts");
    let listed = asked(&gateway, &key, "tools/list", json!({}), false).await.expect(200).json();
    assert_eq!(listed["error"]["code"], 403, "that is no empty list: {listed}");
    let url = listed["error"]["data"]["authorization_url"].as_str().expect("a link");
    let url = url.strip_prefix(PUBLIC).expect("ours").to_owned();
    let mut browser = PageBrowser::of(&gateway);
    let location = leave(&mut browser, &url, &key).await;
    assert_eq!(query(&location, "scope"), "files:read files:list");
    server.book().wants_scope_to_list = None;
    back(&mut browser, &server.allow(&location)).await.expect(200);
    let listed = asked(&gateway, &key, "tools/list", json!({}), false).await.expect(200).json();
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{listed}");
}

#[tokio::test]
async fn a_server_that_has_people_sign_in_elsewhere_now_is_connected_anew_there() {
    let (server, elsewhere) = (AccountServer::start().await, AccountServer::start().await);
    for one in [&server, &elsewhere] {
        one.book().registers = true;
    }
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    connect(&gateway, &server, &key).await;
    // The issuer of before is gone, and with it what renews its tokens.
    server.book().resource = json!({"authorization_servers": [elsewhere.origin()]});
    server.book().opens.clear();
    server.book().is_busy = true;
    let link = link(&call(&gateway, &key, true).await.expect(200));
    let mut browser = PageBrowser::of(&gateway);
    let location = leave(&mut browser, &link, &key).await;
    let told = elsewhere.allow(&location);
    back(&mut browser, &told).await.expect(200);
    assert_eq!((server.asked("/register").len(), elsewhere.asked("/register").len()), (1, 1), "a client of each");
    server.book().opens = elsewhere.book().opens.clone();
    assert!(call(&gateway, &key, true).await.expect(200).json()["result"]["content"].is_array());
}

#[tokio::test]
async fn a_client_that_somebody_made_is_used_at_its_issuer_alone() {
    const SECRETS: [&str; 2] = ["known-canary-first", "known-canary-second"];
    let server = AccountServer::start().await;
    server.book().knows = Some(("made-by-hand".to_owned(), SECRETS[0].to_owned()));
    let gateway = gateway_before(&server, &[]).await;
    let admin = gateway.admin();
    let (_, key) = person(&gateway, "ann@example.com").await;
    let client = |issuer: &str, secret: &str| {
        json!({"configurations": {"known_client": {"issuer": issuer, "client_id": "made-by-hand",
            "client_secret": secret}}})
    };
    let own = server.origin();
    // A client that was made at another issuer than the server names is sent nowhere.
    admin.put("/mcp-integrations/files-int", &client("https://login.example.com", SECRETS[0])).await.expect(200);
    let begun = link(&call(&gateway, &key, true).await.expect(200));
    let mut browser = PageBrowser::of(&gateway);
    let page = browser.open(&begun).await.expect(200);
    let page = press(&mut browser, &begun, &page, &[("step", "key"), ("key", &key)]).await.expect(200);
    let refused = press(&mut browser, &begun, &page, &[("step", "connect")]).await.expect(502);
    assert!(refused.text().contains("not the one where"), "{}", refused.text());
    assert!(server.asked("/token").is_empty() && server.asked("/register").is_empty());
    admin.put("/mcp-integrations/files-int", &client(&own, SECRETS[0])).await.expect(200);
    connect(&gateway, &server, &key).await;
    assert!(call(&gateway, &key, false).await.expect(200).json()["result"]["content"].is_array());
    let shown = admin.get("/mcp-integrations/files-int").await.expect(200).json();
    let told = &shown["configurations"]["known_client"];
    assert_eq!((&told["client_id"], &told["issuer"]), (&json!("made-by-hand"), &json!(own)), "{shown}");
    assert!(told["client_secret"].as_str().is_some_and(|secret| secret.starts_with("****")), "{shown}");
    // The mask keeps it; a secret that was replaced renews what was connected with the one before.
    let masked = told["client_secret"].as_str().expect("a mask");
    admin.put("/mcp-integrations/files-int", &client(&own, masked)).await.expect(200);
    server.book().knows = Some(("made-by-hand".to_owned(), SECRETS[1].to_owned()));
    admin.put("/mcp-integrations/files-int", &client(&own, SECRETS[1])).await.expect(200);
    server.book().opens.clear();
    assert!(call(&gateway, &key, false).await.expect(200).json()["result"]["content"].is_array());
    assert_eq!(server.renewals(), 1);
    assert!(server.asked("/register").is_empty());
    let mut told = vec![gateway.process.output(), gateway.metrics().await];
    for path in ["/mcp-integrations", "/mcp-integrations/files-int", "/configuration", "/audit-logs"] {
        told.push(admin.get(path).await.text());
    }
    for text in &told {
        assert!(!text.contains("known-canary"), "{text}");
    }
    for (body, field) in [
        (client(&own, ""), "configurations.known_client.client_secret"),
        (client(&own, "****none"), "configurations.known_client.client_secret"),
        (client("http://169.254.169.254", "s"), "configurations.known_client.issuer"),
        (json!({"configurations": {"known_client": {"issuer": own, "client_id": "a b"}}}), "known_client.client_id"),
        (json!({"auth_type": "none"}), "configurations.known_client belongs"),
    ] {
        let refused = admin.put("/mcp-integrations/files-int", &body).await.expect(400);
        assert!(refused.text().contains(field), "{field}: {}", refused.text());
    }
}

#[tokio::test]
async fn connections_are_told_by_pages() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let mut people = Vec::new();
    for email in ["ann@example.com", "bob@example.com", "cyd@example.com"] {
        let (id, key) = person(&gateway, email).await;
        connect(&gateway, &server, &key).await;
        people.push(id);
    }
    people.sort();
    let page = async |query: &str| {
        let told = gateway.admin().get(&format!("/mcp-servers/files/connections?{query}")).await.expect(200).json();
        let users = told["data"].as_array().expect("rows").iter().map(|row| row["user_id"].as_str().expect("a user"));
        assert_eq!(told["total"], if query.contains("user_id") { 1 } else { 3 });
        (users.map(str::to_owned).collect::<Vec<_>>(), told["has_more"] == true)
    };
    assert_eq!(page("page_size=2").await, (people[..2].to_vec(), true));
    assert_eq!(page("page_size=2&current_page=1").await, (people[2..].to_vec(), false));
    assert_eq!(page("page_size=2&current_page=7").await, (vec![], false));
    assert_eq!(page(&format!("user_id={}", people[1])).await, (people[1..2].to_vec(), false));
    gateway.admin().delete("/mcp-servers/files/connections").await.expect(200);
    let told = gateway.admin().get("/mcp-servers/files/connections").await.expect(200).json();
    assert_eq!((&told["total"], &told["data"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn a_call_that_lacks_a_scope_leads_to_a_sign_in_with_it() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    connect(&gateway, &server, &key).await;
    server.book().wants_scope = Some("files:write".to_owned());
    let link = link(&call(&gateway, &key, true).await.expect(200));
    let location = leave(&mut PageBrowser::of(&gateway), &link, &key).await;
    let url = reqwest::Url::parse(&location).expect("a URL");
    let scope = url.query_pairs().find(|(name, _)| name == "scope").expect("a scope").1.into_owned();
    assert_eq!(scope, "files:read files:write", "what was allowed before is asked for again");
    server.book().wants_scope = None;
    assert!(
        call(&gateway, &key, true).await.expect(200).json()["result"]["content"].is_array(),
        "it is still connected"
    );
}

#[tokio::test]
async fn a_server_that_takes_no_documents_registers_the_gateway_once() {
    let server = AccountServer::start().await;
    server.book().registers = true;
    let gateway = gateway_before(&server, &[]).await;
    for email in ["ann@example.com", "bob@example.com"] {
        let (_, key) = person(&gateway, email).await;
        connect(&gateway, &server, &key).await;
        assert!(call(&gateway, &key, false).await.expect(200).json()["result"]["content"].is_array());
    }
    let registered = server.asked("/register");
    assert_eq!(registered.len(), 1, "once for all people");
    assert_eq!(registered[0].json()["redirect_uris"], json!([format!("{PUBLIC}/oauth/upstream-callback")]));
    let document = gateway.get("/oauth/client.json").without("x-gateway-api-key").send().await.expect(200).json();
    assert_eq!(document["client_id"], format!("{PUBLIC}/oauth/client.json"), "{document}");
}

#[tokio::test]
async fn an_account_that_is_taken_away_is_given_back_and_opens_nothing() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server, &[]).await;
    let (ann, key) = person(&gateway, "ann@example.com").await;
    let (_, other) = person(&gateway, "bob@example.com").await;
    connect(&gateway, &server, &key).await;
    connect(&gateway, &server, &other).await;
    let admin = gateway.admin();
    admin.delete(&format!("/mcp-servers/files/connections?user_id={ann}")).await.expect(200);
    let forms: Vec<String> = server.asked("/revoke").iter().map(|seen| seen.text()).collect();
    assert!(
        forms.iter().any(|form| form.contains(REFRESHED)) && forms.iter().any(|form| form.contains(OPENS)),
        "{forms:?}"
    );
    link(&call(&gateway, &key, false).await.expect(200));
    assert!(call(&gateway, &other, false).await.expect(200).json()["result"]["content"].is_array(), "Bob's stays");
    assert_eq!(admin.get("/mcp-servers/files/connections").await.expect(200).json()["total"], 1);
    admin.get("/mcp-servers/files/connections?user_id=ann").await.expect(400);
    // Where the integration leads elsewhere now, nobody's token goes there.
    let elsewhere = AccountServer::start().await;
    let moved = json!({"url": elsewhere.upstream.url()});
    admin.put("/mcp-integrations/files-int", &moved).await.expect(200);
    link(&call(&gateway, &other, false).await.expect(200));
    assert!(!format!("{:?}", elsewhere.upstream.seen()).contains(OPENS));
    // Accounts are gone once their integration is.
    admin.delete("/mcp-servers/files").await.expect(200);
    let revoked = server.asked("/revoke").len();
    admin.delete("/mcp-integrations/files-int").await.expect(200);
    assert_eq!(server.asked("/revoke").len(), revoked + 2, "Bob's were given back");
}

#[tokio::test]
async fn whoever_has_single_sign_on_types_no_key_to_connect_an_account() {
    let (server, provider) = (AccountServer::start().await, OidcProvider::start().await);
    let gateway = gateway_before(&server, &[]).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let settings = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET });
    gateway.admin().put("/admin/organisation/sign-on", &settings).await.expect(200);
    provider.says(json!({"email": "ann@example.com", "email_verified": true}));
    connect(&gateway, &server, &key).await;
    // The longest link: one that names a scope.
    server.book().wants_scope = Some(format!("files:{}", "w".repeat(74)));
    let link = link(&call(&gateway, &key, true).await.expect(200));
    let mut browser = PageBrowser::of(&gateway);
    let page = browser.open(&link).await.expect(200);
    let away = press(&mut browser, &link, &page, &[("step", "organisation")]).await.expect(303);
    let start = away.header("location").expect("a place").strip_prefix(PUBLIC).expect("a place of ours").to_owned();
    let asked = browser.open(&start).await.expect(303);
    let asked = reqwest::Url::parse(asked.header("location").expect("a place")).expect("a URL");
    let state = asked.query_pairs().find(|(name, _)| name == "state").expect("a state").1.into_owned();
    let code = provider.grant(&asked);
    let signed = browser.open(&format!("/v1/sso/callback?code={code}&state={state}")).await.expect(303);
    assert_eq!(signed.header("location"), Some(format!("/gw{link}").as_str()));
    let page = browser.open(&link).await.expect(200);
    assert!(page.text().contains("ann@example.com"), "{}", page.text());
    let left = press(&mut browser, &link, &page, &[("step", "connect")]).await.expect(303);
    let location = left.header("location").expect("a place");
    assert!(location.contains(&"w".repeat(74)), "{location}");
    back(&mut browser, &server.allow(location)).await.expect(200);
}
