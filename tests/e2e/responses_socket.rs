//! Responses over a socket (`GET /v1/responses`): each is admitted, metered, priced, judged and recorded as one over
//! HTTP.

use crate::harness::{Gateway, LiveProvider, Said, Socket, WORKSPACE_KEY, stand_at_noon, with};
use crate::realtime::{Heard, records};
use serde_json::{Value, json};

const MODEL: &str = "gpt-4o-mini";

fn usage(input: u64, output: u64) -> Value {
    json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
        "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 } })
}

fn response(id: &str, status: &str, said: &str, usage: &Value) -> Value {
    let output = json!([{ "type": "message", "id": "msg_1", "content": [{ "type": "output_text", "text": said }] }]);
    json!({ "object": "response", "id": id, "status": status, "model": "gpt-4o-mini-2024-07-18", "output": output, "usage": usage })
}

/// What a response tells whose tool drew pictures of a thousand tokens, two of them as vectors.
fn drawn() -> Value {
    let vectors = json!({ "model": "gpt-4o", "input_tokens": 1_000, "output_tokens": 1_000, "total_tokens": 2_000 });
    let item = json!({ "type": "image_generation_call", "id": "ig_1", "status": "completed", "svg_usage": vectors });
    json!({ "output": [item, item], "tool_usage": { "image_gen": usage(0, 1_000) },
        "tools": [{ "type": "image_generation", "model": "gpt-image-2" }] })
}

/// Answers each request with the text that it came with, a thousand tokens in and a hundred out. One that says `wait`
/// is begun and not ended, and one that says `draw` has pictures beside its text.
async fn answering() -> (LiveProvider, Heard) {
    let heard = Heard::default();
    let noted = heard.clone();
    let provider = LiveProvider::scripted(move |mut socket| {
        let heard = noted.clone();
        async move {
            let mut count = 0;
            while let Said::Event(event) = socket.next().await {
                heard.note(&event);
                count += 1;
                let (id, text) = (format!("resp_{count}"), event["input"].as_str().unwrap_or_default());
                let (stream, delta) = (&event["stream_id"], json!({ "delta": text, "item_id": "msg_1" }));
                let begun = json!({ "type": "response.created", "response": { "id": id, "status": "in_progress" } });
                let said = with(json!({ "type": "response.output_text.delta" }), delta);
                let ended = response(&id, "completed", text, &usage(1_000, 100));
                let ended = if text == "draw" { with(ended, drawn()) } else { ended };
                let ended = json!({ "type": "response.completed", "response": ended });
                for said in [begun, said, ended] {
                    if said["type"] != "response.completed" || text != "wait" {
                        socket.say(&with(said, json!({ "stream_id": stream }))).await;
                    }
                }
            }
        }
    })
    .await;
    (provider, heard)
}

async fn house() -> (Gateway, LiveProvider, Heard) {
    let gateway = Gateway::start().await;
    let (provider, heard) = answering().await;
    gateway.admin().provider("main", "openai", Some(&provider.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": MODEL, "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/integration-models", &models).await.expect(200);
    (gateway, provider, heard)
}

async fn open(gateway: &Gateway, key: &str, trace: &str) -> Socket {
    let headers = [("x-gateway-api-key", key), ("x-gateway-provider", "@main"), ("x-gateway-trace-id", trace)];
    Socket::open(gateway.proxy, "/v1/responses", &headers).await.expect("it opens")
}

fn ask(text: &str) -> Value {
    json!({ "type": "response.create", "model": MODEL, "input": text, "text": { "format": { "type": "text" } } })
}

#[tokio::test]
async fn each_response_on_a_socket_is_counted_and_recorded_as_one_over_http() {
    let (gateway, _provider, heard) = house().await;
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1_000_000 } });
    let (id, key) = gateway.admin().workspace_key("talker", limits).await;
    let mut client = open(&gateway, &key, "socket").await;
    for text in ["one", "two"] {
        client.say(&ask(text)).await;
        let told = client.event("response.completed").await;
        assert_eq!(told["response"]["output"][0]["content"][0]["text"], text, "it passes as it came");
    }
    client.say(&ask("wait")).await;
    client.event("response.output_text.delta").await;
    client.close(1000, "bye").await;
    client.end().await;
    assert_eq!(heard.all()[0], ask("one"), "what the client asks goes up as it came");
    let (session, parts) = records(&gateway, "socket", 4).await;
    assert_eq!(session["realtime"]["totals"]["responses"], 3, "{session}");
    let of = |id: &str| parts.iter().find(|part| part["realtime"]["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in ["resp_1", "resp_2"] {
        let metrics = &of(id)["metrics"];
        assert_eq!((&metrics["operation"], &metrics["ai_model"]), (&json!("createModelResponse"), &json!(MODEL)));
        // 1,000 × 0.15 $ + 100 × 0.6 $ a million.
        let cents = metrics["cost"].as_f64().expect("a cost");
        assert!((cents - 0.021).abs() < 1e-9, "{metrics}");
    }
    assert_eq!(of("resp_3")["realtime"]["status"], "cut", "one that never ended is an estimate");
    let cut = of("resp_3")["metrics"]["total_units"].as_u64().expect("a guess");
    assert!(cut > 0);
    let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
    assert_eq!(shown["usage_limits"]["current_usage"], 2_200 + cut, "{shown}");
}

