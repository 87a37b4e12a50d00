//! A provider's own batches by OpenAI's routes, made of files that lie there: told in OpenAI's words, with two files of
//! results, and counted once when they are first seen to have ended.

use crate::area_forms::{FORM, form};
use crate::batches::{CHAT, line, text};
use crate::cloud_batches::gemini;
use crate::cloud_files::{NOVA, Objects, stored};
use crate::clouds::bare;
use crate::family_batches::{jsonl, prompt};
use crate::harness::{Gateway, Seen, Upstream, call::Call, eventually, reply, with};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ROLE: &str = "arn:aws:iam::123456789012:role/batches";
const JOB: &str = "/model-invocation-job/abcdefgh1234";

fn nova(text: &str, cached: u64) -> Value {
    json!({ "output": { "message": { "role": "assistant", "content": [{ "text": text }] } }, "stopReason": "end_turn",
            "usage": { "inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100 + cached, "cacheReadInputTokens": cached } })
}

fn results() -> Vec<u8> {
    let error = json!({ "errorCode": 400, "errorMessage": "bad request", "expired": false, "retryable": false });
    jsonl(&[
        json!({ "recordId": "line-2", "modelInput": {}, "modelOutput": nova("two", 4000) }),
        json!({ "recordId": "line-1", "modelInput": {}, "error": error }),
        json!({ "recordId": "line-0", "modelInput": {}, "modelOutput": nova("zero", 0) }),
    ])
}

/// AWS with a bucket and jobs; the job that was made has ended after so many looks at it.
struct Aws {
    upstream: Upstream,
    looks: Arc<AtomicUsize>,
}

impl Aws {
    async fn start(until: usize) -> Self {
        let (objects, looks, made) =
            (Objects::default(), Arc::<AtomicUsize>::default(), Arc::new(parking_lot::Mutex::new(Value::Null)));
        let counted = looks.clone();
        let upstream = Upstream::replying(move |seen: &Seen| {
            let job = |status: &str| {
                let asked = made.lock().clone();
                json!({ "jobArn": "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abcdefgh1234",
                        "status": status, "modelId": NOVA, "submitTime": "2025-01-01T00:00:00Z", "endTime": "2025-01-01T01:00:00Z",
                        "inputDataConfig": asked["inputDataConfig"], "outputDataConfig": asked["outputDataConfig"],
                        "totalRecordCount": 3, "successRecordCount": 2, "errorRecordCount": 1 })
            };
            let target = seen.target.as_str();
            match (seen.method.as_str(), target) {
                ("POST", "/model-invocation-job") => {
                    *made.lock() = seen.json();
                    reply::json(200, &json!({ "jobArn": job("")["jobArn"] }))
                }
                ("POST", path) if path.ends_with("/stop") => {
                    counted.store(1_000_000, SeqCst);
                    reply::json(200, &json!({}))
                }
                ("GET", path) if path.starts_with("/model-invocation-jobs?") => {
                    let other = json!({ "jobArn": "arn:aws:bedrock:us-east-1:1:model-invocation-job/other", "status": "Completed",
                        "inputDataConfig": { "s3InputDataConfig": { "s3Uri": "s3://my-bucket/gateway-files/of-another/l" } } });
                    let old = json!({ "jobArn": "arn:aws:bedrock:us-east-1:1:model-invocation-job/old", "status": "Failed",
                        "message": "no such role", "submitTime": "2024-01-01T00:00:00Z" });
                    reply::json(200, &json!({ "invocationJobSummaries": [job("InProgress"), other, old] }))
                }
                ("GET", JOB) => reply::json(
                    200,
                    &job(match counted.fetch_add(1, SeqCst) {
                        looks if looks >= 1_000_000 => "Stopping",
                        looks if looks >= until => "PartiallyCompleted",
                        0 => "Submitted",
                        _ => "InProgress",
                    }),
                ),
                ("GET", path) if path.starts_with("/model-invocation-job/") => reply::error(404, &[]),
                ("GET", path) if path.ends_with("/abcdefgh1234/lines.jsonl.out") => results(),
                ("POST", path) if path.ends_with("/converse") => reply::json(200, &nova("plain", 0)),
                _ => stored(seen, &objects),
            }
        });
        Self { upstream: upstream.await, looks }
    }

    fn config(&self) -> Value {
        json!({ "provider": "bedrock", "custom_host": bare(&self.upstream), "aws_region": "us-east-1",
                "aws_access_key_id": "AKIDSTATIC", "aws_secret_access_key": "very-secret", "aws_s3_bucket": "my-bucket" })
    }

    fn seen(&self, method: &str, ends: &str) -> Vec<Seen> {
        self.upstream.seen().into_iter().filter(|seen| seen.method == method && seen.target.ends_with(ends)).collect()
    }
}

fn three(model: &str) -> String {
    (0..3).map(|n| line(&format!("line-{n}"), CHAT, &prompt(model, n))).collect()
}

async fn upload(gateway: &Gateway, config: &Value, lines: &str) -> String {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
    text(&gateway.post("/v1/files").config(config).body(FORM, body).send().await.expect(200).json(), "id")
}

fn asked(file: &str, model: &str) -> Value {
    json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h", "model": model, "metadata": { "of": "tests" } })
}

pub(crate) fn call(gateway: &Gateway, config: &Value, method: &str, path: &str) -> Call {
    gateway.call(method, path).config(config)
}

async fn made(gateway: &Gateway, config: &Value) -> Value {
    let file = upload(gateway, config, &three(NOVA)).await;
    let body = with(asked(&file, NOVA), json!({ "role_arn": ROLE }));
    gateway.post("/v1/batches").config(config).json(&body).send().await.expect(200).json()
}

/// The lines of a file of results, by their names.
pub(crate) async fn lines(gateway: &Gateway, config: &Value, batch: &Value, which: &str) -> BTreeMap<String, Value> {
    let path = format!("/v1/files/{}/content", text(batch, which));
    let content = call(gateway, config, "GET", &path).send().await.expect(200);
    assert!(content.whole);
    content
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .map(|line: Value| (text(&line, "custom_id"), line))
        .collect()
}

/// Costs of the first lines of this batch, by their traces: each of them has one record.
pub(crate) async fn counted(gateway: &Gateway, id: &str, wanted: u64) -> BTreeMap<String, f64> {
    counted_lines(gateway, id, &(1..=wanted).collect::<Vec<_>>()).await
}

pub(crate) async fn counted_lines(gateway: &Gateway, id: &str, wanted: &[u64]) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for number in wanted {
        let trace = format!("{id}-{number}");
        let told = eventually(&trace, || async {
            let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
            (list["total"] != 0).then_some(list)
        });
        let told = told.await;
        assert_eq!(told["total"], 1, "counted once: {told}");
        found.insert(trace, told["data"][0]["metrics"]["cost"].as_f64().unwrap_or_default());
    }
    found
}

#[tokio::test]
async fn a_batch_of_bedrocks_is_told_in_openais_words() {
    let gateway = Gateway::start().await;
    let aws = Aws::start(2).await;
    let config = aws.config();
    let batch = made(&gateway, &config).await;
    let told = ["id", "object", "status", "endpoint", "completion_window", "model"].map(|name| batch[name].clone());
    assert_eq!(told, ["abcdefgh1234", "batch", "validating", CHAT, "24h", NOVA].map(Value::from));
    assert!(batch["created_at"].as_i64() > Some(1_700_000_000) && batch["output_file_id"].is_null(), "{batch}");
    let job = aws.seen("POST", "/model-invocation-job")[0].json();
    let input = text(&batch, "input_file_id");
    assert_eq!(job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"], input.replace("%3A", ":").replace("%2F", "/"));
    let sent = ["modelId", "roleArn", "modelInvocationType"].map(|name| job[name].clone());
    assert_eq!(sent, [NOVA, ROLE, "Converse"].map(Value::from));
    let show = || async { call(&gateway, &config, "GET", "/v1/batches/abcdefgh1234").send().await.expect(200).json() };
    let early = call(&gateway, &config, "GET", "/v1/batches/abcdefgh1234/output").send().await.expect(400);
    assert!(early.text().contains("no output"), "{}", early.text());
    assert_eq!(show().await["status"], "in_progress");
    let batch = show().await;
    assert_eq!((&batch["status"], &batch["completed_at"]), (&json!("completed"), &json!(1_735_693_200)));
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    assert_eq!((&batch["metadata"], &batch["input_file_id"]), (&json!({ "of": "tests" }), &json!(input)));
    let (good, bad) = (
        lines(&gateway, &config, &batch, "output_file_id").await,
        lines(&gateway, &config, &batch, "error_file_id").await,
    );
    assert_eq!((good.contains_key("line-0"), good.contains_key("line-2"), good.len(), bad.len()), (true, true, 2, 1));
    let body = &good["line-2"]["response"]["body"];
    assert_eq!(
        (&body["object"], &body["choices"][0]["message"]["content"]),
        (&json!("chat.completion"), &json!("two"))
    );
    assert_eq!((&bad["line-1"]["response"]["status_code"], &bad["line-1"]["error"]), (&json!(400), &Value::Null));
    let output = call(&gateway, &config, "GET", "/v1/batches/abcdefgh1234/output").send().await.expect(200);
    assert_eq!(output.text().lines().count(), 2);
    // Others of the account are there too, but for what another workspace made.
    let list = call(&gateway, &config, "GET", "/v1/batches?limit=1").send().await.expect(200).json();
    assert_eq!(
        (&list["data"][0]["id"], &list["has_more"], list["data"].as_array().map(Vec::len)),
        (&json!("abcdefgh1234"), &json!(true), Some(1))
    );
    let rest = call(&gateway, &config, "GET", "/v1/batches?after=abcdefgh1234").send().await.expect(200).json();
    assert_eq!(
        (&rest["data"][0]["id"], &rest["has_more"], rest["data"].as_array().map(Vec::len)),
        (&json!("old"), &json!(false), Some(1))
    );
    assert_eq!(
        (&rest["data"][0]["status"], &rest["data"][0]["errors"]["data"][0]["message"]),
        (&json!("failed"), &json!("no such role"))
    );
    for path in ["/v1/batches/other-job", "/v1/batches/a.b", "/v1/batches/a%2Fb", "/v1/files/nothing.output/content"] {
        call(&gateway, &config, "GET", path).send().await.expect(404);
    }
}

#[tokio::test]
async fn each_line_is_counted_once_at_the_price_for_batches_however_often_it_is_looked_at() {
    let gateway = Gateway::start().await;
    let aws = Aws::start(0).await;
    let config = aws.config();
    made(&gateway, &config).await;
    for _ in 0..50 {
        let batch = call(&gateway, &config, "GET", "/v1/batches/abcdefgh1234").send().await.expect(200).json();
        assert_eq!(batch["status"], "completed");
    }
    let costs = counted(&gateway, "abcdefgh1234", 3).await;
    assert_eq!(aws.seen("GET", "/abcdefgh1234/lines.jsonl.out").len(), 1, "fetched for one look of 50");
    let full = gateway.chat().config(&config).header("x-gateway-trace-id", "full").json(&prompt(NOVA, 0));
    full.send().await.expect(200);
    let full = crate::family_batches::cost(&gateway, "full").await;
    // The provider's order: the line with cached tokens, the one that was refused, the plain one.
    let [cached, refused, plain] = [1, 2, 3].map(|number| costs[&format!("abcdefgh1234-{number}")]);
    assert!(full > 0.0 && (plain * 2.0 - full).abs() < 1e-9 && refused.abs() < 1e-12, "{plain} of {full}, {refused}");
    // Tokens that were read from the cache have a rate of their own: more than nothing, less than fresh ones.
    assert!(cached > plain && cached < plain * 5.0, "{cached} to {plain}");
}

#[tokio::test]
async fn nodes_of_one_database_count_a_batch_once() {
    let shared =
        tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("direct_batches"))).await;
    let (_postgres, url): (Arc<Postgres>, String) = shared.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
    let aws = Aws::start(0).await;
    let config = aws.config();
    made(&one, &config).await;
    let looks = (0..20)
        .map(|n| call(if n % 2 == 0 { &one } else { &other }, &config, "GET", "/v1/batches/abcdefgh1234").send());
    for answer in futures_util::future::join_all(looks).await {
        answer.expect(200);
    }
    counted(&one, "abcdefgh1234", 3).await;
    assert_eq!(aws.seen("GET", "/abcdefgh1234/lines.jsonl.out").len(), 1);
}

#[tokio::test]
async fn what_a_batch_needs_is_asked_for_by_name_and_cancelling_is_told() {
    let gateway = Gateway::start().await;
    let aws = Aws::start(1_000).await;
    let config = aws.config();
    let file = upload(&gateway, &config, &three(NOVA)).await;
    let good = with(asked(&file, NOVA), json!({ "role_arn": ROLE }));
    for (change, status, why) in [
        (json!({ "input_file_id": file.replace('%', "%25") }), 404, "No object"),
        (json!({ "input_file_id": "s3%3A%2F%2Fother-bucket%2Fl" }), 404, "No object"),
        (json!({ "completion_window": "immediate" }), 400, "completion_window"),
        (json!({ "endpoint": "/v1/moderations" }), 400, "endpoint"),
        (json!({ "endpoint": "/v1/nothing" }), 400, "endpoint"),
        (json!({ "model": 7 }), 400, "model"),
        (json!({ "role_arn": "" }), 400, "role_arn"),
        (json!({ "colour": "red" }), 400, "colour"),
        (json!({ "provider_options": { "colour": "red" } }), 400, "provider_options.colour"),
        (json!({ "metadata": { "a": 1 } }), 400, "metadata"),
    ] {
        let told = gateway.post("/v1/batches").config(&config).json(&with(good.clone(), change)).send().await;
        assert!(told.expect(status).text().contains(why), "{why}");
    }
    let mut nameless = good.clone();
    nameless.as_object_mut().expect("an object").remove("model");
    assert!(
        gateway.post("/v1/batches").config(&config).json(&nameless).send().await.expect(400).text().contains("model")
    );
    assert!(aws.seen("POST", "/model-invocation-job").is_empty());
    gateway.post("/v1/batches").config(&config).json(&good).send().await.expect(200);
    let told = call(&gateway, &config, "POST", "/v1/batches/abcdefgh1234/cancel").send().await.expect(200).json();
    assert_eq!(told["status"], "cancelling", "{told}");
    assert_eq!((aws.seen("POST", "/stop").len(), aws.looks.load(SeqCst) > 1_000_000), (1, true));
    assert!(call(&gateway, &config, "GET", "/v1/batches?limit=101").send().await.expect(400).text().contains("limit"));
    // Anthropic's batches read no file.
    let claude = json!({ "provider": "anthropic", "api_key": "k", "custom_host": aws.upstream.url() });
    let told = gateway.post("/v1/batches").config(&claude).json(&asked("file_1", "claude-sonnet-4-5")).send().await;
    assert!(told.expect(400).text().contains("completion_window 24h"));
}

#[tokio::test]
async fn a_batch_of_vertexs_is_made_of_its_file_and_read_beside_it() {
    const MODEL: &str = "gemini-2.5-flash";
    const NAME: &str = "projects/p/locations/us-central1/batchPredictionJobs/456";
    let gateway = Gateway::start().await;
    let objects = Objects::default();
    let upstream = Upstream::replying(move |seen: &Seen| {
        let job = json!({ "name": NAME, "state": "JOB_STATE_PARTIALLY_SUCCEEDED", "createTime": "2025-01-01T00:00:00Z",
            "endTime": "2025-01-01T01:00:00Z", "model": "publishers/google/models/gemini-2.5-flash",
            "completionStats": { "successfulCount": "1", "failedCount": "1" },
            "outputInfo": { "gcsOutputDirectory": "gs://my-bucket/gateway-batches/x/results/p" } });
        match (seen.method.as_str(), seen.target.as_str()) {
            ("POST", path) if path.ends_with("/batchPredictionJobs") => {
                reply::json(200, &json!({ "name": NAME, "state": "JOB_STATE_PENDING" }))
            }
            ("GET", path) if path == format!("/v1/{NAME}") => reply::json(200, &job),
            ("GET", path) if path.ends_with("/batchPredictionJobs?pageSize=100") => {
                reply::json(200, &json!({ "batchPredictionJobs": [job] }))
            }
            ("GET", path) if path.ends_with("/predictions.jsonl") => jsonl(&[
                json!({ "requestId": "line-1", "status": "Bad Request: no such field", "request": {}, "response": {} }),
                json!({ "requestId": "line-0", "status": "", "request": {}, "response": gemini("zero") }),
            ]),
            _ => stored(seen, &objects),
        }
    });
    let upstream = upstream.await;
    let config = json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": bare(&upstream), "vertex_project_id": "p",
                         "vertex_region": "us-central1", "vertex_storage_bucket_name": "my-bucket" });
    let file = upload(&gateway, &config, &three(MODEL)).await;
    let made = gateway.post("/v1/batches").config(&config).json(&asked(&file, MODEL)).send().await.expect(200).json();
    assert_eq!(
        (&made["id"], &made["status"], &made["input_file_id"]),
        (&json!("456"), &json!("validating"), &json!(file))
    );
    let batch = call(&gateway, &config, "GET", "/v1/batches/456").send().await.expect(200).json();
    assert_eq!((&batch["status"], &batch["completed_at"]), (&json!("completed"), &json!(1_735_693_200)));
    assert_eq!(batch["request_counts"], json!({ "total": 2, "completed": 1, "failed": 1 }));
    let good = lines(&gateway, &config, &batch, "output_file_id").await;
    assert_eq!(good["line-0"]["response"]["body"]["choices"][0]["message"]["content"], "zero");
    assert!(lines(&gateway, &config, &batch, "error_file_id").await["line-1"].to_string().contains("no such field"));
    let list = call(&gateway, &config, "GET", "/v1/batches").send().await.expect(200).json();
    assert_eq!(list["data"][0]["id"], "456");
    counted(&gateway, "456", 2).await;
}
