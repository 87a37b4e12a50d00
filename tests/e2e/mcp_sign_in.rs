//! Clients of MCP servers that sign people in at the gateway itself: the way as the specification of the protocol has
//! it, what the tokens open, and how they end.

use crate::harness::oidc::{CLIENT, CLIENT_SECRET, OidcProvider};
use crate::harness::{Gateway, Upstream, eventually, reply};
use crate::mcp_client::{
    BACK, PUBLIC, PageBrowser, access, but, claims, encoded, field, get, pairs, redirect_params, refresh, signing_in,
};
use crate::mcp_script::{code, initialize, request, tool_call};
use gateway_testing::Postgres;
use serde_json::{Value, json};

#[tokio::test]
async fn a_client_finds_the_way_signs_somebody_in_and_calls() {
    let here = signing_in(&[]).await;
    let gateway = &here.served.gateway;
    let list = request("tools/list", json!({}));
    let refused = here.call("/files/mcp", "", &list).await.expect(401);
    let document = "/.well-known/oauth-protected-resource/files/mcp";
    assert!(refused.header("www-authenticate").expect("a challenge").contains(&format!("{PUBLIC}{document}")));
    let resource = gateway.get(document).without("x-gateway-api-key").send().await.expect(200).json();
    assert_eq!(resource["authorization_servers"], json!([PUBLIC]));
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/gw",
        "/.well-known/oauth-authorization-server/files/mcp",
        "/.well-known/openid-configuration",
    ] {
        let server = gateway.get(path).without("x-gateway-api-key").header("host", "evil.example").send().await;
        assert_eq!(server.header("access-control-allow-origin"), Some("*"));
        let server = server.expect(200).json();
        assert_eq!(
            (&server["issuer"], &server["token_endpoint"]),
            (&json!(PUBLIC), &json!(format!("{PUBLIC}/oauth/token")))
        );
        assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(server["authorization_response_iss_parameter_supported"], true);
        assert_eq!(server["client_id_metadata_document_supported"], true);
    }
    let client = here.register(BACK).await;
    let mut browser = PageBrowser::of(gateway);
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    assert!(page.text().contains("Inspector") && page.text().contains("app.example.com"), "{}", page.text());
    let page = browser.press(&page, &[("step", "key"), ("key", &here.key)]).await.expect(200);
    assert!(page.text().contains("ann@example.com") && !page.text().contains(&here.key));
    let left = browser.press(&page, &[("step", "allow"), ("workspace", &field(&page, "workspace"))]).await;
    let answer = redirect_params(&left);
    assert_eq!((get(&answer, "iss"), get(&answer, "state")), (PUBLIC, "state-1"));
    let tokens = here.form("/oauth/token", &here.exchange(&client, get(&answer, "code"))).await.expect(200);
    assert_eq!(tokens.header("cache-control"), Some("no-store"));
    let tokens = tokens.json();
    assert_eq!(
        (&tokens["token_type"], &tokens["expires_in"], &tokens["scope"]),
        (&json!("Bearer"), &json!(900), &json!("mcp"))
    );
    let said = claims(access(&tokens));
    assert_eq!((&said["iss"], &said["aud"]), (&json!(PUBLIC), &json!(format!("{PUBLIC}/files/mcp"))));
    assert_eq!((&said["sub"], &said["client_id"]), (&json!(here.ann), &json!(client)));
    let session = here.call("/files/mcp", access(&tokens), &initialize("2025-06-18")).await.expect(200);
    let session = session.header("mcp-session-id").expect("a session").to_owned();
    let called = gateway.call("POST", "/files/mcp").without("x-gateway-api-key").json(&tool_call("echo", 7));
    let called =
        called.header("authorization", &format!("Bearer {}", access(&tokens))).header("mcp-session-id", &session);
    let called = called.header("accept", "application/json, text/event-stream").send().await.expect(200);
    assert_eq!(called.json()["id"], 7, "{}", called.text());
    let heard = here.served.mcp.heard("tools/call");
    assert!(heard[0].header("authorization").is_some_and(|sent| !sent.contains(access(&tokens))));
    // The record is of the person's key.
    let record = eventually("the record", || async {
        let all = gateway.admin().get("/logs?page_size=50").await.expect(200).json();
        all["data"].as_array()?.iter().find(|line| line.to_string().contains("mcp.tools/call")).cloned()
    })
    .await;
    assert!(record.to_string().contains("ann@example.com"), "{record}");
}

