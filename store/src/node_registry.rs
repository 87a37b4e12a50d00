//! Who is there: one row for each process, touched every few seconds. Bumps no revision and wakes nobody. Times
//! are the database's own, since clocks of nodes differ.

use crate::database::{Database, Side};
use crate::session::DatabaseRow;
use crate::time_limit::now;
use gateway_domain::node::{Node, SeenNode};
use gateway_domain::ports::{Fut, NodeRegistry, StoreError};
use sqlx::Error;
use uuid::Uuid;

/// A node that was silent for so long is forgotten.
const FORGOTTEN_MICROS: i64 = 600_000_000;

const BEAT: &str = "INSERT INTO node (id, role, version, revision, started_at, seen_at, deployment) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) \
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, seen_at = excluded.seen_at";
const FORGET: &str = "DELETE FROM node WHERE seen_at < $1";
const LEAVE: &str = "DELETE FROM node WHERE id = $1";
const ALL: &str = "SELECT n.id, n.role, n.version, n.deployment, n.revision, n.started_at, n.seen_at, m.revision \
    FROM node n, meta m WHERE m.id = 1 ORDER BY n.started_at, n.id";

impl NodeRegistry for Database {
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
                node.deployment.as_str().into(),
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

    fn nodes(&self) -> Fut<'_, Result<Vec<SeenNode>, StoreError>> {
        Box::pin(self.on(Side::Read, async move |mut session| {
            let now = now(&mut session).await?;
            session.fetch(ALL, vec![], |row| sighting(row, now)).await
        }))
    }
}

fn sighting(row: &DatabaseRow, now: i64) -> Result<SeenNode, Error> {
    let mut columns = row.columns();
    let node = Node {
        id: columns.uuid()?,
        role: columns.text()?.to_owned(),
        version: columns.text()?.to_owned(),
        deployment: columns.text()?.to_owned(),
        revision: columns.int()?,
        started_at: columns.time()?,
    };
    let seen_at = columns.time()?;
    let lag = columns.int()?.saturating_sub(node.revision).max(0);
    Ok(SeenNode { node, seen_at, silent_micros: now.saturating_sub(seen_at.micros()).max(0), lag })
}
