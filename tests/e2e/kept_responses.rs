//! Conversations that go on by the id of a response, at providers that keep none: who finds what, for how long, and
//! what the provider is asked.

use crate::cluster::database;
use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, reply, with};
use gateway_testing::Redis;
use serde_json::{Value, json};

/// A provider of chats only.
fn chats(upstream: &Upstream) -> Value {
    with(target(upstream), json!({ "provider": "deepseek" }))
}

fn asks(input: impl Into<Value>, more: Value) -> Value {
    with(json!({ "model": "m", "input": input.into() }), more)
}

async fn ask(gateway: &Gateway, config: &Value, body: &Value) -> Answer {
    gateway.post("/v1/responses").config(config).json(body).send().await
}

/// The response in an answer, whether it came whole or as events.
fn response(answer: &Answer) -> Value {
    if !answer.header("content-type").unwrap_or_default().starts_with("text/event-stream") {
        return answer.json();
    }
    let last = answer.events().pop().expect("an event");
    let data = serde_json::from_str::<Value>(&last).expect("JSON");
    data["response"].clone()
}

fn id(answer: &Answer) -> String {
    response(answer)["id"].as_str().expect("an id").to_owned()
}

/// Who said what in the last request that went up.
fn said_to(upstream: &Upstream) -> Vec<(String, String)> {
    let seen = upstream.seen().pop().expect("a request").json();
    let of = |message: &Value| {
        let text = message["content"].as_str().map_or_else(|| message["content"].to_string(), str::to_owned);
        (message["role"].as_str().unwrap_or_default().to_owned(), text)
    };
    seen["messages"].as_array().expect("messages").iter().map(of).collect()
}

fn turns(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

async fn in_words() -> Upstream {
    Upstream::replying(|seen| match seen.json()["stream"] == true {
        true => reply::stream(&["Bon", "jour"]),
        false => reply::chat("Bonjour"),
    })
    .await
}

#[tokio::test]
async fn a_conversation_goes_on_from_the_response_before() {
    let (gateway, upstream) = (Gateway::start().await, in_words().await);
    let config = chats(&upstream);
    for stream in [false, true] {
        let more = json!({ "stream": stream });
        let first =
            ask(&gateway, &config, &asks("Hello", with(more.clone(), json!({ "instructions": "Be kind" })))).await;
        let first = first.expect(200);
        assert_eq!(response(&first)["store"], true);
        let goes_on = with(more.clone(), json!({ "previous_response_id": id(&first) }));
        let second = ask(&gateway, &config, &asks("Again", goes_on)).await.expect(200);
        let told = turns(&[("user", "Hello"), ("assistant", "Bonjour"), ("user", "Again")]);
        assert_eq!(said_to(&upstream), told, "instructions are of one request only");
        assert_eq!(response(&second)["previous_response_id"], id(&first));
        assert_eq!(second.header("x-gateway-adjusted-params"), None);
        let item = json!([{ "role": "user", "content": "And again" }]);
        let goes_on = with(more, json!({ "previous_response_id": id(&second) }));
        ask(&gateway, &config, &asks(item, goes_on)).await.expect(200);
        let more = turns(&[("assistant", "Bonjour"), ("user", "And again")]);
        assert_eq!(said_to(&upstream), [told, more].concat(), "the whole of it each time");
    }
}

#[tokio::test]
async fn items_that_are_only_referred_to_are_written_out() {
    let gateway = Gateway::start().await;
    let thinks = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use",
        "content": [
            { "type": "thinking", "thinking": "They ask for weather.", "signature": "EqQB" },
            { "type": "text", "text": "Let me see." },
            { "type": "tool_use", "id": "toolu_1", "name": "weather", "input": { "city": "Rome" } },
        ],
        "usage": { "input_tokens": 9, "output_tokens": 7 },
    });
    let upstream = Upstream::replying(move |_| reply::json(200, &thinks)).await;
    let config = with(target(&upstream), json!({ "provider": "anthropic" }));
    let tools = json!([{ "type": "function", "name": "weather", "parameters": { "type": "object" } }]);
    let more = json!({ "tools": tools, "max_output_tokens": 99 });
    let first = ask(&gateway, &config, &asks("Is it warm in Rome?", more.clone())).await.expect(200);
    let output = response(&first)["output"].as_array().expect("items").clone();
    assert_eq!(output.len(), 3);
    let mut input = vec![json!({ "role": "user", "content": "Is it warm in Rome?" })];
    input.extend(output.iter().map(|item| json!({ "type": "item_reference", "id": item["id"] })));
    input.push(json!({ "type": "function_call_output", "call_id": "toolu_1", "output": "35 degrees" }));
    ask(&gateway, &config, &asks(input, more)).await.expect(200);
    let messages = upstream.seen().pop().expect("a request").json()["messages"].clone();
    let said = &messages[1]["content"];
    assert_eq!(messages[1]["role"], "assistant");
    assert_eq!((&said[0]["type"], &said[0]["signature"]), (&json!("thinking"), &json!("EqQB")), "{messages}");
    assert_eq!((&said[1]["text"], &said[2]["id"]), (&json!("Let me see."), &json!("toolu_1")), "{messages}");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_1");
}

