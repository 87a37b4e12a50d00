//! Records of calls that went another way than through the gateway: what marks them, and by what one that is sent twice
//! is known.

use super::LogRecord;
use crate::id::WorkspaceId;
use crate::time::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// What stands in place of an operation in a record that a client sent.
pub const OWN_CALL: &str = "log";

impl LogRecord {
    /// A client told of it: the gateway did nothing for it, and counts nothing of it in its metrics.
    pub fn is_own_call(&self) -> bool {
        self.operation.name() == OWN_CALL
    }
}

/// A span of a trace is one call, however often it is told of.
pub fn span_name_of(workspace: WorkspaceId, trace: &str, span: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in [workspace.0.as_bytes().as_slice(), &trace.len().to_be_bytes(), trace.as_bytes(), span.as_bytes()] {
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The id of a record of this time: the same for the same name and time, and sorted by the time.
pub fn id_at(name: Uuid, at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.micros().div_euclid(1_000)).unwrap_or_default();
    let mut random = [0; 10];
    random.copy_from_slice(&name.as_bytes()[..10]);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_one_name_and_one_id_at_a_time() {
        let (here, there) = (WorkspaceId(Uuid::from_u128(1)), WorkspaceId(Uuid::from_u128(2)));
        let name = span_name_of(here, "ab", "c");
        assert_eq!(name, span_name_of(here, "ab", "c"));
        assert!(name != span_name_of(here, "a", "bc") && name != span_name_of(there, "ab", "c"));
        let at = Timestamp::from_secs(1_769_860_800);
        assert_eq!(id_at(name, at), id_at(name, at));
        assert_eq!(id_at(name, at).get_timestamp().map(|t| t.to_unix().0), Some(1_769_860_800));
        assert!(id_at(name, at) != id_at(span_name_of(there, "ab", "c"), at));
    }
}
