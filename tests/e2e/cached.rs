//! The response cache as clients feel it: hits, what is never shared, one call for many, and its bound.

use crate::harness::{Answer, Gateway, Peer, Upstream, eventually, gateway::target, hello, reply, with};
use gateway_testing::Redis;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("fresh")).await
}

fn cached(upstream: &Upstream) -> Value {
    with(target(upstream), json!({ "cache": { "mode": "simple", "max_age": 3600 } }))
}

fn status(answer: &Answer) -> &str {
    answer.header("x-gateway-cache-status").unwrap_or_default()
}

async fn ask(gateway: &Gateway, config: &Value, body: &Value) -> Answer {
    gateway.chat().config(config).json(body).send().await
}

#[tokio::test]
async fn the_same_question_is_answered_once() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let config = cached(&upstream);
    let first = ask(&gateway, &config, &hello()).await.expect(200);
    let second = ask(&gateway, &config, &hello()).await.expect(200);
    assert_eq!((status(&first), status(&second), upstream.seen().len()), ("MISS", "HIT", 1));
    assert_eq!(first.json(), second.json());
    assert_eq!(second.header("x-gateway-provider"), Some("openai"));
    let other = ask(&gateway, &config, &with(hello(), json!({ "temperature": 0.5 }))).await.expect(200);
    assert_eq!((status(&other), upstream.seen().len()), ("MISS", 2));
    let off = ask(&gateway, &target(&upstream), &hello()).await.expect(200);
    assert_eq!((status(&off), upstream.seen().len()), ("DISABLED", 3), "without a cache nothing is looked up");
}

#[tokio::test]
async fn a_fresh_answer_replaces_the_kept_one() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::chat("old"), reply::chat("new")]).await;
    let config = cached(&upstream);
    ask(&gateway, &config, &hello()).await.expect(200);
    let forced = gateway.chat().config(&config).header("x-gateway-cache-force-refresh", "true").json(&hello());
    let forced = forced.send().await.expect(200);
    assert_eq!((status(&forced), forced.said().as_str()), ("REFRESH", "new"));
    let after = ask(&gateway, &config, &hello()).await.expect(200);
    assert_eq!((status(&after), after.said().as_str(), upstream.seen().len()), ("HIT", "new", 2));
}

#[tokio::test]
async fn nothing_is_shared_across_namespaces_metadata_credentials_or_tenants() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let config = cached(&upstream);
    ask(&gateway, &config, &hello()).await.expect(200);
    let probe = |name: &str, value: &str| gateway.chat().config(&config).header(name, value).json(&hello()).send();
    for (name, value) in [
        ("x-gateway-cache-namespace", "mine"),
        ("x-gateway-metadata", r#"{"team":"b"}"#),
        ("x-gateway-strict-open-ai-compliance", "false"),
    ] {
        assert_eq!(status(&probe(name, value).await.expect(200)), "MISS", "{name}");
        assert_eq!(status(&probe(name, value).await.expect(200)), "HIT", "{name}");
    }
    let other_credential = with(config.clone(), json!({ "api_key": "another" }));
    assert_eq!(status(&ask(&gateway, &other_credential, &hello()).await.expect(200)), "MISS");
    let forwarding = with(config.clone(), json!({ "forward_headers": ["authorization"] }));
    for whose in ["Bearer ann", "Bearer bob"] {
        let call = gateway.chat().config(&forwarding).header("authorization", whose).json(&hello());
        assert_eq!(status(&call.send().await.expect(200)), "MISS", "{whose}");
        assert_eq!(upstream.seen().last().and_then(|s| s.header("authorization")), Some(whose));
    }
    admin.post("/admin/workspaces", &json!({ "name": "far", "slug": "far" })).await.expect(200);
    let key = json!({ "name": "k", "scopes": ["completions.write"], "workspace_id": "far" });
    let key = admin.post("/api-keys/workspace/service", &key).await.expect(200).json();
    let key = key["key"].as_str().expect("a key");
    let far = gateway.chat().key(key).config(&config).json(&hello()).send().await.expect(200);
    assert_eq!(status(&far), "MISS", "another workspace");
    let unkept = probe("x-gateway-debug", "false").await.expect(200);
    assert_eq!(status(&unkept), "DISABLED", "nothing of it is to be kept");
}

#[tokio::test]
async fn failures_are_never_kept() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::in_turn(vec![reply::error(500, &[]), reply::chat("good")]).await;
    let config = cached(&upstream);
    ask(&gateway, &config, &hello()).await.expect(500);
    let second = ask(&gateway, &config, &hello()).await.expect(200);
    assert_eq!((status(&second), second.said().as_str()), ("MISS", "good"));
}

