//! Who reads a file: as long as a batch does, its bytes stay, though the file itself is deleted and nobody finds it any
//! more. Each change is of one row, so that a batch is never made of a file that goes at the same moment.

use super::operations::{KeepError, MOST_CHANGES, ObjectOwner, read, written};
use super::{Batches, FILE, FileDocument};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::OwnedPlace;
use uuid::Uuid;

impl FileDocument {
    pub(super) const fn is_there(&self, now: i64) -> bool {
        !self.deleted && self.expires > now
    }
}

impl Batches {
    /// Notes that a batch reads a file.
    pub(super) async fn hold_file(
        &self,
        workspace: WorkspaceId,
        id: Uuid,
        batch: Uuid,
    ) -> Result<FileDocument, KeepError> {
        self.file(workspace, id).await?;
        let held = self.change_file(workspace, id, |file| {
            if !file.deleted && !file.readers.contains(&batch) {
                file.readers.push(batch);
            }
        });
        let held = held.await?;
        if held.deleted { Err(KeepError::Unknown) } else { Ok(held) }
    }

    /// The batch has ended. Nothing where the file is gone already.
    pub(super) async fn release_file(&self, owner: ObjectOwner, id: Uuid, batch: Uuid) -> Result<(), KeepError> {
        let left = self.change_file(owner.workspace, id, |file| file.readers.retain(|reader| *reader != batch)).await;
        match left {
            Ok(file) => self.drop_deleted(owner, id, &file).await,
            Err(KeepError::Unknown) => Ok(()),
            Err(why) => Err(why),
        }
    }

    pub(crate) async fn remove_file(&self, owner: ObjectOwner, id: Uuid) -> Result<(), KeepError> {
        self.file(owner.workspace, id).await?;
        let file = self.change_file(owner.workspace, id, |file| file.deleted = true).await?;
        self.drop_deleted(owner, id, &file).await
    }

    async fn drop_deleted(&self, owner: ObjectOwner, id: Uuid, file: &FileDocument) -> Result<(), KeepError> {
        if file.deleted && file.readers.is_empty() {
            self.owned.remove(OwnedPlace { workspace: owner.workspace, kind: FILE }, id).await?;
            self.blobs.delete(owner.org, id).await?;
        }
        Ok(())
    }

    async fn change_file(
        &self,
        workspace: WorkspaceId,
        id: Uuid,
        change: impl Fn(&mut FileDocument),
    ) -> Result<FileDocument, KeepError> {
        for _ in 0..MOST_CHANGES {
            let found = self.owned.owned(OwnedPlace { workspace, kind: FILE }, id).await?;
            let object = found.ok_or(KeepError::Unknown)?;
            let mut file: FileDocument = read(&object)?;
            change(&mut file);
            let document = written(&file);
            if document == object.document || self.owned.change(id, object.version, &document).await? {
                return Ok(file);
            }
        }
        Err(KeepError::Store("the file is changed by too many at once".to_owned()))
    }
}
