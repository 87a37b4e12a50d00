//! How the limits of a request stand, for whoever asks what would become of it: the very limits that a call asks, asked
//! for nothing.

use super::CallParts;
use super::admission::AdmissionGate;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target::Aim;
use gateway_domain::counters::{LimitDecision, Measured};
use gateway_domain::resource::budget::{Amount, Spend};
use gateway_policies::Hold;
use serde_json::{Value, json};

/// How the limits of the caller stand, or of a target (`aim`). `left` is null where no counter can tell it now.
pub(crate) async fn limits(parts: &CallParts, request: &Request, routing: &Routing, aim: Option<&Aim>) -> Vec<Value> {
    let now = request.now();
    let gate = AdmissionGate { parts, request, routing };
    let mut wants = match aim {
        None => gate.of_caller(),
        Some(aim) => gate.of_target(aim, &Hold::default()),
    };
    wants.look();
    let index = request.caller.tenant.world.limits(request.caller.tenant.workspace.id);
    let count = wants.asks().len();
    let mut told = Vec::with_capacity(count);
    for at in 0..count {
        let whose = wants.whose(index.map(|index| &**index), at).map(|name| name.to_string());
        let ask = &mut wants.asks()[at..=at];
        let verdict = match parts.counters.reserve(ask, now, request.caller.waited.so_far()) {
            LimitDecision::Now(verdict) => verdict,
            LimitDecision::Later(verdict) => request.caller.waited.during(verdict).await,
        };
        let ask = &wants.asks()[at];
        let left = match verdict {
            Ok(()) => Some(ask.left),
            Err(refusal) if refusal.cause == gateway_domain::counters::Cause::Limit => {
                Some(ask.limit.saturating_sub(refusal.taken))
            }
            Err(_) => None,
        };
        let shown = |units: u64| match ask.measured {
            Measured::Cost => json!(Amount::shown(units, Spend::Cost)),
            Measured::Requests | Measured::Tokens => json!(units),
        };
        let resets = (ask.ends.0 != i64::MAX).then(|| ask.ends.to_string());
        told.push(json!({
            "of": whose, "counts": ask.measured.name(), "limit": shown(ask.limit), "left": left.map(shown), "resets_at": resets,
        }));
    }
    told
}
