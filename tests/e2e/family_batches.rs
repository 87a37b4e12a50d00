//! Batches at providers whose interface for batches is their own: OpenAI's lines go up as those providers are asked,
//! and what came of each is told and counted as for any batch.

use crate::batches::{CHAT, ask, asked, ended, file, line, results, text};
use crate::harness::{Gateway, Seen, Upstream, eventually, reply, with};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// The lease is one that a busy machine keeps: a batch whose lease ran out while it was made is looked for.
pub(crate) const FAST: &[&str] = &["--batch-poll", "100ms", "--batch-lease", "5s"];

/// How a provider answers to a call: by the times that its batch was looked at, and whether it was cancelled.
pub(crate) type Script = dyn Fn(&Seen, usize, bool) -> Vec<u8> + Send + Sync;

/// A provider with batches of a kind of its own.
pub(crate) struct FamilyProvider {
    upstream: Upstream,
    looks: Arc<AtomicUsize>,
}

impl FamilyProvider {
    /// `look`: the path at which its batch is looked at.
    pub(crate) async fn start(look: &'static str, script: Box<Script>) -> Self {
        let (looks, cancelled, script) =
            (Arc::<AtomicUsize>::default(), Arc::new(AtomicBool::new(false)), Arc::new(script));
        let counted = looks.clone();
        let upstream = Upstream::scripted(move |mut peer| {
            let (looks, cancelled, script) = (counted.clone(), cancelled.clone(), script.clone());
            async move {
                while let Some(seen) = peer.request().await {
                    if seen.method == "GET" && (path(&seen) == look || seen.target == look) {
                        looks.fetch_add(1, SeqCst);
                    }
                    if seen.target.contains("cancel") {
                        cancelled.store(true, SeqCst);
                    }
                    let answer = script(&seen, looks.load(SeqCst), cancelled.load(SeqCst));
                    if answer.is_empty() {
                        // The connection is cut, and nobody learns what became of it.
                        return;
                    }
                    if !peer.send(answer).await {
                        return;
                    }
                }
            }
        });
        Self { upstream: upstream.await, looks }
    }

    /// Its address, without a path.
    pub(crate) fn host(&self) -> String {
        crate::clouds::bare(&self.upstream)
    }

    pub(crate) fn seen(&self) -> usize {
        self.upstream.seen().len()
    }

    pub(crate) fn config(&self, family: &str) -> Value {
        json!({ "provider": family, "api_key": "sk-upstream", "custom_host": self.upstream.url() })
    }

    pub(crate) fn calls(&self, method: &str, target: &str) -> Vec<Seen> {
        self.upstream
            .seen()
            .into_iter()
            .filter(|seen| seen.method == method && (path(seen) == target || seen.target == target))
            .collect()
    }
}

/// The path below the provider's address.
fn path(seen: &Seen) -> &str {
    seen.target.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(&seen.target)
}

pub(crate) fn jsonl(lines: &[Value]) -> Vec<u8> {
    let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    reply::whole(200, &[("content-type", "application/x-jsonl")], text)
}

pub(crate) fn by_provider(file: &str) -> Value {
    with(asked(file), json!({ "completion_window": "24h" }))
}

pub(crate) async fn make(gateway: &Gateway, config: &Value, body: &Value) -> String {
    let made = gateway.post("/v1/batches").config(config).json(body).send().await.expect(200).json();
    text(&made, "id")
}

pub(crate) fn prompt(model: &str, n: usize) -> Value {
    let format = json!({ "role": "system", "content": "Be brief." });
    json!({ "model": model, "messages": [format, ask(n)], "max_tokens": 50, "temperature": 0.5, "stop": ["END"] })
}

/// What a call in the client's own dialect sends up, to compare lines with.
pub(crate) async fn translated(
    gateway: &Gateway,
    provider: &FamilyProvider,
    config: &Value,
    body: &Value,
    target: &str,
) -> Value {
    gateway.chat().config(config).json(body).send().await.expect(200);
    provider.calls("POST", target).pop().expect("it was asked").json()
}

/// Cost in cents of the call with this trace, once it is known.
pub(crate) async fn cost(gateway: &Gateway, trace: &str) -> f64 {
    let found = eventually(trace, || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        (list["total"] == 1).then(|| list["data"][0]["metrics"]["cost"].as_f64().unwrap_or_default())
    });
    found.await
}

