//! Limits, at their two stages: the caller's before a target is chosen, a target's when it is its turn; and what
//! becomes of what they held.

use super::Gateway;
use super::estimate;
use super::request::{Content, Request};
use super::routing::Routing;
use super::shield::Seat;
use super::target::{Aim, Credential};
use gateway_domain::config::Leaf;
use gateway_domain::counters::{Answer, Charge, Standings};
use gateway_domain::ports::Holder;
use gateway_domain::price::{PriceCard, price};
use gateway_domain::{Fault, FaultKind, Timestamp, Usage};
use gateway_policies::{Estimate, Hold, Stage, Subject, Used, Wants};

fn subject<'a>(request: &'a Request, routing: &'a Routing, aim: Option<&'a Aim>) -> Subject<'a> {
    let set = routing.plan.config().sets_model && !request.is_untouched();
    let (model, unread) = match aim {
        Some(aim) => (aim.model.as_deref(), request.content.unread),
        // A model that the config sets counts from the target on; until then nobody knows which it will be.
        None if set => (None, true),
        None => (request.asked_model().map(|model| &**model), request.model_is_unread()),
    };
    Subject {
        api_key: Some(request.tenant.key.id),
        workspace: request.tenant.workspace.id,
        metadata: &request.metadata,
        virtual_key: aim.map(|a| &*a.virtual_key).filter(|v| !v.is_empty()),
        provider: aim.map(|a| a.adapter.info().slug),
        config: Some(&*routing.config).filter(|c| !c.is_empty()),
        prompt: None,
        model,
        endpoint_type: request.route.operation.name(),
        mcp_server: None,
        mcp_tool: None,
        unread,
    }
}

/// Every limit that does not depend on the target, all or nothing.
pub(crate) async fn caller(gateway: &Gateway, request: &Request, routing: &Routing) -> Result<Hold, Fault> {
    let (mut wants, now) = (Wants::default(), request.now());
    if let Some(index) = request.tenant.world.limits(request.tenant.workspace.id) {
        wants.gather(index, Stage::Caller, &subject(request, routing, None), now);
    }
    let tenant = &request.tenant;
    if let Some(limits) = &tenant.key.limits {
        let whose = (Holder::Key(tenant.key.id), "API key", &tenant.key.name);
        wants.bind(Stage::Caller, whose, limits, now);
    }
    for claimed in tenant.key.token.iter().flat_map(|token| &token.limits) {
        let whose = (Holder::Claim(claimed.id), "token", &claimed.name);
        wants.bind(Stage::Caller, whose, &claimed.limits, now);
    }
    if let Some(limits) = &tenant.workspace.limits {
        let whose = (Holder::Workspace(tenant.workspace.id), "workspace", &tenant.workspace.name);
        wants.bind(Stage::Caller, whose, limits, now);
    }
    let leaves = routing.plan.config().leaves().map(|leaf| &**leaf);
    take(gateway, request, Stage::Caller, (wants, now), (&request.content, leaves), None).await
}

/// The limits that look at the target, and every cost, at this target's price. A denial is this target's 429 or
/// 412 and follows the fallback rules.
pub(crate) async fn target(
    gateway: &Gateway,
    request: &Request,
    routing: &Routing,
    at: &Target<'_>,
    caller: &Hold,
) -> Result<Held, Fault> {
    let seat = seat(gateway, request, at.aim)?;
    let (mut wants, now) = (Wants::default(), request.now());
    wants.charge(caller);
    if let Some(index) = request.tenant.world.limits(request.tenant.workspace.id) {
        wants.gather(index, Stage::Target, &subject(request, routing, Some(at.aim)), now);
    }
    bind_target(&mut wants, request, at.aim, now);
    let card = if wants.are_metered() { card(at.aim) } else { None };
    let leaves = std::iter::once(at.leaf);
    let hold = take(gateway, request, Stage::Target, (wants, now), (at.content, leaves), card).await?;
    Ok(Held { hold, card, _seat: seat })
}

/// A place among the calls that the managed provider takes at once.
fn seat(gateway: &Gateway, request: &Request, aim: &Aim) -> Result<Option<Seat>, Fault> {
    let provider = request.tenant.workspace.provider(&aim.virtual_key);
    provider.filter(|_| matches!(aim.credential, Credential::Managed(_))).map_or(Ok(None), |p| gateway.shield.target(p))
}

