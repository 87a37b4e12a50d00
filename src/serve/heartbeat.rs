//! Tells the other nodes that this one is there, and counts those that serve: limits that no node shares with
//! the others are divided by their number.

use super::boot::Booted;
use crate::clock;
use crate::ids;
use crate::peers::Peers;
use crate::settings::Settings;
use gateway_domain::node::{Node, SeenNode};
use gateway_domain::ports::{Live as _, NodeRegistry, StoreError};
use gateway_store::Database;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// A third of the time after which a silent node counts as gone.
const BEAT: Duration = Duration::from_secs(3);
const FAREWELL: Duration = Duration::from_secs(2);

/// This process in the roster, until it says goodbye.
pub(crate) struct Heartbeat {
    runtime: Handle,
    database: Database,
    id: uuid::Uuid,
    /// Whether it said goodbye; held while a beat is on its way.
    gone: Arc<Mutex<bool>>,
}

pub(crate) fn start(runtime: &Handle, booted: &Booted, settings: &Settings, peers: Peers) -> Heartbeat {
    let started_at = clock::now();
    let id = ids::next(started_at);
    let (database, live) = (booted.database.clone(), booted.live.clone());
    let role = settings.role.name().to_owned();
    let deployment = settings.deployment.clone().unwrap_or_default();
    let node = Node { id, role, deployment, version: env!("CARGO_PKG_VERSION").to_owned(), revision: 0, started_at };
    let gone = Arc::new(Mutex::new(false));
    let presence = Heartbeat { runtime: runtime.clone(), database: database.clone(), id, gone: gone.clone() };
    runtime.spawn(async move {
        loop {
            let is_gone = gone.lock().await;
            if *is_gone {
                return;
            }
            let node = Node { revision: live.snapshot().revision, ..node.clone() };
            match look(&database, &node).await {
                Ok(nodes) => {
                    let serving: Vec<_> = nodes.iter().filter(|s| s.serves()).map(|s| s.node.id).collect();
                    peers.set(serving.len(), serving.iter().filter(|other| **other < id).count());
                }
                // The watcher tells of a database that is away; who was there before is the best guess.
                Err(error) => tracing::debug!(%error, "the roster of nodes cannot be reached"),
            }
            drop(is_gone);
            tokio::time::sleep(BEAT).await;
        }
    });
    presence
}

async fn look(database: &Database, node: &Node) -> Result<Vec<SeenNode>, StoreError> {
    database.beat(node).await?;
    database.nodes().await
}

impl Heartbeat {
    /// A node that is gone for good need not be waited for. From a thread outside the runtime. A beat on its way is
    /// heard out: behind the farewell it would put the node back.
    pub(crate) fn leave(&self) {
        let farewell = async {
            *self.gone.lock().await = true;
            self.database.leave(self.id).await
        };
        let leaving = async { tokio::time::timeout(FAREWELL, farewell).await };
        if !matches!(self.runtime.block_on(leaving), Ok(Ok(()))) {
            tracing::debug!("could not leave the roster of nodes");
        }
    }
}
