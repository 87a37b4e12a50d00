//! Areas beside chat by the packages of providers that serve them, their providers being scripted.

use crate::harness::{Gateway, Seen, Upstream, eventually, installed, reply};
use crate::{MOCK, Stage, scripts};
use serde_json::{Value, json};
use std::process::Command;

const SOUND: [u8; 3] = *b"ID3";

fn sound() -> Vec<u8> {
    let body: Vec<u8> = SOUND.into_iter().chain(0..=255).collect();
    reply::whole(200, &[("content-type", "audio/mpeg")], body)
}

/// A batch of Anthropic's, or their list.
fn claudes(method: &str, target: &str) -> Value {
    let counts = json!({ "canceled": 0, "errored": 0, "expired": 0, "processing": 0, "succeeded": 1 });
    let batch = json!({
        "id": "msgbatch_1", "type": "message_batch", "processing_status": "ended", "request_counts": counts,
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z", "ended_at": null,
        "results_url": "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
    });
    match (method, target) {
        ("GET", "/v1/messages/batches") => {
            json!({ "data": [batch], "has_more": false, "first_id": "msgbatch_1", "last_id": "msgbatch_1" })
        }
        _ => batch,
    }
}

fn claudes_file() -> Value {
    json!({ "id": "file_1", "type": "file", "filename": "f", "mime_type": "text/plain", "size_bytes": 19,
            "created_at": "2026-01-01T00:00:00Z", "downloadable": true })
}

/// A job of Mistral's.
fn mistrals() -> Value {
    json!({
        "id": "job_1", "object": "batch", "input_files": ["file_1"], "endpoint": "/v1/chat/completions", "errors": [],
        "status": "QUEUED", "created_at": 1, "total_requests": 1, "completed_requests": 0, "succeeded_requests": 0,
        "failed_requests": 0,
    })
}