#[tokio::test]
async fn what_a_tool_of_a_response_on_a_socket_drew_is_charged_beside_it() {
    let (gateway, _provider, _) = house().await;
    let mut client = open(&gateway, WORKSPACE_KEY, "drawn").await;
    for text in ["draw", "write"] {
        client.say(&ask(text)).await;
        client.event("response.completed").await;
    }
    client.close(1000, "bye").await;
    client.end().await;
    let (_, parts) = records(&gateway, "drawn", 3).await;
    let cents = |id: &str| {
        let part = parts.iter().find(|part| part["realtime"]["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        part["metrics"]["cost"].as_f64().unwrap_or_else(|| panic!("no cost: {part}"))
    };
    // 1,000 tokens at $30 a million, and twice 1,000 at $2.50 and 1,000 at $10: beside what the response itself costs.
    assert!((cents("resp_1") - (0.021 + 3.0 + 2.5)).abs() < 1e-6, "{parts:?}");
    assert!((cents("resp_2") - 0.021).abs() < 1e-9, "{parts:?}");
}

#[tokio::test]
async fn what_a_socket_asks_for_is_held_to_models_and_limits() {
    stand_at_noon();
    let (gateway, _provider, heard) = house().await;
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 2_000 } });
    let (_, key) = gateway.admin().workspace_key("short", limits).await;
    let mut client = open(&gateway, &key, "limits").await;
    for (model, why) in [
        (json!({ "model": "gpt-4o" }), "not enabled"),
        (json!({ "model": null }), "model is required"),
        (json!({ "model": "@main/gpt-4o-mini" }), "provider's own name"),
    ] {
        client.say(&with(ask("no"), model)).await;
        let error = client.event("error").await;
        assert_eq!(error["code"], "model_not_permitted", "{error}");
        assert_eq!(error["code"], error["error"]["code"]);
        assert!(heard.all().is_empty(), "nothing of it went up");
        assert!(error["message"].as_str().expect("why").contains(why), "{error}");
    }
    let rates = json!({ "rate_limits": [{ "type": "tokens", "unit": "rpw", "value": 2_000 }] });
    let (_, slow) = gateway.admin().workspace_key("slow", rates).await;
    let mut other = open(&gateway, &slow, "rates").await;
    other.say(&with(ask("wait"), json!({ "max_output_tokens": 1_200 }))).await;
    other.event("response.created").await;
    other.say(&with(ask("too much"), json!({ "max_output_tokens": 1_200 }))).await;
    assert_eq!(other.event("error").await["code"], "rate_limit_exceeded");
    assert_eq!(heard.all().len(), 1, "nothing of it went up");
    for _ in 0..2 {
        client.say(&with(ask("go"), json!({ "max_output_tokens": 20 }))).await;
        client.event("response.completed").await;
    }
    assert_eq!(client.event("error").await["code"], "budget_exhausted");
    assert_eq!(client.end().await.code(), Some(1008));
    let headers = [("x-gateway-api-key", key.as_str()), ("x-gateway-provider", "@main")];
    let refused = Socket::open(gateway.proxy, "/v1/responses", &headers).await.expect_err("nothing is left");
    assert_eq!((refused.status, &refused.body["error"]["code"]), (412, &json!("budget_exhausted")));
}

/// A gateway whose provider has a guardrail that looks for a word.
async fn guarded(field: &str) -> (Gateway, LiveProvider, Heard, String) {
    let (gateway, provider, heard) = house().await;
    let words =
        json!({ "default.contains": { "words": ["secret"], "operator": "none" }, "deny": true, "stream": "hold" });
    let config = json!({ "provider": "@main", field: [words] });
    let config = gateway.admin().config("guarded", &config).await;
    (gateway, provider, heard, config)
}

