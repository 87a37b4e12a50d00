//! Areas beside chat of families in the long tail, set up by an integration, and what they cost.

use crate::area_forms::{FORM, ask, form, metrics_of, wav};
use crate::clouds::{bare, hello, integration};
use crate::harness::{Gateway, Upstream, reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(crate) async fn priced(gateway: &Gateway, model: &str, rates: Value) {
    let own = json!({ "slug": model, "enabled": true, "pricing_config": { "type": "static", "pay_as_you_go": rates } });
    gateway.admin().put("/integrations/cloud-i/models", &json!({ "models": [own] })).await.expect(200);
}

#[tokio::test]
async fn claude_on_aws_is_signed_and_told_its_workspace() {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "Hello" }], "usage": { "input_tokens": 3, "output_tokens": 1 } });
    let up = Upstream::replying(move |_| reply::json(200, &message)).await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "aws_region": "us-west-2", "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": "secret-0123456789", "anthropic_aws_workspace_id": "wrkspc_01" });
    integration(&gateway, "claude-platform-aws", None, settings).await;
    ask(&gateway, "/v1/chat/completions", "chat").provider("@cloud").json(&hello("claude-x")).send().await.expect(200);
    let seen = up.seen().pop().expect("it went up");
    let signature = seen.header("authorization").expect("signed").to_owned();
    assert!(signature.contains("/us-west-2/aws-external-anthropic/aws4_request"), "{signature}");
    assert_eq!((seen.target.as_str(), seen.header("anthropic-workspace-id")), ("/v1/messages", Some("wrkspc_01")));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    // What a client says of somebody's saved workspace does not count, nor where nothing is translated.
    let call = ask(&gateway, "/v1/proxy/v1/messages/batches", "raw").provider("@cloud");
    call.header("anthropic-workspace-id", "theirs").json(&json!({ "requests": [] })).send().await.expect(200);
    let seen = up.seen().pop().expect("it went up");
    assert_eq!(
        (seen.target.as_str(), seen.header("anthropic-workspace-id")),
        ("/v1/messages/batches", Some("wrkspc_01"))
    );
    // A key of the request's own, and its own workspace.
    let call = ask(&gateway, "/v1/messages", "own")
        .provider("claude-platform-aws")
        .header("x-gateway-aws-region", "us-west-2");
    let call =
        call.header("x-gateway-anthropic-aws-workspace-id", "wrkspc_02").header("x-gateway-custom-host", &bare(&up));
    let body = json!({ "model": "claude-x", "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi" }] });
    call.header("authorization", "Bearer own").json(&body).send().await.expect(200);
    let seen = up.seen().pop().expect("it went up");
    assert_eq!((seen.header("x-api-key"), seen.header("anthropic-workspace-id")), (Some("own"), Some("wrkspc_02")));
    let missing = json!({ "name": "n", "ai_provider_id": "claude-platform-aws", "key": "k",
        "configurations": { "aws_region": "us-west-2" } });
    let said = gateway.admin().post("/integrations", &missing).await.expect(400).text();
    assert!(said.contains("configurations.anthropic_aws_workspace_id is required"), "{said}");
}

#[tokio::test]
async fn openrouter_hears_sound_in_json_and_its_figure_is_the_cost() {
    let heard = json!({ "text": "I used to rule the world.", "usage": { "seconds": 20, "cost": 0.005 } });
    let up = Upstream::replying(move |_| reply::json(200, &heard)).await;
    let gateway = Gateway::start().await;
    integration(&gateway, "openrouter", Some("sk-or"), json!({ "custom_host": bare(&up) })).await;
    let sound = wav(1);
    let body = form(&[("file", Some("a.wav"), &sound), ("model", None, b"google/chirp-3"), ("language", None, b"en")]);
    let call = ask(&gateway, "/v1/audio/transcriptions", "heard").provider("@cloud");
    let answer = call.body(FORM, body).send().await.expect(200).json();
    assert_eq!(answer["text"], "I used to rule the world.");
    let seen = up.seen().pop().expect("it went up");
    assert_eq!(seen.target, "/v1/audio/transcriptions");
    let file = json!({ "data": STANDARD.encode(&sound), "format": "wav" });
    assert_eq!(seen.json(), json!({ "model": "google/chirp-3", "input_audio": file, "language": "en" }));
    assert_eq!(metrics_of(&gateway, "heard").await["cost"], 0.5);
}

