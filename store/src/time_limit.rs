//! One piece of work on one connection, within its time, and the clock that all nodes of a database share. Knows
//! nothing of what is done.

use crate::database::{Database, Side};
use crate::session::{Session, failure};
use gateway_domain::ports::StoreError;
use sqlx::Error;
use tokio::time::timeout;

const POSTGRES_NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
const SQLITE_NOW: &str = "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS BIGINT) * 1000";

impl Database {
    pub(crate) async fn on<T: Send>(
        &self,
        side: Side,
        work: impl AsyncFnOnce(Session<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        // Whoever reads answers somebody; whoever writes here has its own pace.
        let mut lease = match side {
            Side::Read => self.lease_soon(side).await?,
            Side::Write => self.lease(side).await?,
        };
        let work = async { work(lease.session()).await.map_err(|e| failure(&e)) };
        let outcome = timeout(self.call_timeout(), work).await;
        lease.finish(outcome)
    }
}

/// Microseconds by the database's own clock.
pub(crate) async fn now(session: &mut Session<'_>) -> Result<i64, Error> {
    let sql = if matches!(session, Session::Postgres(_)) { POSTGRES_NOW } else { SQLITE_NOW };
    session.fetch_int(sql, vec![]).await
}
