//! Jobs as rows. Taking one is one statement: of several nodes that look at once each gets another. The token of a run
//! is in every later statement of it, so that a run which lost its lease changes nothing.

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session, Value};
use crate::time_limit::now;
use gateway_domain::ports::{
    Enqueued, Fut, Hastened, Job, JobBacklog, JobBounds, JobEnd, JobLease, JobStanding, JobState, Jobs, LeasedJob,
    MOST_JOB_BYTES, NewJob, StoreError,
};
use gateway_domain::{OrgId, Timestamp};
use sqlx::Error;
use std::fmt::Write;
use std::time::Duration;
use uuid::Uuid;

const INSERT: &str = "INSERT INTO job \
    (id, kind, org, state, payload, progress, note, tries, most_tries, token, cancelled, due_at, created_at, ended_at, part) \
    SELECT $1, $2, $3, 'waiting', $4, $9, '', 0, $5, NULL, 0, $6, $7, NULL, $10 \
    WHERE (SELECT COUNT(*) FROM job WHERE org = $3 AND kind = $2 AND ended_at IS NULL) < $8{bounds} \
    ON CONFLICT (id) DO NOTHING RETURNING id";
/// Inserts a job that runs from the beginning.
const BEGIN: &str = "INSERT INTO job \
    (id, kind, org, state, payload, progress, note, tries, most_tries, token, cancelled, due_at, created_at, ended_at, part) \
    SELECT $1, $2, $3, 'running', $4, $9, '', 1, $5, $11, 0, $6, $7, NULL, $10 \
    WHERE (SELECT COUNT(*) FROM job WHERE org = $3 AND kind = $2 AND ended_at IS NULL) < $8{bounds} \
    ON CONFLICT (id) DO NOTHING RETURNING id";
/// Bounds beside that of an organisation; few jobs ask for them.
const WITHIN_PART: &str =
    " AND (SELECT COUNT(*) FROM job WHERE part = $10 AND part <> '' AND kind = $2 AND ended_at IS NULL) < ";
const WITHIN_ALL: &str = " AND (SELECT COUNT(*) FROM job WHERE kind = $2 AND ended_at IS NULL) < ";
const IS_THERE: &str = "SELECT COUNT(*) FROM job WHERE id = $1";
/// Runs that nobody will finish: cancelled, or lost too often.
const GIVE_UP: &str = "UPDATE job SET token = NULL, ended_at = $1, \
    state = CASE WHEN cancelled = 1 THEN 'cancelled' ELSE 'failed' END, \
    note = CASE WHEN cancelled = 1 THEN note ELSE 'the nodes that ran it were lost too often' END \
    WHERE id IN (SELECT id FROM job WHERE ended_at IS NULL AND due_at <= $1 AND state = 'running' \
    AND (cancelled = 1 OR tries >= most_tries) LIMIT 100{skip})";
const TAKE: &str = "UPDATE job SET state = 'running', token = $1, tries = tries + 1, due_at = $2 \
    WHERE id = (SELECT id FROM job WHERE ended_at IS NULL AND due_at <= $3 AND cancelled = 0 AND tries < most_tries \
    AND kind IN ({kinds}) ORDER BY due_at, id LIMIT 1{skip}) \
    RETURNING id, kind, org, state, payload, progress, note, tries, cancelled, created_at, ended_at";
const BEAT: &str = "UPDATE job SET due_at = $1, progress = COALESCE($2, progress), \
    tries = CASE WHEN COALESCE($2, progress) = progress THEN tries ELSE 1 END \
    WHERE id = $3 AND token = $4 RETURNING cancelled";
/// Prolongs many leases at once. No two jobs ever have one token.
const BEAT_ALL: &str = "UPDATE job SET due_at = $1 WHERE id IN ({ids}) AND token IN ({tokens}) RETURNING id, token";
const REMOVE: &str = "DELETE FROM job WHERE id = $1 AND token = $2 RETURNING id";
const END: &str = "UPDATE job SET state = $1, note = $2, token = NULL, ended_at = $3 \
    WHERE id = $4 AND token = $5 RETURNING id";
