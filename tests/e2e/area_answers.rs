//! Answers of pictures, speech and transcripts: they come down as the client asked for them, whole or in events, and
//! however they were asked for their record has what the provider bills.

use crate::area_forms::{FORM, ask, form, metrics_of, parts, wav};
use crate::harness::{Gateway, Upstream, eventually, gateway::target, reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An upstream behind `@main`, of a family whose prices are known.
async fn main(family: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::start().await, Upstream::replying(move |seen| answer(&seen.text())).await);
    gateway.admin().provider("main", family, Some(&upstream.url())).await;
    (gateway, upstream)
}

fn events(all: &[Value]) -> Vec<u8> {
    let text: String =
        all.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""))).collect();
    [reply::STREAM, &reply::chunk(text), reply::LAST_CHUNK].concat()
}

fn close(cost: &Value, cents: f64) -> bool {
    cost.as_f64().is_some_and(|cost| (cost - cents).abs() < 1e-9)
}

fn hearing(model: &str, format: Option<&str>, file: &[u8]) -> Vec<u8> {
    let mut all: Vec<(&str, Option<&str>, &[u8])> =
        vec![("file", Some("a.wav"), file), ("model", None, model.as_bytes())];
    if let Some(format) = format {
        all.push(("response_format", None, format.as_bytes()));
    }
    form(&all)
}

