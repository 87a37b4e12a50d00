//! Batches on clouds, where lines and results are files of a bucket: the lines go up there as the models are asked, a
//! job reads them, and its results are read from beside them.

use crate::batches::{CHAT, ended, file, line, results};
use crate::family_batches::{FAST, FamilyProvider, Script, by_provider, cost, jsonl, make, prompt, translated};
use crate::harness::{Gateway, Seen, eventually, reply, with};
use serde_json::{Value, json};

const NOVA: &str = "amazon.nova-lite-v1:0";
const ROLE: &str = "arn:aws:iam::123456789012:role/batches";
const JOB: &str = "/model-invocation-job/abcdefgh1234";

fn three(model: &str) -> String {
    (0..3).map(|n| line(&format!("line-{n}"), CHAT, &prompt(model, n))).collect()
}

fn nova(text: &str) -> Value {
    json!({ "output": { "message": { "role": "assistant", "content": [{ "text": text }] } }, "stopReason": "end_turn",
            "usage": { "inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100 }, "metrics": { "latencyMs": 9 } })
}

/// The names of what the job was made with, as AWS tells them again.
fn job(status: &str, folder: &str) -> Vec<u8> {
    let uri = |name: &str| format!("s3://my-bucket/gateway-batches/{folder}/{name}");
    reply::json(
        200,
        &json!({
            "jobArn": "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abcdefgh1234", "status": status,
            "inputDataConfig": { "s3InputDataConfig": { "s3Uri": uri("lines.jsonl") } },
            "outputDataConfig": { "s3OutputDataConfig": { "s3Uri": uri("results/") } },
        }),
    )
}

/// `ends`: the word of a job that has ended; `told`: whether it wrote results.
fn bedrock(ends: &'static str, told: bool) -> Box<Script> {
    Box::new(move |seen: &Seen, looks, cancelled| {
        let folder = "f";
        let target = seen.target.as_str();
        match (seen.method.as_str(), target) {
            ("PUT", path) if path.starts_with("/my-bucket/gateway-batches/gw-batch-") => reply::whole(200, &[], ""),
            ("DELETE", path) if path.starts_with("/my-bucket/gateway-batches/gw-batch-") => reply::whole(204, &[], ""),
            ("POST", path) if path.ends_with("/converse") => reply::json(200, &nova("plain")),
            ("POST", "/model-invocation-job") => {
                let arn = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abcdefgh1234";
                reply::json(200, &json!({ "jobArn": arn }))
            }
            ("POST", "/model-invocation-job/abcdefgh1234/stop") => reply::json(200, &json!({})),
            ("GET", JOB) if cancelled => job("Stopped", folder),
            ("GET", JOB) if looks >= 3 => job(ends, folder),
            ("GET", JOB) => job(["Submitted", "Validating", "InProgress"][looks.min(2)], folder),
            ("GET", "/my-bucket/gateway-batches/f/results/abcdefgh1234/lines.jsonl.out") if told => {
                let error =
                    json!({ "errorCode": 400, "errorMessage": "bad request", "expired": false, "retryable": false });
                jsonl(&[
                    json!({ "recordId": "line-2", "modelInput": {}, "modelOutput": nova("two") }),
                    json!({ "recordId": "line-1", "modelInput": {}, "error": error }),
                    json!({ "recordId": "line-0", "modelInput": {}, "modelOutput": nova("zero") }),
                ])
            }
            ("GET", _) => {
                reply::whole(404, &[("content-type", "application/xml")], "<Error><Code>NoSuchKey</Code></Error>")
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

fn aws(provider: &FamilyProvider) -> Value {
    let host = provider.host();
    json!({ "provider": "bedrock", "custom_host": host, "aws_region": "us-east-1", "aws_access_key_id": "AKIDSTATIC",
            "aws_secret_access_key": "very-secret-key-of-aws", "aws_s3_bucket": "my-bucket" })
}

fn with_role(file: &str) -> Value {
    with(by_provider(file), json!({ "provider_options": { "role_arn": ROLE } }))
}

#[tokio::test]
async fn bedrock_reads_converse_lines_from_the_bucket_and_answers_beside_them() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(JOB, bedrock("PartiallyCompleted", true)).await;
    let config = aws(&provider);
    let id = make(&gateway, &config, &with_role(&file(&gateway, &three(NOVA)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    assert_eq!(batch["provider_job_id"], "abcdefgh1234");
    // Times are seconds, as OpenAI's.
    let made = batch["created_at"].as_i64().expect("a number");
    assert!((1_500_000_000..10_000_000_000).contains(&made) && batch["completed_at"].as_i64() >= Some(made), "{batch}");
    assert_ne!(batch["output_file_id"], batch["error_file_id"]);
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    let said = |name: &str| good[name]["response"]["body"]["choices"][0]["message"]["content"].clone();
    assert_eq!((said("line-0"), said("line-2")), (json!("zero"), json!("two")));
    let refused = &bad["line-1"]["response"];
    assert!(refused["status_code"] == 400 && refused.to_string().contains("bad request"), "{refused}");
    // What went up.
    let name = id.replace('_', "-");
    let up = provider.calls("PUT", &format!("/my-bucket/gateway-batches/{name}/lines.jsonl"));
    let lines: Vec<Value> = up[0].text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ids: Vec<_> = lines.iter().map(|line| line["recordId"].clone()).collect();
    assert_eq!(ids, ["line-0", "line-1", "line-2"].map(Value::from));
    let target = "/model/amazon.nova-lite-v1%3A0/converse";
    assert_eq!(lines[0]["modelInput"], translated(&gateway, &provider, &config, &prompt(NOVA, 0), target).await);
    let signature = up[0].header("authorization").unwrap_or_default();
    assert!(signature.contains("AKIDSTATIC/") && signature.contains("/us-east-1/s3/aws4_request"), "{signature}");
    assert_eq!(up[0].header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    let made = &provider.calls("POST", "/model-invocation-job")[0];
    assert!(made.header("authorization").unwrap_or_default().contains("/us-east-1/bedrock/aws4_request"));
    let job = made.json();
    let told = ["modelId", "roleArn", "modelInvocationType", "clientRequestToken"].map(|name| job[name].clone());
    assert_eq!(told, [NOVA, ROLE, "Converse", &name].map(Value::from));
    let removed = || async { (provider.calls("DELETE", &up[0].target).len() == 1).then_some(()) };
    eventually("what went up to be removed", removed).await;
    // A line of the batch costs half of the price, once.
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "full").json(&prompt(NOVA, 0));
    call.send().await.expect(200);
    let (full, first) = (cost(&gateway, "full").await, cost(&gateway, &format!("{id}-1")).await);
    assert!(full > 0.0 && (first * 2.0 - full).abs() < 1e-9, "{first} in a batch, {full} outside");
}

#[tokio::test]
async fn bedrocks_other_ends_are_told_in_openais_words() {
    let gateway = Gateway::with(FAST).await;
    for (ends, status, code) in [("Expired", "expired", "batch_expired"), ("Stopped", "cancelled", "batch_cancelled")] {
        let provider = FamilyProvider::start(JOB, bedrock(ends, false)).await;
        let id = make(&gateway, &aws(&provider), &with_role(&file(&gateway, &three(NOVA)).await)).await;
        let batch = ended(&gateway, &id, status).await;
        let bad = results(&gateway, &batch, "error_file_id").await;
        assert_eq!((bad.len(), &bad["line-2"]["error"]["code"]), (3, &json!(code)));
    }
    let provider = FamilyProvider::start(JOB, bedrock("Failed", false)).await;
    let id = make(&gateway, &aws(&provider), &with_role(&file(&gateway, &three(NOVA)).await)).await;
    ended(&gateway, &id, "failed").await;
}

#[tokio::test]
async fn what_bedrock_needs_is_asked_for_by_name() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(JOB, bedrock("Completed", true)).await;
    let own = aws(&provider);
    let without = |name: &str| {
        let mut config = own.clone();
        config.as_object_mut().expect("an object").remove(name);
        config
    };
    let two = [line("a", CHAT, &prompt(NOVA, 0)), line("b", CHAT, &prompt("amazon.nova-pro-v1:0", 0))].concat();
    let broken: String = (1..=20)
        .map(|n| {
            if n == 17 {
                line("l17", CHAT, &with(prompt(NOVA, n), json!({ "n": 2 })))
            } else {
                line(&format!("l{n}"), CHAT, &prompt(NOVA, n))
            }
        })
        .collect();
    let keyed = with(without("aws_access_key_id"), json!({ "api_key": "bedrock-api-key" }));
    let keyed = {
        let mut keyed = keyed;
        keyed.as_object_mut().expect("an object").remove("aws_secret_access_key");
        keyed
    };
    let plain = three(NOVA);
    for (config, lines, options, why) in [
        (without("aws_s3_bucket"), &plain, json!({ "role_arn": ROLE }), "aws_s3_bucket"),
        (own.clone(), &plain, json!({}), "provider_options.role_arn"),
        (own.clone(), &plain, json!({ "role_arn": ROLE, "colour": "red" }), "provider_options.colour"),
        (own.clone(), &two, json!({ "role_arn": ROLE }), NOVA),
        (own.clone(), &broken, json!({ "role_arn": ROLE }), "\"line\":17"),
        (keyed, &plain, json!({ "role_arn": ROLE }), "AWS keys"),
    ] {
        let body = with(by_provider(&file(&gateway, lines).await), json!({ "provider_options": options }));
        let id = make(&gateway, &config, &body).await;
        let errors = ended(&gateway, &id, "failed").await["errors"].to_string();
        assert!(errors.contains(why), "{why}: {errors}");
    }
    assert_eq!(provider.seen(), 0, "nothing went up");
    // A bucket that would lead elsewhere is none, and one of the request does not stand beside a saved credential.
    for bucket in ["evil.com/x", "a@b"] {
        let call = gateway.post("/v1/batches").config(&with(own.clone(), json!({ "aws_s3_bucket": bucket })));
        let told = call.json(&with_role(&file(&gateway, &plain).await)).send().await;
        assert!(told.expect(400).text().contains("aws_s3_bucket"));
    }
}

pub(crate) const VERTEX_JOBS: &str = "/v1/projects/p/locations/us-central1/batchPredictionJobs";
pub(crate) const VERTEX_JOB: &str = "/v1/projects/p/locations/us-central1/batchPredictionJobs/456";
pub(crate) const GEMINI: &str = "gemini-2.5-flash";

pub(crate) fn gemini(text: &str) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100 },
            "modelVersion": GEMINI })
}

pub(crate) fn vertex() -> Box<Script> {
    Box::new(|seen: &Seen, looks, _| {
        let job = |state: &str| {
            let folder = "gs://my-bucket/gateway-batches/f/results/prediction-1";
            reply::json(
                200,
                &json!({
                    "name": "projects/p/locations/us-central1/batchPredictionJobs/456", "state": format!("JOB_STATE_{state}"),
                    "model": "publishers/google/models/gemini-2.5-flash", "outputInfo": { "gcsOutputDirectory": folder },
                }),
            )
        };
        match (seen.method.as_str(), seen.target.as_str()) {
            ("PUT" | "DELETE", path) if path.starts_with("/my-bucket/gateway-batches/gw_batch_") => {
                reply::whole(200, &[], "")
            }
            ("POST", path) if path.ends_with(":generateContent") => reply::json(200, &gemini("plain")),
            ("POST", "/v1/projects/p/locations/us-central1/batchPredictionJobs") => job("PENDING"),
            ("GET", VERTEX_JOB) if looks >= 3 => job("SUCCEEDED"),
            ("GET", VERTEX_JOB) => job("RUNNING"),
            ("GET", "/my-bucket/gateway-batches/f/results/prediction-1/predictions.jsonl") => jsonl(&[
                json!({ "requestId": "line-2", "status": "", "request": {}, "response": gemini("two") }),
                json!({ "requestId": "line-0", "status": "", "request": {}, "response": gemini("zero") }),
                json!({ "requestId": "line-1", "status": "Bad Request: no such field", "request": {}, "response": {} }),
            ]),
            other => panic!("nobody asks {other:?}"),
        }
    })
}

#[tokio::test]
async fn vertex_reads_geminis_lines_from_the_bucket() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(VERTEX_JOB, vertex()).await;
    let config = json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": provider.host(),
                         "vertex_project_id": "p", "vertex_region": "us-central1",
                         "vertex_storage_bucket_name": "my-bucket" });
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &three(GEMINI)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    let good = results(&gateway, &batch, "output_file_id").await;
    assert_eq!(good["line-2"]["response"]["body"]["choices"][0]["message"]["content"], "two");
    let bad = results(&gateway, &batch, "error_file_id").await;
    assert!(bad["line-1"].to_string().contains("no such field"), "{bad:?}");
    let up = provider.calls("PUT", &format!("/my-bucket/gateway-batches/{id}/lines.jsonl"));
    let first: Value = serde_json::from_str(up[0].text().lines().next().expect("a line")).expect("JSON");
    let target = "/v1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash:generateContent";
    let asked = translated(&gateway, &provider, &config, &prompt(GEMINI, 0), target).await;
    assert_eq!(first, json!({ "requestId": "line-0", "request": asked }));
    let made = provider.calls("POST", "/v1/projects/p/locations/us-central1/batchPredictionJobs")[0].json();
    assert_eq!(made["inputConfig"]["gcsSource"]["uris"][0], format!("gs://my-bucket/gateway-batches/{id}/lines.jsonl"));
    assert_eq!(made["instanceConfig"]["excludedFields"], json!(["requestId"]));
}