const AGAIN: &str = "UPDATE job SET note = $1, token = NULL, due_at = $2, \
    state = CASE WHEN cancelled = 1 THEN 'cancelled' WHEN tries >= most_tries THEN 'failed' ELSE 'waiting' END, \
    ended_at = CASE WHEN cancelled = 1 OR tries >= most_tries THEN $3 ELSE ended_at END \
    WHERE id = $4 AND token = $5 RETURNING id";
const BACK: &str = "UPDATE job SET token = NULL, due_at = $1, tries = tries - 1, \
    state = CASE WHEN cancelled = 1 THEN 'cancelled' ELSE 'waiting' END, \
    ended_at = CASE WHEN cancelled = 1 THEN $2 ELSE ended_at END \
    WHERE id = $3 AND token = $4 RETURNING id";
const CANCEL: &str = "UPDATE job SET cancelled = 1, \
    state = CASE WHEN state = 'waiting' THEN 'cancelled' ELSE state END, \
    ended_at = CASE WHEN state = 'waiting' THEN $1 ELSE ended_at END \
    WHERE id = $2 AND org = $3 AND ended_at IS NULL RETURNING id";
const HASTEN: &str = "UPDATE job SET due_at = CASE WHEN due_at < $1 THEN due_at ELSE $1 END \
    WHERE id = $2 AND org = $3 AND state = 'waiting' AND ended_at IS NULL RETURNING id";
const IS_RUN: &str = "SELECT COUNT(*) FROM job WHERE id = $1 AND org = $2 AND ended_at IS NULL";
const ONE: &str = "SELECT id, kind, org, state, payload, progress, note, tries, cancelled, created_at, ended_at \
    FROM job WHERE id = $1 AND org = $2";
const BACKLOG: &str = "SELECT kind, state, COUNT(*), MIN(due_at) FROM job WHERE ended_at IS NULL \
    GROUP BY kind, state ORDER BY kind, state";
const FORGET: &str =
    "DELETE FROM job WHERE id IN (SELECT id FROM job WHERE ended_at < $1 ORDER BY ended_at LIMIT 2000) RETURNING id";

/// Leases of one statement.
const BEATS: usize = 200;
/// Characters of what is told of an end.
const MOST_NOTE: usize = 8_000;

impl Jobs for Database {
    fn enqueue<'a>(&'a self, job: &'a NewJob) -> Fut<'a, Result<Enqueued, StoreError>> {
        Box::pin(async move {
            fits(&job.payload)?;
            fits(&job.progress)?;
            self.on(Side::Write, async |session| enqueue(session, job).await).await
        })
    }