/// Limits of the managed provider and of the integration behind it, for all workspaces and for this one.
fn bind_target(wants: &mut Wants, request: &Request, aim: &Aim, now: Timestamp) {
    let Credential::Managed(upstream) = &aim.credential else { return };
    let workspace = &request.tenant.workspace;
    if let Some(provider) = workspace.provider(&aim.virtual_key)
        && let Some(limits) = &provider.limits
    {
        wants.bind(Stage::Target, (Holder::Provider(provider.id), "provider", &provider.slug), limits, now);
    }
    let integration = upstream.integration;
    if let Some(limits) = upstream.limits() {
        let whose = (Holder::Integration(integration, None), "integration", &upstream.slug);
        wants.bind(Stage::Target, whose, limits, now);
    }
    if let Some(limits) = upstream.limits_of(workspace.id) {
        let holder = Holder::Integration(integration, Some(workspace.id));
        wants.bind(Stage::Target, (holder, "integration of this workspace", &upstream.slug), limits, now);
    }
}

/// The target whose limits are asked.
pub(crate) struct Target<'a> {
    pub(crate) aim: &'a Aim,
    pub(crate) leaf: &'a Leaf,
    pub(crate) content: &'a Content,
}

async fn take<'a>(
    gateway: &Gateway,
    request: &Request,
    stage: Stage,
    (mut wants, now): (Wants, Timestamp),
    (content, leaves): (&Content, impl Iterator<Item = &'a Leaf>),
    card: Option<PriceCard>,
) -> Result<Hold, Fault> {
    if wants.is_empty() {
        return Ok(Hold::default());
    }
    let mut estimated = Estimate::default();
    if wants.are_metered() {
        match estimate::of(request, content, leaves) {
            None => wants.only_requests(),
            Some(estimate) => {
                estimated = estimate;
                wants.measure(&estimate, card.map(priced).as_ref().map(|p| p as _));
            }
        }
    }
    let verdict = match gateway.counters.reserve(wants.asks(), now, request.waited.so_far()) {
        Answer::Now(verdict) => verdict,
        Answer::Later(verdict) => request.waited.during(verdict).await,
    };
    match verdict {
        Ok(()) => Ok(wants.granted(stage, &gateway.counters, estimated)),
        Err(refusal) => {
            let index = request.tenant.world.limits(request.tenant.workspace.id);
            let denied = wants.denied(index.map(|i| &**i), refusal, now);
            Err(denied.map_or_else(|| Fault::new(FaultKind::Internal, "A limit refused unnamed"), |d| d.fault()))
        }
    }
}

/// The price of what is asked for at this target, as the record of it will be priced.
fn card(aim: &Aim) -> Option<PriceCard> {
    aim.prices().of(aim.model.as_deref()).map(|card| *card)
}

/// Nanodollars of so many tokens in and out.
fn priced(card: PriceCard) -> impl Fn(u64, u64) -> Option<u64> {
    move |input, output| {
        let cost = price(&Usage { input, output, ..Usage::default() }, &card)?;
        u64::try_from(cost.0).ok()
    }
}

/// What is held for a call while a target answers it.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    pub(crate) caller: Hold,
    pub(crate) target: Held,
}

/// What is held for one target, at its price.
#[derive(Debug, Default)]
pub(crate) struct Held {
    hold: Hold,
    card: Option<PriceCard>,
    _seat: Option<Seat>,
}

impl Held {
    pub(crate) fn standings(&self) -> Standings {
        self.hold.standings()
    }

    /// The target is left for another, or gave no answer. Returns what was charged for good, for the record.
    pub(crate) fn leave(self, status: u16) -> Vec<Charge> {
        if succeeded(status) {
            return self.hold.count();
        }
        self.hold.release();
        Vec::new()
    }

    fn used(&self, usage: &Usage) -> Used {
        let cost = self.card.and_then(|card| price(usage, &card)).and_then(|c| u64::try_from(c.0).ok());
        Used { tokens: usage.total(), cost }
    }
}

const fn succeeded(status: u16) -> bool {
    matches!(status, 200..300)
}

impl Holds {
    /// Whether the stream has to be watched, see [`Hold::grow`].
    pub(crate) fn may_grow(&self) -> bool {
        self.caller.may_grow() || self.target.hold.may_grow()
    }

    /// What the target charges, where that is known only now.
    pub(crate) fn price_at(&mut self, card: PriceCard) {
        self.target.card = Some(card);
    }

    pub(crate) fn grow(&mut self, tokens: u64) {
        let price = self.target.card.map(priced);
        let price = price.as_ref().map(|p| p as _);
        self.caller.grow(tokens, price);
        self.target.hold.grow(tokens, price);
    }

    /// The call is over. What came to nothing gives back what it held, but for the caller's request; where nobody
    /// knows what was used, it counts as it was held. Returns what was charged for good, for the record.
    pub(crate) fn settle(self, status: u16, usage: Option<&Usage>) -> Vec<Charge> {
        let Self { caller, target } = self;
        let (mut charges, rest) = match usage {
            _ if !succeeded(status) => (target.leave(status), caller.settle(Used::default())),
            None => (target.hold.count(), caller.count()),
            Some(usage) => {
                let used = target.used(usage);
                (target.hold.settle(used), caller.settle(used))
            }
        };
        charges.extend(rest);
        charges
    }
}
