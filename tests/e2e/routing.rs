//! How a config chooses: conditions, sticky assignment, circuit breakers, pass-through targets.

use crate::harness::{Answer, Gateway, Mock, Upstream, eventually, gateway::target, hello, reply, with};
use gateway_testing::Redis;
use serde_json::{Value, json};

async fn answering(status: u16) -> Upstream {
    Upstream::replying(move |_| if status == 200 { reply::chat("hi") } else { reply::error(status, &[]) }).await
}

fn index(answer: &Answer) -> String {
    answer.header("x-gateway-last-used-option-index").unwrap_or_default().to_owned()
}

async fn asked(gateway: &Gateway, config: &Value, metadata: &Value, body: &Value) -> Answer {
    gateway.chat().config(config).header("x-gateway-metadata", &metadata.to_string()).json(body).send().await
}

fn conditional(upstream: &Upstream, default: Option<&str>) -> Value {
    let named = |name: &str| with(target(upstream), json!({ "name": name }));
    json!({
        "strategy": { "mode": "conditional", "default": default, "conditions": [
            { "query": { "metadata.plan": { "$in": ["paid", "gold"] } }, "then": "best" },
            { "query": { "$or": [
                { "params.model": { "$regex": "^claude" } },
                { "$and": [{ "params.max_tokens": { "$gte": 1000 } }, { "params.stream": { "$ne": true } }] },
            ] }, "then": "large" },
            { "query": { "url.pathname": "/v1/proxy/chat/completions" }, "then": "raw" },
        ] },
        "targets": [named("best"), named("large"), named("raw"), named("rest")],
    })
}

#[tokio::test]
async fn conditions_choose_by_metadata_params_and_path() {
    let gateway = Gateway::start().await;
    let upstream = answering(200).await;
    let config = conditional(&upstream, Some("rest"));
    for (metadata, fields, place) in [
        (json!({ "plan": "gold" }), json!({ "model": "claude-x" }), 0),
        (json!({ "plan": "free" }), json!({ "model": "claude-x" }), 1),
        (json!({}), json!({ "max_tokens": 1000 }), 1),
        (json!({}), json!({ "max_tokens": 999 }), 3),
        (json!({ "plan": 1.to_string() }), json!({}), 3),
    ] {
        let answer = asked(&gateway, &config, &metadata, &with(hello(), fields)).await.expect(200);
        assert_eq!(index(&answer), format!("config.targets[{place}]"), "{metadata}");
    }
    let raw = gateway.post("/v1/proxy/chat/completions").config(&config);
    assert_eq!(index(&raw.json(&hello()).send().await.expect(200)), "config.targets[2]");
    // A form that asks a model has fields as JSON has; nothing of a relayed body is read, whose params are none.
    let form = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nclaude\r\n--b--\r\n";
    for (path, place) in [("/v1/audio/transcriptions", 1), ("/v1/files", 3)] {
        let call = gateway.post(path).config(&config).body("multipart/form-data; boundary=b", form);
        assert_eq!(index(&call.send().await.expect(200)), format!("config.targets[{place}]"), "{path}");
    }
}