#[tokio::test]
async fn pictures_cost_what_their_tokens_are_of() {
    let usage = |text: &str| match text {
        text if text.contains("\"plain\"") => {
            json!({ "input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210 })
        }
        _ => json!({
            "input_tokens": 1150, "output_tokens": 4160, "total_tokens": 5310,
            "input_tokens_details": { "text_tokens": 50, "image_tokens": 1100, "cached_tokens": 300,
                                      "cached_tokens_details": { "text_tokens": 0, "image_tokens": 300 } },
        }),
    };
    let (gateway, _upstream) = main("openai", move |text| {
        reply::json(200, &json!({ "created": 1, "data": [{ "b64_json": "QUFB" }], "usage": usage(text) }))
    })
    .await;
    // 50 × 5 $ + 4,160 × 30 $ a million; then 800 pictures in at 8 $ and 300 from the cache at 2 $.
    for (prompt, cents) in [("plain", 12.505), ("kept", 12.505 + 0.64 + 0.06)] {
        let body = json!({ "model": "gpt-image-2", "prompt": prompt, "size": "3840x2160", "quality": "max" });
        ask(&gateway, "/v1/images/generations", prompt).provider("@main").json(&body).send().await.expect(200);
        let metrics = metrics_of(&gateway, prompt).await;
        assert!(close(&metrics["cost"], cents), "{prompt}: {metrics}");
    }
}

#[tokio::test]
async fn streams_of_pictures_pass_as_they_are_and_count_once() {
    let usage = json!({ "input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210 });
    let all = [
        json!({ "type": "image_edit.partial_image", "partial_image_index": 0, "b64_json": "QQ==" }),
        json!({ "type": "image_edit.partial_image", "partial_image_index": 1, "b64_json": "QUE=" }),
        json!({ "type": "image_edit.completed", "b64_json": "QUFB", "usage": usage }),
    ];
    let sent = events(&all);
    let (gateway, upstream) = main("openai", move |_| sent.clone()).await;
    let body = form(&[
        ("image", Some("a.png"), b"PNG"),
        ("stream", None, b"true"),
        ("partial_images", None, b"2"),
        ("model", None, b"gpt-image-2"),
    ]);
    let answer =
        ask(&gateway, "/v1/images/edits", "s").provider("@main").body(FORM, body.clone()).send().await.expect(200);
    let expected: String =
        all.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("one"))).collect();
    assert_eq!((answer.text(), answer.whole), (expected, true), "no mark is added");
    assert!(upstream.only().body == body);
    let metrics = metrics_of(&gateway, "s").await;
    assert!(close(&metrics["cost"], 12.505), "{metrics}");
}

#[tokio::test]
async fn a_broken_stream_of_pictures_ends_with_an_error() {
    let partial = json!({ "type": "image_generation.partial_image", "b64_json": "QQ==" });
    let failed =
        json!({ "type": "error", "error": { "message": "moderated", "type": "invalid_request_error", "code": 400 } });
    let short = events(std::slice::from_ref(&partial));
    let (gateway, _upstream) = main("openai", move |text| match text.contains("refused") {
        true => events(std::slice::from_ref(&failed)),
        false => short.clone(),
    })
    .await;
    let make = |prompt: &str| {
        let body = json!({ "model": "gpt-image-2", "prompt": prompt, "stream": true });
        ask(&gateway, "/v1/images/generations", prompt).provider("@main").json(&body)
    };
    let answer = make("short").send().await.expect(200);
    assert!(answer.text().contains("ended before it was complete"), "{}", answer.text());
    let answer = make("refused").send().await.expect(400);
    assert!(answer.error().contains("moderated"), "{}", answer.text());
}

#[tokio::test]
async fn speech_is_billed_by_what_is_said() {
    let (gateway, upstream) =
        main("openai", |_| reply::whole(200, &[("content-type", "audio/mpeg")], b"\xff\xfbsound")).await;
    let input: String = "a".repeat(990) + &"🎷".repeat(10);
    let body = json!({ "model": "tts-1", "input": input, "voice": "alloy" });
    let answer = ask(&gateway, "/v1/audio/speech", "said").provider("@main").json(&body).send().await.expect(200);
    assert_eq!((&answer.body[..], answer.header("content-type")), (&b"\xff\xfbsound"[..], Some("audio/mpeg")));
    assert_eq!(upstream.only().json(), body);
    let metrics = metrics_of(&gateway, "said").await;
    assert!(close(&metrics["cost"], 1.5), "1,000 characters at 15 $ a million: {metrics}");
}

fn spoken(pieces: &[&[u8]]) -> Vec<Value> {
    let delta = |piece: &&[u8]| json!({ "type": "speech.audio.delta", "audio": STANDARD.encode(piece) });
    let usage = json!({ "input_tokens": 100, "output_tokens": 1000, "total_tokens": 1100 });
    pieces.iter().map(delta).chain([json!({ "type": "speech.audio.done", "usage": usage })]).collect()
}

#[tokio::test]
async fn speech_that_bills_tokens_is_asked_for_in_events_and_comes_down_as_sound() {
    let all = spoken(&[b"\xff\xfbone", b"two", b"three"]);
    let sent = events(&all);
    let (gateway, upstream) = main("openai", move |_| sent.clone()).await;
    let body = json!({ "model": "gpt-4o-mini-tts", "input": "hello", "voice": "alloy", "response_format": "mp3" });
    let answer = ask(&gateway, "/v1/audio/speech", "bytes").provider("@main").json(&body).send().await.expect(200);
    assert_eq!(&answer.body[..], b"\xff\xfbonetwothree");
    assert_eq!(answer.header("content-type"), Some("audio/mpeg"));
    assert_eq!(upstream.only().json()["stream_format"], "sse");
    // 100 × 0.6 $ + 1,000 × 12 $ a million.
    let metrics = metrics_of(&gateway, "bytes").await;
    assert!(close(&metrics["cost"], 1.206), "{metrics}");
    // Who asks for events gets those.
    let asked = json!({ "model": "gpt-4o-mini-tts", "input": "hello", "voice": "alloy", "stream_format": "sse" });
    let answer = ask(&gateway, "/v1/audio/speech", "events").provider("@main").json(&asked).send().await.expect(200);
    assert_eq!(answer.events().len(), 4, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let metrics = metrics_of(&gateway, "events").await;
    assert!(close(&metrics["cost"], 1.206), "{metrics}");
}

#[tokio::test]
async fn the_first_sound_does_not_wait_for_the_last_and_a_broken_one_is_cut_off() {
    let gateway = Gateway::with(&["--stream-keepalive", "50ms"]).await;
    let (go, told) = tokio::sync::watch::channel(false);
    let upstream = Upstream::scripted(move |mut peer| {
        let mut told = told.clone();
        async move {
            peer.request().await;
            let all = spoken(&[b"first"]);
            peer.send(reply::STREAM).await;
            peer.send(reply::chunk(format!("data: {}\n\n", all[0]))).await;
            // Long enough for comments, had it any.
            let _ = told.wait_for(|go| *go).await;
            peer.send(reply::LAST_CHUNK).await;
        }
    })
    .await;
    let body = json!({ "model": "gpt-4o-mini-tts", "input": "hello", "voice": "alloy" });
    let call = ask(&gateway, "/v1/audio/speech", "cut").config(&target(&upstream)).json(&body);
    let mut answer = call.open().await;
    let first = answer.chunk().await.expect("bytes").expect("some");
    assert_eq!(&first[..], b"first");
    go.send(true).expect("heard");
    assert!(answer.chunk().await.is_err(), "an answer without its end is no answer");
    eventually("its record", || async {
        let list = gateway.admin().get("/logs?trace_id=cut").await.expect(200).json();
        list["data"].get(0).cloned()
    })
    .await;
}

#[tokio::test]
async fn no_format_of_a_transcript_hides_what_it_cost() {
    let (gateway, upstream) = main("openai", |text| {
        let is = |format: &str| text.contains(&format!("name=\"response_format\"\r\n\r\n{format}\r\n"));
        match () {
            () if is("srt") => {
                reply::whole(200, &[("content-type", "text/plain")], "1\n00:00:00,000 --> 00:01:01,500\nHi\n")
            }
            () if is("verbose_json") => {
                reply::json(200, &json!({ "text": "Hi", "duration": 30.5, "language": "english" }))
            }
            () if text.contains("gpt-4o-transcribe") => reply::json(
                200,
                &json!({ "text": "Hi", "usage": {
                "type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59,
                "input_token_details": { "text_tokens": 4, "audio_tokens": 10 } } }),
            ),
            () => reply::json(200, &json!({ "text": "Hi", "usage": { "type": "duration", "seconds": 9 } })),
        }
    })
    .await;
    let sound = wav(90);
    // A tenth of a thousandth of a dollar for a second.
    for (trace, model, format, file, text, seconds) in [
        (
            "json",
            "whisper-1",
            None,
            &sound[..],
            "{\"text\":\"Hi\",\"usage\":{\"type\":\"duration\",\"seconds\":9}}",
            9.0,
        ),
        ("text", "whisper-1", Some("text"), &sound, "Hi\n", 9.0),
        (
            "verbose",
            "whisper-1",
            Some("verbose_json"),
            &sound,
            "{\"text\":\"Hi\",\"duration\":30.5,\"language\":\"english\"}",
            30.5,
        ),
        ("srt", "whisper-1", Some("srt"), &sound, "1\n00:00:00,000 --> 00:01:01,500\nHi\n", 90.0),
        ("cues", "whisper-1", Some("srt"), b"no container", "1\n00:00:00,000 --> 00:01:01,500\nHi\n", 61.5),
    ] {
        let call = ask(&gateway, "/v1/audio/transcriptions", trace).provider("@main");
        let answer = call.body(FORM, hearing(model, format, file)).send().await.expect(200);
        assert_eq!(answer.text(), text, "{trace}");
        let kind = answer.header("content-type").expect("a type");
        assert_eq!(kind.starts_with("text/plain"), format.is_some_and(|f| f != "verbose_json"), "{trace}: {kind}");
        let metrics = metrics_of(&gateway, trace).await;
        assert!(close(&metrics["cost"], seconds * 0.01), "{trace}: {metrics}");
    }
    let seen = upstream.seen();
    let asked = parts(&seen[1].body).into_iter().find(|(name, _)| name == "response_format").expect("the format");
    assert_eq!(asked.1, b"json", "bare text would have hidden its usage");
    // What the client says of the sound counts where the sound does not tell.
    let call = ask(&gateway, "/v1/audio/transcriptions", "header").provider("@main");
    let call = call.header("x-gateway-audio-file-duration", "12.5").body(FORM, hearing("whisper-1", Some("srt"), b"x"));
    call.send().await.expect(200);
    let metrics = metrics_of(&gateway, "header").await;
    assert!(close(&metrics["cost"], 0.125), "{metrics}");
    let bad = ask(&gateway, "/v1/audio/transcriptions", "no").header("x-gateway-audio-file-duration", "long");
    let bad = bad.provider("@main").body(FORM, hearing("whisper-1", None, b"x")).send().await.expect(400);
    assert!(bad.error().contains("audio-file-duration must be"), "{}", bad.text());
    // Tokens of sound have a price of their own: where that is not known, nothing is made up.
    let call = ask(&gateway, "/v1/audio/transcriptions", "tokens").provider("@main");
    let answer = call.body(FORM, hearing("gpt-4o-transcribe", Some("text"), &sound)).send().await.expect(200);
    assert_eq!(answer.text(), "Hi\n");
    let metrics = metrics_of(&gateway, "tokens").await;
    assert_eq!((&metrics["req_units"], &metrics["res_units"]), (&json!(14), &json!(45)), "{metrics}");
}

#[tokio::test]
async fn streams_of_transcripts_pass_as_they_are_and_tell_their_usage() {
    let all = [
        json!({ "type": "transcript.text.delta", "delta": "Hel" }),
        json!({ "type": "transcript.text.delta", "delta": "lo" }),
        json!({ "type": "transcript.text.done", "text": "Hello", "usage": { "type": "duration", "seconds": 20 } }),
    ];
    let sent = events(&all);
    let (gateway, upstream) = main("openai", move |_| sent.clone()).await;
    let body = form(&[("stream", None, b"True"), ("file", Some("a.wav"), b"RIFF"), ("model", None, b"whisper-1")]);
    for path in ["/v1/audio/transcriptions", "/v1/audio/translations"] {
        let call = ask(&gateway, path, path).provider("@main").body(FORM, body.clone());
        let answer = call.send().await.expect(200);
        assert_eq!((answer.events().len(), answer.whole), (3, true), "{}", answer.text());
        assert_eq!(upstream.seen().pop().expect("it went up").target, path);
        let metrics = metrics_of(&gateway, path).await;
        assert!(close(&metrics["cost"], 0.2), "{metrics}");
    }
}

#[tokio::test]
async fn guardrails_read_what_was_heard_in_every_format() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| match seen.text().contains("\r\n\r\nvtt\r\n") {
        true => reply::whole(200, &[("content-type", "text/vtt")], "WEBVTT\n\n00:00.000 --> 00:01.000\na secret\n"),
        false => reply::json(200, &json!({ "text": "a secret" })),
    })
    .await;
    let check = |check: Value| {
        let mut config = target(&upstream);
        config["output_guardrails"] = json!([check]);
        config
    };
    let words = json!({ "words": ["secret"], "operator": "none" });
    let deny = check(json!({ "default.contains": words, "deny": true }));
    let redact = json!({ "rule": "secret", "redactText": "[gone]" });
    let redact = check(json!({ "default.regexReplace": redact, "deny": false }));
    for format in ["json", "text", "vtt"] {
        let call = |config: &Value| {
            let call = ask(&gateway, "/v1/audio/transcriptions", format).config(config);
            call.body(FORM, hearing("whisper-1", Some(format), b"RIFF"))
        };
        let denied = call(&deny).send().await.expect(446);
        assert!(!denied.text().contains("a secret"), "{format}: {}", denied.text());
        let told = call(&redact).send().await.expect(200).text();
        assert!(told.contains("a [gone]") && told.starts_with('{') == (format == "json"), "{format}: {told}");
    }
    let words = json!({ "default.contains": { "words": ["secret"], "operator": "none" }, "deny": true });
    let mut config = target(&upstream);
    config["input_guardrails"] = json!([words]);
    for (path, body) in [
        ("/v1/images/generations", json!({ "model": "m", "prompt": "a secret" })),
        ("/v1/audio/speech", json!({ "model": "m", "input": "a secret", "voice": "v" })),
        ("/v1/moderations", json!({ "model": "m", "input": [{ "type": "text", "text": "a secret" }] })),
        ("/v1/rerank", json!({ "model": "m", "query": "q", "documents": ["a", { "text": "a secret" }] })),
    ] {
        let denied = ask(&gateway, path, path).config(&config).json(&body).send().await;
        assert_eq!(denied.status, 446, "{path}: {}", denied.text());
    }
}

#[tokio::test]
async fn rerank_is_billed_by_searches_or_tokens_and_told_in_either_form() {
    let cohere = json!({ "id": "r-1", "meta": { "billed_units": { "search_units": 2 } },
        "results": [{ "index": 0, "relevance_score": 0.25 }, { "index": 2, "relevance_score": 0.75 }] });
    let (gateway, upstream) = main("cohere", move |_| reply::json(200, &cohere)).await;
    let body = json!({ "model": "rerank-v4.0-fast", "query": "q", "documents": ["a", "b", { "text": "c" }], "return_documents": true });
    let ask_at = |path: &str, trace: &str| ask(&gateway, path, trace).provider("@main").json(&body);
    let answer = ask_at("/v1/rerank", "units").send().await.expect(200).json();
    assert_eq!((&answer["object"], &answer["usage"]), (&json!("list"), &json!({ "search_units": 2 })));
    let best = json!({ "index": 2, "relevance_score": 0.75, "document": { "text": "c" } });
    assert_eq!(answer["results"][0], best, "sorted, by the index of the client, with its document");
    assert_eq!(upstream.only().json()["documents"], json!(["a", "b", "c"]));
    // Two searches at two dollars a thousand.
    let metrics = metrics_of(&gateway, "units").await;
    assert!(close(&metrics["cost"], 0.4), "{metrics}");
    for path in ["/v2/rerank", "/v1/v2/rerank"] {
        let answer = ask_at(path, path).send().await.expect(200).json();
        assert_eq!(answer["meta"]["billed_units"], json!({ "search_units": 2 }), "{path}");
        assert_eq!((&answer["object"], &answer["results"][0]), (&Value::Null, &best), "{path}");
        assert!(upstream.seen().pop().expect("it went up").target.ends_with("/v2/rerank"), "{path}");
        let metrics = metrics_of(&gateway, path).await;
        assert!(close(&metrics["cost"], 0.4), "{path}: {metrics}");
    }
}

#[tokio::test]
async fn rerank_of_clouds_counts_a_search_for_each_hundred_documents() {
    let gateway = Gateway::start().await;
    let upstream =
        Upstream::replying(|_| reply::json(200, &json!({ "results": [{ "index": 100, "relevanceScore": 0.5 }] })))
            .await;
    let settings = json!({ "aws_region": "us-east-1", "custom_host": upstream.url() });
    let settings = json!({ "name": "c", "slug": "cloud-i", "ai_provider_id": "bedrock", "key": "k",
                           "create_default_provider": false, "configurations": settings });
    gateway.admin().post("/integrations", &settings).await.expect(200);
    let provider = json!({ "name": "main", "slug": "main", "integration_id": "cloud-i" });
    gateway.admin().post("/providers", &provider).await.expect(200);
    let documents: Vec<String> = (0..101).map(|n| format!("document {n}")).collect();
    let body =
        json!({ "model": "cohere.rerank-v3-5:0", "query": "q", "documents": documents, "return_documents": true });
    let answer = ask(&gateway, "/v1/rerank", "cloud").provider("@main").json(&body).send().await.expect(200).json();
    assert_eq!(answer["results"][0]["document"]["text"], "document 100");
    assert_eq!(answer["usage"]["search_units"], 2);
    let metrics = metrics_of(&gateway, "cloud").await;
    assert!(close(&metrics["cost"], 0.4), "{metrics}");
}

#[tokio::test]
async fn pages_cost_more_when_their_contents_are_told_in_a_form() {
    let pages: Vec<Value> = (0..7).map(|index| json!({ "index": index, "markdown": "secret text" })).collect();
    let answer = json!({ "pages": pages, "model": "mistral-ocr-2505", "usage_info": { "pages_processed": 7 } });
    let (gateway, upstream) = main("mistral-ai", move |_| reply::json(200, &answer)).await;
    let plain = json!({ "model": "mistral-ocr-latest", "document": { "type": "document_url", "document_url": "http://127.0.0.1:9/a.pdf" } });
    let mut annotated = plain.clone();
    annotated["document_annotation_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": {} } });
    for (trace, body, cents) in [("plain", &plain, 2.8), ("annotated", &annotated, 3.5)] {
        let call = ask(&gateway, "/v1/ocr", trace).provider("@main").json(body);
        call.send().await.expect(200);
        assert_eq!(&upstream.seen().pop().expect("it went up").json(), body, "the address is the provider's to fetch");
        let metrics = metrics_of(&gateway, trace).await;
        assert!(close(&metrics["cost"], cents), "{trace}: {metrics}");
    }
    let refused =
        ask(&gateway, "/v1/ocr", "bad").provider("@main").json(&json!({ "model": "m" })).send().await.expect(400);
    assert!(refused.error().contains("document is required"), "{}", refused.text());
    let unserved = ask(&gateway, "/v1/ocr", "no").config(&target(&upstream)).json(&plain).send().await.expect(500);
    assert!(unserved.error().contains("ocr is not supported by openai"), "{}", unserved.text());
}

