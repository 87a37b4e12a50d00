//! How much the process keeps, as metrics: read when they are gathered and at no other time.

use crate::guardrails::Guardrails;
use crate::limits::{LimitFigures, Limits};
use crate::metrics::Metrics;
use crate::proxy::InlineConfigs;
use crate::upstream::{Dns, idle};
use std::sync::Arc;

pub(super) fn watch_guardrails(metrics: &Metrics, guardrails: &Arc<Guardrails>) -> Result<(), prometheus::Error> {
    let [kept, held, compiled, beside, shed] = std::array::from_fn(|_| guardrails.clone());
    metrics.watch("gateway_guardrails", "Compiled guardrails and refusals kept", move || kept.kept())?;
    metrics.watch("gateway_guardrail_bytes", "Bytes that those take, 128 MiB at most", move || held.kept_bytes())?;
    let help = "Guardrails compiled since the start";
    metrics.watch("gateway_guardrail_compilations", help, move || compiled.compilations())?;
    let help = "Requests whose asynchronous guardrails are under way, 1,000 at most";
    metrics.watch("gateway_guardrails_beside", help, move || beside.beside())?;
    let help = "Guardrails that were shed, as too many were under way or waited to be compiled";
    metrics.watch("gateway_shed_guardrails", help, move || shed.shed())
}

/// Sizes of what the proxy keeps, and how limits do.
pub(super) fn watch(
    metrics: &Metrics,
    dns: &Dns,
    inline: &Arc<InlineConfigs>,
    limits: &Arc<Limits>,
) -> Result<(), prometheus::Error> {
    metrics.register(Box::new(LimitFigures::new(limits.clone())?))?;
    let [kept, held, compiled, shed] = std::array::from_fn(|_| inline.clone());
    metrics.watch("gateway_inline_configs", "Compiled inline configs and refusals kept", move || kept.len())?;
    metrics.watch("gateway_inline_config_bytes", "Bytes that those take, 64 MiB at most", move || held.bytes())?;
    let help = "Inline configs compiled since the start";
    metrics.watch("gateway_inline_compilations", help, move || compiled.compilations())?;
    let help = "Requests refused since too many configs of their workspace waited to be compiled";
    metrics.watch("gateway_inline_shed", help, move || shed.shed())?;
    metrics.watch("gateway_names_resolved", "Names of providers whose addresses are known", dns.size())?;
    metrics.watch("gateway_idle_connections", "Idle connections to providers, of all threads", idle)
}
