//! A provider's own batches at families that speak OpenAI's interface for them. Calls pass as they are, and each line
//! is counted once, when the batch is first seen to have ended.

use crate::batches::{CHAT, text};
use crate::direct_batches::{call, counted, counted_lines};
use crate::family_batches::{cost, jsonl, prompt, used};
use crate::harness::{Gateway, Seen, Upstream, eventually, reply, with};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{OwnedObject, OwnedObjects as _, OwnedPlace};
use gateway_store::DatabaseUrl;
use gateway_testing::Postgres;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const BATCH: &str = "/v1/batches/batch_one";

/// The path below whatever address the provider has.
fn path(seen: &Seen) -> &str {
    let path = seen.target.split('?').next().unwrap_or_default();
    let from = ["/files", "/batches", "/chat"].iter().find_map(|root| path.find(root));
    from.map_or(path, |from| &path[from..])
}

fn batch_json(name: &str, status: &str, has_results: bool) -> Value {
    let file = |what: &str| if has_results { json!(format!("file-{what}-{name}")) } else { Value::Null };
    json!({ "id": format!("batch_{name}"), "object": "batch", "status": status, "endpoint": CHAT, "input_file_id": "file-in",
            "output_file_id": file("out"), "error_file_id": file("err"), "model": "gpt-5.5", "created_at": 1 })
}

/// A provider whose batch has ended when it is first looked at, unless it was cancelled before.
fn answer(name: &str, seen: &Seen, is_cancelled: &AtomicBool) -> Vec<u8> {
    let line = |n: usize, response: Value, error: Value| json!({ "id": "r", "custom_id": format!("line-{n}"), "response": response, "error": error });
    let answered = |n: usize| line(n, json!({ "status_code": 200, "request_id": "r", "body": used(n) }), Value::Null);
    let ended = || batch_json(name, if is_cancelled.load(SeqCst) { "cancelled" } else { "completed" }, true);
    let made = format!("/batches/batch_{name}");
    match (seen.method.as_str(), path(seen)) {
        ("POST", "/files") => {
            reply::json(200, &json!({ "id": format!("file-in-{name}"), "object": "file", "purpose": "batch" }))
        }
        ("POST", "/batches") => reply::json(200, &batch_json(name, "validating", false)),
        ("POST", path) if path == format!("{made}/cancel") => {
            is_cancelled.store(true, SeqCst);
            reply::json(200, &batch_json(name, "cancelling", false))
        }
        ("GET", path) if path == made => reply::json(200, &ended()),
        ("GET", "/batches/batch_elsewhere") => {
            reply::json(200, &with(ended(), json!({ "id": "batch_elsewhere", "output_file_id": "file-elsewhere" })))
        }
        ("GET", "/batches") => reply::json(200, &json!({ "object": "list", "data": [ended()], "has_more": false })),
        ("GET", path) if path == format!("/files/file-out-{name}/content") => {
            jsonl(&[answered(2), answered(0), answered(1)])
        }
        ("GET", path) if path == format!("/files/file-err-{name}/content") => {
            let refused = json!({ "status_code": 400, "body": { "error": { "message": "too long" } } });
            let expired = json!({ "code": "batch_expired", "message": "too late" });
            jsonl(&[line(3, refused, Value::Null), line(4, Value::Null, expired)])
        }
        ("POST", "/chat/completions") => {
            let asked = seen.json()["messages"][1]["content"].as_str().unwrap_or_default().to_owned();
            reply::json(200, &used(asked.trim_start_matches("line-").parse().unwrap_or_default()))
        }
        _ => reply::error(404, &[]),
    }
}

async fn provider(name: &'static str) -> Upstream {
    let is_cancelled = AtomicBool::new(false);
    Upstream::replying(move |seen| answer(name, seen, &is_cancelled)).await
}

fn of(upstream: &Upstream, family: &str) -> Value {
    json!({ "provider": family, "api_key": "sk-upstream", "custom_host": upstream.url() })
}

