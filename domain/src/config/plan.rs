//! Leads from a compiled config to the targets of one request, one after the other. Pure: the clock, chance, the
//! request and what is remembered of earlier ones are arguments. A plan is a place in the tree, no list: what a
//! request never comes to costs it nothing.

pub use super::request_attributes::RequestAttributes;

use super::breaker::Breaker;
use super::cost::{TRIED, VALUE_TEXT, start};
use super::query::{Effort, QueryValue, written};
use super::tree::{Config, Leaf, Mode, NodeKind, Sticky};

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Where sticky assignments are remembered. Bounded; forgetting one early is allowed.
pub trait Sticks {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize>;
    fn keep(&self, key: u128, place: usize, until_ms: i64);
}

/// All that choosing needs beside the config.
pub struct Asks<'a> {
    /// A number in 0..1 for each weighted choice.
    pub dice: &'a mut dyn FnMut() -> f64,
    pub now_ms: i64,
    pub look: &'a dyn RequestAttributes,
    pub sticks: &'a dyn Sticks,
    /// Those of the config that is chosen by; without them all are closed.
    pub breakers: &'a [Arc<Breaker>],
    /// The tenant that the request belongs to: sticky assignments of one tenant never count for another.
    pub tenant: &'a [u8],
}

impl std::fmt::Debug for Asks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asks").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

/// Why a conditional strategy led to no target; with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTarget {
    /// No condition matched, and there is no default.
    NoMatch(Arc<str>),
    /// Its patterns would take too long for this request.
    TooMuchWork(Arc<str>),
}

/// The target whose turn it is, and the way on from there.
#[derive(Clone, Debug)]
pub struct Plan {
    config: Arc<Config>,
    leaf: Arc<Leaf>,
    at: usize,
    /// Counts targets from 1.
    number: u32,
    /// What conditions may still take, at this and all later targets.
    effort: Effort,
}

impl Plan {
    pub fn begin(config: Arc<Config>, asks: &mut Asks<'_>) -> Result<Self, NoTarget> {
        let mut effort = Effort::default();
        let (at, leaf) = config.first(0, asks, &mut effort)?;
        let leaf = leaf.clone();
        Ok(Self { config, leaf, at, number: 1, effort })
    }

    /// One target and no other, whatever the strategy would say.
    pub fn at(config: Arc<Config>, leaf: Arc<Leaf>) -> Self {
        // The root has nothing beside it to move on to.
        Self { config, leaf, at: 0, number: 1, effort: Effort::default() }
    }

    pub const fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }

    pub const fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Books what the current target answered with its circuit breaker.
    pub fn record(&self, status: u16, now_ms: i64, breakers: &[Arc<Breaker>]) {
        if let Some(breaker) = self.leaf.breaker.and_then(|number| breakers.get(number)) {
            breaker.record(status, now_ms);
        }
    }

    /// Moves to the target that comes after an answer of `status`; false when this answer is the one.
    /// The innermost fallback that has a rule for the status and a target left decides. A gateway exception
    /// ends every fallback, and so does the bound on targets of one request.
    pub fn next(&mut self, status: u16, exception: bool, asks: &mut Asks<'_>) -> bool {
        if exception || self.number >= TRIED {
            return false;
        }
        let nodes = &self.config.nodes;
        let mut child = self.at;
        while child != 0 {
            let (node, parent) = (&nodes[child], nodes[child].parent);
            if let NodeKind::Branch { mode: Mode::Fallback(on), targets } = &nodes[parent].kind
                && moves_on(on.as_deref().or(node.on.as_deref()), status)
            {
                let now = Now { ms: asks.now_ms, breakers: asks.breakers };
                let all = self.config.all_ill(targets, now);
                let later = targets.iter().skip(node.place + 1);
                for target in later.filter(|t| all || !self.config.is_ill(**t, now)) {
                    // A conditional target that matches nothing cannot answer: the next one may.
                    if let Ok((at, leaf)) = self.config.first(*target, asks, &mut self.effort) {
                        (self.leaf, self.at, self.number) = (leaf.clone(), at, self.number + 1);
                        return true;
                    }
                }
            }
            child = parent;
        }
        false
    }
}

/// Which targets are ill is a matter of time.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) ms: i64,
    pub(super) breakers: &'a [Arc<Breaker>],
}

fn moves_on(list: Option<&[u16]>, status: u16) -> bool {
    list.map_or(!(200..300).contains(&status), |list| list.contains(&status))
}

impl Config {
    /// The first target at or below a node.
    fn first(&self, mut at: usize, asks: &mut Asks<'_>, effort: &mut Effort) -> Result<(usize, &Arc<Leaf>), NoTarget> {
        loop {
            let node = &self.nodes[at];
            let (mode, targets) = match &node.kind {
                NodeKind::Leaf(leaf) => return Ok((at, leaf)),
                NodeKind::Branch { mode, targets } => (mode, targets),
            };
            at = match mode {
                Mode::Single => targets[0],
                Mode::Fallback(_) => {
                    let now = Now { ms: asks.now_ms, breakers: asks.breakers };
                    let well = targets.iter().find(|t| !self.is_ill(**t, now));
                    *well.unwrap_or(&targets[0])
                }
                Mode::LoadBalance { total, sticky } => {
                    targets[self.draw(targets, *total, sticky.as_ref(), &node.path, asks)]
                }
                Mode::Conditional { conditions, default } => {
                    let mut place = *default;
                    for (query, then) in conditions {
                        let matched = query.matches(asks.look, effort);
                        if matched.map_err(|_| NoTarget::TooMuchWork(node.path.clone()))? {
                            place = Some(*then);
                            break;
                        }
                    }
                    targets[place.ok_or_else(|| NoTarget::NoMatch(node.path.clone()))?]
                }
            };
        }
    }

