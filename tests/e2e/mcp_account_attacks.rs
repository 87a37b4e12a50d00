//! What nobody may do to accounts of people at MCP servers: take somebody else's, slip in an answer of another server,
//! bring one twice, send a browser or the gateway where it must not go, or read a token anywhere.

use crate::forbidden::hosts;
use crate::harness::{Gateway, eventually};
use crate::mcp_account_server::{
    AccountServer, OPENS, REFRESHED, asked, back, call, connect, connect_server, leave, link, press,
};
use crate::mcp_client::{PUBLIC, PageBrowser, but, person};
use serde_json::json;

async fn gateway_before(server: &AccountServer) -> Gateway {
    let gateway = Gateway::with(&["--public-url", PUBLIC]).await;
    connect_server(&gateway, server).await;
    gateway
}

#[tokio::test]
async fn a_link_is_for_one_person_and_an_answer_for_the_browser_that_asked() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server).await;
    let (_, ann) = person(&gateway, "ann@example.com").await;
    let (_, bob) = person(&gateway, "bob@example.com").await;
    let anns = link(&call(&gateway, &ann, true).await.expect(200));
    // Bob opens Ann's link: he is no nearer to an account of his in her name, nor to hers in his.
    let mut browser = PageBrowser::of(&gateway);
    let page = browser.open(&anns).await.expect(200);
    let page = press(&mut browser, &anns, &page, &[("step", "key"), ("key", &bob)]).await.expect(200);
    assert!(page.text().contains("another person"), "{}", page.text());
    press(&mut browser, &anns, &page, &[("step", "connect")]).await.expect(403);
    // A page of one link is none of another's.
    let bobs = link(&call(&gateway, &bob, true).await.expect(200));
    let own = browser.open(&bobs).await.expect(200);
    let own = press(&mut browser, &bobs, &own, &[("step", "key"), ("key", &bob)]).await.expect(200);
    press(&mut browser, &anns, &own, &[("step", "connect")]).await.expect(403);
    for changed in [format!("{anns}x"), anns[..anns.len() - 1].to_owned(), "/oauth/connect/x".to_owned()] {
        assert!(matches!(browser.open(&changed).await.status, 403 | 404), "{changed}");
    }
    // An answer in another browser, or with another state, is none.
    let location = leave(&mut browser, &bobs, &bob).await;
    let told = server.allow(&location);
    back(&mut PageBrowser::of(&gateway), &told).await.expect(403);
    back(&mut browser, &but(told.clone(), &[("state", "0194f1f2-0000-7000-8000-000000000001")])).await.expect(403);
    assert_eq!(server.asked("/token").len(), 0, "no code was brought anywhere");
    back(&mut browser, &told).await.expect(200);
    assert!(call(&gateway, &bob, true).await.expect(200).json()["result"]["content"].is_array());
    assert_eq!(call(&gateway, &ann, true).await.json()["result"]["resultType"], "input_required");
    let framed = browser.open(&anns).await;
    assert_eq!(framed.header("x-frame-options"), Some("DENY"));
    assert!(framed.header("content-security-policy").is_some_and(|p| p.contains("frame-ancestors 'none'")));
    // A page of another origin presses no button.
    let foreign = gateway.call("POST", &anns).without("x-gateway-api-key").header("sec-fetch-site", "cross-site");
    foreign.body("application/x-www-form-urlencoded", "step=connect").send().await.expect(403);
}

#[tokio::test]
async fn an_answer_of_another_server_or_one_that_comes_twice_is_none() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let begun = async |browser: &mut PageBrowser<'_>| {
        let link = link(&call(&gateway, &key, true).await.expect(200));
        let location = leave(browser, &link, &key).await;
        server.allow(&location)
    };
    for iss in ["https://evil.example", ""] {
        let mut browser = PageBrowser::of(&gateway);
        let told = begun(&mut browser).await;
        back(&mut browser, &but(told, &[("iss", iss)])).await.expect(403);
    }
    let mut browser = PageBrowser::of(&gateway);
    let told = begun(&mut browser).await;
    let failed = but(told, &[("code", ""), ("error", "<b>denied</b>")]);
    let page = back(&mut browser, &failed).await.expect(403);
    assert!(!page.text().contains("denied"), "nothing of an answer is shown: {}", page.text());
    assert_eq!(server.asked("/token").len(), 0, "no code went to a token endpoint");
    let mut browser = PageBrowser::of(&gateway);
    let told = begun(&mut browser).await;
    let held = browser.cookies.clone();
    back(&mut browser, &told).await.expect(200);
    // Somebody has the address and the cookies of that moment.
    browser.cookies = held;
    back(&mut browser, &told).await.expect(403);
    assert_eq!(server.asked("/token").len(), 1);
}

