//! How agents learn who calls them: a token of the gateway's own that is fetched once for all, and what an agent hears
//! of whoever calls. An agent that knows its callers is given ids as they are.

use crate::agent_script::{AgentScript, PUBLIC, ServedAgent, agent, says, sse_events};
use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::harness::{Gateway, eventually};
use crate::mcp_client::person_who_may;
use crate::mcp_upstream_sign_in::{SECRET, client, endpoint};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Value, json};

/// A gateway before the scripted agent, which is called so.
async fn served(auth: &str, configurations: Value) -> ServedAgent {
    let (gateway, agent) = (Gateway::with(&["--public-url", PUBLIC]).await, agent(AgentScript::default()).await);
    let integration = json!({"name": "A", "slug": "a-int", "url": agent.url(), "auth_type": auth,
        "configurations": configurations});
    gateway.admin().post("/agent-integrations", &integration).await.expect(200);
    let server = json!({"name": "Helper", "slug": "helper", "agent_integration_id": "a-int"});
    gateway.admin().post("/agent-servers", &server).await.expect(200);
    let (_, key) = gateway.admin().workspace_key("agents", json!({"scopes": ["agents.invoke"]})).await;
    ServedAgent { gateway, agent, key }
}

#[tokio::test]
async fn one_token_is_fetched_for_all_calls_of_an_agent_and_shown_to_nobody() {
    let (tokens, _) = endpoint().await;
    let served = served("oauth_client_credentials", json!({"oauth": client(&tokens)})).await;
    let admin = served.gateway.admin();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let method = if n % 2 == 0 { "SendMessage" } else { "SendStreamingMessage" };
        let body = json!({"jsonrpc": "2.0", "id": n, "method": method, "params": says("hi")});
        calls.spawn(served.call("POST", "").header("a2a-version", "1.0").json(&body).send());
    }
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no client failed").expect(200);
        assert!(!format!("{:?}{}", answer.headers, answer.text()).contains("tok-1"));
    }
    assert_eq!(tokens.seen().len(), 1, "one fetch for the card and for all calls");
    assert!(tokens.seen()[0].text().contains("grant_type=client_credentials"));
    for seen in served.agent.seen() {
        assert_eq!(seen.header("authorization"), Some("Bearer tok-1"), "{seen:?}");
        assert!(!format!("{seen:?}").contains(SECRET), "the secret goes to the token endpoint alone");
    }
    let shown = admin.get("/agent-integrations/a-int").await.expect(200).json();
    assert_eq!(shown["configurations"]["oauth"]["client_secret"], "****6789", "{shown}");
    let logs = eventually("the calls are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).text();
        logs.contains("a2a.SendStreamingMessage").then_some(logs)
    })
    .await;
    for text in [logs, served.gateway.process.output(), served.gateway.metrics().await] {
        assert!(!text.contains(SECRET) && !text.contains("tok-1"), "{text}");
    }
}

#[tokio::test]
async fn a_sign_in_that_is_refused_is_no_callers_business() {
    let (tokens, status) = endpoint().await;
    status.store(401, std::sync::atomic::Ordering::SeqCst);
    let served = served("oauth_client_credentials", json!({"oauth": client(&tokens)})).await;
    for method in ["SendMessage", "SendStreamingMessage"] {
        let text = served.rpc("1.0", method, says("hi")).await.expect(502).text();
        assert!(text.contains("cannot sign in at the agent"), "{text}");
        assert!(!text.contains("invalid_client") && !text.contains(SECRET), "{text}");
    }
    assert!(served.agent.seen().is_empty(), "nobody is called without a token");
    assert!(!served.gateway.process.output().contains(SECRET));
}

