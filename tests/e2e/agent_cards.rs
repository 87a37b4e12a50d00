//! Cards of agents: how they are fetched from agents, and what clients of the gateway see of them.

use crate::agent_script::{address, card, carded};
use crate::harness::{Gateway, Upstream, reply};
use serde_json::{Value, json};

const FETCH: &str = "/agent-integrations/fetch-agent-card";

#[tokio::test]
async fn a_card_is_fetched_by_either_version_of_the_route() {
    let (gateway, agent) = (Gateway::start().await, carded(card).await);
    let asked = json!({"url": agent.url(), "headers": {"x-team": "blue"}});
    for path in [FETCH.to_owned(), format!("/v2{FETCH}")] {
        let told = gateway.admin().post(&path, &asked).await.expect(200).json();
        assert_eq!((&told["name"], &told["x-own"]), (&json!("Scripted"), &json!({"kept": 1})), "{path}");
        assert_eq!(told["signatures"][0]["signature"], "s", "as the agent wrote it");
    }
    let seen = agent.seen();
    assert!(seen.iter().all(|seen| seen.header("x-team") == Some("blue") && seen.method == "GET"), "{seen:?}");
    assert_eq!(gateway.admin().get("/agent-integrations").await.expect(200).json()["total"], 0, "nothing is stored");
}

#[tokio::test]
async fn the_older_place_is_asked_where_the_newer_has_no_card_and_an_address_is_added_to_cards_of_1_0() {
    let gateway = Gateway::start().await;
    let agent = Upstream::replying(|seen| match seen.target.as_str() {
        "/v1/.well-known/agent.json" => {
            let supported = json!([{"url": format!("{}/rpc", address(seen)), "protocolBinding": "JSONRPC"}]);
            reply::json(200, &json!({"name": "New", "supportedInterfaces": supported}))
        }
        _ => reply::whole(404, &[], ""),
    })
    .await;
    let told = gateway.admin().post(FETCH, &json!({"url": agent.url()})).await.expect(200).json();
    assert_eq!(told["url"], format!("{}/rpc", agent.url()));
    let targets: Vec<String> = agent.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(targets, ["/v1/.well-known/agent-card.json", "/v1/.well-known/agent.json"]);
}

#[tokio::test]
async fn what_is_no_card_is_refused_and_so_is_one_byte_too_many() {
    let gateway = Gateway::start().await;
    let of = |bytes: usize| {
        let mut text = json!({"name": "Big", "url": "https://a", "x": ""}).to_string();
        let room = bytes - text.len();
        text.insert_str(text.len() - 2, &"x".repeat(room));
        text
    };
    assert_eq!(of(1 << 20).len(), 1 << 20);
    for (body, why) in [
        (of((1 << 20) + 1), "longer than 1048576 bytes"),
        (json!({"url": "https://a"}).to_string(), "must have a `name`"),
        (json!({"name": "a"}).to_string(), "must have a `url`"),
        ("[]".to_owned(), "must be a JSON object"),
        ("<html>".to_owned(), "is no JSON"),
    ] {
        let sent = body.clone();
        let agent = Upstream::replying(move |_| reply::whole(200, &[], &sent)).await;
        let refused = gateway.admin().post(FETCH, &json!({"url": agent.url()})).await.expect(400).text();
        assert!(refused.contains(why), "{why}: {refused}");
        // The body comes in pieces, so that nobody is told beforehand how much it will be.
        let sent = body.clone();
        let agent = Upstream::replying(move |_| {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            [head.as_slice(), &reply::chunk(&sent), reply::LAST_CHUNK].concat()
        })
        .await;
        let refused = gateway.admin().post(FETCH, &json!({"url": agent.url()})).await.expect(400).text();
        assert!(refused.contains(why), "{why}: {refused}");
    }
    let agent = Upstream::replying(move |_| reply::whole(200, &[], of(1 << 20))).await;
    gateway.admin().post(FETCH, &json!({"url": agent.url()})).await.expect(200);
    for status in [401, 302, 500] {
        let agent = Upstream::replying(move |_| reply::whole(status, &[("location", "http://127.0.0.1:1/")], "")).await;
        let refused = gateway.admin().post(FETCH, &json!({"url": agent.url()})).await.expect(400).text();
        assert!(refused.contains(&status.to_string()), "{refused}");
    }
}

