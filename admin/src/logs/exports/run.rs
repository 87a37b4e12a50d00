//! Makes the file of an export: page by page behind a cursor, into parts of a blob, in bounded memory. After each page
//! it is noted how far it came, so that another node goes on from there, and a later start where it was cancelled; but
//! columns are begun anew. A node that lost its lease writes nothing more.

use super::super::restricted;
use super::super::view::LogViewer;
use super::lines;
use super::parquet_file::ParquetSheet;
use crate::app::App;
use gateway_domain::export::{EXPORT_KIND, ExportOrder, ExportProgress, ExportQuery, LogField};
use gateway_domain::id::OrgId;
use gateway_domain::ports::{
    BlobError, JobEnd, JobLease, JobStanding, LeasedJob, MOST_BLOB_PIECE, NewBlob, StoreError,
};
use gateway_domain::record::{LogCursor, LogQuery, LogRecord};
use gateway_domain::time::Timestamp;
use parquet::errors::ParquetError;
use std::time::Duration;
use uuid::Uuid;

/// How long a run may take from one page to the next; after that another node takes the job over.
pub const EXPORT_LEASE: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_secs(5);
const PAGE: u64 = 1_000;
/// Messages are large, and read one by one.
const PAGE_WITH_MESSAGES: u64 = 50;
/// Bytes that clients wrote into the records of a page; a page with more is read again with half as many records.
const MOST_OF_PAGE: u64 = 8 << 20;
/// Bytes of one blob; a store may bound them.
const PART: u64 = 256 << 20;

struct ExportRun<'a> {
    app: &'a App,
    lease: JobLease,
    org: OrgId,
    order: ExportOrder,
    progress: ExportProgress,
}

/// Why a run ends before its time.
enum RunStop {
    /// The job is another's now, or has ended.
    Lost,
    /// Nobody wants it to go on for now.
    Cancelled,
    /// The file is not wanted any more.
    Unwanted,
    /// No later try does better.
    Hopeless(String),
    /// It may be there later.
    Later(String),
}

impl From<StoreError> for RunStop {
    fn from(error: StoreError) -> Self {
        Self::Later(error.to_string())
    }
}

impl From<ParquetError> for RunStop {
    fn from(error: ParquetError) -> Self {
        Self::Hopeless(format!("the columns cannot be written: {error}"))
    }
}

impl From<BlobError> for RunStop {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Store(error) => error.into(),
            BlobError::TooMuch(why) => Self::Hopeless(why.to_owned()),
            BlobError::Unknown | BlobError::Misplaced => {
                Self::Hopeless("what was written of the file is gone: start the export again".to_owned())
            }
        }
    }
}

/// Runs a job of [`EXPORT_KIND`] to its end, or as far as it comes.
pub async fn run_export(app: &App, leased: LeasedJob) {
    let LeasedJob { lease, job } = leased;
    let end = match serde_json::from_str::<ExportOrder>(&job.payload) {
        Err(error) => JobEnd::Failed(format!("the order cannot be read: {error}")),
        Ok(order) => {
            let progress = serde_json::from_str(&job.progress).unwrap_or_default();
            let mut run = ExportRun { app, lease, org: job.org, order, progress };
            match run.go().await {
                Ok(()) => JobEnd::Done(String::new()),
                Err(RunStop::Lost) => return,
                Err(RunStop::Later(why)) => JobEnd::Again { after: AGAIN, why },
                Err(RunStop::Cancelled) if run.is_resumable() => JobEnd::Stopped,
                Err(stop) => {
                    // What cannot be removed now goes by itself.
                    run.drop_parts().await;
                    if let RunStop::Hopeless(why) = stop { JobEnd::Failed(why) } else { JobEnd::Stopped }
                }
            }
        }
    };
    if let Err(error) = app.jobs.end(lease, &end).await {
        tracing::warn!(%error, job = %job.id, "the end of an export cannot be told: it is run again");
    }
}

