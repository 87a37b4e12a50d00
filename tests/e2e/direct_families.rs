//! Batches of Mistral, Gemini and Anthropic by OpenAI's routes: looked at, read, listed and cancelled, and each line
//! counted once. Gemini's and Anthropic's are made in the providers' own words, which pass as they are.

use crate::batches::{CHAT, text};
use crate::direct_batches::{call, counted, counted_lines, lines};
use crate::family_batches::{FamilyProvider, Script, cost, jsonl, prompt};
use crate::harness::{Gateway, Seen, reply, with};
use crate::watched_batches::WATCHED;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The path below the provider's address, with the query.
fn path(seen: &Seen) -> &str {
    seen.target.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(&seen.target)
}

/// What a call of the line's model costs that is made by itself.
async fn full(gateway: &Gateway, config: &Value, body: &Value) -> f64 {
    let trace = format!("plain-{}", body["messages"][1]["content"].as_str().unwrap_or_default());
    gateway.chat().config(config).header("x-gateway-trace-id", &trace).json(body).send().await.expect(200);
    cost(gateway, &trace).await
}

fn half(own: f64, full: f64) {
    assert!(full > 0.0 && (own * 2.0 - full).abs() < 1e-6, "{own} in the batch, {full} outside");
}

async fn output(gateway: &Gateway, config: &Value, id: &str) -> BTreeMap<String, Value> {
    let path = format!("/v1/batches/{id}/output");
    let told = call(gateway, config, "GET", &path).send().await.expect(200).text();
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| (text(&line, "custom_id"), line)).collect()
}

fn answer(line: &Value) -> &Value {
    &line["response"]["body"]["choices"][0]["message"]["content"]
}

const MISTRAL: &str = "mistral-small-latest";