pub(crate) const CLAUDE: &str = "claude-sonnet-4-5";
pub(crate) const CLAUDE_BATCH: &str = "/messages/batches/msgbatch_1";

fn message(n: usize) -> Value {
    json!({ "id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": CLAUDE,
            "content": [{ "type": "text", "text": format!("answer-{n}") }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 1000, "output_tokens": 100 } })
}

pub(crate) fn claude(until: usize, results: fn() -> Vec<Value>) -> Box<Script> {
    Box::new(move |seen, looks, cancelled| {
        let standing = |status: &str, counts: Value| {
            let initiated = cancelled.then_some("2026-09-24T18:39:03.114875Z");
            reply::json(
                200,
                &json!({ "id": "msgbatch_1", "type": "message_batch", "processing_status": status,
                                      "request_counts": counts, "cancel_initiated_at": initiated, "results_url": null }),
            )
        };
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/messages") => reply::json(200, &message(9)),
            ("POST", "/messages/batches") => standing("in_progress", json!({ "processing": 4 })),
            ("POST", "/messages/batches/msgbatch_1/cancel") => standing("canceling", json!({ "processing": 4 })),
            ("GET", CLAUDE_BATCH) if looks >= until || cancelled => {
                standing("ended", json!({ "succeeded": 2, "errored": 1, "canceled": 1 }))
            }
            ("GET", CLAUDE_BATCH) => standing("in_progress", json!({ "processing": 4 })),
            ("GET", "/messages/batches/msgbatch_1/results") => jsonl(&results()),
            other => panic!("nobody asks {other:?}"),
        }
    })
}

pub(crate) fn claudes_results() -> Vec<Value> {
    let error = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no such tool" } });
    // Results come in an order of their own.
    vec![
        json!({ "custom_id": "gw_line_3", "result": { "type": "succeeded", "message": message(2) } }),
        json!({ "custom_id": "line-1", "result": { "type": "errored", "error": error } }),
        json!({ "custom_id": "line-3", "result": { "type": "expired" } }),
        json!({ "custom_id": "line-0", "result": { "type": "succeeded", "message": message(0) } }),
        json!({ "custom_id": "line-of-nobody", "result": { "type": "succeeded", "message": message(7) } }),
    ]
}

/// Four lines, of which one has a name that Anthropic would not take.
pub(crate) fn four(model: &str) -> String {
    let name = |n: usize| if n == 2 { "line two, with words".to_owned() } else { format!("line-{n}") };
    (0..4).map(|n| line(&name(n), CHAT, &prompt(model, n))).collect()
}

#[tokio::test]
async fn lines_go_to_anthropic_with_the_batch_and_come_back_in_any_order() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(3, claudes_results)).await;
    let config = provider.config("anthropic");
    let file = file(&gateway, &four(CLAUDE)).await;
    let id = make(&gateway, &config, &by_provider(&file)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    assert_eq!(batch["provider_job_id"], "msgbatch_1");
    assert_eq!((&batch["usage"]["input_tokens"], &batch["usage"]["output_tokens"]), (&json!(2000), &json!(200)));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good.keys().collect::<Vec<_>>(), ["line two, with words", "line-0"]);
    for (name, said) in [("line-0", "answer-0"), ("line two, with words", "answer-2")] {
        let response = &good[name]["response"];
        let told = (&response["status_code"], &response["body"]["object"]);
        assert_eq!(told, (&json!(200), &json!("chat.completion")), "{response}");
        assert_eq!(response["body"]["choices"][0]["message"]["content"], said);
        assert_eq!(response["body"]["usage"]["prompt_tokens"], 1000);
    }
    assert_eq!(bad["line-1"]["response"]["status_code"], 400);
    let why = text(&bad["line-1"]["response"]["body"]["error"], "message");
    assert!(why.contains("no such tool"), "{why}");
    assert_eq!((&bad["line-3"]["error"]["code"], &bad["line-3"]["response"]), (&json!("batch_expired"), &Value::Null));
    // What went up is what a call of each would have been.
    let made = provider.calls("POST", "/messages/batches");
    let (up, requests) = (&made[0], made[0].json()["requests"].clone());
    let names: Vec<_> = requests.as_array().expect("a list").iter().map(|one| one["custom_id"].clone()).collect();
    assert_eq!((made.len(), names), (1, ["line-0", "line-1", "gw_line_3", "line-3"].map(Value::from).to_vec()));
    assert_eq!(requests[0]["params"], translated(&gateway, &provider, &config, &prompt(CLAUDE, 0), "/messages").await);
    let header = |name: &str| up.header(name).unwrap_or_default().to_owned();
    assert_eq!((header("x-api-key"), header("anthropic-version")), ("sk-upstream".into(), "2023-06-01".into()));
    assert_eq!(header("content-type"), "application/json");
    // Each line has its own record, at half of the usual price; one that failed costs nothing.
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "full").json(&prompt(CLAUDE, 0));
    call.send().await.expect(200);
    let (full, first, refused) = (
        cost(&gateway, "full").await,
        cost(&gateway, &format!("{id}-1")).await,
        cost(&gateway, &format!("{id}-2")).await,
    );
    assert!(full > 0.0 && (first * 2.0 - full).abs() < 1e-9, "{first} in a batch, {full} outside");
    assert!(refused.abs() < 1e-12);
    // However often it is looked at.
    for _ in 0..50 {
        crate::batches::batch(&gateway, &id).await;
    }
    let all = gateway.admin().get(&format!("/logs?trace_id={id}-1")).await.expect(200).json();
    assert_eq!((&all["total"], provider.calls("GET", "/messages/batches/msgbatch_1/results").len()), (&json!(1), 1));
}

