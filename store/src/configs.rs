//! The configuration's rows: what changed since a revision, and the one transaction that changes them.
//! A document is text here, carried byte for byte; kinds that this program does not know pass like any other.

use crate::database::{Database, Side};
use crate::kept_answers;
use crate::notices::CHANNEL;
use crate::session::{Columns, DatabaseRow, Session, Value, failure};
use gateway_domain::ports::{
    Batch, Changes, Compare, ConfigStore, Decide, Fut, HistoryStep, KeepHistory, MOST_VERSIONS, Revision, StoreError,
    WriteError,
};
use gateway_domain::resource::{Audit, Stored, StoredVersion};
use sqlx::Error;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

macro_rules! stored_columns {
    () => {
        "r.kind, r.id, r.org, r.workspace, r.slug, r.name, r.status, r.owner, r.schema, r.version, r.revision, \
         r.doc, r.created_at, r.updated_at, r.deleted_at"
    };
}
pub(crate) use stored_columns;

/// The revision and the rows come from one statement, hence from one state of the database;
/// when nothing changed there is still a row, with the revision alone.
const LOAD: &str =
    concat!("SELECT m.revision, ", stored_columns!(), " FROM meta m LEFT JOIN resource r ON r.deleted_at IS NULL");

const SINCE: &str = concat!(
    "SELECT m.revision, ",
    stored_columns!(),
    " FROM meta m LEFT JOIN resource r ON r.revision > $1 ORDER BY r.revision"
);

/// The locked row makes revisions commit in order: a reader can never see 8 before 7.
const BUMP: &str = "UPDATE meta SET revision = revision + 1 RETURNING revision, key_check";
const UNBUMP: &str = "UPDATE meta SET revision = revision - 1";

const PUT: &str = "INSERT INTO resource (kind, id, org, workspace, slug, name, status, owner, schema, version, \
    revision, doc, created_at, updated_at, deleted_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
    ON CONFLICT (kind, id) DO UPDATE SET org = excluded.org, workspace = excluded.workspace, \
    slug = excluded.slug, name = excluded.name, status = excluded.status, owner = excluded.owner, \
    schema = excluded.schema, version = excluded.version, revision = excluded.revision, doc = excluded.doc, \
    created_at = excluded.created_at, updated_at = excluded.updated_at, deleted_at = excluded.deleted_at";

const PUT_VERSION: &str = "INSERT INTO resource_version (kind, id, version, version_id, author, doc, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Nothing where the history of the row has begun.
const PUT_FIRST: &str = "INSERT INTO resource_version (kind, id, version, version_id, author, doc, created_at) \
    SELECT $1, $2, $3, $4, $5, $6, $7 \
    WHERE NOT EXISTS (SELECT 1 FROM resource_version v WHERE v.kind = $1 AND v.id = $2)";

const DROP_VERSIONS: &str = "DELETE FROM resource_version WHERE kind = $1 AND id = $2";

const FORGET_VERSIONS: &str = "DELETE FROM resource_version WHERE kind = $1 AND id = $2 AND version <= \
    (SELECT v.version FROM resource_version v WHERE v.kind = $1 AND v.id = $2 ORDER BY v.version DESC LIMIT 1 OFFSET $3)";

const PUT_AUDIT: &str = "INSERT INTO audit (id, at, org, workspace, actor, actor_kind, action, resource_kind, \
    resource_id, method, uri, client_ip, status, details, api_key) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

const STANDING: &str = concat!("SELECT ", stored_columns!(), " FROM resource r WHERE r.kind = $1 AND r.id IN (");
/// Far below what either engine takes of values.
const AT_ONCE: usize = 500;

impl ConfigStore for Database {
    fn load(&self) -> Fut<'_, Result<Changes, StoreError>> {
        // A million rows take a while.
        Box::pin(self.changes(LOAD, vec![], self.call_timeout() * 10))
    }

    fn since(&self, revision: Revision) -> Fut<'_, Result<Changes, StoreError>> {
        Box::pin(self.changes(SINCE, vec![revision.into()], self.call_timeout()))
    }

    fn write<'a>(&'a self, seen: Revision, decide: Decide<'a>) -> Fut<'a, Result<Changes, WriteError>> {
        Box::pin(async move {
            let mut lease = self.lease_soon(Side::Write).await?;
            let outcome = timeout(self.call_timeout(), write(lease.session(), seen, self.mark(), decide)).await;
            let written = lease.finish(outcome);
            match &written {
                Ok(_) => self.reach().wrote(None),
                Err(WriteError::Store(error)) => self.reach().wrote(Some(error)),
                // Nothing was written.
                Err(WriteError::Rejected(_) | WriteError::Repeated) => {}
            }
            let written = written?;
            self.notices().notify();
            Ok(written)
        })
    }

    fn wake(&self) -> Fut<'_, ()> {
        Box::pin(self.notices().wait())
    }
}