#[tokio::test]
async fn a_stream_is_kept_whole_and_told_as_a_stream() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::stream(&["one ", "two"])).await;
    let config = cached(&upstream);
    let body = with(hello(), json!({ "stream": true }));
    let first = ask(&gateway, &config, &body).await.expect(200);
    let second = ask(&gateway, &config, &body).await.expect(200);
    assert_eq!((status(&first), status(&second), upstream.seen().len()), ("MISS", "HIT", 1));
    assert_eq!(first.text(), second.text());
    assert!(second.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")));
    assert_eq!(second.header("content-length"), None);
}

#[tokio::test]
async fn a_broken_stream_is_not_kept() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(async |mut peer: Peer| {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role(), &reply::delta("half")].concat()).await;
    })
    .await;
    let config = cached(&upstream);
    let body = with(hello(), json!({ "stream": true }));
    for _ in 0..2 {
        let answer = ask(&gateway, &config, &body).await.expect(200);
        assert_eq!(status(&answer), "MISS");
        assert!(!answer.text().contains("[DONE]"));
    }
}

#[tokio::test]
async fn what_is_passed_through_is_kept_only_when_it_is_whole() {
    let gateway = Gateway::start().await;
    let half = [reply::STREAM, &reply::role(), &reply::delta("half"), reply::LAST_CHUNK].concat();
    let upstream = Upstream::replying(move |seen| match seen.target.as_str() {
        "/v1/chat/completions" => half.clone(),
        _ => reply::chat("made"),
    })
    .await;
    let config = cached(&upstream);
    let stream = with(hello(), json!({ "stream": true }));
    for (path, body) in
        [("/v1/proxy/chat/completions", &stream), ("/v1/proxy/batches", &hello()), ("/v1/vector_stores", &hello())]
    {
        for _ in 0..2 {
            let answer = gateway.post(path).config(&config).json(body).send().await.expect(200);
            assert_ne!(status(&answer), "HIT", "{path}");
        }
    }
    assert_eq!(upstream.seen().len(), 6);
}

/// An upstream that answers each request when it is told to, and tells how many it has.
async fn waiting(go: watch::Receiver<bool>, reply: Vec<u8>) -> Upstream {
    let reply = Arc::new(reply);
    Upstream::scripted(move |mut peer| {
        let (mut go, reply) = (go.clone(), reply.clone());
        async move {
            while peer.request().await.is_some() {
                tokio::select! {
                    _ = go.wait_for(|go| *go) => {}
                    () = peer.gone() => return,
                }
                if !peer.send(&*reply).await {
                    return;
                }
            }
        }
    })
    .await
}

async fn metrics(gateway: &Gateway) -> String {
    let answer = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("an answer");
    answer.text().await.expect("text")
}

async fn metric(gateway: &Gateway, name: &str, wanted: usize) {
    eventually(name, || async {
        metrics(gateway).await.lines().any(|line| line == format!("{name} {wanted}")).then_some(())
    })
    .await;
}

