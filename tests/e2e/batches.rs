//! Batches that the gateway runs itself: each line once, whatever becomes of the nodes that run it.

use crate::area_forms::{FORM, form};
use crate::harness::{Answer, Gateway, Seen, Upstream, eventually, eventually_within, gateway::target, reply};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Lines whose prompts are their own names.
pub(crate) fn lines(count: usize) -> String {
    (0..count)
        .map(|n| line(&format!("line-{n}"), CHAT, &json!({ "model": "gpt-4o-mini", "messages": [ask(n)] })))
        .collect()
}

pub(crate) fn ask(n: usize) -> Value {
    json!({ "role": "user", "content": format!("line-{n}") })
}

pub(crate) fn line(id: &str, url: &str, body: &Value) -> String {
    json!({ "custom_id": id, "method": "POST", "url": url, "body": body }).to_string() + "\n"
}

pub(crate) async fn upload(gateway: &Gateway, lines: &str) -> Answer {
    let body = form(&[("purpose", None, b"batch"), ("file", Some("lines.jsonl"), lines.as_bytes())]);
    gateway.post("/v1/files").body(FORM, body).send().await
}

pub(crate) async fn file(gateway: &Gateway, lines: &str) -> String {
    text(&upload(gateway, lines).await.expect(200).json(), "id")
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name}: {value}")).to_owned()
}

pub(crate) fn asked(file: &str) -> Value {
    json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "immediate", "metadata": { "of": "tests" } })
}

pub(crate) async fn begin(gateway: &Gateway, config: &Value, file: &str) -> String {
    let made = gateway.post("/v1/batches").config(config).json(&asked(file)).send().await.expect(200).json();
    assert_eq!((&made["status"], &made["metadata"]["of"]), (&json!("validating"), &json!("tests")));
    text(&made, "id")
}

pub(crate) async fn batch(gateway: &Gateway, id: &str) -> Value {
    gateway.get(&format!("/v1/batches/{id}")).send().await.expect(200).json()
}

/// Waits for as long as the batch gets further. No count tells how far its results were put into files in the end: that
/// may take longer the more of them there are.
pub(crate) async fn ended(gateway: &Gateway, id: &str, status: &str) -> Value {
    let mut seen = Value::Null;
    loop {
        let lines = seen["request_counts"]["total"].as_u64().unwrap_or_default();
        let bound = Duration::from_secs(20 + lines / 500);
        let found = eventually_within(bound, "the batch to get further", || async {
            let batch = batch(gateway, id).await;
            (batch["request_counts"] != seen["request_counts"] || batch["status"] != seen["status"]).then_some(batch)
        });
        seen = found.await;
        if ["completed", "failed", "cancelled", "expired"].contains(&seen["status"].as_str().unwrap_or_default()) {
            assert_eq!(seen["status"], status, "{seen}");
            return seen;
        }
    }
}

/// Lines of a file of results, by their own names.
pub(crate) async fn results(gateway: &Gateway, batch: &Value, which: &str) -> BTreeMap<String, Value> {
    let Some(id) = batch[which].as_str() else { return BTreeMap::new() };
    let content = gateway.get(&format!("/v1/files/{id}/content")).send().await.expect(200).text();
    let mut found = BTreeMap::new();
    for line in content.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let twice = found.insert(text(&line, "custom_id"), line);
        assert!(twice.is_none(), "each line stands there once: {twice:?}");
    }
    found
}