#[tokio::test]
async fn no_match_without_a_default_is_a_400() {
    let gateway = Gateway::start().await;
    let upstream = answering(200).await;
    let answer = asked(&gateway, &conditional(&upstream, None), &json!({}), &hello()).await.expect(400);
    assert!(answer.error().contains("no condition of config matches"), "{}", answer.text());
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn target_names_and_operators_are_checked_at_save_and_inline() {
    let gateway = Gateway::start().await;
    let upstream = answering(200).await;
    let mut config = conditional(&upstream, Some("nobody"));
    config["strategy"]["conditions"][0]["then"] = json!("no one");
    config["strategy"]["conditions"][1]["query"] = json!({ "params.model": { "$like": "x" } });
    let saved = gateway.admin().post("/configs", &json!({ "name": "c", "config": config })).await.expect(400);
    let inline = gateway.chat().config(&config).json(&hello()).send().await.expect(400);
    for text in [saved.text(), inline.text()] {
        for told in [
            "path: strategy,conditions,0,then, message: target name `no one` is invalid",
            "path: strategy,default, message: target name `nobody` is invalid",
            "Unsupported operator used in the query router: $like",
        ] {
            assert!(text.contains(told), "{told} in {text}");
        }
    }
}

#[tokio::test]
async fn sticky_keeps_a_user_at_a_target() {
    let gateway = Gateway::start().await;
    let upstream = answering(200).await;
    let sticky = json!({ "enabled": true, "hash_fields": ["metadata._user", "params.user"], "ttl": 600 });
    let targets: Vec<Value> = (0..6).map(|_| target(&upstream)).collect();
    let config = json!({ "strategy": { "mode": "loadbalance", "sticky": sticky }, "targets": targets });
    let body = hello();
    let mut used = std::collections::HashSet::new();
    for user in ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon"] {
        let metadata = json!({ "_user": user });
        let ask = || asked(&gateway, &config, &metadata, &body);
        let first = index(&ask().await.expect(200));
        for _ in 0..5 {
            assert_eq!(index(&ask().await.expect(200)), first, "{user}");
        }
        used.insert(first);
    }
    assert!(used.len() > 1, "{used:?}");
}

/// Sets every assignment that is shared to the other of two places, as another node would have told it.
fn swap_assignments(redis: &mut redis::Connection) -> usize {
    let names: Vec<String> = redis::cmd("KEYS").arg("gateway:{sticky}:*").query(redis).expect("names");
    for name in &names {
        let told: String = redis::cmd("GET").arg(name).query(redis).expect("a value");
        let left: i64 = redis::cmd("TTL").arg(name).query(redis).expect("its time");
        assert!((3500..=3600).contains(&left), "{left}");
        let (place, until) = told.split_once(':').expect("place and end");
        let other = if place == "0" { "1" } else { "0" };
        let _: () =
            redis::cmd("SET").arg(name).arg(format!("{other}:{until}")).arg("KEEPTTL").query(redis).expect("set");
    }
    names.len()
}

