//! Counters after a start: totals from the database, then the charges of records that the journal holds beyond them.
//! Segments of a process that still lives (an upgrade) are its own: what it puts into the database is heard of.

use super::{PendingCounts, UsageCheckpoint, delta};
use gateway_domain::ports::StoreError;
use gateway_domain::record::Position;
use gateway_store::journal;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A start does not wait longer for a database that is away; counters come as soon as it is back.
const PATIENCE: Duration = Duration::from_secs(10);

impl UsageCheckpoint {
    /// Recovers what was counted, at start and before anything is served.
    pub async fn recover_soon(&self) {
        let outcome = tokio::time::timeout(PATIENCE, self.recover()).await;
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the database is too slow".to_owned(),
        };
        tracing::error!(error, "limits begin without what was counted before, until the database answers");
    }

    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        let mut heard = self.heard.lock().await;
        if self.pending.lock().recovered {
            return Ok(());
        }
        let places = self.database.count_places(&self.node).await?;
        self.hear(&mut heard).await?;
        let (dir, segments) = (self.left.dir.clone(), self.left.segments.clone());
        let known = places.clone();
        let read = tokio::task::spawn_blocking(move || replay(&dir, &segments, &known)).await;
        let replayed = read.unwrap_or_default();
        if !replayed.parts.is_empty() {
            tracing::info!(counters = replayed.parts.len(), "counters caught up from the journal");
        }
        self.ledger.credit(&replayed.parts.values().map(delta).collect::<Vec<_>>());
        self.go_on(replayed);
        let there = journal::segments(&self.left.dir).unwrap_or_default();
        let gone: Vec<u64> = places.iter().map(|p| p.segment).filter(|s| !there.contains(s)).collect();
        self.database.forget_places(&self.node, &gone).await
    }
}

impl UsageCheckpoint {
    fn go_on(&self, replayed: PendingCounts) {
        let mut pending = self.pending.lock();
        replayed.parts.into_values().for_each(|part| pending.add(part));
        pending.places.extend(replayed.places);
        pending.recovered = true;
    }
}

fn replay(dir: &Path, segments: &[u64], places: &[Position]) -> PendingCounts {
    let from: HashMap<u64, u64> = places.iter().map(|p| (p.segment, p.offset)).collect();
    let mut replayed = PendingCounts::default();
    for segment in segments {
        let offset = from.get(segment).copied().unwrap_or(0);
        if let Err(error) = replay_segment(dir, Position { segment: *segment, offset }, &mut replayed) {
            tracing::error!(%error, segment, "a part of the journal cannot be read; what it charged is not counted");
        }
    }
    replayed
}

fn replay_segment(dir: &Path, from: Position, into: &mut PendingCounts) -> io::Result<()> {
    for record in journal::replay(dir, from)? {
        let (after, record) = record?;
        if after.segment != from.segment {
            break;
        }
        record.charges.iter().for_each(|charge| into.charge(charge, after));
    }
    Ok(())
}
