//! All targets that a request may come to, with the chance of each and why: for whoever asks what would become of a
//! request. It goes by what plans go by, but draws nothing and remembers nothing.

use super::plan::{Asks, Draw, NoTarget, Now};
use crate::config::query::Effort;
use crate::config::tree::{Config, Leaf, Mode, NodeKind};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Prospect {
    pub leaf: Arc<Leaf>,
    /// That it is the target that is tried first, 0..=1.
    pub chance: f64,
    /// Whether it may have its turn after another one's failure.
    pub later: bool,
    /// What leads to it, or past it, from the root down.
    pub why: Vec<String>,
}

/// A node that is still to be looked into.
struct ForkedPath {
    at: usize,
    chance: f64,
    later: bool,
    why: Vec<String>,
}

impl ForkedPath {
    fn on(&self, at: usize, (chance, later): (f64, bool), why: String) -> Self {
        let why = self.why.iter().cloned().chain(Some(why)).collect();
        Self { at, chance, later, why }
    }
}

impl Config {
    /// All targets in the order of the document, each with its chance. Where these add up to less than 1, the rest is
    /// the chance of coming to no target.
    pub fn prospects(&self, asks: &mut Asks<'_>) -> Result<Vec<Prospect>, NoTarget> {
        let mut effort = Effort::default();
        let mut found = Vec::new();
        let mut open = vec![ForkedPath { at: 0, chance: 1.0, later: false, why: Vec::new() }];
        while let Some(branch) = open.pop() {
            let node = &self.nodes[branch.at];
            let (mode, targets) = match &node.kind {
                NodeKind::Branch { mode, targets } => (mode, targets),
                NodeKind::Leaf(leaf) => {
                    let ForkedPath { chance, later, why, .. } = branch;
                    found.push(Prospect { leaf: leaf.clone(), chance, later, why });
                    continue;
                }
            };
            let path = &node.path;
            let mut next: Vec<ForkedPath> = match mode {
                Mode::Single => {
                    vec![branch.on(targets[0], (branch.chance, branch.later), format!("{path}: single"))]
                }
                Mode::Fallback(on) => self.in_turn(&branch, on.as_deref(), asks),
                Mode::LoadBalance { total, sticky } => {
                    let now = Now { ms: asks.now_ms, breakers: asks.breakers };
                    let draw = Draw::of(self, targets, *total, now);
                    let assigned = sticky.as_ref().and_then(|sticky| draw.assigned(sticky, path, asks));
                    let share = |place: usize| match &assigned {
                        Some(assigned) => f64::from(u8::from(assigned.place == place)),
                        None if draw.total > 0.0 => draw.weight(place) / draw.total,
                        None => 0.0,
                    };
                    let why = |place: usize| {
                        let (weight, total) = (self.nodes[targets[place]].weight, draw.total);
                        match &assigned {
                            Some(assigned) if assigned.place == place => {
                                format!("{path}: loadbalance, sticky fields of the request lead here")
                            }
                            Some(_) => format!("{path}: loadbalance, sticky fields of the request lead elsewhere"),
                            None if weight > 0.0 && draw.weight(place) <= 0.0 => {
                                format!("{path}: loadbalance, passed over: its circuit breaker is open")
                            }
                            None => format!("{path}: loadbalance, weight {weight} of {total}"),
                        }
                    };
                    let each = |place: usize| {
                        let share = share(place);
                        branch.on(targets[place], (branch.chance * share, branch.later && share > 0.0), why(place))
                    };
                    (0..targets.len()).map(each).collect()
                }
                Mode::Conditional { conditions, default } => {
                    let mut matched = None;
                    for (number, (query, then)) in conditions.iter().enumerate() {
                        let is_met = query.matches(asks.look, &mut effort);
                        if is_met.map_err(|_| NoTarget::TooMuchWork(path.clone()))? {
                            matched = Some((*then, format!("{path}: conditions[{number}] is the first that matches")));
                            break;
                        }
                    }
                    let otherwise =
                        || Some((((*default)?), format!("{path}: no condition matches, this is the default")));
                    let Some((chosen, why)) = matched.or_else(otherwise) else {
                        if branch.chance >= 1.0 {
                            return Err(NoTarget::NoMatch(path.clone()));
                        }
                        continue;
                    };
                    let each = |place: usize| match place == chosen {
                        true => branch.on(targets[place], (branch.chance, branch.later), why.clone()),
                        false => {
                            branch.on(targets[place], (0.0, false), format!("{path}: its conditions do not decide"))
                        }
                    };
                    (0..targets.len()).map(each).collect()
                }
            };
            next.reverse();
            open.append(&mut next);
        }
        Ok(found)
    }

    /// The targets of a fallback: the first that is well, and those that come after it.
    fn in_turn(&self, branch: &ForkedPath, on: Option<&[u16]>, asks: &Asks<'_>) -> Vec<ForkedPath> {
        let NodeKind::Branch { targets, .. } = &self.nodes[branch.at].kind else { return Vec::new() };
        let (path, now) = (&self.nodes[branch.at].path, Now { ms: asks.now_ms, breakers: asks.breakers });
        let first = targets.iter().position(|target| !self.is_ill(*target, now)).unwrap_or(0);
        let all = self.all_ill(targets, now);
        let when = on.map_or_else(|| "any status but 2xx".to_owned(), |list| format!("one of {list:?}"));
        let each = |(place, target): (usize, &usize)| {
            let ill = !all && self.is_ill(*target, now);
            let may = branch.chance > 0.0 || branch.later;
            match place {
                place if place == first => branch.on(
                    *target,
                    (branch.chance, branch.later),
                    format!("{path}: fallback, the first that is well"),
                ),
                place if place > first && !ill => {
                    branch.on(*target, (0.0, may), format!("{path}: fallback, after {when} of the one before it"))
                }
                _ => branch.on(
                    *target,
                    (0.0, false),
                    format!("{path}: fallback, passed over: its circuit breaker is open"),
                ),
            }
        };
        targets.iter().enumerate().map(each).collect()
    }
}
