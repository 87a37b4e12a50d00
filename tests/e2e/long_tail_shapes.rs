//! What is asked in another shape than a chat of OpenAI's: chats by Responses, pictures and sound with what they cost,
//! and completions of Triton.

use crate::clouds::{bare, hello, integration};
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, reply};
use crate::long_tail::{ask, sent};
use serde_json::{Value, json};

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
    // Without the setting the provider is called as OpenAI is.
    let call = ask("triton").header("x-gateway-custom-host", &bare(&up)).header("x-gateway-triton-api", "openai");
    call.json(&json!({ "model": "ensemble", "prompt": "Hi" })).send().await.expect(200);
    assert_eq!(sent(&up).target, "/v1/completions");
    let call = ask("triton").header("x-gateway-custom-host", &bare(&up)).header("x-gateway-triton-api", "grpc");
    assert!(call.json(&body).send().await.expect(400).text().contains("must be openai or generate"));
}