impl Database {
    async fn changes(
        &self,
        sql: &'static str,
        values: Vec<Value<'static>>,
        limit: Duration,
    ) -> Result<Changes, StoreError> {
        let lease = self.lease(Side::Read).await?;
        let found = Self::rows_within(lease, limit, sql, values, change).await?;
        gathered(found).ok_or_else(|| StoreError::Broken("the table 'meta' is empty".to_owned()))
    }

    /// Takes over rows as they stand elsewhere, their revisions included; tombstones need no keeping.
    pub(crate) async fn keep(&self, changes: &Changes, whole: bool) -> Result<(), StoreError> {
        let mut lease = self.lease(Side::Write).await?;
        let work = async { keep(lease.session(), changes, whole).await.map_err(|e| failure(&e)) };
        let outcome = timeout(self.call_timeout(), work).await;
        lease.finish(outcome)
    }
}

async fn keep(mut session: Session<'_>, changes: &Changes, whole: bool) -> Result<(), Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    if whole {
        inside.run("DELETE FROM resource", vec![]).await?;
    } else {
        // All of them before any is put: between two looks a slug may have passed from one to another.
        for row in &changes.rows {
            let one = vec![row.kind.as_str().into(), row.id.into()];
            inside.run("DELETE FROM resource WHERE kind = $1 AND id = $2", one).await?;
        }
    }
    for row in changes.rows.iter().filter(|row| row.deleted_at.is_none()) {
        inside.run(PUT, row_values(row, row.revision)).await?;
    }
    inside.run("UPDATE meta SET revision = $1", vec![changes.revision.into()]).await?;
    transaction.commit().await
}

/// The revision of the whole, and a row of the configuration if any.
type FoundChange = (Revision, Option<Stored>);

fn change(row: &DatabaseRow) -> Result<FoundChange, Error> {
    let mut columns = row.columns();
    let revision = columns.int()?;
    Ok((revision, columns.opt_text()?.map(|kind| stored(kind, &mut columns)).transpose()?))
}

fn gathered(found: Vec<FoundChange>) -> Option<Changes> {
    let revision = found.first()?.0;
    Some(Changes { revision, rows: found.into_iter().filter_map(|(_, row)| row).collect() })
}

/// The columns after `kind`.
pub(crate) fn stored(kind: &str, columns: &mut Columns<'_>) -> Result<Stored, Error> {
    Ok(Stored {
        kind: kind.to_owned(),
        id: columns.uuid()?,
        org: columns.uuid()?,
        workspace: workspace(columns)?,
        slug: columns.text()?.to_owned(),
        name: columns.text()?.to_owned(),
        status: columns.text()?.to_owned(),
        owner: columns.opt_uuid()?,
        schema: narrow(columns.int()?)?,
        version: columns.int()?,
        revision: columns.int()?,
        doc: columns.text()?.to_owned(),
        created_at: columns.time()?,
        updated_at: columns.time()?,
        deleted_at: columns.opt_int()?.map(gateway_domain::Timestamp),
    })
}

/// Empty stands for the organisation's own level, where NULLs would not be unique.
pub(crate) fn workspace(columns: &mut Columns<'_>) -> Result<Option<Uuid>, Error> {
    match columns.text()? {
        "" => Ok(None),
        text => Uuid::parse_str(text).map(Some).map_err(|e| Error::Decode(e.into())),
    }
}

pub(crate) fn workspace_value(workspace: Option<Uuid>) -> Value<'static> {
    workspace.map(|id| id.to_string()).unwrap_or_default().into()
}

pub(crate) fn narrow<T: TryFrom<i64>>(number: i64) -> Result<T, Error> {
    T::try_from(number).map_err(|_| Error::Decode(format!("{number} is out of range").into()))
}