fn mistral() -> Box<Script> {
    Box::new(|seen, looks, cancelled| {
        let job = |status: &str, file: Value| {
            json!({ "id": "job-1", "object": "batch", "status": status, "errors": [], "output_file": file, "error_file": null,
                    "endpoint": CHAT, "model": MISTRAL, "input_files": ["file-in"], "created_at": 7, "completed_at": 9,
                    "total_requests": 3, "succeeded_requests": 2, "failed_requests": 1 })
        };
        let line = |n: usize, status: u16, body: Value| {
            json!({ "id": format!("r{n}"), "custom_id": format!("line-{n}"),
                    "response": { "status_code": status, "body": body }, "error": null })
        };
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/chat/completions") => reply::chat("plain"),
            ("POST", "/batch/jobs") => reply::json(200, &job("QUEUED", Value::Null)),
            ("POST", "/batch/jobs/job-1/cancel") => reply::json(200, &job("CANCELLATION_REQUESTED", Value::Null)),
            ("GET", "/batch/jobs/job-1") if cancelled => reply::json(200, &job("CANCELLED", json!("file-out"))),
            ("GET", "/batch/jobs/job-1") if looks >= 2 => reply::json(200, &job("SUCCESS", json!("file-out"))),
            ("GET", "/batch/jobs/job-1") => reply::json(200, &job("RUNNING", Value::Null)),
            ("GET", "/batch/jobs?page_size=100") => {
                reply::json(200, &json!({ "data": [job("RUNNING", Value::Null)], "total": 1 }))
            }
            ("GET", "/files/file-out/content") => {
                let refused = json!({ "object": "error", "message": "too long", "type": "invalid_request_error" });
                let good = |n: usize| line(n, 200, reply::completion(&format!("answer-{n}")));
                jsonl(&[good(2), line(1, 422, refused), good(0)])
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

#[tokio::test]
async fn a_job_of_mistrals_is_made_of_its_own_file_and_counted_once() {
    let gateway = Gateway::start().await;
    let provider = FamilyProvider::start("/batch/jobs/job-1", mistral()).await;
    let config = provider.config("mistral-ai");
    let asked = json!({ "input_file_id": "file-in", "endpoint": CHAT, "completion_window": "24h", "model": MISTRAL });
    let made = gateway.post("/v1/batches").config(&config).json(&asked).send().await.expect(200).json();
    assert_eq!((&made["id"], &made["status"]), (&json!("job-1"), &json!("validating")));
    let job = provider.calls("POST", "/batch/jobs")[0].json();
    assert_eq!(
        (&job["model"], &job["input_files"], &job["endpoint"]),
        (&json!(MISTRAL), &json!(["file-in"]), &json!(CHAT))
    );
    let show = || async { call(&gateway, &config, "GET", "/v1/batches/job-1").send().await.expect(200).json() };
    assert_eq!(show().await["status"], "in_progress");
    for _ in 0..20 {
        let batch = show().await;
        let told = ["status", "output_file_id", "created_at", "completed_at"].map(|name| batch[name].clone());
        assert_eq!(told[..2], [json!("completed"), json!("file-out")], "{batch}");
        assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    }
    let good = output(&gateway, &config, "job-1").await;
    assert_eq!((good.len(), answer(&good["line-2"])), (2, &json!("answer-2")));
    let costs = counted(&gateway, "job-1", 3).await;
    let plain = full(&gateway, &config, &prompt(MISTRAL, 0)).await;
    half(costs["job-1-1"], plain);
    half(costs["job-1-3"], plain);
    assert!(costs["job-1-2"].abs() < 1e-12, "it was refused");
    let list = call(&gateway, &config, "GET", "/v1/batches").send().await.expect(200).json();
    assert_eq!((&list["data"][0]["id"], &list["has_more"]), (&json!("job-1"), &json!(false)));
    // Its files of results are its own, and pass as they are.
    let file = call(&gateway, &config, "GET", "/v1/files/file-out/content").send().await.expect(200);
    assert_eq!(file.text().lines().count(), 3);
}

#[tokio::test]
async fn a_job_of_mistrals_is_cancelled_there() {
    let gateway = Gateway::start().await;
    let provider = FamilyProvider::start("/batch/jobs/job-1", mistral()).await;
    let config = provider.config("mistral-ai");
    let told = call(&gateway, &config, "POST", "/v1/batches/job-1/cancel").send().await.expect(200).json();
    assert_eq!((&told["status"], provider.calls("POST", "/batch/jobs/job-1/cancel").len()), (&json!("cancelled"), 1));
    // One that has ended is not asked to end.
    call(&gateway, &config, "POST", "/v1/batches/job-1/cancel").send().await.expect(200);
    assert_eq!(provider.calls("POST", "/batch/jobs/job-1/cancel").len(), 1);
}

const PRO: &str = "gemini-2.5-pro";
/// What a line used: tokens of the prompt, and how many of them were cached. Prompts above 200,000 tokens cost more.
const USED: [(u64, u64); 3] = [(150_000, 0), (150_000, 100_000), (250_000, 0)];

fn gemini(n: usize) -> Value {
    let (prompt, cached) = USED[n];
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": format!("answer-{n}") }] }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": prompt, "candidatesTokenCount": 1000, "totalTokenCount": prompt + 1000,
                               "cachedContentTokenCount": cached }, "modelVersion": PRO })
}

fn google() -> Box<Script> {
    Box::new(|seen, looks, cancelled| {
        let told = |state: &str, response: Value| {
            let metadata = json!({ "state": format!("BATCH_STATE_{state}"), "displayName": "mine", "model": format!("models/{PRO}"),
                                   "createTime": "2025-01-01T00:00:00Z", "endTime": "2025-01-01T01:00:00Z",
                                   "batchStats": { "requestCount": "4", "successfulRequestCount": "3", "failedRequestCount": "1" } });
            json!({ "name": "batches/123", "metadata": metadata, "response": response })
        };
        let answered = |n: usize| json!({ "response": gemini(n), "metadata": { "key": format!("line-{n}") } });
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/v1beta/models/gemini-2.5-pro:batchGenerateContent") => {
                reply::json(200, &told("PENDING", Value::Null))
            }
            ("POST", "/v1beta/models/gemini-2.5-pro:generateContent") => {
                let asked = seen.json()["contents"][0]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
                reply::json(200, &gemini(asked.trim_start_matches("line-").parse().unwrap_or_default()))
            }
            ("POST", "/v1beta/batches/123:cancel") => reply::json(200, &json!({})),
            ("GET", "/v1beta/batches/123") if cancelled => reply::json(200, &told("CANCELLED", Value::Null)),
            ("GET", "/v1beta/batches/123") if looks >= 2 => {
                let error =
                    json!({ "error": { "code": 3, "message": "no such field" }, "metadata": { "key": "line-3" } });
                let all = json!([answered(2), error, answered(0), answered(1)]);
                reply::json(200, &told("SUCCEEDED", json!({ "inlinedResponses": { "inlinedResponses": all } })))
            }
            ("GET", "/v1beta/batches/123") => reply::json(200, &told("RUNNING", Value::Null)),
            ("GET", "/v1beta/batches?pageSize=100") => {
                reply::json(200, &json!({ "operations": [told("RUNNING", Value::Null)] }))
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

async fn of_google() -> (Gateway, FamilyProvider, Value) {
    let provider = FamilyProvider::start("/v1beta/batches/123", google()).await;
    let config = with(provider.config("google"), json!({ "custom_host": provider.host() }));
    (Gateway::start().await, provider, config)
}

#[tokio::test]
async fn a_batch_of_geminis_is_read_by_openais_routes_and_counted_once() {
    let (gateway, _provider, config) = of_google().await;
    let made = json!({ "batch": { "displayName": "mine", "inputConfig": { "requests": { "requests": [] } } } });
    let path = format!("/v1/proxy/v1beta/models/{PRO}:batchGenerateContent");
    let told = gateway.post(&path).config(&config).json(&made).send().await.expect(200).json();
    assert_eq!(told["name"], "batches/123", "it passes as it is");
    let show = || async { call(&gateway, &config, "GET", "/v1/batches/123").send().await.expect(200).json() };
    assert_eq!(show().await["status"], "in_progress");
    for _ in 0..20 {
        let batch = show().await;
        assert_eq!((&batch["status"], &batch["completed_at"]), (&json!("completed"), &json!(1_735_693_200)), "{batch}");
        assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 3, "failed": 1 }));
    }
    let batch = show().await;
    let good = lines(&gateway, &config, &batch, "output_file_id").await;
    let bad = lines(&gateway, &config, &batch, "error_file_id").await;
    assert_eq!((good.len(), answer(&good["line-2"])), (3, &json!("answer-2")));
    assert_eq!((bad.len(), &bad["line-3"]["response"]["status_code"]), (1, &json!(400)));
    assert_eq!(output(&gateway, &config, "123").await.len(), 3);
    let costs = counted(&gateway, "123", 4).await;
    // What was read from the cache costs no less in a batch.
    for (number, n) in [(1, 2), (3, 0)] {
        half(costs[&format!("123-{number}")], full(&gateway, &config, &prompt(PRO, n)).await);
    }
    let [long, refused, base, cached] = [1, 2, 3, 4].map(|number| costs[&format!("123-{number}")]);
    assert!(cached < base * 0.6 && refused.abs() < 1e-12, "{cached} and {refused} of {base}");
    assert!(long > base * 250.0 / 150.0 * 1.1, "longer, and at higher rates: {long} of {base}");
    let list = call(&gateway, &config, "GET", "/v1/batches").send().await.expect(200).json();
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["status"]), (&json!("123"), &json!("in_progress")));
}

