//! What a run notes of its lines: which are about to be asked, and what came of each. Every run has a log of its own;
//! those of earlier runs are closed before it reads them, so that a run which lost its batch can note nothing more.

use super::blob_writer::{BlobWriter, new_blob};
use super::{KEPT_SECS, LOG};
use crate::batches::document::{LineCounts, LineUsage};
use crate::batches::line_context::LineRecord;
use crate::batches::lines::{LineReader, line_at};
use crate::ids;
use ahash::{AHashMap, AHashSet};
use gateway_domain::ports::{BlobError, Blobs, NewBlob};
use gateway_domain::{OrgId, Timestamp};
use gateway_guardrails::HookResult;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// What came of a line, for the file that it belongs into.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LineDone {
    #[serde(rename = "n")]
    pub(super) number: u64,
    /// Answered with a 2xx.
    #[serde(rename = "ok")]
    pub(super) is_good: bool,
    #[serde(rename = "u")]
    pub(super) usage: LineUsage,
    /// The cost of all calls that were made for the line, in billionths of a dollar.
    #[serde(rename = "c", default)]
    pub(super) cost: i64,
    #[serde(rename = "l")]
    pub(super) line: Box<RawValue>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogEntry {
    Sent(Vec<u64>),
    /// A provider answered these lines, and they are about to be counted.
    Counting {
        #[serde(rename = "n")]
        numbers: Vec<u64>,
        by: Arc<CountedBy>,
    },
    Done(LineDone),
    /// What guardrails said of a line that then went up to a provider.
    Judged {
        #[serde(rename = "n")]
        number: u64,
        said: LineSaid,
    },
}

/// Who counts lines.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountedBy {
    /// The id of the node, which is kept in its data folder.
    pub(super) node: Arc<str>,
    /// Since when, in microseconds: their records are of this time.
    pub(super) at: i64,
}

/// What guardrails said of a line, for when its answer is there.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LineSaid {
    pub(super) is_soft: bool,
    pub(super) results: Vec<HookResult>,
}

/// Where an entry stands: its log, the byte that it begins at, and its length.
pub(super) type EntryPlace = (Uuid, u64, usize);

/// What earlier runs did.
#[derive(Debug, Default)]
pub(super) struct EarlierRuns {
    pub(super) done: AHashSet<u64>,
    /// Asked, or about to be counted, and nobody knows what came of it.
    pub(super) doubtful: AHashMap<u64, Option<Arc<CountedBy>>>,
    /// Lines of which guardrails said something before they went up, and where the log says what.
    pub(super) judged: AHashMap<u64, EntryPlace>,
    pub(super) counts: LineCounts,
    pub(super) usage: LineUsage,
    pub(super) cost: i64,
}

impl EarlierRuns {
    pub(super) fn note(&mut self, entry: &LogEntry) {
        match entry {
            LogEntry::Sent(numbers) => self.doubtful.extend(numbers.iter().map(|number| (*number, None))),
            LogEntry::Counting { numbers, by } => {
                for number in numbers {
                    // Whoever goes on with it later keeps to the record that it was to have first.
                    self.doubtful.entry(*number).or_insert_with(|| Some(by.clone()));
                }
            }
            LogEntry::Done(done) => self.finished(done),
            LogEntry::Judged { .. } => {}
        }
    }

    /// Notes an entry that stands in a log, with its place there.
    pub(super) fn note_at(&mut self, entry: &LogEntry, place: EntryPlace) {
        if let LogEntry::Judged { number, .. } = entry {
            self.judged.insert(*number, place);
        }
        self.note(entry);
    }

    /// The record of a line that is about to be counted. `None`: nobody can say whether it was counted before.
    pub(super) fn record(&self, batch: Uuid, number: u64, now: &CountedBy) -> Option<LineRecord> {
        let earlier = match self.doubtful.get(&number) {
            None => None,
            Some(by) => Some(by.as_deref()?),
        };
        let at = earlier.unwrap_or(now).at;
        Some(LineRecord { id: id_of_record((batch, number), at), at, doubted_by: earlier.map(|by| by.node.clone()) })
    }

