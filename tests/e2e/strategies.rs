//! Which target a request goes to, and what its answer says of that.

use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::{Value, json};

/// An upstream that always answers this status; 200 says `name`.
async fn answering(status: u16, name: &'static str) -> Upstream {
    Upstream::replying(move |_| if status == 200 { reply::chat(name) } else { reply::error(status, &[]) }).await
}

fn strategy(mode: &str, targets: &[Value]) -> Value {
    json!({ "strategy": { "mode": mode }, "targets": targets })
}

async fn ask(gateway: &Gateway, config: &Value) -> Answer {
    gateway.chat().config(config).json(&hello()).send().await
}

fn index(answer: &Answer) -> &str {
    answer.header("x-gateway-last-used-option-index").unwrap_or_default()
}

#[tokio::test]
async fn single_takes_the_first() {
    let gateway = Gateway::start().await;
    let (one, two) = (answering(500, "one").await, answering(200, "two").await);
    let answer = ask(&gateway, &strategy("single", &[target(&one), target(&two)])).await;
    assert_eq!((answer.status, index(&answer), two.connections()), (500, "config.targets[0]", 0));
}

#[tokio::test]
async fn fallback_goes_on_until_one_answers() {
    let gateway = Gateway::start().await;
    let (one, two, three) = (answering(500, "one").await, answering(401, "two").await, answering(200, "three").await);
    let config = strategy("fallback", &[target(&one), target(&two), target(&three)]);
    let answer = ask(&gateway, &config).await.expect(200);
    assert_eq!((answer.said().as_str(), index(&answer)), ("three", "config.targets[2]"));
    assert_eq!((one.seen().len(), two.seen().len(), three.seen().len()), (1, 1, 1));
    assert_eq!(answer.header("x-gateway-provider"), Some("openai"));
}

#[tokio::test]
async fn fallback_by_status_goes_on_at_those_only() {
    let gateway = Gateway::start().await;
    let (busy, broken, good) = (answering(429, "").await, answering(500, "").await, answering(200, "good").await);
    let on = |status: Value, first: &Upstream| {
        with(
            strategy("fallback", &[target(first), target(&good)]),
            json!({ "strategy": { "mode": "fallback", "on_status_codes": status } }),
        )
    };
    let answer = ask(&gateway, &on(json!([429, 503]), &busy)).await.expect(200);
    assert_eq!(index(&answer), "config.targets[1]");
    let answer = ask(&gateway, &on(json!([429, 503]), &broken)).await.expect(500);
    assert_eq!(index(&answer), "config.targets[0]");
    let answer = ask(&gateway, &on(json!([200]), &good)).await.expect(200);
    assert_eq!(index(&answer), "config.targets[1]", "a listed success goes on too");
}

#[tokio::test]
async fn when_all_fail_the_last_answer_is_given() {
    let gateway = Gateway::start().await;
    let (one, two) = (answering(500, "").await, answering(418, "").await);
    let answer = ask(&gateway, &strategy("fallback", &[target(&one), target(&two)])).await.expect(418);
    assert!(answer.error().contains("scripted 418"), "{}", answer.text());
    assert_eq!(index(&answer), "config.targets[1]");
}

#[tokio::test]
async fn a_target_that_cannot_be_reached_is_passed_over() {
    let gateway = Gateway::start().await;
    let nobody = json!({ "provider": "openai", "api_key": "k", "custom_host": closed() });
    let good = answering(200, "good").await;
    let answer = ask(&gateway, &strategy("fallback", &[nobody, target(&good)])).await.expect(200);
    assert_eq!(answer.said(), "good");
}

/// A base URL at which nobody listens.
fn closed() -> String {
    let port = crate::harness::ports::Port::reserve();
    format!("http://{}/v1", port.address)
}

#[tokio::test]
async fn weights_share_the_load() {
    let gateway = Gateway::start().await;
    let (seven, three, none) = (answering(200, "seven").await, answering(200, "").await, answering(200, "").await);
    let weighed = |upstream: &Upstream, weight: f64| with(target(upstream), json!({ "weight": weight }));
    let config = strategy("loadbalance", &[weighed(&seven, 0.7), weighed(&three, 0.3), weighed(&none, 0.0)]);
    for _ in 0..300 {
        ask(&gateway, &config).await.expect(200);
    }
    let (seven, three) = (seven.seen().len(), three.seen().len());
    assert_eq!((seven + three, none.connections()), (300, 0));
    // Six standard deviations around the mean.
    assert!((162..=258).contains(&seven), "{seven} of 300 at weight 0.7");
}

