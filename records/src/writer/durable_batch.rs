//! Records whose sender waits until they lie in the journal. Those that clients made of calls of their own are not
//! counted as the gateway's work; those of what a provider did for it are.

use gateway_domain::ports::StoreError;
use gateway_domain::record::LogRecord;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Batches that wait; a client that finds no room is told to come again.
const WAITING: usize = 16;

#[derive(Debug)]
pub(super) struct AwaitedBatch {
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

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct AwaitedRecords(Sender<AwaitedBatch>);

impl AwaitedRecords {
    pub(super) fn new() -> (Self, Receiver<AwaitedBatch>) {
        let (queue, waiting) = channel(WAITING);
        (Self(queue), waiting)
    }

    /// Keeps records of what was done for the gateway: waits for room, and until the writer has written them down
    /// or has dropped and counted them.
    pub async fn keep(&self, records: Vec<LogRecord>) {
        let (done, kept) = oneshot::channel();
        if self.0.send(AwaitedBatch { records, whose: WhoseRecords::Gateway, done }).await.is_ok() {
            // An error: the process ends.
            let _ = kept.await;
        }
    }

    /// Takes records of clients: all of them are in the journal when this returns, or the sender is to come again.
    pub async fn take(&self, records: Vec<LogRecord>) -> Result<(), StoreError> {
        let (done, kept) = oneshot::channel();
        let away = |why: &str| StoreError::Unavailable(why.to_owned());
        let batch = AwaitedBatch { records, whose: WhoseRecords::Clients, done };
        self.0.try_send(batch).map_err(|_| away("too many records wait to be written"))?;
        match kept.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(away("the journal takes no records")),
            Err(_) => Err(away("the process ends")),
        }
    }
}
