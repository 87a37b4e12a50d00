//! The order in which guardrails' checks look at a text that streams, the same for all texts of a kind. Knows no text.

use crate::check::{Finder, Streaming, TextUnit};
use crate::content::Scan;
use crate::guardrail::{Guardrail, StreamPolicy};
use std::sync::Arc;

/// Which check of which guardrail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckAt {
    pub(super) guardrail: usize,
    pub(super) check: usize,
}

/// What a lane is made of, the same for each lane of a stream.
#[derive(Clone, Debug)]
pub(super) struct LanePlan {
    pub(super) overlap: usize,
    pub(super) window: usize,
    pub(super) max_wait_ms: u32,
    /// Judged beside each other, on the text as it came.
    pub(super) beside: Vec<Judging>,
    /// One after another, each on the text that the former left.
    pub(super) chain: Vec<Judging>,
}

impl LanePlan {
    pub(super) fn asks_outside(&self) -> bool {
        self.beside.iter().chain(&self.chain).any(|judging| matches!(judging.how, How::Outside))
    }

    /// What of it asks outside, each for itself.
    pub(super) fn asking(self) -> Self {
        let all = self.beside.into_iter().chain(self.chain);
        Self { beside: all.filter(|j| matches!(j.how, How::Outside)).collect(), chain: Vec::new(), ..self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Judging {
    pub(super) at: CheckAt,
    pub(super) how: How,
}

#[derive(Clone, Debug)]
pub(super) enum How {
    Forbid(Arc<dyn Finder>),
    Redact(Arc<dyn Finder>),
    AtMost { unit: TextUnit, most: u64 },
    Cased { upper: bool },
    Outside,
}

/// Judges stand beside each other on the text as it came; what rewrites stands in a chain, and with it all of a
/// guardrail whose checks run one after another and rewrite.
pub(super) fn plan_of(guardrails: &[Arc<Guardrail>], scan: Scan) -> LanePlan {
    let policies = || guardrails.iter().map(|g| g.actions().stream);
    let largest = |pick: fn(StreamPolicy) -> usize, least: usize| policies().map(pick).max().unwrap_or(least);
    let mut plan = LanePlan {
        overlap: largest(|p| p.overlap, 1),
        window: policies().map(|p| p.window).min().unwrap_or(512),
        max_wait_ms: policies().map(|p| p.max_wait_ms).min().unwrap_or(1_000),
        beside: Vec::new(),
        chain: Vec::new(),
    };
    for (number, guardrail) in guardrails.iter().enumerate() {
        let is_chained = guardrail.actions().sequential && guardrail.checks().iter().any(|c| c.judge.rewrites());
        for (position, check) in guardrail.checks().iter().enumerate().filter(|(_, c)| c.takes(scan)) {
            let how = match check.streaming() {
                Some(Streaming::Forbid(finder)) => How::Forbid(finder),
                Some(Streaming::Redact(finder)) => How::Redact(finder),
                Some(Streaming::AtMost { unit, most }) => How::AtMost { unit, most },
                Some(Streaming::Cased { upper }) => How::Cased { upper },
                Some(Streaming::Outside) => How::Outside,
                None => continue,
            };
            let rewrites = matches!(how, How::Redact(_));
            let judging = Judging { at: CheckAt { guardrail: number, check: position }, how };
            if is_chained || rewrites { plan.chain.push(judging) } else { plan.beside.push(judging) }
        }
    }
    plan
}