fn asked(file: &str) -> Value {
    json!({ "input_file_id": file, "endpoint": CHAT, "completion_window": "24h" })
}

async fn made(gateway: &Gateway, config: &Value) -> Value {
    gateway.post("/v1/batches").config(config).json(&asked("file-in")).send().await.expect(200).json()
}

fn reads(upstream: &Upstream, file: &str) -> Vec<String> {
    let wanted = format!("/files/{file}/content");
    upstream.seen().iter().filter(|seen| path(seen) == wanted).map(|seen| seen.target.clone()).collect()
}

/// Nothing of such a trace was recorded, though what came after it was.
async fn uncounted(gateway: &Gateway, config: &Value, trace: &str) {
    let mark = format!("after-{trace}");
    let plain = gateway.chat().config(config).header("x-gateway-trace-id", &mark).json(&prompt("gpt-5.5", 0));
    plain.send().await.expect(200);
    cost(gateway, &mark).await;
    let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
    assert_eq!(list["total"], 0, "{list}");
}

/// Cached tokens at their rate, and the rates of long prompts for the line that is long, though all lines together are
/// longer.
#[tokio::test]
async fn each_line_is_counted_once_and_priced_by_itself() {
    let gateway = Gateway::start().await;
    let upstream = provider("one").await;
    let config = of(&upstream, "openai");
    assert_eq!(made(&gateway, &config).await, batch_json("one", "validating", false), "it passes as it is");
    for _ in 0..50 {
        let batch = call(&gateway, &config, "GET", BATCH).send().await.expect(200).json();
        assert_eq!(batch, batch_json("one", "completed", true));
    }
    let costs = counted(&gateway, "batch_one", 4).await;
    assert_eq!([reads(&upstream, "file-out-one").len(), reads(&upstream, "file-err-one").len()], [1, 1]);
    for (number, n) in [(1, 2), (2, 0), (3, 1)] {
        let trace = format!("plain-{n}");
        let plain = gateway.chat().config(&config).header("x-gateway-trace-id", &trace).json(&prompt("gpt-5.5", n));
        plain.send().await.expect(200);
        let (full, own) = (cost(&gateway, &trace).await, costs[&format!("batch_one-{number}")]);
        assert!(full > 0.0 && (own * 2.0 - full).abs() < 1e-6, "line {n}: {own} in the batch, {full} outside");
    }
    let [long, base, cached, refused] = [1, 2, 3, 4].map(|number| costs[&format!("batch_one-{number}")]);
    assert!(cached < base / 2.0 && refused.abs() < 1e-12, "{cached} and {refused} of {base}");
    assert!(long > base * 1.5 * 1.1, "one and a half times as long, at higher rates: {long} of {base}");
    // One that the provider let expire was answered by nobody.
    uncounted(&gateway, &config, "batch_one-5").await;
}

#[tokio::test]
async fn one_that_was_made_elsewhere_is_nobodys_here() {
    let gateway = Gateway::start().await;
    let upstream = provider("one").await;
    let configurations = json!({ "custom_host": upstream.url() });
    let [mine, theirs] = gateway.admin().sharing("openai", Some("sk-shared"), &configurations).await;
    let by = |key: &str, method: &str, path: &str| gateway.call(method, path).key(key).provider("@p");
    by(&mine, "POST", "/v1/batches").json(&asked("file-in")).send().await.expect(200);
    by(&theirs, "GET", BATCH).send().await.expect(200);
    by(&mine, "GET", "/v1/batches/batch_elsewhere").send().await.expect(200);
    let config = of(&upstream, "openai");
    uncounted(&gateway, &config, "batch_one-1").await;
    uncounted(&gateway, &config, "batch_elsewhere-1").await;
    assert!(reads(&upstream, "file-out-one").is_empty() && reads(&upstream, "file-elsewhere").is_empty());
    by(&mine, "GET", BATCH).send().await.expect(200);
    counted(&gateway, "batch_one", 4).await;
}

