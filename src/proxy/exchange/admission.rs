//! Limits, at their two stages: the caller's before a target is chosen, a target's when it is its turn; and what
//! becomes of what they held.

use super::CallParts;
use crate::price_list;
use crate::proxy::admission_guard::ConcurrencySlot;
use crate::proxy::call::ResolvedTarget;
use crate::proxy::deliver::Growth;
use crate::proxy::estimate;
use crate::proxy::handshake;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target::{Aim, Credential};
use crate::upstream::http1::Framing;
use gateway_domain::counters::{Charge, LimitDecision, RateLimitStandings};
use gateway_domain::ports::Holder;
use gateway_domain::price::{PriceCard, price};
use gateway_domain::realtime_paths::begins_live;
use gateway_domain::{Fault, FaultKind, Operation, Timestamp, Usage};
use gateway_policies::{Estimate, Hold, LimitHolder, ReservationRequest, Stage, Subject, Used};
use http::Method;
use std::pin::pin;

fn subject<'a>(request: &'a Request, routing: &'a Routing, aim: Option<&'a Aim>) -> Subject<'a> {
    let set = routing.plan.config().sets_model && !request.is_untouched();
    let (model, unread) = match aim {
        Some(aim) => (aim.model.as_deref(), request.ask.content.unread),
        // A model that the config sets counts from the target on; until then nobody knows which it will be.
        None if set => (None, true),
        None => (request.asked_model().map(|model| &**model), request.model_is_unread()),
    };
    Subject {
        api_key: Some(request.caller.tenant.key.id),
        workspace: request.caller.tenant.workspace.id,
        metadata: &request.caller.metadata,
        virtual_key: aim.map(|a| &*a.virtual_key).filter(|v| !v.is_empty()),
        provider: aim.map(|a| a.adapter.info().slug),
        config: Some(&*routing.config).filter(|c| !c.is_empty()),
        prompt: request.prompt().map(|prompt| &*prompt.slug),
        model,
        endpoint_type: request.ask.route.operation.name(),
        mcp_server: None,
        mcp_tool: None,
        unread,
    }
}

/// Asks the limits of one request.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionGate<'a> {
    pub(crate) parts: &'a CallParts,
    pub(crate) request: &'a Request,
    pub(crate) routing: &'a Routing,
}

/// What the caller's limits gave. They are asked once for a request, when the first target is about to be called: an
/// answer from the cache costs no budget.
#[derive(Debug, Default)]
pub(crate) struct Admission(Option<Hold>);

impl Admission {
    pub(crate) async fn ensure(&mut self, gate: AdmissionGate<'_>) -> Result<&Hold, Fault> {
        if self.0.is_none() {
            // Pinned here, and not moved into what awaits it: each move copies it.
            self.0 = Some(pin!(gate.caller()).await?);
        }
        Ok(self.0.get_or_insert_default())
    }

    pub(crate) fn standings(&self) -> RateLimitStandings {
        self.0.as_ref().map(Hold::standings).unwrap_or_default()
    }

    pub(crate) fn take(&mut self) -> Hold {
        self.0.take().unwrap_or_default()
    }
}

