//! What a compilation has found so far: the parts of the tree, the problems with their places, and what all of it
//! costs. The files beside it read one area of the document each, and put down here what they find.

use super::cost::{Cost, PROBLEMS, Spent, start};
use super::hooks::HookSet;
use super::place::At;
use super::tree::{ConfigNode, Guarded};
use crate::egress::Trusted;
use crate::secret::Secret;

/// One broken rule: `path` as keys and indices, `message` the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub path: String,
    pub message: String,
}

impl ConfigProblem {
    /// One line that names the place and the rule, as refusals list it.
    pub fn line(&self) -> String {
        format!("path: {}, message: {}", self.path, self.message)
    }
}

/// What compilation needs of its surroundings.
pub struct Context<'a> {
    pub known_provider: &'a dyn Fn(&str) -> bool,
    pub trusted: &'a Trusted,
    /// Opens a stored credential; for inline configs, hands the text back.
    pub open: &'a dyn Fn(&str) -> Option<Secret<String>>,
    /// Whether it is a saved config: its custom host may meet a managed credential, and its bounds are wider.
    pub saved: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("saved", &self.saved).finish_non_exhaustive()
    }
}

/// A message that quotes what a client wrote is cut off here.
const LONGEST: usize = 256;

pub(super) struct Compiler<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) problems: Vec<ConfigProblem>,
    /// Problems that were found beside those.
    pub(super) untold: usize,
    pub(super) spent: Spent,
    pub(super) hook_sets: Vec<HookSet>,
    pub(super) nodes: Vec<ConfigNode>,
    pub(super) guarded: Vec<Guarded>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        let (problems, spent) = (Vec::new(), Spent::default());
        let hook_sets = Vec::new();
        Self { context, problems, untold: 0, spent, hook_sets, nodes: Vec::new(), guarded: Vec::new() }
    }

    /// What was found wrong, if anything was.
    pub(super) fn verdict(mut self) -> Vec<ConfigProblem> {
        if self.untold > 0 {
            let message = format!("and {} more problems", self.untold);
            self.problems.push(ConfigProblem { path: "config".to_owned(), message });
        }
        self.problems
    }

    /// A broken rule of the key `step` of the object at `at`.
    pub(super) fn problem(&mut self, at: &At<'_>, step: &str, message: impl Into<String>) {
        self.here(&at.then(step), message);
    }

    /// A broken rule of the value at `at` itself.
    pub(super) fn here(&mut self, at: &At<'_>, message: impl Into<String>) {
        if self.problems.len() >= PROBLEMS {
            self.untold += 1;
            return;
        }
        let message: String = message.into();
        let message = if message.len() <= LONGEST { message } else { format!("{}…", start(&message, LONGEST)) };
        self.problems.push(ConfigProblem { path: at.path(), message });
    }

    /// Counts what stands at `at`. False when that is beyond the bound: what costs more is not begun then. The rule is
    /// told once.
    pub(super) fn spend(&mut self, at: &At<'_>, cost: Cost, amount: usize) -> bool {
        let (saved, spent) = (self.context.saved, &mut self.spent.0[cost as usize]);
        let (most, before) = (cost.most(saved), *spent);
        *spent = before.saturating_add(amount);
        let within = *spent <= most;
        if before <= most && !within {
            self.here(at, cost.rule(saved).to_string());
        }
        within
    }
}