#[tokio::test]
async fn nodes_of_one_database_count_it_once() {
    let shared =
        tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("passed_batches"))).await;
    let (_postgres, url): (Arc<Postgres>, String) = shared.expect("no panic");
    let one = Gateway::with(&["--database-url", &url]).await;
    let key = one.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&["--database-url", &url, "--master-key-file", &key]).await;
    let upstream = provider("one").await;
    let config = of(&upstream, "openai");
    made(&one, &config).await;
    let looks = (0..20).map(|n| call(if n % 2 == 0 { &one } else { &other }, &config, "GET", BATCH).send());
    for answer in futures_util::future::join_all(looks).await {
        answer.expect(200);
    }
    counted(&one, "batch_one", 4).await;
    assert_eq!([reads(&upstream, "file-out-one").len(), reads(&upstream, "file-err-one").len()], [1, 1]);
}

/// Results are read where a client would read them, with what its request says of headers.
#[tokio::test]
async fn a_list_or_a_cancelled_one_is_a_look_too_at_each_family() {
    for family in ["openai", "azure-openai", "groq", "together-ai"] {
        let gateway = Gateway::start().await;
        let upstream = provider("one").await;
        let azure =
            json!({ "azure_resource_name": "r", "azure_deployment_id": "gpt-5.5", "azure_api_version": "2025-01-01" });
        let organisation = json!({ "openai_organization": "org-1" });
        let config = match family {
            "azure-openai" => with(of(&upstream, family), azure),
            "openai" => with(of(&upstream, family), organisation),
            _ => of(&upstream, family),
        };
        made(&gateway, &config).await;
        let cancelled = call(&gateway, &config, "POST", &format!("{BATCH}/cancel")).send().await.expect(200).json();
        assert_eq!(cancelled["status"], "cancelling");
        let list = call(&gateway, &config, "GET", "/v1/batches?limit=5").send().await.expect(200).json();
        assert_eq!(list["data"][0]["status"], "cancelled");
        counted(&gateway, "batch_one", 4).await;
        call(&gateway, &config, "GET", "/v1/files/file-out-one/content").send().await.expect(200);
        let seen = reads(&upstream, "file-out-one");
        assert_eq!((seen.len(), &seen[0]), (2, &seen[1]), "{family}");
        let by = |seen: &Seen| seen.header("openai-organization").map(str::to_owned);
        let told = upstream.seen().iter().filter(|seen| path(seen).contains("file-out")).map(by).collect::<Vec<_>>();
        assert_eq!(told, vec![(family == "openai").then(|| "org-1".to_owned()); 2], "{family}");
    }
}

