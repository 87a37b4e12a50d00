//! What a node pays to read the whole configuration: `cargo run --release -p gateway-store --example load`.
//! Arguments: keys (100,000) and a database URL (a temporary SQLite file).

#![expect(clippy::print_stdout, reason = "its output is the result")]

use gateway_domain::Timestamp;
use gateway_domain::ports::{Batch, ConfigStore, WriteError};
use gateway_domain::resource::Stored;
use gateway_store::{DatabaseOptions, DatabaseUrl, open};
use std::error::Error;
use std::time::{Duration, Instant};
use uuid::Uuid;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().map(|a| a.parse::<u128>()).transpose()?.unwrap_or(100_000);
    let dir = tempfile::tempdir()?;
    let url = match arguments.next() {
        Some(url) => DatabaseUrl::parse(&url)?,
        None => DatabaseUrl::sqlite_file(dir.path().join("gateway.db")),
    };
    let patient = DatabaseOptions { call_timeout: Duration::from_secs(3_600), ..DatabaseOptions::default() };
    let database = open(&url, &patient).await?;
    let began = Instant::now();
    let seen = database.since(i64::MAX).await?.revision;
    let rows = (1..=keys).map(key).collect();
    let written = database.write(seen, Box::new(|_| Ok(Batch { rows, ..Batch::default() }))).await;
    let revision = written.map_err(|e| match e {
        WriteError::Store(e) => e.to_string(),
        WriteError::Rejected(_) | WriteError::Repeated => "refused".to_owned(),
    })?;
    println!("{keys} rows written as revision {} in {:.2} s", revision.revision, began.elapsed().as_secs_f64());
    let began = Instant::now();
    let all = database.load().await?;
    println!("{} rows read in {:.2} s", all.rows.len(), began.elapsed().as_secs_f64());
    let began = Instant::now();
    for _ in 0..100 {
        database.since(all.revision).await?;
    }
    println!("a look that finds nothing new: {:.0} us", began.elapsed().as_secs_f64() * 1e4);
    Ok(())
}

fn key(n: u128) -> Stored {
    let hash = format!("{n:064x}");
    Stored {
        kind: "api_key".into(),
        id: Uuid::from_u128(n),
        org: Uuid::from_u128(1),
        workspace: Some(Uuid::from_u128(2)),
        slug: String::new(),
        name: format!("key {n}"),
        status: "active".into(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 0,
        doc: format!(
            r#"{{"type":"workspace-service","hash":"{hash}","masked":"gw_svc_****abcd","scopes":["completions.write"],"creation_mode":"api"}}"#
        ),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        deleted_at: None,
    }
}