    /// The place of the target drawn, among those that are well, or among all when none is.
    fn draw(&self, targets: &[usize], total: f64, sticky: Option<&Sticky>, path: &str, asks: &mut Asks<'_>) -> usize {
        let draw = Draw::of(self, targets, total, Now { ms: asks.now_ms, breakers: asks.breakers });
        let Some(assigned) = sticky.and_then(|sticky| draw.assigned(sticky, path, asks)) else {
            return pick(targets.len(), |place| draw.weight(place), (asks.dice)() * draw.total);
        };
        if let Some(until_ms) = assigned.keep_until {
            asks.sticks.keep(assigned.key, assigned.place, until_ms);
        }
        assigned.place
    }

    /// `None`: the request has none of the fields, and is drawn like any other.
    fn sticky_key(&self, sticky: &Sticky, path: &str, asks: &Asks<'_>) -> Option<u128> {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(asks.tenant);
        part(&self.fingerprint);
        part(path.as_bytes());
        let mut any = false;
        for field in &sticky.fields {
            let found = field.find(asks.look);
            any |= found.is_some();
            match found {
                None => part(b""),
                Some(QueryValue::Text(text)) => part(Value::from(start(text, VALUE_TEXT)).to_string().as_bytes()),
                Some(QueryValue::Json(json)) => part(written(json).as_bytes()),
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        any.then(|| u128::from_le_bytes(std::array::from_fn(|i| digest[i])))
    }

    /// A branch that watches its targets is as ill as all of them.
    pub(super) fn is_ill(&self, at: usize, now: Now<'_>) -> bool {
        if now.breakers.is_empty() {
            return false;
        }
        match &self.nodes[at].kind {
            NodeKind::Leaf(leaf) => {
                let breaker = leaf.breaker.and_then(|number| now.breakers.get(number));
                breaker.is_some_and(|b| b.is_open(now.ms))
            }
            NodeKind::Branch { mode: Mode::Single, targets } => self.is_ill(targets[0], now),
            NodeKind::Branch { mode: Mode::Conditional { .. }, .. } => false,
            NodeKind::Branch { mode: Mode::LoadBalance { .. }, targets } => {
                self.drawable(targets).all(|t| self.is_ill(t, now))
            }
            NodeKind::Branch { mode: Mode::Fallback(_), targets } => self.all_ill(targets, now),
        }
    }

    fn drawable<'t>(&'t self, targets: &'t [usize]) -> impl Iterator<Item = usize> + 't {
        targets.iter().copied().filter(|t| self.nodes[*t].weight > 0.0)
    }

    pub(super) fn all_ill(&self, targets: &[usize], now: Now<'_>) -> bool {
        targets.iter().all(|t| self.is_ill(*t, now))
    }
}

/// A draw among targets: those that are ill weigh nothing, unless all are.
pub(super) struct Draw<'c> {
    config: &'c Config,
    targets: &'c [usize],
    all: bool,
    pub(super) total: f64,
    now: Now<'c>,
}

/// Where stickiness leads, and until when that is to be kept, where nobody knew it.
pub(super) struct Assigned {
    key: u128,
    pub(super) place: usize,
    keep_until: Option<i64>,
}

impl<'c> Draw<'c> {
    /// `total`: what all of them weigh.
    pub(super) fn of(config: &'c Config, targets: &'c [usize], total: f64, now: Now<'c>) -> Self {
        let watched = !now.breakers.is_empty() && targets.iter().any(|t| config.is_ill(*t, now));
        let all = !watched || config.drawable(targets).all(|t| config.is_ill(t, now));
        let mut draw = Self { config, targets, all, total, now };
        if !all {
            draw.total = (0..targets.len()).map(|place| draw.weight(place)).sum();
        }
        draw
    }

    pub(super) fn weight(&self, place: usize) -> f64 {
        let target = self.targets[place];
        if self.all || !self.config.is_ill(target, self.now) { self.config.nodes[target].weight } else { 0.0 }
    }

    /// `None`: the request has none of the fields, and is drawn like any other.
    pub(super) fn assigned(&self, sticky: &Sticky, path: &str, asks: &Asks<'_>) -> Option<Assigned> {
        let key = self.config.sticky_key(sticky, path, asks)?;
        let known = asks.sticks.find(key, self.now.ms);
        if let Some(place) = known.filter(|place| *place < self.targets.len() && self.weight(*place) > 0.0) {
            return Some(Assigned { key, place, keep_until: None });
        }
        let left = point(key, self.now.ms / sticky.ttl_ms) * self.total;
        let place = pick(self.targets.len(), |place| self.weight(place), left);
        Some(Assigned { key, place, keep_until: Some(self.now.ms.saturating_add(sticky.ttl_ms)) })
    }
}

/// The place at which the sum of weights passes `left`.
fn pick(places: usize, weight: impl Fn(usize) -> f64, mut left: f64) -> usize {
    let mut last = 0;
    for place in 0..places {
        let w = weight(place);
        if w > 0.0 {
            left -= w;
            last = place;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// A number in 0..1 from a key and a span of time: nodes that share nothing come to the same.
fn point(key: u128, span: i64) -> f64 {
    let mut hash = Sha256::new();
    hash.update(key.to_le_bytes());
    hash.update(span.to_le_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let bits = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
