//! Opens the list of public prices. Reading it takes milliseconds, in which a worker serves nobody: it is read on a
//! thread of its own, once, when the first call needs it, or behind the start where calls will. What is asked of it is
//! no business of this file.

use gateway_domain::price::PriceBook;
use gateway_domain::snapshot::Snapshot;
use std::time::Instant;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// However many calls wait, one thread reads.
static OPENING: OnceCell<()> = OnceCell::const_new();

/// Comes back when prices can be looked up without being read first.
pub(crate) async fn opened() {
    opened_for(|| true).await;
}

/// Comes back when prices can be looked up. `needed` says whether they are at all, and is asked only while the list is
/// closed.
pub(crate) async fn opened_for(needed: impl FnOnce() -> bool) {
    if PriceBook::opened().is_none() && needed() {
        // Where it fails, the list is read by whoever looks into it. Boxed to keep its room out of every request.
        let reading = || async { drop(spawn_blocking(|| read("a call")).await) };
        Box::pin(OPENING.get_or_init(reading)).await;
    }
}

/// Every call by an integration has its price in its record: where there is one, the list is read before somebody
/// calls.
pub(crate) fn open_behind_the_start(snapshot: &Snapshot) {
    if snapshot.upstreams().next().is_some() {
        // Where no thread can be had, the first call has one.
        drop(std::thread::Builder::new().name("prices".to_owned()).spawn(|| read("the start")));
    }
}

fn read(for_whom: &'static str) {
    let begun = Instant::now();
    // Who writes records or lists models may have read it meanwhile.
    if let Some(rows) = PriceBook::open() {
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(rows, micros, for_whom, "the price list was read");
    }
}
