//! Batches that xAI runs: made of a file in one call, told by counts, and read page by page.

use crate::batches::{batch, ended, file, line, results, text};
use crate::family_batches::{FAST, FamilyProvider, Script, by_provider, cost, four, make, prompt, translated};
use crate::harness::{Gateway, Seen, Upstream, eventually, reply, with};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

pub(crate) const GROK: &str = "grok-3";
pub(crate) const LOOK: &str = "/batches/batch_1";
pub(crate) const RESULTS: &str = "/batches/batch_1/results?limit=1000";
const CANCEL: &str = "/batches/batch_1:cancel";

pub(crate) fn below(seen: &Seen) -> &str {
    seen.target.strip_prefix("/v1").unwrap_or(&seen.target)
}

pub(crate) fn completion(n: usize) -> Value {
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 });
    with(reply::completion(&format!("answer-{n}")), json!({ "model": GROK, "usage": usage }))
}

/// Requests in all, waiting, answered, failed, and cancelled.
pub(crate) fn batch_reply(counts: [u64; 5], more: Value) -> Vec<u8> {
    let [all, pending, good, bad, cancelled] = counts;
    let state = json!({ "num_requests": all, "num_pending": pending, "num_success": good, "num_error": bad,
                        "num_cancelled": cancelled });
    let batch = json!({ "batch_id": "batch_1", "name": "x", "create_time": "2025-11-11", "cancel_time": null,
                        "cancel_by_xai_message": null, "state": state });
    reply::json(200, &with(batch, more))
}

/// A page of what was answered, and the token of the next.
pub(crate) fn page(lines: &[Value], token: &Value) -> Vec<u8> {
    reply::json(200, &json!({ "results": lines, "pagination_token": token }))
}

pub(crate) fn answered(name: &str, n: usize) -> Value {
    json!({ "batch_request_id": name, "batch_result": { "response": { "chat_get_completion": completion(n) } } })
}

pub(crate) fn refused(name: &str, code: u64, why: &str) -> Value {
    json!({ "batch_request_id": name, "batch_result": { "error": { "code": code, "message": why } } })
}

/// It ends at the look `until`, or once it was cancelled.
pub(crate) fn grok(until: usize) -> Box<Script> {
    Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("POST", "/files") => reply::json(200, &json!({ "id": "file_1", "object": "file" })),
        ("GET", "/files/file_1/content") => reply::whole(200, &[], "{}\n{}\n\n{}\n{}"),
        ("DELETE", "/files/file_1") => reply::json(200, &json!({ "id": "file_1", "deleted": true })),
        ("POST", "/chat/completions") => reply::json(200, &completion(9)),
        ("POST", "/batches") => batch_reply([0; 5], json!({})),
        ("POST", CANCEL) => batch_reply([4, 2, 2, 0, 0], json!({ "cancel_time": "2025-11-11" })),
        ("GET", LOOK) if cancelled => batch_reply([4, 0, 2, 1, 1], json!({ "cancel_time": "2025-11-11" })),
        ("GET", LOOK) if looks >= until => batch_reply([4, 0, 2, 2, 0], json!({})),
        ("GET", LOOK) if looks == 1 => batch_reply([0; 5], json!({})),
        // Half of the file was read, and all of that half is done.
        ("GET", LOOK) if looks == 2 => batch_reply([2, 0, 2, 0, 0], json!({})),
        ("GET", LOOK) => batch_reply([4, 2, 2, 0, 0], json!({})),
        ("GET", RESULTS) => page(&[answered("gw_line_3", 2), refused("line-1", 3, "no such tool")], &json!("p 2")),
        // One that was told before is told again.
        ("GET", target) if *target == format!("{RESULTS}&pagination_token=p%202") => {
            let end = refused("line-3", 1, "cancelled");
            page(&[answered("gw_line_3", 2), end, answered("line-of-nobody", 7), answered("line-0", 0)], &Value::Null)
        }
        other => panic!("nobody asks {other:?}"),
    })
}