#[tokio::test]
async fn what_anthropic_may_not_be_asked_fails_the_batch_by_its_line() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(1, claudes_results)).await;
    let config = provider.config("anthropic");
    let broken = with(prompt(CLAUDE, 1), json!({ "n": 3 }));
    let lines = [line("a", CHAT, &prompt(CLAUDE, 0)), line("b", CHAT, &broken), line("c", CHAT, &broken)].concat();
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &lines).await)).await;
    let errors = ended(&gateway, &id, "failed").await["errors"]["data"].clone();
    let told: Vec<_> = errors.as_array().expect("a list").iter().map(|error| error["line"].clone()).collect();
    assert_eq!(told, [json!(2), json!(3)], "{errors}");
    assert!(errors[0]["code"] == "invalid_request" && text(&errors[0], "message").contains('n'), "{errors}");
    let embed = line("a", "/v1/embeddings", &json!({ "model": CLAUDE, "input": "x" }));
    let body = with(by_provider(&file(&gateway, &embed).await), json!({ "endpoint": "/v1/embeddings" }));
    let id = make(&gateway, &config, &body).await;
    let errors = ended(&gateway, &id, "failed").await["errors"]["data"].clone();
    assert!(errors[0]["code"] == "provider_refused" && errors.to_string().contains("/v1/embeddings"), "{errors}");
    let option = with(by_provider(&file(&gateway, &four(CLAUDE)).await), json!({ "provider_options": { "job": "x" } }));
    let id = make(&gateway, &config, &option).await;
    let errors = ended(&gateway, &id, "failed").await["errors"]["data"].clone();
    assert!(errors.to_string().contains("provider_options.job"), "{errors}");
    assert_eq!(provider.upstream.seen().len(), 0, "nothing went up");
}

#[tokio::test]
async fn one_that_is_cancelled_is_cancelled_there_and_keeps_what_was_answered() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(usize::MAX, claudes_results)).await;
    let file = file(&gateway, &four(CLAUDE)).await;
    let id = make(&gateway, &provider.config("anthropic"), &by_provider(&file)).await;
    eventually("a look", || async { (provider.looks.load(SeqCst) > 1).then_some(()) }).await;
    gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    let batch = ended(&gateway, &id, "cancelled").await;
    assert_eq!(results(&gateway, &batch, "output_file_id").await.len(), 2);
    assert_eq!(provider.calls("POST", "/messages/batches/msgbatch_1/cancel").len(), 1);
}

