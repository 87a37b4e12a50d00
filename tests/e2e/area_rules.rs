//! Rules that hold in all areas beside chat: what is charged, what may begin when nothing is left, and what passes all
//! the same.

use crate::area_forms::{FORM, ask, form, metrics_of};
use crate::batches::{CHAT, asked, ended, line, lines, text};
use crate::clouds::{bare, integration};
use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply};
use crate::long_tail_areas::priced;
use serde_json::{Value, json};

#[tokio::test]
async fn a_look_at_a_batch_of_the_providers_counts_none_of_its_tokens() {
    let told_at_once = json!({ "id": "batch_1", "object": "batch", "status": "completed", "endpoint": "/v1/chat/completions",
        "usage": { "input_tokens": 100, "output_tokens": 50, "total_tokens": 150 } });
    let upstream = Upstream::replying(move |_| reply::json(200, &told_at_once)).await;
    let gateway = Gateway::start().await;
    for (look, trace) in ["look-1", "look-2"].into_iter().enumerate() {
        let call = gateway.get("/v1/batches/batch_1").header("x-gateway-trace-id", trace);
        let seen = call.config(&target(&upstream)).send().await.expect(200).json();
        assert_eq!(seen["usage"]["total_tokens"], 150, "look {look}");
        let metrics = metrics_of(&gateway, trace).await;
        assert!(metrics["total_units"].as_u64().unwrap_or_default() == 0, "{metrics}");
        assert!(metrics["cost"].as_f64().unwrap_or_default() == 0.0, "{metrics}");
    }
}

#[tokio::test]
async fn of_pictures_that_tell_no_usage_those_are_charged_that_came() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| {
        let count = seen.json()["n"].as_u64().unwrap_or(1).min(2);
        let pictures: Vec<Value> = (1..count.max(2)).map(|_| json!({ "b64_json": "QUFB" })).collect();
        reply::json(200, &json!({ "created": 1, "data": pictures }))
    })
    .await;
    integration(&gateway, "nscale", Some("sk-a"), json!({ "custom_host": bare(&upstream) })).await;
    priced(&gateway, "painter", json!({ "image": { "default": { "default": { "price": 2.5 } } } })).await;
    for n in [1, 2] {
        let body = json!({ "model": "painter", "prompt": "a cat", "n": n });
        let trace = format!("pictures-{n}");
        ask(&gateway, "/v1/images/generations", &trace).provider("@cloud").json(&body).send().await.expect(200);
        assert_eq!(metrics_of(&gateway, &trace).await["cost"], 2.5, "one came, of {n}");
    }
}

#[tokio::test]
async fn a_large_file_goes_up_to_its_provider_without_being_held() {
    const SIZE: usize = 150 << 20;
    let gateway = Gateway::with(&["--max-body", "1MiB", "--max-buffered-bytes", "8MiB"]).await;
    let upstream =
        Upstream::replying(|seen| reply::json(200, &json!({ "id": "file-1", "bytes": seen.body.len() }))).await;
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    let before = gateway.memory("VmHWM");
    let content = vec![b'x'; SIZE];
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), &content)]);
    let length = body.len();
    let answer = gateway.post("/v1/files").config(&target(&upstream)).body(FORM, body).send().await.expect(200);
    assert_eq!(answer.json()["bytes"], length, "every byte arrived");
    let grown = gateway.memory("VmHWM") - before;
    assert!(grown < 32, "{grown} MiB more for {} MiB", SIZE >> 20);
}

/// A key with so many tokens, and the batch file that it made.
async fn short(gateway: &Gateway, tokens: u64, lines: &str) -> (String, String) {
    let limits = json!({ "usage_limits": { "credit_limit": tokens, "type": "tokens" } });
    let (_, key) = gateway.admin().workspace_key("short", limits).await;
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("f"), lines.as_bytes())];
    let made = gateway.post("/v1/files").key(&key).body(FORM, form(&parts)).send().await.expect(200).json();
    (key, text(&made, "id"))
}

