//! Files and batches at families that keep files as objects of their own kind, by OpenAI's routes: datasets of
//! Fireworks AI, read at addresses that are signed and get no credential, and files of the Gemini API.

use crate::area_forms::{FORM, form};
use crate::batches::{CHAT, ended, file, line, results, text};
use crate::cloud_batches::gemini;
use crate::clouds::bare;
use crate::family_batches::{FAST, by_provider, jsonl, make, prompt};
use crate::harness::{Gateway, Seen, Upstream, eventually, reply, with};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const LLAMA: &str = "accounts/fireworks/models/llama-v3p1-8b-instruct";
const GEMINI: &str = "gemini-2.5-flash";
const DATASETS: &str = "/v1/accounts/my-account/datasets";
const JOBS: &str = "/v1/accounts/my-account/batchInferenceJobs";

/// What is known of an account: datasets with their bytes, and the job.
#[derive(Default)]
struct Account {
    datasets: BTreeMap<String, (Value, Option<Vec<u8>>)>,
    job: Option<Value>,
    looks: usize,
    /// What uploads are answered with.
    refuses: bool,
}

type SharedAccount = Arc<Mutex<Account>>;

/// The file of a form with one part.
fn part(body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body).into_owned();
    let inner = text.split_once("\r\n\r\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    inner.rsplit_once("\r\n--").map(|(file, _)| file.as_bytes().to_vec()).unwrap_or_default()
}

fn answer(text: &str) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": LLAMA,
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 } })
}

/// Fireworks, whose files lie at a host of their own.
pub(crate) struct Fireworks {
    api: Upstream,
    store: Upstream,
    account: SharedAccount,
}

impl Fireworks {
    pub(crate) async fn start() -> Self {
        let account = SharedAccount::default();
        let (kept, lies) = (account.clone(), account.clone());
        let store = Upstream::replying(move |seen| {
            let (path, _) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
            match path {
                "/signed/out" => jsonl(&[
                    json!({ "custom_id": "line-2", "response": answer("two") }),
                    json!({ "custom_id": "line-0", "response": answer("zero") }),
                ]),
                "/signed/errors" => {
                    jsonl(&[json!({ "custom_id": "line-1", "error": { "code": 400, "message": "bad row" } })])
                }
                path => match lies.lock().datasets.get(path.trim_start_matches("/signed/")) {
                    Some((_, Some(bytes))) => reply::whole(200, &[("content-type", "application/jsonl")], bytes),
                    _ => reply::error(404, &[]),
                },
            }
        });
        let store = store.await;
        let address = store.url().trim_end_matches("/v1").to_owned();
        let api = Upstream::replying(move |seen| fireworks_reply(seen, &kept, &address)).await;
        Self { api, store, account }
    }

    pub(crate) fn config(&self) -> Value {
        json!({ "provider": "fireworks-ai", "api_key": "fw-secret", "custom_host": bare(&self.api),
                "fireworks_account_id": "my-account" })
    }

    fn calls(&self, method: &str, ends: &str) -> Vec<Seen> {
        self.api.seen().into_iter().filter(|seen| seen.method == method && seen.target.ends_with(ends)).collect()
    }
}