#[tokio::test]
async fn lines_go_to_xai_as_a_file_and_come_back_in_pages() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(LOOK, grok(4)).await;
    let config = provider.config("x-ai");
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &config, &by_provider(&file)).await;
    let done = ended(&gateway, &id, "completed").await;
    assert_eq!(done["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    assert_eq!(done["provider_job_id"], "batch_1");
    assert_eq!((&done["usage"]["input_tokens"], &done["usage"]["output_tokens"]), (&json!(2000), &json!(200)));
    let (good, bad) =
        (results(&gateway, &done, "output_file_id").await, results(&gateway, &done, "error_file_id").await);
    assert_eq!(good.keys().collect::<Vec<_>>(), ["line two, with words", "line-0"]);
    for (name, said) in [("line-0", "answer-0"), ("line two, with words", "answer-2")] {
        assert_eq!(good[name]["response"]["body"]["choices"][0]["message"]["content"], said);
    }
    assert_eq!(bad["line-1"]["response"]["status_code"], 400);
    let why = text(&bad["line-1"]["response"]["body"]["error"], "message");
    assert!(why.contains("no such tool"), "{why}");
    assert_eq!(bad["line-3"]["error"]["code"], "batch_cancelled");
    // What went up is what a call of each would have been, and the batch was made of it at once.
    let made = provider.calls("POST", "/batches");
    assert_eq!((made.len(), made[0].json()), (1, json!({ "name": id, "input_file_id": "file_1" })));
    let up = provider.calls("POST", "/files").remove(0);
    assert!(up.header("content-type").is_some_and(|kind| kind.starts_with("multipart/form-data; boundary=")));
    let lines = up.text();
    let lines: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let names: Vec<_> = lines.iter().map(|line| line["custom_id"].clone()).collect();
    assert_eq!(names, ["line-0", "line-1", "gw_line_3", "line-3"].map(Value::from));
    let plain = translated(&gateway, &provider, &config, &prompt(GROK, 0), "/chat/completions").await;
    let whole = json!({ "custom_id": "line-0", "method": "POST", "url": "/v1/chat/completions", "body": plain });
    assert_eq!(lines[0], whole);
    // Each line is counted once, at half of the usual price.
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "full").json(&prompt(GROK, 0));
    call.send().await.expect(200);
    let (full, own) = (cost(&gateway, "full").await, cost(&gateway, &format!("{id}-3")).await);
    assert!(full > 0.0 && (own * 2.0 - full).abs() < 1e-9, "{own} in a batch, {full} outside");
    for n in 1..=4 {
        let all = gateway.admin().get(&format!("/logs?trace_id={id}-{n}")).await.expect(200).json();
        assert!(all["total"].as_u64() <= Some(1), "line {n}: {all}");
    }
    assert_eq!(provider.calls("GET", RESULTS).len(), 1);
    eventually("the file to go", || async { (provider.calls("DELETE", "/files/file_1").len() == 1).then_some(()) })
        .await;
}

#[tokio::test]
async fn what_xai_cannot_read_fails_the_batch_and_says_why() {
    let gateway = Gateway::with(FAST).await;
    let why = "JSONL file validation failed: Model grok-3 is not supported for batch processing.";
    let more = json!({ "cancel_time": "2025-11-11", "cancel_by_xai_message": why });
    let (plain, more) = (grok(1), Arc::new(more));
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match below(seen) {
        LOOK => batch_reply([0; 5], (*more).clone()),
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &provider.config("x-ai"), &by_provider(&file)).await;
    let errors = ended(&gateway, &id, "failed").await["errors"]["data"].clone();
    assert_eq!((&errors[0]["code"], &errors[0]["message"]), (&json!("provider_failed"), &json!(why)));
    let embed = line("a", "/v1/embeddings", &json!({ "model": GROK, "input": "x" }));
    let body =
        with(by_provider(&crate::batches::file(&gateway, &embed).await), json!({ "endpoint": "/v1/embeddings" }));
    let id = make(&gateway, &provider.config("x-ai"), &body).await;
    let errors = ended(&gateway, &id, "failed").await["errors"]["data"].clone();
    assert_eq!(errors[0]["code"], "provider_refused", "{errors}");
    assert_eq!(provider.calls("POST", "/batches").len(), 1);
}

#[tokio::test]
async fn one_of_xais_that_is_cancelled_keeps_what_was_answered() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(LOOK, grok(usize::MAX)).await;
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &provider.config("x-ai"), &by_provider(&file)).await;
    eventually("looks", || async { (provider.calls("GET", LOOK).len() > 3).then_some(()) }).await;
    gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    let done = ended(&gateway, &id, "cancelled").await;
    assert_eq!(results(&gateway, &done, "output_file_id").await.len(), 2);
    assert_eq!(provider.calls("POST", CANCEL).len(), 1);
}

