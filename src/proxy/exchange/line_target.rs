//! The target of a line that goes up in a batch of the provider's own: how it is asked there, and how its answer reads.
//! The same as for a request that is made, but that nothing is sent.

use crate::proxy::call::ResolvedTarget;
use crate::proxy::request::{Request, RequestContent};
use crate::proxy::routing::Routing;
use crate::proxy::{param_overrides, target};
use bytes::Bytes;
use gateway_domain::config::Leaf;
use gateway_domain::{Fault, Usage};
use gateway_providers::at_batch_tier;
use gateway_providers::native_batches::BatchPlace;
use std::borrow::Cow;
use std::sync::Arc;

/// The target with the leaf of the plan that leads to it.
pub(crate) struct LineTarget<'a> {
    request: &'a Request,
    leaf: Arc<Leaf>,
    aim: target::Aim,
}

/// What a provider answered to a line, as the client reads it.
pub(crate) struct LineRead {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    /// The tokens that the answer used, at the tier for batches.
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
}

impl<'a> LineTarget<'a> {
    pub(crate) fn of(request: &'a Request, routing: &Routing) -> Result<Self, Fault> {
        let leaf = routing.plan.leaf().clone();
        let aim = target::resolve(&leaf, routing.inline, request)?;
        Ok(Self { request, leaf, aim })
    }

    pub(crate) fn provider(&self) -> &'static str {
        self.aim.adapter.info().slug
    }

    pub(crate) fn model(&self) -> Option<&str> {
        self.aim.model.as_deref()
    }

    /// Where its batches are.
    pub(crate) fn place(&self) -> BatchPlace {
        BatchPlace::of(&self.aim.settings)
    }

    fn resolved(&self) -> Result<ResolvedTarget<'_>, Fault> {
        self.of_content(param_overrides::content(self.request, &self.leaf)?)
    }

    fn of_content<'c>(&'c self, content: Cow<'c, RequestContent>) -> Result<ResolvedTarget<'c>, Fault> {
        Ok(ResolvedTarget {
            leaf: &self.leaf,
            aim: self.aim.clone(),
            content,
            guarded: None,
            binder: None,
            keeps: false,
        })
    }

    /// The line with what the config fills in and sets: what guardrails look at.
    pub(crate) fn filled(&self) -> Result<Bytes, Fault> {
        param_overrides::filled(self.request, &self.leaf)
    }

    /// The body that the provider would be asked with, for a line that was [filled](Self::filled).
    pub(crate) fn written(&self, filled: Bytes) -> Result<Bytes, Fault> {
        let content = param_overrides::finished(self.request, &self.leaf, filled)?;
        Ok(self.of_content(content)?.asked(self.request)?.body.join())
    }

    pub(crate) fn read(&self, status: u16, native: &Bytes) -> LineRead {
        let Ok(resolved) = self.resolved() else {
            return LineRead { status, body: native.clone(), usage: None, model: None };
        };
        let call = resolved.call(self.request);
        let failed = |failure: gateway_providers::Failure, status: u16| LineRead {
            status,
            body: failure.body,
            usage: failure.usage.map(|usage| self.at_batch_tier(*usage)),
            model: None,
        };
        if !(200..300).contains(&status) {
            return failed(self.aim.adapter.failure(&call, status, native), status);
        }
        match self.aim.adapter.response(&call, native) {
            Ok(reply) => {
                let usage = reply.usage.map(|usage| self.at_batch_tier(usage));
                LineRead { status, body: reply.body, usage, model: reply.model }
            }
            Err(failure) => {
                let status = failure.status;
                failed(failure, status)
            }
        }
    }

    fn at_batch_tier(&self, usage: Usage) -> Usage {
        at_batch_tier(self.provider(), usage)
    }
}