fn fireworks_reply(seen: &Seen, account: &SharedAccount, store: &str) -> Vec<u8> {
    let mut account = account.lock();
    let path = seen.target.split('?').next().unwrap_or_default();
    let nothing = || reply::json(404, &json!({ "code": 5, "message": "resource not found" }));
    let name = path.strip_prefix(DATASETS).unwrap_or_default().trim_start_matches('/');
    match (seen.method.as_str(), path) {
        ("POST", DATASETS) => {
            let (asked, id) = (seen.json(), text(&seen.json(), "datasetId"));
            let dataset = with(
                asked["dataset"].clone(),
                json!({ "name": format!("accounts/my-account/datasets/{id}"), "state": "UPLOADING",
                        "createTime": "2025-01-01T00:00:00Z" }),
            );
            account.datasets.insert(id, (dataset.clone(), None));
            reply::json(200, &dataset)
        }
        ("GET", DATASETS) => {
            let all: Vec<Value> = account.datasets.values().map(|(dataset, _)| dataset.clone()).collect();
            reply::json(200, &json!({ "datasets": all, "nextPageToken": "" }))
        }
        ("POST", path) if path.starts_with(DATASETS) && path.ends_with(":upload") => {
            if account.refuses {
                return reply::json(400, &json!({ "code": 3, "message": "no such rows" }));
            }
            let bytes = part(&seen.body);
            if let Some(dataset) = account.datasets.get_mut(name.trim_end_matches(":upload")) {
                dataset.0["state"] = "READY".into();
                dataset.1 = Some(bytes);
            }
            reply::json(200, &json!({ "object": "file" }))
        }
        ("GET", path) if path.ends_with(":getDownloadEndpoint") => {
            let name = name.trim_end_matches(":getDownloadEndpoint");
            let url = |name: &str| json!(format!("{store}/signed/{name}?X-Goog-Signature=s%2Fs"));
            let files = match name {
                "elsewhere" => json!({ "a": "http://169.254.169.254/latest" }),
                "several" => json!({ "a": url("a"), "b": url("b") }),
                name if name.ends_with("-out") => {
                    json!({ "BIJOutputSet.jsonl": url("out"), "error-data": url("errors") })
                }
                name if account.datasets.contains_key(name) => json!({ "lines.jsonl": url(name) }),
                _ => return nothing(),
            };
            reply::json(200, &json!({ "filenameToSignedUrls": files }))
        }
        ("GET", path) if path.starts_with(DATASETS) => match account.datasets.get(name) {
            Some((dataset, _)) => reply::json(200, dataset),
            None => nothing(),
        },
        ("DELETE", path) if path.starts_with(DATASETS) => match account.datasets.remove(name) {
            Some(_) => reply::json(200, &json!({})),
            None => nothing(),
        },
        ("POST", JOBS) => {
            let id = seen.target.split_once("batchInferenceJobId=").map(|(_, id)| id).unwrap_or_default();
            let job = with(
                seen.json(),
                json!({ "name": format!("accounts/my-account/batchInferenceJobs/{id}"),
                "state": "JOB_STATE_VALIDATING", "createTime": "2025-01-01T00:00:00Z", "updateTime": "2025-01-01T01:00:00Z" }),
            );
            account.job = Some(job.clone());
            reply::json(200, &job)
        }
        ("GET", JOBS) => reply::json(200, &json!({ "batchInferenceJobs": account.job.iter().collect::<Vec<_>>() })),
        ("GET", path) if path.starts_with(JOBS) => {
            account.looks += 1;
            let state = ["PENDING", "RUNNING", "COMPLETED"][(account.looks - 1).min(2)];
            match &account.job {
                Some(job) if job["name"].as_str().is_some_and(|name| path.ends_with(name)) => {
                    let progress = json!({ "totalInputRequests": 1, "totalProcessedRequests": 3,
                                           "successfullyProcessedRequests": 2, "failedRequests": 1 });
                    let more = json!({ "state": format!("JOB_STATE_{state}"), "jobProgress": progress });
                    reply::json(200, &with(job.clone(), more))
                }
                _ => nothing(),
            }
        }
        ("DELETE", path) if path.starts_with(JOBS) => {
            account.job = None;
            reply::json(200, &json!({}))
        }
        ("POST", path) if path.ends_with("/chat/completions") => reply::json(200, &answer("plain")),
        other => panic!("nobody asks {other:?}"),
    }
}

