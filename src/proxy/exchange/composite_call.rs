//! A call that the gateway makes of several of a provider's, apart from the exchange: admitted once like any call, and
//! recorded once. It has no fallback, as what it is about is in one place.

use super::{AdmissionGate, CallParts, Holds};
use crate::proxy::call::ResolvedTarget;
use crate::proxy::record::{self, AttemptInfo, Tried};
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::target::Aim;
use gateway_domain::Fault;
use gateway_domain::record::LogRecord;
use std::borrow::Cow;
use std::time::Duration;

/// What limits gave for one.
pub(crate) struct ApartCall {
    holds: Holds,
    info: AttemptInfo,
}

impl ApartCall {
    pub(crate) async fn admit(
        parts: &CallParts,
        (request, routing): (&Request, &Routing),
        aim: &Aim,
    ) -> Result<Self, Fault> {
        let (gate, leaf) = (AdmissionGate { parts, request, routing }, routing.plan.leaf());
        let caller = gate.caller().await?;
        let content = Cow::Borrowed(&request.ask.content);
        let resolved = ResolvedTarget { leaf, aim: aim.clone(), content, guarded: None, binder: None, keeps: false };
        let target = match gate.target(&resolved, &caller).await {
            Ok(target) => target,
            Err(fault) => {
                caller.release();
                return Err(fault);
            }
        };
        let info = AttemptInfo {
            option_index: leaf.path.clone(),
            provider: aim.adapter.info().slug,
            virtual_key: aim.virtual_key.clone(),
            limits: caller.standings().tighter(target.standings()),
            ..AttemptInfo::default()
        };
        Ok(Self { holds: Holds { caller, target, ..Holds::default() }, info })
    }

    pub(crate) const fn info(&self) -> &AttemptInfo {
        &self.info
    }

    /// Its record, once it was answered; `upstream`: how long the provider was waited for.
    pub(crate) fn ended(
        mut self,
        (request, routing): (&Request, &Routing),
        (status, fault): (u16, Option<&'static str>),
        upstream: Duration,
    ) -> Box<LogRecord> {
        request.look();
        self.info.upstream = upstream;
        let tried = Tried { info: &self.info, status, fault };
        let mut record = record::of(request, &request.steps(), Some(routing), Some(tried), 1);
        record.charges = self.holds.settle(status, None);
        record
    }
}
