//! What guardrails said of one try of a request: for the client, the record and the metrics.

use super::BesideHooks;
use crate::writer::HookWords;
use bytes::Bytes;
use gateway_domain::record::{HookCheck, Hooked, LogRecord};
use gateway_guardrails::{Direction, Guardrail, HookResult, HookResults, Judged, Verdict, header_value};
use serde_json::Value;
use std::sync::Arc;

/// What one direction said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputVerdict {
    Verdict(Verdict),
    /// A stream was cut off in its middle.
    Cut,
}

impl OutputVerdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Verdict(verdict) => verdict.name(),
            Self::Cut => "cut",
        }
    }
}

/// A record, and what guardrails said of its call.
#[derive(Debug)]
pub(crate) struct NotedRecord {
    pub(crate) record: Box<LogRecord>,
    pub(crate) notes: Option<Box<HookNotes>>,
}

#[derive(Debug, Default)]
pub(crate) struct HookNotes {
    pub(crate) results: HookResults,
    pub(crate) input: Option<Verdict>,
    pub(crate) output: Option<OutputVerdict>,
    /// What runs beside the request and is waited for by its record alone.
    pub(crate) beside: Vec<BesideHooks>,
    /// What bodies of records are kept for is kept of results too.
    pub(crate) with_data: bool,
    /// The request's body as a guardrail left it.
    pub(crate) rewritten: Option<Bytes>,
}

/// Results that one record tells of, on each side.
const MOST_RESULTS: usize = 256;

impl HookNotes {
    /// What was said of another part of the same call: the sternest verdict counts, and of very many results the first
    /// are told.
    pub(crate) fn absorb(&mut self, other: Self) {
        let stern = |verdict: Verdict| match verdict {
            Verdict::Pass => 0,
            Verdict::Soft => 1,
            Verdict::Deny => 2,
        };
        self.input = self.input.into_iter().chain(other.input).max_by_key(|verdict| stern(*verdict));
        self.output = self.output.into_iter().chain(other.output).max_by_key(|verdict| match verdict {
            OutputVerdict::Verdict(verdict) => stern(*verdict),
            OutputVerdict::Cut => 3,
        });
        let HookResults { before_request_hooks, after_request_hooks } = other.results;
        self.results.before_request_hooks.extend(before_request_hooks);
        self.results.before_request_hooks.truncate(MOST_RESULTS);
        self.results.after_request_hooks.extend(after_request_hooks);
        self.results.after_request_hooks.truncate(MOST_RESULTS);
        self.beside.extend(other.beside);
        self.beside.truncate(MOST_RESULTS);
    }

    pub(crate) fn add(&mut self, direction: Direction, results: Vec<HookResult>) {
        match direction {
            Direction::Input => self.results.before_request_hooks.extend(results),
            Direction::Output => self.results.after_request_hooks.extend(results),
        }
    }

    pub(crate) fn note_input(&mut self, judged: &Judged) {
        self.input = Some(judged.verdict);
        self.add(Direction::Input, judged.results.clone());
    }

    pub(crate) fn note_output(&mut self, judged: &Judged) {
        self.output = Some(OutputVerdict::Verdict(judged.verdict));
        self.add(Direction::Output, judged.results.clone());
    }

    /// Guardrails that may not run on this route: the record tells of them.
    pub(crate) fn skip(&mut self, direction: Direction, guardrails: &[Arc<Guardrail>]) {
        let skipped = guardrails.iter().map(|g| HookResult::skipped(g.id(), g.hook_type()));
        self.add(direction, skipped.collect());
    }

    /// The notes for the record of a try that is made again, without guardrails that run beside the request: the last
    /// try's record tells of them.
    pub(crate) fn so_far(&self) -> Self {
        let Self { results, input, output, with_data, .. } = self;
        let (results, beside) = (results.clone(), Vec::new());
        Self { results, input: *input, output: *output, beside, with_data: *with_data, rewritten: None }
    }

