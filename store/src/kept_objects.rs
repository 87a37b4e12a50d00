//! Notes which workspace each object is of that providers keep, as rows beside the configuration. Knows neither
//! providers nor names of objects.

use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::Value;
use gateway_domain::Timestamp;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, KeptObject, KeptObjects, MOST_KEPT_ASKED, StoreError};
use std::fmt::Write;
use uuid::Uuid;

const NOTE: &str = "INSERT INTO kept_object (workspace, mark, created_at, expires_at) VALUES {rows} \
    ON CONFLICT (workspace, mark) DO NOTHING";
const TRIM: &str = "DELETE FROM kept_object WHERE workspace = $1 AND mark IN (SELECT mark FROM kept_object \
    WHERE workspace = $1 ORDER BY created_at DESC, mark DESC LIMIT 2000 OFFSET $2) RETURNING mark";
const FORGET: &str = "DELETE FROM kept_object WHERE workspace = $1 AND mark = $2 RETURNING mark";
const EXPIRE: &str = "DELETE FROM kept_object WHERE expires_at <= $1 AND mark IN \
    (SELECT mark FROM kept_object WHERE expires_at <= $1 ORDER BY expires_at LIMIT 2000) RETURNING mark";
/// Far below what either engine takes of values.
const ROWS: usize = 500;

impl KeptObjects for Database {
    fn note_kept<'a>(&'a self, objects: &'a [KeptObject], most: u32) -> Fut<'a, Result<u64, StoreError>> {
        // The order is the same everywhere, so that two nodes never wait for each other.
        let mut objects = objects.to_vec();
        objects.sort_unstable();
        objects.dedup_by_key(|object| (object.workspace, object.mark));
        Box::pin(self.on(Side::Write, async move |mut session| {
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            for chunk in objects.chunks(ROWS) {
                let (sql, values) = noting(chunk);
                inside.run(sql, values).await?;
            }
            let mut gone = 0;
            for of_one in objects.chunk_by(|one, other| one.workspace == other.workspace) {
                let workspace = of_one[0].workspace;
                let values = vec![workspace.0.into(), i64::from(most).into()];
                gone += inside.fetch(TRIM, values, |_| Ok(())).await?.len() as u64;
            }
            transaction.commit().await?;
            Ok(gone)
        }))
    }

    fn kept_among<'a>(&'a self, workspace: WorkspaceId, marks: &'a [Uuid]) -> Fut<'a, Result<Vec<Uuid>, StoreError>> {
        Box::pin(async move {
            if marks.is_empty() {
                return Ok(Vec::new());
            }
            if marks.len() > MOST_KEPT_ASKED {
                return Err(StoreError::Broken(format!("{} marks are too many to ask about at once", marks.len())));
            }
            let mut filter = Filter::default();
            filter.and("workspace = ?", workspace.0).and_in("mark", marks.iter().copied());
            let (sql, values) = filter.grouped("SELECT mark FROM kept_object", "");
            self.rows(sql, values, |row| row.columns().uuid()).await
        })
    }

    fn forget_kept(&self, workspace: WorkspaceId, mark: Uuid) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            let values = vec![workspace.0.into(), mark.into()];
            Ok(!session.fetch(FORGET, values, |_| Ok(())).await?.is_empty())
        }))
    }

    fn expire_kept(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(EXPIRE, vec![now.into()], |_| Ok(())).await?.len() as u64)
        }))
    }

    fn count_kept(&self) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let count = self.rows("SELECT COUNT(*) FROM kept_object", Vec::new(), |row| row.columns().int()).await?;
            Ok(count.first().and_then(|count| u64::try_from(*count).ok()).unwrap_or_default())
        })
    }
}

fn noting(objects: &[KeptObject]) -> (String, Vec<Value<'static>>) {
    let mut rows = String::new();
    let mut values = Vec::with_capacity(objects.len() * 4);
    for KeptObject { workspace, mark, created_at, expires_at } in objects {
        let comma = if rows.is_empty() { "" } else { ", " };
        let at = values.len();
        let _ = write!(rows, "{comma}(${}, ${}, ${}, ${})", at + 1, at + 2, at + 3, at + 4);
        values.extend([workspace.0.into(), (*mark).into(), (*created_at).into(), (*expires_at).into()]);
    }
    (NOTE.replace("{rows}", &rows), values)
}
