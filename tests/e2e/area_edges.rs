//! Where the areas end: what is billed of an answer that is none, what a family has no word for, and what is counted of
//! calls that cost nothing.

use crate::area_forms::{FORM, ask, form, metrics_of};
use crate::clouds::bare;
use crate::harness::{Gateway, Upstream, gateway::target, reply, with};
use serde_json::json;

#[tokio::test]
async fn a_picture_that_is_withheld_is_refused_and_its_prompt_is_paid_for() {
    let withheld = json!({ "candidates": [{ "finishReason": "IMAGE_SAFETY", "content": {} }],
        "usageMetadata": { "promptTokenCount": 12, "totalTokenCount": 12 } });
    let upstream = Upstream::replying(move |_| reply::json(200, &withheld)).await;
    let gateway = Gateway::start().await;
    let config = json!({ "provider": "google", "api_key": "AIza-up", "custom_host": bare(&upstream) });
    let body = json!({ "model": "gemini-3-pro-image", "prompt": "a cat" });
    let call = ask(&gateway, "/v1/images/generations", "withheld").config(&config).json(&body);
    let refused = call.send().await.expect(400).json();
    assert_eq!(refused["error"]["code"], "content_policy_violation", "{refused}");
    let metrics = metrics_of(&gateway, "withheld").await;
    assert_eq!(metrics["total_units"], 12, "{metrics}");
    assert!(metrics["cost"].as_f64().is_some_and(|cents| cents > 0.0), "{metrics}");
}

#[tokio::test]
async fn an_address_that_a_family_cannot_give_is_said_to_be_left_out() {
    let made = json!({ "image": "iVBORw0KGgo=", "finish_reason": "SUCCESS", "seed": 1 });
    let upstream = Upstream::replying(move |_| reply::json(200, &made)).await;
    let gateway = Gateway::start().await;
    let config = json!({ "provider": "stability-ai", "api_key": "sk-up", "custom_host": bare(&upstream) });
    let body = json!({ "model": "core", "prompt": "a cat", "response_format": "url" });
    let call = ask(&gateway, "/v1/images/generations", "bytes").config(&config).json(&body);
    let answer = call.send().await.expect(200);
    assert_eq!(answer.header("x-gateway-adjusted-params"), Some("response_format"));
    assert_eq!(answer.json()["data"], json!([{ "b64_json": "iVBORw0KGgo=" }]));
}

#[tokio::test]
async fn moderations_cost_nothing_and_count_as_one_request_each() {
    let judged = json!({ "id": "m", "model": "omni-moderation-latest", "results": [{ "flagged": false }] });
    let upstream = Upstream::replying(move |_| reply::json(200, &judged)).await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let limits = json!({ "rate_limits": [{ "type": "requests", "unit": "rpw", "value": 2 }] });
    let (_, key) = gateway.admin().workspace_key("judge", limits).await;
    let picture = json!([{ "type": "text", "text": "hello" },
        { "type": "image_url", "image_url": { "url": "https://example.com/cat.png" } }]);
    let call = |trace: &str| {
        let call = gateway.post("/v1/moderations").key(&key).provider("@main").header("x-gateway-trace-id", trace);
        call.json(&json!({ "model": "omni-moderation-latest", "input": picture }))
    };
    for trace in ["first", "second"] {
        call(trace).send().await.expect(200);
        let metrics = metrics_of(&gateway, trace).await;
        assert_eq!(metrics["cost"].as_f64(), Some(0.0), "{metrics}");
    }
    call("third").send().await.expect(429);
    assert_eq!(upstream.seen().len(), 2);
    assert_eq!(upstream.seen()[0].json()["input"], picture, "a picture passes");
}

#[tokio::test]
async fn only_openai_has_a_model_for_moderations_that_name_none() {
    let judged = json!({ "id": "m", "model": "m", "results": [{ "flagged": false }] });
    let upstream = Upstream::replying(move |_| reply::json(200, &judged)).await;
    let gateway = Gateway::start().await;
    for family in ["openai", "mistral-ai", "together-ai"] {
        let config = json!({ "provider": family, "api_key": "sk-up", "custom_host": upstream.url() });
        let call = ask(&gateway, "/v1/moderations", family).config(&config).json(&json!({ "input": "hello" }));
        call.send().await.expect(200);
        let sent = upstream.seen().pop().expect("it went up").json();
        let expected = if family == "openai" { json!("text-moderation-latest") } else { json!(null) };
        assert_eq!(sent["model"], expected, "{family}: {sent}");
    }
}