/// What a batch used counts, and more than there was is debt: it ends all the same, and the next one does not begin.
#[tokio::test]
async fn lines_count_for_budgets_and_none_begins_where_nothing_is_left() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(2, claudes_results)).await;
    let config = provider.config("anthropic");
    let limits = json!({ "usage_limits": { "credit_limit": 10, "type": "tokens" } });
    let (_, key) = gateway.admin().workspace_key("small", limits).await;
    let begin = async || {
        let lines = four(CLAUDE);
        let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("lines.jsonl"), lines.as_bytes())];
        let form = crate::area_forms::form(&parts);
        let made = gateway.post("/v1/files").key(&key).body(crate::area_forms::FORM, form).send().await;
        let body = by_provider(&text(&made.expect(200).json(), "id"));
        let made = gateway.post("/v1/batches").key(&key).config(&config).json(&body).send().await.expect(200).json();
        text(&made, "id")
    };
    let id = begin().await;
    assert_eq!(ended(&gateway, &id, "completed").await["usage"]["total_tokens"], 2200);
    gateway.chat().key(&key).config(&config).json(&prompt(CLAUDE, 0)).send().await.expect(412);
    let errors = ended(&gateway, &begin().await, "failed").await["errors"]["data"].clone();
    assert_eq!(errors[0]["code"], "budget_exhausted", "{errors}");
    assert_eq!(provider.calls("POST", "/messages/batches").len(), 1);
}

/// A key that may call some models only makes batches of those.
#[tokio::test]
async fn keys_that_are_held_to_models_make_batches_of_these() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(1, claudes_results)).await;
    gateway.admin().provider("claude", "anthropic", Some(&provider.upstream.url())).await;
    let (_, key) = gateway.admin().workspace_key("held", json!({ "allowed_models": [CLAUDE] })).await;
    let run = async |model: &str, status: &str| {
        let lines = four(&format!("@claude/{model}"));
        let form =
            crate::area_forms::form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
        let made =
            gateway.post("/v1/files").key(&key).body(crate::area_forms::FORM, form).send().await.expect(200).json();
        let options = json!({ "gateway_options": { "provider": "@claude" } });
        let body = with(by_provider(&text(&made, "id")), options);
        let made = gateway.post("/v1/batches").key(&key).json(&body).send().await.expect(200).json();
        let path = format!("/v1/batches/{}", text(&made, "id"));
        eventually(status, || async {
            let batch = gateway.get(&path).key(&key).send().await.expect(200).json();
            (batch["status"] == status).then_some(())
        })
        .await;
    };
    run("claude-opus-4-1", "failed").await;
    assert_eq!(provider.upstream.seen().len(), 0);
    run(CLAUDE, "completed").await;
}

/// Results that were being counted when the process was killed are told all the same, and counted once.
#[tokio::test]
async fn a_batch_goes_on_where_a_process_died() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(CLAUDE_BATCH, claude(8, claudes_results)).await;
    let file = file(&gateway, &four(CLAUDE)).await;
    let id = make(&gateway, &provider.config("anthropic"), &by_provider(&file)).await;
    eventually("a look", || async { (provider.looks.load(SeqCst) > 1).then_some(()) }).await;
    let gateway = gateway.restart_after_kill(FAST).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    assert_eq!(provider.calls("POST", "/messages/batches").len(), 1, "it was made once");
}

const MISTRAL: &str = "mistral-small-latest";
const MISTRAL_JOB: &str = "/batch/jobs/job-1";