async fn collapsed(gateway: &Gateway, wanted: usize) {
    metric(gateway, "gateway_cache_collapsed", wanted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_make_one_call_while_others_proceed() {
    let gateway = Gateway::start().await;
    let (go, told) = watch::channel(false);
    let slow = waiting(told, reply::stream(&["shared ", "answer"])).await;
    let config = cached(&slow);
    let body = with(hello(), json!({ "stream": true }));
    let mut clients = JoinSet::new();
    for _ in 0..200 {
        clients.spawn(gateway.chat().config(&config).json(&body).send());
    }
    collapsed(&gateway, 199).await;
    let quick = upstream().await;
    ask(&gateway, &cached(&quick), &hello()).await.expect(200);
    let _ = go.send(true);
    let mut hits = 0;
    while let Some(answer) = clients.join_next().await {
        let answer = answer.expect("no client failed").expect(200);
        assert_eq!((answer.said().as_str(), answer.whole), ("shared answer", true));
        hits += usize::from(status(&answer) == "HIT");
    }
    assert_eq!((slow.seen().len(), hits), (1, 199));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_goes_on_without_its_first_client() {
    let gateway = Gateway::start().await;
    let (go, told) = watch::channel(false);
    let slow = waiting(told, reply::chat("for the others")).await;
    let config = cached(&slow);
    let mut clients = JoinSet::new();
    let mut start = || clients.spawn(gateway.chat().config(&config).json(&hello()).send());
    let first = start();
    eventually("the call upstream", || async { (slow.seen().len() == 1).then_some(()) }).await;
    let (_second, third) = (start(), start());
    collapsed(&gateway, 2).await;
    first.abort();
    third.abort();
    for _ in 0..2 {
        assert!(clients.join_next().await.is_some_and(|left| left.is_err()), "two have left");
    }
    // Time for the gateway to see them go; with less of it the story is only less telling.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let _ = go.send(true);
    let answer = clients.join_next().await.expect("one is left").expect("answered").expect(200);
    assert_eq!((answer.said().as_str(), slow.seen().len()), ("for the others", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_wants_any_more_ends() {
    let gateway = Gateway::start().await;
    let (_never, told) = watch::channel(false);
    let silent = waiting(told, Vec::new()).await;
    let config = cached(&silent);
    let mut clients = JoinSet::new();
    let mut start = || clients.spawn(gateway.chat().config(&config).json(&hello()).send());
    let first = start();
    eventually("the call upstream", || async { (silent.seen().len() == 1).then_some(()) }).await;
    let second = start();
    collapsed(&gateway, 1).await;
    first.abort();
    second.abort();
    eventually("the end of the call", || async { (silent.open() == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_everybodys_who_waited() {
    let gateway = Gateway::start().await;
    let (go, told) = watch::channel(false);
    let slow = waiting(told, reply::error(418, &[])).await;
    let config = cached(&slow);
    let mut clients = JoinSet::new();
    for _ in 0..5 {
        clients.spawn(gateway.chat().config(&config).json(&hello()).send());
    }
    collapsed(&gateway, 4).await;
    let _ = go.send(true);
    while let Some(answer) = clients.join_next().await {
        let answer = answer.expect("no client failed").expect(418);
        assert!(answer.error().contains("scripted 418"), "{}", answer.text());
    }
    assert_eq!(slow.seen().len(), 1);
}

#[tokio::test]
async fn memory_stays_within_its_bound_under_random_keys() {
    let gateway = Gateway::with(&["--cache-max", "256KiB"]).await;
    let upstream = Upstream::replying(|_| reply::chat(&"x".repeat(4000))).await;
    let config = cached(&upstream);
    for n in 0..200 {
        ask(&gateway, &config, &with(hello(), json!({ "seed": n }))).await.expect(200);
    }
    let metrics = metrics(&gateway).await;
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("gateway_cache_bytes ")?.parse::<u64>().ok());
    let bytes = bytes.expect("the cache tells its size");
    assert!((100_000..=256 * 1024).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn redis_keeps_answers_over_a_restart_and_is_done_without_when_away() {
    let mut redis = Redis::start();
    let url = redis.url();
    let flags = ["--redis-url", &url, "--redis-timeout", "500ms"];
    let gateway = Gateway::with(&flags).await;
    metric(&gateway, "gateway_redis_connected", 1).await;
    let upstream = Upstream::in_turn(vec![reply::chat("kept"), reply::chat("later")]).await;
    let config = cached(&upstream);
    ask(&gateway, &config, &hello()).await.expect(200);
    let mut stored = redis::Client::open(url.as_str()).expect("a client").get_connection().expect("connected");
    eventually("the answer in Redis", || {
        let keys: Vec<String> = redis::cmd("KEYS").arg("gateway:answer:*").query(&mut stored).expect("names");
        std::future::ready((keys.len() == 1).then_some(()))
    })
    .await;
    let gateway = gateway.restart_with(&flags).await;
    metric(&gateway, "gateway_redis_connected", 1).await;
    let hit = ask(&gateway, &config, &hello()).await.expect(200);
    assert_eq!((status(&hit), hit.said().as_str(), upstream.seen().len()), ("HIT", "kept", 1));
    redis.stop();
    let other = ask(&gateway, &config, &with(hello(), json!({ "seed": 1 }))).await.expect(200);
    assert_eq!((status(&other), other.said().as_str()), ("MISS", "later"));
    assert!(other.took < Duration::from_secs(5), "{:?}", other.took);
}

/// Seconds for which Redis keeps each answer.
fn kept_for(url: &str) -> Vec<u64> {
    let mut stored = redis::Client::open(url).expect("a client").get_connection().expect("connected");
    let keys: Vec<String> = redis::cmd("KEYS").arg("gateway:answer:*").query(&mut stored).expect("names");
    let ttl = |key: String| redis::cmd("TTL").arg(key).query::<u64>(&mut stored).expect("a time");
    keys.into_iter().map(ttl).collect()
}

#[tokio::test]
async fn the_organisation_bounds_how_long_answers_are_kept() {
    let redis = Redis::start();
    let url = redis.url();
    let gateway = Gateway::with(&["--redis-url", &url, "--redis-timeout", "2s"]).await;
    metric(&gateway, "gateway_redis_connected", 1).await;
    let (admin, upstream) = (gateway.admin(), upstream().await);
    for wrong in [json!(59), json!(25_923_001), json!("long")] {
        let answer = admin.put("/admin/organisation", &json!({ "cache_max_age": wrong })).await.expect(400);
        assert!(answer.text().contains("cache_max_age"), "{}", answer.text());
    }
    let mut stored = redis::Client::open(url.as_str()).expect("a client").get_connection().expect("connected");
    for (organisation, config, seconds) in [
        (json!(null), json!("simple"), 604_800),
        (json!(null), json!({ "mode": "simple", "max_age": 3600 }), 3600),
        (json!(120), json!({ "mode": "simple", "max_age": 3600 }), 120),
        (json!(120), json!({ "mode": "simple", "max_age": 60 }), 60),
        (json!(25_923_000), json!("simple"), 25_923_000),
    ] {
        admin.put("/admin/organisation", &json!({ "cache_max_age": organisation })).await.expect(200);
        let _: () = redis::cmd("FLUSHALL").query(&mut stored).expect("emptied");
        let body = with(hello(), json!({ "user": format!("{organisation} {config}") }));
        ask(&gateway, &with(target(&upstream), json!({ "cache": config })), &body).await.expect(200);
        let kept = eventually("the answer in Redis", || {
            std::future::ready(Some(kept_for(&url)).filter(|kept| !kept.is_empty()))
        })
        .await;
        assert!(kept.len() == 1 && (seconds - 30..=seconds).contains(&kept[0]), "{organisation} {config}: {kept:?}");
    }
}

/// Probes have the bytes and the namespace of an answer that is kept. They come from other workspaces, from another
/// organisation on the same Redis, and with other credentials.
#[tokio::test]
async fn probes_from_elsewhere_never_hit() {
    let redis = Redis::start();
    let url = redis.url();
    let flags = ["--redis-url", &url, "--redis-timeout", "2s"];
    let (gateway, foreign) = (Gateway::with(&flags).await, Gateway::with(&flags).await);
    for node in [&gateway, &foreign] {
        metric(node, "gateway_redis_connected", 1).await;
    }
    let upstream = upstream().await;
    let config = cached(&upstream);
    let probe = async |gateway: &Gateway, key: &str, config: &Value, credential: &str| {
        let call = gateway.chat().key(key).config(config).header("x-gateway-cache-namespace", "shared");
        let call = call.header("authorization", &format!("Bearer {credential}"));
        let answer = call.json(&hello()).send().await.expect(200);
        status(&answer).to_owned()
    };
    let own = crate::harness::WORKSPACE_KEY;
    let mut asked = Vec::new();
    for slug in ["one", "two", "three"] {
        let admin = gateway.admin();
        admin.post("/admin/workspaces", &json!({ "name": slug, "slug": slug })).await.expect(200);
        let key = json!({ "name": "k", "scopes": ["completions.write"], "workspace_id": slug });
        let key = admin.post("/api-keys/workspace/service", &key).await.expect(200).json();
        asked.push((&gateway, key["key"].as_str().expect("a key").to_owned(), config.clone(), "ann"));
    }
    asked.push((&gateway, own.to_owned(), config.clone(), "ann"));
    asked.push((&foreign, own.to_owned(), config.clone(), "ann"));
    asked.push((&gateway, own.to_owned(), with(config.clone(), json!({ "api_key": "another" })), "ann"));
    let brought = json!({ "provider": "openai", "custom_host": upstream.url(), "cache": "simple" });
    asked.push((&gateway, own.to_owned(), brought.clone(), "ann"));
    asked.push((&gateway, own.to_owned(), brought, "bob"));
    for wanted in ["MISS", "HIT"] {
        for (n, (gateway, key, config, credential)) in asked.iter().enumerate() {
            assert_eq!(probe(gateway, key, config, credential).await, wanted, "{n}");
        }
        assert_eq!(upstream.seen().len(), asked.len(), "each asks once for itself");
    }
}
