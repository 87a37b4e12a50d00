//! W3C Trace Context on the way in: the client's trace is continued, or one begins here when traces are exported.
//! Without a collector nothing is added: what came is handed on as it is.

use super::headers::{GatewayHeaders, TraceContext};
use crate::ids;
use gateway_domain::Timestamp;
use gateway_domain::record::Trace;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// The id that the call goes by: the client's own, that of its trace, or a new one.
pub(crate) fn id(headers: &GatewayHeaders, at: Timestamp) -> Arc<str> {
    let parent = || headers.traced.as_ref()?.parent;
    match (&headers.trace_id, parent()) {
        (Some(own), _) => own.clone(),
        (None, Some(parent)) => format!("{:032x}", parent.trace).into(),
        (None, None) => (*ids::next(at).hyphenated().encode_lower(&mut Uuid::encode_buffer())).into(),
    }
}

/// `exported`: the share of traces that begin here to be exported, when any are.
pub(crate) fn of(headers: &GatewayHeaders, id: &str, exported: Option<f64>) -> Option<Arc<Trace>> {
    if headers.traced.is_none() && exported.is_none() {
        return None;
    }
    let none = TraceContext::default();
    let told = headers.traced.as_deref().unwrap_or(&none);
    Some(Arc::new(Trace {
        id: told.parent.map_or_else(|| number(id), |p| p.trace),
        span: if exported.is_some() { ids::span() } else { 0 },
        parent: told.parent.map_or(0, |p| p.span),
        sampled: told.parent.map_or_else(|| exported.is_some_and(|share| ids::dice() < share), |p| p.sampled),
        state: told.state.clone().filter(|_| told.parent.is_some()),
        span_id: told.span_id.clone(),
        span_name: told.span_name.clone(),
        parent_span_id: told.parent_span_id.clone(),
    }))
}

/// The trace's number: ids that the gateway makes, and others of their form, are found under it by eye.
fn number(id: &str) -> u128 {
    if let Ok(uuid) = Uuid::try_parse(id) {
        return uuid.as_u128().max(1);
    }
    let digest = Sha256::digest(id.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(bytes).max(1)
}
