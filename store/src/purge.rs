//! Tombstones, their histories and what stands beside them, forgotten when every node has long heard of them. Bumps no
//! revision: what is taken out was of no effect any more.

use crate::database::{Database, Side};
use crate::session::{Session, failure};
use gateway_domain::Timestamp;
use gateway_domain::ports::StoreError;
use sqlx::Error;
use tokio::time::timeout;

const VERSIONS: &str = "DELETE FROM resource_version WHERE EXISTS (SELECT 1 FROM resource r \
    WHERE r.kind = resource_version.kind AND r.id = resource_version.id AND r.deleted_at < $1)";
const USES: &str = "DELETE FROM key_use WHERE EXISTS (SELECT 1 FROM resource r \
    WHERE r.kind = 'api_key' AND r.id = key_use.id AND r.deleted_at < $1)";
const ROWS: &str = "DELETE FROM resource WHERE deleted_at < $1";

impl Database {
    /// Forgets what was deleted before `before`. A node that was cut off since then would not hear of those
    /// deletes, so leave a margin that no node outlives without a restart, which reads everything anew.
    pub async fn purge(&self, before: Timestamp) -> Result<(), StoreError> {
        let mut lease = self.lease(Side::Write).await?;
        let work = async { purge(lease.session(), before).await.map_err(|e| failure(&e)) };
        let outcome = timeout(self.call_timeout(), work).await;
        lease.finish(outcome)
    }
}

async fn purge(mut session: Session<'_>, before: Timestamp) -> Result<(), Error> {
    let mut transaction = session.begin().await?;
    let mut inside = transaction.session();
    inside.run(VERSIONS, vec![before.into()]).await?;
    inside.run(USES, vec![before.into()]).await?;
    inside.run(ROWS, vec![before.into()]).await?;
    transaction.commit().await
}
