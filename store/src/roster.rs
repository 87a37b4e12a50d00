//! Who is there: one row for each process, touched every few seconds. Bumps no revision and wakes nobody. Times
//! are the database's own, since clocks of nodes differ.

use crate::database::{Database, Side};
use crate::session::{Row, Session, failure};
use gateway_domain::node::{Node, Sighting};
use gateway_domain::ports::{Fut, Roster, StoreError};
use sqlx::Error;
use tokio::time::timeout;
use uuid::Uuid;

/// A node that was silent for so long is forgotten.
const FORGOTTEN_MICROS: i64 = 600_000_000;

const POSTGRES_NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
const SQLITE_NOW: &str = "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS BIGINT) * 1000";

const BEAT: &str = "INSERT INTO node (id, role, version, revision, started_at, seen_at) \
    VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, seen_at = excluded.seen_at";
const FORGET: &str = "DELETE FROM node WHERE seen_at < $1";
const LEAVE: &str = "DELETE FROM node WHERE id = $1";
const ALL: &str = "SELECT n.id, n.role, n.version, n.revision, n.started_at, n.seen_at, m.revision \
    FROM node n, meta m WHERE m.id = 1 ORDER BY n.started_at, n.id";

impl Roster for Database {
    fn beat<'a>(&'a self, node: &'a Node) -> Fut<'a, Result<(), StoreError>> {
        let beat = self.on(Side::Write, async move |mut session| {
            let now = now(&mut session).await?;
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            let told = vec![
                node.id.into(),
                node.role.as_str().into(),
                node.version.as_str().into(),
                node.revision.into(),
                node.started_at.into(),
                now.into(),
            ];
            inside.run(BEAT, told).await?;
            inside.run(FORGET, vec![(now - FORGOTTEN_MICROS).into()]).await?;
            transaction.commit().await
        });
        Box::pin(async move {
            let done = beat.await;
            self.reach().wrote(done.as_ref().err());
            done
        })
    }

    fn leave(&self, id: Uuid) -> Fut<'_, Result<(), StoreError>> {
        Box::pin(self.on(Side::Write, async move |mut session| session.run(LEAVE, vec![id.into()]).await))
    }

    fn nodes(&self) -> Fut<'_, Result<Vec<Sighting>, StoreError>> {
        Box::pin(self.on(Side::Read, async move |mut session| {
            let now = now(&mut session).await?;
            session.fetch(ALL, vec![], |row| sighting(row, now)).await
        }))
    }
}

impl Database {
    /// A piece of work on one connection, within its time.
    async fn on<T: Send>(
        &self,
        side: Side,
        work: impl AsyncFnOnce(Session<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        // A node that looks at others answers somebody; one that beats has its own pace.
        let mut lease = match side {
            Side::Read => self.lease_soon(side).await?,
            Side::Write => self.lease(side).await?,
        };
        let work = async { work(lease.session()).await.map_err(|e| failure(&e)) };
        let outcome = timeout(self.call_timeout(), work).await;
        lease.finish(outcome)
    }
}

async fn now(session: &mut Session<'_>) -> Result<i64, Error> {
    let sql = if matches!(session, Session::Postgres(_)) { POSTGRES_NOW } else { SQLITE_NOW };
    session.fetch_int(sql, vec![]).await
}

fn sighting(row: &Row, now: i64) -> Result<Sighting, Error> {
    let mut columns = row.columns();
    let node = Node {
        id: columns.uuid()?,
        role: columns.text()?.to_owned(),
        version: columns.text()?.to_owned(),
        revision: columns.int()?,
        started_at: columns.time()?,
    };
    let seen_at = columns.time()?;
    let lag = columns.int()?.saturating_sub(node.revision).max(0);
    Ok(Sighting { node, seen_at, silent_micros: now.saturating_sub(seen_at.micros()).max(0), lag })
}
