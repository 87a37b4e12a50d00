//! Forms that ask a model (pictures to change, sound to be heard) go the way of all requests: their model is read
//! wherever it stands, they are repeated and fall back with every byte, configs change their fields, and what they cost
//! is known.

use crate::harness::{Answer, Gateway, Upstream, WORKSPACE_KEY, call::Call, eventually, gateway::target, reply, with};
use serde_json::{Value, json};

pub(crate) const FORM: &str = "multipart/form-data; boundary=b";

/// A form in the making, as its client writes it.
pub(crate) fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, file, value) in parts {
        out.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"").into_bytes());
        if let Some(file) = file {
            out.extend(format!("; filename=\"{file}\"\r\nContent-Type: application/octet-stream").into_bytes());
        }
        out.extend(b"\r\n\r\n");
        out.extend(*value);
        out.extend(b"\r\n");
    }
    out.extend(b"--b--\r\n");
    out
}

/// Silence as a WAV file of 8,000 samples a second with a byte each.
pub(crate) fn wav(seconds: u32) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    out.extend(8_000_u32.to_le_bytes());
    out.extend(8_000_u32.to_le_bytes());
    out.extend(b"\x01\0\x08\0data");
    out.extend((8_000 * seconds).to_le_bytes());
    out.resize(out.len() + 8_000 * seconds as usize, 128);
    out
}

/// The parts of a form that went up, by name in their order.
pub(crate) fn parts(body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text: String = body.iter().map(|byte| char::from(*byte)).collect();
    let inner = text.strip_suffix("--b--\r\n").expect("the end");
    let read = |part: &str| {
        let (head, value) = part.split_once("\r\n\r\n").expect("a head");
        let name = head.split("name=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a name");
        let value = value.strip_suffix("\r\n").expect("a line break");
        (name.to_owned(), value.chars().map(|c| u8::try_from(u32::from(c)).expect("a byte")).collect())
    };
    inner.split("--b\r\n").skip(1).map(read).collect()
}

/// What the record of a call tells.
pub(crate) async fn metrics_of(gateway: &Gateway, trace: &str) -> Value {
    let found = eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].get(0).cloned()
    });
    found.await["metrics"].clone()
}

pub(crate) fn ask(gateway: &Gateway, path: &str, trace: &str) -> Call {
    gateway.post(path).key(WORKSPACE_KEY).header("x-gateway-trace-id", trace)
}

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff\r\n--bx\r\n--";

