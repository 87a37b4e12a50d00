//! Guardrails as clients meet them: what is denied, what goes down marked, what is changed, and what it costs.

use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, hello, reply, with};
use serde_json::{Value, json};

/// A config that goes to `upstream`, with these keys beside.
fn guarded(upstream: &Upstream, keys: Value) -> Value {
    with(target(upstream), keys)
}

/// A guardrail that forbids words.
fn forbids(words: &[&str], actions: Value) -> Value {
    with(json!({ "default.contains": { "words": words, "operator": "none" } }), actions)
}

fn deny() -> Value {
    json!({ "deny": true })
}

fn asking(text: &str) -> Value {
    json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": text }] })
}

async fn upstream(says: &'static str) -> Upstream {
    Upstream::replying(move |_| reply::chat(says)).await
}

async fn ask(gateway: &Gateway, config: &Value, body: &Value) -> Answer {
    gateway.chat().config(config).json(body).send().await
}

fn verdicts(answer: &Answer) -> Option<&str> {
    answer.header("x-gateway-guardrails")
}

/// The newest record of a trace, once it is there.
pub(crate) async fn record(gateway: &Gateway, trace: &str) -> Value {
    let admin = gateway.admin();
    let row = eventually(&format!("the record of {trace}"), || async {
        let list = admin.get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().and_then(|rows| rows.first().cloned())
    })
    .await;
    let id = row["id"].as_str().or_else(|| row["_id"].as_str()).expect("an id");
    let found = admin.get(&format!("/logs/{id}")).await.expect(200).json();
    if found["data"].is_object() { found["data"].clone() } else { found }
}

#[tokio::test]
async fn requests_are_denied_marked_or_pass() {
    let gateway = Gateway::start().await;
    let upstream = upstream("fine").await;
    let list = |actions: Value| json!({ "input_guardrails": [forbids(&["secret"], actions)] });
    let denied = ask(&gateway, &guarded(&upstream, list(deny())), &asking("a secret")).await.expect(446);
    assert_eq!((upstream.seen().len(), verdicts(&denied)), (0, Some("in=deny")));
    assert_eq!(denied.header("x-gateway-cache-status"), None, "the cache was not asked");
    let body = denied.json();
    assert_eq!(body["error"]["type"], "hooks_failed");
    let hook = &body["hook_results"]["before_request_hooks"][0];
    assert_eq!((&hook["verdict"], &hook["deny"], &hook["type"]), (&json!(false), &json!(true), &json!("guardrail")));
    assert_eq!(hook["checks"][0]["id"], "default.contains");
    assert_eq!(hook["checks"][0]["data"]["foundWords"], json!(["secret"]));
    assert_eq!(body["hook_results"]["after_request_hooks"], json!([]));

    let soft = ask(&gateway, &guarded(&upstream, list(json!({}))), &asking("a secret")).await.expect(246);
    assert_eq!((soft.said().as_str(), verdicts(&soft)), ("fine", Some("in=soft")));
    assert_eq!(soft.json()["hook_results"]["before_request_hooks"][0]["deny"], false);

    let passed = ask(&gateway, &guarded(&upstream, list(deny())), &asking("all well")).await.expect(200);
    assert_eq!(verdicts(&passed), Some("in=pass"));
    assert_eq!(passed.json()["hook_results"]["before_request_hooks"][0]["verdict"], true);

    let plain = ask(&gateway, &target(&upstream), &asking("a secret")).await.expect(200);
    assert_eq!((verdicts(&plain), plain.json().get("hook_results")), (None, None), "no guardrail, no word of one");
}

#[tokio::test]
async fn answers_are_denied_and_paid_for_or_marked() {
    let gateway = Gateway::start().await;
    let upstream = upstream("a secret").await;
    let list = |actions: Value| json!({ "output_guardrails": [forbids(&["secret"], actions)], "cache": "simple" });
    let config = guarded(&upstream, list(deny()));
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "denied-out").json(&hello());
    let denied = call.send().await.expect(446);
    assert!(!denied.text().contains("a secret\""), "the answer is kept back: {}", denied.text());
    assert_eq!((upstream.seen().len(), verdicts(&denied)), (1, Some("out=deny")));
    let record = record(&gateway, "denied-out").await;
    assert_eq!(record["metrics"]["response_status_code"], 446);
    assert_eq!((&record["fault"], &record["metrics"]["total_units"]), (&json!("hooks_failed"), &json!(8)));
    assert!(record.to_string().contains("after_request_hooks"), "{record}");
    ask(&gateway, &config, &hello()).await.expect(446);
    assert_eq!(upstream.seen().len(), 2, "what was denied is not kept");

    let soft = ask(&gateway, &guarded(&upstream, list(json!({}))), &hello()).await.expect(246);
    assert_eq!((soft.said().as_str(), verdicts(&soft)), ("a secret", Some("out=soft")));
    for status in [418, 201] {
        let odd = Upstream::replying(move |_| reply::json(status, &reply::completion("a secret"))).await;
        let answer = ask(&gateway, &guarded(&odd, list(deny())), &hello()).await.expect(status);
        assert_eq!(verdicts(&answer), None, "answers of status {status} are not judged");
    }
}

