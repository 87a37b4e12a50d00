//! Guardrails as the process runs them: compiled once and kept, asked about over checked addresses, judged beside or
//! behind requests within bounds. Knows neither clients nor routes; what is judged is brought by the proxy.

mod background;
mod buffer_budget;
mod compile_cache;
mod external_calls;
#[cfg(test)]
mod fixture;
mod key_sets;
mod notes;
mod signing;
mod streams;
mod target_guardrails;
mod trials;

pub(crate) use background::BesideHooks;
pub(crate) use buffer_budget::{HeldRoom, Room};
pub(crate) use compile_cache::ConfigGuards;
pub(crate) use external_calls::{Moderator, OutsideAnswers};
pub(crate) use notes::{HookNotes, NotedRecord, OutputVerdict};
pub(crate) use streams::{HeldEvents, StreamJudge, transcribed};
pub(crate) use target_guardrails::TargetGuards;
pub(crate) use trials::Trials;

use crate::clock;
use background::BesideRunner;
use compile_cache::CompiledGuards;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gateway_domain::Fault;
use gateway_domain::config::Config;
use gateway_domain::egress::Trusted;
use gateway_domain::snapshot::{Org, SavedGuardrail};
use gateway_guardrails::{Direction, Guardrail, GuardrailSubject, Judged, Pending, Run};
use std::sync::Arc;
use tokio::runtime::Handle;

/// One value for all threads.
#[derive(Debug)]
pub(crate) struct Guardrails {
    compiled: CompiledGuards,
    outside: Arc<OutsideAnswers>,
    background: BesideRunner,
}

impl Guardrails {
    /// `runtime`: where work is done that no client waits for.
    pub(crate) fn new(outside: OutsideAnswers, trusted: Arc<Trusted>, runtime: Handle) -> Self {
        let compiled = CompiledGuards::new(runtime.clone(), trusted);
        let background = BesideRunner::new(runtime);
        Self { compiled, outside: Arc::new(outside), background }
    }

    /// The guardrails that a config names, in the places that its targets know.
    pub(crate) async fn of_config(
        &self,
        config: &Arc<Config>,
        inline: bool,
        org: &Arc<Org>,
    ) -> Result<Arc<ConfigGuards>, Fault> {
        self.compiled.of_config(config, inline, org).await
    }

    pub(crate) async fn of_saved(&self, saved: &Arc<SavedGuardrail>, org: &Arc<Org>) -> Result<Arc<Guardrail>, Fault> {
        self.compiled.of_saved(saved, org).await
    }

    /// Makes the calls that a run asks for, and says what came of it. Who drops this ends them.
    pub(crate) async fn drive(&self, run: Run, moderator: Option<&Moderator>) -> Judged {
        drive(&self.outside, run, moderator).await
    }

    pub(crate) const fn outside(&self) -> &Arc<OutsideAnswers> {
        &self.outside
    }

    /// Judges beside the request, whatever becomes of it; `None`: there is nothing to judge, or too much of it.
    pub(crate) fn judge_beside(
        &self,
        guarded: &TargetGuards,
        side: Direction,
        subject: GuardrailSubject,
    ) -> Option<BesideHooks> {
        let guardrails = if side == Direction::Input { &guarded.input } else { &guarded.output };
        let guardrails: Vec<_> = guardrails.iter().filter(|g| g.actions().is_async).cloned().collect();
        if guardrails.is_empty() {
            return None;
        }
        self.background.judge(&self.outside, guardrails, guarded, subject)
    }

    /// Sends a record when what is judged beside its request is known.
    pub(crate) const fn background(&self) -> &BesideRunner {
        &self.background
    }

    /// Facts for whoever counts them: what is compiled and kept, in bytes, how often that was done, and what was
    /// refused since too much waited for it.
    pub(crate) fn kept(&self) -> u64 {
        self.compiled.len()
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.compiled.bytes()
    }

    pub(crate) fn compilations(&self) -> u64 {
        self.compiled.compilations()
    }

    pub(crate) fn shed(&self) -> u64 {
        self.compiled.shed() + self.background.shed()
    }

    pub(crate) fn beside(&self) -> u64 {
        self.background.under_way()
    }
}

async fn drive(outside: &OutsideAnswers, mut run: Run, moderator: Option<&Moderator>) -> Judged {
    let mut flying = FuturesUnordered::new();
    while !run.is_done() {
        for Pending { id, ask, .. } in run.take_asks() {
            flying.push(async move { (id, outside.answer(ask, moderator).await) });
        }
        let Some((id, answer)) = flying.next().await else { break };
        run.answer(id, answer, clock::now());
    }
    run.finish(clock::now())
}
