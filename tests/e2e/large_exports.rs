//! An export of many records: cancelled, begun again, killed and gone on with, fetched as lines and as columns, in
//! memory that does not grow with it. A few thousand of them in the suite; `make scale` asks for a million.

use crate::harness::{Gateway, eventually, installed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Memory that two exports, as lines and then as columns, may leave a process with that has only just begun: a million
/// took 173 of a release build, a quarter of that 123, most of it what the allocator and the database keep for the next
/// one.
const MOST_MIB: u64 = 192;

#[expect(clippy::disallowed_methods, reason = "how many records is asked of the test, not of the gateway")]
fn records() -> usize {
    std::env::var("SCALE_RECORDS").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000)
}

fn batch(from: usize) -> Value {
    let one = |n: usize| {
        json!({
            "request": {"url": "/v1/chat/completions", "body": {"model": format!("m{}", n % 7), "messages": []}},
            "response": {"status": if n.is_multiple_of(10) { 500 } else { 200 }, "body": {}},
            "metadata": {"trace_id": "many", "span_id": n.to_string(), "_user": format!("user-{}", n % 1_000)},
        })
    };
    (from..from + 100).map(one).collect()
}

async fn total(gateway: &Gateway) -> u64 {
    let list = gateway.admin().get("/logs?trace_id=many&page_size=1").await.expect(200).json();
    list["total"].as_u64().expect("a number")
}

/// Waits for as long as there is progress.
async fn grown(what: &str, until: u64, count: impl AsyncFn() -> u64) {
    let mut seen = 0;
    while seen < until {
        seen = eventually(what, || async { Some(count().await).filter(|now| *now > seen || *now >= until) }).await;
    }
}

async fn filled(gateway: &Gateway, count: usize) {
    let scopes = json!({"scopes": ["completions.write", "logs.write"]});
    let (_, key) = gateway.admin().workspace_key("teller", scopes).await;
    let rounds: Vec<usize> = (0..count).step_by(400).collect();
    for from in rounds {
        let tell = |from: usize| gateway.post("/v1/logs").key(&key).json(&batch(from)).send();
        let all = tokio::join!(tell(from), tell(from + 100), tell(from + 200), tell(from + 300));
        for answer in [all.0, all.1, all.2, all.3] {
            answer.expect(200);
        }
    }
    grown("all are stored", count as u64, async || total(gateway).await).await;
}

async fn shown(gateway: &Gateway, id: &str) -> Value {
    gateway.admin().get(&format!("/logs/exports/{id}")).await.expect(200).json()
}

async fn exported(gateway: &Gateway, id: &str) -> u64 {
    shown(gateway, id).await["exported_records"].as_u64().unwrap_or_default()
}

async fn asked_for(gateway: &Gateway, format: &str) -> String {
    let fields = json!(["id", "created_at", "ai_model", "response_status_code", "metadata", "cost"]);
    let filters = json!({"time_of_generation_min": "2020-01-01T00:00:00Z"});
    let body = json!({"filters": filters, "requested_data": fields, "format": format});
    let made = gateway.admin().post("/logs/exports", &body).await.expect(200).json();
    made["id"].as_str().expect("an id").to_owned()
}

async fn act(gateway: &Gateway, id: &str, verb: &str) {
    gateway.admin().post(&format!("/logs/exports/{id}/{verb}"), &json!({})).await.expect(200);
}

/// The most memory that was seen meanwhile, in MiB.
async fn finished(gateway: &Gateway, id: &str, count: u64) -> u64 {
    let mut most = 0;
    let mut seen = (Value::Null, Value::Null);
    loop {
        // What a dead node held is free when its lease has run out: longer than one waits elsewhere.
        let pause = Instant::now();
        let told = eventually("it gets further, or some time has passed", || async {
            let told = shown(gateway, id).await;
            let now = (told["status"].clone(), told["exported_records"].clone());
            (now != seen || pause.elapsed() > Duration::from_secs(15)).then_some(told)
        })
        .await;
        seen = (told["status"].clone(), told["exported_records"].clone());
        most = most.max(gateway.memory("VmRSS"));
        if told["status"] == "success" {
            assert_eq!(told["exported_records"], count, "{told}");
            return most;
        }
        assert_eq!(told["status"], "in_progress", "{told}");
    }
}

/// Into a file, piece by piece.
async fn fetched(gateway: &Gateway, id: &str) -> PathBuf {
    let told = gateway.admin().get(&format!("/logs/exports/{id}/download")).await.expect(200).json();
    let url = told["signed_url"].as_str().expect("a link");
    let mut answer = gateway.client().get(url).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let path = gateway.folder().join(id);
    let mut file = tokio::fs::File::create(&path).await.expect("a file");
    while let Some(piece) = answer.chunk().await.expect("the whole file") {
        file.write_all(&piece).await.expect("written");
    }
    file.flush().await.expect("written");
    path
}

/// What a reader of somebody else's making finds in a file.
async fn read(file: &Path, format: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/python/export_reader.py");
    let mut command = Command::new(installed("python/bin/python"));
    command.env("PYTHONPATH", installed("tools")).arg("-B").arg(script).arg(file).arg(format);
    let output = command.output().await.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_records_leave_whole_in_little_memory() {
    let count = records();
    let gateway = Gateway::with(&["--journal-max", "4GiB"]).await;
    let began = Instant::now();
    filled(&gateway, count).await;
    let (filling, before) = (began.elapsed(), gateway.memory("VmRSS"));

    let lines = asked_for(&gateway, "jsonl").await;
    act(&gateway, &lines, "start").await;
    grown("some of it is written", 1, async || exported(&gateway, &lines).await).await;
    let cancel = gateway.admin().post(&format!("/logs/exports/{lines}/cancel"), &json!({})).await;
    // A few thousand may be made already; a million never are.
    let is_cancelled = cancel.status == 200;
    assert!(is_cancelled || count < 100_000, "{}", cancel.text());
    let end = if is_cancelled { "stopped" } else { "success" };
    eventually("it stops", || async { (shown(&gateway, &lines).await["status"] == end).then_some(()) }).await;

    act(&gateway, &lines, "start").await;
    grown("some of it is written again", 1, async || exported(&gateway, &lines).await).await;
    let gateway = gateway.restart_after_kill(&["--journal-max", "4GiB"]).await;
    let began = Instant::now();
    let base = gateway.memory("VmRSS");
    let most_of_lines = finished(&gateway, &lines, count as u64).await;
    let as_lines = began.elapsed();
    let file = fetched(&gateway, &lines).await;
    let (bytes, most) = (file.metadata().expect("a file").len(), most_of_lines.max(gateway.memory("VmRSS")));
    let expected = json!({"records": count, "ids": count, "failed": count / 10, "models": 7});
    assert_eq!(read(&file, "jsonl").await, expected);

    let columns = asked_for(&gateway, "parquet").await;
    act(&gateway, &columns, "start").await;
    let began = Instant::now();
    let most = most.max(finished(&gateway, &columns, count as u64).await);
    let as_columns = began.elapsed();
    let file = fetched(&gateway, &columns).await;
    assert_eq!(read(&file, "parquet").await, expected);
    let grown = most.saturating_sub(base);
    eprintln!(
        "{count} records: told in {filling:.1?} ({before} MiB then); lines in {as_lines:.1?} after a kill ({bytes} bytes), \
         columns in {as_columns:.1?}; {base} MiB before, {most} MiB at most",
    );
    assert!(grown <= MOST_MIB, "{grown} MiB more than the {base} MiB before");
}
