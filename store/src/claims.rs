//! Names of records that clients sent, as rows: whoever names one again gets the time of the first.

use crate::database::{Database, Side};
use crate::session::{Session, Value};
use gateway_domain::Timestamp;
use gateway_domain::ports::{Fut, RecordClaims, StoreError};
use sqlx::Error;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use uuid::Uuid;

/// The update changes nothing; it is there so that the row is given back.
const CLAIM: &str = "INSERT INTO record_claim (id, created_at) VALUES {rows} \
    ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING id, created_at";
/// The row is given back to whoever wrote it, and to nobody else.
const CLAIM_FIRST: &str =
    "INSERT INTO record_claim (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id";
const FORGET: &str =
    "DELETE FROM record_claim WHERE id IN (SELECT id FROM record_claim WHERE created_at < $1 LIMIT 5000) RETURNING id";
/// Far below what either engine takes of values.
const ROWS: usize = 500;

impl RecordClaims for Database {
    fn claim<'a>(&'a self, names: &'a [Uuid], now: Timestamp) -> Fut<'a, Result<Vec<Timestamp>, StoreError>> {
        Box::pin(async move {
            // The order is the same everywhere, so that two who claim the same never wait for each other.
            let all: BTreeSet<Uuid> = names.iter().copied().collect();
            if all.is_empty() {
                return Ok(Vec::new());
            }
            let work = async |session: Session<'_>| claim(session, &all, now).await;
            let first = self.on(Side::Write, work).await?;
            Ok(names.iter().map(|name| first.get(name).copied().unwrap_or(now)).collect())
        })
    }

    fn claim_first(&self, name: Uuid, now: Timestamp) -> Fut<'_, Result<bool, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(!session.fetch(CLAIM_FIRST, vec![name.into(), now.into()], |_| Ok(())).await?.is_empty())
        }))
    }

    fn forget_claims(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| {
            Ok(session.fetch(FORGET, vec![before.into()], |_| Ok(())).await?.len() as u64)
        }))
    }
}

async fn claim(
    mut session: Session<'_>,
    names: &BTreeSet<Uuid>,
    now: Timestamp,
) -> Result<HashMap<Uuid, Timestamp>, Error> {
    let mut first = HashMap::with_capacity(names.len());
    let names: Vec<Uuid> = names.iter().copied().collect();
    for chunk in names.chunks(ROWS) {
        let mut rows = String::new();
        let mut values: Vec<Value<'_>> = vec![now.into()];
        for name in chunk {
            values.push((*name).into());
            let comma = if rows.is_empty() { "" } else { ", " };
            let _ = write!(rows, "{comma}(${}, $1)", values.len());
        }
        let sql = CLAIM.replace("{rows}", &rows);
        let told = session.fetch(sql, values, |row| {
            let mut columns = row.columns();
            Ok((columns.uuid()?, columns.time()?))
        });
        first.extend(told.await?);
    }
    Ok(first)
}