impl AdmissionGate<'_> {
    /// Every limit that does not depend on the target, all or nothing.
    pub(super) async fn caller(self) -> Result<Hold, Fault> {
        let Self { request, routing, .. } = self;
        let mut wants = self.of_caller();
        if wants.is_empty() {
            return Ok(Hold::default());
        }
        unheard(request, &wants)?;
        let leaves = routing.plan.config().leaves().map(|leaf| &**leaf);
        let estimated = measure(&mut wants, || estimate::of(request, &request.ask.content, leaves), None);
        self.reserve(Stage::Caller, wants, estimated).await
    }

    /// Every limit that does not depend on the target.
    pub(super) fn of_caller(self) -> ReservationRequest {
        let Self { request, routing, .. } = self;
        let (mut wants, now) = (ReservationRequest::default(), request.now());
        if let Some(index) = request.caller.tenant.world.limits(request.caller.tenant.workspace.id) {
            wants.gather(index, Stage::Caller, &subject(request, routing, None), now);
        }
        let tenant = &request.caller.tenant;
        if let Some(limits) = &tenant.key.limits {
            let whose = LimitHolder { holder: Holder::Key(tenant.key.id), kind: "API key", name: &tenant.key.name };
            wants.bind(Stage::Caller, whose, limits, now);
        }
        for claimed in tenant.key.token.iter().flat_map(|token| &token.limits) {
            let whose = LimitHolder { holder: Holder::Claim(claimed.id), kind: "token", name: &claimed.name };
            wants.bind(Stage::Caller, whose, &claimed.limits, now);
        }
        if let Some(limits) = &tenant.workspace.limits {
            let whose = LimitHolder {
                holder: Holder::Workspace(tenant.workspace.id),
                kind: "workspace",
                name: &tenant.workspace.name,
            };
            wants.bind(Stage::Caller, whose, limits, now);
        }
        wants
    }

    /// The limits that look at the target, and every cost, at this target's price. A denial is this target's 429 or
    /// 412 and follows the fallback rules.
    pub(crate) async fn target(self, resolved: &ResolvedTarget<'_>, caller: &Hold) -> Result<Reservation, Fault> {
        let request = self.request;
        let aim = &resolved.aim;
        let slot = self.slot(aim)?;
        let mut wants = self.of_target(aim, caller);
        if wants.is_empty() {
            return Ok(Reservation { slot, ..Reservation::default() });
        }
        unheard(request, &wants)?;
        let leaves = std::iter::once(resolved.leaf);
        let rate = self.rate(aim, &wants).await;
        let estimated = measure(&mut wants, || estimate::of(request, &resolved.content, leaves), rate.as_ref());
        let hold = self.reserve(Stage::Target, wants, estimated).await?;
        Ok(Reservation { hold, rate, spent: Used::default(), slot })
    }

    /// Every limit that looks at the target, and every cost.
    pub(super) fn of_target(self, aim: &Aim, caller: &Hold) -> ReservationRequest {
        let Self { request, routing, .. } = self;
        let (mut wants, now) = (ReservationRequest::default(), request.now());
        wants.charge(caller);
        if let Some(index) = request.caller.tenant.world.limits(request.caller.tenant.workspace.id) {
            wants.gather(index, Stage::Target, &subject(request, routing, Some(aim)), now);
        }
        bind_target(&mut wants, request, aim, now);
        wants
    }

    /// What the target charges, where some limit has to do with it.
    async fn rate(self, aim: &Aim, wants: &ReservationRequest) -> Option<HeldRate> {
        let mut card = None;
        if wants.are_metered() {
            price_list::opened().await;
            card = aim.prices(self.request).of(aim.model.as_deref());
        }
        if card.is_none() && wants.are_of_money() {
            self.parts.unpriced.saw(aim.adapter.info().slug, aim.model.as_deref());
        }
        card.map(|card| HeldRate { card, at: self.request.caller.at })
    }

    /// What one response of a session may use of tokens and money. That the session is a request was counted when it
    /// opened.
    pub(crate) async fn response(self, aim: &Aim, estimate: Estimate) -> Result<Holds, Fault> {
        let mut wants = self.of_caller();
        wants.without_requests();
        let caller = if wants.is_empty() {
            Hold::default()
        } else {
            wants.measure(&estimate, None);
            self.reserve(Stage::Caller, wants, estimate).await?
        };
        let mut wants = self.of_target(aim, &caller);
        wants.without_requests();
        if wants.is_empty() {
            return Ok(Holds { caller, ..Holds::default() });
        }
        let rate = self.rate(aim, &wants).await;
        wants.measure(&estimate, rate.as_ref().map(HeldRate::of_tokens).as_ref().map(|p| p as _));
        match self.reserve(Stage::Target, wants, estimate).await {
            Ok(hold) => {
                Ok(Holds { caller, target: Reservation { hold, rate, ..Reservation::default() }, ..Holds::default() })
            }
            Err(fault) => {
                caller.release();
                Err(fault)
            }
        }
    }

    /// Begins to count what was used without having been asked for: nothing is held or refused, and all of it counts.
    pub(crate) async fn unasked(self, aim: &Aim) -> Holds {
        const NOTHING: Estimate = Estimate { prompt: 0, output: Some(0) };
        let counters = &self.parts.counters;
        let granted = |mut wants: ReservationRequest, stage, price: Option<&HeldRate>| {
            wants.without_requests();
            wants.measure(&NOTHING, price.map(HeldRate::of_tokens).as_ref().map(|p| p as _));
            // Each counter once.
            wants.asks();
            wants.granted(stage, counters, NOTHING)
        };
        let caller = granted(self.of_caller(), Stage::Caller, None);
        let wants = self.of_target(aim, &caller);
        let rate = self.rate(aim, &wants).await;
        let hold = granted(wants, Stage::Target, rate.as_ref());
        Holds { caller, target: Reservation { hold, rate, ..Reservation::default() }, ..Holds::default() }
    }

    /// A place among the calls that the managed provider takes at once.
    pub(super) fn slot(self, aim: &Aim) -> Result<Option<ConcurrencySlot>, Fault> {
        let provider = self.request.caller.tenant.workspace.provider(&aim.virtual_key);
        let managed = provider.filter(|_| matches!(aim.credential, Credential::Managed(_)));
        managed.map_or(Ok(None), |provider| self.parts.shield.target(provider))
    }

    async fn reserve(self, stage: Stage, mut wants: ReservationRequest, estimated: Estimate) -> Result<Hold, Fault> {
        let (request, now) = (self.request, self.request.now());
        let counters = &self.parts.counters;
        let verdict = match counters.reserve(wants.asks(), now, request.caller.waited.so_far()) {
            LimitDecision::Now(verdict) => verdict,
            LimitDecision::Later(verdict) => request.caller.waited.during(verdict).await,
        };
        match verdict {
            Ok(()) => Ok(wants.granted(stage, counters, estimated)),
            Err(refusal) => {
                let index = request.caller.tenant.world.limits(request.caller.tenant.workspace.id);
                let denied = wants.denied(index.map(|i| &**i), refusal, now);
                Err(denied.map_or_else(|| Fault::new(FaultKind::Internal, "A limit refused unnamed"), |d| d.fault()))
            }
        }
    }
}