fn mistral() -> Box<Script> {
    Box::new(|seen, looks, cancelled| {
        let job = |status: &str, file: Value| {
            reply::json(
                200,
                &json!({ "id": "job-1", "object": "batch", "status": status, "errors": [],
                                      "output_file": file, "error_file": null, "metadata": {} }),
            )
        };
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/files") => reply::json(200, &json!({ "id": "file-in", "object": "file" })),
            ("DELETE", "/files/file-in") => reply::json(200, &json!({ "id": "file-in", "deleted": true })),
            ("POST", "/chat/completions") => reply::chat("plain"),
            ("POST", "/batch/jobs") => job("QUEUED", Value::Null),
            ("GET", MISTRAL_JOB) if cancelled => job("CANCELLED", json!("file-out")),
            ("GET", MISTRAL_JOB) if looks >= 3 => job("SUCCESS", json!("file-out")),
            ("GET", MISTRAL_JOB) => job("RUNNING", Value::Null),
            ("GET", "/files/file-out/content") => {
                let line = |n: usize, status: u16, body: Value| {
                    json!({ "id": format!("r{n}"), "custom_id": format!("line-{n}"),
                            "response": { "status_code": status, "body": body }, "error": null })
                };
                let refused = json!({ "object": "error", "message": "too long", "type": "invalid_request_error" });
                jsonl(&[
                    line(3, 200, reply::completion("three")),
                    line(1, 422, refused),
                    line(0, 200, reply::completion("zero")),
                ])
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

#[tokio::test]
async fn mistral_has_jobs_of_one_model_and_files_of_lines() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(MISTRAL_JOB, mistral()).await;
    let config = provider.config("mistral-ai");
    let file = file(&gateway, &four(MISTRAL)).await;
    let body = with(by_provider(&file), json!({ "provider_options": { "metadata": { "of": "me" } } }));
    let id = make(&gateway, &config, &body).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good["line-3"]["response"]["body"]["choices"][0]["message"]["content"], "three");
    assert_eq!(bad["line-1"]["response"]["status_code"], 422);
    assert_eq!(bad["line two, with words"]["error"]["code"], "not_answered");
    let job = provider.calls("POST", "/batch/jobs")[0].json();
    assert_eq!(job["metadata"], json!({ "of": "me", "gateway_batch_id": id }));
    assert_eq!((&job["model"], &job["input_files"]), (&json!(MISTRAL), &json!(["file-in"])));
    let up = provider.calls("POST", "/files")[0].text();
    let first = up.lines().find(|line| line.starts_with('{')).expect("a line");
    let first: Value = serde_json::from_str(first).expect("JSON");
    let mut plain = translated(&gateway, &provider, &config, &prompt(MISTRAL, 0), "/chat/completions").await;
    plain.as_object_mut().expect("an object").remove("model");
    assert_eq!(first, json!({ "custom_id": "line-0", "body": plain }));
    eventually("the file to go", || async { (provider.calls("DELETE", "/files/file-in").len() == 1).then_some(()) })
        .await;
}

const GEMINI_BATCH: &str = "/v1beta/batches/123";

fn google() -> Box<Script> {
    Box::new(|seen, looks, _| {
        let told = |state: &str, response: Value| {
            let metadata = json!({ "state": format!("BATCH_STATE_{state}"), "displayName": "x" });
            reply::json(200, &json!({ "name": "batches/123", "metadata": metadata, "response": response }))
        };
        let answered = |n: usize| {
            let answer = crate::cloud_batches::gemini(&format!("answer-{n}"));
            json!({ "response": answer, "key": format!("line-{n}") })
        };
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/v1beta/models/gemini-2.5-flash:generateContent") => {
                reply::json(200, &crate::cloud_batches::gemini("plain"))
            }
            ("POST", "/upload/v1beta/files?uploadType=multipart") => {
                reply::json(200, &json!({ "file": { "name": "files/x" } }))
            }
            ("DELETE", name) if name.starts_with("/v1beta/files/gw-batch-") => reply::json(200, &json!({})),
            ("POST", "/v1beta/models/gemini-2.5-flash:batchGenerateContent") => told("PENDING", Value::Null),
            ("GET", GEMINI_BATCH) if looks >= 3 => told("SUCCEEDED", json!({ "responsesFile": "files/batch-123" })),
            ("GET", "/download/v1beta/files/batch-123:download?alt=media") => {
                let error = json!({ "error": { "code": 3, "message": "no such field" }, "key": "line-1" });
                jsonl(&[answered(3), error, answered(0)])
            }
            ("GET", GEMINI_BATCH) => told("RUNNING", Value::Null),
            other => panic!("nobody asks {other:?}"),
        }
    })
}

#[tokio::test]
async fn geminis_requests_go_up_as_a_file_and_answers_come_as_one() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(GEMINI_BATCH, google()).await;
    let host = json!({ "custom_host": provider.host() });
    let (config, model) = (with(provider.config("google"), host), "gemini-2.5-flash");
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &four(model)).await)).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!(good["line-3"]["response"]["body"]["choices"][0]["message"]["content"], "answer-3");
    assert_eq!(bad["line-1"]["response"]["status_code"], 400);
    let made = provider.calls("POST", "/v1beta/models/gemini-2.5-flash:batchGenerateContent")[0].json();
    let up = provider.calls("POST", "/upload/v1beta/files?uploadType=multipart").remove(0);
    assert!(up.header("content-type").is_some_and(|kind| kind.starts_with("multipart/related; boundary=")));
    let text = up.text();
    let parts: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let name = format!("files/gw-batch-{}", &id[id.len() - 20..]);
    assert_eq!((&parts[0]["file"]["name"], &parts[0]["file"]["displayName"]), (&json!(name), &json!(id)));
    let target = "/v1beta/models/gemini-2.5-flash:generateContent";
    let plain = translated(&gateway, &provider, &config, &prompt(model, 0), target).await;
    assert_eq!((parts.len(), &parts[1]), (5, &json!({ "request": plain, "key": "line-0" })));
    assert_eq!(made["batch"], json!({ "displayName": id, "inputConfig": { "fileName": name } }));
    let removed = || async { (provider.calls("DELETE", &format!("/v1beta/{name}")).len() == 1).then_some(()) };
    eventually("the file to go", removed).await;
    let (one, other) = (line("a", CHAT, &prompt(model, 0)), line("b", CHAT, &prompt("gemini-2.5-pro", 0)));
    let mixed = by_provider(&file(&gateway, &(one + &other)).await);
    let errors = ended(&gateway, &make(&gateway, &config, &mixed).await, "failed").await["errors"]["data"].clone();
    assert_eq!((&errors[0]["line"], &errors[0]["code"]), (&json!(2), &json!("mismatched_model")), "{errors}");
}