#[tokio::test]
async fn lines_behind_the_end_of_a_budget_fail_with_its_412_and_reach_nobody() {
    let gateway = Gateway::with(&["--batch-parallel", "1"]).await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let content: String = (0..40)
        .map(|n| {
            let message = json!({ "role": "user", "content": "hi" });
            line(&format!("line-{n}"), CHAT, &json!({ "model": "gpt-4o-mini", "max_tokens": 4, "messages": [message] }))
        })
        .collect();
    // Each answer tells of eight tokens and more; some lines are left over whatever it is exactly.
    let (key, file) = short(&gateway, 160, &content).await;
    let call = gateway.post("/v1/batches").key(&key).config(&target(&upstream));
    let id = text(&call.json(&asked(&file)).send().await.expect(200).json(), "id");
    let batch = ended(&gateway, &id, "completed").await;
    let counts = &batch["request_counts"];
    let (done, failed) = (counts["completed"].as_u64().expect("a count"), counts["failed"].as_u64().expect("a count"));
    assert!(done > 0 && failed > 0 && done + failed == 40, "{counts}");
    assert_eq!(upstream.seen().len() as u64, done, "no line went up that there was no budget for");
    let errors = crate::batches::results(&gateway, &batch, "error_file_id").await;
    assert_eq!(errors.len() as u64, failed);
    for (name, line) in errors {
        assert_eq!(line["response"]["status_code"], 412, "{name}: {line}");
        assert_eq!(line["response"]["body"]["error"]["code"], "budget_exhausted", "{name}: {line}");
    }
}

#[tokio::test]
async fn what_is_paid_for_later_does_not_begin_when_nothing_is_left_and_looks_pass() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|seen| match seen.target.as_str() {
        CHAT => reply::chat("hi"),
        _ => reply::json(200, &json!({ "id": "batch_1", "object": "batch", "status": "completed", "data": [] })),
    })
    .await;
    let (key, file) = short(&gateway, 8, &lines(1)).await;
    let config = target(&upstream);
    let begins = [
        ("/v1/batches", json!({ "input_file_id": "file-1", "endpoint": CHAT, "completion_window": "24h" })),
        ("/v1/fine_tuning/jobs", json!({ "model": "gpt-4o-mini", "training_file": "file-1" })),
    ];
    for (path, body) in &begins {
        gateway.post(path).key(&key).config(&config).json(body).send().await.expect(200);
    }
    gateway.chat().key(&key).config(&config).json(&hello()).send().await.expect(200);
    eventually("nothing is left", || async {
        (gateway.chat().key(&key).config(&config).json(&hello()).send().await.status == 412).then_some(())
    })
    .await;
    let before = upstream.seen().len();
    for (path, body) in &begins {
        let refused = gateway.post(path).key(&key).config(&config).json(body).send().await.expect(412);
        assert_eq!(refused.json()["error"]["code"], "budget_exhausted", "{path}");
    }
    assert_eq!(upstream.seen().len(), before, "nobody was asked");
    for path in
        ["/v1/batches/batch_1", "/v1/batches", "/v1/files/file-1", "/v1/files/file-1/content", "/v1/fine_tuning/jobs/j"]
    {
        gateway.get(path).key(&key).config(&config).send().await.expect(200);
    }
    gateway.post("/v1/batches/batch_1/cancel").key(&key).config(&config).json(&json!({})).send().await.expect(200);
    gateway.get(&format!("/v1/files/{file}")).key(&key).send().await.expect(200);
    gateway.get(&format!("/v1/files/{file}/content")).key(&key).send().await.expect(200);
}

#[tokio::test]
async fn only_a_cancel_cancels_a_job() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "id": "ftjob-1", "status": "paused" }))).await;
    let config = target(&upstream);
    for step in ["pause", "resume", "cancel"] {
        let path = format!("/v1/fine_tuning/jobs/ftjob-1/{step}");
        let call = ask(&gateway, &path, step).config(&config);
        call.json(&json!({})).send().await.expect(200);
        assert_eq!(upstream.seen().pop().expect("it went up").target, path);
        let seen = metrics_of(&gateway, step).await["operation"].clone();
        assert_eq!(seen == "cancelFinetune", step == "cancel", "{step}: {seen}");
    }
}
