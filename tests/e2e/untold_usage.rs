//! What was made or heard and never told: it is estimated from the bytes, and no budget of money is passed by.

use crate::area_forms::{FORM, ask, form, metrics_of, wav};
use crate::harness::{Gateway, Upstream, eventually, gateway::target, reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

async fn openai(answer: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::start().await, Upstream::replying(move |_| answer()).await);
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    (gateway, upstream)
}

fn cents(metrics: &Value) -> f64 {
    metrics["cost"].as_f64().unwrap_or(f64::NAN)
}

#[tokio::test]
async fn speech_that_comes_without_its_usage_costs_what_its_seconds_cost() {
    let sound = wav(60);
    let (gateway, _upstream) = openai(move || reply::whole(200, &[("content-type", "audio/wav")], &sound)).await;
    // Events were asked for, and sound came.
    let body = json!({ "model": "gpt-4o-mini-tts", "input": "a".repeat(400), "voice": "alloy", "response_format": "wav",
        "stream_format": "sse" });
    let answer = ask(&gateway, "/v1/audio/speech", "wav").provider("@main").json(&body).send().await.expect(200);
    assert!(answer.body.starts_with(b"RIFF"));
    // A minute at 1.5 cents, and 100 tokens of text at 60 cents a million.
    let metrics = metrics_of(&gateway, "wav").await;
    assert!((cents(&metrics) - 1.506).abs() < 0.01, "{metrics}");
}

#[tokio::test]
async fn speech_whose_events_break_off_is_billed_by_the_sound_that_came() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        // Ten seconds of 24,000 samples of two bytes.
        let event = json!({ "type": "speech.audio.delta", "audio": STANDARD.encode(vec![0; 480_000]) });
        peer.send(reply::STREAM).await;
        peer.send(reply::chunk(format!("data: {event}\n\n"))).await;
        peer.send(reply::LAST_CHUNK).await;
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let limits = json!({ "usage_limits": { "credit_limit": 1, "type": "cost" } });
    let (id, key) = gateway.admin().workspace_key("speaker", limits).await;
    let body = json!({ "model": "gpt-4o-mini-tts", "input": "hello", "voice": "alloy", "response_format": "pcm" });
    let call = gateway.post("/v1/audio/speech").key(&key).provider("@main").header("x-gateway-trace-id", "cut");
    let mut answer = call.json(&body).open().await;
    while let Ok(Some(_)) = answer.chunk().await {}
    // Ten seconds at a fortieth of a cent each.
    let metrics = metrics_of(&gateway, "cut").await;
    assert!((cents(&metrics) - 0.25).abs() < 0.01, "{metrics}");
    eventually("the budget to have heard of it", || async {
        let shown = gateway.admin().get(&format!("/api-keys/{id}")).await.expect(200).json();
        let dollars = shown["usage_limits"]["current_usage"].as_f64().unwrap_or_default();
        ((dollars - 0.0025).abs() < 0.0001).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_admins_price_of_a_second_of_sound_that_was_made_is_in_force() {
    let sound = wav(60);
    let (gateway, _upstream) = openai(move || reply::whole(200, &[("content-type", "audio/wav")], &sound)).await;
    let rates = json!({ "additional_units": { "second_out": { "price": 0.5 } } });
    let price = json!({ "type": "static", "pay_as_you_go": rates });
    let own = json!({ "models": [{ "slug": "own-voice", "enabled": true, "pricing_config": price }] });
    gateway.admin().put("/integrations/main-integration/models", &own).await.expect(200);
    let shown = gateway.admin().get("/integrations/main-integration/models").await.expect(200).text();
    assert!(shown.contains("\"second_out\""), "{shown}");
    let body = json!({ "model": "own-voice", "input": "a".repeat(400), "voice": "alloy", "response_format": "wav" });
    ask(&gateway, "/v1/audio/speech", "own").provider("@main").json(&body).send().await.expect(200);
    let metrics = metrics_of(&gateway, "own").await;
    assert!((cents(&metrics) - 30.0).abs() < 0.1, "a minute at half a cent a second: {metrics}");
    let factors = json!({ "pricing_adjustments": { "multiplier": { "additional_units": { "second_out": 2 } } } });
    gateway.admin().put("/integrations/main-integration", &factors).await.expect(200);
    ask(&gateway, "/v1/audio/speech", "twice").provider("@main").json(&body).send().await.expect(200);
    let metrics = metrics_of(&gateway, "twice").await;
    assert!((cents(&metrics) - 60.0).abs() < 0.2, "{metrics}");
}

#[tokio::test]
async fn a_transcript_that_breaks_off_is_billed_by_the_sound_that_was_heard() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        let event = json!({ "type": "transcript.text.delta", "delta": "Hel" });
        peer.send(reply::STREAM).await;
        peer.send(reply::chunk(format!("data: {event}\n\n"))).await;
        peer.send(reply::LAST_CHUNK).await;
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let file = wav(60);
    let body = form(&[("file", Some("a.wav"), &file), ("model", None, b"whisper-1"), ("stream", None, b"true")]);
    let call = ask(&gateway, "/v1/audio/transcriptions", "heard").provider("@main").body(FORM, body);
    let mut answer = call.open().await;
    while let Ok(Some(_)) = answer.chunk().await {}
    let metrics = metrics_of(&gateway, "heard").await;
    assert!((cents(&metrics) - 0.6).abs() < 1e-6, "a minute: {metrics}");
}

#[tokio::test]
async fn a_picture_that_breaks_off_behind_a_part_of_it_is_billed_as_drawn() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::scripted(|mut peer| async move {
        peer.request().await;
        let event = json!({ "type": "image_generation.partial_image", "b64_json": "QUFB", "partial_image_index": 0,
            "quality": "high", "size": "1024x1024" });
        peer.send(reply::STREAM).await;
        peer.send(reply::chunk(format!("data: {event}\n\n"))).await;
        peer.send(reply::LAST_CHUNK).await;
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let body = json!({ "model": "gpt-image-2", "prompt": "a cat", "stream": true, "partial_images": 1 });
    let mut answer = ask(&gateway, "/v1/images/generations", "drawn").provider("@main").json(&body).open().await;
    while let Ok(Some(_)) = answer.chunk().await {}
    // 4,160 tokens at $30 a million.
    let metrics = metrics_of(&gateway, "drawn").await;
    assert!((cents(&metrics) - 12.48).abs() < 1e-6, "{metrics}");
}

#[tokio::test]
async fn vectors_beside_a_picture_are_charged_at_the_price_of_their_own_model() {
    let tokens = |input: u64, output: u64| json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output });
    let mut vectors = tokens(1_000, 1_000);
    vectors["model"] = json!("gpt-4o");
    let answer =
        json!({ "created": 1, "data": [{ "b64_json": "QUFB" }], "usage": tokens(0, 1_000), "svg_usage": vectors });
    let (gateway, _upstream) = openai(move || reply::json(200, &answer)).await;
    let body = json!({ "model": "gpt-image-2", "prompt": "a cat", "output_format": "svg" });
    ask(&gateway, "/v1/images/generations", "vectors").provider("@main").json(&body).send().await.expect(200);
    // 1,000 tokens at $30, and 1,000 each at $2.50 and $10.
    let metrics = metrics_of(&gateway, "vectors").await;
    assert!((cents(&metrics) - 4.25).abs() < 1e-6, "{metrics}");
}

