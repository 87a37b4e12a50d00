//! A file that is only on its way through: kept sealed until a provider has it, so that no more than a few pieces are
//! ever held, and gone as soon as nobody needs it. Knows no provider and no form.

use super::blob_writer::{BlobWriter, new_blob};
use super::lines::{CheckedLines, FileLine, LineReader};
use super::operations::{FileWriter, KeepError, SharedBatches, now_secs};
use super::upload::{LineUpload, pipe};
use super::{Batches, ObjectOwner, SPOOL};
use crate::{clock, ids};
use bytes::Bytes;
use uuid::Uuid;

/// What is left behind by a process that died is gone after so long.
const KEPT_SECS: i64 = 86_400;
/// Lines that are read in one go, and their bytes.
const MOST_AT_ONCE: usize = 64;
const MOST_BYTES: usize = 1 << 20;

/// A whole one.
pub(crate) struct Spool {
    batches: SharedBatches,
    owner: ObjectOwner,
    id: Uuid,
    pub(crate) bytes: u64,
}

impl Batches {
    /// Begins a file that is not kept for anybody.
    pub(crate) async fn begin_spool(&self, owner: ObjectOwner) -> Result<FileWriter, KeepError> {
        let blob = new_blob(ids::next(clock::now()), owner.org, SPOOL, now_secs() + KEPT_SECS);
        Ok(FileWriter { blob: BlobWriter::begin(&self.blobs, &blob).await?, owner })
    }
}

impl FileWriter {
    /// All of it is here.
    pub(crate) async fn spooled(self, batches: SharedBatches) -> Result<Spool, KeepError> {
        let Self { blob, owner } = self;
        let id = blob.id;
        // The spool deletes the blob when it is dropped, also if finishing it fails.
        let mut spool = Spool { batches, owner, id, bytes: 0 };
        spool.bytes = blob.finish().await?;
        Ok(spool)
    }
}

impl Spool {
    /// Its bytes, for a call that sends them up with what stands before and behind them.
    pub(crate) fn source(&self, (front, back): (String, String)) -> LineUpload {
        let (taker, source) = pipe();
        let (batches, id) = (self.batches.clone(), self.id);
        self.batches.runtime.spawn(async move {
            let mut at = 0;
            if !front.is_empty() && taker.send(front.into()).await.is_err() {
                return;
            }
            loop {
                match batches.piece(id, at).await {
                    Ok(piece) if piece.is_empty() => {
                        if !back.is_empty() {
                            // Whoever takes nothing more has what it wants.
                            let _ = taker.send(back.into()).await;
                        }
                        return;
                    }
                    Ok(piece) => {
                        at += piece.len() as u64;
                        if taker.send(piece).await.is_err() {
                            return;
                        }
                    }
                    // What breaks off is not whole, and the provider's to refuse.
                    Err(e) => return tracing::warn!(error = %e, "a file could not be read while it went up"),
                }
            }
        });
        source
    }

    /// How many of its lines have an end.
    pub(crate) async fn ends(batches: SharedBatches, id: Uuid) -> Result<u64, KeepError> {
        let (mut at, mut ends) = (0, 0);
        loop {
            let piece = batches.piece(id, at).await?;
            if piece.is_empty() {
                return Ok(ends);
            }
            at += piece.len() as u64;
            ends += memchr::memchr_iter(b'\n', &piece).count() as u64;
        }
    }

    pub(crate) const fn id(&self) -> Uuid {
        self.id
    }

    pub(crate) fn lines(&self) -> SpooledLines {
        let reader = LineReader::new(&self.batches.blobs, self.id);
        SpooledLines { reader, checked: CheckedLines::default(), endpoint: None }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let (batches, owner, id) = (self.batches.clone(), self.owner, self.id);
        self.batches.runtime.spawn(async move {
            // What stays is removed when its time is over.
            let _ = batches.blobs.delete(owner.org, id).await;
        });
    }
}

/// The lines of one, for whoever writes each of them anew.
pub(crate) struct SpooledLines {
    reader: LineReader,
    checked: CheckedLines,
    /// What the first line asks: all others ask the same.
    endpoint: Option<String>,
}

/// One of them that may be asked.
#[derive(Debug)]
pub(crate) struct SpooledLine {
    pub(crate) number: u64,
    pub(crate) custom_id: String,
    pub(crate) url: String,
    pub(crate) body: Bytes,
}

/// The first line that may not be, and why.
#[derive(Debug)]
pub(crate) struct BadLine {
    pub(crate) number: u64,
    pub(crate) why: String,
}

/// Lines and who reads the next ones; none: that was all.
pub(crate) type MoreLines = (SpooledLines, Result<Vec<SpooledLine>, BadLine>);

impl SpooledLines {
    pub(crate) async fn more(mut self) -> Result<MoreLines, KeepError> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.len() < MOST_AT_ONCE && bytes < MOST_BYTES {
            let Some(line) = self.reader.next().await? else { break };
            bytes += line.text.len();
            match self.checked(&line) {
                Ok(line) => lines.push(line),
                Err(bad) => return Ok((self, Err(bad))),
            }
        }
        Ok((self, Ok(lines)))
    }

    fn checked(&mut self, line: &FileLine) -> Result<SpooledLine, BadLine> {
        let number = line.number;
        let bad = |why: String| BadLine { number, why };
        let asked = line.read().map_err(|e| bad(format!("is no request of a batch: {e}")))?;
        let endpoint = self.endpoint.get_or_insert_with(|| asked.url.clone());
        self.checked.check(line, endpoint);
        // Who may ask for which model is said where the line is written.
        self.checked.unknown_model = None;
        if let Some(problem) = self.checked.problems.pop() {
            return Err(bad(format!("({}) {}", problem.code, problem.message)));
        }
        let body = Bytes::copy_from_slice(asked.body.get().as_bytes());
        Ok(SpooledLine { number, custom_id: asked.custom_id.clone(), url: asked.url.clone(), body })
    }
}
