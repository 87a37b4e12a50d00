//! Marks of writes that may come again, with their answers, as rows. One is written with the change that it marks.

use crate::database::{Database, Side};
use crate::session::{DatabaseRow, Session, Value};
use gateway_domain::Timestamp;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{ANSWERS_KEPT_MICROS, AnswerMark, Fut, KeptAnswers, StoreError};
use sqlx::Error;

/// What has had its time makes room.
const MARK: &str = "INSERT INTO kept_answer (id, org, request, answer, created_at) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (id) DO UPDATE SET org = excluded.org, request = excluded.request, answer = excluded.answer, \
    created_at = excluded.created_at WHERE kept_answer.created_at < $6 RETURNING id";
const ONE: &str = "SELECT id, org, request, answer, created_at FROM kept_answer WHERE id = $1 AND created_at >= $2";
const COUNT: &str = "SELECT COUNT(*) FROM kept_answer WHERE org = $1";
const COUNT_ALL: &str = "SELECT COUNT(*) FROM kept_answer";
const KEEP: &str = "UPDATE kept_answer SET answer = $1 WHERE id = $2";
const UNMARK: &str = "DELETE FROM kept_answer WHERE id = $1";
const FORGET: &str =
    "DELETE FROM kept_answer WHERE id IN (SELECT id FROM kept_answer WHERE created_at < $1 LIMIT 5000) RETURNING id";

/// False where it stands already. Inside whatever transaction the session is in.
pub(crate) async fn mark(session: &mut Session<'_>, mark: &AnswerMark) -> Result<bool, Error> {
    let values = vec![
        mark.id.as_str().into(),
        mark.org.0.into(),
        mark.request.as_str().into(),
        Value::Text(mark.answer.as_deref().map(Into::into)),
        mark.created_at.into(),
        mark.created_at.plus_micros(-ANSWERS_KEPT_MICROS).into(),
    ];
    Ok(!session.fetch(MARK, values, |_| Ok(())).await?.is_empty())
}

impl KeptAnswers for Database {
    fn mark<'a>(&'a self, new: &'a AnswerMark) -> Fut<'a, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| mark(&mut session, new).await))
    }

    fn kept_answer<'a>(&'a self, id: &'a str, since: Timestamp) -> Fut<'a, Result<Option<AnswerMark>, StoreError>> {
        Box::pin(async move { Ok(self.rows(ONE, vec![id.into(), since.into()], read).await?.into_iter().next()) })
    }

    fn kept_answers(&self, org: Option<OrgId>) -> Fut<'_, Result<u64, StoreError>> {
        let (sql, values) = org.map_or_else(|| (COUNT_ALL, vec![]), |org| (COUNT, vec![org.0.into()]));
        Box::pin(async move {
            let counted = self.rows(sql, values, |row| row.columns().int()).await?;
            Ok(counted.first().and_then(|n| u64::try_from(*n).ok()).unwrap_or_default())
        })
    }

    fn keep_answer<'a>(&'a self, id: &'a str, answer: &'a str) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            session.run(KEEP, vec![answer.into(), id.into()]).await.map(drop)
        }))
    }

    fn unmark<'a>(&'a self, id: &'a str) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| session.run(UNMARK, vec![id.into()]).await.map(drop)))
    }

    fn forget_answers(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(FORGET, vec![before.into()], |_| Ok(())).await?.len() as u64)
        }))
    }
}

fn read(row: &DatabaseRow) -> Result<AnswerMark, Error> {
    let mut columns = row.columns();
    Ok(AnswerMark {
        id: columns.text()?.to_owned(),
        org: OrgId(columns.uuid()?),
        request: columns.text()?.to_owned(),
        answer: columns.opt_text()?.map(str::to_owned),
        created_at: columns.time()?,
    })
}