/// What is said on a WebSocket that is no session nobody reads, nor what is said in a call of the Live API, so that no
/// limit on what is used could ever be kept there.
fn unheard(request: &Request, wants: &ReservationRequest) -> Result<(), Fault> {
    let ask = &request.ask;
    let operation = ask.route.operation;
    let is_open = ask.upload == Some(Framing::WebSocket) && !handshake::is_session(operation, ask.upload);
    let may_begin = operation == Operation::Proxy && ask.method == Method::POST;
    if !(is_open || may_begin) || !wants.are_metered() {
        return Ok(());
    }
    let refused = |why: &'static str, code| Err(Fault::new(FaultKind::Forbidden, why).code(code));
    if is_open {
        let why = "A limit on tokens or money applies to this WebSocket, on which nobody reads what is said: /v1/realtime, \
                   /v1/responses and /v1/live/sessions are read";
        return refused(why, "websocket_not_metered");
    }
    if begins_live(ask.route.tail()) {
        let why = "A limit on tokens or money applies to this session, in which nobody hears what is said: \
                   open it as a WebSocket at /v1/live/sessions";
        return refused(why, "session_not_metered");
    }
    Ok(())
}

/// Tells limits on tokens and money how much the call may use.
fn measure(
    wants: &mut ReservationRequest,
    estimate: impl FnOnce() -> Option<Estimate>,
    rate: Option<&HeldRate>,
) -> Estimate {
    if !wants.are_metered() {
        return Estimate::default();
    }
    let Some(estimate) = estimate() else {
        wants.only_requests();
        return Estimate::default();
    };
    wants.measure(&estimate, rate.map(HeldRate::of_tokens).as_ref().map(|p| p as _));
    estimate
}

/// Limits of the managed provider and of the integration behind it, for all workspaces and for this one.
fn bind_target(wants: &mut ReservationRequest, request: &Request, aim: &Aim, now: Timestamp) {
    let Credential::Managed(upstream) = &aim.credential else { return };
    let workspace = &request.caller.tenant.workspace;
    if let Some(provider) = workspace.provider(&aim.virtual_key)
        && let Some(limits) = &provider.limits
    {
        wants.bind(
            Stage::Target,
            LimitHolder { holder: Holder::Provider(provider.id), kind: "provider", name: &provider.slug },
            limits,
            now,
        );
    }
    let integration = upstream.integration;
    if let Some(limits) = upstream.limits() {
        let whose =
            LimitHolder { holder: Holder::Integration(integration, None), kind: "integration", name: &upstream.slug };
        wants.bind(Stage::Target, whose, limits, now);
    }
    if let Some(limits) = upstream.limits_of(workspace.id) {
        let holder = Holder::Integration(integration, Some(workspace.id));
        wants.bind(
            Stage::Target,
            LimitHolder { holder, kind: "integration of this workspace", name: &upstream.slug },
            limits,
            now,
        );
    }
}

/// A price and the time that it is asked for.
#[derive(Debug)]
struct HeldRate {
    card: PriceCard,
    at: Timestamp,
}

impl HeldRate {
    /// Nanodollars of so many tokens in and out.
    fn of_tokens(&self) -> impl Fn(u64, u64) -> Option<u64> + '_ {
        |input, output| self.of(&Usage { input, output, ..Usage::default() })
    }

    fn of(&self, usage: &Usage) -> Option<u64> {
        u64::try_from(price(usage, Some(&self.card), self.at)?.0).ok()
    }
}

/// What is held for a call while a target answers it.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    pub(crate) caller: Hold,
    pub(crate) target: Reservation,
    /// What targets used before whose answers were none after all.
    pub(crate) lost: Used,
}