/// A model that only hears has an API of its own, and the answer tells what is billed.
#[tokio::test]
async fn chirp_is_asked_of_cloud_speech_and_billed_by_the_second() {
    let results = json!([{ "alternatives": [{ "transcript": "good morning" }], "resultEndOffset": "1.2s" }]);
    let heard = json!({ "results": results, "metadata": { "totalBilledDuration": "10s" } });
    let up = Upstream::replying(move |_| reply::json(200, &heard)).await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "vertex_project_id": "p-1", "vertex_region": "us-central1" });
    integration(&gateway, "vertex-ai", Some("ya29"), settings).await;
    let sound = wav(1);
    let body = form(&[("file", Some("a.wav"), &sound), ("model", None, b"chirp_2"), ("prompt", None, b"names")]);
    let call = ask(&gateway, "/v1/audio/transcriptions", "chirp").provider("@cloud").body(FORM, body);
    let told_back = call.send().await.expect(200);
    assert_eq!(told_back.header("x-gateway-adjusted-params"), Some("prompt"));
    assert_eq!(told_back.json()["text"], "good morning");
    let seen = up.seen().pop().expect("it went up");
    assert_eq!(seen.target, "/v2/projects/p-1/locations/us-central1/recognizers/_:recognize");
    assert_eq!(seen.json()["config"]["languageCodes"], json!(["auto"]));
    assert_eq!(seen.json()["content"], STANDARD.encode(&sound));
    // Ten seconds at 0.016 dollars a minute, as the list has it.
    let cost = metrics_of(&gateway, "chirp").await["cost"].as_f64().expect("priced");
    assert!((cost - 0.266_67).abs() < 1e-6, "{cost}");
}

/// Whole answers of this provider hold an address: its sound is taken out of events.
#[tokio::test]
async fn speech_of_dashscope_is_the_sound_in_its_events() {
    let up = Upstream::replying(|seen| {
        let event = |data: &str, end: &str| {
            let audio = json!({ "data": data, "url": "" });
            let told = json!({ "output": { "audio": audio, "finish_reason": end }, "usage": { "characters": 5 } });
            reply::chunk(format!("id:1\nevent:result\n:HTTP_STATUS/200\ndata:{told}\n\n"))
        };
        assert_eq!(seen.header("x-dashscope-sse"), Some("enable"));
        let events = [event("QUJD", "null"), event("REVG", "null"), event("", "stop")].concat();
        [reply::STREAM.to_vec(), events, reply::LAST_CHUNK.to_vec()].concat()
    })
    .await;
    let gateway = Gateway::start().await;
    integration(&gateway, "dashscope", Some("sk-ds"), json!({ "custom_host": bare(&up) })).await;
    priced(&gateway, "qwen3-tts-flash", json!({ "additional_units": { "character": { "price": 0.01 } } })).await;
    let mut body = json!({ "model": "qwen3-tts-flash", "input": "Hello", "voice": "Cherry", "response_format": "pcm" });
    let bare_samples = ask(&gateway, "/v1/audio/speech", "pcm").provider("@cloud").json(&body).send().await.expect(200);
    assert_eq!((bare_samples.header("content-type"), &bare_samples.body[..]), (Some("audio/pcm"), &b"ABCDEF"[..]));
    assert_eq!(up.seen().pop().expect("it went up").target, "/api/v1/services/aigc/multimodal-generation/generation");
    assert_eq!(metrics_of(&gateway, "pcm").await["cost"], 0.05);
    body["response_format"] = "wav".into();
    let file = ask(&gateway, "/v1/audio/speech", "wav").provider("@cloud").json(&body).send().await.expect(200);
    assert_eq!(file.header("content-type"), Some("audio/wav"));
    assert!(file.body.starts_with(b"RIFF") && file.body.ends_with(b"ABCDEF") && file.body.len() == 44 + 6);
    body["response_format"] = "mp3".into();
    ask(&gateway, "/v1/audio/speech", "mp3").provider("@cloud").json(&body).send().await.expect(400);
}

