//! Which policies a call has to look at, found by its own values: each policy lies in the bucket of its most
//! selective condition, so that a call never meets the others however many there are.
//! Immutable once made; knows no counter's state.

mod buckets;

use crate::meter::Meter;
use crate::rule::{Rule, Stage};
use crate::subject::{Attribute, Seen, Subject};
use buckets::{Anchor, Buckets, Population};
use gateway_domain::counters::CounterKey;
use gateway_domain::id::PolicyId;
use gateway_domain::snapshot::Policy;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The policies of one workspace, ready for calls. Made with the snapshot.
#[derive(Debug, Default)]
pub struct Index {
    /// Sorted by policy id.
    rules: Vec<Arc<Rule>>,
    caller: Finder,
    target: Finder,
    uncounted: usize,
}

impl Index {
    pub fn build(policies: &BTreeMap<PolicyId, Arc<Policy>>) -> Self {
        Self::default().rebuild(policies)
    }

    /// The same as [`Self::build`], sparing the work for policies that did not change since `self` was made.
    #[must_use]
    pub fn rebuild(&self, policies: &BTreeMap<PolicyId, Arc<Policy>>) -> Self {
        let rules: Vec<_> = policies.values().filter_map(|p| self.compiled(p)).collect();
        let of = |stage| Finder::build(&rules, stage);
        let (caller, target) = (of(Stage::Caller), of(Stage::Target));
        Self { caller, target, uncounted: policies.len() - rules.len(), rules }
    }

    fn compiled(&self, policy: &Arc<Policy>) -> Option<Arc<Rule>> {
        let old = self.rules.binary_search_by_key(&policy.id, |r| r.policy.id).ok().map(|at| &self.rules[at]);
        match old {
            Some(old) if Arc::ptr_eq(&old.policy, policy) => Some(old.clone()),
            _ => Rule::compile(policy).map(Arc::new),
        }
    }

    /// Policies that this engine does not count, such as those of tool calls.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Hands over every policy that matches, with its number and its counter; some perhaps more than once.
    pub(crate) fn visit(&self, stage: Stage, subject: &Subject<'_>, mut each: impl FnMut(u32, &Meter, CounterKey)) {
        let finder = match stage {
            Stage::Caller => &self.caller,
            Stage::Target => &self.target,
        };
        finder.visit(subject, |at| {
            let rule = &self.rules[at as usize];
            if rule.matches(subject)
                && let Some(counter) = rule.counter(subject)
            {
                each(at, &rule.meter, counter);
            }
        });
    }

    pub(crate) fn rule(&self, at: u32) -> Option<&Rule> {
        self.rules.get(at as usize).map(|r| &**r)
    }
}

/// The policies of one stage.
#[derive(Debug, Default)]
struct Finder {
    /// Found by something else than the model.
    plain: Buckets,
    /// Found by the model's name.
    by_model: Buckets,
    /// Those of `by_model` once more, found by what else they ask: for calls whose model nobody read.
    unread: Buckets,
}

impl Finder {
    fn build(rules: &[Arc<Rule>], stage: Stage) -> Self {
        let numbered = || (0_u32..).zip(rules).filter(|(_, r)| r.stage == stage);
        let mut population = Population::default();
        for (_, rule) in numbered() {
            places(rule).for_each(|place| population.add(&place.anchors));
        }
        let mut finder = Self::default();
        for (at, rule) in numbered() {
            let best = |any_model: bool| {
                let open = places(rule).filter(|p| any_model || !p.by_model);
                open.min_by_key(|p| population.cost(&p.anchors)).unwrap_or_else(Place::everywhere)
            };
            let place = best(true);
            if place.by_model {
                finder.by_model.put(at, &place.anchors);
                finder.unread.put(at, &best(false).anchors);
            } else {
                finder.plain.put(at, &place.anchors);
            }
        }
        finder
    }

    fn visit(&self, subject: &Subject<'_>, mut each: impl FnMut(u32)) {
        self.plain.visit(subject, &mut each);
        let unread = subject.see(Attribute::Model) == Some(Seen::Unread);
        let rest = if unread { &self.unread } else { &self.by_model };
        rest.visit(subject, &mut each);
    }
}

/// One way to find a policy: whoever matches it has at least one of these anchors.
struct Place<'a> {
    anchors: Vec<Anchor<'a>>,
    by_model: bool,
}

impl Place<'_> {
    fn everywhere() -> Self {
        Self { anchors: vec![Anchor::All], by_model: false }
    }
}

/// One for each condition, and one for each value to group by, without which a policy does not apply.
fn places(rule: &Rule) -> impl Iterator<Item = Place<'_>> {
    let tests = rule.tests.iter().map(|test| {
        let attribute = test.attribute.borrowed();
        let anchors = match &test.among {
            Some(v) if !v.any && v.globs.iter().all(|g| !g.prefix().is_empty()) => {
                let ids = v.ids.iter().map(|id| Anchor::Is(attribute, Seen::Id(*id)));
                let texts = v.texts.iter().map(|text| Anchor::Is(attribute, Seen::Text(text)));
                let globs = v.globs.iter().map(|g| Anchor::ModelStarts(g.prefix()));
                ids.chain(texts).chain(globs).collect()
            }
            _ => vec![Anchor::Has(attribute)],
        };
        (attribute, anchors)
    });
    let groups = rule.groups.iter().map(|g| (g.borrowed(), vec![Anchor::Has(g.borrowed())]));
    tests.chain(groups).map(|(attribute, anchors)| Place { anchors, by_model: attribute == Attribute::Model })
}
