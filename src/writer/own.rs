//! Records on their way to the writer's thread whose sender waits: it prices them and puts them into the journal, and only then
//! is the sender told. Those that clients made of calls of their own are not counted as the gateway's work; those of what a
//! provider did for it are.

use crate::ids;
use crate::units::LogBodies;
use bytes::Bytes;
use gateway_domain::Dialect;
use gateway_domain::ports::{Fut, RecordIntake, StoreError, ToldUsage};
use gateway_domain::record::{LogRecord, mask};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Requests that wait, each with its records; who finds no room is told to come again.
const WAITING: usize = 16;

pub(super) struct OwnBatch {
    pub(super) records: Vec<LogRecord>,
    pub(super) whose: WhoseRecords,
    /// Told whether all of them lie in the journal.
    pub(super) done: oneshot::Sender<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhoseRecords {
    Clients,
    Gateway,
}

#[derive(Clone, Debug)]
pub(crate) struct OwnRecords {
    queue: Sender<OwnBatch>,
    rules: mask::Rules,
    log_bodies: LogBodies,
}

impl OwnRecords {
    pub(super) fn new(rules: mask::Rules, log_bodies: LogBodies) -> (Self, Receiver<OwnBatch>) {
        let (queue, waiting) = channel(WAITING);
        (Self { queue, rules, log_bodies }, waiting)
    }

    /// Waits for room, and until the writer has written them down or dropped and counted them.
    pub(crate) async fn keep(&self, records: Vec<LogRecord>) {
        let (done, kept) = oneshot::channel();
        if self.queue.send(OwnBatch { records, whose: WhoseRecords::Gateway, done }).await.is_ok() {
            // An error: the process ends.
            let _ = kept.await;
        }
    }
}

impl RecordIntake for OwnRecords {
    fn take(&self, records: Vec<LogRecord>) -> Fut<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (done, kept) = oneshot::channel();
            let away = |why: &str| StoreError::Unavailable(why.to_owned());
            self.queue
                .try_send(OwnBatch { records, whose: WhoseRecords::Clients, done })
                .map_err(|_| away("too many records wait to be written"))?;
            match kept.await {
                Ok(true) => Ok(()),
                Ok(false) => Err(away("the journal takes no records")),
                Err(_) => Err(away("the process ends")),
            }
        })
    }

    fn overhear(&self, dialect: Dialect, answer: &Bytes) -> ToldUsage {
        let (usage, model) = gateway_providers::overheard(dialect, answer);
        ToldUsage { usage, model }
    }

    fn mask_rules(&self, status: u16) -> Option<&mask::Rules> {
        let failed = status >= 400;
        let kept = match self.log_bodies {
            LogBodies::None => false,
            LogBodies::All => true,
            LogBodies::Share(share) => failed || ids::dice() < share,
            LogBodies::Errors => failed,
        };
        kept.then_some(&self.rules)
    }
}