async fn open_with(gateway: &Gateway, config: &str) -> Socket {
    let headers = [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-config", config)];
    Socket::open(gateway.proxy, "/v1/responses", &headers).await.expect("it opens")
}

#[tokio::test]
async fn guardrails_judge_what_a_socket_asks() {
    let (gateway, _provider, heard, config) = guarded("input_guardrails").await;
    let mut client = open_with(&gateway, &config).await;
    let message = json!({ "input": [{ "role": "user", "content": "the secret" }] });
    for event in [ask("the secret"), with(ask(""), message)] {
        client.say(&event).await;
        assert_eq!(client.event("error").await["code"], "hooks_failed");
    }
    let steer = json!({ "type": "response.steer", "previous_response_id": "resp_1", "input": "the secret" });
    client.say(&steer).await;
    assert_eq!(client.event("error").await["code"], "hooks_failed");
    client.say(&ask("hello")).await;
    client.event("response.completed").await;
    assert_eq!(heard.all().len(), 1, "what was denied did not go up");
}

#[tokio::test]
async fn nothing_of_a_held_response_on_a_socket_is_heard_before_its_verdict() {
    let (gateway, _provider, heard, config) = guarded("output_guardrails").await;
    let mut client = open_with(&gateway, &config).await;
    client.say(&ask("the secret")).await;
    client.event("response.created").await;
    assert_eq!(client.event("error").await["code"], "hooks_failed");
    let Said::Event(end) = client.next().await else { panic!("no end") };
    assert_eq!(
        (&end["type"], &end["response"]["incomplete_details"]["reason"]),
        (&json!("response.incomplete"), &json!("content_filter"))
    );
    assert_eq!((&end["response"]["output"], &end["response"]["usage"]["total_tokens"]), (&json!([]), &json!(1_100)));
    client.say(&ask("fine")).await;
    let told = [client.next().await.event(), client.next().await.event(), client.next().await.event()];
    let kinds = told.map(|event| event["type"].as_str().unwrap_or_default().to_owned());
    assert_eq!(kinds, ["response.created", "response.output_text.delta", "response.completed"]);
    // Two streams run at once, and each is judged by itself.
    let named = |text: &str, stream: &str| with(ask(text), json!({ "stream_id": stream }));
    client.say(&named("wait for the secret", "a")).await;
    client.say(&named("fine again", "b")).await;
    let told = [client.event("response.incomplete").await, client.event("response.completed").await];
    assert_eq!(told.map(|event| event["stream_id"].clone()), [json!(null), json!("b")]);
    assert_eq!(heard.kinds(), ["response.create"; 4], "no event of another protocol went up");
}

#[tokio::test]
async fn a_socket_for_responses_is_watched_by_whatever_path_it_is_opened() {
    let (gateway, _provider, _) = house().await;
    for (number, path) in
        ["/v1/proxy/responses", "/v1/proxy/v1/responses", "/v1/v1/responses/", "/v1/proxy/openai/V1/%52esponses"]
            .into_iter()
            .enumerate()
    {
        let trace = format!("path-{number}");
        let headers =
            [("x-gateway-api-key", WORKSPACE_KEY), ("x-gateway-provider", "@main"), ("x-gateway-trace-id", &*trace)];
        let mut client = Socket::open(gateway.proxy, path, &headers).await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        client.say(&with(ask("no"), json!({ "model": "gpt-4o" }))).await;
        assert_eq!(client.event("error").await["code"], "model_not_permitted", "{path}");
        client.say(&ask("one")).await;
        client.event("response.completed").await;
        client.close(1000, "").await;
        client.end().await;
        let (_, parts) = records(&gateway, &trace, 2).await;
        assert_eq!(parts[0]["metrics"]["total_units"], 1_100, "{path}: {}", parts[0]);
    }
}

/// What the provider begins by itself nobody can cancel there.
#[tokio::test]
async fn a_response_that_was_steered_to_and_has_no_room_ends_the_socket() {
    stand_at_noon();
    let (gateway, _provider, heard) = house().await;
    let rates = json!({ "rate_limits": [{ "type": "tokens", "unit": "rpw", "value": 2_000 }] });
    let (_, key) = gateway.admin().workspace_key("slow", rates).await;
    let mut client = open(&gateway, &key, "steered").await;
    client.say(&with(ask("wait"), json!({ "max_output_tokens": 1_800 }))).await;
    client.event("response.created").await;
    client.say(&json!({ "type": "response.steer", "previous_response_id": "resp_1", "input": "wait" })).await;
    assert_eq!(client.event("error").await["code"], "rate_limit_exceeded");
    assert_eq!(client.end().await.code(), Some(1008));
    assert_eq!(heard.kinds(), ["response.create", "response.steer"], "steering itself is no response, and goes up");
    let (session, parts) = records(&gateway, "steered", 3).await;
    assert_eq!(session["realtime"]["ended"], "rate_limit_exceeded", "{session}");
    let mut ids: Vec<_> = parts.iter().map(|part| part["realtime"]["id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, [json!("resp_1"), json!("resp_2")], "what was said of both counts");
}

#[tokio::test]
async fn objects_that_are_kept_apart_are_found_on_no_socket() {
    let gateway = Gateway::start().await;
    let (provider, _) = answering().await;
    let apart = json!({ "custom_host": provider.url(), "isolate_objects": true });
    let keys = gateway.admin().sharing("openai", Some("sk-shared"), &apart).await;
    for path in ["/v1/responses", "/v1/responses/", "/v1/v1/responses", "/v1/proxy/v1/responses"] {
        for key in &keys {
            let headers = [("x-gateway-api-key", &**key), ("x-gateway-provider", "@p")];
            let refused = Socket::open(gateway.proxy, path, &headers).await.expect_err("it could name those of others");
            let why = refused.body["error"]["message"].as_str().unwrap_or_default();
            assert!(refused.status == 403 && why.contains("isolate_objects"), "{path}: {refused:?}");
        }
    }
    assert!(provider.seen().is_empty(), "nothing went up");
}