async fn upload(gateway: &Gateway, config: &Value, (purpose, lines): (&str, &str)) -> Value {
    let body = form(&[("file", Some("lines.jsonl"), lines.as_bytes()), ("purpose", None, purpose.as_bytes())]);
    gateway.post("/v1/files").config(config).body(FORM, body).send().await.expect(200).json()
}

pub(crate) fn three(model: &str) -> String {
    (0..3).map(|n| line(&format!("line-{n}"), CHAT, &prompt(model, n))).collect()
}

#[tokio::test]
async fn a_file_at_fireworks_is_a_dataset_and_is_read_where_it_lies_without_a_credential() {
    let (gateway, fireworks) = (Gateway::start().await, Fireworks::start().await);
    let config = fireworks.config();
    let rows = "{\"messages\":[]}\n{\"messages\":[]}\n";
    let made = upload(&gateway, &config, ("fine-tune", rows)).await;
    let id = text(&made, "id");
    assert!(id.starts_with("gwf-") && id.len() == 37, "{id}");
    let told = ["object", "filename", "purpose", "status"].map(|name| made[name].clone());
    assert_eq!(told, ["file", "lines.jsonl", "fine-tune", "processed"].map(Value::from));
    assert_eq!(made["bytes"], rows.len());
    assert!((1_500_000_000..10_000_000_000).contains(&made["created_at"].as_i64().expect("seconds")), "{made}");
    let creation = &fireworks.calls("POST", "/datasets")[0];
    assert_eq!(creation.header("authorization"), Some("Bearer fw-secret"));
    assert_eq!(creation.json()["dataset"]["exampleCount"], "2");
    assert_eq!(part(&fireworks.calls("POST", ":upload")[0].body), rows.as_bytes());
    let path = format!("/v1/files/{id}");
    let call = |method: &str, path: &str| gateway.call(method, path).config(&config);
    let found = call("GET", &path).send().await.expect(200).json();
    assert_eq!((&found["id"], &found["created_at"]), (&json!(id), &json!(1_735_689_600)));
    let content = call("GET", &format!("{path}/content")).send().await.expect(200);
    assert_eq!((content.text(), content.whole), (rows.to_owned(), true));
    let read = fireworks.store.seen().pop().expect("it was read");
    assert_eq!((read.header("authorization"), read.target.ends_with("?X-Goog-Signature=s%2Fs")), (None, true));
    // What did not come by here is listed and looked at, and not removed; what came from another workspace is unknown.
    for name in ["own", "gwf-000000000000-11111111111111111111", "gw-batch-11111111111111111111"] {
        let dataset = json!({ "name": format!("accounts/my-account/datasets/{name}"), "state": "READY" });
        fireworks.account.lock().datasets.insert(name.to_owned(), (dataset, None));
    }
    let list = call("GET", "/v1/files").send().await.expect(200).json();
    let ids: Vec<_> = list["data"].as_array().expect("a list").iter().map(|file| file["id"].clone()).collect();
    assert_eq!(ids, [json!(id), json!("own")]);
    assert!(call("DELETE", "/v1/files/own").send().await.expect(403).text().contains("came by the gateway"));
    let mut unknown = Vec::new();
    for name in ["gwf-000000000000-11111111111111111111", "gw-batch-11111111111111111111", "nothing", "a%2Fb", "a%3Ab"]
    {
        for (method, tail) in [("GET", ""), ("GET", "/content"), ("DELETE", "")] {
            if (name, method) == ("nothing", "DELETE") {
                continue;
            }
            unknown.push(call(method, &format!("/v1/files/{name}{tail}")).send().await.expect(404).text());
        }
    }
    assert!(unknown.iter().all(|text| *text == unknown[0]), "{unknown:?}");
    // Addresses that a provider tells are called as far as any may be.
    assert!(call("GET", "/v1/files/several/content").send().await.expect(400).text().contains("several files"));
    let told = call("GET", "/v1/files/elsewhere/content").send().await.expect(502).text();
    assert!(told.contains("fireworks-ai: the address ") && !told.contains("169.254"), "{told}");
    let gone = call("DELETE", &path).send().await.expect(200).json();
    assert_eq!(gone, json!({ "id": id, "object": "file", "deleted": true }));
    call("GET", &path).send().await.expect(404);
    // Nothing stays of what did not arrive, and what is not there is asked for by name.
    fireworks.account.lock().refuses = true;
    let body = form(&[("file", Some("l.jsonl"), rows.as_bytes()), ("purpose", None, b"fine-tune")]);
    let told = gateway.post("/v1/files").config(&config).body(FORM, body.clone()).send().await.expect(400);
    assert!(told.text().contains("no such rows"), "{}", told.text());
    assert!(fireworks.account.lock().datasets.keys().all(|name| !name.starts_with("gwf-6")), "nothing is left");
    let mut homeless = config.clone();
    homeless.as_object_mut().expect("an object").remove("fireworks_account_id");
    let told = gateway.post("/v1/files").config(&homeless).body(FORM, body).send().await.expect(400);
    assert!(told.text().contains("fireworks_account_id"), "{}", told.text());
}