async fn write(
    mut session: Session<'_>,
    seen: Revision,
    mark: Option<String>,
    decide: Decide<'_>,
) -> Result<Changes, WriteError> {
    let mut transaction = session.begin().await.map_err(|e| broken(&e))?;
    let mut inside = transaction.session();
    let revision = bump(&mut inside, mark.as_deref()).await?;
    let news = news(&mut inside, seen, revision - 1).await?;
    // From here on an early return rolls the transaction back.
    let Batch { rows, versions, mut audit, compare, history, mark } = decide(&news).map_err(WriteError::Rejected)?;
    if let Some(mark) = &mark
        && !kept_answers::mark(&mut inside, mark).await.map_err(|e| broken(&e))?
    {
        return Err(WriteError::Repeated);
    }
    let steps = match (compare, history) {
        (None, None) => Vec::new(),
        looks => audit_changes(&mut inside, &rows, &mut audit, looks).await.map_err(|e| broken(&e))?,
    };
    // What is gone is asked about by nobody, and may hold sealed secrets.
    for gone in rows.iter().filter(|row| history.is_some() && row.deleted_at.is_some()) {
        let of = vec![gone.kind.as_str().into(), gone.id.into()];
        inside.run(DROP_VERSIONS, of).await.map_err(|e| broken(&e))?;
    }
    for step in &steps {
        keep_step(&mut inside, step).await.map_err(|e| broken(&e))?;
    }
    put_all(&mut inside, &rows, &versions, &audit, revision).await.map_err(WriteError::Store)?;
    let revision = if rows.is_empty() {
        // Nothing that a node would want to read: the number stays free.
        inside.run(UNBUMP, vec![]).await.map_err(|e| broken(&e))?;
        revision - 1
    } else {
        if let Session::Postgres(_) = inside {
            let told: [Value<'_>; 2] = [CHANNEL.into(), revision.to_string().into()];
            inside.fetch("SELECT pg_notify($1, $2)", told.into(), |_| Ok(())).await.map_err(|e| broken(&e))?;
        }
        revision
    };
    transaction.commit().await.map_err(|e| broken(&e))?;
    Ok(merge(news, rows, revision))
}

/// The next revision, and proof that the node still seals with the database's own key.
async fn bump(inside: &mut Session<'_>, mark: Option<&str>) -> Result<Revision, WriteError> {
    let read = |row: &DatabaseRow| {
        let mut columns = row.columns();
        Ok((columns.int()?, columns.text()?.to_owned()))
    };
    let bumped = inside.fetch(BUMP, vec![], read).await.map_err(|e| broken(&e))?;
    let Some((revision, found)) = bumped.into_iter().next() else {
        return Err(WriteError::Store(StoreError::Broken("the table 'meta' is empty".to_owned())));
    };
    if mark.is_some_and(|mark| mark != found) {
        let why = "the master key was changed: start this node again with the new one";
        return Err(WriteError::Store(StoreError::Unavailable(why.to_owned())));
    }
    Ok(revision)
}

fn broken(error: &Error) -> WriteError {
    WriteError::Store(failure(error))
}

/// What the writer has not seen yet.
async fn news(inside: &mut Session<'_>, seen: Revision, current: Revision) -> Result<Changes, WriteError> {
    if seen > current {
        let why = format!("the database is at revision {current}, behind this node's {seen}: was it restored?");
        return Err(WriteError::Store(StoreError::Broken(why)));
    }
    if seen == current {
        return Ok(Changes { revision: current, rows: Vec::new() });
    }
    let found = inside.fetch(SINCE, vec![seen.into()], change).await.map_err(|e| broken(&e))?;
    Ok(Changes { revision: current, rows: found.into_iter().filter_map(|(_, row)| row).collect() })
}

/// What rows are now, before they are written over, goes into what is told of them.
async fn audit_changes(
    inside: &mut Session<'_>,
    rows: &[Stored],
    audit: &mut [Audit],
    (compare, history): (Option<Compare>, Option<KeepHistory>),
) -> Result<Vec<HistoryStep>, Error> {
    let mut steps = Vec::new();
    let mut changed: BTreeMap<&str, Vec<&Stored>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.version > 1) {
        changed.entry(&row.kind).or_default().push(row);
    }
    let mut told: HashMap<(String, String), &mut Audit> = HashMap::new();
    for entry in audit {
        told.entry((entry.resource_kind.clone(), entry.resource_id.clone())).or_insert(entry);
    }
    for (kind, rows) in changed {
        for rows in rows.chunks(AT_ONCE) {
            let mut sql = STANDING.to_owned();
            let mut values: Vec<Value<'_>> = vec![kind.into()];
            for row in rows {
                values.push(row.id.into());
                let _ = write!(sql, "{}${}", if values.len() > 2 { ", " } else { "" }, values.len());
            }
            sql.push(')');
            let before = inside.fetch(sql, values, |row| {
                let mut columns = row.columns();
                let kind = columns.text()?;
                stored(kind, &mut columns)
            });
            for before in before.await? {
                let after = rows.iter().find(|row| row.id == before.id);
                let entry = told.get_mut(&(before.kind.clone(), before.id.to_string()));
                if let (Some(after), Some(entry)) = (after, entry) {
                    if let Some(compare) = compare {
                        compare(&before, after, entry);
                    }
                    steps.extend(history.and_then(|keep| keep(&before, after, entry)));
                }
            }
        }
    }
    Ok(steps)
}

