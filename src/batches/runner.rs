//! Looks for batches that are to be run, and runs some of them at once, until the process takes leave.

use super::Batches;
use super::loopback::LineRoad;
use super::run::BatchRun;
use crate::in_flight::InFlight;
use crate::proxy::BufferBudget;
use crate::runtime_config::ConfigHandle;
use crate::writer::Records;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Batches of one node that are run at once.
const MOST_RUNNING: usize = 4;
/// The pause between two looks for work, if nobody says that there is something to do.
const LOOK: Duration = Duration::from_secs(2);

/// What a run needs of the process.
pub(crate) struct Runner {
    pub(crate) batches: Arc<Batches>,
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) budget: Arc<BufferBudget>,
    pub(crate) records: Records,
    /// The id of this node, which is kept in its data folder.
    pub(crate) node: Arc<str>,
    /// Runs that are under way.
    pub(crate) runs: InFlight,
    pub(crate) draining: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Runner {
    /// Lines wait while others need the room.
    pub(super) fn is_pressed(&self) -> bool {
        self.budget.is_half_full()
    }

    pub(crate) fn start(self, road: Arc<LineRoad>) {
        let (runner, places) = (Arc::new(self), Arc::new(Semaphore::new(MOST_RUNNING)));
        let runtime = runner.batches.runtime.clone();
        runtime.spawn(async move {
            while !(runner.draining)() {
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let taken =
                    runner.batches.jobs.take(&[runner.batches.settings.job], runner.batches.settings.lease).await;
                match taken {
                    Ok(Some(leased)) => {
                        // The process does not end before the run has noted what came of its lines.
                        let boarded = runner.runs.board();
                        let run = BatchRun::new(runner.clone(), road.clone(), leased);
                        runner.batches.runtime.spawn(async move {
                            Box::pin(run.go()).await;
                            drop((boarded, place));
                        });
                        continue;
                    }
                    Ok(None) => {}
                    // The watcher tells of a database that is away.
                    Err(e) => tracing::debug!(error = %e, "batches cannot be looked for"),
                }
                drop(place);
                let made = runner.batches.made.notified();
                let _ = tokio::time::timeout(LOOK, made).await;
            }
        });
    }
}