fn vectors() -> Value {
    json!({ "model": "gpt-4o", "input_tokens": 1_000, "output_tokens": 1_000, "total_tokens": 2_000 })
}

#[tokio::test]
async fn each_picture_of_a_stream_is_charged_with_its_vectors() {
    let end = json!({ "type": "image_generation.completed", "b64_json": "QUFB", "svg_usage": vectors(),
        "usage": { "input_tokens": 0, "output_tokens": 1_000, "total_tokens": 1_000 } });
    let part = json!({ "type": "image_generation.partial_image", "b64_json": "QQ==", "partial_image_index": 0 });
    let told_events: String = [&part, &end, &part, &end].iter().map(|event| format!("data: {event}\n\n")).collect();
    let answer = told_events.clone();
    let (gateway, _upstream) =
        openai(move || reply::whole(200, &[("content-type", "text/event-stream")], answer.as_bytes())).await;
    let body = json!({ "model": "gpt-image-2", "prompt": "a cat", "n": 2, "stream": true });
    let call = ask(&gateway, "/v1/images/generations", "two").provider("@main").json(&body);
    assert_eq!(call.send().await.expect(200).text(), told_events, "it passes as it came");
    // Twice 1,000 tokens at $30, and 1,000 each at $2.50 and $10.
    let metrics = metrics_of(&gateway, "two").await;
    assert!((cents(&metrics) - 8.5).abs() < 1e-6, "{metrics}");
}

#[tokio::test]
async fn what_a_tool_of_a_response_drew_is_charged_beside_it() {
    let item = json!({ "type": "image_generation_call", "id": "ig_1", "status": "completed", "svg_usage": vectors() });
    let used = |input: u64, output: u64| json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output });
    let response = json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4o",
        "output": [item, item], "usage": used(1_000, 0), "tool_usage": { "image_gen": used(0, 1_000) },
        "tools": [{ "type": "image_generation", "model": "gpt-image-2" }] });
    let end = json!({ "type": "response.completed", "response": response });
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(move |seen| match seen.json()["stream"] == true {
        true => {
            let event = format!("event: response.completed\ndata: {end}\n\n");
            reply::whole(200, &[("content-type", "text/event-stream")], event.as_bytes())
        }
        false => reply::json(200, &response),
    })
    .await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    for (trace, streams) in [("whole", false), ("events", true)] {
        let body =
            json!({ "model": "gpt-4o", "input": "draw", "stream": streams, "tools": [{ "type": "image_generation" }] });
        ask(&gateway, "/v1/responses", trace).provider("@main").json(&body).send().await.expect(200);
        // 1,000 tokens of text at $2.50, pictures of $30 a million, and twice the vectors.
        let metrics = metrics_of(&gateway, trace).await;
        assert!((cents(&metrics) - (0.25 + 3.0 + 2.5)).abs() < 1e-6, "{trace}: {metrics}");
    }
}

#[tokio::test]
async fn bounds_of_speech_hold_for_the_models_that_they_were_written_for() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::whole(200, &[("content-type", "audio/mpeg")], b"\xff\xfbsound")).await;
    for (fields, status) in [
        (json!({ "model": "tts-1", "input": "a".repeat(4_097) }), 400),
        (json!({ "model": "tts-1-hd", "input": "a", "speed": 5 }), 400),
        (json!({ "model": "tts-1", "input": "a", "stream_format": "sse" }), 400),
        (json!({ "model": "playai-tts", "input": "a".repeat(5_000), "speed": 5 }), 200),
    ] {
        let call = gateway.post("/v1/audio/speech").config(&target(&upstream)).json(&fields);
        assert_eq!(call.send().await.status, status, "{fields:.60}");
    }
}
