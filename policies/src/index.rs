//! Which policies a call has to look at, found by its own values: each policy lies in the bucket of its most
//! selective condition, so that a call never meets the others however many there are.
//! Immutable once made; knows no counter's state.

mod buckets;

use crate::rule::{Rule, RuleSource, Stage};
use crate::subject::{Attribute, AttributeValue, Subject};
use buckets::{Anchor, Buckets, Population};
use gateway_domain::counters::CounterKey;
use gateway_domain::id::PolicyId;
use gateway_domain::snapshot::{Policy, UsagePolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

type RatePolicies = BTreeMap<PolicyId, Arc<Policy>>;
type Usages = BTreeMap<PolicyId, Arc<UsagePolicy>>;

/// The policies of one workspace, ready for calls. Made with the snapshot.
#[derive(Debug, Default)]
pub struct Index {
    /// Rate limits, then budgets, each sorted by policy id.
    rules: Vec<Arc<Rule>>,
    /// How many of them are rate limits.
    rates: usize,
    caller: PolicyFinder,
    target: PolicyFinder,
    tool: PolicyFinder,
}

impl Index {
    pub fn build(rates: &RatePolicies, usages: &Usages) -> Self {
        Self::default().rebuild(rates, usages)
    }

    /// Makes what [`Self::build`] makes, sparing the work for policies that did not change since `self` was made.
    #[must_use]
    pub fn rebuild(&self, rates: &RatePolicies, usages: &Usages) -> Self {
        let (old_rates, old_usages) = self.rules.split_at(self.rates);
        let counted = rates.values().filter_map(|p| compiled(old_rates, &RuleSource::Rate(p.clone())));
        let mut rules: Vec<_> = counted.collect();
        let first = rules.len();
        rules.extend(usages.values().filter_map(|p| compiled(old_usages, &RuleSource::Usage(p.clone()))));
        let of = |stage| PolicyFinder::build(&rules, stage);
        let (caller, target, tool) = (of(Stage::Caller), of(Stage::Target), of(Stage::Tool));
        Self { caller, target, tool, rates: first, rules }
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Hands over every policy that matches, with its number and its counter; some perhaps more than once.
    pub(crate) fn visit(&self, stage: Stage, subject: &Subject<'_>, mut each: impl FnMut(u32, &Rule, CounterKey)) {
        let finder = match stage {
            Stage::Caller => &self.caller,
            Stage::Target => &self.target,
            Stage::Tool => &self.tool,
        };
        finder.visit(subject, |at| {
            let rule = &self.rules[at as usize];
            if rule.matches(subject)
                && let Some(counter) = rule.counter(subject)
            {
                each(at, rule, counter);
            }
        });
    }

    /// Rate limits, then budgets.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|rule| &**rule)
    }

    pub(crate) fn rule(&self, at: u32) -> Option<&Rule> {
        self.rules.get(at as usize).map(|r| &**r)
    }
}

fn compiled(old: &[Arc<Rule>], source: &RuleSource) -> Option<Arc<Rule>> {
    let known = old.binary_search_by_key(&source.id(), |r| r.source.id()).ok().map(|at| &old[at]);
    match known {
        Some(known) if known.source.same(source) => Some(known.clone()),
        _ => Rule::compile(source).map(Arc::new),
    }
}

/// The policies of one stage.
#[derive(Debug, Default)]
struct PolicyFinder {
    /// Found by something else than the model.
    plain: Buckets,
    /// Found by the model's name.
    by_model: Buckets,
    /// Those of `by_model` once more, found by what else they ask: for calls whose model nobody read.
    unread: Buckets,
}

impl PolicyFinder {
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
                open.min_by_key(|p| population.cost(&p.anchors)).unwrap_or_else(AnchorSet::everywhere)
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
        let unread = subject.see(Attribute::Model) == Some(AttributeValue::Unread);
        let rest = if unread { &self.unread } else { &self.by_model };
        rest.visit(subject, &mut each);
    }
}

/// One way to find a policy: whoever matches it has at least one of these anchors.
struct AnchorSet<'a> {
    anchors: Vec<Anchor<'a>>,
    by_model: bool,
}

impl AnchorSet<'_> {
    fn everywhere() -> Self {
        Self { anchors: vec![Anchor::All], by_model: false }
    }
}

/// One for each condition, and one for each value to group by, without which a policy does not apply.
fn places(rule: &Rule) -> impl Iterator<Item = AnchorSet<'_>> {
    let tests = rule.tests.iter().map(|test| {
        let attribute = test.attribute.borrowed();
        let anchors = match &test.among {
            Some(v) if !v.any && v.globs.iter().all(|g| !g.prefix().is_empty()) => {
                let ids = v.ids.iter().map(|id| Anchor::Is(attribute, AttributeValue::Id(*id)));
                let texts = v.texts.iter().map(|text| Anchor::Is(attribute, AttributeValue::Text(text)));
                let globs = v.globs.iter().map(|g| Anchor::ModelStarts(g.prefix()));
                ids.chain(texts).chain(globs).collect()
            }
            _ => vec![Anchor::Has(attribute)],
        };
        (attribute, anchors)
    });
    let groups = rule.groups.iter().map(|g| (g.borrowed(), vec![Anchor::Has(g.borrowed())]));
    tests.chain(groups).map(|(attribute, anchors)| AnchorSet { anchors, by_model: attribute == Attribute::Model })
}
