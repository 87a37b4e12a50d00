//! Batches of a provider's that do not begin at once: a limit of the gateway's own stands before them, or the answer to
//! their creation was lost and nobody knows whether they were made.

use crate::area_forms::{FORM, form};
use crate::batches::{CHAT, asked, batch, ended, file, line, text};
use crate::cloud_batches::{GEMINI, VERTEX_JOB, VERTEX_JOBS, vertex};
use crate::family_batches::{
    CLAUDE, CLAUDE_BATCH, FAST, FamilyProvider, Script, by_provider, claude, claudes_results, four, make,
};
use crate::harness::{Gateway, Upstream, eventually, eventually_within, hello, reply, with};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn unix_secs() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("for long")
}

/// Limits of a key: so many tokens until the next midnight, which comes before a batch is over.
fn daily_tokens(most: u64) -> Value {
    let midnight = gateway_domain::time::Timestamp::from_secs((unix_secs() / 86_400 + 1) * 86_400).to_string();
    let budget =
        json!({ "type": "tokens", "credit_limit": most, "periodic_reset_days": 1, "next_usage_reset_at": midnight });
    json!({ "usage_limits": [budget] })
}

async fn upload_by(gateway: &Gateway, key: &str, lines: &str) -> String {
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("lines.jsonl"), lines.as_bytes())];
    let made = gateway.post("/v1/files").key(key).body(FORM, form(&parts)).send().await.expect(200).json();
    text(&made, "id")
}

/// A budget that begins anew in time is waited for, and one that does not fails the batch (see `family_batches`).
#[tokio::test]
async fn a_batch_waits_for_a_budget_that_begins_anew() {
    let gateway = Gateway::with(FAST).await;
    let admin = gateway.admin();
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(1, claudes_results)).await;
    let config = provider.config("anthropic");
    // One call uses up more than one and less than two of it.
    let (key_id, key) = admin.workspace_key("small", daily_tokens(600)).await;
    gateway.chat().key(&key).config(&config).json(&with(hello(), json!({ "model": CLAUDE }))).send().await.expect(200);
    let body = by_provider(&upload_by(&gateway, &key, &four(CLAUDE)).await);
    let made = gateway.post("/v1/batches").key(&key).config(&config).json(&body).send().await.expect(200).json();
    let id = text(&made, "id");
    eventually("it to be asked for again and again", || async {
        let standing = batch(&gateway, &id).await;
        assert_ne!(standing["status"], "failed", "{standing}");
        let list = admin.get(&format!("/logs?trace_id={id}-0")).await.expect(200).json();
        list["data"].as_array().is_some_and(|all| all.len() > 3).then_some(())
    })
    .await;
    assert_eq!(batch(&gateway, &id).await["status"], "in_progress");
    assert_eq!(provider.calls("POST", "/messages/batches").len(), 0);
    admin.put(&format!("/api-keys/{key_id}"), &json!({ "reset_usage": true })).await.expect(200);
    ended(&gateway, &id, "completed").await;
    assert_eq!(provider.calls("POST", "/messages/batches").len(), 1);
}

/// Lines that the gateway asks for itself wait as well, and none of them fails.
#[tokio::test]
async fn lines_wait_for_a_budget_that_begins_anew() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let config = json!({ "provider": "openai", "api_key": "sk-1", "custom_host": upstream.url() });
    let (key_id, key) = gateway.admin().workspace_key("small", daily_tokens(200)).await;
    eventually("the budget to be used up", || async {
        let ask = with(hello(), json!({ "max_tokens": 4 }));
        let told = gateway.chat().key(&key).config(&config).json(&ask).send().await;
        (told.status == 412).then_some(())
    })
    .await;
    let lines: String = (0..2)
        .map(|n| line(&format!("line-{n}"), CHAT, &with(hello(), json!({ "model": "gpt-4o-mini", "max_tokens": 4 }))))
        .collect();
    let (sent, file) = (upstream.seen().len(), upload_by(&gateway, &key, &lines).await);
    let call = gateway.post("/v1/batches").key(&key).config(&config);
    let id = text(&call.json(&asked(&file)).send().await.expect(200).json(), "id");
    eventually("a line to be told of the budget", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={id}-1")).await.expect(200).json();
        list["data"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    })
    .await;
    assert_eq!(batch(&gateway, &id).await["status"], "in_progress");
    assert_eq!(upstream.seen().len(), sent, "nothing went up");
    gateway.admin().put(&format!("/api-keys/{key_id}"), &json!({ "reset_usage": true })).await.expect(200);
    eventually_within(Duration::from_secs(60), "the lines to go on", || async {
        (upstream.seen().len() > sent).then_some(())
    })
    .await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 2, "completed": 2, "failed": 0 }));
}

