//! Decides which requests have their bodies kept in records. It is decided once, at intake: when nothing may be kept,
//! nothing is done for it. Knows nothing of how they are kept.

use super::headers::GatewayHeaders;
use crate::ids;
use crate::settings::LogBodies;
use gateway_domain::record::LogRecord;
use gateway_domain::snapshot::Org;

/// What may be kept of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CapturePolicy {
    #[default]
    Nothing,
    /// The bodies of calls that fail.
    Failures,
    All,
}

impl CapturePolicy {
    /// The operator's setting, then the organisation's, which the debug header may change unless it is enforced
    /// (see `docs/operations.md`).
    pub(crate) fn decide(setting: LogBodies, org: &Org, headers: &GatewayHeaders) -> Self {
        let asked = headers.debug.filter(|_| !org.enforce_debug_log);
        match setting {
            LogBodies::None => Self::Nothing,
            _ if !asked.unwrap_or(org.debug_log) => Self::Nothing,
            LogBodies::All => Self::All,
            LogBodies::Share(share) if ids::dice() < share => Self::All,
            LogBodies::Share(_) | LogBodies::Errors => Self::Failures,
        }
    }

    /// A client that leaves is no failure of the call.
    pub(crate) fn wants(self, record: &LogRecord) -> bool {
        match self {
            Self::Nothing => false,
            Self::Failures => record.status >= 400 && record.status != 499 || is_failure(record.fault),
            Self::All => true,
        }
    }
}

fn is_failure(fault: Option<&str>) -> bool {
    fault.is_some_and(|f| f != "client_gone")
}
