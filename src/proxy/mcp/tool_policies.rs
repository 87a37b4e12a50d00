//! Policies of tool calls: each call of a tool meets every active one of the workspace, and no others.

use crate::proxy::exchange::CallParts;
use crate::proxy::request::{Request, Tenant};
use gateway_domain::counters::LimitDecision;
use gateway_domain::ports::Holder;
use gateway_domain::{Fault, FaultKind, NanoUsd, Operation, Timestamp};
use gateway_policies::{Estimate, Hold, LimitHolder, ReservationRequest, Stage, Subject};

/// Bytes of a text that make a token, where nobody counts them.
const BYTES_OF_TOKEN: usize = 4;

/// What is called.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct ToolCalled<'a> {
    pub(in crate::proxy) server: &'a str,
    pub(in crate::proxy) tool: &'a str,
    pub(in crate::proxy) operation: Operation,
    pub(in crate::proxy) arguments: usize,
    /// `None`: nobody said what it costs.
    pub(in crate::proxy) price: Option<NanoUsd>,
}

/// Tokens of so many bytes, rounded up.
pub(in crate::proxy) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_OF_TOKEN) as u64
}

/// Takes what the call needs of every limit, or nothing.
pub(in crate::proxy) async fn admit(
    calls: &CallParts,
    request: &Request,
    called: ToolCalled<'_>,
) -> Result<Hold, Fault> {
    let tenant = &request.caller.tenant;
    let index = tenant.world.limits(tenant.workspace.id);
    let price = called.price.and_then(|price| u64::try_from(price.0).ok()).filter(|price| *price > 0);
    if index.is_none() && price.is_none() {
        return Ok(Hold::default());
    }
    request.look();
    let (mut wants, now) = (ReservationRequest::default(), request.now());
    let subject = Subject {
        api_key: Some(tenant.key.id),
        workspace: tenant.workspace.id,
        metadata: &request.caller.metadata,
        virtual_key: None,
        provider: None,
        config: None,
        prompt: None,
        model: None,
        endpoint_type: called.operation.name(),
        mcp_server: Some(called.server),
        mcp_tool: Some(called.tool),
        unread: false,
    };
    if let Some(index) = index {
        wants.gather(index, Stage::Tool, &subject, now);
    }
    if price.is_some() {
        bind_money(&mut wants, tenant, now);
    }
    if wants.is_empty() {
        return Ok(Hold::default());
    }
    let estimate = Estimate { prompt: tokens(called.arguments), output: None };
    if wants.are_metered() {
        wants.measure(&estimate, Some(&|_, _| price));
    }
    let verdict = match calls.counters.reserve(wants.asks(), now, request.caller.waited.so_far()) {
        LimitDecision::Now(verdict) => verdict,
        LimitDecision::Later(verdict) => request.caller.waited.during(verdict).await,
    };
    match verdict {
        Ok(()) => Ok(wants.granted(Stage::Tool, &calls.counters, estimate)),
        Err(refusal) => {
            let denied = wants.denied(index.map(|index| &**index), refusal, now);
            Err(denied.map_or_else(|| Fault::new(FaultKind::Internal, "A limit refused unnamed"), |d| d.fault()))
        }
    }
}

/// Adds every budget in money that a tool with a price is charged to: those of the key, its token and the workspace.
fn bind_money(wants: &mut ReservationRequest, tenant: &Tenant, now: Timestamp) {
    if let Some(limits) = &tenant.key.limits {
        let whose = LimitHolder { holder: Holder::Key(tenant.key.id), kind: "API key", name: &tenant.key.name };
        wants.bind_money(whose, limits, now);
    }
    for claimed in tenant.key.token.iter().flat_map(|token| &token.limits) {
        let whose = LimitHolder { holder: Holder::Claim(claimed.id), kind: "token", name: &claimed.name };
        wants.bind_money(whose, &claimed.limits, now);
    }
    if let Some(limits) = &tenant.workspace.limits {
        let (holder, name) = (Holder::Workspace(tenant.workspace.id), &tenant.workspace.name);
        wants.bind_money(LimitHolder { holder, kind: "workspace", name }, limits, now);
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn tokens_are_rounded_up() {
        assert_eq!((tokens(0), tokens(1), tokens(4), tokens(5)), (0, 1, 1, 2));
    }
}
