//! Looks at batches that clients made at providers and that nobody may look at again, when they are due: the request
//! that made one is made anew by what stands in its row, and what a look finds is counted as a client's look would have
//! it.

use super::direct;
use super::exchange::CallParts;
use super::routing::InlineConfigs;
use super::sticky_assignments::Assignments;
use super::stored_request::{AskConfigs, AskWorld, AskedAnew, Unmade};
use super::watch_row::WatchRow;
use crate::batches::{ObjectOwner, SharedBatches};
use crate::bookings::{BatchLook, BookingId, HeldWatch, WatchEnd};
use crate::issuers::Issuers;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What one node looks at at once.
const AT_ONCE: usize = 8;
/// What is asked, as far as a request says it: which batch it is stands beside it.
const LOOK: &str = "/v1/batches/watched";

pub(crate) struct BatchWatcher {
    pub(crate) parts: Arc<CallParts>,
    pub(crate) inline: Arc<InlineConfigs>,
    pub(crate) sticks: Arc<Assignments>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) batches: SharedBatches,
}

impl BatchWatcher {
    /// Looks at batches that are due until the process takes leave.
    pub(crate) fn start(self, is_leaving: Box<dyn Fn() -> bool + Send + Sync>) {
        if !self.parts.watches.are_on() {
            return;
        }
        let (all, seats) = (Arc::new(self), Arc::new(Semaphore::new(AT_ONCE)));
        let runtime = all.parts.delivery.background.clone();
        runtime.spawn(async move {
            while !is_leaving() {
                let Ok(seat) = seats.clone().acquire_owned().await else { return };
                match all.parts.watches.take().await {
                    Ok(Some(watch)) => {
                        let all = all.clone();
                        all.parts.delivery.background.clone().spawn(async move {
                            Box::pin(all.run(watch)).await;
                            drop(seat);
                        });
                        continue;
                    }
                    Ok(None) => {}
                    // The watcher of the configuration tells of a database that is away.
                    Err(error) => tracing::debug!(%error, "batches to look at cannot be looked for"),
                }
                drop(seat);
                tokio::time::sleep(all.parts.watches.round()).await;
            }
        });
    }

    async fn run(&self, watch: HeldWatch) {
        let watches = &self.parts.watches;
        match watches.holding(&watch, self.look(&watch)).await {
            Some(Ok(found)) => watches.looked(watch, &found).await,
            Some(Err(end)) => watches.end(watch, end).await,
            None => tracing::debug!(batch = %watch.job.id, "another node looks at a provider's batch"),
        }
    }

    /// `Err`: it need not be looked at, now or later.
    async fn look(&self, watch: &HeldWatch) -> Result<BatchLook, WatchEnd> {
        let (parts, org) = (&self.parts, watch.job.org);
        let row = match parts.watches.open(watch).and_then(|text| WatchRow::read(&text)) {
            Ok(row) => row,
            Err(why) => return Ok(BatchLook::Failed(why)),
        };
        // Whoever looked before may have counted it: nobody is asked then.
        let owner = ObjectOwner { org, workspace: row.workspace() };
        if let Ok(true) = parts.bookings.is_counted(BookingId(watch.job.id), owner).await {
            return Ok(BatchLook::Counted);
        }
        let (settings, world, tokens) = (&*parts.delivery.settings, &parts.live.live.current(), &*self.issuers);
        let asked = AskedAnew { org, path: LOOK, query: None };
        let mut request = match row.ask.request(AskWorld { settings, world, tokens }, asked) {
            Ok(request) => request,
            Err(Unmade::Later(why)) => return Ok(BatchLook::Failed(why.to_owned())),
            Err(Unmade::Never(why)) => {
                tracing::warn!(batch = row.native, why, "a provider's batch can be charged to nobody");
                return Err(WatchEnd::Homeless);
            }
        };
        let (inline, pinned, sticks) = (&*self.inline, &self.batches.configs, &self.sticks);
        let configs = AskConfigs { inline, pinned, sticks };
        let routing = match row.ask.routing(&parts.guardrails, configs, &mut request).await {
            Ok(routing) => routing,
            Err(fault) => return Ok(BatchLook::Failed(fault.message().to_owned())),
        };
        Ok(direct::look(parts, (&request, &routing), &row.native).await)
    }
}