/// Answers as the providers' pages say.
fn answer(seen: &Seen) -> Vec<u8> {
    let (method, target) = (seen.method.as_str(), seen.target.as_str());
    let asks_voyage = seen.text().contains("top_k");
    let batch = json!({
        "id": "batch_1", "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h", "created_at": 1,
        "input_file_id": "file_1", "status": "validating", "expires_at": 2, "expiration": "2", "errors": null,
    });
    let file = json!({ "id": "file_1", "object": "file", "bytes": 19, "created_at": 1, "filename": "f", "purpose": "batch",
                "sample_type": "batch_request", "source": "upload", "deleted": false });
    let bare = target.split('?').next().unwrap_or_default();
    let told = match (method, target) {
        _ if bare == "/v1/messages/batches/msgbatch_1/results" => {
            let line = json!({ "custom_id": "a", "result": { "type": "expired" } });
            return reply::whole(200, &[("content-type", "application/x-jsonl")], format!("{line}\n"));
        }
        _ if bare.starts_with("/v1/messages/batches") => claudes(method, bare),
        _ if bare.starts_with("/v1/batch/jobs") => mistrals(),
        ("GET", _) if bare == "/v1/files" && seen.header("anthropic-version").is_some() => {
            json!({ "data": [claudes_file()], "has_more": false, "first_id": "file_1", "last_id": "file_1" })
        }
        (method, _)
            if method != "DELETE" && !bare.ends_with("/content") && seen.header("anthropic-version").is_some() =>
        {
            claudes_file()
        }
        (_, target) if target.ends_with("/audio/speech") => return sound(),
        (_, target) if target.contains("/audio/") => json!({ "text": "Hi" }),
        ("GET", target) if target.ends_with("/content") => {
            return reply::whole(200, &[("content-type", "application/octet-stream")], "{}\n");
        }
        ("DELETE", _) => json!({ "id": "file_1", "object": "file", "deleted": true }),
        (_, target) if target.contains("/files") => file,
        ("GET", target) if target.ends_with("/batches") => json!({ "object": "list", "data": [batch] }),
        ("POST", "/v1/batches") => json!({ "job": { "id": "batch_1", "status": "VALIDATING" }, "warning": null }),
        (_, target) if target.contains("/batches") => batch,
        (_, target) if target.contains("/images/") => {
            json!({ "id": "i", "model": "m", "object": "list", "data": [{ "index": 0, "b64_json": "QUFB", "type": "b64_json" }] })
        }
        (_, target) if target.ends_with("/rerank") && asks_voyage => json!({
            "object": "list", "model": "rerank-3", "usage": { "total_tokens": 26 },
            "data": [{ "index": 1, "relevance_score": 0.75 }, { "index": 0, "relevance_score": 0.25 }],
        }),
        (_, target) if target.ends_with("/rerank") => json!({
            "id": "r", "object": "rerank", "model": "m",
            "results": [{ "index": 1, "relevance_score": 0.75 }, { "index": 0, "relevance_score": 0.25 }],
            "usage": { "prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1 },
        }),
        _ => json!({
            "object": "list", "model": "m", "data": [{ "object": "embedding", "index": 0, "embedding": "AAAAPwAAgD4=" }],
            "usage": { "total_tokens": 3 },
        }),
    };
    reply::json(200, &told)
}

#[tokio::test]
async fn python_providers() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(answer).await;
    let root = upstream.url().trim_end_matches("/v1").to_owned();
    for (slug, family, host) in [
        ("claude", "anthropic", upstream.url()),
        ("groq", "groq", format!("{root}/openai/v1")),
        ("mistral", "mistral-ai", upstream.url()),
        ("together", "together-ai", upstream.url()),
        ("voyage", "voyage", upstream.url()),
    ] {
        gateway.admin().provider(slug, family, Some(&host)).await;
    }
    let mut command = Command::new(installed("python/bin/python"));
    command.env("PYTHONPATH", installed("areas")).env("TEST_RUNS", "none=openai");
    command.arg("-B").arg(scripts("python").join("providers_sdk.py"));
    Stage { gateway, _mocks: Vec::new(), story: None, told: Vec::new() }.run(command).await;
    let seen = upstream.seen();
    let has_key = |seen: &Seen| match seen.header("anthropic-version") {
        Some(_) => seen.header("x-api-key") == Some("sk-managed") && seen.header("authorization").is_none(),
        None => seen.header("authorization") == Some("Bearer sk-managed"),
    };
    assert!(seen.iter().all(has_key), "no key of the gateway's");
    let went = |method: &str, target: &str| seen.iter().any(|seen| seen.method == method && seen.target == target);
    for (method, target) in [
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/batches/msgbatch_1/cancel"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("POST", "/v1/batch/jobs"),
        ("POST", "/v1/batch/jobs/job_1/cancel"),
        ("POST", "/openai/v1/audio/transcriptions"),
        ("POST", "/openai/v1/audio/translations"),
        ("POST", "/openai/v1/audio/speech"),
        ("POST", "/openai/v1/files"),
        ("POST", "/openai/v1/batches/batch_1/cancel"),
        ("POST", "/v1/rerank"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/speech"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/embeddings"),
    ] {
        assert!(went(method, target), "{method} {target}: {:?}", seen.iter().map(|s| &s.target).collect::<Vec<_>>());
    }
    let picture = seen.iter().find(|seen| seen.target == "/v1/images/generations").expect("went up").json();
    assert_eq!((&picture["width"], &picture["height"], &picture["steps"]), (&json!(512), &json!(256), &json!(4)));
    let ranked = seen.iter().find(|seen| seen.text().contains("top_k")).expect("went up").json();
    assert_eq!(ranked["model"], "rerank-3", "without the slug");
}

/// What a provider keeps, at one target and at two. The upstreams are in the script.
#[tokio::test]
async fn python_kept() {
    let gateway = Gateway::start().await;
    gateway.admin().post("/admin/workspaces", &json!({ "name": "far", "slug": "far" })).await.expect(200);
    let (_, stranger) = gateway.admin().workspace_key("stranger", json!({ "workspace_id": "far" })).await;
    let told = vec![("TEST_STRANGER_KEY", stranger)];
    let stage = Stage { gateway, _mocks: Vec::new(), story: None, told };
    stage.python("kept_sdk.py", MOCK, "openai").await;
    // Each streams two runs at one target and two at two, whose model is that of the assistant.
    let priced = eventually("runs that were streamed have their price", || async {
        let list = stage.gateway.admin().get("/logs?page_size=200").await.expect(200).json();
        let all = list["data"].as_array().expect("records").iter().map(|record| &record["metrics"]);
        let runs = all.filter(|told| told["operation"] == "createRun" && told["total_units"] == 10);
        let costs: Vec<_> = runs.map(|told| told["cost"].as_f64().unwrap_or(0.0)).collect();
        (costs.len() == 4).then_some(costs)
    });
    assert!(priced.await.iter().all(|cost| *cost > 0.0), "what a run used is paid for");
}

/// Sound, moderations and pages by Mistral's own package. The upstream is in the script.
#[tokio::test]
async fn python_mistral_areas() {
    let stage = Stage { gateway: Gateway::start().await, _mocks: Vec::new(), story: None, told: Vec::new() };
    stage.python("mistral_areas_sdk.py", MOCK, "mistral-ai").await;
}
