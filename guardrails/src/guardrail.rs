//! A guardrail as it runs: compiled once from what was written, shared by all requests, never changed.

use crate::Direction;
use crate::check::{Judge, Streaming};
use crate::content::Scan;
use serde_json::Value;
use std::sync::Arc;

/// Guardrails of one direction of one request.
pub const MOST_GUARDRAILS: usize = 20;
/// Checks of one guardrail.
pub const MOST_CHECKS: usize = 50;

/// What results call the two sorts of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookType {
    Guardrail,
    /// It is there to rewrite.
    Mutator,
}

impl HookType {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guardrail => "guardrail",
            Self::Mutator => "mutator",
        }
    }
}

/// Feedback that a verdict gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedbackRule {
    pub value: Option<Value>,
    pub weight: Option<Value>,
    pub metadata: serde_json::Map<String, Value>,
}

/// What a guardrail does with its verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actions {
    /// A failure ends the request.
    pub deny: bool,
    /// It runs beside the request and decides nothing.
    pub is_async: bool,
    /// Its checks run one after another.
    pub sequential: bool,
    /// A denial reads as an answer of the model.
    pub soft_deny_200: bool,
    pub on_success: Option<FeedbackRule>,
    pub on_fail: Option<FeedbackRule>,
    pub stream: StreamPolicy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamMode {
    #[default]
    Auto,
    /// Nothing goes down before the answer is whole.
    Hold,
    /// Judged and redacted as it flows.
    Window,
    /// Judged when all has gone down.
    After,
}

/// How answers that stream are judged; sizes are in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPolicy {
    pub mode: StreamMode,
    pub window: usize,
    pub overlap: usize,
    pub max_wait_ms: u32,
}

impl Default for StreamPolicy {
    fn default() -> Self {
        Self { mode: StreamMode::Auto, window: 512, overlap: 256, max_wait_ms: 1_000 }
    }
}

/// One check of a guardrail.
#[derive(Debug)]
pub struct Check {
    /// The name by which results show it: `default.contains`.
    pub(crate) id: String,
    pub(crate) judge: Box<dyn Judge>,
    /// An error of the outside world fails it.
    pub(crate) fail_on_error: bool,
    /// Where it can judge at all.
    pub(crate) input: bool,
    pub(crate) output: bool,
}

impl Check {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn runs_on(&self, direction: Direction) -> bool {
        match direction {
            Direction::Input => self.input,
            Direction::Output => self.output,
        }
    }

    /// Whether it looks at texts of this kind.
    pub(crate) fn takes(&self, scan: Scan) -> bool {
        self.judge.selection().takes(scan)
    }

    pub(crate) fn streaming(&self) -> Option<Streaming> {
        self.judge.streaming()
    }
}

#[derive(Debug)]
pub struct Guardrail {
    pub(crate) id: String,
    pub(crate) hook_type: HookType,
    pub(crate) actions: Actions,
    pub(crate) checks: Vec<Arc<Check>>,
    pub(crate) memory: usize,
}

impl Guardrail {
    /// About how many bytes it takes, for whoever keeps it.
    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn hook_type(&self) -> HookType {
        self.hook_type
    }

    pub fn actions(&self) -> &Actions {
        &self.actions
    }

    pub fn checks(&self) -> &[Arc<Check>] {
        &self.checks
    }

    fn output_checks(&self) -> impl Iterator<Item = &Arc<Check>> {
        self.checks.iter().filter(|c| c.runs_on(Direction::Output))
    }

    /// The first check that cannot judge a text while it comes.
    pub(crate) fn not_stream_safe(&self) -> Option<&str> {
        self.output_checks().find(|c| c.streaming().is_none()).map(|c| c.id.as_str())
    }

    /// The first check that may rewrite.
    pub(crate) fn rewriting(&self) -> Option<&str> {
        self.output_checks().find(|c| c.judge.rewrites()).map(|c| c.id.as_str())
    }

    /// How an answer that streams is judged: never `Auto`.
    pub fn stream_mode(&self) -> StreamMode {
        match self.actions.stream.mode {
            StreamMode::Auto if self.not_stream_safe().is_none() => StreamMode::Window,
            StreamMode::Auto if self.actions.deny || self.rewriting().is_some() => StreamMode::Hold,
            StreamMode::Auto => StreamMode::After,
            chosen => chosen,
        }
    }
}

/// The mode of a stream that several guardrails judge: one that holds holds it for all. `None`: nothing is judged.
pub fn stream_mode<'g>(guardrails: impl IntoIterator<Item = &'g Guardrail>) -> Option<StreamMode> {
    let modes = guardrails.into_iter().filter(|g| !g.actions.is_async).map(Guardrail::stream_mode);
    modes.reduce(|a, b| match (a, b) {
        (StreamMode::Hold, _) | (_, StreamMode::Hold) => StreamMode::Hold,
        (StreamMode::Window, _) | (_, StreamMode::Window) => StreamMode::Window,
        _ => StreamMode::After,
    })
}
