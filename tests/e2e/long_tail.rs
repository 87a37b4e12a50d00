//! Families whose address is made of a name, whose errors hide in answers, or whose credential has a form of its own:
//! each setting by integration, by header and in a target, and what goes up with it.

use crate::clouds::{bare, hello, integration};
use crate::harness::call::Call;
use crate::harness::{Gateway, Seen, Upstream, WORKSPACE_KEY, gateway::target, reply};
use serde_json::{Value, json};

pub(crate) fn ask(gateway: &Gateway, provider: &str) -> Call {
    gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider(provider)
}

pub(crate) async fn answering() -> Upstream {
    Upstream::replying(
        |seen| {
            if seen.json()["stream"] == true { reply::stream(&["Hel", "lo"]) } else { reply::chat("Hello") }
        },
    )
    .await
}

pub(crate) fn sent(upstream: &Upstream) -> Seen {
    upstream.seen().pop().expect("it went up")
}

/// Family, setting, a value that cannot stand in an address, another setting that the family needs.
const NAMES: &[(&str, &str, &str)] = &[
    ("workers-ai", "workers_ai_account_id", "../accounts/other"),
    ("cortex", "snowflake_account", "evil.example/"),
    ("oracle", "oracle_region", "us-chicago-1.evil.example#"),
    ("databricks", "databricks_workspace", "evil.example"),
    ("byteplus", "byteplus_region", "eu@evil.example"),
    ("bedrock-mantle", "aws_region", "us-east-1.evil.example"),
    ("sagemaker", "aws_region", "127.0.0.1:80/"),
];

#[tokio::test]
async fn a_name_in_an_address_is_checked_wherever_it_is_given() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    for (family, setting, bad) in NAMES {
        let header = format!("x-gateway-{}", setting.replace('_', "-"));
        let told = ask(&gateway, family).header("authorization", "Bearer k").header(&header, bad);
        let told = told.json(&hello("m")).send().await.expect(400).json();
        let message = told["error"]["message"].as_str().expect("a message");
        assert!(message.contains(&header) && message.contains("must be"), "{family}: {message}");
        let config = json!({ "provider": family, "api_key": "k", *setting: bad });
        let told = gateway.chat().config(&config).json(&hello("m")).send().await.expect(400).text();
        assert!(told.contains(setting) && told.contains("must be"), "{family}: {told}");
        let body = json!({ "name": "n", "ai_provider_id": family, "key": "k", "configurations": { *setting: bad } });
        let told = admin.post("/integrations", &body).await.expect(400).text();
        assert!(told.contains(&format!("configurations.{setting} must be")), "{family}: {told}");
        if *family == "byteplus" {
            continue;
        }
        // Without the setting there is no address.
        let told = ask(&gateway, family).header("authorization", "Bearer k").json(&hello("m")).send().await.expect(400);
        assert!(told.text().contains(setting), "{family}: {}", told.text());
        let body = json!({ "name": "n", "ai_provider_id": family, "key": "k" });
        let told = admin.post("/integrations", &body).await.expect(400).text();
        assert!(told.contains(&format!("configurations.{setting} is required")), "{family}: {told}");
    }
    // A setting of one family means nothing to another.
    let body = json!({ "name": "n", "ai_provider_id": "openai", "key": "k",
                       "configurations": { "snowflake_account": "a" } });
    let told = admin.post("/integrations", &body).await.expect(400).text();
    assert!(told.contains("configurations.snowflake_account has no meaning for `openai`"), "{told}");
}

#[tokio::test]
async fn snowflake_hears_what_kind_of_token_it_gets() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    let settings = json!({ "custom_host": bare(&up), "snowflake_account": "org-account" });
    integration(&gateway, "cortex", Some("pat-0123456789"), settings).await;
    let told = "x-snowflake-authorization-token-type";
    ask(&gateway, "@cloud").json(&hello("claude-sonnet-4-5")).send().await.expect(200);
    let seen = sent(&up);
    assert_eq!(seen.target, "/api/v2/cortex/v1/chat/completions");
    assert_eq!(seen.header("authorization"), Some("Bearer pat-0123456789"));
    assert_eq!(seen.header(told), Some("PROGRAMMATIC_ACCESS_TOKEN"));
    // What a client says of a saved credential does not count.
    let call = gateway.post("/v1/proxy/api/v2/cortex/v1/messages").key(WORKSPACE_KEY).provider("@cloud");
    call.header(told, "OAUTH").json(&json!({ "model": "claude-sonnet-4-5", "messages": [] })).send().await.expect(200);
    assert_eq!(sent(&up).header(told), Some("PROGRAMMATIC_ACCESS_TOKEN"));
    // {"iss":"ORG-ACCOUNT.USER.SHA256:abc="}
    let pair = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJPUkctQUNDT1VOVC5VU0VSLlNIQTI1NjphYmM9In0.c2ln";
    let config =
        json!({ "provider": "cortex", "api_key": pair, "custom_host": bare(&up), "snowflake_account": "o-a.eu" });
    gateway.chat().config(&config).json(&hello("m")).send().await.expect(200);
    assert_eq!(sent(&up).header(told), Some("KEYPAIR_JWT"));
    let call =
        ask(&gateway, "cortex").header("x-gateway-snowflake-account", "o-a").header("authorization", "Bearer ver:1-h");
    call.header("x-gateway-custom-host", &bare(&up)).json(&hello("m")).send().await.expect(200);
    assert_eq!(sent(&up).header(told), Some("OAUTH"));
}

