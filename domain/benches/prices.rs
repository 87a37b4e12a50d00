//! What the public price list costs: to read it once, to keep it, and to look a price up in it. `cargo bench -p
//! gateway-domain --bench prices`; exits with 1 when it takes 4 MB or more, or a look-up 100 ns or more.

#![expect(clippy::print_stdout, reason = "a program for developers")]

use gateway_domain::Timestamp;
use gateway_domain::price::{PriceBook, PriceQuery};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

const MOST_BYTES: u64 = 4_000_000;
const MOST_NANOS: u128 = 100;
const ROUNDS: u32 = 1_000_000;

/// Bytes of this process that are in memory (Linux), the file's own pages included.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn nanos(name: &str, query: PriceQuery<'_>) -> u128 {
    let book = PriceBook::builtin();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(book.card(black_box(query)));
    }
    let each = start.elapsed().as_nanos() / u128::from(ROUNDS);
    println!("{name}: {each} ns");
    each
}

fn main() -> ExitCode {
    let before = resident();
    let start = Instant::now();
    let rows = PriceBook::builtin().len();
    let took = start.elapsed();
    let kept = resident().saturating_sub(before);
    println!("{rows} rows read in {took:?}; {kept} bytes more are in memory, pages of the text included");
    let query = |provider, model| PriceQuery { provider, model, region: "", at: Timestamp::from_secs(1_795_305_600) };
    let slowest = [
        nanos("as it is called", query("openai", "gpt-4o")),
        nanos("with a history", query("openai", "gpt-5.5")),
        nanos("by the name of a snapshot", query("anthropic", "claude-sonnet-5-5-20991231")),
    ]
    .into_iter()
    .max()
    .unwrap_or_default();
    // Every form of the name is tried; no call that is priced is of these.
    nanos("unknown", query("openai", "eu.nobody-knows-2024-01-01"));
    if kept >= MOST_BYTES || slowest >= MOST_NANOS {
        println!("too much");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