const OPENAI_BATCH: &str = "/batches/batch_native";

/// What a line used: tokens of the prompt, and how many of them were cached.
const USED: [(u64, u64); 3] = [(200_000, 0), (200_000, 150_000), (300_000, 0)];

pub(crate) fn used(n: usize) -> Value {
    let (prompt, cached) = USED[n];
    json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.5",
            "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "x" } }],
            "usage": { "prompt_tokens": prompt, "completion_tokens": 1000, "total_tokens": prompt + 1000,
                       "prompt_tokens_details": { "cached_tokens": cached } } })
}

fn openai() -> Box<Script> {
    Box::new(|seen, looks, _| {
        let told = |status: &str, file: Value| {
            reply::json(
                200,
                &json!({ "id": "batch_native", "object": "batch", "status": status, "output_file_id": file }),
            )
        };
        match (seen.method.as_str(), path(seen)) {
            ("POST", "/files") => reply::json(200, &json!({ "id": "file-in", "object": "file" })),
            ("DELETE", "/files/file-in") => reply::json(200, &json!({ "id": "file-in", "deleted": true })),
            ("POST", "/batches") => told("validating", Value::Null),
            ("GET", OPENAI_BATCH) if looks >= 2 => told("completed", json!("file-out")),
            ("GET", OPENAI_BATCH) => told("in_progress", Value::Null),
            ("GET", "/files/file-out/content") => {
                let line = |n: usize| {
                    json!({ "custom_id": format!("line-{n}"), "error": null,
                            "response": { "status_code": 200, "request_id": "r", "body": used(n) } })
                };
                jsonl(&[line(2), line(0), line(1)])
            }
            ("POST", "/chat/completions") => {
                let asked = seen.json()["messages"][1]["content"].as_str().unwrap_or_default().to_owned();
                reply::json(200, &used(asked.trim_start_matches("line-").parse().unwrap_or_default()))
            }
            other => panic!("nobody asks {other:?}"),
        }
    })
}

/// Cached tokens at their rate, and the rates of long prompts for the line that is long, though all lines together are
/// longer.
#[tokio::test]
async fn each_line_is_priced_by_itself_at_the_rates_of_batches() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(OPENAI_BATCH, openai()).await;
    let config = provider.config("openai");
    let lines: String = (0..3).map(|n| line(&format!("line-{n}"), CHAT, &prompt("gpt-5.5", n))).collect();
    let id = make(&gateway, &config, &by_provider(&file(&gateway, &lines).await)).await;
    ended(&gateway, &id, "completed").await;
    let mut batched = Vec::new();
    for n in 0..3 {
        let trace = format!("plain-{n}");
        let call = gateway.chat().config(&config).header("x-gateway-trace-id", &trace).json(&prompt("gpt-5.5", n));
        call.send().await.expect(200);
        let (full, own) = (cost(&gateway, &trace).await, cost(&gateway, &format!("{id}-{}", n + 1)).await);
        assert!(full > 0.0 && (own * 2.0 - full).abs() < 1e-6, "line {n}: {own} in the batch, {full} outside");
        batched.push(own);
    }
    let [base, cached, long] = batched[..] else { panic!("three lines") };
    assert!(cached < base / 2.0, "{cached} of {base}");
    assert!(long > base * 1.5 * 1.1, "one and a half times as long, at higher rates: {long} of {base}");
}