#[tokio::test]
async fn models_of_workers_ai_keep_their_at_sign() {
    let up = Upstream::replying(|seen| {
        if seen.json()["model"] == "@cf/meta/nope" {
            let errors = json!([{ "code": 5007, "message": "No such model" }]);
            return reply::json(400, &json!({ "success": false, "errors": errors, "result": {} }));
        }
        reply::chat("Hello")
    })
    .await;
    let gateway = Gateway::start().await;
    let host = format!("{}/client/v4/accounts/023e/ai", bare(&up));
    let settings = json!({ "custom_host": host, "workers_ai_account_id": "023e" });
    integration(&gateway, "workers-ai", Some("cf-key"), settings).await;
    for model in ["@cf/meta/llama-3.1-8b-instruct", "@cloud/@cf/meta/llama-3.1-8b-instruct"] {
        ask(&gateway, "@cloud").json(&hello(model)).send().await.expect(200);
        let seen = sent(&up);
        assert_eq!(seen.target, "/client/v4/accounts/023e/ai/v1/chat/completions");
        assert_eq!(seen.json()["model"], "@cf/meta/llama-3.1-8b-instruct");
    }
    let call = ask(&gateway, "workers-ai").header("x-gateway-workers-ai-account-id", "023e");
    let call = call.header("x-gateway-custom-host", &host).header("authorization", "Bearer own");
    let told = call.json(&hello("@cf/meta/nope")).send().await.expect(400).json();
    assert_eq!(
        (sent(&up).json()["model"].clone(), sent(&up).header("authorization")),
        (json!("@cf/meta/nope"), Some("Bearer own"))
    );
    assert_eq!(told["error"]["message"], "workers-ai error: No such model");
    assert_eq!(told["error"]["code"], 5007);
}

#[tokio::test]
async fn an_error_of_minimax_inside_a_200_falls_back() {
    let failing = json!({ "choices": null, "base_resp": { "status_code": 1002, "status_msg": "rate limit" } });
    let bad = Upstream::replying(move |seen| {
        if seen.json()["stream"] == true {
            return [reply::STREAM.to_vec(), reply::chunk(format!("data: {failing}\n\n")), reply::LAST_CHUNK.to_vec()]
                .concat();
        }
        reply::json(200, &failing)
    })
    .await;
    let (gateway, good) = (Gateway::start().await, answering().await);
    let first = json!({ "provider": "minimax", "api_key": "k", "custom_host": bare(&bad) });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
    for stream in [false, true] {
        let mut body = hello("MiniMax-M2");
        body["stream"] = stream.into();
        assert_eq!(gateway.chat().config(&config).json(&body).send().await.expect(200).said(), "Hello");
        let alone = gateway.chat().config(&first).json(&body).send().await.expect(429).json();
        assert_eq!(alone["error"]["type"], "rate_limit_error", "{alone}");
    }
    assert_eq!(bad.seen().len(), 4);
}

