//! Records that clients made of calls of their own, for the Admin API: they go to the writer's thread, and only when
//! they lie in the journal is the client told. Of their messages as much is kept as of those of calls.

use crate::ids;
use crate::units::LogBodies;
use bytes::Bytes;
use gateway_domain::Dialect;
use gateway_domain::ports::{Fut, RecordIntake, StoreError, ToldUsage};
use gateway_domain::record::{LogRecord, mask};
use gateway_records::writer::AwaitedRecords;

#[derive(Clone, Debug)]
pub(crate) struct OwnRecords {
    pub(crate) queue: AwaitedRecords,
    pub(crate) rules: mask::MaskRules,
    pub(crate) log_bodies: LogBodies,
}

impl RecordIntake for OwnRecords {
    fn take(&self, records: Vec<LogRecord>) -> Fut<'_, Result<(), StoreError>> {
        Box::pin(self.queue.take(records))
    }

    fn overhear(&self, dialect: Dialect, answer: &Bytes) -> ToldUsage {
        let (usage, model) = gateway_providers::overheard(dialect, answer);
        ToldUsage { usage, model }
    }

    fn mask_rules(&self, status: u16) -> Option<&mask::MaskRules> {
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
