//! The end of a batch: each line goes into exactly one of two files, and then the batch says so. Until that is written
//! nothing has ended, and another run would write both files anew.

use super::line::{line_id, unanswered};
use super::{BatchRun, Halt, RunBroken};
use crate::batches::blob_writer::{BlobWriter, new_blob};
use crate::batches::document::{BatchStatus, FileDocument, Replacement};
use crate::batches::lines::LineReader;
use crate::batches::log::{EarlierRuns, LogEntry, LogReader, blob, close};
use crate::batches::operations::{KeepError, ObjectOwner, now_secs, object, written};
use crate::batches::record::EndedBatch;
use crate::batches::{BatchDocument, FILE, LineSetup, RESULT, batch_id};
use crate::{clock, ids};
use gateway_domain::ports::Live as _;
use uuid::Uuid;

/// The two files, begun when their first line comes.
#[derive(Default)]
struct Results {
    good: Option<BlobWriter>,
    bad: Option<BlobWriter>,
}

impl Halt {
    /// What lines are told that were not answered.
    pub(super) const fn line_error(self) -> (&'static str, &'static str) {
        match self {
            Self::Cancelled => ("batch_cancelled", "The batch was cancelled before this line was answered."),
            Self::Expired => ("batch_expired", "The batch was over before this line was answered."),
            Self::Unanswered => ("not_answered", "The provider's batch ended without an answer to this line."),
            Self::Revoked | Self::Leaving => ("key_revoked", "The key that made the batch may call no more."),
        }
    }

    const fn status(self) -> BatchStatus {
        match self {
            Self::Cancelled => BatchStatus::Cancelled,
            Self::Expired => BatchStatus::Expired,
            Self::Unanswered | Self::Revoked | Self::Leaving => BatchStatus::Completed,
        }
    }
}

impl BatchRun {
    pub(super) async fn finalize(
        &mut self,
        batch: &BatchDocument,
        done: &EarlierRuns,
        halt: Option<Halt>,
    ) -> Result<(), RunBroken> {
        let finalizing = self.batches().change(self.workspace, self.id(), |batch| {
            if batch.status == BatchStatus::InProgress {
                batch.enter(BatchStatus::Finalizing, now_secs());
            }
        });
        finalizing.await?;
        let mut results = Results::default();
        for log in self.logs.clone() {
            close(&self.batches().blobs, &blob(log, self.org(), now_secs())).await?;
            self.copy(log, batch, &mut results).await?;
        }
        let mut counts = done.counts;
        if let Some(halt) = halt {
            counts.failed += self.add_unanswered(batch, done, halt, &mut results).await?;
            // One that was cancelled before its file was read has not been counted yet.
            counts.total = counts.total.max(counts.completed + counts.failed);
        }
        let output = self.keep(batch, results.good.take(), "output").await?;
        let failures = self.keep(batch, results.bad.take(), "errors").await?;
        // Whoever lost the lease meanwhile must not say how the batch ended.
        self.beat(None).await?;
        let status = halt.map_or(BatchStatus::Completed, Halt::status);
        let (usage, cost) = (done.usage, done.cost);
        let ended = self.batches().change(self.workspace, self.id(), |batch| {
            if batch.is_over() {
                return;
            }
            (batch.counts, batch.usage, batch.cost) = (counts, usage, cost);
            batch.failures = failures;
            match batch.replacement {
                Replacement::None => {
                    batch.output = output;
                    batch.enter(status, now_secs());
                }
                // It has ended already, with the output of somebody else.
                _ => batch.replacement = Replacement::Counted,
            }
        });
        let ended = ended.await?;
        let owner = ObjectOwner { org: self.org(), workspace: self.workspace };
        let told = [ended.output, ended.failures];
        for file in output.into_iter().chain(failures).filter(|file| !told.contains(&Some(*file))) {
            // What stays ends by its own time.
            let _ = self.batches().remove_file(owner, file).await;
        }
        self.close(&ended).await;
        Ok(())
    }

    async fn copy(&mut self, log: Uuid, batch: &BatchDocument, results: &mut Results) -> Result<(), RunBroken> {
        let mut entries = LogReader::new(&self.batches().blobs, log);
        while let Some(entry) = entries.next().await? {
            if let LogEntry::Done(done) = entry {
                let file = if done.is_good { &mut results.good } else { &mut results.bad };
                self.put(batch, file, done.line.get()).await?;
            }
            self.pulse_lease().await?;
        }
        Ok(())
    }

    async fn put(&self, batch: &BatchDocument, file: &mut Option<BlobWriter>, line: &str) -> Result<(), RunBroken> {
        let mut writer = match file.take() {
            Some(writer) => writer,
            None => {
                let blob = new_blob(ids::next(clock::now()), self.org(), RESULT, now_secs() + batch.output_secs);
                BlobWriter::begin(&self.batches().blobs, &blob).await?
            }
        };
        writer.push(line.as_bytes()).await?;
        writer.push(b"\n").await?;
        *file = Some(writer);
        Ok(())
    }

    /// Lines that were never answered, with the reason; how many.
    async fn add_unanswered(
        &mut self,
        batch: &BatchDocument,
        done: &EarlierRuns,
        halt: Halt,
        results: &mut Results,
    ) -> Result<u64, RunBroken> {
        let (mut reader, mut count) = (LineReader::new(&self.batches().blobs, batch.input), 0);
        while let Some(line) = reader.next().await? {
            let asked = line.read().ok().filter(|_| !done.done.contains(&line.number));
            if let Some(asked) = asked {
                let told = unanswered(&line_id(self.id(), line.number), &asked.custom_id, halt.line_error());
                self.put(batch, &mut results.bad, &told.to_string()).await?;
                count += 1;
            }
            self.pulse_lease().await?;
        }
        Ok(count)
    }

    /// Makes one of the two a file of its workspace.
    async fn keep(
        &self,
        batch: &BatchDocument,
        file: Option<BlobWriter>,
        what: &str,
    ) -> Result<Option<Uuid>, RunBroken> {
        let Some(file) = file else { return Ok(None) };
        let (id, now) = (file.id, now_secs());
        let document = FileDocument {
            filename: format!("{}_{what}.jsonl", batch_id(self.id())),
            purpose: "batch_output".to_owned(),
            bytes: file.finish().await?,
            created: now,
            expires: now + batch.output_secs,
            readers: Vec::new(),
            deleted: false,
        };
        let owner = ObjectOwner { org: self.org(), workspace: self.workspace };
        let kept = object(id, owner, FILE, (written(&document), document.expires));
        self.batches().owned.add(&kept).await.map_err(KeepError::from)?;
        Ok(Some(id))
    }

    /// Leaves the record of a batch that has ended, and removes what only runs needed. A run that comes here after
    /// another died in it writes the very same record, which is kept once.
    pub(super) async fn close(&self, batch: &BatchDocument) {
        let setup = self.batches().whole(batch.setup).await.unwrap_or_default();
        let setup: LineSetup = serde_json::from_slice(&setup).unwrap_or_default();
        let snapshot = self.runner.live.snapshot();
        let ended = EndedBatch { id: self.id(), org: self.org(), workspace: self.workspace, batch, setup: &setup };
        self.runner.records.send(ended.record(&snapshot), None);
        let owner = ObjectOwner { org: self.org(), workspace: self.workspace };
        // A file that stays held ends by its own time.
        let _ = self.batches().release_file(owner, batch.input, self.id()).await;
        for blob in self.logs.iter().chain([&batch.setup]).chain(self.native.lines_blob()) {
            // What stays ends by its own time.
            let _ = self.batches().blobs.delete(self.org(), *blob).await;
        }
    }
}