fn pictures() -> Vec<u8> {
    reply::json(
        200,
        &json!({ "created": 1, "data": [{ "b64_json": "QUFB" }],
        "usage": { "input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210 } }),
    )
}

#[tokio::test]
async fn a_model_behind_its_file_is_read_and_the_file_keeps_its_bytes() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| pictures()).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let body = form(&[
        ("image[]", Some("a.png"), PICTURE),
        ("image[]", Some("b.png"), &[PICTURE, PICTURE].concat()),
        ("image[]", Some("c.png"), b""),
        ("mask", Some("m.png"), PICTURE),
        ("prompt", None, "a hat, bitte schön".as_bytes()),
        ("brand_new", None, b"1"),
        ("model", None, b"@main/gpt-image-2"),
    ]);
    let answer = ask(&gateway, "/v1/images/edits", "edit").body(FORM, body.clone()).send().await.expect(200);
    assert_eq!(answer.json()["data"][0]["b64_json"], "QUFB");
    let seen = upstream.only();
    assert_eq!(
        (seen.target.as_str(), seen.header("content-type")),
        ("/v1/images/edits", Some("multipart/form-data; boundary=\"b\""))
    );
    let mut expected = parts(&body);
    expected.last_mut().expect("the model").1 = b"gpt-image-2".to_vec();
    assert_eq!(parts(&seen.body), expected, "names, order and bytes are the client's");
    let metrics = metrics_of(&gateway, "edit").await;
    assert_eq!((&metrics["ai_model"], &metrics["cost"]), (&json!("gpt-image-2"), &json!(12.505)), "{metrics}");
    // One that has no model of its own gets the config's.
    let config = with(target(&upstream), json!({ "override_params": { "model": "dall-e-2" } }));
    let body = form(&[("image", Some("a.png"), PICTURE)]);
    let varied = ask(&gateway, "/v1/images/variations", "vary").config(&config).body(FORM, body.clone());
    varied.send().await.expect(200);
    let seen = upstream.seen().pop().expect("it went up");
    assert_eq!(seen.target, "/v1/images/variations");
    assert_eq!(parts(&seen.body), [("model".to_owned(), b"dall-e-2".to_vec()), parts(&body).remove(0)]);
}

#[tokio::test]
async fn twenty_megabytes_fall_back_whole_and_are_given_back() {
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(503, &[])).await;
    let good = Upstream::replying(|_| pictures()).await;
    let file: Vec<u8> = (0..20_000_000_u32).map(|i| u8::try_from(i % 251).expect("a byte")).collect();
    let body = form(&[("image", Some("a.png"), &file), ("prompt", None, b"a hat"), ("model", None, b"gpt-image-2")]);
    let first = with(target(&broken), json!({ "retry": { "attempts": 1 } }));
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [first, target(&good)] });
    let answer = ask(&gateway, "/v1/images/edits", "large").config(&config).body(FORM, body.clone());
    let answer = answer.send().await.expect(200);
    assert_eq!(answer.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
    assert_eq!(broken.seen().len(), 2, "it was repeated");
    for seen in broken.seen().iter().chain(&good.seen()) {
        assert!(seen.body == body, "the body was changed");
    }
    eventually("all bytes given back", || async {
        let metrics = gateway.metrics().await;
        let held = metrics.lines().find(|line| line.starts_with("gateway_buffered_bytes ")).map(str::to_owned);
        held.is_none_or(|line| line.ends_with(" 0")).then_some(())
    })
    .await;
    // Above the bound of all bodies it is not read at all.
    let small = Gateway::with(&["--max-body", "1MiB"]).await;
    let refused = ask(&small, "/v1/images/edits", "more").config(&target(&good)).body(FORM, body).send().await;
    assert!(refused.expect(413).text().contains("1048576"), "the bound is told");
}

#[tokio::test]
async fn configs_change_the_fields_of_a_form() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let params = json!({
        "default_params": { "language": "never", "temperature": 0.5, "timestamp_granularities[]": ["word", "segment"] },
        "override_params": { "model": "whisper-large-v3", "prompt": "a \"b\"" },
        "drop_params": ["user"],
    });
    let config = with(target(&upstream), params);
    let file = wav(1);
    let body = form(&[
        ("language", None, b"de"),
        ("model", None, b"whisper-1"),
        ("user", None, b"ann"),
        ("prompt", None, b"old"),
        ("file", Some("a.wav"), &file),
    ]);
    ask(&gateway, "/v1/audio/transcriptions", "set").config(&config).body(FORM, body).send().await.expect(200);
    let expected: Vec<(&str, &[u8])> = vec![
        ("temperature", b"0.5"),
        ("timestamp_granularities[]", b"word"),
        ("timestamp_granularities[]", b"segment"),
        ("language", b"de"),
        ("model", b"whisper-large-v3"),
        ("prompt", b"a \"b\""),
        ("file", &file),
    ];
    let expected: Vec<(String, Vec<u8>)> = expected.iter().map(|(n, v)| ((*n).to_owned(), v.to_vec())).collect();
    assert_eq!(parts(&upstream.only().body), expected);
    let metrics = metrics_of(&gateway, "set").await;
    assert_eq!(metrics["ai_model"], "whisper-large-v3", "{metrics}");
    // What a config makes of it is held to the same bounds.
    let config = with(target(&upstream), json!({ "override_params": { "temperature": 7 } }));
    let refused = ask(&gateway, "/v1/audio/transcriptions", "bad").config(&config);
    let refused = refused.body(FORM, form(&[("model", None, b"m")])).send().await.expect(400);
    assert!(refused.error().contains("With the parameters of the config, temperature must be"), "{}", refused.text());
}