#[tokio::test]
async fn pictures_are_changed_in_the_words_of_their_providers() {
    const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff\r\n--bx\r\n--";
    let up = Upstream::replying(|seen| match seen.target.as_str() {
        "/v2beta/stable-image/edit/inpaint" => {
            reply::json(200, &json!({ "image": "QUFB", "finish_reason": "SUCCESS", "seed": 1 }))
        }
        _ => {
            let content = json!([{ "image": "https://result.example/a.png" }]);
            let choice = json!({ "finish_reason": "stop", "message": { "role": "assistant", "content": content } });
            reply::json(200, &json!({ "output": { "choices": [choice] }, "usage": { "image_count": 1 } }))
        }
    })
    .await;
    for (family, model) in [("stability-ai", "inpaint"), ("dashscope", "qwen-image-edit")] {
        let gateway = Gateway::start().await;
        integration(&gateway, family, Some("sk-a"), json!({ "custom_host": bare(&up) })).await;
        priced(&gateway, model, json!({ "image": { "default": { "default": { "price": 4.0 } } } })).await;
        let body =
            form(&[("image", Some("a.png"), PICTURE), ("prompt", None, b"a hat"), ("model", None, model.as_bytes())]);
        let call = ask(&gateway, "/v1/images/edits", family).provider("@cloud");
        let answer = call.body(FORM, body).send().await.expect(200).json();
        let seen = up.seen().pop().expect("it went up");
        if family == "stability-ai" {
            assert_eq!(answer["data"], json!([{ "b64_json": "QUFB" }]));
            assert_eq!(seen.header("accept"), Some("application/json"));
            assert!(seen.body.windows(PICTURE.len()).any(|window| window == PICTURE), "the picture keeps its bytes");
        } else {
            assert_eq!(answer["data"], json!([{ "url": "https://result.example/a.png" }]));
            let url = format!("data:image/png;base64,{}", STANDARD.encode(PICTURE));
            let content = json!([{ "image": url }, { "text": "a hat" }]);
            assert_eq!(seen.json()["input"]["messages"][0]["content"], content);
        }
        assert_eq!(metrics_of(&gateway, family).await["cost"], 4.0, "{family}");
    }
}

#[tokio::test]
async fn pictures_cost_by_the_unit_that_their_provider_counts() {
    let up = Upstream::replying(|seen| {
        if seen.target.starts_with("/fal-ai/") {
            let image = json!({ "url": "https://result.example/a.png", "width": 1000, "height": 500 });
            return reply::json(200, &json!({ "images": [image.clone(), image] }));
        }
        let made = json!({ "id": "1", "base64": ["data:image/png;base64,QUFB"], "finishReason": "SUCCESS", "seed": 1 });
        reply::json(200, &made)
    })
    .await;
    let flux = "accounts/fireworks/models/flux-1-schnell-fp8";
    for (family, model, rates, body, cents) in [
        ("fal-ai", "fal-ai/flux/dev", json!({ "megapixel": { "price": 2.5 } }), json!({ "n": 2 }), 2.5),
        ("fireworks-ai", flux, json!({ "step": { "price": 0.25 } }), json!({ "num_inference_steps": 6 }), 1.5),
        ("fireworks-ai", flux, json!({ "step": { "price": 0.25 } }), json!({}), 1.0),
    ] {
        let gateway = Gateway::start().await;
        integration(&gateway, family, Some("sk-a"), json!({ "custom_host": bare(&up) })).await;
        priced(&gateway, model, json!({ "additional_units": rates })).await;
        let mut body = body;
        body["model"] = model.into();
        body["prompt"] = "a cat".into();
        let call = ask(&gateway, "/v1/images/generations", family).provider("@cloud");
        call.json(&body).send().await.expect(200);
        assert_eq!(metrics_of(&gateway, family).await["cost"], cents, "{model}");
    }
    // What the list says of a step, and the provider of how many there are.
    let gateway = Gateway::start().await;
    integration(&gateway, "fireworks-ai", Some("sk-a"), json!({ "custom_host": bare(&up) })).await;
    let body = json!({ "model": "accounts/fireworks/models/flux-1-dev-fp8", "prompt": "a cat" });
    ask(&gateway, "/v1/images/generations", "listed").provider("@cloud").json(&body).send().await.expect(200);
    assert_eq!(metrics_of(&gateway, "listed").await["cost"], 1.4);
    ask(&gateway, "/v1/images/generations", "last")
        .provider("@cloud")
        .json(&json!({ "model": flux, "prompt": "a" }))
        .send()
        .await
        .expect(200);
    let path = "/workflows/accounts/fireworks/models/flux-1-schnell-fp8/text_to_image";
    assert_eq!(up.seen().pop().expect("it went up").target, path);
}