#[tokio::test]
async fn a_batch_of_geminis_is_cancelled_there() {
    let (gateway, provider, config) = of_google().await;
    let told = call(&gateway, &config, "POST", "/v1/batches/123/cancel").send().await.expect(200).json();
    assert_eq!((&told["status"], provider.calls("POST", "/v1beta/batches/123:cancel").len()), (&json!("cancelled"), 1));
}

const CLAUDE: &str = "claude-sonnet-4-5";
const CLAUDES: &str = "/messages/batches/msgbatch_1";
/// Where its clients are led, who take their key along.
const RESULTS: &str = "/v1/messages/batches/msgbatch_1/results";

/// What a line used: tokens of the prompt that are new, and that were read from the cache. Prompts above 200,000 tokens
/// cost more.
const READ: [(u64, u64); 3] = [(150_000, 0), (50_000, 100_000), (250_000, 0)];

fn message(n: usize) -> Value {
    let (fresh, cached) = READ[n];
    json!({ "id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": CLAUDE,
            "content": [{ "type": "text", "text": format!("answer-{n}") }], "stop_reason": "end_turn",
            "usage": { "input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": 1000 } })
}

fn claude() -> Box<Script> {
    Box::new(|seen, looks, cancelled| {
        let standing = |status: &str, counts: Value| {
            json!({ "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "request_counts": counts,
                    "created_at": "2025-01-01T00:00:00Z", "ended_at": "2025-01-01T01:00:00Z",
                    "results_url": "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
                    "cancel_initiated_at": cancelled.then_some("2025-01-01T00:30:00Z") })
        };
        let answered = |n: usize| json!({ "custom_id": format!("line-{n}"), "result": { "type": "succeeded", "message": message(n) } });
        let all = json!({ "processing": 0, "succeeded": 3, "errored": 1, "expired": 1 });
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/messages") => {
                let asked = seen.json()["messages"][0]["content"].to_string();
                let digit = |c: char| c.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
                reply::json(200, &message(asked.chars().find_map(digit).unwrap_or_default()))
            }
            ("POST", "/messages/batches") => reply::json(200, &standing("in_progress", json!({ "processing": 5 }))),
            ("POST", "/messages/batches/msgbatch_1/cancel") => {
                reply::json(200, &standing("canceling", json!({ "processing": 5 })))
            }
            ("GET", CLAUDES) if cancelled => reply::json(200, &standing("ended", json!({ "canceled": 5 }))),
            ("GET", CLAUDES) if looks >= 2 => reply::json(200, &standing("ended", all)),
            ("GET", CLAUDES) => reply::json(200, &standing("in_progress", json!({ "processing": 5 }))),
            ("GET", "/messages/batches?limit=100") => {
                let told = standing("in_progress", json!({ "processing": 5 }));
                reply::json(200, &json!({ "data": [told], "has_more": false, "last_id": "msgbatch_1" }))
            }
            ("GET", "/messages/batches/msgbatch_1/results") => {
                let error =
                    json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no such tool" } });
                jsonl(&[
                    answered(2),
                    json!({ "custom_id": "line-3", "result": { "type": "errored", "error": error } }),
                    json!({ "custom_id": "line-4", "result": { "type": "expired" } }),
                    answered(0),
                    answered(1),
                ])
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

async fn of_claude() -> (Gateway, FamilyProvider, Value) {
    let provider = FamilyProvider::start(CLAUDES, claude()).await;
    let config = provider.config("anthropic");
    (Gateway::start().await, provider, config)
}

async fn make(gateway: &Gateway, config: &Value) {
    let made = gateway.post("/v1/messages/batches").config(config).json(&json!({ "requests": [] })).send().await;
    let made = made.expect(200).json();
    assert_eq!((&made["processing_status"], &made["results_url"]), (&json!("in_progress"), &json!(RESULTS)));
}

async fn counts_each_line(gateway: &Gateway, config: &Value) {
    let costs = counted_lines(gateway, "msgbatch_1", &[1, 2, 4, 5]).await;
    for (number, n) in [(1, 2), (4, 0), (5, 1)] {
        half(costs[&format!("msgbatch_1-{number}")], full(gateway, config, &prompt(CLAUDE, n)).await);
    }
    let [long, refused, base, cached] = [1, 2, 4, 5].map(|number| costs[&format!("msgbatch_1-{number}")]);
    assert!(cached < base && refused.abs() < 1e-12, "{cached} and {refused} of {base}");
    assert!(long > base * 250.0 / 150.0 * 1.1, "longer, and at higher rates: {long} of {base}");
}

#[tokio::test]
async fn a_batch_of_claudes_is_read_by_openais_routes_and_counted_once() {
    let (gateway, provider, config) = of_claude().await;
    make(&gateway, &config).await;
    let show = || async { call(&gateway, &config, "GET", "/v1/batches/msgbatch_1").send().await.expect(200).json() };
    assert_eq!(show().await["status"], "in_progress");
    for _ in 0..20 {
        let batch = show().await;
        assert_eq!((&batch["status"], &batch["completed_at"]), (&json!("completed"), &json!(1_735_693_200)), "{batch}");
        assert_eq!(batch["request_counts"], json!({ "total": 5, "completed": 3, "failed": 2 }));
    }
    counts_each_line(&gateway, &config).await;
    assert_eq!(provider.calls("GET", "/messages/batches/msgbatch_1/results").len(), 1, "read for one look of 20");
    let batch = show().await;
    let good = lines(&gateway, &config, &batch, "output_file_id").await;
    let bad = lines(&gateway, &config, &batch, "error_file_id").await;
    assert_eq!((good.len(), answer(&good["line-2"])), (3, &json!("answer-2")));
    assert_eq!((bad.len(), &bad["line-3"]["response"]["status_code"]), (2, &json!(400)));
    assert_eq!(bad["line-4"]["error"]["code"], "batch_expired");
    assert_eq!(output(&gateway, &config, "msgbatch_1").await.len(), 3);
    let list = call(&gateway, &config, "GET", "/v1/batches").send().await.expect(200).json();
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["status"]), (&json!("msgbatch_1"), &json!("in_progress")));
}

/// A look in Anthropic's own words is one too.
#[tokio::test]
async fn a_batch_of_claudes_is_counted_once_in_its_own_words() {
    let (gateway, provider, config) = of_claude().await;
    make(&gateway, &config).await;
    for _ in 0..20 {
        let told = call(&gateway, &config, "GET", "/v1/messages/batches/msgbatch_1").send().await.expect(200).json();
        assert_eq!((&told["type"], &told["results_url"]), (&json!("message_batch"), &json!(RESULTS)));
    }
    counts_each_line(&gateway, &config).await;
    assert_eq!(provider.calls("GET", "/messages/batches/msgbatch_1/results").len(), 1);
    let own = call(&gateway, &config, "GET", "/v1/messages/batches/msgbatch_1/results").send().await.expect(200);
    assert_eq!(own.text().lines().count(), 5, "it passes as it is");
    let told = call(&gateway, &config, "GET", "/v1/messages/batches?limit=100").send().await.expect(200).json();
    assert_eq!(told["data"][0]["results_url"], RESULTS, "{told}");
    let told =
        call(&gateway, &config, "POST", "/v1/messages/batches/msgbatch_1/cancel").send().await.expect(200).json();
    assert_eq!((&told["processing_status"], &told["results_url"]), (&json!("canceling"), &json!(RESULTS)));
}

#[tokio::test]
async fn a_batch_of_claudes_is_cancelled_there() {
    let (gateway, provider, config) = of_claude().await;
    let told = call(&gateway, &config, "POST", "/v1/batches/msgbatch_1/cancel").send().await.expect(200).json();
    assert_eq!(told["status"], "cancelled", "{told}");
    assert_eq!(provider.calls("POST", "/messages/batches/msgbatch_1/cancel").len(), 1);
}

/// Neither in a provider's own words nor by OpenAI's routes.
#[tokio::test]
async fn nobody_has_to_look_at_a_batch_of_any_of_them() {
    let gateway = Gateway::with(WATCHED).await;
    let provider = FamilyProvider::start(CLAUDES, claude()).await;
    let config = provider.config("anthropic");
    make(&gateway, &config).await;
    counts_each_line(&gateway, &config).await;
    assert_eq!(provider.calls("GET", "/messages/batches/msgbatch_1/results").len(), 1);
    let provider = FamilyProvider::start("/v1beta/batches/123", google()).await;
    let config = with(provider.config("google"), json!({ "custom_host": provider.host() }));
    let path = format!("/v1/proxy/v1beta/models/{PRO}:batchGenerateContent");
    gateway.post(&path).config(&config).json(&json!({ "batch": {} })).send().await.expect(200);
    counted(&gateway, "123", 4).await;
    let provider = FamilyProvider::start("/batch/jobs/job-1", mistral()).await;
    let config = provider.config("mistral-ai");
    let asked = json!({ "input_file_id": "file-in", "endpoint": CHAT, "completion_window": "24h", "model": MISTRAL });
    gateway.post("/v1/batches").config(&config).json(&asked).send().await.expect(200);
    counted(&gateway, "job-1", 3).await;
    assert_eq!(provider.calls("GET", "/files/file-out/content").len(), 1);
}
