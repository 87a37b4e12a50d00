//! How the way of records does, for the status page: what lies in the journal, and whether the store keeps up.

use crate::clock;
use crate::health::HealthComponents;
use crate::metrics::Metrics;
use gateway_admin::ComponentStatus;
use gateway_records::writer::WriterTrouble;
use gateway_store::journal::Depth;
use serde_json::json;

/// The share of the journal's bound, in percent, from which on an operator has to act before records go.
const NEARLY_FULL: u64 = 90;

pub(crate) fn report(parts: &HealthComponents, metrics: &Metrics, trouble: &WriterTrouble) {
    let WriterTrouble { shedding, away } = trouble;
    let (counts, shedding, behind) = (metrics.clone(), shedding.clone(), away.clone());
    parts.add(move || {
        let depth = counts.journal();
        let facts = json!({
            "records": depth.waiting, "bytes": depth.bytes, "max_bytes": depth.max_bytes, "segments": depth.segments,
            "dropped": counts.dropped(),
        });
        // What is merely held for a replay goes without a loss.
        let full = || (behind.get().is_some() && is_nearly_full(&depth)).then(|| NEXT_TO_GO.to_owned());
        ComponentStatus::new("journal", facts).troubled(shedding.get().or_else(full))
    });
    let (counts, away) = (metrics.clone(), away.clone());
    parts.add(move || {
        let lag = counts.store_lag(clock::now());
        ComponentStatus::new("log_store", json!({ "lag_seconds": lag, "stored": counts.stored() })).troubled(away.get())
    });
}

const NEXT_TO_GO: &str = "nearly full while the log store takes nothing: its oldest records go next";

const fn is_nearly_full(depth: &Depth) -> bool {
    depth.bytes * 100 >= depth.max_bytes * NEARLY_FULL
}