#[tokio::test]
async fn content_of_databricks_comes_as_text() {
    let parts = json!([{ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm." }] },
                       { "type": "text", "text": "Hello" }]);
    let whole = json!({ "id": "c", "object": "chat.completion", "model": "m", "choices": [
        { "index": 0, "message": { "role": "assistant", "content": parts }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 } });
    let events = [
        json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": parts } }] }),
        json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
    ];
    let up = Upstream::replying(move |seen| {
        if seen.json()["stream"] != true {
            return reply::json(200, &whole);
        }
        let events = events.iter().map(|event| reply::chunk(format!("data: {event}\n\n")));
        let events: Vec<Vec<u8>> = events.chain([reply::done()]).collect();
        [reply::STREAM.to_vec(), events.concat(), reply::LAST_CHUNK.to_vec()].concat()
    })
    .await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "databricks_workspace": "dbc-1",
                           "databricks_serving_endpoint_name": "mine" });
    integration(&gateway, "databricks", Some("dapi-1"), settings).await;
    let answer = ask(&gateway, "@cloud").json(&hello("m")).send().await.expect(200).json();
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Hello"), &json!("Hm.")));
    assert_eq!(sent(&up).target, "/serving-endpoints/mine/invocations");
    let mut body = hello("m");
    body["stream"] = true.into();
    let call = ask(&gateway, "databricks").header("x-gateway-databricks-workspace", "dbc-1.cloud.databricks.com");
    let call = call.header("x-gateway-custom-host", &bare(&up)).header("authorization", "Bearer own");
    let text = call.json(&body).send().await.expect(200).text();
    assert!(text.contains(r#""content":"Hello""#) && text.contains(r#""reasoning_content":"Hm.""#), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(sent(&up).target, "/serving-endpoints/chat/completions");
}

#[tokio::test]
async fn a_vendors_key_reaches_bytez_and_nobody_else() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    for (family, arrives) in [("bytez", Some("sk-vendor")), ("openai", None)] {
        for name in ["provider-key", "x-gateway-provider-key"] {
            let call = ask(&gateway, family).header("x-gateway-custom-host", &bare(&up)).header(name, "sk-vendor");
            call.header("authorization", "Bearer own").json(&hello("m")).send().await.expect(200);
            assert_eq!(sent(&up).header("provider-key"), arrives, "{family} {name}");
            assert_eq!(sent(&up).header("authorization"), Some("Bearer own"));
        }
    }
    let call = gateway.post("/v1/proxy/models/v2/openai-community/gpt2").key(WORKSPACE_KEY).provider("bytez");
    let call = call.header("x-gateway-custom-host", &bare(&up)).header("authorization", "Bearer own");
    call.json(&json!({ "text": "Hi" })).send().await.expect(200);
    assert_eq!(sent(&up).header("authorization"), Some("Key own"));
}

#[tokio::test]
async fn hugging_faces_address_may_be_ones_own() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    integration(&gateway, "huggingface", Some("hf-key"), json!({ "huggingface_base_url": bare(&up) })).await;
    ask(&gateway, "@cloud").json(&hello("org/model:groq")).send().await.expect(200);
    assert_eq!(
        (sent(&up).target.as_str(), &sent(&up).json()["model"]),
        ("/v1/chat/completions", &json!("org/model:groq"))
    );
    let call = ask(&gateway, "huggingface").header("x-gateway-huggingface-base-url", &bare(&up));
    call.header("authorization", "Bearer own").json(&hello("m")).send().await.expect(200);
    assert_eq!(sent(&up).header("authorization"), Some("Bearer own"));
    let config = json!({ "provider": "huggingface", "api_key": "k", "huggingface_base_url": bare(&up) });
    gateway.chat().config(&config).json(&hello("m")).send().await.expect(200);
    assert_eq!(sent(&up).header("authorization"), Some("Bearer k"));
    for bad in ["http://169.254.169.254", "ftp://x.example", "http://[::ffff:10.0.0.1]/"] {
        let call = ask(&gateway, "huggingface").header("x-gateway-huggingface-base-url", bad);
        call.header("authorization", "Bearer own").json(&hello("m")).send().await.expect(400);
        let body = json!({ "name": "n", "ai_provider_id": "huggingface", "key": "k",
                           "configurations": { "huggingface_base_url": bad } });
        let told = gateway.admin().post("/integrations", &body).await.expect(400).text();
        assert!(told.contains("configurations.huggingface_base_url"), "{told}");
    }
}

/// A family that serves China too has one address for each of its platforms.
#[tokio::test]
async fn byteplus_is_called_in_its_region() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    let settings = json!({ "custom_host": format!("{}/api/v3", bare(&up)), "byteplus_region": "eu-west" });
    integration(&gateway, "byteplus", Some("ark"), settings).await;
    ask(&gateway, "@cloud").json(&hello("seed-1-6")).send().await.expect(200);
    assert_eq!(sent(&up).target, "/api/v3/chat/completions");
    let shown: Value = gateway.admin().get("/integrations/cloud-i").await.expect(200).json();
    assert_eq!(shown["configurations"]["byteplus_region"], "eu-west");
}
