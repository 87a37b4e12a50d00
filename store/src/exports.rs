//! Exports as rows beside their jobs, which say what became of them.

use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::{DatabaseRow, Value};
use gateway_domain::export::{
    ExportFormat, ExportProgress, ExportQuery, ExportRequest, ExportState, LogExport, LogField,
};
use gateway_domain::ports::{ExportPlace, Exports, Fut, JobState, StoreError};
use gateway_domain::record::Page;
use gateway_domain::{OrgId, Timestamp, WorkspaceId};
use sqlx::Error;
use uuid::Uuid;

const INSERT: &str = "INSERT INTO log_export (id, org, workspace, created_by, description, filters, fields, format, \
    total, job, created_at, updated_at) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, $10, $10 \
    WHERE (SELECT COUNT(*) FROM log_export WHERE org = $2) < $11 ON CONFLICT (id) DO NOTHING RETURNING id";
const TABLE: &str = "log_export AS e";
const SELECT: &str = "SELECT e.id, e.org, e.workspace, e.created_by, e.description, e.filters, e.fields, e.format, \
    e.total, e.job, e.created_at, e.updated_at, j.state, j.progress, j.note \
    FROM log_export AS e LEFT JOIN job AS j ON j.id = e.job";
const CHANGE: &str = "UPDATE log_export SET description = $1, filters = $2, fields = $3, format = $4, total = $5, \
    job = NULL, updated_at = $6 WHERE id = $7 AND org = $8 AND COALESCE(job, '') = $9 RETURNING id";
const HAND: &str = "UPDATE log_export SET job = $1, updated_at = $2 \
    WHERE id = $3 AND org = $4 AND COALESCE(job, '') = $5 RETURNING id";
const REMOVE: &str = "DELETE FROM log_export WHERE id = $1 AND org = $2 AND COALESCE(job, '') = $3 RETURNING id";
const FORGET: &str = "DELETE FROM log_export WHERE id IN (SELECT e.id FROM log_export AS e LEFT JOIN job AS j \
    ON j.id = e.job AND j.ended_at IS NULL WHERE e.updated_at < $1 AND j.id IS NULL LIMIT 2000) RETURNING id";

impl Database {
    /// How many rows a statement gives back.
    pub(crate) async fn any(&self, sql: &'static str, values: Vec<Value<'_>>) -> Result<u64, StoreError> {
        let work = async move |mut session: crate::session::Session<'_>| {
            Ok(session.fetch(sql, values, |_| Ok(())).await?.len() as u64)
        };
        self.on(Side::Write, work).await
    }
}

impl Exports for Database {
    fn create<'a>(&'a self, export: &'a LogExport, most: u64) -> Fut<'a, Result<bool, StoreError>> {
        let LogExport { id, org, workspace, created_by, request, created_at, .. } = export;
        let mut values: Vec<Value<'a>> = vec![(*id).into(), org.0.into(), workspace.0.into(), (*created_by).into()];
        values.extend(asked(request));
        values.extend([(*created_at).into(), whole(most).into()]);
        Box::pin(async move { Ok(self.any(INSERT, values).await? > 0) })
    }

    fn exports<'a>(&'a self, query: &'a ExportQuery) -> Fut<'a, Result<Page<LogExport>, StoreError>> {
        let mut filter = Filter::default();
        filter
            .and("e.org = ?", query.org.0)
            .and_in("e.workspace", query.workspaces.iter().map(|workspace| workspace.0))
            .and_if("e.id = ?", query.id)
            .and_if("e.created_by = ?", query.created_by);
        Box::pin(async move {
            filter.check()?;
            let (sql, values) = filter.count(TABLE);
            let total = self.rows(sql, values, |row| row.columns().int()).await?;
            let total = total.first().and_then(|n| u64::try_from(*n).ok()).unwrap_or_default();
            let (sql, values) = filter.page(SELECT, "e.created_at DESC, e.id DESC", query.page, query.page_size);
            Ok(Page { rows: self.rows(sql, values, read).await?, ..Page::of(total) })
        })
    }

    fn change<'a>(
        &'a self,
        place: ExportPlace,
        request: &'a ExportRequest,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>> {
        let values = asked(request).into_iter().chain([now.into()]).chain(at(place)).collect();
        Box::pin(async move { Ok(self.any(CHANGE, values).await? > 0) })
    }

    fn hand_to(&self, place: ExportPlace, job: Uuid, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        let values = [job.into(), now.into()].into_iter().chain(at(place)).collect();
        Box::pin(async move { Ok(self.any(HAND, values).await? > 0) })
    }

    fn remove(&self, place: ExportPlace) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.any(REMOVE, at(place).into()).await? > 0) })
    }

    fn forget_exports(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move { self.any(FORGET, vec![before.into()]).await })
    }
}

fn asked(request: &ExportRequest) -> [Value<'_>; 5] {
    let names: Vec<&str> = request.fields.iter().map(|field| field.name()).collect();
    [
        request.description.as_str().into(),
        request.filters.as_str().into(),
        names.join(",").into(),
        request.format.name().into(),
        whole(request.total).into(),
    ]
}

fn at(place: ExportPlace) -> [Value<'static>; 3] {
    let job = place.job.map_or_else(String::new, |job| job.to_string());
    [place.id.into(), place.org.0.into(), job.into()]
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn read(row: &DatabaseRow) -> Result<LogExport, Error> {
    let mut c = row.columns();
    let (id, org, workspace, created_by) = (c.uuid()?, OrgId(c.uuid()?), WorkspaceId(c.uuid()?), c.uuid()?);
    let (description, filters) = (c.text()?.to_owned(), c.text()?.to_owned());
    let fields = c.text()?.split(',').filter_map(LogField::parse).collect();
    let format = ExportFormat::parse(c.text()?).unwrap_or_default();
    let total = u64::try_from(c.int()?).unwrap_or_default();
    let (job, created_at, updated_at) = (c.opt_uuid()?, c.time()?, c.time()?);
    let state = c.opt_text()?.and_then(JobState::parse);
    let progress = c.opt_text()?.unwrap_or_default().to_owned();
    let note = c.opt_text()?.unwrap_or_default().to_owned();
    Ok(LogExport {
        id,
        org,
        workspace,
        created_by,
        request: ExportRequest { description, filters, fields, format, total },
        job,
        state: state_of(state),
        progress: serde_json::from_str(&progress).unwrap_or_else(|_| ExportProgress::default()),
        note: if state == Some(JobState::Failed) { note } else { String::new() },
        created_at,
        updated_at,
    })
}

/// One whose job was never queued, since its node died in between, can be started as if it never had been.
fn state_of(job: Option<JobState>) -> ExportState {
    match job {
        None => ExportState::Draft,
        Some(JobState::Waiting | JobState::Running) => ExportState::InProgress,
        Some(JobState::Done) => ExportState::Success,
        Some(JobState::Failed) => ExportState::Failed,
        Some(JobState::Cancelled) => ExportState::Stopped,
    }
}