#[tokio::test]
async fn a_batch_at_fireworks_is_told_in_openais_words() {
    let (gateway, fireworks) = (Gateway::start().await, Fireworks::start().await);
    let config = fireworks.config();
    let file = text(&upload(&gateway, &config, ("batch", &three(LLAMA))).await, "id");
    let up = part(&fireworks.calls("POST", ":upload")[0].body);
    let rows: Vec<Value> = jsonl_of(&up);
    let mut plain = prompt(LLAMA, 1);
    plain.as_object_mut().expect("an object").remove("model");
    assert_eq!((rows.len(), &rows[1]), (3, &json!({ "custom_id": "line-1", "body": plain })));
    let asked = json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h", "model": LLAMA,
                        "metadata": { "of": "tests" } });
    let post = |body: Value| gateway.post("/v1/batches").config(&config).json(&body);
    let other = json!({ "input_file_id": "gwb-000000000000-11111111111111111111" });
    post(with(asked.clone(), other)).send().await.expect(404);
    let made = post(asked).send().await.expect(200).json();
    let id = text(&made, "id");
    assert_eq!((&made["status"], &made["input_file_id"]), (&json!("validating"), &json!(file)));
    let job = fireworks.account.lock().job.clone().expect("a job");
    assert_eq!(
        (&job["model"], &job["inputDatasetId"]),
        (&json!(LLAMA), &json!(format!("accounts/my-account/datasets/{file}")))
    );
    let call = |method: &str, path: String| gateway.call(method, &path).config(&config);
    let show = || async { call("GET", format!("/v1/batches/{id}")).send().await.expect(200).json() };
    assert_eq!(
        (show().await["status"].clone(), show().await["status"].clone()),
        (json!("validating"), json!("in_progress"))
    );
    let batch = show().await;
    assert_eq!((&batch["status"], &batch["completed_at"]), (&json!("completed"), &json!(1_735_693_200)));
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    let mut found = BTreeMap::new();
    for which in ["output_file_id", "error_file_id"] {
        let path = format!("/v1/files/{}/content", text(&batch, which));
        for line in jsonl_of(call("GET", path).send().await.expect(200).text().as_bytes()) {
            found.insert(text(&line, "custom_id"), (which, line["response"].clone()));
        }
    }
    assert_eq!(found["line-2"].1["body"]["choices"][0]["message"]["content"], "two");
    assert_eq!((found.len(), found["line-1"].0, &found["line-1"].1["status_code"]), (3, "error_file_id", &json!(400)));
    assert!(
        fireworks.store.seen().iter().all(|seen| seen.header("authorization").is_none()),
        "no credential goes there"
    );
    let list = call("GET", "/v1/batches".to_owned()).send().await.expect(200).json();
    assert_eq!(list["data"][0]["id"], json!(id));
    // Each line is counted once, at half of the price.
    gateway
        .chat()
        .config(&config)
        .header("x-gateway-trace-id", "full")
        .json(&prompt(LLAMA, 0))
        .send()
        .await
        .expect(200);
    let (full, one) = (
        crate::family_batches::cost(&gateway, "full").await,
        crate::family_batches::cost(&gateway, &format!("{id}-1")).await,
    );
    assert!(full > 0.0 && (one * 2.0 - full).abs() < 1e-9, "{one} in a batch, {full} outside");
}

