//! Feedback as rows beside the configuration.

use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::logs::without_zero;
use crate::session::{DatabaseRow, Value, failure};
use gateway_domain::Timestamp;
use gateway_domain::feedback::{FeedbackQuery, MOST_OF_TRACE, Opinion, TraceFeedback};
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{FeedbackKept, FeedbackPlace, Feedbacks, Fut, StoreError};
use sqlx::Error;
use tokio::time::timeout;
use uuid::Uuid;

const COUNT: &str = "SELECT COUNT(*) FROM feedback WHERE trace_id = $1 AND workspace = $2 AND id <> $3";
const INSERT: &str = "INSERT INTO feedback (id, org, workspace, trace_id, value, weight, metadata, model, source, \
    created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) ON CONFLICT (id) DO NOTHING";
const CHANGE: &str = "UPDATE feedback SET value = $1, weight = $2, metadata = $3, updated_at = $4 \
    WHERE id = $5 AND org = $6 AND workspace = $7 RETURNING id";
const SELECT: &str =
    "SELECT id, org, workspace, trace_id, value, weight, metadata, model, source, created_at FROM feedback";
const FORGET: &str =
    "DELETE FROM feedback WHERE id IN (SELECT id FROM feedback WHERE created_at < $1 LIMIT 5000) RETURNING id";

impl Database {
    async fn keep_feedback(&self, feedback: &TraceFeedback) -> Result<FeedbackKept, StoreError> {
        let mut lease = self.lease_soon(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let TraceFeedback { id, workspace, trace_id, .. } = feedback;
            let of_trace = vec![trace_id.as_str().into(), workspace.0.into(), (*id).into()];
            // Two at the same moment may both find room: one more says as little.
            if session.fetch_int(COUNT, of_trace).await? >= i64::try_from(MOST_OF_TRACE).unwrap_or(i64::MAX) {
                return Ok(FeedbackKept::Full);
            }
            session.run(INSERT, values(feedback)).await?;
            Ok(FeedbackKept::Kept)
        };
        let outcome = timeout(self.call_timeout(), work).await.map(|done| done.map_err(|e: Error| failure(&e)));
        lease.finish(outcome)
    }

    async fn keep_feedbacks(&self, feedbacks: &[TraceFeedback]) -> Result<(), StoreError> {
        let mut lease = self.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            for feedback in feedbacks {
                transaction.session().run(INSERT, values(feedback)).await?;
            }
            transaction.commit().await
        };
        let outcome = timeout(self.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)
    }

    async fn changed(&self, sql: &'static str, values: Vec<Value<'_>>) -> Result<usize, StoreError> {
        let mut lease = self.lease_soon(Side::Write).await?;
        let work = async { lease.session().fetch(sql, values, |_| Ok(())).await.map_err(|e| failure(&e)) };
        let outcome = timeout(self.call_timeout(), work).await;
        lease.finish(outcome).map(|rows| rows.len())
    }
}

/// Texts of records may hold zero bytes, which Postgres refuses.
fn values(feedback: &TraceFeedback) -> Vec<Value<'_>> {
    let TraceFeedback { id, org, workspace, trace_id, opinion, model, source, created_at } = feedback;
    let text = |text| Value::Text(Some(without_zero(text)));
    let names = [(*id).into(), org.0.into(), workspace.0.into(), text(trace_id)];
    let told = [opinion.value.into(), opinion.weight.into(), text(&opinion.metadata)];
    let rest = [text(model), source.as_str().into(), (*created_at).into()];
    names.into_iter().chain(told).chain(rest).collect()
}

impl Feedbacks for Database {
    fn keep<'a>(&'a self, feedback: &'a TraceFeedback) -> Fut<'a, Result<FeedbackKept, StoreError>> {
        Box::pin(self.keep_feedback(feedback))
    }

    fn keep_all<'a>(&'a self, feedbacks: &'a [TraceFeedback]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.keep_feedbacks(feedbacks))
    }

    fn change<'a>(
        &'a self,
        place: FeedbackPlace,
        id: Uuid,
        opinion: &'a Opinion,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>> {
        let told = [opinion.value.into(), opinion.weight.into(), opinion.metadata.as_str().into(), now.into()];
        let names = [id.into(), place.org.0.into(), place.workspace.0.into()];
        let values = told.into_iter().chain(names).collect();
        Box::pin(async move { Ok(self.changed(CHANGE, values).await? == 1) })
    }

    fn feedbacks<'a>(&'a self, query: &'a FeedbackQuery) -> Fut<'a, Result<Vec<TraceFeedback>, StoreError>> {
        let mut filter = Filter::default();
        filter
            .and_if("id = ?", query.id)
            .and_if("org = ?", query.org.map(|org| org.0))
            .and_in("workspace", query.workspaces.iter().map(|workspace| workspace.0))
            .and_if("created_at >= ?", query.from)
            .and_if("created_at < ?", query.to)
            .and_in("trace_id", query.trace_ids.iter().map(String::as_str));
        Box::pin(async move {
            filter.check()?;
            let (sql, values) = filter.slice(SELECT, "created_at DESC, id DESC", 0, query.most);
            self.rows(sql, values, row).await
        })
    }

    fn forget_feedback(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.changed(FORGET, vec![before.into()]).await? as u64) })
    }
}

fn row(row: &DatabaseRow) -> Result<TraceFeedback, Error> {
    let mut c = row.columns();
    Ok(TraceFeedback {
        id: c.uuid()?,
        org: OrgId(c.uuid()?),
        workspace: WorkspaceId(c.uuid()?),
        trace_id: c.text()?.to_owned(),
        opinion: Opinion { value: c.int()?, weight: c.int()?, metadata: c.text()?.to_owned() },
        model: c.text()?.into(),
        source: c.text()?.into(),
        created_at: c.time()?,
    })
}
