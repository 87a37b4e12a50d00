//! What the sums by hour and day cost whoever stores records: the same records into day files that keep sums and into
//! such that have no table for them. What was set aside is added to its rows within what is measured: each round ends
//! with a question. `cargo bench -p gateway-store --bench rollups`; exits with 1 when sums take more than a third of
//! the whole.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program for developers")]

use gateway_domain::analytics::{SumParts, SumQuery};
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::LogStore;
use gateway_domain::record::{LlmDetail, LogQuery, LogRecord, RecordedOperation, Timings};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use gateway_store::{DatabaseOptions, LogsUrl, open_logs};
use sqlx::{Connection as _, SqliteConnection};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const RECORDS: u128 = 60_000;
/// Records that the shipper takes at once.
const BATCH: u128 = 1_000;
const ROUNDS: u128 = 5;
/// 2024-10-04, noon.
const NOON: i64 = 20_000 * 86_400_000_000 + 43_200_000_000;

/// A record of a busy gateway: some keys, models and users, a share of errors, all within one hour.
fn record(n: u128) -> LogRecord {
    let id = |n: u128| Uuid::from_u128(n);
    LogRecord {
        id: id(n),
        created_at: Timestamp(NOON + (n % 3_000_000) as i64),
        trace_id: format!("trace-{n}").into(),
        attempt: 1,
        last: true,
        org: OrgId(id(1)),
        workspace: WorkspaceId(id(2 + n % 3)),
        workspace_slug: "default".into(),
        key: Some(KeyId(id(10 + n % 20))),
        key_name: "app".into(),
        owner: None,
        config: "pc-main".into(),
        config_id: None,
        config_version: None,
        virtual_key: "openai".into(),
        provider: ["openai", "anthropic"][n as usize % 2].into(),
        model: ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5"][n as usize % 3].into(),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        status: if n.is_multiple_of(50) { 429 } else { 200 },
        stream: n.is_multiple_of(2),
        strategy: "single",
        operation: RecordedOperation::new(
            "chatComplete",
            LlmDetail {
                usage: Some(Usage { input: 100 + n as u64 % 900, output: 50 + n as u64 % 70, ..Usage::default() }),
                ..LlmDetail::NONE
            },
        ),
        cost: Some(NanoUsd(1_000 + n as i64 % 5_000)),
        timings: Timings { total_us: 200_000 + n as u64 % 3_000_000, ..Timings::default() },
        request_bytes: 900,
        response_bytes: 700,
        client_ip: "10.0.0.1".parse().ok(),
        metadata: format!(r#"{{"_user":"user-{}"}}"#, n % 100).into(),
        ..LogRecord::blank()
    }
}

/// Seconds of processor time that this process has used, all threads together (Linux).
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = |at: usize| behind.split_whitespace().nth(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or_default();
    // Ticks of user and system time, a hundred each second on every Linux.
    (ticks(11) + ticks(12)) / 100.0
}

async fn open(folder: &Path) -> Arc<dyn LogStore> {
    open_logs(&LogsUrl::Files(folder.to_owned()), &DatabaseOptions::default(), None).await.expect("it opens")
}

/// All calls of the hour.
async fn asked(store: &dyn LogStore) -> i64 {
    let query = SumQuery {
        of: LogQuery { org: Some(OrgId(Uuid::from_u128(1))), ..LogQuery::default() },
        edges: vec![Timestamp(NOON), Timestamp(NOON + 3_600_000_000)],
        by: Vec::new(),
        parts: SumParts::ALL,
        most_records: 0,
        time: Duration::from_secs(60),
    };
    store.sums(&query).await.expect("summed").cells.iter().map(|cell| cell.sums.calls).sum()
}

/// Microseconds of processor time for each record.
async fn stored(store: &dyn LogStore, from: u128, keeps_sums: bool) -> f64 {
    let batches: Vec<Vec<LogRecord>> =
        (0..RECORDS / BATCH).map(|n| (0..BATCH).map(|i| record(from + n * BATCH + i)).collect()).collect();
    let before = cpu();
    for batch in &batches {
        store.append(batch).await.expect("stored");
    }
    if keeps_sums {
        let all = i64::try_from(from + RECORDS).expect("few");
        assert_eq!(asked(store).await, all, "each record is in the sums");
    }
    (cpu() - before) * 1e6 / RECORDS as f64
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn measure() -> (f64, f64) {
    let (with, without) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    for folder in [&with, &without] {
        open(folder.path()).await.append(&[record(0)]).await.expect("stored");
    }
    let day = std::fs::read_dir(without.path()).expect("a folder").flatten().map(|entry| entry.path());
    let file = day.into_iter().find(|path| path.extension().is_some_and(|e| e == "db")).expect("a day's file");
    let mut plain = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.expect("it opens");
    sqlx::query("DROP TABLE log_rollup").execute(&mut plain).await.expect("dropped");
    plain.close().await.expect("closed");
    let (with, without) = (open(with.path()).await, open(without.path()).await);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let from = 1 + round * RECORDS;
        off.push(stored(&*without, from, false).await);
        on.push(stored(&*with, from, true).await);
    }
    assert!(without.sums_begun() == 0 && with.sums_begun() > 0, "one keeps sums and the other does not");
    (median(on), median(off))
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (on, off) = runtime.block_on(measure());
    let share = (on - off) / on;
    println!("a record without sums {off:.2} µs, with sums {on:.2} µs: sums are {:.0} % of it", share * 100.0);
    if share <= 1.0 / 3.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
