//! Whether a session may go on, and the request that each of its responses counts as: of the same caller, as the caller
//! stands now. A session may outlast what was true when it opened.

use super::LiveParts;
use crate::clock;
use crate::proxy::exchange::AdmissionGate;
use crate::proxy::record::AttemptInfo;
use crate::proxy::request::{
    AskedFor, AskedModel, Caller, LastLook, Request, RequestContent, Tenant, TenantGuardrails, Waited,
};
use crate::proxy::target::{self, Aim};
use gateway_domain::{Fault, FaultKind, Operation, Timestamp};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The caller of a session as it stands now; `Err`: it has no standing any more.
pub(crate) fn standing_now(live: &LiveParts, opened: &Arc<Tenant>, now: Timestamp) -> Result<Arc<Tenant>, Fault> {
    let revoked = || Fault::new(FaultKind::Unauthenticated, "The gateway key has expired or is not active");
    let world = live.live.current();
    let is_same = Arc::ptr_eq(&world, &opened.world);
    let key = match &opened.key.token {
        // A token is as good as it was, until it ends.
        Some(_) => opened.key.clone(),
        None if is_same => opened.key.clone(),
        None => world.snapshot.key_by_id(opened.key.id).ok_or_else(revoked)?.clone(),
    };
    if !key.active || key.expires_at.is_some_and(|at| at <= now) {
        return Err(revoked());
    }
    if is_same {
        return Ok(opened.clone());
    }
    let workspace = world.snapshot.workspace(opened.workspace.id).filter(|found| found.active).ok_or_else(revoked)?;
    let org = world.snapshot.org(opened.org.id).ok_or_else(revoked)?;
    if !world.snapshot.serves(org, workspace.id) {
        return Err(Tenant::served_elsewhere());
    }
    let (workspace, org) = (workspace.clone(), org.clone());
    let guardrails = TenantGuardrails::of(&world.snapshot, &org, &workspace);
    Ok(Arc::new(Tenant { world: world.clone(), key, org, workspace, guardrails, supposed: false, line: None }))
}

/// A part of a session as limits and records see it.
pub(super) struct LiveStanding {
    pub(super) request: Box<Request>,
    pub(super) aim: Aim,
    pub(super) info: AttemptInfo,
}

impl LiveStanding {
    /// `model`: that is in force by now, where it is not the one that the session opened with.
    pub(super) fn new(
        gate: AdmissionGate<'_>,
        live: &LiveParts,
        opened: &AttemptInfo,
        model: Option<Arc<str>>,
    ) -> Result<Self, Fault> {
        let AdmissionGate { request, routing, .. } = gate;
        let now = clock::now();
        let tenant = standing_now(live, &request.caller.tenant, now)?;
        let mut request = Box::new(again(request, tenant, now));
        let leaf = &**routing.plan.leaf();
        let mut aim = target::resolve(leaf, routing.inline, &request)?;
        if model.is_some() {
            aim.model = model;
        }
        // Only now, as the session itself names no model.
        request.ask.route.operation = of_part(request.ask.route.operation);
        request.ask.untouched_model = Some(AskedModel { name: aim.model.clone(), unread: aim.model.is_none() });
        let prices = aim.prices(&request);
        let info = AttemptInfo {
            option_index: opened.option_index.clone(),
            provider: opened.provider,
            is_clients_host: opened.is_clients_host,
            virtual_key: opened.virtual_key.clone(),
            model: aim.model.clone(),
            card: prices.own(aim.model.as_deref()),
            stream: true,
            ..AttemptInfo::default()
        };
        Ok(Self { request, aim, info })
    }
}

/// A response over a socket for Responses is one as over HTTP, for limits, guardrails and records.
const fn of_part(operation: Operation) -> Operation {
    match operation {
        Operation::ResponsesSession => Operation::Responses,
        other => other,
    }
}

/// The request that opened the session, begun anew.
pub(super) fn again(opened: &Request, tenant: Arc<Tenant>, now: Timestamp) -> Request {
    let (caller, ask) = (&opened.caller, &opened.ask);
    Request {
        caller: Caller {
            tenant,
            client_ip: caller.client_ip,
            started: Instant::now(),
            at: now,
            looked: LastLook::default(),
            auth_us: 0,
            waited: Waited::default(),
            trace: caller.trace.clone(),
            span: caller.span.clone(),
            metadata: caller.metadata.clone(),
            keep: caller.keep,
        },
        ask: AskedFor {
            method: ask.method.clone(),
            route: ask.route.clone(),
            headers: ask.headers.clone(),
            credential: ask.credential.clone(),
            content: RequestContent { unread: true, model: ask.content.model.clone(), ..RequestContent::default() },
            prompt: None,
            reckoned: OnceLock::new(),
            untouched_model: None,
            pin: ask.pin.clone(),
            raw_names: ask.raw_names.clone(),
            upload: ask.upload,
            continues: None,
            first_event: None,
            call: None,
        },
    }
}