#[tokio::test]
async fn an_agent_hears_who_calls_and_is_given_ids_as_they_are() {
    let rule = json!({"user_identity_forwarding": {"method": "claims_header", "include_claims": ["email"]}});
    let served = served("none", rule).await;
    let (ann, key) = person_who_may(&served.gateway, "ann@example.com", &["agents.invoke"]).await;
    for (method, streams) in [("SendMessage", false), ("SendStreamingMessage", true)] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": says("hi")});
        let call = served.call("POST", "").key(&key).header("a2a-version", "1.0").json(&body);
        let answer = call.header("x-user-claims", r#"{"sub":"root"}"#).send().await.expect(200);
        let first = if streams { sse_events(&answer)[0].clone() } else { answer.json() };
        assert_eq!(first["result"]["task"]["id"], "task-7", "{first}");
        let heard = served.heard().pop().expect("a call");
        let claims: Value = serde_json::from_str(heard.header("x-user-claims").expect("claims")).expect("json");
        assert_eq!(claims, json!({"sub": ann, "email": "ann@example.com"}));
        assert!(!format!("{:?}{}", heard.headers, heard.text()).contains(&key));
    }
    // It is the agent's own matter now which tasks are whose, lists of them too.
    let listed = served.rpc_as(&key, "1.0", "ListTasks", json!({})).await.expect(200).json();
    assert_eq!(listed["result"]["tasks"][0]["id"], "task-7", "{listed}");
    let found = served.rpc_as(&key, "1.0", "GetTask", json!({"id": "task-7"})).await.expect(200).json();
    assert_eq!(found["result"]["id"], "task-7");
    let query = served.call("GET", "/rest/tasks/task-7?historyLength=1&contextId=c").header("a2a-version", "1.0");
    query.send().await.expect(200);
    let heard = served.heard().pop().expect("a call");
    assert_eq!(heard.target, "/v1/rest/tasks/task-7?historyLength=1&contextId=c", "nothing is left out");
    // A key of nobody's is told by its id.
    let claims: Value = serde_json::from_str(heard.header("x-user-claims").expect("claims")).expect("json");
    assert!(claims["sub"].is_string() && claims["sub"] != json!(ann) && claims.get("email").is_none(), "{claims}");
}

#[tokio::test]
async fn an_agent_can_check_who_calls_by_the_gateways_signature() {
    let rule = json!({"user_identity_forwarding": {"method": "jwt_header", "include_claims": ["email"],
        "jwt_expiry_seconds": 60}});
    let served = served("none", rule).await;
    let (ann, key) = person_who_may(&served.gateway, "ann@example.com", &["agents.invoke"]).await;
    served.rpc_as(&key, "1.0", "SendMessage", says("hi")).await.expect(200);
    let heard = served.heard().pop().expect("a call");
    let token = heard.header("x-user-jwt").expect("a token").to_owned();
    let keys =
        served.gateway.get("/.well-known/jwks.json").without("x-gateway-api-key").send().await.expect(200).json();
    let part = |name: &str| keys["keys"][0][name].as_str().expect("a part").to_owned();
    let public = DecodingKey::from_ec_components(&part("x"), &part("y")).expect("a key");
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_audience(&[served.agent.url()]);
    rules.set_issuer(&[PUBLIC]);
    let claims = decode::<Value>(&token, &public, &rules).expect("signed").claims;
    assert_eq!((&claims["sub"], &claims["email"]), (&json!(ann), &json!("ann@example.com")), "{claims}");
    // It is no token of the gateway's own.
    let call = served.gateway.call("POST", "/v1/agent/helper").without("x-gateway-api-key");
    let call = call.header("authorization", &format!("Bearer {token}")).json(&json!({}));
    let refused = call.send().await;
    assert!(matches!(refused.status, 401 | 403), "{}", refused.text());
}

#[tokio::test]
async fn a_callers_own_token_goes_on_only_to_the_agent_that_it_names() {
    let served = served("none", json!({"user_identity_forwarding": {"method": "bearer"}})).await;
    let admin = served.gateway.admin();
    let refused = served.rpc("1.0", "SendMessage", says("hi")).await.expect(403).text();
    assert!(refused.contains("The agent takes the caller's own token"), "{refused}");
    let issuer = Issuer::publishing(&[&FIRST]).await;
    admin.put("/admin/organisation", &json!({"jwks_uris": issuer.uri()})).await.expect(200);
    let token =
        |aud: Value| FIRST.sign(&json!({"sub": "u", "aud": aud, "exp": in_seconds(600), "scope": "agents.invoke"}));
    let ask = |token: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says("hi")});
        let call = served.call("POST", "").without("x-gateway-api-key").header("a2a-version", "1.0").json(&body);
        call.header("authorization", &format!("Bearer {token}")).send()
    };
    let good = token(json!(["gateway", served.agent.url()]));
    ask(&good).await.expect(200);
    let heard = served.heard().pop().expect("a call");
    assert_eq!(heard.header("authorization"), Some(format!("Bearer {good}").as_str()));
    let before = served.heard().len();
    for aud in ["gateway", "https://other.example.com/v1"] {
        ask(&token(json!(aud))).await.expect(403);
    }
    assert_eq!(served.heard().len(), before, "no agent hears a token that was meant for somebody else");
}
