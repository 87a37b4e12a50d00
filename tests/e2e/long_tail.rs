//! Families whose address is made of a name, whose errors hide in answers, or whose credential has a form of its own: each
//! setting by integration, by header and in a target, and what goes up with it.

use crate::clouds::{bare, hello, integration};
use crate::harness::call::Call;
use crate::harness::{Gateway, Seen, Upstream, WORKSPACE_KEY, eventually, gateway::target, reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::process::Command;

fn ask(gateway: &Gateway, provider: &str) -> Call {
    gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).provider(provider)
}

async fn answering() -> Upstream {
    Upstream::replying(
        |seen| {
            if seen.json()["stream"] == true { reply::stream(&["Hel", "lo"]) } else { reply::chat("Hello") }
        },
    )
    .await
}

fn sent(upstream: &Upstream) -> Seen {
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
        // Without it there is no address.
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
async fn sagemaker_is_signed_on_its_own_path_and_given_a_token_on_openais() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    let settings = json!({
        "custom_host": bare(&up), "aws_region": "eu-west-1", "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "amzn_sagemaker_custom_attributes": "trace=1", "amzn_sagemaker_target_model": "m.tar.gz",
        "amzn_sagemaker_target_variant": "v-1", "amzn_sagemaker_target_container_hostname": "c-1",
        "amzn_sagemaker_inference_id": "i-1", "amzn_sagemaker_enable_explanations": "`true`",
        "amzn_sagemaker_inference_component": "ic-1", "amzn_sagemaker_session_id": "NEW_SESSION",
        "amzn_sagemaker_model_name": "qwen",
    });
    integration(&gateway, "sagemaker", None, settings).await;
    let headers = [
        ("x-amzn-sagemaker-custom-attributes", "trace=1"),
        ("x-amzn-sagemaker-target-model", "m.tar.gz"),
        ("x-amzn-sagemaker-target-variant", "v-1"),
        ("x-amzn-sagemaker-target-container-hostname", "c-1"),
        ("x-amzn-sagemaker-inference-id", "i-1"),
        ("x-amzn-sagemaker-enable-explanations", "`true`"),
        ("x-amzn-sagemaker-inference-component", "ic-1"),
        ("x-amzn-sagemaker-session-id", "NEW_SESSION"),
    ];
    let call = gateway.post("/v1/proxy/endpoints/mine/invocations").key(WORKSPACE_KEY).provider("@cloud");
    let call = call.header("x-amzn-sagemaker-target-variant", "of-the-client");
    call.json(&json!({ "inputs": "Hi" })).send().await.expect(200);
    let seen = sent(&up);
    let signature = seen.header("authorization").expect("signed").to_owned();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signature}");
    assert!(signature.contains("/eu-west-1/sagemaker/aws4_request"), "{signature}");
    for (name, value) in headers {
        assert_eq!(seen.header(name), Some(value));
        assert!(signature.contains(name), "{name} is signed: {signature}");
    }
    ask(&gateway, "@cloud").json(&hello("mine")).send().await.expect(200);
    let seen = sent(&up);
    assert_eq!(seen.target, "/endpoints/mine/openai/v1/chat/completions");
    assert_eq!(seen.json()["model"], "qwen");
    assert!(seen.header("authorization").expect("a token").starts_with("Bearer sagemaker-api-key-"));
    assert!(headers.iter().all(|(name, value)| seen.header(name) == Some(value)));
    // A token that somebody made already, as a key.
    let call =
        ask(&gateway, "sagemaker").header("x-gateway-aws-region", "eu-west-1").header("authorization", "Bearer made");
    call.header("x-gateway-custom-host", &bare(&up)).json(&hello("mine")).send().await.expect(200);
    assert_eq!((sent(&up).header("authorization"), &sent(&up).json()["model"]), (Some("Bearer made"), &json!("")));
}