/// The first creations are taken, and their connections cut; `lists`: whether the provider's list tells of them.
fn cutting(cuts: usize, lists: bool) -> (Box<Script>, std::sync::Arc<AtomicUsize>) {
    let (made, plain) = (std::sync::Arc::<AtomicUsize>::default(), claude(1, claudes_results));
    let counted = made.clone();
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| {
        let target = seen.target.split('?').next().unwrap_or_default();
        if seen.method == "POST" && target.ends_with("/messages/batches") && counted.fetch_add(1, SeqCst) < cuts {
            return Vec::new();
        }
        if seen.method == "GET" && target.ends_with("/messages/batches") {
            let other = json!({ "id": "msgbatch_old", "processing_status": "ended", "created_at": "2020-01-01T00:00:00Z",
                                "request_counts": { "succeeded": 4 } });
            let one = json!({ "id": "msgbatch_lost", "processing_status": "in_progress",
                              "created_at": "2999-01-01T00:00:00Z", "request_counts": { "processing": 4 } });
            let data = if lists { json!([one, other]) } else { json!([other]) };
            return reply::json(200, &json!({ "data": data, "has_more": false }));
        }
        plain(seen, looks, cancelled)
    });
    (script, made)
}

/// It is told which ones it may be, and never made again where there may be one.
#[tokio::test]
async fn a_batch_that_may_have_been_made_is_not_made_again() {
    let gateway = Gateway::with(FAST).await;
    for (cuts, lists, status, asked, why) in [
        (1, true, "failed", 1, "msgbatch_lost"),
        (1, false, "completed", 2, ""),
        (9, false, "failed", 2, "asked for twice"),
    ] {
        let (script, made) = cutting(cuts, lists);
        let provider = FamilyProvider::start(CLAUDE_BATCH, script).await;
        let file = file(&gateway, &four(CLAUDE)).await;
        let id = make(&gateway, &provider.config("anthropic"), &by_provider(&file)).await;
        let errors = ended(&gateway, &id, status).await["errors"].to_string();
        assert!(errors.contains(why) && !errors.contains("msgbatch_old"), "{errors}");
        assert_eq!(made.load(SeqCst), asked, "{why}");
    }
}

#[tokio::test]
async fn vertex_is_asked_for_the_job_with_the_batchs_label() {
    let gateway = Gateway::with(FAST).await;
    let (made, plain) = (AtomicUsize::new(0), vertex());
    let label = std::sync::Mutex::new(Value::Null);
    let provider = FamilyProvider::start(
        VERTEX_JOB,
        Box::new(move |seen, looks, cancelled| {
            let mut label = label.lock().expect("held by nobody");
            if seen.method == "POST" && seen.target == VERTEX_JOBS {
                *label = seen.json()["labels"].clone();
                assert_eq!(made.fetch_add(1, SeqCst), 0, "it is made once");
                return Vec::new();
            }
            if seen.method == "GET" && seen.target.starts_with(&format!("{VERTEX_JOBS}?")) {
                let id = label["gateway_batch_id"].as_str().unwrap_or_default();
                assert!(seen.target.ends_with(&format!("filter=labels.gateway_batch_id%3D{id}")), "{}", seen.target);
                let job = json!({ "name": VERTEX_JOB.trim_start_matches("/v1/"), "labels": *label });
                return reply::json(200, &json!({ "batchPredictionJobs": [{ "name": "other" }, job] }));
            }
            plain(seen, looks, cancelled)
        }),
    )
    .await;
    let config = json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": provider.host(),
                         "vertex_project_id": "p", "vertex_region": "us-central1",
                         "vertex_storage_bucket_name": "my-bucket" });
    let lines = four(GEMINI);
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &lines).await)).await;
    ended(&gateway, &id, "completed").await;
}