#[tokio::test]
async fn loadbalance_does_not_fall_back_and_needs_a_weight() {
    let gateway = Gateway::start().await;
    let (broken, good) = (answering(500, "").await, answering(200, "good").await);
    let only = |weight: u32| {
        let broken = with(target(&broken), json!({ "weight": weight }));
        strategy("loadbalance", &[broken, with(target(&good), json!({ "weight": 0 }))])
    };
    let answer = ask(&gateway, &only(1)).await.expect(500);
    assert_eq!(index(&answer), "config.targets[0]");
    ask(&gateway, &only(0)).await.expect(400);
}

#[tokio::test]
async fn strategies_nest() {
    let gateway = Gateway::start().await;
    let (broken, good) = (answering(503, "").await, answering(200, "good").await);
    let inner = |upstream: &Upstream| {
        let never = with(target(&good), json!({ "weight": 0 }));
        strategy("loadbalance", &[never, with(target(upstream), json!({ "weight": 2 }))])
    };
    let config = strategy("fallback", &[inner(&good), target(&broken)]);
    let answer = ask(&gateway, &config).await.expect(200);
    assert_eq!(index(&answer), "config.targets[0].targets[1]");
    let config = strategy("fallback", &[inner(&broken), strategy("single", &[target(&good)])]);
    let answer = ask(&gateway, &config).await.expect(200);
    assert_eq!(index(&answer), "config.targets[1].targets[0]");
    assert_eq!(broken.seen().len(), 1);
}

#[tokio::test]
async fn each_target_gets_its_own_body_model_and_path() {
    let gateway = Gateway::start().await;
    let one = answering(500, "").await;
    let two = Upstream::replying(|_| {
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
            "stop_sequence": null, "content": [{ "type": "text", "text": "translated" }],
            "usage": { "input_tokens": 5, "output_tokens": 2 },
        });
        reply::json(200, &message)
    })
    .await;
    let claude = json!({
        "provider": "anthropic", "api_key": "sk-ant", "custom_host": two.url(),
        "override_params": { "model": "claude-sonnet", "max_tokens": 64 },
    });
    let answer = ask(&gateway, &strategy("fallback", &[target(&one), claude])).await.expect(200);
    assert_eq!((answer.said().as_str(), answer.header("x-gateway-provider")), ("translated", Some("anthropic")));
    assert_eq!(answer.json()["usage"]["total_tokens"], 7);
    assert_eq!(one.only().json()["model"], "gpt-4o-mini");
    let seen = two.only();
    assert_eq!((seen.target.as_str(), seen.header("x-api-key")), ("/v1/messages", Some("sk-ant")));
    assert_eq!(seen.header("authorization"), None);
    assert_eq!((&seen.json()["model"], &seen.json()["max_tokens"]), (&json!("claude-sonnet"), &json!(64)));
}

#[tokio::test]
async fn overrides_replace_and_add_and_children_win() {
    let gateway = Gateway::start().await;
    let upstream = answering(200, "hi").await;
    let child = with(target(&upstream), json!({ "override_params": { "temperature": 0.25, "user": "child" } }));
    let config = json!({
        "strategy": { "mode": "single" }, "targets": [child],
        "override_params": { "temperature": 1, "seed": 7, "model": "overridden" },
    });
    let body = with(hello(), json!({ "temperature": 2, "top_p": 0.5, "custom": { "kept": [1] } }));
    gateway.chat().config(&config).json(&body).send().await.expect(200);
    let seen = upstream.only().json();
    for (key, value) in [
        ("temperature", json!(0.25)),
        ("user", json!("child")),
        ("seed", json!(7)),
        ("model", json!("overridden")),
        ("top_p", json!(0.5)),
        ("custom", json!({ "kept": [1] })),
        ("messages", hello()["messages"].clone()),
    ] {
        assert_eq!(seen[key], value, "{key}");
    }
}

#[tokio::test]
async fn a_managed_model_may_stand_in_body_or_override() {
    let gateway = Gateway::start().await;
    let upstream = answering(200, "hi").await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let body = with(hello(), json!({ "model": "@main/org/model-x" }));
    gateway.chat().json(&body).send().await.expect(200);
    let config = json!({ "override_params": { "model": "@main/model-y" }, "retry": { "attempts": 1 } });
    gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    let models: Vec<Value> = upstream.seen().iter().map(|s| s.json()["model"].clone()).collect();
    assert_eq!(models, ["org/model-x", "model-y"]);
}

#[tokio::test]
async fn every_problem_of_a_config_is_listed() {
    let gateway = Gateway::start().await;
    let config = json!({
        "strategy": { "mode": "roundrobin" }, "retry": { "attempts": 9 },
        "targets": [{ "provider": "openai", "weight": -1 }, { "provider": "nobody" }],
    });
    let answer = ask(&gateway, &config).await.expect(400);
    let errors = answer.json()["errors"].to_string();
    for path in ["strategy,mode", "retry,attempts", "targets,0,weight", "targets,1,provider"] {
        assert!(errors.contains(&format!("path: {path}")), "{path} in {errors}");
    }
    let many = strategy("fallback", &vec![json!({ "provider": "mock" }); 101]);
    assert_eq!(ask(&gateway, &many).await.status, 400);
}

