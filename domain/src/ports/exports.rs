//! Exports of records, as they were asked for. What becomes of one is known by its job, and told with it.

use super::{Fut, StoreError};
use crate::export::{ExportQuery, ExportRequest, LogExport};
use crate::id::OrgId;
use crate::record::Page;
use crate::time::Timestamp;
use uuid::Uuid;

/// An export that nobody changed meanwhile: it has this job still, or none still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportPlace {
    pub org: OrgId,
    pub id: Uuid,
    pub job: Option<Uuid>,
}

pub trait Exports: Send + Sync {
    /// False: the organisation has as many as it may have.
    fn create<'a>(&'a self, export: &'a LogExport, most: u64) -> Fut<'a, Result<bool, StoreError>>;
    fn exports<'a>(&'a self, query: &'a ExportQuery) -> Fut<'a, Result<Page<LogExport>, StoreError>>;
    /// Asks for something else, which nobody has begun. False: it is not as it was.
    fn change<'a>(
        &'a self,
        place: ExportPlace,
        request: &'a ExportRequest,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>>;
    /// Gives it another job. False: it is not as it was.
    fn hand_to(&self, place: ExportPlace, job: Uuid, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// False: it is not as it was.
    fn remove(&self, place: ExportPlace) -> Fut<'_, Result<bool, StoreError>>;
    /// Forgets those that nobody touched since, unless they are being made, some thousands at a time; how many.
    fn forget_exports(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