#[tokio::test]
async fn a_form_that_is_none_is_refused_by_what_is_wrong_with_it() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| pictures()).await;
    let config = target(&upstream);
    let field = |name: &str, value: &str| form(&[(name, None, value.as_bytes())]);
    let twice = form(&[("model", None, b"a"), ("model", None, b"b")]);
    let cases: Vec<(&str, &str, Vec<u8>, &str)> = vec![
        ("/v1/images/edits", "multipart/form-data", field("a", "1"), "must name the boundary"),
        ("/v1/images/edits", FORM, b"--c\r\n".to_vec(), "must begin with the boundary"),
        ("/v1/images/edits", FORM, field("a", "1")[..20].to_vec(), "head of a part"),
        ("/v1/images/edits", FORM, field("n", "11"), "n must be an integer of 1..10"),
        ("/v1/images/edits", FORM, field("n", "ten"), "n must be an integer of 1..10"),
        ("/v1/images/edits", FORM, field("n", "null"), "n must be an integer of 1..10"),
        ("/v1/images/edits", FORM, field("stream", "maybe"), "stream must be true or false"),
        ("/v1/images/variations", FORM, field("partial_images", "4"), "partial_images must be an integer of 0..3"),
        ("/v1/images/edits", FORM, field("prompt", &"x".repeat(32_001)), "prompt must be a string of at most 32000"),
        ("/v1/audio/transcriptions", FORM, twice, "model is given twice"),
        ("/v1/audio/translations", FORM, field("temperature", "1.5"), "temperature must be a number of 0..1"),
        ("/v1/images/edits", "application/json", b"{\"n\":0}".to_vec(), "n must be an integer of 1..10"),
    ];
    for (path, kind, body, why) in cases {
        let refused = ask(&gateway, path, "none").config(&config).body(kind, body).send().await.expect(400);
        assert!(refused.error().contains(why), "{path} {why}: {}", refused.text());
    }
    assert_eq!(upstream.connections(), 0);
    let json = json!({ "model": "gpt-image-2", "prompt": "p", "images": [{ "image_url": "https://x.example/a.png" }] });
    ask(&gateway, "/v1/images/edits", "json").config(&config).json(&json).send().await.expect(200);
    assert_eq!(upstream.only().json(), json, "edits may come as JSON as well");
}

#[tokio::test]
async fn a_form_that_names_no_enabled_model_is_refused_and_one_that_does_is_not() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "whisper-1", "enabled": true }] });
    gateway.admin().put("/integrations/main-integration/models", &models).await.expect(200);
    let ask = async |model: &[u8]| -> Answer {
        let body = form(&[("file", Some("a.wav"), b"RIFF"), ("model", None, model)]);
        ask(&gateway, "/v1/audio/transcriptions", "m").provider("@main").body(FORM, body).send().await
    };
    ask(b"whisper-1").await.expect(200);
    let refused = ask(b"gpt-4o-transcribe").await.expect(400);
    assert!(refused.error().contains("gpt-4o-transcribe is not enabled"), "{}", refused.text());
    ask(b"").await.expect(400);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn files_of_clients_stay_out_of_records() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "text": "heard" }))).await;
    let body = form(&[("file", Some("a.txt"), b"canary-of-the-file"), ("model", None, b"whisper-1")]);
    let length = body.len();
    let call = ask(&gateway, "/v1/audio/transcriptions", "kept").config(&target(&upstream));
    call.header("x-gateway-debug", "true").body(FORM, body).send().await.expect(200);
    metrics_of(&gateway, "kept").await;
    let list = gateway.admin().get("/logs?trace_id=kept").await.expect(200).json();
    let id = list["data"][0]["id"].as_str().expect("an id");
    let whole = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).text();
    assert!(!whole.contains("canary-of-the-file"), "{whole}");
    assert!(whole.contains(&length.to_string()), "its length is kept: {whole}");
}