/// Removing is all the cancelling that there is.
#[tokio::test]
async fn a_batch_at_fireworks_that_is_cancelled_is_gone() {
    let (gateway, fireworks) = (Gateway::start().await, Fireworks::start().await);
    let config = fireworks.config();
    let file = text(&upload(&gateway, &config, ("batch", &three(LLAMA))).await, "id");
    let asked = json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h", "model": LLAMA });
    let made = gateway.post("/v1/batches").config(&config).json(&asked).send().await.expect(200).json();
    let path = format!("/v1/batches/{}", text(&made, "id"));
    let told = gateway.call("POST", &format!("{path}/cancel")).config(&config).send().await.expect(200).json();
    assert_eq!((&told["status"], &told["id"]), (&json!("cancelled"), &made["id"]));
    gateway.get(&path).config(&config).send().await.expect(404);
}

fn jsonl_of(text: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(text).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn the_gateway_looks_after_a_batch_at_fireworks() {
    let (gateway, fireworks) = (Gateway::with(FAST).await, Fireworks::start().await);
    let config = fireworks.config();
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &three(LLAMA)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 3, "completed": 2, "failed": 1 }));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good["line-0"]["response"]["body"]["choices"][0]["message"]["content"], "zero");
    assert_eq!(bad["line-1"]["response"]["status_code"], 400);
    let name = format!("gw-batch-{}", &id[id.len() - 20..]);
    let creation = fireworks.calls("POST", "/datasets")[0].json();
    assert_eq!((&creation["datasetId"], &creation["dataset"]["exampleCount"]), (&json!(name), &json!("3")));
    let dataset = |tail: &str| json!(format!("accounts/my-account/datasets/{name}{tail}"));
    let asked = fireworks.calls("POST", &format!("batchInferenceJobId={name}"))[0].json();
    assert_eq!((&asked["inputDatasetId"], &asked["outputDatasetId"]), (&dataset(""), &dataset("-out")));
    let removed = || async { (fireworks.calls("DELETE", &format!("/datasets/{name}")).len() == 1).then_some(()) };
    eventually("what went up to go", removed).await;
    // One that is cancelled is gone there, and told here.
    fireworks.account.lock().looks = 0;
    let slow = Gateway::with(&["--batch-poll", "400ms", "--batch-lease", "1s"]).await;
    let id = make(&slow, &config, &by_provider(&file(&slow, &three(LLAMA)).await)).await;
    let is_there = || async { fireworks.account.lock().job.clone().filter(|job| job["displayName"] == json!(id)) };
    eventually("the job", is_there).await;
    slow.call("POST", &format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    let batch = ended(&slow, &id, "cancelled").await;
    let bad = results(&slow, &batch, "error_file_id").await;
    assert_eq!((bad.len(), &bad["line-1"]["error"]["code"]), (3, &json!("batch_cancelled")));
}

