//! Token limits on the proxy port: what calls hold while they run, what they settle at, and what clients are told.

use crate::harness::{Gateway, Upstream, gateway::target, reply, stand_at_noon, with};
use serde_json::{Value, json};

async fn limit(gateway: &Gateway, fields: Value) {
    let base = json!({
        "name": "Tokens", "type": "tokens", "unit": "tph",
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    gateway.admin().post("/policies/rate-limits", &with(base, fields)).await.expect(200);
}

fn ask(most: u64) -> Value {
    json!({ "model": "gpt-4o-mini", "max_tokens": most, "messages": [{ "role": "user", "content": "hi" }] })
}

/// Answers of eight tokens.
async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

#[tokio::test]
async fn a_call_holds_what_it_may_use_and_settles_at_what_it_used() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = target(&upstream);
    limit(&gateway, json!({ "value": 100 })).await;
    let send = async |most| gateway.chat().config(&config).json(&ask(most)).send().await;
    let first = send(50).await.expect(200);
    assert_eq!(first.header("x-gateway-ratelimit-limit-tokens"), Some("100"));
    let left: u64 = first.header("x-gateway-ratelimit-remaining-tokens").expect("told").parse().expect("a number");
    assert!(left < 50, "the hold of this call is taken off: {left}");
    assert_eq!(first.header("x-ratelimit-remaining-tokens"), Some(left.to_string().as_str()));
    for _ in 0..4 {
        send(20).await.expect(200);
    }
    // Forty are used: a call that may use eighty more does not fit, one that may use ten does.
    let refused = send(80).await.expect(429);
    assert!(refused.error().contains("100 tokens per hour (tph)"), "{}", refused.error());
    assert_eq!(refused.header("x-gateway-ratelimit-remaining-tokens"), Some("60"));
    assert_eq!(refused.header("x-should-retry"), Some("false"), "nobody waits an hour because a header says so");
    send(10).await.expect(200);
}

#[tokio::test]
async fn what_a_failed_call_held_comes_back() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream =
        Upstream::in_turn(vec![reply::error(500, &[]), reply::error(400, &[]), reply::chat("hi"), reply::chat("hi")])
            .await;
    let config = target(&upstream);
    limit(&gateway, json!({ "value": 100 })).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(gateway.chat().config(&config).json(&ask(75)).send().await.status);
    }
    assert_eq!(statuses, [500, 400, 200, 429]);
}

#[tokio::test]
async fn a_limit_smaller_than_a_call_lets_one_through() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = target(&upstream);
    limit(&gateway, json!({ "value": 5 })).await;
    gateway.chat().config(&config).json(&ask(1_000)).send().await.expect(200);
    gateway.chat().config(&config).json(&ask(1_000)).send().await.expect(429);
}

#[tokio::test]
async fn a_stream_that_nobody_bounds_grows_its_hold() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let text = "word ".repeat(2_000);
    let upstream = Upstream::scripted(move |mut peer| {
        let text = text.clone();
        async move {
            let Some(seen) = peer.request().await else { return };
            let endless = seen.json()["stream"] == json!(true);
            peer.record(seen);
            if !endless {
                peer.send(reply::chat("hi")).await;
                return;
            }
            peer.send(reply::STREAM).await;
            peer.send(reply::role()).await;
            peer.send(reply::delta(&text)).await;
            peer.gone().await;
        }
    })
    .await;
    let config = target(&upstream);
    limit(&gateway, json!({ "value": 4_000 })).await;
    let mut body = ask(0);
    body.as_object_mut().expect("an object").remove("max_tokens");
    body["stream"] = json!(true);
    let mut stream = gateway.chat().config(&config).json(&body).open().await;
    let mut read = 0;
    while read < 10_000 {
        read += stream.chunk().await.expect("it runs").expect("more").len();
    }
    // At first 1,024 tokens were held; by now it is more than the 2,500 that came.
    let refused = gateway.chat().config(&config).json(&ask(1_500)).send().await.expect(429);
    let left: u64 = refused.header("x-gateway-ratelimit-remaining-tokens").expect("told").parse().expect("a number");
    assert!(left < 1_400, "{left}");
    drop(stream);
    // Once the gateway has seen the client leave, what came counts, and not what was held.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while gateway.chat().config(&config).json(&ask(1_400)).send().await.status != 200 {
        assert!(std::time::Instant::now() < until, "the hold of the client that left never ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_bare_header_of_the_provider_stays_the_providers() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| {
        let body = reply::completion("hi").to_string();
        reply::whole(200, &[("content-type", "application/json"), ("x-ratelimit-limit-tokens", "7")], body)
    })
    .await;
    limit(&gateway, json!({ "value": 1_000 })).await;
    let answer = gateway.chat().config(&target(&upstream)).json(&ask(10)).send().await.expect(200);
    assert_eq!(answer.header("x-ratelimit-limit-tokens"), Some("7"));
    assert_eq!(answer.header("x-ratelimit-remaining-tokens"), None, "two stories would be mixed");
    assert_eq!(answer.header("x-gateway-ratelimit-limit-tokens"), Some("1000"));
}