    pub(super) fn finished(&mut self, done: &LineDone) {
        if !self.done.insert(done.number) {
            return;
        }
        self.doubtful.remove(&done.number);
        self.counts.completed += u64::from(done.is_good);
        self.counts.failed += u64::from(!done.is_good);
        self.usage.input += done.usage.input;
        self.usage.output += done.usage.output;
        self.cost = self.cost.saturating_add(done.cost);
    }
}

/// That of a line's record, where it was about to be counted then.
fn id_of_record((batch, number): (Uuid, u64), at: i64) -> Uuid {
    let digest = Sha256::new().chain_update(batch.as_bytes()).chain_update(number.to_le_bytes()).finalize();
    ids::of(Timestamp(at), std::array::from_fn(|place| digest[place]))
}

/// Closes the log of an earlier run. One that is not there yet is begun and closed, so that a run which comes to that
/// only now finds it closed.
pub(super) async fn close(blobs: &Arc<dyn Blobs>, log: &NewBlob) -> Result<(), BlobError> {
    for _ in 0..2 {
        match blobs.finish(log.id).await {
            Ok(_) => return Ok(()),
            Err(BlobError::Unknown) => {}
            Err(why) => return Err(why),
        }
        match blobs.begin(log).await {
            Ok(()) => {}
            // It is whole already.
            Err(BlobError::Unknown) => return Ok(()),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// The blob of a log.
pub(super) const fn blob(id: Uuid, org: OrgId, now: i64) -> NewBlob {
    new_blob(id, org, LOG, now + KEPT_SECS)
}

/// Reads one that is closed. An entry that was not written to its end was never noted.
pub(super) struct LogReader {
    lines: LineReader,
    log: Uuid,
}

impl LogReader {
    pub(super) fn new(blobs: &Arc<dyn Blobs>, log: Uuid) -> Self {
        Self { lines: LineReader::new(blobs, log), log }
    }

    pub(super) async fn next(&mut self) -> Result<Option<LogEntry>, BlobError> {
        Ok(self.next_placed().await?.map(|(entry, _)| entry))
    }

    pub(super) async fn next_placed(&mut self) -> Result<Option<(LogEntry, EntryPlace)>, BlobError> {
        loop {
            match self.lines.next().await {
                Ok(Some(line)) => {
                    if let Ok(entry) = serde_json::from_slice(&line.text) {
                        return Ok(Some((entry, (self.log, line.at, line.text.len()))));
                    }
                }
                Ok(None) | Err(BlobError::Unknown) => return Ok(None),
                Err(why) => return Err(why),
            }
        }
    }
}

/// What guardrails said of a line, where they said something.
pub(super) async fn said_of(
    blobs: &Arc<dyn Blobs>,
    earlier: &EarlierRuns,
    number: u64,
) -> Result<Option<LineSaid>, BlobError> {
    let Some((log, at, length)) = earlier.judged.get(&number).copied() else { return Ok(None) };
    match serde_json::from_slice(&line_at(blobs, log, (at, length)).await?) {
        Ok(LogEntry::Judged { said, .. }) => Ok(Some(said)),
        _ => Ok(None),
    }
}

pub(super) struct RunLog(BlobWriter);

impl RunLog {
    pub(super) async fn begin(blobs: &Arc<dyn Blobs>, log: &NewBlob) -> Result<Self, BlobError> {
        BlobWriter::begin(blobs, log).await.map(Self)
    }

    /// All of these are kept when it comes back, or the run is over.
    pub(super) async fn note(&mut self, entries: &[LogEntry]) -> Result<(), BlobError> {
        for entry in entries {
            let text = serde_json::to_string(entry).unwrap_or_default();
            self.0.push(text.as_bytes()).await?;
            self.0.push(b"\n").await?;
        }
        self.0.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ports::BlobBounds;
    use gateway_store::{DatabaseOptions, DatabaseUrl, MasterKey, RowBlobs, SealingVault};

    #[tokio::test]
    async fn a_log_that_another_run_closed_takes_nothing_more() {
        let url = DatabaseUrl::parse("sqlite::memory:").expect("a URL");
        let database = gateway_store::open(&url, &DatabaseOptions::default()).await.expect("opens");
        let vault = Arc::new(SealingVault::new(&MasterKey::generate()));
        let blobs: Arc<dyn Blobs> = Arc::new(RowBlobs::new(database, vault, BlobBounds::default()));
        let [begun, late] = [1, 2].map(|n| blob(Uuid::from_u128(n), OrgId(Uuid::nil()), 0));
        let mut run = RunLog::begin(&blobs, &begun).await.expect("begun");
        run.note(&[LogEntry::Sent(vec![7, 8]), done(8, true)]).await.expect("noted");
        let mut replayed = EarlierRuns::default();
        for log in [&begun, &late] {
            close(&blobs, log).await.expect("closed");
            let mut entries = LogReader::new(&blobs, log.id);
            while let Some(entry) = entries.next().await.expect("read") {
                replayed.note(&entry);
            }
        }
        assert_eq!((replayed.doubtful.len(), replayed.done.len(), replayed.counts.completed), (1, 1, 1));
        assert!(matches!(run.note(&[LogEntry::Sent(vec![9])]).await, Err(BlobError::Unknown)));
        assert!(
            matches!(RunLog::begin(&blobs, &late).await, Err(BlobError::Unknown)),
            "nor does one that begins only now"
        );
    }

    fn done(number: u64, is_good: bool) -> LogEntry {
        let line = RawValue::from_string("{}".to_owned()).expect("JSON");
        LogEntry::Done(LineDone { number, is_good, usage: LineUsage { input: 2, output: 1 }, cost: 7, line })
    }

    #[test]
    fn what_was_about_to_be_counted_keeps_its_record_until_it_is_done() {
        let by = |node: &str, at| Arc::new(CountedBy { node: node.into(), at });
        let counting = |numbers: &[u64], by| LogEntry::Counting { numbers: numbers.to_vec(), by };
        let mut replayed = EarlierRuns::default();
        let (first, second, now) = (by("here", 1_000_000), by("there", 2_000_000), by("here", 3_000_000));
        for entry in [counting(&[1, 2, 3], first), done(2, true), LogEntry::Sent(vec![4]), counting(&[1, 2, 4], second)]
        {
            let text = serde_json::to_string(&entry).expect("text");
            replayed.note(&serde_json::from_str(&text).expect("it reads back"));
        }
        let record =
            |number| replayed.record(Uuid::from_u128(7), number, &now).map(|record| (record.at, record.doubted_by));
        assert_eq!([record(1), record(3)], [1, 3].map(|_| Some((1_000_000, Some("here".into())))));
        assert_eq!((record(4), record(5)), (None, Some((3_000_000, None))), "nobody knows of one without a time");
        let id = |number| replayed.record(Uuid::from_u128(7), number, &now).map(|record| record.id);
        assert!(id(1) != id(3) && id(1) == id(1));
    }

    #[test]
    fn what_was_sent_and_not_finished_is_doubtful() {
        let mut replayed = EarlierRuns::default();
        for entry in
            [LogEntry::Sent(vec![1, 2, 3]), done(2, true), done(2, true), LogEntry::Sent(vec![4]), done(4, false)]
        {
            let text = serde_json::to_string(&entry).expect("text");
            replayed.note(&serde_json::from_str(&text).expect("it reads back"));
        }
        assert_eq!((replayed.doubtful.len(), replayed.done.len()), (2, 2));
        assert_eq!(replayed.counts, LineCounts { total: 0, completed: 1, failed: 1 });
        assert_eq!((replayed.usage, replayed.cost), (LineUsage { input: 4, output: 2 }, 14));
    }
}