#[tokio::test]
async fn sticky_is_shared_through_redis() {
    let redis = Redis::start();
    let url = redis.url();
    let flags = ["--redis-url", &url, "--redis-timeout", "2s"];
    let gateway = Gateway::with(&flags).await;
    connected(&gateway).await;
    let (well, ill) = (answering(200).await, answering(500).await);
    let sticky = |targets: [Value; 2]| {
        let sticky = json!({ "enabled": true, "hash_fields": ["metadata._user"], "ttl": 3600 });
        json!({ "strategy": { "mode": "loadbalance", "sticky": sticky }, "targets": targets })
    };
    let both = || sticky([target(&well), target(&well)]);
    let first = both();
    let nested = sticky([both(), both()]);
    let later = json!({ "strategy": { "mode": "fallback" }, "targets": [target(&ill), both()] });
    let chat = async |gateway: &Gateway, config: &Value, user: &str| {
        index(&asked(gateway, config, &json!({ "_user": user }), &hello()).await.expect(200))
    };
    let relayed = async |gateway: &Gateway| {
        let call = gateway.post("/v1/proxy/files").config(&later).header("x-gateway-metadata", r#"{"_user":"rel"}"#);
        index(&call.body("multipart/form-data; boundary=b", "--b--").send().await.expect(200))
    };
    let all = async |gateway: &Gateway| {
        [
            chat(gateway, &first, "ann").await,
            chat(gateway, &nested, "ann").await,
            chat(gateway, &later, "ann").await,
            relayed(gateway).await,
        ]
    };
    let before = all(&gateway).await;
    let mut stored = redis::Client::open(url.as_str()).expect("a client").get_connection().expect("connected");
    assert_eq!(swap_assignments(&mut stored), 5, "two of them of one request");
    assert_eq!(all(&gateway).await, before, "a node keeps to what it knows");
    let gateway = gateway.restart_with(&flags).await;
    connected(&gateway).await;
    let after = all(&gateway).await;
    let other = |path: &str, at: usize| {
        let flip = if path.as_bytes()[at] == b'0' { "1" } else { "0" };
        [&path[..at], flip, &path[at + 1..]].concat()
    };
    assert_eq!(after[0], other(&before[0], "config.targets[".len()));
    // The other branch has an assignment of its own.
    assert_eq!(after[1][..16], other(&before[1], "config.targets[".len())[..16]);
    for place in [2, 3] {
        assert_eq!(after[place], other(&before[place], "config.targets[1].targets[".len()), "after a fallback");
    }
    drop(redis);
    assert_eq!(all(&gateway).await, after);
    chat(&gateway, &first, "bob").await;
}

async fn connected(gateway: &Gateway) {
    eventually("Redis", || async {
        let told = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("an answer");
        told.text().await.expect("text").contains("gateway_redis_connected 1").then_some(())
    })
    .await;
}

fn with_breaker(mode: &str, targets: &[Value]) -> Value {
    let rules = json!({ "failure_threshold": 2, "cooldown_interval": 30_000 });
    json!({ "strategy": { "mode": mode, "cb_config": rules }, "targets": targets })
}

#[tokio::test]
async fn a_broken_target_is_left_out_and_shown() {
    let gateway = Gateway::start().await;
    let (broken, good) = (answering(503).await, answering(200).await);
    let slug = gateway.admin().config("main", &with_breaker("fallback", &[target(&broken), target(&good)])).await;
    let ask = || gateway.chat().header("x-gateway-config", &slug).json(&hello()).send();
    for _ in 0..5 {
        assert_eq!(index(&ask().await.expect(200)), "config.targets[1]");
    }
    assert_eq!((broken.seen().len(), good.seen().len()), (2, 5), "two failures open it");
    let shown = gateway.admin().get(&format!("/configs/{slug}/circuit-breakers")).await.expect(200).json();
    let states: Vec<(&Value, &Value)> =
        shown["data"].as_array().expect("a list").iter().map(|b| (&b["target"], &b["state"])).collect();
    let (open, closed) = (json!("OPEN"), json!("CLOSED"));
    assert_eq!(states, [(&json!("config.targets[0]"), &open), (&json!("config.targets[1]"), &closed)]);
    assert!(shown["data"][0]["open_until"].is_string() && shown["data"][1]["open_until"].is_null(), "{shown}");
    let metrics = gateway.metrics().await;
    for (place, state) in [(0, 1), (1, 0)] {
        let labels = format!("config=\"{slug}\",target=\"config.targets[{place}]\"");
        let line = metrics.lines().find(|l| l.starts_with("gateway_circuit_open") && l.contains(&labels));
        assert!(line.is_some_and(|l| l.ends_with(&format!(" {state}"))), "{labels}: {line:?}");
    }
}

#[tokio::test]
async fn an_edit_keeps_the_breakers_of_targets_that_stay() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let good = Upstream::replying(|_| reply::chat("good")).await;
    let config = |targets: Value| {
        json!({ "strategy": { "mode": "fallback", "cb_config": { "failure_threshold": 1, "cooldown_interval": 60000 } },
                "targets": targets })
    };
    let (first, second) = (target(&broken), target(&good));
    let slug = gateway.admin().config("watched", &config(json!([first, second]))).await;
    let ask = || gateway.chat().header("x-gateway-config", &slug).json(&hello()).send();
    ask().await.expect(200);
    let update =
        json!({ "name": "watched", "config": config(json!([with(second.clone(), json!({ "weight": 2 })), first])) });
    gateway.admin().put(&format!("/configs/{slug}"), &update).await.expect(200);
    let shown = gateway.admin().get(&format!("/configs/{slug}/circuit-breakers")).await.expect(200).json();
    let states: Vec<&Value> = shown["data"].as_array().expect("a list").iter().map(|b| &b["state"]).collect();
    assert_eq!(states, ["CLOSED", "OPEN"], "each went with its target: {shown}");
    let swapped = json!({ "name": "watched", "config": config(json!([first, second])) });
    gateway.admin().put(&format!("/configs/{slug}"), &swapped).await.expect(200);
    ask().await.expect(200);
    assert_eq!(broken.seen().len(), 1, "it is still left out");
}