    fn begin_job<'a>(&'a self, job: &'a NewJob, lease: Duration) -> Fut<'a, Result<Option<JobLease>, StoreError>> {
        Box::pin(async move {
            fits(&job.payload)?;
            fits(&job.progress)?;
            let token = Uuid::now_v7();
            let begin = async |mut session: Session<'_>| {
                let now = now(&mut session).await?;
                let values = [new_values(job, (now, later(now, lease))), vec![token.into()]].concat();
                session.fetch(within(BEGIN, job.bounds), values, |_| Ok(())).await
            };
            let is_new = !self.on(Side::Write, begin).await?.is_empty();
            Ok(is_new.then_some(JobLease { job: job.id, token }))
        })
    }

    fn take<'a>(&'a self, kinds: &'a [&'a str], lease: Duration) -> Fut<'a, Result<Option<LeasedJob>, StoreError>> {
        Box::pin(self.on(Side::Write, async move |session| take(session, kinds, lease).await))
    }

    fn beat<'a>(
        &'a self,
        lease: JobLease,
        progress: Option<&'a str>,
        lasts: Duration,
    ) -> Fut<'a, Result<JobStanding, StoreError>> {
        Box::pin(async move {
            fits(progress.unwrap_or_default())?;
            let beat = async |mut session: Session<'_>| {
                let until = later(now(&mut session).await?, lasts);
                let progress = Value::Text(progress.map(Into::into));
                let values = vec![until.into(), progress, lease.job.into(), lease.token.into()];
                session.fetch(BEAT, values, |row| row.columns().int()).await
            };
            Ok(match self.on(Side::Write, beat).await?.first() {
                None => JobStanding::Lost,
                Some(0) => JobStanding::Held,
                Some(_) => JobStanding::Cancelled,
            })
        })
    }

    fn beat_all<'a>(&'a self, leases: &'a [JobLease], lasts: Duration) -> Fut<'a, Result<Vec<JobLease>, StoreError>> {
        Box::pin(async move {
            let mut held = Vec::with_capacity(leases.len());
            for some in leases.chunks(BEATS) {
                held.extend(self.on(Side::Write, async |session| beat_all(session, some, lasts).await).await?);
            }
            Ok(held)
        })
    }

    fn drop_job(&self, lease: JobLease) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let values = vec![lease.job.into(), lease.token.into()];
            Ok(!session.fetch(REMOVE, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn end<'a>(&'a self, lease: JobLease, end: &'a JobEnd) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let now = now(&mut session).await?;
            let ended = |state: JobState, note: &str| (END, vec![state.as_str().into(), cut(note).into(), now.into()]);
            let (sql, mut values) = match end {
                JobEnd::Done(result) => ended(JobState::Done, result),
                JobEnd::Failed(why) => ended(JobState::Failed, why),
                JobEnd::Stopped => ended(JobState::Cancelled, ""),
                JobEnd::Again { after, why } => (AGAIN, vec![cut(why).into(), later(now, *after).into(), now.into()]),
                JobEnd::Back { after } => (BACK, vec![later(now, *after).into(), now.into()]),
            };
            values.extend([lease.job.into(), lease.token.into()]);
            Ok(!session.fetch(sql, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn cancel(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let now = now(&mut session).await?;
            let values = vec![now.into(), id.into(), org.0.into()];
            Ok(!session.fetch(CANCEL, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn hasten(&self, org: OrgId, id: Uuid, wait: Duration) -> Fut<'_, Result<Hastened, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let due = later(now(&mut session).await?, wait);
            if !session.fetch(HASTEN, vec![due.into(), id.into(), org.0.into()], |_| Ok(())).await?.is_empty() {
                return Ok(Hastened::Due);
            }
            let is_run = session.fetch_int(IS_RUN, vec![id.into(), org.0.into()]).await? > 0;
            Ok(if is_run { Hastened::Running } else { Hastened::Absent })
        }))
    }

    fn job(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<Option<Job>, StoreError>> {
        Box::pin(async move {
            let found = self.rows(ONE, vec![id.into(), org.0.into()], job).await?;
            Ok(found.into_iter().next())
        })
    }

    fn backlog(&self) -> Fut<'_, Result<Vec<JobBacklog>, StoreError>> {
        Box::pin(self.on(Side::Read, async |mut session| {
            let now = now(&mut session).await?;
            session.fetch(BACKLOG, vec![], |row| backlog(row, now)).await
        }))
    }

    fn forget(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(FORGET, vec![ended_before.into()], |_| Ok(())).await?.len() as u64)
        }))
    }
}

async fn enqueue(mut session: Session<'_>, job: &NewJob) -> Result<Enqueued, Error> {
    let now = now(&mut session).await?;
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    let values = new_values(job, (now, later(now, job.wait)));
    let is_new = !inside.fetch(within(INSERT, job.bounds), values, |_| Ok(())).await?.is_empty();
    let is_there = is_new || inside.fetch_int(IS_THERE, vec![job.id.into()]).await? > 0;
    transaction.commit().await?;
    Ok(match (is_new, is_there) {
        (true, _) => Enqueued::New,
        (false, true) => Enqueued::Known,
        (false, false) => Enqueued::Full,
    })
}

/// What both ways to make a job have in common; due then.
fn new_values(job: &NewJob, (now, due): (i64, i64)) -> Vec<Value<'_>> {
    vec![
        job.id.into(),
        job.kind.into(),
        job.org.0.into(),
        job.payload.as_str().into(),
        i64::from(job.most_tries.max(1)).into(),
        due.into(),
        now.into(),
        i64::from(job.most_open).into(),
        job.progress.as_str().into(),
        job.bounds.part.map(|part| part.part.to_string()).unwrap_or_default().into(),
    ]
}