/// A form with so many pictures.
fn edit(model: &str, name: &str, pictures: usize) -> Vec<u8> {
    let text = [("model", None, model.as_bytes()), ("prompt", None, b"redder".as_slice())];
    let pictures = (0..pictures).map(|_| (name, Some("a.png"), b"png".as_slice()));
    form(&text.into_iter().chain(pictures).collect::<Vec<_>>())
}

#[tokio::test]
async fn what_openais_models_cannot_do_without_is_told_before_anybody_is_called() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "created": 1, "data": [], "text": "hi" }))).await;
    let openai = target(&upstream);
    let deaf = |model: &str| form(&[("model", None, model.as_bytes())]);
    let speech = "/v1/audio/speech";
    for (model, field) in [("tts-1", "voice"), ("tts-1-hd", "voice"), ("gpt-4o-mini-tts", "voice")] {
        for body in [json!({ "model": model, "input": "hi" }), json!({ "model": model, "input": "hi", "voice": null })]
        {
            let refused = gateway.post(speech).config(&openai).json(&body).send().await.expect(400).json();
            assert_eq!(refused["error"]["param"], field, "{model}: {refused}");
            assert_eq!(refused["error"]["type"], "invalid_request_error", "{model}: {refused}");
        }
    }
    for (path, body, field) in [
        ("/v1/images/edits", edit("gpt-image-2", "image[]", 17), "image"),
        ("/v1/images/edits", edit("gpt-image-2", "image[]", 0), "image"),
        ("/v1/audio/transcriptions", deaf("whisper-1"), "file"),
        ("/v1/audio/transcriptions", deaf("gpt-4o-transcribe"), "file"),
        ("/v1/audio/translations", deaf("whisper-1"), "file"),
    ] {
        let refused = gateway.post(path).config(&openai).body(FORM, body).send().await.expect(400).json();
        assert_eq!(refused["error"]["param"], field, "{path}: {refused}");
    }
    let picture = json!({ "image_url": "https://example.com/a.png" });
    for images in [json!(vec![picture.clone(); 17]), json!([]), json!(null)] {
        let body = json!({ "model": "gpt-image-2", "prompt": "redder", "images": images });
        let refused = gateway.post("/v1/images/edits").config(&openai).json(&body).send().await.expect(400).json();
        assert_eq!(refused["error"]["param"], "images", "{refused}");
    }
    assert!(upstream.seen().is_empty(), "nobody was called");
}

/// What a config fills in is there, and servers that speak like OpenAI may do without.
#[tokio::test]
async fn what_others_can_do_without_goes_up() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "created": 1, "data": [], "text": "hi" }))).await;
    let openai = target(&upstream);
    let filled = with(openai.clone(), json!({ "default_params": { "voice": "alloy" } }));
    let groq = with(openai.clone(), json!({ "provider": "groq" }));
    let said = |model: &str| json!({ "model": model, "input": "hi" });
    for (config, body) in [(&filled, said("tts-1")), (&openai, said("kokoro")), (&groq, said("playai-tts"))] {
        gateway.post("/v1/audio/speech").config(config).json(&body).send().await.expect(200);
    }
    let by_address = form(&[("model", None, b"whisper-large-v3"), ("url", None, b"https://example.com/a.wav")]);
    gateway.post("/v1/audio/transcriptions").config(&groq).body(FORM, by_address).send().await.expect(200);
    for body in [
        edit("gpt-image-2", "image[]", 16),
        edit("gpt-image-2", "image", 1),
        edit("flux-kontext", "image[]", 17),
        edit("flux-kontext", "input", 0),
    ] {
        gateway.post("/v1/images/edits").config(&openai).body(FORM, body).send().await.expect(200);
    }
    let picture = json!([{ "file_id": "file-1" }]);
    let body = json!({ "model": "gpt-image-2", "prompt": "redder", "images": picture });
    gateway.post("/v1/images/edits").config(&openai).json(&body).send().await.expect(200);
    assert_eq!(upstream.seen().len(), 9);
}
