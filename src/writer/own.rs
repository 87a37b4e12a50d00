//! Records that clients made of calls of their own, on their way to the writer's thread: it prices them and puts them into
//! the journal, and only then is the client told. Nothing of them is counted as the gateway's own work.

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
    /// Told whether all of them lie in the journal.
    pub(super) done: oneshot::Sender<bool>,
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
}

impl RecordIntake for OwnRecords {
    fn take(&self, records: Vec<LogRecord>) -> Fut<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (done, kept) = oneshot::channel();
            let away = |why: &str| StoreError::Unavailable(why.to_owned());
            self.queue.try_send(OwnBatch { records, done }).map_err(|_| away("too many records wait to be written"))?;
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