#[tokio::test]
async fn among_several_targets_its_ids_lead_to_the_one_that_has_it() {
    let gateway = Gateway::start().await;
    let upstreams = [provider("one").await, provider("other").await];
    for mode in ["loadbalance", "fallback"] {
        let targets: Vec<Value> = upstreams.iter().map(|upstream| of(upstream, "openai")).collect();
        let config = json!({ "strategy": { "mode": mode }, "targets": targets });
        // It is tried as often as it takes to reach both; a fallback has the first alone.
        let mut found = std::collections::BTreeMap::new();
        for _ in 0..200 {
            let answer = gateway.post("/v1/batches").config(&config).json(&asked("file-in")).send().await.expect(200);
            let place = answer.header("x-gateway-last-used-option-index").unwrap_or_default().to_owned();
            found.insert(place, text(&answer.json(), "id"));
            if found.len() == if mode == "fallback" { 1 } else { 2 } {
                break;
            }
        }
        for (number, (place, id)) in found.iter().enumerate() {
            assert_eq!(*place, format!("config.targets[{number}]"));
            assert!(id.starts_with("batch_gw1_"), "bound: {id}");
            let name = ["one", "other"][number];
            let before = upstreams[1 - number].seen().len();
            let path = format!("/v1/batches/{id}");
            let pinned = async |method: &str, path: &str| {
                let answer = call(&gateway, &config, method, path).send().await.expect(200);
                assert_eq!(answer.header("x-gateway-last-used-option-index"), Some(place.as_str()));
                answer
            };
            for _ in 0..5 {
                let batch = pinned("GET", &path).await.json();
                assert_eq!(batch["id"], json!(id));
                let files = ["output_file_id", "error_file_id"].map(|file| text(&batch, file));
                for file in files {
                    assert!(file.starts_with("file-gw1_"), "{file}");
                    pinned("GET", &format!("/v1/files/{file}/content")).await;
                }
            }
            assert_eq!(pinned("POST", &format!("{path}/cancel")).await.json()["id"], json!(id));
            assert_eq!(upstreams[1 - number].seen().len(), before, "nobody else is asked");
            // The record has the provider's own name, which nobody else is told.
            counted(&gateway, &format!("batch_{name}"), 4).await;
            let mut other = id.clone().into_bytes();
            other[20] = if other[20] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("text");
            call(&gateway, &config, "GET", &format!("/v1/batches/{other}")).send().await.expect(404);
        }
    }
}

/// Results are read by the gateway in pieces, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_are_counted_in_little_memory() {
    const LINES: usize = 800;
    let gateway = Gateway::start().await;
    let line = |n: usize| {
        let body = with(used(0), json!({ "filler": "x".repeat(128 << 10) }));
        json!({ "id": "r", "custom_id": format!("line-{n}"), "response": { "status_code": 200, "body": body }, "error": null })
    };
    let results = jsonl(&(0..LINES).map(line).collect::<Vec<_>>());
    assert!(results.len() > 100 << 20);
    let is_cancelled = AtomicBool::new(false);
    let upstream = Upstream::replying(move |seen| match path(seen) {
        "/files/file-out-one/content" => results.clone(),
        "/files/file-err-one/content" => jsonl(&[]),
        _ => answer("one", seen, &is_cancelled),
    });
    let upstream = upstream.await;
    let config = of(&upstream, "openai");
    made(&gateway, &config).await;
    uncounted(&gateway, &config, "warm").await;
    let before = gateway.memory("VmHWM");
    call(&gateway, &config, "GET", BATCH).send().await.expect(200);
    counted_lines(&gateway, "batch_one", &[1, LINES as u64]).await;
    let grown = gateway.memory("VmHWM").saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more at most");
}

/// What a batch used beyond a budget is debt.
#[tokio::test]
async fn what_lines_used_counts_for_budgets() {
    let gateway = Gateway::start().await;
    let upstream = provider("one").await;
    let config = of(&upstream, "openai");
    let limited = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1000 } });
    let (_, key) = gateway.admin().workspace_key("limited", limited).await;
    let by = |method: &str, path: &str| call(&gateway, &config, method, path).key(&key);
    by("POST", "/v1/batches").json(&asked("file-in")).send().await.expect(200);
    by("GET", BATCH).send().await.expect(200);
    counted(&gateway, "batch_one", 4).await;
    let chat = || async { by("POST", "/v1/chat/completions").json(&prompt("gpt-5.5", 0)).send().await.status };
    assert_eq!(chat().await, 412);
    by("GET", BATCH).send().await.expect(200);
}