    /// Before the call is made again its answer's old results go.
    pub(crate) fn forget_output(&mut self) {
        self.output = None;
        self.results.after_request_hooks.clear();
    }

    /// The request was refused, and no provider called.
    pub(crate) fn is_input_denied(&self) -> bool {
        self.input == Some(Verdict::Deny)
    }

    /// An answer that was paid for was kept from the client.
    pub(crate) fn is_output_denied(&self) -> bool {
        matches!(self.output, Some(OutputVerdict::Verdict(Verdict::Deny) | OutputVerdict::Cut))
    }

    pub(crate) fn is_denied(&self) -> bool {
        self.is_input_denied() || self.is_output_denied()
    }

    /// Something failed, and nothing was denied.
    pub(crate) fn is_soft(&self) -> bool {
        let soft = Verdict::Soft;
        !self.is_denied() && (self.input == Some(soft) || self.output == Some(OutputVerdict::Verdict(soft)))
    }

    /// Nothing failed: what was answered may be kept for others.
    pub(crate) fn is_clean(&self) -> bool {
        let passes = |verdict: Verdict| verdict == Verdict::Pass;
        self.input.is_none_or(passes) && self.output.is_none_or(|said| said == OutputVerdict::Verdict(Verdict::Pass))
    }

    /// `in=pass; out=soft`; `None` where nothing was judged.
    pub(crate) fn header(&self) -> Option<String> {
        match self.output {
            Some(OutputVerdict::Cut) => {
                let input = header_value(self.input, None).map_or_else(String::new, |input| format!("{input}; "));
                Some(format!("{input}out={}", OutputVerdict::Cut.name()))
            }
            Some(OutputVerdict::Verdict(verdict)) => header_value(self.input, Some(verdict)),
            None => header_value(self.input, None),
        }
    }

    /// What a stream that shows results begins with.
    pub(crate) fn results_ahead(&self) -> Option<String> {
        let shown =
            self.results.before_request_hooks.iter().filter(|r| matches!(r, HookResult::Run(run) if !run.is_async));
        let shown: Vec<&HookResult> = shown.collect();
        let results = (!shown.is_empty()).then(|| serde_json::to_string(&shown).ok()).flatten()?;
        Some(format!("{{\"hook_results\":{{\"before_request_hooks\":{results}}}}}"))
    }

    /// A stream has ended, or was cut off.
    pub(crate) fn note_stream(&mut self, judged: Judged, is_cut: bool) {
        self.output = Some(if is_cut { OutputVerdict::Cut } else { OutputVerdict::Verdict(judged.verdict) });
        self.add(Direction::Output, judged.results);
    }
}

impl HookWords for HookNotes {
    /// Gives the verdicts as records keep them. What checks tell of the text itself goes only where bodies are kept.
    fn into_told(mut self: Box<Self>) -> Option<Box<Hooked>> {
        let sides = [("input", &self.results.before_request_hooks), ("output", &self.results.after_request_hooks)];
        let mut checks = Vec::new();
        for (side, results) in sides {
            for result in results {
                let HookResult::Run(run) = result else { continue };
                checks.extend(run.checks.iter().map(|check| HookCheck {
                    check: check.id.to_ascii_lowercase().into(),
                    side,
                    result: match (check.verdict, &check.error) {
                        (_, Some(_)) => "error",
                        (true, None) => "pass",
                        (false, None) => "fail",
                    },
                    millis: check.execution_time,
                }));
            }
        }
        if self.results.is_empty() {
            return None;
        }
        if !self.with_data {
            forget_data(&mut self.results);
        }
        let json = serde_json::to_string(&self.results).unwrap_or_default();
        Some(Box::new(Hooked { json, verdicts: self.header().unwrap_or_default(), checks }))
    }
}

fn forget_data(results: &mut HookResults) {
    for result in results.before_request_hooks.iter_mut().chain(&mut results.after_request_hooks) {
        if let HookResult::Run(run) = result {
            run.checks.iter_mut().for_each(|check| check.data = Value::Null);
        }
    }
}