/// Limits that need no policy: of the key, the workspace, the provider and the integration behind it.
#[tokio::test]
async fn holders_have_limits_of_their_own() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (one, two) = (upstream().await, upstream().await);
    admin.provider("one", "openai", Some(&one.url())).await;
    admin.provider("two", "openai", Some(&two.url())).await;
    let (_, key) = admin
        .workspace_key("limited", json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 2 }] }))
        .await;
    let send = async |key: &str, provider: &str| gateway.chat().key(key).provider(provider).json(&ask(5)).send().await;
    let first = send(&key, "@one").await.expect(200);
    assert_eq!(first.header("x-gateway-ratelimit-remaining-requests"), Some("1"));
    send(&key, "@one").await.expect(200);
    let refused = send(&key, "@one").await.expect(429);
    assert!(refused.error().contains("API key \"limited\" allows 2 requests per day"), "{}", refused.error());

    let limit = |value: u64| json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": value }] });
    admin.put("/providers/one", &limit(1)).await.expect(200);
    let (_, free) = admin.workspace_key("free", json!({})).await;
    send(&free, "@one").await.expect(200);
    let refused = send(&free, "@one").await.expect(429);
    assert!(refused.error().contains("provider \"one\""), "{}", refused.error());
    let config = json!({
        "strategy": { "mode": "fallback", "on_status_codes": [429] },
        "targets": [{ "provider": "@one" }, { "provider": "@two" }],
    });
    gateway.chat().key(&free).config(&config).json(&ask(5)).send().await.expect(200);
    assert_eq!((one.seen().len(), two.seen().len()), (3, 1));

    admin
        .put("/providers/two", &json!({ "rate_limits": [{ "type": "tokens", "unit": "rpd", "value": 0 }] }))
        .await
        .expect(200);
    send(&free, "@two").await.expect(429);
}

/// What one workspace may take from an integration, and what all may together.
#[tokio::test]
async fn an_integration_has_limits_for_each_workspace_and_for_all() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("one", "openai", Some(&upstream.url())).await;
    let id = admin.get("/admin/workspaces/default").await.expect(200).json()["id"].clone();
    let rate = |value: u64| json!([{ "type": "requests", "unit": "rpw", "value": value }]);
    let path = "/integrations/one-integration/workspaces";
    let send = async || gateway.chat().provider("@one").json(&ask(5)).send().await;
    let set = json!({ "workspaces": [{ "id": id, "enabled": true, "rate_limits": rate(1) }] });
    admin.put(path, &set).await.expect(200);
    send().await.expect(200);
    let refused = send().await.expect(429);
    assert!(
        refused.error().contains("integration of this workspace \"one-integration\" allows 1"),
        "{}",
        refused.error()
    );
    // Raised at once, and the count stays.
    let set = json!({ "workspaces": [{ "id": id, "enabled": true, "rate_limits": rate(3) }] });
    admin.put(path, &set).await.expect(200);
    assert_eq!(send().await.expect(200).header("x-gateway-ratelimit-remaining-requests"), Some("1"));
    let all = json!({
        "global_workspace_access": { "enabled": true, "rate_limits": rate(9), "usage_limits": [{ "type": "tokens", "credit_limit": 1 }] },
    });
    admin.put(path, &all).await.expect(200);
    // Larger than the whole budget, it passes alone.
    send().await.expect(200);
    // The workspace's own three are used as well; told is what lasts longer.
    let refused = send().await.expect(412);
    assert!(refused.error().contains("integration \"one-integration\" allows 1 tokens"), "{}", refused.error());
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test]
async fn a_second_is_a_window_of_keys() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let limit = json!({ "rate_limits": [{ "type": "requests", "unit": "rps", "value": 2 }] });
    let (_, key) = gateway.admin().workspace_key("brisk", limit).await;
    let (mut refused, mut passed) = (0, 0);
    let begin = std::time::SystemTime::now();
    let second = |at: std::time::SystemTime| at.duration_since(std::time::UNIX_EPOCH).expect("later").as_secs();
    while refused == 0 || passed < 4 {
        let answer = gateway.chat().key(&key).provider("mock").json(&ask(5)).send().await;
        match answer.status {
            200 => passed += 1,
            429 => {
                refused += 1;
                let wait: u64 = answer.header("retry-after-ms").expect("told").parse().expect("a number");
                assert!(
                    (1..=1_000).contains(&wait) && answer.error().contains("2 requests per second (rps)"),
                    "{wait}"
                );
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            }
            other => panic!("{other}"),
        }
    }
    let windows = second(std::time::SystemTime::now()) - second(begin) + 1;
    assert!(passed <= 2 * windows, "{passed} in {windows} seconds");
}