/// What a call asks for in a form lines ask for in JSON; answers with pictures name no model, the batch does. All that
/// was used costs half: tokens, pictures by the piece, and what another model drew of one.
#[tokio::test]
async fn pictures_are_counted_by_the_model_of_the_batch() {
    let tokens = json!({ "usage": { "input_tokens": 100, "output_tokens": 4000, "total_tokens": 4100,
                                    "input_tokens_details": { "text_tokens": 100, "image_tokens": 0 } } });
    let vectors =
        json!({ "svg_usage": { "model": "gpt-4o", "input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100 } });
    for usage in [tokens.clone(), json!({}), vectors.clone(), with(tokens, vectors)] {
        let gateway = Gateway::start().await;
        let drawn = json!({ "created": 1, "data": [{ "b64_json": "AAAA" }], "quality": "low", "size": "1024x1024",
                            "output_format": "png" });
        let drawn = with(drawn, usage.clone());
        let upstream = Upstream::replying(move |seen| {
            let batch = with(
                batch_json("one", "completed", true),
                json!({ "endpoint": "/v1/images/edits", "model": "gpt-image-1", "error_file_id": null }),
            );
            match (seen.method.as_str(), path(seen)) {
                ("GET", "/files/file-out-one/content") => {
                    let response = json!({ "status_code": 200, "body": drawn });
                    jsonl(&[json!({ "id": "r", "custom_id": "line-0", "response": response, "error": null })])
                }
                ("POST", path) if path.ends_with("/images/generations") => reply::json(200, &drawn),
                _ => reply::json(200, &batch),
            }
        });
        let upstream = upstream.await;
        let config = of(&upstream, "openai");
        made(&gateway, &config).await;
        call(&gateway, &config, "GET", BATCH).send().await.expect(200);
        let own = counted(&gateway, "batch_one", 1).await["batch_one-1"];
        let plain = json!({ "model": "gpt-image-1", "prompt": "a cat", "quality": "low", "size": "1024x1024" });
        let drawing = call(&gateway, &config, "POST", "/v1/images/generations").header("x-gateway-trace-id", "plain");
        drawing.json(&plain).send().await.expect(200);
        // What a host of the client's own says that others drew is not believed of a call: 1,000 at $2.50 and 100 at
        // $10.
        let beside = if usage["svg_usage"].is_null() { 0.0 } else { 0.35 };
        let full = cost(&gateway, "plain").await + beside;
        assert!(full > beside && (own * 2.0 - full).abs() < 1e-6, "{own} in the batch, {full} outside: {usage}");
    }
}

#[tokio::test]
async fn the_output_of_a_batch_is_read_by_the_batch_and_paid_for_once() {
    let gateway = Gateway::start().await;
    let upstream = provider("one").await;
    let config = of(&upstream, "openai");
    made(&gateway, &config).await;
    for round in 0..3 {
        let call = gateway.get(&format!("{BATCH}/output")).config(&config).header("x-gateway-trace-id", "output");
        let answer = call.send().await.expect(200);
        assert_eq!(answer.text().lines().count(), 3, "round {round}: {}", answer.text());
        assert!(answer.text().contains("line-2"), "as the provider has it");
    }
    counted(&gateway, "batch_one", 4).await;
    assert_eq!(reads(&upstream, "file-out-one").len(), 4, "three times for the client, and once to count");
    let none = Upstream::replying(|seen| match path(seen) {
        "/batches/batch_one" => reply::json(200, &batch_json("one", "in_progress", false)),
        _ => reply::error(404, &[]),
    })
    .await;
    let early = gateway.get(&format!("{BATCH}/output")).config(&of(&none, "openai")).send().await.expect(400);
    assert_eq!(early.json()["error"]["param"], "batch_id", "{}", early.text());
    let unknown = gateway.get("/v1/batches/batch_other/output").config(&of(&none, "openai")).send().await.expect(404);
    assert!(unknown.json()["error"].is_object(), "{}", unknown.text());
}

/// A provider whose results break off behind four fifths as long as it stalls, and are others afterwards.
async fn stalling(stalls: &Arc<AtomicBool>, results: [String; 2]) -> Upstream {
    let results = results.map(Arc::<str>::from);
    let script = (stalls.clone(), Arc::new(AtomicBool::new(false)), results);
    Upstream::scripted(move |mut peer| {
        let (stalls, is_cancelled, [first, then]) = script.clone();
        async move {
            while let Some(seen) = peer.request().await {
                let is_stalled = path(&seen).ends_with("file-out-one/content") && stalls.load(SeqCst);
                let lines = if is_stalled { &first } else { &then };
                let whole = match path(&seen) {
                    "/files/file-out-one/content" => {
                        reply::whole(200, &[("content-type", "application/x-jsonl")], &**lines)
                    }
                    "/files/file-err-one/content" => jsonl(&[]),
                    _ => answer("one", &seen, &is_cancelled),
                };
                peer.record(seen);
                let sent = if is_stalled { whole.len() * 4 / 5 } else { whole.len() };
                peer.send(&whole[..sent]).await;
                if is_stalled {
                    peer.gone().await;
                    return;
                }
            }
        }
    })
    .await
}

/// The line so named in a node's notes.
fn line_key(name: &str) -> u64 {
    let digest = Sha256::digest([name.as_bytes(), &[0; 5]].concat());
    u64::from_le_bytes(std::array::from_fn(|place| digest[place]))
}

fn answered_line(n: u64, body: &Value) -> String {
    let response = json!({ "status_code": 200, "body": body });
    json!({ "id": "r", "custom_id": format!("line-{n}"), "response": response, "error": null }).to_string() + "\n"
}

/// A key whose budget tells how many tokens were counted.
async fn counting_key(gateway: &Gateway) -> (String, String) {
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1_000_000_000 } });
    gateway.admin().workspace_key("limited", limits).await
}