#[tokio::test]
async fn bedrocks_open_models_are_signed_and_claude_hears_messages() {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [
        { "type": "text", "text": "Hello" }], "stop_reason": "end_turn", "usage": { "input_tokens": 3, "output_tokens": 1 } });
    let up = Upstream::replying(move |seen| {
        if seen.target.contains("/anthropic/") { reply::json(200, &message) } else { reply::chat("Hello") }
    })
    .await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "aws_region": "us-east-1", "aws_auth_type": "accessKey",
                           "aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret" });
    integration(&gateway, "bedrock-mantle", None, settings).await;
    for (model, path) in [
        ("openai.gpt-oss-120b", "/v1/chat/completions"),
        ("openai.gpt-5.5", "/openai/v1/chat/completions"),
        ("us.anthropic.claude-sonnet-4-5", "/anthropic/v1/messages"),
    ] {
        let answer = ask(&gateway, "@cloud").json(&hello(model)).send().await.expect(200);
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "Hello");
        assert_eq!(sent(&up).target, path);
        let signature = sent(&up).header("authorization").expect("signed").to_owned();
        assert!(signature.contains("/us-east-1/bedrock/aws4_request"), "{signature}");
    }
    let mut twice = hello("openai.gpt-oss-120b");
    twice["n"] = 2.into();
    let told = ask(&gateway, "@cloud").json(&twice).send().await.expect(400).json();
    assert_eq!(told["error"]["param"].as_str().or(told["error"]["field"].as_str()), Some("n"), "{told}");
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

#[tokio::test]
async fn oracle_hears_of_the_compartment() {
    let (gateway, up) = (Gateway::start().await, answering().await);
    let settings = json!({ "custom_host": bare(&up), "oracle_region": "us-chicago-1",
                           "oracle_api_version": "20250101", "oracle_compartment_id": "ocid1.compartment.oc1..aaaa" });
    integration(&gateway, "oracle", Some("sk-oracle"), settings).await;
    ask(&gateway, "@cloud").json(&hello("xai.grok-4")).send().await.expect(200);
    let seen = sent(&up);
    assert_eq!(seen.target, "/20250101/actions/v1/chat/completions");
    assert_eq!(seen.header("opc-compartment-id"), Some("ocid1.compartment.oc1..aaaa"));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-oracle"));
}