#[tokio::test]
async fn a_token_is_for_one_server_its_scopes_and_nothing_else() {
    let here = signing_in(&[]).await;
    let admin = here.served.gateway.admin();
    let twin = json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "files-int"});
    admin.post("/mcp-servers", &twin).await.expect(200);
    let client = here.register(BACK).await;
    let reads = here.tokens(&client, "mcp:read").await;
    assert_eq!(reads["scope"], "mcp:read");
    let open = initialize("2025-06-18");
    let elsewhere = here.call("/twin/mcp", access(&reads), &open).await.expect(401);
    assert!(elsewhere.header("www-authenticate").expect("a challenge").contains("/twin/mcp\""));
    let session = here.call("/files/mcp", access(&reads), &open).await.expect(200);
    assert!(session.header("mcp-session-id").is_some());
    let call = crate::mcp_script::modern_call(&here.served, "tools/call", json!({"name": "echo"}));
    let call = call.without("x-gateway-api-key").header("authorization", &format!("Bearer {}", access(&reads)));
    let refused = call.send().await.expect(403);
    assert!(refused.header("www-authenticate").expect("a challenge").contains(r#"scope="mcp:write""#));
    // Neither models nor the Admin API take it, whatever the key behind it may do.
    let tokens = here.tokens(&client, "mcp").await;
    let bearer = format!("Bearer {}", access(&tokens));
    let chat = here.served.gateway.chat().without("x-gateway-api-key").header("authorization", &bearer);
    // It names an organisation that takes no tokens of others there.
    let asked = chat.json(&crate::harness::hello()).send().await;
    assert!(matches!(asked.status, 401 | 403), "{}", asked.text());
    for (method, path) in [("GET", "/configs"), ("GET", "/mcp-servers"), ("DELETE", "/api-keys/self/session")] {
        let asked = admin.call(method, path).without("x-gateway-api-key").header("authorization", &bearer).send().await;
        assert!(matches!(asked.status, 401 | 403), "{path}: {}", asked.text());
    }
    assert_eq!(here.opens(&format!("{}x", access(&tokens))).await, 401);
    let mut parts: Vec<&str> = access(&tokens).split('.').collect();
    let other = access(&reads).split('.').nth(1).expect("claims").to_owned();
    parts[1] = &other;
    assert_eq!(here.opens(&parts.join(".")).await, 401, "claims of another under its signature");
}

#[tokio::test]
async fn what_the_key_is_held_to_holds_for_its_clients_and_ends_with_it() {
    let here = signing_in(&[]).await;
    let admin = here.served.gateway.admin();
    let held = json!({"name": "held", "user_id": here.ann, "scopes": ["mcp.invoke"],
        "mcp_access": {"allow": ["files/echo"]}});
    let made = admin.post("/api-keys/workspace/user", &held).await.expect(200).json();
    let key = made["key"].as_str().expect("a key").to_owned();
    let held = crate::mcp_client::SignedIn { key, ..here };
    let client = held.register(BACK).await;
    let tokens = held.tokens(&client, "mcp").await;
    let session = held.call("/files/mcp", access(&tokens), &initialize("2025-06-18")).await.expect(200);
    let session = session.header("mcp-session-id").expect("a session").to_owned();
    let ask = async |body: &Value| {
        let call = held.served.gateway.call("POST", "/files/mcp").without("x-gateway-api-key").json(body);
        let call = call.header("authorization", &format!("Bearer {}", access(&tokens)));
        call.header("mcp-session-id", &session).header("accept", "application/json, text/event-stream").send().await
    };
    let listed = ask(&request("tools/list", json!({}))).await.expect(200).json();
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["echo"]);
    assert_eq!(code(&ask(&tool_call("secret", 1)).await.expect(200)), -32602);
    let policy = json!({"name": "tools", "target": "mcp_tools", "type": "requests", "unit": "rpm", "value": 1,
        "conditions": [{"key": "metadata._user", "value": "ann@example.com"}], "group_by": [{"key": "mcp_tool"}]});
    held.served.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    ask(&tool_call("echo", 2)).await.expect(200);
    ask(&tool_call("echo", 3)).await.expect(429);
    let admin = held.served.gateway.admin();
    admin.delete(&format!("/api-keys/{}", made["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(held.opens(access(&tokens)).await, 401, "what was allowed with a key ends with it");
    let again = held.form("/oauth/token", &held.refreshing(&client, refresh(&tokens))).await.expect(400);
    assert_eq!(again.json()["error"], "invalid_grant");
}

#[tokio::test]
async fn refresh_tokens_turn_and_an_old_one_ends_all() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let first = here.tokens(&client, "mcp").await;
    let second = here.form("/oauth/token", &here.refreshing(&client, refresh(&first))).await.expect(200).json();
    assert_ne!(refresh(&first), refresh(&second));
    assert_eq!((here.opens(access(&first)).await, here.opens(access(&second)).await), (200, 200));
    let less = but(here.refreshing(&client, refresh(&second)), &[("scope", "mcp:read")]);
    let third = here.form("/oauth/token", &less).await.expect(200).json();
    assert_eq!(third["scope"], "mcp:read");
    let reused = here.form("/oauth/token", &here.refreshing(&client, refresh(&first))).await.expect(400);
    assert_eq!(reused.json()["error"], "invalid_grant");
    for token in [&first, &second, &third] {
        assert_eq!(here.opens(access(token)).await, 401, "the whole grant has ended");
        here.form("/oauth/token", &here.refreshing(&client, refresh(token))).await.expect(400);
    }
    // Many refreshes come at once with one token: no two get the next.
    let tokens = here.tokens(&client, "mcp").await;
    let form = here.refreshing(&client, refresh(&tokens));
    let all = futures_util::future::join_all((0..8).map(|_| here.form("/oauth/token", &form))).await;
    assert!(all.iter().filter(|answer| answer.status == 200).count() <= 1);
    assert_eq!(here.opens(access(&tokens)).await, 401);
}

#[tokio::test]
async fn what_was_allowed_is_told_and_taken_back() {
    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    let token = access(&tokens).to_owned();
    let asking = pairs(&[("token", &token)]);
    here.form("/oauth/introspect", &asking).await.expect(401);
    let by_key = async |key: &str| {
        let call = here.served.gateway.call("POST", "/oauth/introspect").key(key);
        call.body("application/x-www-form-urlencoded", encoded(&asking)).send().await.expect(200).json()
    };
    let told = by_key(&here.served.key).await;
    assert_eq!(
        (&told["active"], &told["email"], &told["display_name"]),
        (&json!(true), &json!("ann@example.com"), &json!("Ann Lee"))
    );
    assert_eq!((&told["sub"], &told["client_id"], &told["scope"]), (&json!(here.ann), &json!(client), &json!("mcp")));
    assert!(told["username"].is_string() && told["exp"].is_number() && told["jti"].is_string(), "{told}");
    let own = but(asking.clone(), &[("client_id", &client)]);
    assert_eq!(here.form("/oauth/introspect", &own).await.expect(200).json()["active"], true);
    let other = here.register(BACK).await;
    let foreign = but(asking.clone(), &[("client_id", &other)]);
    assert_eq!(here.form("/oauth/introspect", &foreign).await.expect(200).json(), json!({"active": false}));
    here.form("/oauth/revoke", &but(pairs(&[("token", refresh(&tokens))]), &[("client_id", &other)])).await.expect(400);
    assert_eq!(here.opens(&token).await, 200, "another client takes nothing back");
    let garbage = pairs(&[("token", "nothing"), ("client_id", &client)]);
    here.form("/oauth/revoke", &garbage).await.expect(200);
    let back = pairs(&[("token", refresh(&tokens)), ("client_id", &client)]);
    here.form("/oauth/revoke", &back).await.expect(200);
    assert_eq!(here.opens(&token).await, 401);
    assert_eq!(by_key(&here.served.key).await, json!({"active": false}));
    here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(400);
}

#[tokio::test]
async fn somebody_without_a_key_signs_in_at_their_organisation() {
    let provider = OidcProvider::start().await;
    let here = signing_in(&[]).await;
    let gateway = &here.served.gateway;
    let settings = json!({ "issuer": provider.server.url(), "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "makes_users": true, "new_user_role": "member" });
    gateway.admin().put("/admin/organisation/sign-on", &settings).await.expect(200);
    provider
        .says(json!({"email": "bob@example.com", "email_verified": true, "given_name": "Bob", "family_name": "Ray"}));
    let client = here.register(BACK).await;
    let mut browser = PageBrowser::of(gateway);
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    let away = browser.press(&page, &[("step", "organisation"), ("organisation", "default")]).await.expect(303);
    let start = away.header("location").expect("a place").strip_prefix(PUBLIC).expect("a place of ours").to_owned();
    let asked = browser.open(&start).await.expect(303);
    let asked = reqwest::Url::parse(asked.header("location").expect("a place")).expect("a URL");
    let state = asked.query_pairs().find(|(name, _)| name == "state").expect("a state").1.into_owned();
    let back =
        browser.open(&format!("/v1/sso/callback?code={}&state={state}", provider.grant(&asked))).await.expect(303);
    assert_eq!(back.header("location"), Some("/gw/oauth/authorize"));
    let page = browser.open("/oauth/authorize").await.expect(200);
    assert!(page.text().contains("bob@example.com"), "{}", page.text());
    let left = browser.press(&page, &[("step", "allow"), ("workspace", &field(&page, "workspace"))]).await;
    let tokens = here
        .form("/oauth/token", &here.exchange(&client, get(&redirect_params(&left), "code")))
        .await
        .expect(200)
        .json();
    assert_eq!(here.opens(access(&tokens)).await, 200);
    // A server that is not for them is none, also behind the token.
    let bob = gateway.admin().get("/admin/users/bob@example.com").await.expect(200).json();
    let bob = bob["id"].as_str().expect("an id").to_owned();
    let barred = json!({"user_access": [{"user_id": bob, "enabled": false}]});
    gateway.admin().put("/mcp-servers/files/user-access", &barred).await.expect(200);
    assert_eq!(here.opens(access(&tokens)).await, 403);
    gateway.admin().delete(&format!("/admin/workspaces/default/users/{bob}")).await.expect(200);
    assert_eq!(here.opens(access(&tokens)).await, 401, "without a seat nothing is open");
    here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(400);
}

#[tokio::test]
async fn a_client_may_be_the_document_at_its_own_address() {
    let place = Upstream::replying(|seen| {
        let id = format!("http://{}{}", seen.header("host").unwrap_or_default(), seen.target);
        let told =
            json!({"client_id": id, "client_name": "Vouched App", "redirect_uris": ["http://127.0.0.1/cb", BACK]});
        match seen.target.rfind('/').map_or("", |at| &seen.target[at..]) {
            "/good" => reply::json(200, &told),
            "/other" => reply::json(200, &json!({"client_id": "https://evil.example/x", "redirect_uris": [BACK]})),
            "/secret" => reply::json(
                200,
                &json!({"client_id": id, "redirect_uris": [BACK],
                "token_endpoint_auth_method": "private_key_jwt"}),
            ),
            "/moved" => reply::whole(302, &[("location", "/good")], ""),
            "/long" => reply::whole(200, &[("content-type", "application/json")], " ".repeat(70_000)),
            _ => reply::whole(404, &[], ""),
        }
    })
    .await;
    let here = signing_in(&["--trusted-custom-hosts", "127.0.0.1"]).await;
    let client = format!("{}/good", place.url());
    let mut browser = PageBrowser::of(&here.served.gateway);
    let page = browser.authorize(&here.asked(&client)).await.expect(200);
    assert!(page.text().contains("Vouched App") && page.text().contains("(as 127.0.0.1 says)"), "{}", page.text());
    let told = browser.allow(&here.asked(&client), &here.key).await;
    let tokens = here.form("/oauth/token", &here.exchange(&client, get(&told, "code"))).await.expect(200).json();
    assert_eq!(here.opens(access(&tokens)).await, 200);
    assert_eq!(place.seen().len(), 1, "the document is kept");
    let before = place.seen().len();
    for path in ["/other", "/secret", "/moved", "/long", "/none"] {
        let refused = browser.authorize(&here.asked(&format!("{}{path}", place.url()))).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        assert!(refused.header("location").is_none());
    }
    assert_eq!(place.seen().len(), before + 5, "no redirect is followed");
    let metrics = here.served.gateway.metrics().await;
    assert!(metrics.contains("\ngateway_oauth_client_documents 6\n"), "{metrics}");
    for client in [
        "https://169.254.169.254/x",
        "https://10.0.0.1/x",
        "https://metadata.google.internal/x",
        "http://a.example/x",
        "https://u@a.example.com/x",
        "https://a.example.com/",
        "https://a.example.com/x#y",
        "https://a.example.com/../x",
    ] {
        let refused = browser.authorize(&here.asked(client)).await;
        assert_eq!(refused.status, 400, "{client}: {}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_are_one_authorisation_server() {
    let made = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_sign_in"))).await;
    let (_postgres, url) = made.expect("no panic");
    let here = signing_in(&["--database-url", &url]).await;
    let key = here.served.gateway.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&["--database-url", &url, "--master-key-file", &key, "--public-url", PUBLIC]).await;
    let post = async |node: &Gateway, path: &str, form: &crate::mcp_client::Pairs| {
        let call = node.call("POST", path).without("x-gateway-api-key");
        call.body("application/x-www-form-urlencoded", encoded(form)).send().await
    };
    let opens = async |node: &Gateway, token: &str| {
        let call = node.call("POST", "/files/mcp").without("x-gateway-api-key").json(&initialize("2025-06-18"));
        let call = call.header("authorization", &format!("Bearer {token}"));
        call.header("accept", "application/json, text/event-stream").send().await.status
    };
    let client = here.register(BACK).await;
    let code = here.code(&client).await;
    // Allowed on one node, exchanged on the other, and good on both at once.
    let tokens = post(&two, "/oauth/token", &here.exchange(&client, &code)).await.expect(200).json();
    assert_eq!(opens(&two, access(&tokens)).await, 200);
    assert_eq!(here.opens(access(&tokens)).await, 200);
    let next = here.form("/oauth/token", &here.refreshing(&client, refresh(&tokens))).await.expect(200).json();
    // A code that comes again, to whichever node, ends everywhere what it began.
    post(&two, "/oauth/token", &here.exchange(&client, &code)).await.expect(400);
    assert_eq!(opens(&two, access(&next)).await, 401);
    eventually("the other node", || async { (here.opens(access(&next)).await == 401).then_some(()) }).await;
    // One code brought to both at once gives tokens once, if at all.
    let code = here.code(&client).await;
    let form = here.exchange(&client, &code);
    let (one, other) = tokio::join!(here.form("/oauth/token", &form), post(&two, "/oauth/token", &form));
    assert!([one.status, other.status].iter().filter(|status| **status == 200).count() <= 1);
}

#[tokio::test]
async fn an_admin_sees_what_people_allowed_and_ends_it() {
    let here = signing_in(&[]).await;
    let admin = here.served.gateway.admin();
    let twin = json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "files-int"});
    admin.post("/mcp-servers", &twin).await.expect(200);
    let client = here.register(BACK).await;
    let (first, second) = (here.tokens(&client, "mcp:read").await, here.tokens(&client, "mcp").await);
    let list = admin.get("/mcp-servers/files/grants").await.expect(200);
    assert!(!list.text().contains(refresh(&first)) && !list.text().contains(access(&first)));
    let list = list.json();
    assert_eq!((&list["total"], &list["has_more"]), (&json!(2), &json!(false)), "{list}");
    let one = &list["data"][0];
    for (field, value) in [
        ("user_id", json!(here.ann)),
        ("user_email", json!("ann@example.com")),
        ("client_id", json!(client)),
        ("client_name", json!("Inspector")),
        ("scope", json!("mcp:read")),
    ] {
        assert_eq!(one[field], value, "{field}: {one}");
    }
    let page = admin.get("/mcp-servers/files/grants?current_page=1&page_size=1").await.expect(200).json();
    assert_eq!((&page["data"][0]["scope"], &page["total"]), (&json!("mcp"), &json!(2)));
    assert_eq!(admin.get("/mcp-servers/twin/grants").await.expect(200).json()["total"], 0);
    let nobody = "0194f1f2-0000-7000-8000-000000000001";
    let others = admin.get(&format!("/mcp-servers/files/grants?user_id={nobody}")).await.expect(200).json();
    assert_eq!(others["total"], 0);
    // One ends, the other goes on.
    let path = format!("/mcp-servers/files/grants?grant_id={}", one["id"].as_str().expect("an id"));
    assert_eq!(admin.delete(&path).await.expect(200).json()["ended"], 1);
    assert_eq!((here.opens(access(&first)).await, here.opens(access(&second)).await), (401, 200));
    let again = here.form("/oauth/token", &here.refreshing(&client, refresh(&first))).await.expect(400);
    assert_eq!(again.json()["error"], "invalid_grant");
    assert_eq!(admin.delete(&path).await.expect(200).json()["ended"], 0);
    admin.delete(&format!("/mcp-servers/files/grants?user_id={nobody}")).await.expect(200);
    assert_eq!(here.opens(access(&second)).await, 200, "another person's end is none of Ann's");
    assert_eq!(admin.delete("/mcp-servers/files/grants").await.expect(200).json()["ended"], 1);
    assert_eq!(here.opens(access(&second)).await, 401);
    // Grants end with their server as well, whoever makes one by its name later.
    let third = here.tokens(&client, "mcp").await;
    admin.delete("/mcp-servers/files").await.expect(200);
    let anew = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
    admin.post("/mcp-servers", &anew).await.expect(200);
    assert_eq!(here.opens(access(&third)).await, 401);
    admin.get("/mcp-servers/files/grants?user_id=ann").await.expect(400);
    admin.delete("/mcp-servers/files/grants?grant_id=x").await.expect(400);
    let org = admin.get("/mcp-servers/files").await.expect(200).json()["organisation_id"].clone();
    let org = org.as_str().expect("an id");
    let range = "start_time=2020-01-01&end_time=2100-01-01&resource_type=mcp_grant";
    let trail = admin.get(&format!("/audit-logs?organisation_id={org}&{range}")).await.expect(200).text();
    assert!(trail.matches(r#""delete""#).count() >= 2, "{trail}");
}