impl ExportRun<'_> {
    async fn go(&mut self) -> Result<(), RunStop> {
        self.look_whether_wanted().await?;
        let mut sheet = None;
        if !self.order.format.is_resumable() {
            sheet = Some(ParquetSheet::new(&self.order.fields)?);
            self.begin_anew().await?;
        }
        self.begin().await?;
        loop {
            let left = self.app.export_max_rows.saturating_sub(self.progress.rows);
            if left == 0 {
                self.progress.is_cut = !self.page(1).await?.is_empty();
                break;
            }
            let page = self.page(left.min(self.page_size())).await?;
            let Some(last) = page.last() else { break };
            let behind = LogCursor { created_at: last.created_at, id: last.id };
            let bytes = self.written(&page, &mut sheet).await?;
            self.put(&bytes).await?;
            self.progress.rows += page.len() as u64;
            self.progress.behind = Some(behind.to_string());
            self.note().await?;
        }
        if let Some(sheet) = sheet {
            self.put(&sheet.end()?).await?;
        }
        self.note().await?;
        for part in self.progress.parts(self.lease.job) {
            self.finish(part).await?;
        }
        Ok(())
    }

    /// What another run has written is of no use to this one, and what it still writes is not in its way.
    async fn begin_anew(&mut self) -> Result<(), RunStop> {
        if self.progress != ExportProgress::default() {
            self.drop_parts().await;
        }
        self.progress = self.progress.anew();
        self.note().await
    }

    /// One that was changed or removed since has another job.
    async fn look_whether_wanted(&self) -> Result<(), RunStop> {
        let id = Some(self.order.export);
        let query = ExportQuery { org: self.org, workspaces: Vec::new(), id, created_by: None, page: 0, page_size: 1 };
        let export = self.app.exports.exports(&query).await?.rows.pop();
        if export.is_some_and(|export| export.job == Some(self.lease.job)) { Ok(()) } else { Err(RunStop::Unwanted) }
    }

    /// Whether another run can go on with what is written.
    fn is_resumable(&self) -> bool {
        self.order.format.is_resumable() && self.progress.behind.is_some()
    }

    fn has_messages(&self) -> bool {
        self.order.fields.iter().any(|field| field.is_of_messages())
    }

    fn page_size(&self) -> u64 {
        if self.has_messages() { PAGE_WITH_MESSAGES } else { PAGE }
    }

    /// The next records: as many as asked for, or fewer where they are large.
    async fn page(&self, mut size: u64) -> Result<Vec<LogRecord>, RunStop> {
        let cursor = self.progress.behind.as_ref().map_or(Ok(LogCursor::START), |place| place.parse());
        let cursor = cursor.map_err(|()| RunStop::Hopeless("the place that was noted cannot be read".to_owned()))?;
        loop {
            let query = LogQuery {
                from: self.order.from.map(Timestamp),
                to: Some(Timestamp(self.order.to)),
                page_size: size,
                cursor: Some(cursor),
                most_bytes: (size > 1).then_some(MOST_OF_PAGE),
                ..self.order.query.clone()
            };
            let found = self.app.logs.query(&query).await?;
            if !found.missing.is_empty() {
                return Err(RunStop::Later(format!("logs of {} cannot be read", found.missing.join(", "))));
            }
            if !found.is_too_large {
                return Ok(found.rows);
            }
            size /= 2;
        }
    }

    /// What a page adds to the file: its lines, or for a Parquet file the row groups that are complete by now.
    async fn written(&self, page: &[LogRecord], sheet: &mut Option<ParquetSheet>) -> Result<Vec<u8>, RunStop> {
        let snapshot = self.app.live.snapshot();
        let organisation = snapshot.org(self.org).map_or("", |org| &org.name);
        // What was denied since it was asked for is left out.
        let hidden = restricted::denied(&snapshot, self.order.workspace);
        let reader = LogViewer { organisation, open: true, own: &self.app.header_aliases, hidden };
        let fields: &[LogField] = &self.order.fields;
        let mut text = Vec::with_capacity(page.len() * 256);
        for record in page {
            let whole = if self.has_messages() {
                self.app.logs.get(record.id, Some(self.order.workspace)).await?
            } else {
                None
            };
            let record = whole.as_ref().unwrap_or(record);
            match sheet {
                Some(sheet) => sheet.add(record, &reader)?,
                None => lines::add(&mut text, record, fields, &reader),
            }
        }
        Ok(sheet.as_mut().map_or(text, ParquetSheet::take))
    }

    fn blob(&self) -> Uuid {
        self.progress.part_of(self.lease.job, self.progress.part)
    }

    async fn begin(&self) -> Result<(), RunStop> {
        let expires_at = Some(Timestamp(self.order.expires_at));
        let blob = NewBlob { id: self.blob(), org: self.org, kind: EXPORT_KIND, expires_at };
        match self.app.blobs.begin(&blob).await {
            // Whole already: its run died before it could tell.
            Err(BlobError::Unknown) => Ok(()),
            begun => Ok(begun?),
        }
    }

    async fn put(&mut self, text: &[u8]) -> Result<(), RunStop> {
        if self.progress.at > 0 && self.progress.at + text.len() as u64 > PART {
            self.progress.part += 1;
            self.progress.at = 0;
            self.begin().await?;
        }
        for piece in text.chunks(MOST_BLOB_PIECE) {
            self.app.blobs.write(self.blob(), self.progress.at, piece).await?;
            self.progress.at += piece.len() as u64;
        }
        self.progress.bytes += text.len() as u64;
        Ok(())
    }

    async fn note(&self) -> Result<(), RunStop> {
        let progress = serde_json::to_string(&self.progress).map_err(|e| RunStop::Hopeless(e.to_string()))?;
        match self.app.jobs.beat(self.lease, Some(&progress), EXPORT_LEASE).await? {
            JobStanding::Held => Ok(()),
            JobStanding::Cancelled => Err(RunStop::Cancelled),
            JobStanding::Lost => Err(RunStop::Lost),
        }
    }

    async fn finish(&self, part: Uuid) -> Result<(), RunStop> {
        match self.app.blobs.finish(part).await {
            Err(BlobError::Unknown) => {
                let there = self.app.blobs.blob(self.org, part).await?;
                if there.is_some_and(|blob| blob.is_whole) { Ok(()) } else { Err(BlobError::Unknown.into()) }
            }
            finished => {
                finished?;
                Ok(())
            }
        }
    }

    async fn drop_parts(&self) {
        for part in self.progress.parts(self.lease.job) {
            if let Err(error) = self.app.blobs.delete(self.org, part).await {
                tracing::warn!(%error, "a part of an export that is not wanted stays until its time is over");
            }
        }
    }
}
