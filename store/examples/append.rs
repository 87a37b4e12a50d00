//! What a log record costs on its way into SQLite: `cargo run --release -p gateway-store --example append`. Arguments:
//! records (200,000), records per batch (1,000), and 1 for what it costs without the sums that are kept beside.

#![expect(clippy::print_stdout, reason = "its output is the result")]

use gateway_domain::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::RecordAppend;
use gateway_domain::record::{LlmDetail, LogRecord, RecordedOperation, Steps, Timings};
use gateway_domain::{NanoUsd, Timestamp, Usage};
use gateway_store::{DatabaseOptions, DayFiles};
use sqlx::{Connection, SqliteConnection};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use uuid::Uuid;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let records = arguments.next().transpose()?.unwrap_or(200_000);
    let size = arguments.next().transpose()?.unwrap_or(1_000);
    let bare = arguments.next().transpose()?.unwrap_or(0) == 1;
    let dir = tempfile::tempdir()?;
    let logs = DayFiles::open(dir.path(), &DatabaseOptions::default(), None)?;
    let template = record();
    let (mut wall, mut processor, mut done) = (Duration::ZERO, Duration::ZERO, 0);
    while done < records {
        // Made outside the clock: only their way into the file counts.
        let batch: Vec<_> = (0..size).map(|n| numbered(&template, done + n)).collect();
        let (began, spent) = (Instant::now(), processor_time());
        logs.append(&batch).await?;
        wall += began.elapsed();
        processor += processor_time() - spent;
        if bare && done == 0 {
            drop_sums(dir.path()).await?;
        }
        done += size;
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / done as f64;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir.path())? {
        bytes += entry?.metadata()?.len();
    }
    let bytes = bytes / done as u64;
    println!(
        "{done} records, {size} per batch: {:.2} us each, {:.2} us of processor time, {bytes} bytes on disk",
        each(wall),
        each(processor)
    );
    Ok(())
}

/// Leaves the files as a version without sums made them: none are kept in such.
async fn drop_sums(dir: &Path) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "db") {
            let mut file = SqliteConnection::connect(&format!("sqlite:{}", path.display())).await?;
            sqlx::query("DROP TABLE log_rollup").execute(&mut file).await?;
        }
    }
    Ok(())
}

/// User and system time of all threads, from the kernel's ticks of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn numbered(template: &LogRecord, n: usize) -> LogRecord {
    let workspace = WorkspaceId(Uuid::from_u128((n % 20) as u128));
    let created_at = Timestamp(1_790_000_000_000_000 + n as i64 * 100);
    LogRecord {
        id: Uuid::now_v7(),
        created_at,
        trace_id: Uuid::now_v7().to_string().into(),
        workspace,
        ..template.clone()
    }
}

fn record() -> LogRecord {
    LogRecord {
        id: Uuid::nil(),
        created_at: Timestamp(0),
        trace_id: "".into(),
        attempt: 1,
        last: true,
        org: OrgId(Uuid::from_u128(1)),
        workspace: WorkspaceId(Uuid::nil()),
        workspace_slug: "production".into(),
        key: Some(KeyId(Uuid::from_u128(3))),
        key_name: "".into(),
        owner: None,
        config: "fallback-to-anthropic".into(),
        config_id: Some(ConfigId(Uuid::from_u128(4))),
        config_version: Some(Uuid::from_u128(5)),
        virtual_key: "openai-main".into(),
        provider: "openai".into(),
        model: "gpt-4o-mini".into(),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        status: 200,
        fault: None,
        stream: true,
        option_index: "targets[0]".into(),
        strategy: "fallback",
        cost: Some(NanoUsd(336_600)),
        timings: Timings { total_us: 1_834_211, upstream_us: 1_833_900, first_byte_us: 412_873, gateway_us: 181 },
        steps: Steps::default(),
        request_bytes: 7_312,
        response_bytes: 48_221,
        client_ip: "203.0.113.17".parse().ok(),
        metadata: r#"{"_user":"u-8d3f1","_environment":"production","team":"search"}"#.into(),
        trace: None,
        client: None,
        charges: Vec::new(),
        bodies: None,
        hooks: None,
        operation: RecordedOperation::new(
            "chatComplete",
            LlmDetail {
                response_model: Some("gpt-4o-mini-2024-07-18".into()),
                usage: Some(Usage { input: 812, cache_read: 1024, output: 230, ..Usage::default() }),
                ..LlmDetail::NONE
            },
        ),
    }
}