pub(crate) async fn workspace_of(gateway: &Gateway, trace: &str) -> String {
    let list = gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
    text(&list["data"][0], "workspace_id")
}

async fn all_counted(gateway: &Gateway, workspace: &str) {
    let folder = gateway.folder();
    eventually("all was counted", || async {
        let mut is_done = false;
        note_of_counting(&folder, workspace, |note| is_done = note["is_done"] == true).await;
        is_done.then_some(())
    })
    .await;
}

async fn spent(gateway: &Gateway, key: &str, tokens: u64) {
    let path = format!("/api-keys/{key}");
    eventually("the lines are paid for once", || async {
        let key = gateway.admin().get(&path).await.expect(200).json();
        (key["usage_limits"]["current_usage"] == tokens).then_some(())
    })
    .await;
}

/// The node dies twice while it counts 150 lines: once with all of a hundred that it was about to count in its journal,
/// and once, as the note is made to say, with fifty more that it had not come to. Each is counted once, and for the
/// budget too.
#[tokio::test]
async fn lines_that_a_killed_node_was_about_to_count_are_counted_once() {
    const LINES: u64 = 150;
    let gateway = Gateway::start().await;
    let results: String = (0..LINES).map(|n| answered_line(n, &used(1))).collect();
    let stalls = Arc::new(AtomicBool::new(true));
    let upstream = stalling(&stalls, [results.clone(), results]).await;
    let config = of(&upstream, "openai");
    let (id, key) = counting_key(&gateway).await;
    let by = |gateway: &Gateway, method: &str, path: &str| call(gateway, &config, method, path).key(&key);
    by(&gateway, "POST", "/v1/batches").json(&asked("file-in")).send().await.expect(200);
    by(&gateway, "GET", BATCH).send().await.expect(200);
    let first: Vec<u64> = (1..=100).collect();
    counted_lines(&gateway, "batch_one", &first).await;
    let workspace = workspace_of(&gateway, "batch_one-1").await;
    stalls.store(false, SeqCst);
    note_of_counting(&gateway.folder(), &workspace, |note| {
        let lines = note["unsure"]["lines"].as_array_mut().expect("lines");
        assert_eq!((lines.len(), &lines[7]), (100, &json!(line_key("line-7"))));
        lines.extend((100..LINES).map(|n| json!(line_key(&format!("line-{n}")))));
        note["until"] = 0.into();
    })
    .await;
    let gateway = gateway.restart_after_kill(&[]).await;
    by(&gateway, "GET", BATCH).send().await.expect(200);
    counted(&gateway, "batch_one", LINES).await;
    all_counted(&gateway, &workspace).await;
    by(&gateway, "GET", BATCH).send().await.expect(200);
    let own = used(1)["usage"]["total_tokens"].as_u64().expect("a count");
    spent(&gateway, &id, LINES * own).await;
    uncounted(&gateway, &config, "batch_one-151").await;
}