#[tokio::test]
async fn what_is_not_kept_is_refused_with_the_way_out() {
    let (gateway, upstream) = (Gateway::start().await, in_words().await);
    let config = chats(&upstream);
    let unstored = ask(&gateway, &config, &asks("Hello", json!({ "store": false }))).await.expect(200);
    assert_eq!(response(&unstored)["store"], false);
    let kept = ask(&gateway, &config, &asks("Hello", json!({}))).await.expect(200);
    let before = upstream.seen().len();
    let refused = async |key: &str, id: &str| {
        let body = asks("Again", json!({ "previous_response_id": id }));
        let answer = gateway.post("/v1/responses").key(key).config(&config).json(&body).send().await.expect(400);
        assert!(answer.error().contains("store: false"), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], "previous_response_id");
        let item = json!([{ "type": "item_reference", "id": id.replacen("resp_", "msg_", 1) }]);
        let answer = gateway.post("/v1/responses").key(key).config(&config).json(&asks(item, json!({}))).send().await;
        assert!(answer.expect(400).error().contains("store: false"));
    };
    let own = crate::harness::WORKSPACE_KEY;
    refused(own, &id(&unstored)).await;
    refused(own, "resp_019aafcc6780fffffffffffffff90000").await;
    refused(own, "resp_of_another_house").await;
    let (_, other) = gateway.admin().workspace_key("other", json!({})).await;
    refused(&other, &id(&kept)).await;
    assert_eq!(upstream.seen().len(), before, "nothing went up");
    let body = asks("Again", json!({ "previous_response_id": id(&kept) }));
    ask(&gateway, &config, &body).await.expect(200);
}

#[tokio::test]
async fn one_is_shown_listed_and_deleted() {
    let (gateway, upstream) = (Gateway::start().await, in_words().await);
    let config = chats(&upstream);
    let first = ask(&gateway, &config, &asks("Hello", json!({}))).await.expect(200);
    let second =
        ask(&gateway, &config, &asks("Again", json!({ "previous_response_id": id(&first) }))).await.expect(200);
    let path = format!("/v1/responses/{}", id(&second));
    let call = |method: &str, path: &str| gateway.call(method, path).config(&config);
    assert_eq!(call("GET", &path).send().await.expect(200).json(), second.json());
    let events = call("GET", &format!("{path}?stream=true")).send().await.expect(400);
    assert_eq!(events.json()["error"]["param"], "stream");
    let listed = call("GET", &format!("{path}/input_items?order=asc&limit=2")).send().await.expect(200).json();
    let texts: Vec<&Value> = listed["data"].as_array().expect("items").iter().map(|item| &item["role"]).collect();
    assert_eq!((texts, &listed["has_more"]), (vec![&json!("user"), &json!("assistant")], &json!(true)), "{listed}");
    let after = listed["last_id"].as_str().expect("an id");
    let rest = format!("{path}/input_items?order=asc&after={after}");
    let rest = call("GET", &rest).send().await.expect(200).json();
    assert_eq!((&rest["data"][0]["content"], &rest["has_more"]), (&json!("Again"), &json!(false)), "{rest}");
    let wrong = call("GET", &format!("{path}/input_items?limit=0")).send().await.expect(400);
    assert_eq!(wrong.json()["error"]["param"], "limit");
    let (_, other) = gateway.admin().workspace_key("other", json!({})).await;
    let status = call("GET", &path).key(&other).send().await.status;
    assert!((400..500).contains(&status), "{status}: another key does not see it");
    let gone = call("DELETE", &path).send().await.expect(200).json();
    assert_eq!(gone, json!({ "id": id(&second), "object": "response", "deleted": true }));
    let body = asks("More", json!({ "previous_response_id": id(&second) }));
    ask(&gateway, &config, &body).await.expect(400);
    assert_eq!(upstream.seen().len(), 2, "the provider heard of none of this");
}

#[tokio::test]
async fn it_goes_on_where_it_began_among_several() {
    let (gateway, one, other) = (Gateway::start().await, in_words().await, in_words().await);
    let config = json!({ "strategy": { "mode": "loadbalance" }, "targets": [chats(&one), chats(&other)] });
    for _ in 0..6 {
        let first = ask(&gateway, &config, &asks("Hello", json!({}))).await.expect(200);
        let place = first.header("x-gateway-last-used-option-index").map(str::to_owned);
        let body = asks("Again", json!({ "previous_response_id": id(&first) }));
        let second = ask(&gateway, &config, &body).await.expect(200);
        assert_eq!(second.header("x-gateway-last-used-option-index").map(str::to_owned), place);
        assert_eq!(response(&second)["previous_response_id"], id(&first));
    }
}