/// The statement with the bounds that are asked for.
fn within(sql: &str, JobBounds { part, all }: JobBounds) -> String {
    let part = part.map(|part| format!("{WITHIN_PART}{}", part.most));
    let all = all.map(|most| format!("{WITHIN_ALL}{most}"));
    sql.replace("{bounds}", &[part, all].into_iter().flatten().collect::<String>())
}

async fn beat_all(mut session: Session<'_>, leases: &[JobLease], lasts: Duration) -> Result<Vec<JobLease>, Error> {
    let until = later(now(&mut session).await?, lasts);
    let mut values: Vec<Value<'_>> = vec![until.into()];
    let mut named = |of: fn(&JobLease) -> Uuid| {
        let mut names = String::new();
        for lease in leases {
            values.push(of(lease).into());
            let _ = write!(names, "{}${}", if names.is_empty() { "" } else { ", " }, values.len());
        }
        names
    };
    let (ids, tokens) = (named(|lease| lease.job), named(|lease| lease.token));
    let sql = BEAT_ALL.replace("{ids}", &ids).replace("{tokens}", &tokens);
    let held = session.fetch(sql, values, |row| {
        let mut columns = row.columns();
        Ok(JobLease { job: columns.uuid()?, token: columns.uuid()? })
    });
    held.await
}

async fn take(mut session: Session<'_>, kinds: &[&str], lasts: Duration) -> Result<Option<LeasedJob>, Error> {
    let Some((first, rest)) = kinds.split_first() else { return Ok(None) };
    // Rows that another node is at are passed over instead of waited for; SQLite has one writer anyway.
    let skip = if matches!(session, Session::Postgres(_)) { " FOR UPDATE SKIP LOCKED" } else { "" };
    let now = now(&mut session).await?;
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    inside.run(GIVE_UP.replace("{skip}", skip), vec![now.into()]).await?;
    let token = Uuid::now_v7();
    let mut values = vec![token.into(), later(now, lasts).into(), now.into(), (*first).into()];
    let mut named = "$4".to_owned();
    for kind in rest {
        values.push((*kind).into());
        let _ = write!(named, ", ${}", values.len());
    }
    let sql = TAKE.replace("{kinds}", &named).replace("{skip}", skip);
    let taken = inside.fetch(sql, values, job).await?;
    transaction.commit().await?;
    Ok(taken.into_iter().next().map(|job| LeasedJob { lease: JobLease { job: job.id, token }, job }))
}

fn fits(text: &str) -> Result<(), StoreError> {
    if text.len() > MOST_JOB_BYTES {
        return Err(StoreError::Broken(format!("a job holds at most {MOST_JOB_BYTES} bytes of text")));
    }
    Ok(())
}

fn cut(note: &str) -> String {
    note.chars().take(MOST_NOTE).collect()
}

fn later(now: i64, by: Duration) -> i64 {
    now.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX))
}

fn state(text: &str) -> Result<JobState, Error> {
    JobState::parse(text).ok_or_else(|| Error::Decode(format!("'{text}' is no state of a job").into()))
}

fn job(row: &DatabaseRow) -> Result<Job, Error> {
    let mut columns = row.columns();
    Ok(Job {
        id: columns.uuid()?,
        kind: columns.text()?.to_owned(),
        org: OrgId(columns.uuid()?),
        state: state(columns.text()?)?,
        payload: columns.text()?.to_owned(),
        progress: columns.text()?.to_owned(),
        note: columns.text()?.to_owned(),
        tries: u32::try_from(columns.int()?).unwrap_or(u32::MAX),
        is_cancelled: columns.int()? != 0,
        created_at: columns.time()?,
        ended_at: columns.opt_int()?.map(Timestamp),
    })
}

fn backlog(row: &DatabaseRow, now: i64) -> Result<JobBacklog, Error> {
    let mut columns = row.columns();
    Ok(JobBacklog {
        kind: columns.text()?.to_owned(),
        state: state(columns.text()?)?,
        jobs: columns.int()?.max(0).unsigned_abs(),
        overdue: Duration::from_micros(now.saturating_sub(columns.int()?).max(0).unsigned_abs()),
    })
}