#[tokio::test]
async fn documents_that_speak_for_others_or_protect_nothing_lead_nowhere() {
    let server = AccountServer::start().await;
    let gateway = gateway_before(&server).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let refused = async |told: &str| {
        let link = link(&call(&gateway, &key, true).await.expect(200));
        let mut browser = PageBrowser::of(&gateway);
        let page = browser.open(&link).await.expect(200);
        let page = press(&mut browser, &link, &page, &[("step", "key"), ("key", &key)]).await.expect(502);
        assert!(page.text().contains(told), "{told}: {}", page.text());
    };
    server.book().resource = json!({"resource": "https://other.example/v1"});
    refused("about another server").await;
    server.book().resource = json!({"authorization_servers": []});
    refused("names no authorisation server").await;
    server.book().resource = json!({});
    server.book().issuer = json!({"issuer": "https://login.example"});
    refused("calls itself otherwise").await;
    for methods in [json!(["plain"]), json!([])] {
        server.book().issuer = json!({"code_challenge_methods_supported": methods});
        refused("PKCE").await;
    }
    server.book().issuer = json!({"token_endpoint": "http://login.example/token"});
    refused("https://").await;
    assert!(server.asked("/token").is_empty());
}

#[tokio::test]
async fn no_document_has_the_gateway_call_what_nobody_may() {
    let server = AccountServer::start().await;
    let gateway = Gateway::with(&["--public-url", PUBLIC, "--trusted-proxies", "127.0.0.1/32"]).await;
    connect_server(&gateway, &server).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    let link = link(&call(&gateway, &key, true).await.expect(200));
    let mut browser = PageBrowser::of(&gateway);
    let page = browser.open(&link).await.expect(200);
    let mut from = 0;
    for host in hosts() {
        // Hosts of this very test are trusted.
        let saved = json!({"url": host, "auth_type": "none", "transport": "http"});
        if gateway.admin().post("/mcp-integrations/test", &saved).await.status != 400 {
            continue;
        }
        let documents = [
            (json!({"authorization_servers": [host]}), json!({})),
            (json!({}), json!({"token_endpoint": host})),
            (json!({}), json!({"authorization_endpoint": host})),
            (json!({}), json!({"registration_endpoint": host})),
            (json!({}), json!({"revocation_endpoint": host})),
        ];
        for (resource, issuer) in documents {
            // Each comes from an address of its own, since one may have only so many looked up in a minute.
            from += 1;
            browser.from = Some(format!("198.51.{}.{}", from / 250, from % 250 + 1));
            (server.book().resource, server.book().issuer) = (resource.clone(), issuer.clone());
            let shown = press(&mut browser, &link, &page, &[("step", "key"), ("key", &key)]).await;
            assert_eq!(shown.status, 502, "{resource} {issuer}: {}", shown.text());
            let told = shown.text();
            assert!(told.contains("an address that") || told.contains("no address"), "{resource} {issuer}: {told}");
        }
    }
    assert!(from > 400, "{from} were tried");
}

#[tokio::test]
async fn no_token_is_told_to_anybody_but_its_server() {
    let server = AccountServer::start().await;
    server.book().registers = true;
    let gateway = gateway_before(&server).await;
    let (_, key) = person(&gateway, "ann@example.com").await;
    connect(&gateway, &server, &key).await;
    call(&gateway, &key, true).await.expect(200);
    server.book().opens.clear();
    let called = call(&gateway, &key, true).await.expect(200);
    server.book().is_shut = true;
    let refused = call(&gateway, &key, true).await.expect(200);
    let listed = asked(&gateway, &key, "tools/list", json!({}), true).await.expect(200);
    let admin = gateway.admin();
    let mut told = vec![called.text(), refused.text(), listed.text(), gateway.metrics().await];
    let logs = eventually("the calls are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).text();
        (logs.matches("mcp.tools/call").count() >= 3).then_some(logs)
    })
    .await;
    told.push(logs);
    for path in [
        "/mcp-integrations",
        "/mcp-integrations/files-int",
        "/mcp-integrations/files-int/metadata",
        "/mcp-servers/files",
        "/mcp-servers/files/connections",
        "/mcp-servers/files/user-access",
        "/configuration",
        "/nodes/settings",
    ] {
        told.push(admin.get(path).await.expect(200).text());
    }
    told.push(gateway.process.output());
    for secret in [OPENS, REFRESHED, "client-canary-secret"] {
        for text in &told {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let stored = std::fs::read_dir(gateway.folder().join("data")).expect("the data folder");
        for file in stored.filter_map(Result::ok).filter(|file| file.path().is_file()) {
            let bytes = std::fs::read(file.path()).expect("a file");
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} lies open in {}", file.path().display());
        }
    }
    assert!(server.called().iter().all(|seen| !format!("{seen:?}").contains(REFRESHED)));
}
