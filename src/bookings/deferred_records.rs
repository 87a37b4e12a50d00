//! Records of what was counted afterwards: put into the journal before it is noted that they were, and found again by
//! their ids where nobody can say. Knows no batch and no price.

use super::{LineStamp, UnsureLines, now_secs};
use crate::writer::AwaitedRecords;
use gateway_domain::Timestamp;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{RecordQuery, StoreError};
use gateway_domain::record::LogRecord;
use gateway_store::journal::Gauge;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long another node that was about to count, and knows more, may come back before it is held to be gone.
const GONE_SECS: i64 = 3_600;
/// Records may be let go of after a day: what is not there any more says nothing then.
const FOUND_SECS: i64 = 20 * 3_600;
/// How long is waited for the store to get what lies in the journal.
const SHIPPED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Where records are kept, and found.
pub(crate) struct BookedRecords {
    pub(crate) queue: AwaitedRecords,
    pub(crate) store: Arc<dyn RecordQuery>,
    pub(crate) journal: Gauge,
    /// The id of this node, which is kept in its data folder.
    pub(crate) node: String,
    /// No record is kept, so that none is found.
    pub(crate) are_off: bool,
}

/// What can be said of lines that somebody was about to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Those that have a record were counted, the others were not.
    ByRecord,
    /// Not yet: whoever was about to count them may come back, or records are on their way.
    Later,
    /// Never again: they are held to be counted, since nothing may be paid for twice.
    Never,
}

impl BookedRecords {
    /// They are in the journal when this returns, unless it takes none: then they are lost and counted as such, as all
    /// are.
    pub(crate) async fn keep(&self, records: Vec<LogRecord>) {
        if !self.are_off && !records.is_empty() {
            self.queue.keep(records).await;
        }
    }

    pub(crate) async fn knowledge(&self, unsure: &UnsureLines) -> Knowledge {
        let ago_secs = now_secs().saturating_sub(Timestamp(unsure.at).secs());
        let known = expected(unsure.node == self.node, ago_secs, self.are_off);
        if known == Knowledge::ByRecord && !self.are_shipped().await { Knowledge::Later } else { known }
    }

    pub(crate) async fn has(&self, stamp: LineStamp, workspace: WorkspaceId) -> Result<bool, StoreError> {
        self.has_record(stamp.id, workspace).await
    }

    pub(crate) async fn has_record(&self, id: Uuid, workspace: WorkspaceId) -> Result<bool, StoreError> {
        Ok(self.store.get(id, Some(workspace)).await?.is_some())
    }

    /// Waits a little until the store has all that this node wrote down.
    async fn are_shipped(&self) -> bool {
        let end = self.journal.end();
        let shipped = async {
            loop {
                match self.journal.has_shipped(end) {
                    Ok(true) => return true,
                    Ok(false) => tokio::time::sleep(LOOK_AGAIN).await,
                    Err(e) => {
                        tracing::warn!(error = %e, "the journal's folder cannot be read");
                        return false;
                    }
                }
            }
        };
        tokio::time::timeout(SHIPPED_WITHIN, shipped).await.unwrap_or(false)
    }
}

const fn expected(is_own: bool, ago_secs: i64, are_off: bool) -> Knowledge {
    if are_off || ago_secs > FOUND_SECS {
        Knowledge::Never
    } else if is_own || ago_secs > GONE_SECS {
        Knowledge::ByRecord
    } else {
        Knowledge::Later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_is_waited_for_and_old_records_say_nothing() {
        assert_eq!(expected(true, 0, false), Knowledge::ByRecord);
        assert_eq!(expected(false, GONE_SECS, false), Knowledge::Later);
        assert_eq!(expected(false, GONE_SECS + 1, false), Knowledge::ByRecord);
        assert_eq!([true, false].map(|own| expected(own, FOUND_SECS + 1, false)), [Knowledge::Never; 2]);
        assert_eq!(expected(true, 0, true), Knowledge::Never);
    }
}