pub(crate) fn said(seen: &Seen) -> String {
    seen.json()["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// Answers after a while, and refuses every line that ends in 9.
pub(crate) async fn answering(ms: u64) -> Upstream {
    Upstream::scripted(move |mut peer| async move {
        while let Some(seen) = peer.request().await {
            peer.pause(ms).await;
            let refused = said(&seen).ends_with('9');
            if !peer.send(if refused { reply::error(400, &[]) } else { reply::chat(&said(&seen)) }).await {
                return;
            }
        }
    })
    .await
}

fn times(upstream: &Upstream) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for seen in upstream.seen() {
        *times.entry(said(&seen)).or_default() += 1;
    }
    times
}

#[tokio::test]
async fn every_line_is_asked_once_and_stands_in_one_file() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let file = file(&gateway, &lines(60)).await;
    let id = begin(&gateway, &target(&upstream), &file).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 60, "completed": 54, "failed": 6 }));
    assert_eq!((&batch["usage"]["input_tokens"], &batch["usage"]["output_tokens"]), (&json!(54 * 5), &json!(54 * 3)));
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert_eq!((good.len(), bad.len()), (54, 6));
    for (name, line) in &good {
        assert_eq!(line["response"]["body"]["choices"][0]["message"]["content"], json!(name));
        assert_eq!((&line["response"]["status_code"], &line["error"]), (&json!(200), &Value::Null));
    }
    assert!(bad.iter().all(|(name, line)| name.ends_with('9') && line["response"]["status_code"] == 400));
    assert!(times(&upstream).values().all(|times| *times == 1));
    let output = gateway.get(&format!("/v1/batches/{id}/output")).send().await.expect(200).text();
    assert_eq!(output.lines().count(), 54);
    // Each line left the record of a call, which names its batch and costs what the call costs.
    let records = eventually("the records", || async {
        let list = gateway.admin().get(&format!("/logs?trace_id={id}-1")).await.expect(200).json();
        list["data"].get(0).cloned()
    });
    let record = records.await;
    assert_eq!(record["metrics"]["metadata.value"][0], json!(id), "{record}");
    assert!(record["metrics"]["cost"].as_f64().is_some_and(|cost| cost > 0.0), "{record}");
    let list = gateway.get("/v1/batches?limit=1").send().await.expect(200).json();
    assert_eq!((text(&list["data"][0], "id"), &list["has_more"]), (id, &json!(false)));
}

#[tokio::test]
async fn files_are_kept_listed_and_removed() {
    let gateway = Gateway::start().await;
    let content = lines(2);
    let made = upload(&gateway, &content).await.expect(200).json();
    let id = text(&made, "id");
    assert!(id.starts_with("gw_file_") && made["bytes"] == content.len() && made["filename"] == "lines.jsonl");
    let path = format!("/v1/files/{id}");
    assert_eq!(gateway.get(&path).send().await.expect(200).json(), made);
    assert_eq!(gateway.get(&format!("{path}/content")).send().await.expect(200).text(), content);
    let list = gateway.get("/v1/files?purpose=batch").send().await.expect(200).json();
    assert_eq!((&list["data"], &list["first_id"]), (&json!([made]), &json!(id)));
    assert_eq!(gateway.get("/v1/files?purpose=vision").send().await.expect(200).json()["data"], json!([]));
    // Nobody else has it, and nobody learns that it is there.
    let admin = gateway.admin();
    admin.post("/admin/workspaces", &json!({ "name": "far", "slug": "far" })).await.expect(200);
    let (_, stranger) = admin.workspace_key("stranger", json!({ "workspace_id": "far" })).await;
    let foreign = gateway.get(&path).key(&stranger).send().await.expect(404).text();
    let unknown = gateway.get(&format!("/v1/files/gw_file_{}", "0".repeat(32))).send().await.expect(404).text();
    assert_eq!(foreign, unknown);
    let made = gateway.post("/v1/batches").key(&stranger).json(&asked(&id)).send().await.expect(404);
    assert_eq!(made.text(), unknown);
    assert_eq!(gateway.call("DELETE", &path).send().await.expect(200).json()["deleted"], true);
    assert_eq!(gateway.get(&path).send().await.expect(404).text(), unknown);
}