#[tokio::test]
async fn what_a_guardrail_took_out_does_not_come_back() {
    let (gateway, upstream) = (Gateway::start().await, in_words().await);
    let redacts = json!({ "default.regexReplace": { "rule": "Bonjour|Hello", "redactText": "[X]" } });
    let guards = json!({ "output_guardrails": [redacts], "input_guardrails": [redacts] });
    let config = with(chats(&upstream), guards);
    for stream in [false, true] {
        let first = ask(&gateway, &config, &asks("Hello", json!({ "stream": stream }))).await.expect(200);
        let body = asks("Again", json!({ "previous_response_id": id(&first) }));
        ask(&gateway, &chats(&upstream), &body).await.expect(200);
        let told = turns(&[("user", "[X]"), ("assistant", "[X]"), ("user", "Again")]);
        assert_eq!(said_to(&upstream), told, "stream: {stream}");
    }
}

#[tokio::test]
async fn no_more_is_written_out_than_a_body_may_have() {
    let gateway = Gateway::with(&["--max-body", "64KiB"]).await;
    let upstream = Upstream::replying(|_| reply::chat(&"x".repeat(20_000))).await;
    let config = chats(&upstream);
    let first = ask(&gateway, &config, &asks("Hello", json!({}))).await.expect(200);
    let item = json!({ "type": "item_reference", "id": response(&first)["output"][0]["id"] });
    ask(&gateway, &config, &asks(vec![item.clone(); 2], json!({}))).await.expect(200);
    let refused = ask(&gateway, &config, &asks(vec![item; 500], json!({}))).await.expect(413);
    assert_eq!(refused.json()["error"]["param"], "input");
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn the_operator_says_how_long_and_how_much() {
    let upstream = in_words().await;
    let config = chats(&upstream);
    let off = Gateway::with(&["--responses-keep", "0s"]).await;
    let first = ask(&off, &config, &asks("Hello", json!({ "store": true }))).await.expect(200);
    assert_eq!((&response(&first)["store"], first.header("x-gateway-adjusted-params")), (&json!(false), Some("store")));
    ask(&off, &config, &asks("Again", json!({ "previous_response_id": id(&first) }))).await.expect(400);

    let short = Gateway::with(&["--responses-keep", "1s", "--responses-keep-max", "64KiB"]).await;
    let first = ask(&short, &config, &asks("Hello", json!({}))).await.expect(200);
    let again = asks("Again", json!({ "previous_response_id": id(&first) }));
    eventually("its end", || async { (ask(&short, &config, &again).await.status == 400).then_some(()) }).await;
    for n in 0..100 {
        ask(&short, &config, &asks(format!("{n}{}", "x".repeat(4000)), json!({}))).await.expect(200);
    }
    let large = ask(&short, &config, &asks("x".repeat(30_000), json!({}))).await.expect(200);
    ask(&short, &config, &asks("Again", json!({ "previous_response_id": id(&large) }))).await.expect(400);
    let metrics = short.client().get(short.admin_url("/metrics")).send().await.expect("metrics");
    let metrics = metrics.text().await.expect("text");
    let bytes =
        metrics.lines().find_map(|line| line.strip_prefix("gateway_kept_responses_bytes ")?.parse::<u64>().ok());
    let bytes = bytes.expect("it tells its size");
    assert!((10_000..=64 * 1024).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn another_node_goes_on_and_a_deleted_one_is_gone_on_both() {
    let redis = Redis::start();
    let url = redis.url();
    let (_postgres, database) = database("kept_responses").await;
    let flags = ["--redis-url", &url, "--redis-timeout", "2s", "--database-url", &database];
    let one = Gateway::with(&flags).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let two = Gateway::with(&[&flags[..], &["--master-key-file", &key]].concat()).await;
    let upstream = in_words().await;
    let config = chats(&upstream);
    for gateway in [&one, &two] {
        eventually("Redis", || async {
            let metrics = gateway.client().get(gateway.admin_url("/metrics")).send().await.expect("metrics");
            metrics.text().await.expect("text").contains("gateway_redis_connected 1\n").then_some(())
        })
        .await;
    }
    let first = ask(&one, &config, &asks("A canary", json!({}))).await.expect(200);
    let again = asks("Again", json!({ "previous_response_id": id(&first) }));
    ask(&two, &config, &again).await.expect(200);
    assert_eq!(said_to(&upstream)[0].1, "A canary");
    let mut stored = redis::Client::open(url.as_str()).expect("a client").get_connection().expect("connected");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut stored).expect("names");
    for key in keys.iter().filter(|key| key.starts_with("gateway:answer:")) {
        let value: Vec<u8> = redis::cmd("GET").arg(key).query(&mut stored).expect("a value");
        assert!(!String::from_utf8_lossy(&value).contains("canary"), "it lies there sealed");
    }
    let path = format!("/v1/responses/{}", id(&first));
    two.call("DELETE", &path).config(&config).send().await.expect(200);
    ask(&one, &config, &again).await.expect(400);
}
