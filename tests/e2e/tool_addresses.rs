//! Addresses of tools and agents that lead somewhere else than they say: a name that leads inside once it is looked up,
//! and a redirect. Nobody is called there.

use crate::agent_script::says;
use crate::forbidden::hosts;
use crate::harness::{Answer, Gateway, Upstream, reply};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOTH: [&str; 2] = ["mcp.invoke", "agents.invoke"];

/// A server and an agent at this address, both called `slug`.
async fn both_at(gateway: &Gateway, slug: &str, url: &str, signs_in: &Value) {
    for kind in ["mcp", "agent"] {
        let mut integration = json!({"name": slug, "slug": slug, "url": url});
        integration.as_object_mut().expect("an object").extend(signs_in.as_object().expect("an object").clone());
        if kind == "mcp" {
            integration["transport"] = "http".into();
        }
        gateway.admin().post(&format!("/{kind}-integrations"), &integration).await.expect(200);
        let server = json!({"name": slug, "slug": slug, format!("{kind}_integration_id"): slug});
        gateway.admin().post(&format!("/{kind}-servers"), &server).await.expect(200);
    }
}

/// Calls of each that go up.
async fn called(gateway: &Gateway, key: &str, slug: &str) -> Vec<Answer> {
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut answers = Vec::new();
    for (path, body) in [
        (format!("/{slug}/mcp"), rpc("tools/list", json!({}))),
        (format!("/{slug}/mcp"), rpc("tools/call", json!({"name": "echo", "arguments": {}}))),
        (format!("/v1/agent/{slug}"), rpc("SendMessage", says("x"))),
        (format!("/v1/agent/{slug}"), rpc("SendStreamingMessage", says("x"))),
    ] {
        let call = gateway.call("POST", &path).key(key).header("a2a-version", "1.0");
        answers.push(call.header("accept", "application/json, text/event-stream").json(&body).send().await);
    }
    answers
}

/// What an attacker who owns a name may have it lead to after it was looked at.
#[tokio::test]
async fn a_name_that_leads_inside_is_not_dialled_for_a_tool_or_an_agent() {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a listener");
    let port = listener.local_addr().expect("bound").port();
    let inside = format!("http://{}:{port}/x", machine.trim());
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    let admin = gateway.admin();
    let none = json!({"auth_type": "none"});
    both_at(&gateway, "inside", &inside, &none).await;
    let client = json!({"token_url": inside, "client_id": "c", "client_secret": "s"});
    let by_token = json!({"auth_type": "oauth_client_credentials", "configurations": {"oauth": client}});
    both_at(&gateway, "signed-in", "https://trusted.example/x", &by_token).await;
    let (_, key) = admin.workspace_key("both", json!({"scopes": BOTH})).await;
    for (slug, status) in [("inside", 503), ("signed-in", 502)] {
        for answer in called(&gateway, &key, slug).await {
            assert_eq!(answer.status, status, "{slug}: {}", answer.text());
        }
    }
    admin.post("/agent-integrations/fetch-agent-card", &json!({"url": inside})).await.expect(400);
    let tried = json!({"url": inside, "auth_type": "none", "transport": "http"});
    let tried = admin.post("/mcp-integrations/test", &tried).await.expect(200).json();
    assert_eq!(tried["success"], false, "{tried}");
    let waits = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(waits.is_err(), "somebody was dialled");
}

/// Neither a server nor an agent nor a token endpoint leads elsewhere, to whom nobody may be led least of all.
#[tokio::test]
async fn a_redirect_of_a_server_an_agent_or_a_token_endpoint_leads_nowhere() {
    let inner = Upstream::replying(|_| reply::json(200, &json!({"name": "Inside", "url": "https://a"}))).await;
    let place = Arc::new(Mutex::new((302_u16, String::new())));
    let told = place.clone();
    let leads = Upstream::replying(move |_| {
        let (status, location) = told.lock().expect("no panic").clone();
        reply::whole(status, &[("location", location.as_str())], "")
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    both_at(&gateway, "leads", &leads.url(), &json!({"auth_type": "none"})).await;
    let client = json!({"token_url": leads.url(), "client_id": "c", "client_secret": "s"});
    let by_token = json!({"auth_type": "oauth_client_credentials", "configurations": {"oauth": client}});
    both_at(&gateway, "signed-in", &inner.url(), &by_token).await;
    let (_, key) = admin.workspace_key("both", json!({"scopes": BOTH})).await;
    let own = [301, 302, 303, 307, 308].map(|status| (status, format!("{}/x", inner.url())));
    let others = hosts().filter(|host| host.is_ascii()).map(|host| (302, host.to_owned()));
    for (status, location) in own.into_iter().chain(others) {
        *place.lock().expect("no panic") = (status, location.clone());
        let began = std::time::Instant::now();
        for slug in ["leads", "signed-in"] {
            for answer in called(&gateway, &key, slug).await {
                // Whoever fails again and again is left alone.
                assert!(matches!(answer.status, 502 | 503), "{status} to {location} of {slug}: {}", answer.text());
            }
        }
        let asked = json!({"url": leads.url()});
        admin.post("/agent-integrations/fetch-agent-card", &asked).await.expect(400);
        assert!(began.elapsed() < Duration::from_secs(4), "{location}: something was waited for");
    }
    assert_eq!(inner.connections(), 0, "nobody inside was called");
}
