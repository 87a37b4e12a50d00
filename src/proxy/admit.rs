//! Limits, at their two stages: the caller's before a target is chosen, a target's when it is its turn.

use super::Gateway;
use super::exchange::Routing;
use super::request::Request;
use super::target::Aim;
use gateway_domain::Fault;
use gateway_policies::{Hold, Stage, Subject};

fn subject<'a>(request: &'a Request, routing: &'a Routing, aim: Option<&'a Aim>) -> Subject<'a> {
    let set = routing.plan.attempts.iter().any(|a| a.leaf.model.is_some());
    Subject {
        api_key: Some(request.tenant.key.id),
        workspace: request.tenant.workspace.id,
        metadata: &request.metadata,
        virtual_key: aim.map(|a| &*a.virtual_key).filter(|v| !v.is_empty()),
        provider: aim.map(|a| a.adapter.info().slug),
        config: Some(&*routing.config).filter(|c| !c.is_empty()),
        prompt: None,
        // A model that the config sets counts from the target on; until then nobody knows which it will be.
        model: aim
            .and_then(|a| a.model.as_deref())
            .or(request.content.model.as_deref())
            .filter(|_| aim.is_some() || !set),
        endpoint_type: request.route.operation.name(),
        unread: request.content.unread || (aim.is_none() && set),
    }
}

fn admit(
    gateway: &Gateway,
    request: &Request,
    routing: &Routing,
    aim: Option<&Aim>,
    stage: Stage,
) -> Result<Hold, Fault> {
    let Some(index) = request.tenant.world.limits(request.tenant.workspace.id) else { return Ok(Hold::default()) };
    let subject = subject(request, routing, aim);
    gateway.engine.admit(index, stage, &subject, request.now()).map_err(|denied| denied.fault())
}

/// Every policy that does not depend on the target, all or nothing.
pub(crate) fn caller(gateway: &Gateway, request: &Request, routing: &Routing) -> Result<Hold, Fault> {
    admit(gateway, request, routing, None, Stage::Caller)
}

/// The policies that look at the target; a denial is this target's 429 and follows the fallback rules.
pub(crate) fn target(gateway: &Gateway, request: &Request, routing: &Routing, aim: &Aim) -> Result<Hold, Fault> {
    admit(gateway, request, routing, Some(aim), Stage::Target)
}
