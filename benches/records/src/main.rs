//! Fills a log store with records as a busy gateway leaves them over many days, by the very code that ships them, and
//! tells how fast it went. What the records say is made from their number alone: two stores filled alike hold the same.

#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

mod made;

use clap::Parser;
use gateway_domain::Timestamp;
use gateway_store::{DatabaseOptions, LogsUrl, open_logs};
use made::{Maker, Tenancy};
use std::error::Error;
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Records that the shipper sends at once when much has come.
const BATCH: u64 = 1_000;
/// Records between two lines of what was reached.
const TOLD_EVERY: u64 = 1_000_000;

#[derive(Debug, Parser)]
#[command(about = "Fills a log store with records as a busy gateway leaves them")]
struct Args {
    /// The log store's URL, in the form of the gateway's own `--log-store-url`.
    #[arg(long)]
    log_store_url: String,
    #[arg(long)]
    org: Uuid,
    /// The workspaces that have the records, in turn.
    #[arg(long = "workspace", required = true)]
    workspaces: Vec<Uuid>,
    #[arg(long, default_value_t = 10_000_000)]
    records: u64,
    /// Over how many days until now they lie.
    #[arg(long, default_value_t = 90)]
    days: u32,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let url = LogsUrl::parse(&args.log_store_url)?;
    let store = open_logs(&url, &DatabaseOptions::default(), None).await?;
    let span = Duration::from_secs(u64::from(args.days) * 86_400);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = Timestamp(i64::try_from(now.as_micros())?);
    let maker = Maker::new(Tenancy { org: args.org, workspaces: args.workspaces }, now, span, args.records);
    let begun = Instant::now();
    let mut done = 0;
    while done < args.records {
        let until = (done + BATCH).min(args.records);
        let batch: Vec<_> = (done..until).map(|number| maker.record(number)).collect();
        store.append(&batch).await?;
        if until / TOLD_EVERY > done / TOLD_EVERY || until == args.records {
            println!("{until} records, {:.0} a second", until as f64 / begun.elapsed().as_secs_f64());
        }
        done = until;
    }
    // Sums are made up like in the hourly upkeep of a gateway.
    let begun = Instant::now();
    store.make_up(now.plus_micros(-3_600_000_000)).await?;
    println!("sums of what is over: {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