/// What is held for one target, at its price.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    hold: Hold,
    rate: Option<HeldRate>,
    /// What answers of this target used that guardrails kept from the client, before it was asked again.
    spent: Used,
    slot: Option<ConcurrencySlot>,
}

impl Reservation {
    pub(crate) fn standings(&self) -> RateLimitStandings {
        self.hold.standings()
    }

    /// Held on for as long as what began lasts.
    pub(crate) fn take_slot(&mut self) -> Option<ConcurrencySlot> {
        self.slot.take()
    }

    /// The target is left for another, or gave no answer. Returns what was charged for good, for the record.
    pub(crate) fn leave(self, status: u16, usage: Option<&Usage>) -> Vec<Charge> {
        // An answer that was none after all was paid for.
        if let Some(usage) = usage.filter(|usage| usage.total() > 0) {
            let used = self.used(usage);
            return self.hold.settle(used);
        }
        if succeeded(status) {
            return self.hold.count();
        }
        if self.spent != Used::default() {
            return self.hold.settle(self.spent);
        }
        self.hold.release();
        Vec::new()
    }

    /// An answer of the target was paid for, and another is asked for in its place.
    pub(crate) fn spend(&mut self, usage: &Usage) {
        self.spent = self.used(usage);
    }

    pub(crate) fn used(&self, usage: &Usage) -> Used {
        let told = usage.detail.told.and_then(|cost| u64::try_from(cost.0).ok());
        let cost = self.rate.as_ref().map_or(told, |rate| rate.of(usage));
        plus(self.spent, Used { tokens: usage.total(), cost })
    }
}

/// Both together.
pub(crate) fn plus(one: Used, other: Used) -> Used {
    let cost = match (one.cost, other.cost) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    Used { tokens: one.tokens.saturating_add(other.tokens), cost }
}

const fn succeeded(status: u16) -> bool {
    matches!(status, 200..300)
}

impl Holds {
    /// Whether the stream has to be watched, see [`Hold::grow`].
    fn may_grow(&self) -> bool {
        self.caller.may_grow() || self.target.hold.may_grow()
    }

    /// Lets the holds grow with an answer while it streams.
    pub(crate) fn growth(&mut self) -> HoldGrowth<'_> {
        HoldGrowth { holds: self.may_grow().then_some(self), since: 0 }
    }

    /// Nothing came of it.
    pub(crate) fn release(self) {
        self.caller.release();
        self.target.hold.release();
    }

    /// A session opened: that is a request, and what it will use is asked for response by response. The place at the
    /// provider is taken for as long as it lasts.
    pub(crate) fn open_session(mut self) -> (Vec<Charge>, Option<ConcurrencySlot>) {
        let slot = self.target.take_slot();
        (self.settle(200, Some(&Usage::default())), slot)
    }

    /// What the target charges, where that is known only now.
    pub(crate) fn price_at(&mut self, card: PriceCard, at: Timestamp) {
        self.target.rate = Some(HeldRate { card, at });
    }

    /// So many tokens came out so far.
    pub(crate) fn grow(&mut self, tokens: u64) {
        let price = self.target.rate.as_ref().map(HeldRate::of_tokens);
        let price = price.as_ref().map(|p| p as _);
        self.caller.grow(tokens, price);
        self.target.hold.grow(tokens, price);
    }

    /// The call is over. What came to nothing gives back what it held, but for the caller's request; where nobody
    /// knows what was used, it counts as it was held. Returns what was charged for good, for the record.
    pub(crate) fn settle(self, status: u16, usage: Option<&Usage>) -> Vec<Charge> {
        let Self { caller, target, lost } = self;
        let (mut charges, rest) = match usage {
            Some(usage) if !succeeded(status) && usage.total() > 0 => {
                let used = target.used(usage);
                (target.hold.settle(used), caller.settle(plus(used, lost)))
            }
            _ if !succeeded(status) => {
                let lost = plus(target.spent, lost);
                (target.leave(status, None), caller.settle(lost))
            }
            None => (target.hold.count(), caller.count()),
            Some(usage) => {
                let used = target.used(usage);
                (target.hold.settle(used), caller.settle(plus(used, lost)))
            }
        };
        charges.extend(rest);
        charges
    }
}

/// A stream's answer may be of any length: what is held grows with it, looked at every few kilobytes.
pub(crate) struct HoldGrowth<'a> {
    holds: Option<&'a mut Holds>,
    since: usize,
}

impl HoldGrowth<'_> {
    const EVERY: usize = 4 * 1024;
}

impl Growth for HoldGrowth<'_> {
    fn saw(&mut self, bytes: usize, tokens: impl FnOnce() -> u64) {
        self.since += bytes;
        if self.since >= Self::EVERY
            && let Some(holds) = &mut self.holds
        {
            self.since = 0;
            holds.grow(tokens());
        }
    }
}