#[tokio::test]
async fn vectors_and_rerank_of_oracle_name_the_compartment() {
    let up = Upstream::replying(|seen| match seen.target.as_str() {
        "/20231130/actions/embedText" => {
            reply::json(200, &json!({ "id": "e", "embeddings": [[0.5, 0.25]], "usage": { "promptTokens": 4 } }))
        }
        _ => reply::json(200, &json!({ "id": "r", "documentRanks": [{ "index": 1, "relevanceScore": 0.75 }] })),
    })
    .await;
    let gateway = Gateway::start().await;
    let settings = json!({ "custom_host": bare(&up), "oracle_region": "us-chicago-1",
        "oracle_compartment_id": "ocid1.compartment.oc1..aaaa" });
    integration(&gateway, "oracle", Some("sk-oracle"), settings).await;
    let body = json!({ "model": "cohere.embed-v4.0", "input": "a" });
    let answer =
        ask(&gateway, "/v1/embeddings", "vectors").provider("@cloud").json(&body).send().await.expect(200).json();
    assert_eq!((&answer["data"][0]["embedding"], &answer["usage"]["prompt_tokens"]), (&json!([0.5, 0.25]), &json!(4)));
    let mode = json!({ "servingType": "ON_DEMAND", "modelId": "cohere.embed-v4.0" });
    let expected = json!({ "compartmentId": "ocid1.compartment.oc1..aaaa", "servingMode": mode, "inputs": ["a"] });
    assert_eq!(up.seen().pop().expect("it went up").json(), expected);
    let endpoint = "ocid1.generativeaiendpoint.oc1.us-chicago-1.aaaa";
    let body = json!({ "model": endpoint, "query": "q", "documents": ["a", "b"] });
    let answer = ask(&gateway, "/v1/rerank", "ranks").provider("@cloud").json(&body).send().await.expect(200).json();
    assert_eq!((&answer["results"][0]["index"], &answer["results"][0]["relevance_score"]), (&json!(1), &json!(0.75)));
    assert_eq!(
        up.seen().pop().expect("it went up").json()["servingMode"],
        json!({ "servingType": "DEDICATED", "endpointId": endpoint })
    );
}

/// Nothing is refused for it: the address itself has the last word.
#[tokio::test]
async fn a_service_that_ended_says_so() {
    let up = Upstream::replying(|_| reply::chat("Hello")).await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    for (family, day) in [("palm", "2024-08-15"), ("anyscale", "2024-08-01")] {
        let body = json!({ "name": family, "slug": family, "ai_provider_id": family, "key": "k" });
        admin.post("/integrations", &body).await.expect(200);
        let shown = admin.get(&format!("/integrations/{family}")).await.expect(200).json();
        assert!(shown["notice"].as_str().is_some_and(|notice| notice.contains(day)), "{shown}");
    }
    let told = ask(&gateway, "/v1/chat/completions", "ended").provider("@palm").json(&hello("text-bison")).send().await;
    let told = told.expect(500);
    assert_eq!(told.header("x-gateway-provider-shutdown"), Some("2024-08-15"));
    assert!(
        told.text().contains("is not supported by palm: the PaLM API was shut down on 2024-08-15"),
        "{}",
        told.text()
    );
    // Somebody else's server may answer still.
    integration(&gateway, "anyscale", Some("k"), json!({ "custom_host": up.url() })).await;
    let shown = admin.get("/integrations/cloud-i").await.expect(200).json();
    assert_eq!(shown["notice"], Value::Null);
    let answer =
        ask(&gateway, "/v1/chat/completions", "own").provider("@cloud").json(&hello("m")).send().await.expect(200);
    assert_eq!((answer.said().as_str(), answer.header("x-gateway-provider-shutdown")), ("Hello", None));
}