/// An agent that a workspace has, behind a gateway that knows its own address.
async fn shown(url: &str) -> Gateway {
    let gateway = Gateway::with(&["--public-url", "https://ai.example.com"]).await;
    let integration = json!({"name": "A", "slug": "a-int", "url": url, "auth_type": "none"});
    gateway.admin().post("/agent-integrations", &integration).await.expect(200);
    let server = json!({"name": "Helper", "slug": "helper", "agent_integration_id": "a-int"});
    gateway.admin().post("/agent-servers", &server).await.expect(200);
    gateway
}

#[tokio::test]
async fn the_admin_api_shows_the_card_that_leads_to_the_gateway() {
    let agent = carded(card).await;
    let gateway = shown(&agent.url()).await;
    let admin = gateway.admin();
    let stored = admin.get("/agent-integrations/a-int").await.expect(200).json();
    assert_eq!((&stored["sync_status"], &stored["agent_card"]["name"]), (&json!("ok"), &json!("Scripted")));
    let off = json!({"skills": [{"id": "secret", "enabled": false}]});
    admin.put("/agent-servers/helper/skills", &off).await.expect(200);
    let told = admin.get("/agent-servers/helper/agent-card").await.expect(200).json();
    let base = "https://ai.example.com/v1/agent/helper";
    assert_eq!(told["url"], format!("{base}/a2a"));
    let supported = told["supportedInterfaces"].as_array().expect("a list");
    let urls: Vec<&str> = supported.iter().filter_map(|one| one["url"].as_str()).collect();
    assert_eq!(urls, [format!("{base}/a2a"), format!("{base}/rest")]);
    assert_eq!(told["additionalInterfaces"], json!([]));
    assert_eq!(told["skills"].as_array().map(Vec::len), Some(1));
    assert_eq!(told["capabilities"]["pushNotifications"], false, "agents call nobody until somebody allows it");
    assert!(told.get("signatures").is_none() && !told.to_string().contains(&agent.url()), "{told}");
    let on = json!({"capabilities": [{"name": "push_notifications", "enabled": true}]});
    admin.put("/agent-integrations/a-int/capabilities", &on).await.expect(200);
    let told = admin.get("/agent-servers/helper/agent-card").await.expect(200).json();
    assert_eq!(told["capabilities"]["pushNotifications"], true);
}

#[tokio::test]
async fn an_agent_that_is_away_keeps_its_card_and_one_that_was_written_down_is_not_asked() {
    let (gateway, agent) = (Gateway::start().await, carded(card).await);
    let admin = gateway.admin();
    let integration = json!({"name": "A", "slug": "a-int", "url": agent.url(), "auth_type": "none"});
    admin.post("/agent-integrations", &integration).await.expect(200);
    let away = Upstream::replying(|_| reply::whole(503, &[], "")).await;
    admin.put("/agent-integrations/a-int", &json!({"url": away.url()})).await.expect(200);
    let stored = admin.get("/agent-integrations/a-int").await.expect(200).json();
    assert_eq!((&stored["sync_status"], &stored["agent_card"]["name"]), (&json!("stale"), &json!("Scripted")));
    assert!(stored["sync_error"].as_str().is_some_and(|why| why.contains("503")), "{stored}");
    let verdict = admin.post("/agent-integrations/a-int/test", &json!({})).await.expect(200).json();
    assert_eq!((&verdict["success"], &verdict["status_code"]), (&json!(false), &json!(503)));
    let asked = away.seen().len();
    let written = json!({"agent_card": {"name": "Mine", "url": "https://a"}});
    admin.put("/agent-integrations/a-int", &written).await.expect(200);
    let stored = admin.get("/agent-integrations/a-int").await.expect(200).json();
    assert_eq!((&stored["agent_card"]["name"], &stored["agent_card_source"]), (&json!("Mine"), &json!("declared")));
    assert_eq!((away.seen().len(), &stored["sync_status"]), (asked, &Value::Null));
    admin.put("/agent-integrations/a-int", &json!({"url": agent.url(), "agent_card": null})).await.expect(200);
    let stored = admin.get("/agent-integrations/a-int").await.expect(200).json();
    assert_eq!((&stored["agent_card"]["name"], &stored["agent_card_source"]), (&json!("Scripted"), &json!("agent")));
}
