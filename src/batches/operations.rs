//! What clients ask of files and batches: made, looked at, listed, cancelled, removed. Nothing here runs a batch.

use super::blob_writer::{BlobWriter, new_blob};
use super::document::Replacement;
use super::{
    BATCH, BatchDocument, BatchStatus, Batches, FILE, FileDocument, KEPT_SECS, LASTS_SECS, LineSetup, MOST_OPEN, SETUP,
};
use crate::upstream::http1::LineError;
use crate::{clock, ids};
use bytes::Bytes;
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{
    BlobError, Enqueued, JobBounds, MOST_BLOB_PIECE, NewBlob, NewJob, OwnedObject, OwnedPlace, StoreError,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Before a file is gone, a batch that reads it has ended.
const READ_SECS: i64 = 600;
/// Files that are looked at at once for those of one purpose.
const MOST_LOOKED_AT: u32 = 500;
/// Times that a change is tried anew since another came first.
pub(super) const MOST_CHANGES: usize = 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("there is no such object")]
    Unknown,
    /// The rest of a sentence.
    #[error("{0}")]
    Full(&'static str),
    #[error("the config was deleted meanwhile")]
    NoConfig,
    #[error("as many batches are under way as may be")]
    Busy,
    #[error("{0}")]
    Store(String),
}

impl From<BlobError> for KeepError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Unknown => Self::Unknown,
            BlobError::TooMuch(which) => Self::Full(which),
            other => Self::Store(other.to_string()),
        }
    }
}

impl From<StoreError> for KeepError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<LineError> for KeepError {
    fn from(error: LineError) -> Self {
        Self::Store(format!("the provider's results cannot be read: {error}"))
    }
}

/// Who keeps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectOwner {
    pub(crate) org: OrgId,
    pub(crate) workspace: WorkspaceId,
}

/// A batch that somebody wants to be run.
#[derive(Debug)]
pub(crate) struct NewBatch {
    pub(crate) endpoint: String,
    pub(crate) input: Uuid,
    pub(crate) window: String,
    pub(crate) metadata: Value,
    pub(crate) key: Uuid,
    pub(crate) output_secs: i64,
    /// What its requests are sent with, secrets among them.
    pub(crate) setup: LineSetup,
}

pub(super) fn now_secs() -> i64 {
    clock::now().micros().div_euclid(1_000_000)
}

pub(super) fn read<T: DeserializeOwned>(object: &OwnedObject) -> Result<T, KeepError> {
    serde_json::from_str(&object.document).map_err(|e| KeepError::Store(format!("an object cannot be read: {e}")))
}

pub(super) fn object(id: Uuid, owner: ObjectOwner, kind: &str, (document, expires): (String, i64)) -> OwnedObject {
    let created_at = clock::now();
    let expires_at = Timestamp(expires.saturating_mul(1_000_000));
    let (ObjectOwner { org, workspace }, kind) = (owner, kind.to_owned());
    OwnedObject { id, org, workspace, kind, document, version: 1, created_at, expires_at }
}

pub(super) fn written<T: serde::Serialize>(document: &T) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