/// Gemini's files by their names, and its batch.
pub(crate) async fn google() -> Upstream {
    let files = Arc::<Mutex<BTreeMap<String, Value>>>::default();
    Upstream::replying(move |seen| {
        let mut files = files.lock();
        let path = seen.target.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        match (seen.method.as_str(), path) {
            ("POST", "/upload/v1beta/files") => {
                let text = seen.text();
                let about: Value =
                    text.lines().find_map(|line| serde_json::from_str(line).ok()).expect("what is said of it");
                let name = about["file"]["name"].as_str().unwrap_or_default().trim_start_matches("files/").to_owned();
                let more = json!({ "createTime": "2025-01-01T00:00:00Z", "expirationTime": "2025-01-03T00:00:00Z",
                    "sizeBytes": "7", "state": "ACTIVE", "uri": format!("https://example.com/{name}") });
                let told = with(about["file"].clone(), more);
                files.insert(name, told.clone());
                reply::json(200, &json!({ "file": told }))
            }
            ("GET", "/v1beta/files") => reply::json(200, &json!({ "files": files.values().collect::<Vec<_>>() })),
            ("GET", "/download/v1beta/files/batch-1:download") => jsonl(&[
                json!({ "key": "line-1", "error": { "code": 3, "message": "no such field" } }),
                json!({ "key": "line-0", "response": gemini("zero") }),
            ]),
            ("GET", path) if path.ends_with(":download") => {
                let why = json!({ "code": 400, "message": "Only generated files can be downloaded", "status": "INVALID_ARGUMENT" });
                reply::json(400, &json!({ "error": why }))
            }
            ("GET", path) if path.starts_with("/v1beta/files/") => match files.get(name) {
                Some(file) => reply::json(200, file),
                None => reply::error(404, &[]),
            },
            ("DELETE", path) if path.starts_with("/v1beta/files/") => {
                files.remove(name);
                reply::json(200, &json!({}))
            }
            ("POST", path) if path.ends_with(":batchGenerateContent") => {
                reply::json(200, &json!({ "name": "batches/123", "metadata": { "state": "BATCH_STATE_PENDING" } }))
            }
            ("GET", "/v1beta/batches/123") => {
                let metadata = json!({ "state": "BATCH_STATE_SUCCEEDED", "model": "models/gemini-2.5-flash",
                    "batchStats": { "requestCount": "2", "successfulRequestCount": "1", "failedRequestCount": "1" },
                    "createTime": "2025-01-01T00:00:00Z", "endTime": "2025-01-01T01:00:00Z" });
                let response = json!({ "responsesFile": "files/batch-1" });
                reply::json(200, &json!({ "name": "batches/123", "metadata": metadata, "done": true, "response": response }))
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
    .await
}

#[tokio::test]
async fn geminis_files_are_openais_for_clients_of_openai_and_batches_are_made_of_them() {
    let (gateway, upstream) = (Gateway::start().await, google().await);
    let config = json!({ "provider": "google", "api_key": "k", "custom_host": bare(&upstream) });
    let call = |method: &str, path: &str| gateway.call(method, path).config(&config);
    let made = upload(&gateway, &config, ("user_data", "a note\n")).await;
    let id = text(&made, "id");
    assert!(id.starts_with("gwu-") && id.len() <= 40, "{id}");
    let up = upstream.seen().into_iter().find(|seen| seen.method == "POST").expect("it went up");
    assert_eq!(up.target, "/upload/v1beta/files?uploadType=multipart");
    assert!(up.text().contains("\r\n\r\na note\n\r\n--"), "{}", up.text());
    assert_eq!((up.header("x-goog-api-key"), &made["expires_at"]), (Some("k"), &json!(1_735_862_400)));
    assert_eq!(made["uri"], json!(format!("https://example.com/{id}")));
    let path = format!("/v1/files/{id}");
    let found = call("GET", &path).send().await.expect(200).json();
    assert_eq!(found, with(made, json!({ "created_at": 1_735_689_600 })));
    let list = call("GET", "/v1/files").send().await.expect(200).json();
    assert_eq!((&list["data"][0], list["data"].as_array().map(Vec::len)), (&found, Some(1)));
    // What was uploaded is not given back, as the provider says.
    let told = call("GET", &format!("{path}/content")).send().await.expect(400).text();
    assert!(told.contains("Only generated files"), "{told}");
    call("DELETE", &path).send().await.expect(200);
    call("GET", &path).send().await.expect(404);
    let two = (0..2).map(|n| line(&format!("line-{n}"), CHAT, &prompt(GEMINI, n))).collect::<String>();
    let file = text(&upload(&gateway, &config, ("batch", &two)).await, "id");
    let asked = json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h", "model": GEMINI });
    let made = gateway.post("/v1/batches").config(&config).json(&asked).send().await.expect(200).json();
    assert_eq!((&made["id"], &made["input_file_id"]), (&json!("123"), &json!(file)));
    let creation = upstream.seen().pop().expect("a call");
    assert_eq!(creation.target, format!("/v1beta/models/{GEMINI}:batchGenerateContent"));
    assert_eq!(creation.json()["batch"]["inputConfig"], json!({ "fileName": format!("files/{file}") }));
    let batch = call("GET", "/v1/batches/123").send().await.expect(200).json();
    assert_eq!((&batch["status"], &batch["request_counts"]["failed"]), (&json!("completed"), &json!(1)));
    let path = format!("/v1/files/{}/content", text(&batch, "output_file_id"));
    let good = jsonl_of(call("GET", &path).send().await.expect(200).text().as_bytes());
    assert_eq!((good.len(), &good[0]["custom_id"]), (1, &json!("line-0")));
    assert_eq!(good[0]["response"]["body"]["choices"][0]["message"]["content"], "zero");
}

#[tokio::test]
async fn among_several_targets_ids_of_such_files_are_bound() {
    let (gateway, fireworks, google) = (Gateway::start().await, Fireworks::start().await, google().await);
    let other = json!({ "provider": "google", "api_key": "k", "custom_host": bare(&google) });
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": [fireworks.config(), other] });
    let made = upload(&gateway, &config, ("fine-tune", "{}\n")).await;
    let held = text(&made, "id");
    assert!(held.contains("gw1_") && !held.contains("gwf-"), "{held}");
    let path = format!("/v1/files/{held}");
    assert_eq!(gateway.get(&path).config(&config).send().await.expect(200).json()["id"], made["id"]);
    let list = gateway.get("/v1/files").config(&config).send().await.expect(200).json();
    assert_eq!((&list["data"][0]["id"], &list["last_id"]), (&made["id"], &made["id"]));
    assert_eq!(gateway.call("DELETE", &path).config(&config).send().await.expect(200).json()["id"], made["id"]);
}

/// A provider's list may be without an end; what is looked at of it is not.
#[tokio::test]
async fn lists_are_looked_at_as_far_as_their_bounds() {
    let gateway = Gateway::start().await;
    let endless = Upstream::replying(|seen| match seen.target.contains("list-type=2") {
        true => {
            let page = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken>\
                        </ListBucketResult>";
            reply::whole(200, &[("content-type", "application/xml")], page)
        }
        false => {
            let file = json!({ "name": "files/abc", "createTime": "2025-01-01T00:00:00Z" });
            reply::json(200, &json!({ "files": [file], "nextPageToken": "n" }))
        }
    });
    let endless = endless.await;
    let google = json!({ "provider": "google", "api_key": "k", "custom_host": bare(&endless) });
    let list = gateway.get("/v1/files?limit=100").config(&google).send().await.expect(200).json();
    assert_eq!((list["data"].as_array().map(Vec::len), &list["has_more"]), (Some(20), &json!(true)));
    assert_eq!(endless.seen().len(), 20);
    let cloud = json!({ "provider": "vertex-ai", "api_key": "ya29.token", "custom_host": bare(&endless),
        "vertex_project_id": "p", "vertex_region": "us-central1", "vertex_storage_bucket_name": "my-bucket" });
    let told = gateway.get("/v1/files").config(&cloud).send().await.expect(400).text();
    assert!(told.contains("10,000") && endless.seen().len() == 30, "{told}");
}
