//! Config and plan of a request, with the guardrails that the config names. Calls nobody.

use super::Gateway;
use crate::guardrails::ConfigGuards;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::{hooks, objects, routing, target};
use gateway_domain::Fault;
use std::sync::Arc;

impl Gateway {
    /// Config and plan.
    pub(crate) async fn prepare(&self, request: &mut Request) -> Result<Routing, Fault> {
        objects::unbind(&*self.calls.ids, request).await?;
        let chosen = routing::choose(&self.inline, &request.caller.tenant, &request.ask.headers).await?;
        let objects = objects::route(&chosen.config, chosen.inline, request)?;
        let mut routing = routing::plan((&self.breakers, &self.sticks), (chosen, objects), request).await?;
        if !routing.plan.config().hooks.is_empty() {
            routing.guards = Some(Box::pin(self.guards(&routing, request)).await?);
        }
        request.ask.untouched_model = request.is_untouched().then(|| target::untouched_model(&routing, request));
        Ok(routing)
    }

    /// The guardrails that the config names. What is wrong with one is told before any target has its turn.
    async fn guards(&self, routing: &Routing, request: &Request) -> Result<Arc<ConfigGuards>, Fault> {
        let (config, tenant) = (routing.plan.config(), &request.caller.tenant);
        let guards = self.calls.guardrails.of_config(config, routing.inline, &tenant.org).await?;
        let is_known = |name: &str| tenant.world.snapshot.guardrail(&tenant.workspace, name).is_some();
        let unknown = guards.saved().find(|name| !is_known(name)).map(hooks::unknown);
        unknown.map_or(Ok(guards), Err)
    }
}