impl Batches {
    /// Does what asks the database away from the threads that serve requests.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, KeepError>> + Send + 'static,
    ) -> Result<T, KeepError> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|_| Err(KeepError::Store("the work was given up".to_owned())))
    }

    pub(crate) async fn file(&self, workspace: WorkspaceId, id: Uuid) -> Result<FileDocument, KeepError> {
        let found = self.owned.owned(OwnedPlace { workspace, kind: FILE }, id).await?;
        let file: FileDocument = read(&found.ok_or(KeepError::Unknown)?)?;
        if file.is_there(now_secs()) { Ok(file) } else { Err(KeepError::Unknown) }
    }

    /// The next files of a list, of one purpose where one is named. Files of other purposes, and those that were
    /// deleted or expired, are skipped until `most` are found or none are left: clients take a page without a file for
    /// the end of the list.
    pub(crate) async fn files(
        &self,
        workspace: WorkspaceId,
        mut after: Option<Uuid>,
        most: u32,
        purpose: Option<&str>,
    ) -> Result<Vec<(Uuid, FileDocument)>, KeepError> {
        let (now, at_once) = (now_secs(), if purpose.is_some() { most.max(MOST_LOOKED_AT) } else { most });
        let mut files = Vec::new();
        loop {
            let found = self.owned.list_owned(OwnedPlace { workspace, kind: FILE }, after, at_once).await?;
            for object in &found {
                let file = read::<FileDocument>(object)?;
                if file.is_there(now) && purpose.is_none_or(|purpose| file.purpose == purpose) {
                    files.push((object.id, file));
                }
            }
            after = found.last().map(|object| object.id);
            if found.len() < at_once as usize || files.len() >= most as usize {
                files.truncate(most as usize);
                return Ok(files);
            }
        }
    }

    /// A piece of a file from a place on; none at its end.
    pub(crate) async fn piece(&self, id: Uuid, from: u64) -> Result<Bytes, KeepError> {
        Ok(self.blobs.read(id, from).await?.into())
    }

    pub(crate) async fn begin_file(&self, owner: ObjectOwner) -> Result<FileWriter, KeepError> {
        let id = ids::next(clock::now());
        // When it really ends is known when the whole form is here; until then it is nobody's.
        let blob = new_blob(id, owner.org, FILE, now_secs() + KEPT_SECS);
        Ok(FileWriter { blob: BlobWriter::begin(&self.blobs, &blob).await?, owner })
    }

    pub(crate) async fn keep_file(
        &self,
        file: FileWriter,
        document: FileDocument,
    ) -> Result<(Uuid, FileDocument), KeepError> {
        let FileWriter { blob, owner } = file;
        let id = blob.id;
        let document = FileDocument { bytes: blob.finish().await?, ..document };
        self.owned.add(&object(id, owner, FILE, (written(&document), document.expires))).await?;
        Ok((id, document))
    }

    pub(crate) async fn drop_file(&self, file: FileWriter) {
        // What stays is removed as abandoned.
        let _ = self.blobs.delete(file.owner.org, file.blob.id).await;
    }

    pub(crate) async fn create(
        &self,
        owner: ObjectOwner,
        mut new: NewBatch,
    ) -> Result<(Uuid, BatchDocument), KeepError> {
        new.setup.config = self.configs.written_out(new.setup.config).await?;
        let (id, setup, now) = (ids::next(clock::now()), ids::next(clock::now()), now_secs());
        let file = self.hold_file(owner.workspace, new.input, id).await?;
        let kept = self.keep_setup(&new_blob(setup, owner.org, SETUP, now + KEPT_SECS), &new.setup).await;
        if let Err(why) = kept {
            self.release_file(owner, new.input, id).await?;
            return Err(why);
        }
        let document = BatchDocument {
            endpoint: new.endpoint,
            input: new.input,
            window: new.window,
            metadata: new.metadata,
            key: new.key,
            provider_job: None,
            setup,
            status: BatchStatus::Validating,
            counts: Default::default(),
            usage: Default::default(),
            cost: 0,
            problems: Vec::new(),
            output: None,
            failures: None,
            replacement: Replacement::None,
            output_secs: new.output_secs,
            created: now,
            expires: (now + LASTS_SECS).min(file.expires - READ_SECS).max(now),
            in_progress: None,
            finalizing: None,
            completed: None,
            failed: None,
            expired: None,
            cancelling: None,
            cancelled: None,
        };
        self.owned.add(&object(id, owner, BATCH, (written(&document), now + KEPT_SECS))).await?;
        let payload = serde_json::json!({ "workspace": owner.workspace.0 }).to_string();
        let job = NewJob {
            id,
            kind: self.settings.job,
            org: owner.org,
            payload,
            progress: String::new(),
            wait: Duration::ZERO,
            most_tries: 20,
            most_open: MOST_OPEN,
            bounds: JobBounds::default(),
        };
        match self.jobs.enqueue(&job).await {
            Ok(Enqueued::New | Enqueued::Known) => {}
            refused => {
                self.owned.remove(OwnedPlace { workspace: owner.workspace, kind: BATCH }, id).await?;
                self.blobs.delete(owner.org, setup).await?;
                self.release_file(owner, new.input, id).await?;
                refused?;
                return Err(KeepError::Busy);
            }
        }
        self.made.notify_one();
        Ok((id, document))
    }

    async fn keep_setup(&self, blob: &NewBlob, setup: &LineSetup) -> Result<(), KeepError> {
        let mut blob = BlobWriter::begin(&self.blobs, blob).await?;
        blob.push(&serde_json::to_vec(setup).unwrap_or_default()).await?;
        blob.finish().await?;
        Ok(())
    }

    pub(crate) async fn batch(&self, workspace: WorkspaceId, id: Uuid) -> Result<BatchDocument, KeepError> {
        let found = self.owned.owned(OwnedPlace { workspace, kind: BATCH }, id).await?;
        read(&found.ok_or(KeepError::Unknown)?)
    }

    pub(crate) async fn batches(
        &self,
        workspace: WorkspaceId,
        after: Option<Uuid>,
        most: u32,
    ) -> Result<Vec<(Uuid, BatchDocument)>, KeepError> {
        let found = self.owned.list_owned(OwnedPlace { workspace, kind: BATCH }, after, most).await?;
        found.iter().map(|object| Ok((object.id, read(object)?))).collect()
    }

    pub(crate) async fn cancel(&self, workspace: WorkspaceId, id: Uuid) -> Result<BatchDocument, KeepError> {
        let changed = self.change(workspace, id, |batch| {
            if !batch.status.has_ended() && !matches!(batch.status, BatchStatus::Finalizing | BatchStatus::Judging) {
                batch.enter(BatchStatus::Cancelling, now_secs());
            }
        });
        changed.await
    }

    /// Changes a batch as it stands at that moment.
    pub(super) async fn change(
        &self,
        workspace: WorkspaceId,
        id: Uuid,
        change: impl Fn(&mut BatchDocument),
    ) -> Result<BatchDocument, KeepError> {
        for _ in 0..MOST_CHANGES {
            let found = self.owned.owned(OwnedPlace { workspace, kind: BATCH }, id).await?;
            let object = found.ok_or(KeepError::Unknown)?;
            let mut batch: BatchDocument = read(&object)?;
            change(&mut batch);
            let document = written(&batch);
            if document == object.document || self.owned.change(id, object.version, &document).await? {
                return Ok(batch);
            }
        }
        Err(KeepError::Store("the batch is changed by too many at once".to_owned()))
    }

    /// All of a small blob.
    pub(super) async fn whole(&self, id: Uuid) -> Result<Vec<u8>, KeepError> {
        let mut whole = Vec::new();
        loop {
            let piece = self.blobs.read(id, whole.len() as u64).await?;
            if piece.is_empty() || whole.len() > 4 * MOST_BLOB_PIECE {
                return Ok(whole);
            }
            whole.extend_from_slice(&piece);
        }
    }
}

/// A file on its way.
pub(crate) struct FileWriter {
    pub(super) blob: BlobWriter,
    pub(super) owner: ObjectOwner,
}

impl FileWriter {
    pub(crate) fn bytes(&self) -> u64 {
        self.blob.bytes()
    }

    pub(crate) async fn push(mut self, bytes: Bytes) -> Result<Self, KeepError> {
        self.blob.push(&bytes).await?;
        Ok(self)
    }
}

/// So that work on another runtime can have it whole.
pub(crate) type SharedBatches = Arc<Batches>;