#[tokio::test]
async fn moderations_are_free_and_have_a_model_where_none_is_named() {
    let judged = json!({ "id": "m", "model": "text-moderation-007", "results": [{ "flagged": false }] });
    let (gateway, upstream) = main("openai", move |_| reply::json(200, &judged)).await;
    let call = ask(&gateway, "/v1/moderations", "free").provider("@main").json(&json!({ "input": "hello" }));
    call.send().await.expect(200);
    assert_eq!(upstream.only().json()["model"], "text-moderation-latest");
    let metrics = metrics_of(&gateway, "free").await;
    assert!(close(&metrics["cost"], 0.0), "{metrics}");
}

#[tokio::test]
async fn one_call_of_each_native_area_costs_what_it_should_by_hand() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| match seen.target.as_str() {
        target if target.ends_with("/audio/transcriptions") => {
            reply::json(200, &json!({ "text": "Hi", "usage": { "prompt_audio_seconds": 60 } }))
        }
        target if target.ends_with("/rerank") => reply::json(
            200,
            &json!({ "data": [{ "index": 0, "relevance_score": 0.5 }], "usage": { "total_tokens": 1000 } }),
        ),
        _ => reply::json(200, &json!({ "images": ["QUFB", "QkJC"], "error": null })),
    })
    .await;
    gateway.admin().provider("mistral", "mistral-ai", Some(&upstream.url())).await;
    gateway.admin().provider("voyage", "voyage", Some(&upstream.url())).await;
    // A minute at 0.00005 $ a second.
    let call = ask(&gateway, "/v1/audio/transcriptions", "heard").provider("@mistral");
    let answer = call.body(FORM, hearing("voxtral-mini-latest", Some("text"), b"RIFF")).send().await.expect(200);
    assert_eq!((answer.text().as_str(), answer.header("content-type")), ("Hi\n", Some("text/plain; charset=utf-8")));
    let metrics = metrics_of(&gateway, "heard").await;
    assert!(close(&metrics["cost"], 0.3), "{metrics}");
    // 1,000 tokens at 0.05 $ a million.
    let body = json!({ "model": "rerank-3", "query": "q", "documents": ["a"], "top_n": 2 });
    let answer = ask(&gateway, "/v1/rerank", "voyage").provider("@voyage").json(&body).send().await.expect(200).json();
    assert_eq!(answer["usage"]["total_tokens"], 1000);
    assert_eq!(upstream.seen().pop().expect("it went up").json()["top_k"], 2);
    let metrics = metrics_of(&gateway, "voyage").await;
    assert!(close(&metrics["cost"], 0.005), "{metrics}");
}