/// Status, place and retries that a client sees of each strategy, whatever its targets answer.
#[tokio::test]
async fn statuses_and_headers_of_each_strategy() {
    let gateway = Gateway::start().await;
    let (good, busy, broken) = (answering(200, "good").await, answering(429, "").await, answering(500, "").await);
    let [good, busy, broken] = [&good, &busy, &broken].map(target);
    let conditional = |then: &str| {
        let named = |name: &str, target: &Value| with(target.clone(), json!({ "name": name }));
        let strategy = json!({
            "mode": "conditional", "default": "bad",
            "conditions": [{ "query": { "params.model": { "$regex": "^gpt" } }, "then": then }],
        });
        json!({ "strategy": strategy, "targets": [named("bad", &broken), named("ok", &good)] })
    };
    let never = json!({ "retry": { "attempts": 0 } });
    let listed = |codes: Value, targets: [&Value; 2]| json!({ "strategy": { "mode": "fallback", "on_status_codes": codes }, "targets": targets });
    let weighted = |weights: [u32; 2]| {
        let targets = [(&broken, weights[0]), (&good, weights[1])];
        strategy("loadbalance", &targets.map(|(t, w)| with(t.clone(), json!({ "weight": w }))))
    };
    for (config, status, place) in [
        (good.clone(), 200, "config"),
        (with(busy.clone(), never.clone()), 429, "config"),
        (strategy("single", &[broken.clone(), good.clone()]), 500, "config.targets[0]"),
        (strategy("fallback", &[busy.clone(), broken.clone(), good.clone()]), 200, "config.targets[2]"),
        (strategy("fallback", &[busy.clone(), broken.clone()]), 500, "config.targets[1]"),
        (listed(json!([429]), [&busy, &good]), 200, "config.targets[1]"),
        (listed(json!([429]), [&broken, &good]), 500, "config.targets[0]"),
        (listed(json!([]), [&broken, &good]), 500, "config.targets[0]"),
        (weighted([0, 1]), 200, "config.targets[1]"),
        (weighted([1, 0]), 500, "config.targets[0]"),
        (conditional("ok"), 200, "config.targets[1]"),
        (conditional("bad"), 500, "config.targets[0]"),
        (strategy("fallback", &[weighted([1, 0]), conditional("ok")]), 200, "config.targets[1].targets[1]"),
        (
            strategy("single", &[strategy("fallback", &[broken.clone(), good.clone()])]),
            200,
            "config.targets[0].targets[1]",
        ),
    ] {
        let answer = ask(&gateway, &config).await;
        assert_eq!((answer.status, index(&answer)), (status, place), "{config}");
        for (name, value) in [
            ("x-gateway-provider", "openai"),
            ("x-gateway-retry-attempt-count", "0"),
            ("x-gateway-cache-status", "DISABLED"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}: {config}");
        }
        assert!(answer.header("x-gateway-trace-id").is_some_and(|id| !id.is_empty()), "{config}");
    }
}

/// Each client its own way through faults: nobody gets another's answer, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_fallbacks_at_once_under_faults() {
    let gateway = Gateway::start().await;
    let resetting = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.reset().await;
    })
    .await;
    let half = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.send([reply::STREAM, &reply::role()].concat()).await;
    })
    .await;
    let (busy, silent) = (answering(429, "").await, {
        Upstream::scripted(|mut peer| async move {
            peer.request().await;
            peer.gone().await;
        })
        .await
    });
    let good = Upstream::replying(|seen| {
        let body = seen.json();
        let said = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        if body["stream"] == true { reply::stream(&["to ", &said]) } else { reply::chat(&format!("to {said}")) }
    })
    .await;
    let nobody = json!({ "provider": "openai", "api_key": "k", "custom_host": closed() });
    let slow = with(target(&silent), json!({ "request_timeout": 150 }));
    let faults = [nobody, target(&resetting), target(&half), target(&busy), slow];
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..20 {
        let mut targets = faults.to_vec();
        targets.rotate_left(n % faults.len());
        targets.push(target(&good));
        let config = strategy("fallback", &targets);
        let message = format!("client {n}");
        let body = with(hello(), json!({ "stream": n % 2 == 0, "messages": [{ "role": "user", "content": message }] }));
        let call = gateway.chat().config(&config).json(&body);
        clients.spawn(async move { (message, call.send().await) });
    }
    while let Some(done) = clients.join_next().await {
        let (message, answer) = done.expect("no client failed");
        let answer = answer.expect(200);
        assert_eq!((answer.said(), index(&answer), answer.whole), (format!("to {message}"), "config.targets[5]", true));
    }
    assert_eq!(good.seen().len(), 20);
}