#[tokio::test]
async fn what_is_wrong_with_a_file_or_a_batch_is_told_by_name() {
    let gateway = Gateway::start().await;
    let send = async |parts: &[(&str, Option<&str>, &[u8])]| {
        gateway.post("/v1/files").body(FORM, form(parts)).send().await.expect(400).error()
    };
    let content = ("file", Some("f"), b"{}\n".as_slice());
    let purpose = ("purpose", None, b"batch".as_slice());
    assert!(send(&[content]).await.contains("purpose"));
    assert!(send(&[purpose]).await.contains("file"));
    assert!(send(&[purpose, content, content]).await.contains("twice"));
    assert!(send(&[("purpose", None, b"vision"), content]).await.contains("purpose"));
    assert!(send(&[purpose, content, ("color", None, b"red")]).await.contains("color"));
    let expires = [("expires_after[anchor]", None, b"created_at".as_slice()), ("expires_after[seconds]", None, b"60")];
    assert!(send(&[purpose, content, expires[0], expires[1]]).await.contains("expires_after.seconds"));
    for query in ["limit=0", "limit=x", "order=asc", "after=x", "colour=red"] {
        let told = gateway.get(&format!("/v1/files?{query}")).send().await.expect(400).error();
        assert!(told.contains(query.split('=').next().unwrap_or_default()), "{told}");
    }
    for query in ["limit=0", "limit=101", "limit=10000"] {
        let told = gateway.get(&format!("/v1/batches?{query}")).send().await.expect(400).json();
        let why = text(&told["error"], "message");
        assert!(told["error"]["param"] == "limit" && why.contains("1..100"), "{query}: {told}");
    }
    gateway.get("/v1/batches?limit=100").send().await.expect(200);
    gateway.get("/v1/files?limit=10000").send().await.expect(200);
    let file = file(&gateway, &lines(1)).await;
    for (name, value) in [
        ("endpoint", json!("/v1/other")),
        ("completion_window", json!("24h")),
        ("metadata", json!({ "n": 1 })),
        ("output_expires_after", json!({ "anchor": "created_at", "seconds": 1 })),
        ("job_name", json!("x")),
    ] {
        let mut body = asked(&file);
        body[name] = value;
        let told = gateway.post("/v1/batches").json(&body).send().await.expect(400).error();
        assert!(told.contains(name), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_file_with_faults_fails_whole_and_asks_nobody() {
    let gateway = Gateway::start().await;
    let upstream = answering(1).await;
    let good = json!({ "model": "m", "messages": [ask(1)] });
    let content = [
        line("a", CHAT, &good),
        line("a", CHAT, &good),
        line("b", "/v1/embeddings", &good),
        "{\n".to_owned(),
        line("c", CHAT, &json!({ "model": "m", "messages": [], "stream": true })),
    ];
    let id = begin(&gateway, &target(&upstream), &file(&gateway, &content.concat()).await).await;
    let batch = ended(&gateway, &id, "failed").await;
    let told: Vec<_> = batch["errors"]["data"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| (text(e, "code"), e["line"].clone()))
        .collect();
    let codes = ["duplicate_custom_id", "mismatched_endpoint", "invalid_json_line", "invalid_body"];
    assert_eq!(told, codes.iter().zip(2..).map(|(code, line)| ((*code).to_owned(), json!(line))).collect::<Vec<_>>());
    assert!(upstream.seen().is_empty());
    gateway.get(&format!("/v1/batches/{id}/output")).send().await.expect(400);
}

#[tokio::test]
async fn a_cancelled_batch_keeps_what_it_has() {
    let gateway = Gateway::with(&["--batch-parallel", "2"]).await;
    let upstream = answering(50).await;
    let id = begin(&gateway, &target(&upstream), &file(&gateway, &lines(500)).await).await;
    eventually("some lines", || async { (upstream.seen().len() > 6).then_some(()) }).await;
    let told = gateway.post(&format!("/v1/batches/{id}/cancel")).send().await.expect(200).json();
    assert_eq!(told["status"], "cancelling");
    let batch = ended(&gateway, &id, "cancelled").await;
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    assert!(!good.is_empty() && good.len() + bad.len() == 500, "{} and {}", good.len(), bad.len());
    let unasked = bad.values().filter(|line| line["error"]["code"] == "batch_cancelled").count();
    assert!(unasked > 0 && batch["request_counts"]["failed"] == json!(bad.len()));
    assert_eq!(upstream.seen().len(), 500 - unasked, "what was asked was answered");
}

#[tokio::test]
async fn what_is_not_answered_in_a_day_is_over() {
    let flags = ["--batch-lease", "1s", "--batch-parallel", "1"];
    let gateway = Gateway::with(&flags).await;
    let upstream = answering(50).await;
    let id = begin(&gateway, &target(&upstream), &file(&gateway, &lines(400)).await).await;
    eventually("some lines", || async { (upstream.seen().len() > 3).then_some(()) }).await;
    let tomorrow = [&flags[..], &["--clock-ahead", "129600"]].concat();
    let gateway = gateway.restart_after_kill(&tomorrow).await;
    let batch = ended(&gateway, &id, "expired").await;
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    let unasked = bad.values().filter(|line| line["error"]["code"] == "batch_expired").count();
    assert!(
        !good.is_empty() && unasked > 300 && good.len() + bad.len() == 400,
        "{} {} {unasked}",
        good.len(),
        bad.len()
    );
}

#[tokio::test]
async fn a_batch_ends_with_its_key() {
    let gateway = Gateway::with(&["--batch-parallel", "2"]).await;
    let upstream = answering(50).await;
    let (key, secret) = gateway.admin().workspace_key("batches", json!({})).await;
    let content = lines(300).into_bytes();
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("f"), content.as_slice())];
    let made = gateway.post("/v1/files").key(&secret).body(FORM, form(&parts)).send().await.expect(200).json();
    let call = gateway.post("/v1/batches").key(&secret).config(&target(&upstream));
    let id = text(&call.json(&asked(&text(&made, "id"))).send().await.expect(200).json(), "id");
    eventually("some lines", || async { (upstream.seen().len() > 4).then_some(()) }).await;
    gateway.admin().delete(&format!("/api-keys/{key}")).await.expect(200);
    let batch = ended(&gateway, &id, "completed").await;
    let (good, bad) =
        (results(&gateway, &batch, "output_file_id").await, results(&gateway, &batch, "error_file_id").await);
    let revoked = bad.values().filter(|line| line["error"]["code"] == "key_revoked").count();
    assert!(!good.is_empty() && revoked > 0 && good.len() + bad.len() == 300, "{} {} {revoked}", good.len(), bad.len());
}

#[tokio::test]
async fn lines_wait_for_what_limits_let_through_later() {
    let gateway = Gateway::start().await;
    let upstream = answering(100).await;
    // One call at a time: of those that come at once all but one are refused by the gateway, and come again.
    let (_, secret) = gateway.admin().workspace_key("narrow", json!({ "max_parallel": 1 })).await;
    let content = lines(4).into_bytes();
    let parts = [("purpose", None, b"batch".as_slice()), ("file", Some("f"), content.as_slice())];
    let made = gateway.post("/v1/files").key(&secret).body(FORM, form(&parts)).send().await.expect(200).json();
    let call = gateway.post("/v1/batches").key(&secret).config(&target(&upstream));
    let id = text(&call.json(&asked(&text(&made, "id"))).send().await.expect(200).json(), "id");
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!(batch["request_counts"], json!({ "total": 4, "completed": 4, "failed": 0 }));
    assert_eq!(upstream.seen().len(), 4, "a refusal of the gateway's own reaches nobody");
}

#[tokio::test]
async fn an_organisation_has_so_many_batches_under_way() {
    let gateway = Gateway::start().await;
    let upstream = answering(60_000).await;
    let (file, config) = (file(&gateway, &lines(1)).await, target(&upstream));
    for _ in 0..100 {
        begin(&gateway, &config, &file).await;
    }
    let refused = gateway.post("/v1/batches").config(&config).json(&asked(&file)).send().await.expect(429);
    assert!(refused.error().contains("batches under way"), "{}", refused.text());
    let list = gateway.get("/v1/batches?limit=100").send().await.expect(200).json();
    assert_eq!(list["data"].as_array().map(Vec::len), Some(100), "what was refused left nothing");
}

#[tokio::test]
async fn failures_of_a_provider_are_tried_again_so_many_times() {
    let gateway = Gateway::with(&["--batch-retries", "1"]).await;
    let upstream = Upstream::in_turn(vec![reply::error(503, &[("retry-after-ms", "1")]), reply::chat("good")]).await;
    let id = begin(&gateway, &target(&upstream), &file(&gateway, &lines(1)).await).await;
    assert_eq!(ended(&gateway, &id, "completed").await["request_counts"]["completed"], 1);
    assert_eq!(upstream.seen().len(), 2);
    let broken = Upstream::replying(|_| reply::error(500, &[("retry-after-ms", "1")])).await;
    let id = begin(&gateway, &target(&broken), &file(&gateway, &lines(1)).await).await;
    let batch = ended(&gateway, &id, "completed").await;
    assert_eq!((&batch["request_counts"]["failed"], broken.seen().len()), (&json!(1), 2));
    assert_eq!(results(&gateway, &batch, "error_file_id").await["line-0"]["response"]["status_code"], 500);
}

#[expect(clippy::disallowed_methods, reason = "how many lines is asked of the test, not of the gateway")]
fn many() -> u64 {
    std::env::var("SOAK_LINES").ok().and_then(|count| count.parse().ok()).unwrap_or(600)
}

/// Waits for as long as the batch gets further. Whoever takes it over reads first what was done before, however much it
/// is.
async fn completed(gateway: &Gateway, id: &str, least: u64) {
    let mut seen = 0;
    while seen < least {
        let count = async || batch(gateway, id).await["request_counts"]["completed"].as_u64().unwrap_or_default();
        let further = || async { Some(count().await).filter(|now| *now > seen) };
        seen = eventually_within(Duration::from_secs(20 + least / 500), "more lines are done", further).await;
    }
}

/// The batch has 600 lines and sees two kills; `make soak` asks for 50,000, and kills five times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_lines_none_is_lost_or_finished_twice_by_two_nodes_and_kills() {
    const PARALLEL: u64 = 10;
    let all = many();
    let kills = if all > 600 { 5 } else { 2 };
    let shared = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("batches"))).await;
    let (_postgres, url): (Arc<Postgres>, String) = shared.expect("no panic");
    let parallel = PARALLEL.to_string();
    let flags = ["--database-url", &url, "--batch-lease", "5s", "--batch-parallel", &parallel];
    let mut one = Gateway::with(&flags).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let others = [&flags[..], &["--master-key-file", &key]].concat();
    let mut two = Gateway::with(&others).await;
    let upstream = answering(30).await;
    let file = file(&one, &lines(usize::try_from(all).expect("few"))).await;
    let id = begin(&one, &target(&upstream), &file).await;
    for kill in 1..=kills {
        completed(&one, &id, all * 9 / 10 * kill / (kills + 1)).await;
        if kill % 2 == 1 {
            one = one.restart_after_kill(&flags).await;
        } else {
            two = two.restart_after_kill(&others).await;
        }
    }
    let batch = ended(&one, &id, "completed").await;
    let refused = all / 10;
    assert_eq!(batch["request_counts"], json!({ "total": all, "completed": all - refused, "failed": refused }));
    let good: BTreeSet<String> = results(&two, &batch, "output_file_id").await.into_keys().collect();
    let bad: BTreeSet<String> = results(&two, &batch, "error_file_id").await.into_keys().collect();
    let told = [good.len(), bad.len(), good.intersection(&bad).count()].map(|count| count as u64);
    assert_eq!(told, [all - refused, refused, 0]);
    let times = times(&upstream);
    assert_eq!(times.len() as u64, all, "all were asked");
    // So many are under way when a node falls silent, and no more of those that were done. Another node that takes the
    // batch over while the first still runs its last lines has as many again.
    let again = times.values().filter(|times| **times > 1).count() as u64;
    assert!(again <= 2 * kills * PARALLEL + PARALLEL, "only what was under way is asked once more: {again}");
}