/// A setting of the integration, of a target or of a header leads to Oracle's own chat, on either kind of model.
#[tokio::test]
async fn oracle_chats_in_its_own_way_where_a_setting_says_so() {
    let up = Upstream::replying(|seen| {
        let streams = seen.json()["chatRequest"]["isStream"] == true;
        let told = json!({ "content": [{ "type": "TEXT", "text": "Hello" }] });
        let whole = json!({ "modelId": "m", "chatResponse": { "apiFormat": "GENERIC",
            "choices": [{ "index": 0, "message": told, "finishReason": "stop" }],
            "usage": { "promptTokens": 5, "completionTokens": 2 } } });
        let pieces =
            [json!({ "text": "Hel" }), json!({ "text": "lo" }), json!({ "text": "Hello", "finishReason": "COMPLETE" })];
        let events: String = pieces.iter().map(|piece| format!("data: {piece}\n\n")).collect();
        let head = [("content-type", "text/event-stream")];
        if streams { reply::whole(200, &head, events) } else { reply::json(200, &whole) }
    })
    .await;
    let gateway = Gateway::start().await;
    let endpoint = "ocid1.generativeaiendpoint.oc1.us-chicago-1.aaaa";
    let settings = json!({ "custom_host": bare(&up), "oracle_region": "us-chicago-1", "oracle_serving_mode": "DEDICATED",
                           "oracle_compartment_id": "ocid1.compartment.oc1..aaaa" });
    integration(&gateway, "oracle", Some("sk-oracle"), settings).await;
    let answer = ask(&gateway, "@cloud").json(&hello(endpoint)).send().await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello", "{answer}");
    assert_eq!(answer["usage"]["total_tokens"], 7);
    let seen = sent(&up);
    assert_eq!(seen.target, "/20231130/actions/chat");
    assert_eq!(seen.json()["servingMode"], json!({ "servingType": "DEDICATED", "endpointId": endpoint }));
    let refused = ask(&gateway, "@cloud").json(&hello("xai.grok-4")).send().await.expect(400).text();
    assert!(refused.contains("oracle_serving_mode"), "{refused}");

    let call =
        ask(&gateway, "oracle").header("authorization", "Bearer sk-oracle").header("x-gateway-custom-host", &bare(&up));
    let call = call.header("x-gateway-oracle-region", "us-chicago-1").header("x-gateway-oracle-api-format", "COHERE");
    let call = call.header("x-gateway-oracle-compartment-id", "ocid1.compartment.oc1..aaaa");
    let mut streamed = hello("ocid1.generativeaimodel.oc1..b");
    streamed["stream"] = true.into();
    let told =
        call.header("x-gateway-oracle-serving-mode", "ON_DEMAND").json(&streamed).send().await.expect(200).text();
    assert!(told.contains(r#""content":"lo""#) && told.contains(r#""finish_reason":"stop""#), "{told}");
    assert!(!told.contains(r#""content":"Hello""#) && told.ends_with("data: [DONE]\n\n"), "{told}");
    let body = sent(&up).json();
    assert_eq!(body["servingMode"]["modelId"], "ocid1.generativeaimodel.oc1..b");
    assert_eq!((&body["chatRequest"]["apiFormat"], &body["chatRequest"]["message"]), (&json!("COHERE"), &json!("Hi")));

    let config = json!({ "provider": "oracle", "api_key": "k", "oracle_region": "x", "oracle_serving_mode": "SHARED" });
    let call = gateway.post("/v1/chat/completions").key(WORKSPACE_KEY).config(&config).json(&hello(endpoint));
    let refused = call.send().await.expect(400).text();
    assert!(refused.contains("oracle_serving_mode") && refused.contains("must be ON_DEMAND or DEDICATED"), "{refused}");
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

fn response(model: &str, usage: &Value) -> Value {
    let text = json!([{ "type": "output_text", "text": "Hello", "annotations": [] }]);
    let found = json!([{ "id": 1, "url": "https://example.com/a", "title": "A", "snippet": "" }]);
    json!({ "id": "resp_1", "object": "response", "model": model, "status": "completed", "usage": usage, "output": [
        { "type": "search_results", "results": found },
        { "type": "message", "id": "m", "role": "assistant", "content": text } ] })
}

/// A server of Responses and of nothing else.
async fn serving_responses(usage: Value) -> Upstream {
    Upstream::replying(move |seen| {
        if !seen.target.ends_with("/responses") {
            return reply::error(404, &[]);
        }
        let asked = seen.json();
        let model = asked["model"].as_str().unwrap_or_default().to_owned();
        if asked["stream"] != true {
            return reply::json(200, &response(&model, &usage));
        }
        let events = [
            json!({ "type": "response.created", "response": { "id": "resp_1", "model": model } }),
            json!({ "type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Hel" }),
            json!({ "type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "lo" }),
            json!({ "type": "response.completed", "response": response(&model, &usage) }),
        ];
        let events: Vec<Vec<u8>> = events.iter().map(|event| reply::chunk(format!("data: {event}\n\n"))).collect();
        [reply::STREAM.to_vec(), events.concat(), reply::LAST_CHUNK.to_vec()].concat()
    })
    .await
}

#[tokio::test]
async fn models_without_chat_are_reached_by_responses() {
    let usage = json!({ "input_tokens": 4, "output_tokens": 2, "total_tokens": 6 });
    let (gateway, up) = (Gateway::start().await, serving_responses(usage).await);
    integration(&gateway, "openai", Some("sk-openai"), json!({ "custom_host": up.url() })).await;
    for stream in [false, true] {
        let mut body = hello("gpt-5-codex");
        body["stream"] = stream.into();
        let answer = ask(&gateway, "@cloud").json(&body).send().await.expect(200);
        assert_eq!(answer.said(), "Hello");
        assert!(!stream || answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
        let seen = sent(&up);
        assert_eq!(seen.json()["input"][0]["content"], "Hi");
        assert_eq!((&seen.json()["store"], seen.header("authorization")), (&json!(false), Some("Bearer sk-openai")));
    }
    let message = json!({ "model": "gpt-5-codex", "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi" }] });
    let call = gateway.post("/v1/messages").key(WORKSPACE_KEY).provider("@cloud").json(&message);
    assert_eq!(call.send().await.expect(200).json()["content"][0]["text"], "Hello");
    // Others have a chat, which this server has not.
    ask(&gateway, "@cloud").json(&hello("gpt-5")).send().await.expect(404);
}

#[tokio::test]
async fn perplexity_is_asked_by_responses_and_its_own_figure_is_the_cost() {
    let usage = json!({ "input_tokens": 4, "output_tokens": 2, "total_tokens": 6,
                        "cost": { "currency": "USD", "input_cost": 0.001, "output_cost": 0.001, "total_cost": 0.0125 } });
    let (gateway, up) = (Gateway::start().await, serving_responses(usage).await);
    integration(&gateway, "perplexity-ai", Some("pplx-key"), json!({ "custom_host": bare(&up) })).await;
    for stream in [false, true] {
        let mut body = hello("sonar-pro");
        body["stream"] = stream.into();
        let trace = format!("perplexity-{stream}");
        let call = ask(&gateway, "@cloud").header("x-gateway-trace-id", &trace).json(&body);
        let answer = call.send().await.expect(200);
        assert_eq!(answer.said(), "Hello");
        let text = answer.text();
        assert!(text.contains(r#""citations":["https://example.com/a"]"#) && text.contains("search_results"), "{text}");
        let seen = sent(&up);
        assert_eq!((&seen.json()["model"], &seen.json()["preset"]), (&json!("perplexity/sonar"), &json!("fast")));
        assert_eq!(seen.target, "/v1/responses");
        let record = eventually("the record", || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            list["data"].get(0).cloned()
        });
        assert_eq!(record.await["metrics"]["cost"], 1.25);
    }
}

/// Pictures and sound are billed by what they are counted in: 4 cents for a picture, 0.01 for a character.
#[tokio::test]
async fn pictures_and_sound_of_other_shapes_are_made_and_billed() {
    let up = Upstream::replying(|seen| {
        let artifact = json!({ "base64": "QUFB", "finishReason": "SUCCESS", "seed": 1 });
        match seen.target.as_str() {
            "/v1/t2a_v2" => reply::json(
                200,
                &json!({ "data": { "audio": "fff34400", "status": 2 }, "extra_info": { "usage_characters": 20 },
                         "base_resp": { "status_code": 0, "status_msg": "success" } }),
            ),
            "/v2beta/stable-image/generate/core" => {
                reply::json(200, &json!({ "image": "QUFB", "finish_reason": "SUCCESS" }))
            }
            _ => reply::json(200, &json!({ "artifacts": [artifact, artifact] })),
        }
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let price = |model: &str, price: Value| {
        json!({ "models": [{ "slug": model, "enabled": true, "pricing_config": {
            "type": "static", "pay_as_you_go": price } }] })
    };
    let spent = async |trace: &str| {
        let found = eventually("the record", || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            list["data"].get(0).cloned()
        });
        found.await["metrics"]["cost"].clone()
    };
    integration(&gateway, "stability-ai", Some("sk-stability"), json!({ "custom_host": bare(&up) })).await;
    let pictures = json!({ "image": { "default": { "default": { "price": 4.0 } } } });
    admin.put("/integrations/cloud-i/models", &price("sdxl", pictures.clone())).await.expect(200);
    let ask = |path: &str, trace: &str| {
        gateway.post(path).key(WORKSPACE_KEY).provider("@cloud").header("x-gateway-trace-id", trace)
    };
    let body = json!({ "model": "sdxl", "prompt": "a cat", "n": 2, "size": "1024x1024" });
    let told = ask("/v1/images/generations", "engine").json(&body).send().await.expect(200).json();
    assert_eq!(told["data"], json!([{ "b64_json": "QUFB" }, { "b64_json": "QUFB" }]));
    assert_eq!(sent(&up).target, "/v1/generation/sdxl/text-to-image");
    assert_eq!(spent("engine").await, 8.0);
    // The newer models take a form, and say so in the head.
    admin.put("/integrations/cloud-i/models", &price("core", pictures)).await.expect(200);
    let body = json!({ "model": "core", "prompt": "a cat", "size": "1024x1024", "seed": 3 });
    ask("/v1/images/generations", "form").json(&body).send().await.expect(200);
    let (seen, text) = (sent(&up), sent(&up).text());
    let media = seen.header("content-type").expect("a type");
    let boundary = media.strip_prefix("multipart/form-data; boundary=").expect("a form");
    assert_eq!((text.matches(boundary).count(), seen.header("accept")), (4, Some("application/json")), "{text}");
    assert!(text.contains("name=\"aspect_ratio\"\r\n\r\n1:1\r\n") && text.contains("name=\"seed\"\r\n\r\n3\r\n"));
    assert_eq!(spent("form").await, 4.0);

    let body = json!({ "name": "sound", "slug": "sound-i", "ai_provider_id": "minimax", "key": "k",
                       "create_default_provider": false, "configurations": { "custom_host": bare(&up) } });
    admin.post("/integrations", &body).await.expect(200);
    let provider = json!({ "name": "sound", "slug": "sound", "integration_id": "sound-i" });
    admin.post("/providers", &provider).await.expect(200);
    let characters = json!({ "additional_units": { "character": { "price": 0.01 } } });
    admin.put("/integrations/sound-i/models", &price("speech-2.8-hd", characters)).await.expect(200);
    let body = json!({ "model": "speech-2.8-hd", "input": "Hello.", "voice": "v" });
    let call = ask("/v1/audio/speech", "sound").provider("@sound").json(&body);
    let sound = call.send().await.expect(200);
    assert_eq!((sound.header("content-type"), &sound.body[..]), (Some("audio/mpeg"), &[0xff, 0xf3, 0x44, 0x00][..]));
    assert_eq!(spent("sound").await, 0.2);
}

/// A key of a user's, in both forms that openssl writes.
fn rsa_key(folder: &std::path::Path, form: &[&str]) -> String {
    let path = folder.join("key.pem");
    let made = Command::new("openssl").args(["genrsa"]).args(form).args(["2048"]).output().expect("openssl");
    std::fs::write(&path, &made.stdout).expect("written");
    String::from_utf8(made.stdout).expect("PEM")
}

/// Whether openssl finds that the key in `folder` signed this.
fn is_signed(folder: &std::path::Path, text: &str, signature: &[u8]) -> bool {
    std::fs::write(folder.join("text"), text).expect("written");
    std::fs::write(folder.join("signature"), signature).expect("written");
    let public = ["rsa", "-in", "key.pem", "-pubout", "-out", "public.pem"];
    Command::new("openssl").args(public).current_dir(folder).output().expect("openssl");
    let verify = ["dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "text"];
    Command::new("openssl").args(verify).current_dir(folder).status().expect("openssl").success()
}

#[tokio::test]
async fn oracle_is_signed_with_a_users_key() {
    const FINGERPRINT: &str = "20:3b:97:13:55:1c:5b:0d:d3:37:d8:50:4e:c5:3a:34";
    let up = answering().await;
    for form in [&["-traditional"][..], &[]] {
        let gateway = Gateway::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let key = rsa_key(folder.path(), form);
        let settings = json!({
            "custom_host": bare(&up), "oracle_region": "us-chicago-1", "oracle_tenancy": "ocid1.tenancy.oc1..a",
            "oracle_user": "ocid1.user.oc1..b", "oracle_fingerprint": FINGERPRINT, "oracle_private_key": key,
            "oracle_compartment_id": "ocid1.compartment.oc1..c",
        });
        integration(&gateway, "oracle", None, settings).await;
        let shown = gateway.admin().get("/integrations/cloud-i").await.expect(200).text();
        assert!(!shown.contains("PRIVATE KEY") && shown.contains(FINGERPRINT), "{shown}");
        ask(&gateway, "@cloud").json(&hello("xai.grok-4")).send().await.expect(200);
        let seen = sent(&up);
        let told = seen.header("authorization").expect("signed").to_owned();
        let part = |name: &str| {
            let start = told.find(&format!("{name}=\"")).expect("a part") + name.len() + 2;
            told[start..].split('"').next().unwrap_or_default().to_owned()
        };
        assert_eq!(part("keyId"), format!("ocid1.tenancy.oc1..a/ocid1.user.oc1..b/{FINGERPRINT}"));
        assert_eq!((part("algorithm").as_str(), part("version").as_str()), ("rsa-sha256", "1"));
        let covered = "(request-target) date host x-content-sha256 content-type content-length";
        assert_eq!(part("headers"), covered);
        let line = |name: &str| match name {
            "(request-target)" => format!("{name}: post {}", seen.target),
            name => format!("{name}: {}", seen.header(name).unwrap_or_else(|| panic!("no {name}"))),
        };
        let text: Vec<String> = covered.split(' ').map(line).collect();
        let signature = STANDARD.decode(part("signature")).expect("base64");
        assert!(is_signed(folder.path(), &text.join("\n"), &signature), "{told}");
        let digest = STANDARD.encode(Sha256::digest(seen.text()));
        assert_eq!(seen.header("x-content-sha256"), Some(digest.as_str()));
        assert_eq!(seen.header("opc-compartment-id"), Some("ocid1.compartment.oc1..c"));
    }
    let gateway = Gateway::start().await;
    let half = json!({ "oracle_region": "x", "oracle_tenancy": "ocid1.tenancy.oc1..a" });
    for (settings, says) in [
        (half, "configurations.oracle_private_key is required"),
        (
            json!({ "oracle_region": "x", "oracle_fingerprint": "20:3b" }),
            "configurations.oracle_fingerprint must be 16",
        ),
    ] {
        let body = json!({ "name": "n", "ai_provider_id": "oracle", "configurations": settings });
        let told = gateway.admin().post("/integrations", &body).await.expect(400).text();
        assert!(told.contains(says), "{told}");
    }
}

#[tokio::test]
async fn triton_is_called_in_either_of_its_ways() {
    let up = Upstream::replying(|seen| {
        let piece = |text: &str| json!({ "model_name": "ensemble", "model_version": "1", "text_output": text });
        match seen.target.as_str() {
            "/v2/models/ensemble/generate" => reply::json(200, &piece("Hello")),
            "/v2/models/ensemble/generate_stream" => {
                let events = ["Hel", "lo"].map(|text| reply::chunk(format!("data: {}\n\n", piece(text))));
                [reply::STREAM.to_vec(), events.concat(), reply::LAST_CHUNK.to_vec()].concat()
            }
            _ => reply::chat("Hello"),
        }
    })
    .await;
    let gateway = Gateway::start().await;
    integration(&gateway, "triton", None, json!({ "custom_host": bare(&up), "triton_api": "generate" })).await;
    let ask = |provider: &str| gateway.post("/v1/completions").key(WORKSPACE_KEY).provider(provider);
    let mut body = json!({ "model": "ensemble", "prompt": "Hi", "max_tokens": 9, "stop": "x" });
    let told = ask("@cloud").json(&body).send().await.expect(200).json();
    assert_eq!((&told["choices"][0]["text"], &told["object"]), (&json!("Hello"), &json!("text_completion")));
    assert_eq!(sent(&up).json(), json!({ "text_input": "Hi", "max_tokens": 9, "stop_words": ["x"] }));
    body["stream"] = true.into();
    let text = ask("@cloud").json(&body).send().await.expect(200).text();
    assert!(text.contains(r#""text":"Hel""#) && text.ends_with("data: [DONE]\n\n"), "{text}");
    // Without the setting it is called as OpenAI is.
    let call = ask("triton").header("x-gateway-custom-host", &bare(&up)).header("x-gateway-triton-api", "openai");
    call.json(&json!({ "model": "ensemble", "prompt": "Hi" })).send().await.expect(200);
    assert_eq!(sent(&up).target, "/v1/completions");
    let call = ask("triton").header("x-gateway-custom-host", &bare(&up)).header("x-gateway-triton-api", "grpc");
    assert!(call.json(&body).send().await.expect(400).text().contains("must be openai or generate"));
}