async fn keep_step(inside: &mut Session<'_>, step: &HistoryStep) -> Result<(), Error> {
    inside.run(PUT_FIRST, version_values(&step.first)).await?;
    inside.run(PUT_VERSION, version_values(&step.next)).await?;
    let (kind, id) = (step.next.kind.as_str(), step.next.id);
    let beyond = i64::try_from(MOST_VERSIONS).unwrap_or(i64::MAX);
    inside.run(FORGET_VERSIONS, vec![kind.into(), id.into(), beyond.into()]).await
}

async fn put_all(
    inside: &mut Session<'_>,
    rows: &[Stored],
    versions: &[StoredVersion],
    audit: &[Audit],
    revision: Revision,
) -> Result<(), StoreError> {
    // Tombstones first: they free slugs that the other rows of the batch may take.
    let (gone, live): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.deleted_at.is_some());
    for row in gone.into_iter().chain(live) {
        inside.run(PUT, row_values(row, revision)).await.map_err(|e| match failure(&e) {
            StoreError::Conflict(_) => StoreError::Conflict(format!("{} '{}'", row.kind, row.slug)),
            other => other,
        })?;
    }
    for version in versions {
        inside.run(PUT_VERSION, version_values(version)).await.map_err(|e| match failure(&e) {
            StoreError::Conflict(_) => {
                StoreError::Conflict(format!("version {} of {} {}", version.version, version.kind, version.id))
            }
            other => other,
        })?;
    }
    for entry in audit {
        inside.run(PUT_AUDIT, audit_values(entry)).await.map_err(|e| failure(&e))?;
    }
    Ok(())
}

/// Everything after `seen`: what others wrote, save the rows that this write replaced, then its own.
fn merge(mut news: Changes, mut rows: Vec<Stored>, revision: Revision) -> Changes {
    for row in &mut rows {
        row.revision = revision;
    }
    let own: HashSet<_> = rows.iter().map(|row| (row.kind.as_str(), row.id)).collect();
    news.rows.retain(|row| !own.contains(&(row.kind.as_str(), row.id)));
    news.rows.append(&mut rows);
    news.revision = revision;
    news
}

fn row_values(row: &Stored, revision: Revision) -> Vec<Value<'_>> {
    vec![
        row.kind.as_str().into(),
        row.id.into(),
        row.org.into(),
        workspace_value(row.workspace),
        row.slug.as_str().into(),
        row.name.as_str().into(),
        row.status.as_str().into(),
        row.owner.into(),
        i64::from(row.schema).into(),
        row.version.into(),
        revision.into(),
        row.doc.as_str().into(),
        row.created_at.into(),
        row.updated_at.into(),
        row.deleted_at.into(),
    ]
}

fn version_values(version: &StoredVersion) -> Vec<Value<'_>> {
    vec![
        version.kind.as_str().into(),
        version.id.into(),
        version.version.into(),
        version.version_id.into(),
        version.author.into(),
        version.doc.as_str().into(),
        version.created_at.into(),
    ]
}

fn audit_values(entry: &Audit) -> Vec<Value<'_>> {
    vec![
        entry.id.into(),
        entry.at.into(),
        entry.org.into(),
        workspace_value(entry.workspace),
        entry.actor.as_str().into(),
        entry.actor_kind.as_str().into(),
        entry.action.as_str().into(),
        entry.resource_kind.as_str().into(),
        entry.resource_id.as_str().into(),
        entry.method.as_str().into(),
        entry.uri.as_str().into(),
        entry.client_ip.as_str().into(),
        i64::from(entry.status).into(),
        entry.details.as_str().into(),
        entry.api_key.as_str().into(),
    ]
}