/// xAI goes on with a batch for longer than the gateway waits for it.
#[tokio::test]
async fn one_of_xais_that_is_not_done_in_a_day_is_ended_there_and_keeps_what_was_answered() {
    let gateway = Gateway::with(FAST).await;
    let provider = FamilyProvider::start(LOOK, grok(usize::MAX)).await;
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &provider.config("x-ai"), &by_provider(&file)).await;
    eventually("looks", || async { (provider.calls("GET", LOOK).len() > 3).then_some(()) }).await;
    let tomorrow = [FAST, &["--clock-ahead", "87000"]].concat();
    let gateway = gateway.restart_after_kill(&tomorrow).await;
    let done = ended(&gateway, &id, "expired").await;
    assert_eq!(results(&gateway, &done, "output_file_id").await.len(), 2);
    assert_eq!(provider.calls("POST", CANCEL).len(), 1);
}

/// The answer to the creation is lost, and the process is killed before xAI's list can be read: the batch is found on
/// the list's second page by its name, and neither it nor its lines are there twice.
#[tokio::test]
async fn a_batch_of_xais_that_may_be_there_is_looked_for_and_not_made_again() {
    let gateway = Gateway::with(FAST).await;
    let (made, lists, plain) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)), grok(4));
    let (name, is_up) = (std::sync::Mutex::new(Value::Null), lists.clone());
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| {
        let mut name = name.lock().expect("held by nobody");
        match (seen.method.as_str(), below(seen)) {
            ("POST", "/batches") => {
                assert_eq!(made.fetch_add(1, SeqCst), 0, "it is made once");
                *name = seen.json()["name"].clone();
                Vec::new()
            }
            ("GET", target) if target.starts_with("/batches?") && !is_up.load(SeqCst) => reply::error(500, &[]),
            ("GET", "/batches?limit=100") => {
                let other = json!({ "batch_id": "batch_0", "name": "of somebody" });
                reply::json(200, &json!({ "batches": [other], "pagination_token": "next" }))
            }
            ("GET", "/batches?limit=100&pagination_token=next") => {
                let own = json!({ "batch_id": "batch_1", "name": *name });
                reply::json(200, &json!({ "batches": [own], "pagination_token": null }))
            }
            _ => plain(seen, looks, cancelled),
        }
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &provider.config("x-ai"), &by_provider(&file)).await;
    let searched = || async { (!provider.calls("GET", "/batches?limit=100").is_empty()).then_some(()) };
    eventually("it to be looked for", searched).await;
    assert_eq!(batch(&gateway, &id).await["status"], "in_progress");
    let gateway = gateway.restart_after_kill(FAST).await;
    lists.store(true, SeqCst);
    let done = ended(&gateway, &id, "completed").await;
    assert_eq!(done["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    assert_eq!((provider.calls("POST", "/files").len(), provider.calls("POST", "/batches").len()), (1, 1));
}

/// What xAI tells nothing of, and what it cancelled in its own words, stands in the error file; a page that is too
/// large is asked for again, and one that was moved is read where it lies.
#[tokio::test]
async fn no_row_of_xais_is_lost_and_no_page() {
    let gateway = Gateway::with(FAST).await;
    let elsewhere = Upstream::replying(|_| page(&[answered("line-0", 0)], &Value::Null)).await;
    let (plain, moved) = (grok(4), format!("{}/page", crate::clouds::bare(&elsewhere)));
    let script: Box<Script> = Box::new(move |seen, looks, cancelled| match (seen.method.as_str(), below(seen)) {
        ("GET", RESULTS) => {
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 70000000\r\n\r\n{".to_vec()
        }
        ("GET", "/batches/batch_1/results?limit=100") => {
            let error = json!({ "code": "batch_cancelled", "message": "gone" });
            let cancelled = json!({ "batch_request_id": "line-1", "batch_result": { "error": error } });
            let nothing = json!({ "batch_request_id": "line-3", "batch_result": {} });
            page(&[cancelled, nothing, answered("gw_line_3", 2)], &json!("t"))
        }
        ("GET", "/batches/batch_1/results?limit=100&pagination_token=t") => {
            reply::whole(302, &[("location", &moved)], "")
        }
        _ => plain(seen, looks, cancelled),
    });
    let provider = FamilyProvider::start(LOOK, script).await;
    let file = file(&gateway, &four(GROK)).await;
    let id = make(&gateway, &provider.config("x-ai"), &by_provider(&file)).await;
    let done = ended(&gateway, &id, "completed").await;
    assert_eq!(done["request_counts"], json!({ "total": 4, "completed": 2, "failed": 2 }));
    let bad = results(&gateway, &done, "error_file_id").await;
    assert_eq!(bad["line-1"]["error"]["code"], "batch_cancelled");
    let nothing = &bad["line-3"]["response"];
    assert_eq!((&nothing["status_code"], &nothing["body"]["error"]["code"]), (&json!(502), &json!("no_answer")));
}