#[tokio::test]
async fn when_every_target_is_open_all_are_used() {
    let gateway = Gateway::start().await;
    let (one, two) = (answering(502).await, answering(503).await);
    let config = with_breaker("fallback", &[target(&one), target(&two)]);
    for _ in 0..6 {
        let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(503);
        assert_eq!(index(&answer), "config.targets[1]");
    }
    assert_eq!((one.seen().len(), two.seen().len()), (6, 6));
}

#[tokio::test]
async fn a_429_is_no_ill_health_unless_listed() {
    let gateway = Gateway::start().await;
    for (listed, calls) in [(false, 5), (true, 2)] {
        let (busy, good) = (answering(429).await, answering(200).await);
        let mut config = with_breaker("fallback", &[target(&busy), target(&good)]);
        if listed {
            config["strategy"]["cb_config"]["failure_status_codes"] = json!([429]);
        }
        for _ in 0..5 {
            gateway.chat().config(&config).json(&hello()).send().await.expect(200);
        }
        assert_eq!(busy.seen().len(), calls, "listed: {listed}");
    }
}

#[tokio::test]
async fn load_balance_draws_among_those_that_are_well() {
    let gateway = Gateway::start().await;
    let (broken, good) = (answering(501).await, answering(200).await);
    let heavy = with(target(&broken), json!({ "weight": 1000 }));
    let config = with_breaker("loadbalance", &[heavy, target(&good)]);
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(gateway.chat().config(&config).json(&hello()).send().await.status);
    }
    assert_eq!(broken.seen().len(), 2, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|s| **s == 200).count(), 10, "{statuses:?}");
}

#[tokio::test]
async fn passthrough_takes_its_provider_from_header_or_model() {
    let gateway = Gateway::start().await;
    let (one, two) = (answering(200).await, answering(200).await);
    gateway.admin().provider("one", "openai", Some(&one.url())).await;
    gateway.admin().provider("two", "openai", Some(&two.url())).await;
    let config = json!({ "passthrough": true });
    let named = with(hello(), json!({ "model": "@two/m" }));
    gateway.chat().config(&config).json(&named).send().await.expect(200);
    assert_eq!((one.seen().len(), &two.only().json()["model"]), (0, &json!("m")));
    gateway.chat().config(&config).provider("@one").json(&hello()).send().await.expect(200);
    assert_eq!(one.seen().len(), 1);
    // A family by header does not do, and what does not resolve fails as a target does.
    gateway.chat().config(&config).provider("openai").json(&hello()).send().await.expect(400);
    let config =
        json!({ "strategy": { "mode": "fallback" }, "targets": [{ "passthrough": true }, { "provider": "@one" }] });
    let answer = gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    assert_eq!(index(&answer), "config.targets[1]");
}

#[tokio::test]
async fn twenty_fallbacks_at_once_past_every_fault() {
    let gateway = Gateway::start().await;
    // What of a body breaks after a stream's content has begun can no longer fall back.
    for (stream, faults) in [
        (true, ["reset-head", "garbage-head", "early-413", "error-event"]),
        (false, ["reset-head", "garbage-head", "reset-body", "bad-json"]),
    ] {
        let mut mocks = Vec::new();
        for fault in faults {
            mocks.push(Mock::start(&["--fault", fault]).await);
        }
        mocks.push(Mock::start(&["--status", "529"]).await);
        mocks.push(Mock::start(&[]).await);
        let targets = mocks.iter().map(|m| json!({ "provider": "openai", "api_key": "k", "custom_host": m.url() }));
        let config = json!({ "strategy": { "mode": "fallback" }, "targets": targets.collect::<Vec<_>>() });
        let body = with(hello(), json!({ "stream": stream }));
        let calls = (0..20).map(|_| gateway.chat().config(&config).json(&body).send());
        for answer in futures_util::future::join_all(calls).await {
            let answer = answer.expect(200);
            assert_eq!(
                (index(&answer).as_str(), answer.said().as_str()),
                ("config.targets[5]", "You said: hello there")
            );
            assert_eq!(answer.header("x-gateway-retry-attempt-count"), Some("0"));
        }
    }
}