/// The node dies behind 200 of 260 lines, a hundred of which it had noted as counted; then the provider tells them from
/// the last to the first.
#[tokio::test]
async fn lines_that_a_provider_tells_in_another_order_are_counted_once() {
    const LINES: u64 = 260;
    let gateway = Gateway::start().await;
    // No two cost the same, so that the sum tells them apart.
    let tokens = |n: u64| 1_000 + n * n;
    let line = |n: u64| {
        let usage = json!({ "prompt_tokens": tokens(n), "completion_tokens": 0, "total_tokens": tokens(n) });
        answered_line(n, &with(used(1), json!({ "usage": usage })))
    };
    let [results, reversed]: [String; 2] = [(0..LINES).map(line).collect(), (0..LINES).rev().map(line).collect()];
    let stalls = Arc::new(AtomicBool::new(true));
    let upstream = stalling(&stalls, [results, reversed]).await;
    let config = of(&upstream, "openai");
    let (id, key) = counting_key(&gateway).await;
    let by = |gateway: &Gateway, method: &str, path: &str| call(gateway, &config, method, path).key(&key);
    by(&gateway, "POST", "/v1/batches").json(&asked("file-in")).send().await.expect(200);
    by(&gateway, "GET", BATCH).send().await.expect(200);
    let first: Vec<u64> = (1..=200).collect();
    counted_lines(&gateway, "batch_one", &first).await;
    let workspace = workspace_of(&gateway, "batch_one-1").await;
    spent(&gateway, &id, (0..200).map(tokens).sum()).await;
    stalls.store(false, SeqCst);
    let gateway = gateway.restart_after_kill(&[]).await;
    note_of_counting(&gateway.folder(), &workspace, |note| {
        assert_eq!(
            (&note["parts"], note["unsure"]["lines"].as_array().map(Vec::len)),
            (&json!(1), Some(100)),
            "{note}"
        );
        note["until"] = 0.into();
    })
    .await;
    by(&gateway, "GET", BATCH).send().await.expect(200);
    all_counted(&gateway, &workspace).await;
    spent(&gateway, &id, (0..LINES).map(tokens).sum()).await;
    by(&gateway, "GET", BATCH).send().await.expect(200);
    // What was missing stands in front now.
    for (number, records) in [(1, 2), (60, 2), (61, 1), (200, 1), (201, 0)] {
        let path = format!("/logs?trace_id=batch_one-{number}");
        let told = || async {
            let list = gateway.admin().get(&path).await.expect(200).json();
            (list["total"] == records).then_some(())
        };
        eventually(&path, told).await;
    }
}

/// Reads and changes what a node noted of the one thing that it counts.
pub(crate) async fn note_of_counting(folder: &Path, workspace: &str, change: impl FnOnce(&mut Value)) {
    let url = DatabaseUrl::sqlite_file(folder.join("data/config.db"));
    let database = gateway_store::open(&url, &gateway_store::DatabaseOptions::default()).await.expect("opens");
    let workspace = WorkspaceId(workspace.parse().expect("an id"));
    let place = OwnedPlace { workspace, kind: "booking" };
    let [row]: [OwnedObject; 1] = database.list_owned(place, None, 2).await.expect("rows").try_into().expect("one");
    let before: Value = serde_json::from_str(&row.document).expect("JSON");
    let mut note = before.clone();
    change(&mut note);
    if note != before {
        assert!(database.change(row.id, row.version, &note.to_string()).await.expect("changed"));
    }
}
