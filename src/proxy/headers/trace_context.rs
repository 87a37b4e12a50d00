//! What clients say of the trace that a call belongs to (W3C Trace Context, and headers of the gateway's own). What
//! becomes of it is not known here.

use gateway_domain::record::Parent;
use std::sync::Arc;

/// What clients say of the trace that a call belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceContext {
    pub(crate) parent: Option<Parent>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) span_id: Option<Arc<str>>,
    pub(crate) span_name: Option<Arc<str>>,
    pub(crate) parent_span_id: Option<Arc<str>>,
}
