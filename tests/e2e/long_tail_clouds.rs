//! Clouds of the long tail, Amazon's and Oracle's: what is signed with keys of their customers, what they hear beside,
//! and where they chat in a way of their own.

use crate::clouds::{bare, hello, integration};
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, reply};
use crate::long_tail::{answering, ask, sent};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::process::Command;

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