#[tokio::test]
async fn results_are_the_last_key_and_nothing_else_moves() {
    let gateway = Gateway::start().await;
    let odd = "{ \"id\" : \"x\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"h\\u0069\"},\
               \"finish_reason\":\"stop\"}] ,  \"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2} }";
    let upstream = Upstream::replying(move |_| reply::whole(200, &[("content-type", "application/json")], odd)).await;
    let config = guarded(&upstream, json!({ "output_guardrails": [forbids(&["x"], json!({}))] }));
    let answer = ask(&gateway, &config, &hello()).await.expect(200).text();
    let kept = odd.trim_end().strip_suffix('}').expect("an object").trim_end();
    assert!(answer.starts_with(kept), "{answer}");
    assert!(
        answer[kept.len()..].trim_start().starts_with(",\"hook_results\":{\"before_request_hooks\":[],"),
        "{answer}"
    );
}

#[tokio::test]
async fn other_dialects_are_denied_in_their_own_words() {
    let gateway = Gateway::start().await;
    let upstream = upstream("x").await;
    let soft = json!({ "deny": true, "soft_deny_200": true });
    let config =
        |actions: &Value| guarded(&upstream, json!({ "input_guardrails": [forbids(&["secret"], actions.clone())] }));
    let message = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "a secret" }] });
    let response = json!({ "model": "m", "input": "a secret" });
    let post = async |path: &str, body: &Value, actions: &Value| {
        gateway.post(path).config(&config(actions)).json(body).send().await
    };
    let denied = post("/v1/messages", &message, &deny()).await.expect(446).json();
    assert_eq!((&denied["type"], &denied["error"]["type"]), (&json!("error"), &json!("hooks_failed")));
    assert!(denied["hook_results"].is_object(), "{denied}");
    post("/v1/responses", &response, &deny()).await.expect(446);
    let chat = post("/v1/chat/completions", &asking("a secret"), &soft).await.expect(200).json();
    assert_eq!((&chat["choices"][0]["finish_reason"], &chat["object"]), (&json!("stop"), &json!("chat.completion")));
    assert!(chat["hook_results"]["before_request_hooks"][0]["deny"] == true, "{chat}");
    let told = post("/v1/messages", &message, &soft).await.expect(200).json();
    assert_eq!((&told["stop_reason"], &told["content"][0]["type"]), (&json!("end_turn"), &json!("text")));
    let told = post("/v1/responses", &response, &soft).await.expect(200).json();
    assert_eq!(
        (&told["status"], &told["output"][0]["content"][0]["type"]),
        (&json!("completed"), &json!("output_text"))
    );
    let embedding = json!({ "model": "m", "input": "a secret" });
    post("/v1/embeddings", &embedding, &soft).await.expect(446);
    for (path, body, ends) in [
        ("/v1/chat/completions", asking("a secret"), "data: [DONE]"),
        ("/v1/messages", message, "\"message_stop\"}"),
        ("/v1/responses", response, "\"response.completed\"}"),
    ] {
        let stream = post(path, &with(body, json!({ "stream": true })), &soft).await.expect(200);
        assert!(stream.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")), "{path}");
        assert!(stream.text().trim_end().ends_with(ends), "{path}: {}", stream.text());
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn fallback_follows_246_and_446() {
    let gateway = Gateway::start().await;
    let (first, second) = (upstream("a secret").await, upstream("fine").await);
    let out = |actions: Value| json!({ "output_guardrails": [forbids(&["secret"], actions)] });
    let config = |actions: Value, on: Value| {
        json!({ "strategy": { "mode": "fallback", "on_status_codes": on },
                "targets": [guarded(&first, out(actions)), target(&second)] })
    };
    for (actions, on, status, said) in [
        (deny(), Value::Null, 200, "fine"),
        (json!({}), json!([246]), 200, "fine"),
        (json!({}), Value::Null, 246, "a secret"),
    ] {
        let answer = ask(&gateway, &config(actions, on.clone()), &hello()).await.expect(status);
        assert_eq!(answer.said(), said, "{on}");
    }
    let seen = first.seen().len();
    let own = json!({ "strategy": { "mode": "fallback" }, "targets": [
        guarded(&first, json!({ "input_guardrails": [forbids(&["hello"], deny())] })), target(&second)] });
    assert_eq!(ask(&gateway, &own, &hello()).await.expect(200).said(), "fine");
    assert_eq!(first.seen().len(), seen, "a target whose own guardrail denies is not called");
}

#[tokio::test]
async fn a_retry_makes_the_whole_call_again_and_each_try_has_its_record() {
    let gateway = Gateway::start().await;
    let twice = Upstream::in_turn(vec![reply::chat("a secret"), reply::chat("fine")]).await;
    let retry = |on: u16, attempts: u32| json!({ "retry": { "attempts": attempts, "on_status_codes": [on] } });
    let out = |actions: Value| json!({ "output_guardrails": [forbids(&["secret"], actions)] });
    let config = with(guarded(&twice, out(deny())), retry(446, 2));
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "again").json(&hello());
    let answer = call.send().await.expect(200);
    assert_eq!((answer.header("x-gateway-retry-attempt-count"), twice.seen().len()), (Some("1"), 2));
    let results = answer.json()["hook_results"]["after_request_hooks"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(1), "old results are dropped: {results}");
    eventually("a record for each try", || async {
        let list = gateway.admin().get("/logs?trace_id=again").await.expect(200).json();
        list["data"].as_array().is_some_and(|rows| rows.len() == 2).then_some(())
    })
    .await;
    let soft = Upstream::in_turn(vec![reply::chat("a secret"), reply::chat("fine")]).await;
    let config = with(guarded(&soft, out(json!({}))), retry(246, 2));
    assert_eq!(ask(&gateway, &config, &hello()).await.expect(200).said(), "fine");
    let never = upstream("a secret").await;
    let config = with(guarded(&never, out(deny())), retry(446, 1));
    let answer = ask(&gateway, &config, &hello()).await.expect(446);
    assert_eq!((answer.header("x-gateway-retry-attempt-count"), never.seen().len()), (Some("-1"), 2));
}

#[tokio::test]
async fn rewrites_go_up_and_down_and_none_is_lost() {
    let gateway = Gateway::start().await;
    let upstream = upstream("mail bob@example.com or 42").await;
    let replace = |rule: &str, by: &str| json!({ "default.regexReplace": { "rule": rule, "redactText": by } });
    let both = json!([replace("ann", "A"), replace("secret", "S")]);
    let config =
        guarded(&upstream, json!({ "input_guardrails": both, "output_mutators": [replace(r"\S+@\S+", "<m>")] }));
    let answer = ask(&gateway, &config, &asking("ann has a secret, ann")).await.expect(200);
    assert_eq!(upstream.only().json()["messages"][0]["content"], "A has a S, A");
    assert_eq!(answer.said(), "mail <m> or 42");
    let hook = &answer.json()["hook_results"]["after_request_hooks"][0];
    assert_eq!((&hook["type"], &hook["transformed"]), (&json!("mutator"), &json!(true)));
    let embedding = json!({ "model": "m", "input": ["ann", "bob"] });
    gateway.post("/v1/embeddings").config(&config).json(&embedding).send().await;
    let seen = upstream.seen().pop().expect("it went up");
    assert_eq!(seen.json()["input"], json!(["A", "bob"]), "the shape is kept");
}

#[tokio::test]
async fn raw_hooks_stand_before_and_behind() {
    let gateway = Gateway::start().await;
    let upstream = upstream("a secret").await;
    let hook = |word: &str| {
        json!([{ "id": "mine", "deny": true, "checks": [
        { "id": "default.contains", "parameters": { "words": [word], "operator": "none" } },
        { "id": "default.wordCount", "parameters": { "maxWords": 1 }, "is_enabled": false }] }])
    };
    let before = guarded(&upstream, json!({ "before_request_hooks": hook("hello") }));
    let denied = ask(&gateway, &before, &hello()).await.expect(446).json();
    let told = &denied["hook_results"]["before_request_hooks"][0];
    assert_eq!((&told["id"], told["checks"].as_array().map(Vec::len)), (&json!("mine"), Some(1)), "{denied}");
    let mutator = json!([{ "id": "in", "type": "mutator", "checks": [
        { "id": "default.addPrefix", "parameters": { "prefix": "Be brief. " } }] }]);
    let config = guarded(&upstream, json!({ "beforeRequestHooks": mutator, "afterRequestHooks": hook("secret") }));
    ask(&gateway, &config, &hello()).await.expect(446);
    assert_eq!(upstream.only().json()["messages"][0]["content"], "Be brief. hello there");
}

#[tokio::test]
async fn a_webhook_judges_rewrites_and_may_be_away() {
    let gateway = Gateway::start().await;
    let upstream = upstream("fine").await;
    let hook = |url: String, more: Value| {
        let parameters = with(json!({ "webhookURL": url, "headers": { "x-own": "own-secret" }, "timeout": 300 }), more);
        json!({ "input_guardrails": [{ "default.webhook": parameters, "deny": true }] })
    };
    let verdict = |body: Value| Upstream::replying(move |_| reply::json(200, &body));
    let good = verdict(json!({ "verdict": true })).await;
    let config = guarded(&upstream, hook(good.url(), json!({ "forwardHeaders": ["x-team", "traceparent"] })));
    let call = gateway.chat().config(&config).header("x-team", "red").header("x-gateway-metadata", r#"{"user":"ann"}"#);
    call.json(&asking("hi")).send().await.expect(200);
    let told = good.only();
    assert_eq!((told.header("x-team"), told.header("x-own")), (Some("red"), Some("own-secret")));
    assert!(told.header("traceparent").is_some(), "made from the trace id");
    let payload = told.json();
    assert_eq!((&payload["request"]["text"], &payload["eventType"]), (&json!("hi"), &json!("beforeRequestHook")));
    assert_eq!((&payload["metadata"]["user"], &payload["requestType"]), (&json!("ann"), &json!("chatComplete")));
    let text = format!("{}{:?}", told.text(), told.headers);
    assert!(!text.contains(crate::harness::WORKSPACE_KEY) && !text.contains("sk-upstream"), "no credential: {text}");

    let rewritten = json!({ "model": "m", "messages": [{ "role": "user", "content": "rewritten" }] });
    let changes = verdict(json!({ "verdict": true, "transformedData": { "request": { "json": rewritten } } })).await;
    ask(&gateway, &guarded(&upstream, hook(changes.url(), json!({}))), &asking("hi")).await.expect(200);
    assert_eq!(upstream.seen().pop().expect("a call").json()["messages"][0]["content"], "rewritten");

    let no_verdict = verdict(json!({})).await;
    ask(&gateway, &guarded(&upstream, hook(no_verdict.url(), json!({}))), &asking("hi")).await.expect(446);
    let nobody = crate::harness::ports::Port::reserve();
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let huge =
        Upstream::replying(|_| reply::whole(200, &[("content-type", "application/json")], vec![b' '; 9 << 20])).await;
    let liar = Upstream::replying(|_| reply::whole(200, &[("content-type", "application/json")], "<html>")).await;
    for (url, error) in [
        (format!("http://{}/", nobody.address), "Unreachable"),
        (silent.url(), "Timeout"),
        (huge.url(), "ReplyTooLong"),
        (liar.url(), "InvalidReply"),
    ] {
        let open = ask(&gateway, &guarded(&upstream, hook(url.clone(), json!({}))), &asking("hi")).await.expect(200);
        let check = open.json()["hook_results"]["before_request_hooks"][0]["checks"][0].clone();
        assert_eq!((&check["error"]["name"], &check["verdict"]), (&json!(error), &json!(true)), "{check}");
        let closed = guarded(&upstream, hook(url, json!({ "failOnError": true })));
        ask(&gateway, &closed, &asking("hi")).await.expect(446);
    }
}

#[tokio::test]
async fn addresses_that_are_nobodys_business_are_never_dialled() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "127.0.0.1"]).await;
    let upstream = upstream("fine").await;
    let inner = Upstream::replying(|_| reply::json(200, &json!({ "verdict": true }))).await;
    let inner_port = inner.url().rsplit(':').next().expect("a port").split('/').next().expect("a port").to_owned();
    let mut urls: Vec<String> = [
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.100.100.200/",
        "http://[::1]/",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0/",
        "http://3232235777/",
        "http://metadata.google.internal/",
        "http://localhost:6379/",
        "http://a.nip.io/",
    ]
    .map(str::to_owned)
    .to_vec();
    urls.push(format!("http://127.0.0.2:{inner_port}/"));
    for url in urls {
        for (id, key) in [("default.webhook", "webhookURL"), ("default.log", "logURL")] {
            let config = guarded(&upstream, json!({ "output_guardrails": [{ id: { key: url, "timeout": 500 } }] }));
            let answer = ask(&gateway, &config, &asking("hi")).await;
            if answer.status == 400 {
                continue;
            }
            let check = answer.json()["hook_results"]["after_request_hooks"][0]["checks"][0].clone();
            assert_eq!(check["error"]["name"], "ForbiddenAddress", "{id} {url}: {check}");
        }
    }
    let leads = inner.url();
    let redirecting = Upstream::replying(move |_| reply::whole(302, &[("location", leads.as_str())], "")).await;
    let config =
        guarded(&upstream, json!({ "input_guardrails": [{ "default.webhook": { "webhookURL": redirecting.url() } }] }));
    let answer = ask(&gateway, &config, &asking("hi")).await.expect(200);
    let check = answer.json()["hook_results"]["before_request_hooks"][0]["checks"][0].clone();
    assert!(check["error"].is_object(), "{check}");
    assert_eq!(inner.connections(), 0, "no redirect is followed");
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_check_and_parameter() {
    let gateway = Gateway::start().await;
    let upstream = upstream("fine").await;
    for (keys, told) in [
        (json!({ "input_guardrails": ["pg-none"] }), &["pg-none"][..]),
        (json!({ "inputGuardrails": [{ "default.nonsense": {} }] }), &["default.nonsense"]),
        (json!({ "outputGuardrails": [{ "default.contains": {} }] }), &["default.contains", "words"]),
        (json!({ "input_guardrails": [{ "default.regexMatch": { "rule": "(" } }] }), &["default.regexMatch", "rule"]),
        (json!({ "before_request_hooks": [{ "id": "h", "checks": [] }] }), &["checks"]),
        (
            json!({ "input_guardrails": [{ "default.webhook": { "webhookURL": "https://x.example",
            "forwardHeaders": ["authorization"] } }] }),
            &["default.webhook", "forwardHeaders"],
        ),
        (
            json!({ "output_guardrails": [{ "default.jsonSchema": { "schema": {} }, "stream": "window" }] }),
            &["default.jsonSchema", "window"],
        ),
        (
            json!({ "output_guardrails": [{ "default.regexReplace": { "rule": "x" }, "stream": { "mode": "after" } }] }),
            &["default.regexReplace", "after"],
        ),
        (json!({ "input_guardrails": [{ "akto.scan": {} }] }), &["akto.scan"]),
        (json!({ "default_input_guardrails": ["pg-1"] }), &["default_input_guardrails"]),
    ] {
        let nested = json!({ "strategy": { "mode": "single" }, "targets": [guarded(&upstream, keys.clone())] });
        for config in [guarded(&upstream, keys.clone()), nested] {
            let inline = ask(&gateway, &config, &hello()).await.expect(400).text();
            let saved =
                gateway.admin().post("/configs", &json!({ "name": "c", "config": config })).await.expect(400).text();
            for told in told {
                assert!(inline.contains(told), "{told} inline: {inline}");
                assert!(saved.contains(told), "{told} saved: {saved}");
            }
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn what_the_cache_has_was_judged_by_the_guardrails_that_ask() {
    let gateway = Gateway::start().await;
    let upstream = upstream("a secret").await;
    let cached = |words: &[&str], input: Value| {
        guarded(
            &upstream,
            json!({ "cache": "simple", "output_guardrails": [forbids(words, deny())], "input_guardrails": input }),
        )
    };
    let open = cached(&["other"], json!([]));
    ask(&gateway, &open, &hello()).await.expect(200);
    let hit = ask(&gateway, &open, &hello()).await.expect(200);
    assert_eq!((hit.header("x-gateway-cache-status"), upstream.seen().len()), (Some("HIT"), 1));
    ask(&gateway, &cached(&["secret"], json!([])), &hello()).await.expect(446);
    assert_eq!(upstream.seen().len(), 2, "another guardrail is another question");
    let soft = cached(&["other"], json!([forbids(&["hello"], json!({}))]));
    let hit = ask(&gateway, &soft, &hello()).await.expect(246);
    assert_eq!(hit.header("x-gateway-cache-status"), Some("HIT"));
    assert_eq!(hit.json()["hook_results"]["before_request_hooks"][0]["verdict"], false, "its own results");
    ask(&gateway, &cached(&["other"], json!([forbids(&["hello"], deny())])), &hello()).await.expect(446);
}

#[tokio::test]
async fn what_passes_through_is_judged_and_never_changed() {
    let gateway = Gateway::start().await;
    let upstream = upstream("a secret").await;
    let config = |keys: Value| guarded(&upstream, keys);
    let ask =
        async |config: &Value, path: &str, body: &Value| gateway.post(path).config(config).json(body).send().await;
    let path = "/v1/proxy/chat/completions";
    let plain = ask(&target(&upstream), path, &hello()).await.expect(200).text();
    let soft = ask(&config(json!({ "output_guardrails": [forbids(&["secret"], json!({}))] })), path, &hello()).await;
    assert_eq!((soft.status, soft.text(), verdicts(&soft)), (246, plain, Some("out=soft")));
    ask(&config(json!({ "output_guardrails": [forbids(&["secret"], deny())] })), path, &hello()).await.expect(446);
    let seen = upstream.seen().len();
    for path in [path, "/v1/brand/new"] {
        ask(&config(json!({ "input_guardrails": [forbids(&["hello"], deny())] })), path, &hello()).await.expect(446);
        let redact = json!({ "input_guardrails": [{ "default.regexReplace": { "rule": "hello" }, "deny": true }] });
        ask(&config(redact), path, &hello()).await.expect(446);
    }
    assert_eq!(upstream.seen().len(), seen);
}

#[tokio::test]
async fn asynchronous_ones_decide_nothing_and_are_recorded() {
    let gateway = Gateway::start().await;
    let upstream = upstream("a secret").await;
    let hook = Upstream::scripted(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.pause(200).await;
            peer.send(reply::json(200, &json!({ "verdict": false }))).await;
        }
    })
    .await;
    let actions = json!({ "deny": true, "async": true, "on_fail": { "feedback": { "value": -5, "weight": 1 } } });
    let config = guarded(
        &upstream,
        json!({
            "input_guardrails": [with(json!({ "default.webhook": { "webhookURL": hook.url() } }), actions.clone())],
            "output_guardrails": [forbids(&["secret"], actions)],
        }),
    );
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "beside").json(&hello());
    let answer = call.send().await.expect(200);
    assert_eq!((answer.json().get("hook_results"), verdicts(&answer)), (None, None));
    let text = record(&gateway, "beside").await.to_string();
    assert!(text.contains("before_request_hooks") && text.contains("failedChecks"), "{text}");
    eventually("the checks are counted", || async {
        let metrics = gateway.metrics().await;
        let counted = |check: &str, side: &str| {
            let line = format!("gateway_guardrail_checks_total{{check=\"{check}\",hook=\"{side}\",result=\"fail\"}} 1");
            metrics.contains(&line)
        };
        (counted("default.webhook", "input") && counted("default.contains", "output")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_checks_of_its_request() {
    let gateway = Gateway::start().await;
    let upstream = upstream("fine").await;
    let silent = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        peer.gone().await;
    })
    .await;
    let webhook = json!({ "default.webhook": { "webhookURL": silent.url(), "timeout": 20_000 }, "deny": true });
    let config = guarded(&upstream, json!({ "input_guardrails": [webhook] }));
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "left").json(&hello());
    let mut asking = tokio::task::JoinSet::new();
    asking.spawn(call.attempt());
    eventually("the webhook was asked", || async { (silent.seen().len() == 1).then_some(()) }).await;
    asking.abort_all();
    eventually("its call ended", || async { (silent.open() == 0).then_some(()) }).await;
    let record = record(&gateway, "left").await;
    assert_eq!(record["metrics"]["response_status_code"], 499);
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn limits_of_the_caller_count_before_anybody_outside_is_asked() {
    let gateway = Gateway::start().await;
    let upstream = upstream("fine").await;
    let hook = Upstream::replying(|_| reply::json(200, &json!({ "verdict": false }))).await;
    let limits = json!({ "rate_limits": [{ "type": "requests", "unit": "rpw", "value": 2 }] });
    let (_, key) = gateway.admin().workspace_key("limited", limits).await;
    let config = guarded(
        &upstream,
        json!({ "input_guardrails": [
        { "default.webhook": { "webhookURL": hook.url() }, "deny": true }] }),
    );
    for status in [446, 446, 429, 429] {
        gateway.chat().key(&key).config(&config).json(&hello()).send().await.expect(status);
    }
    assert_eq!(hook.seen().len(), 2);
}
