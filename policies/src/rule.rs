//! One policy made ready for calls: its conditions, its groups, and the key that its counters go by. Rate limits and
//! budgets differ in their meter alone. Knows no other policy and no counter's state.

use crate::condition::Test;
use crate::counters;
use crate::meter::{LimitKind, RuleMeter};
use crate::subject::{Attribute, AttributeValue, Subject};
use gateway_domain::counters::{CounterKey, Owner};
use gateway_domain::id::PolicyId;
use gateway_domain::ports::Holder;
use gateway_domain::resource::policy::{Condition, GroupBy, Measure, OneOrMany, Target};
use gateway_domain::snapshot::{Policy, UsagePolicy};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// When a policy is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Once per call, before a target is chosen.
    Caller,
    /// Once per target tried: policies with a condition or a group on `virtual_key` or `provider`.
    Target,
    /// Once per tool call: policies whose target is `mcp_tools`, and no others.
    Tool,
}

/// The document that a rule was made from: the same allocation means the same rule.
#[derive(Clone, Debug)]
pub(crate) enum RuleSource {
    Rate(Arc<Policy>),
    Usage(Arc<UsagePolicy>),
}

impl RuleSource {
    pub(crate) fn id(&self) -> PolicyId {
        match self {
            Self::Rate(p) => p.id,
            Self::Usage(p) => p.id,
        }
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rate(a), Self::Rate(b)) => Arc::ptr_eq(a, b),
            (Self::Usage(a), Self::Usage(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Name and slug.
    pub(crate) fn names(&self) -> (&Arc<str>, &Arc<str>) {
        match self {
            Self::Rate(p) => (&p.name, &p.slug),
            Self::Usage(p) => (&p.name, &p.slug),
        }
    }

    fn matching(&self) -> (&[Condition], &[GroupBy]) {
        match self {
            Self::Rate(p) => (&p.rule.conditions, &p.rule.group_by),
            Self::Usage(p) => (&p.rule.conditions, &p.rule.group_by),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) source: RuleSource,
    pub(crate) stage: Stage,
    pub(crate) tests: Box<[Test]>,
    /// Sorted, each once.
    pub(crate) groups: Box<[Attribute]>,
    pub(crate) meter: RuleMeter,
    key: CounterKey,
    /// The owner of a budget without groups, which is the same for every call.
    owner: Option<Arc<Owner>>,
}

impl Rule {
    /// `None` for a key that a newer version may know.
    pub(crate) fn compile(source: &RuleSource) -> Option<Self> {
        let (target, meter) = match source {
            RuleSource::Rate(p) => (p.rule.target, RuleMeter::of_rate(&p.rule)),
            RuleSource::Usage(p) => (p.rule.target, RuleMeter::of_usage(&p.rule)),
        };
        let (conditions, group_by) = source.matching();
        let tests = conditions.iter().map(Test::compile).collect::<Option<Box<[_]>>>()?;
        let mut groups = group_by.iter().map(|g| Attribute::parse(&g.key)).collect::<Option<Vec<_>>>()?;
        groups.sort_unstable();
        groups.dedup();
        let mut asked = tests.iter().map(|t| &t.attribute).chain(&groups);
        let stage = match target {
            Target::McpTools => Stage::Tool,
            Target::Llm if asked.any(Attribute::of_target) => Stage::Target,
            Target::Llm => Stage::Caller,
        };
        let alone = || Arc::new(Owner { holder: Holder::Policy(source.id()), value_key: Box::default() });
        let owner = (meter.kind() == LimitKind::Budget && groups.is_empty()).then(alone);
        Some(Self {
            stage,
            tests,
            groups: groups.into(),
            meter,
            key: fingerprint(source),
            source: source.clone(),
            owner,
        })
    }

    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        self.tests.iter().all(|t| t.holds(subject.see(t.attribute.borrowed())))
    }

    /// The counter of the subject's group. `None` when a value to group by is missing: the policy does not apply.
    pub(crate) fn counter(&self, subject: &Subject<'_>) -> Option<CounterKey> {
        match &*self.groups {
            [] => Some(self.key),
            [group] => match subject.see(group.borrowed())? {
                AttributeValue::Id(id) => counters::of(self.key, id, || self.hashed(subject)),
                _ => self.hashed(subject),
            },
            _ => self.hashed(subject),
        }
    }

    fn hashed(&self, subject: &Subject<'_>) -> Option<CounterKey> {
        let mut hash = Sha256::new();
        hash.update(self.key.0.to_be_bytes());
        hash.update(self.key.1.to_be_bytes());
        for group in &self.groups {
            match subject.see(group.borrowed())? {
                AttributeValue::Text(text) => add(&mut hash, b't', text.as_bytes()),
                AttributeValue::Id(id) => add(&mut hash, b'i', id.as_bytes()),
                // One group of their own: whoever hides the model still shares a limit.
                AttributeValue::Unread => add(&mut hash, b'u', &[]),
            }
        }
        Some(cut(hash))
    }

    /// The owner of the budget that is counted for the subject's group; `None` for rate limits, which nobody lists.
    pub(crate) fn owner(&self, subject: &Subject<'_>) -> Option<Arc<Owner>> {
        if self.meter.kind() != LimitKind::Budget || self.owner.is_some() {
            return self.owner.clone();
        }
        let value_key = self.value_key(subject).into();
        Some(Arc::new(Owner { holder: Holder::Policy(self.source.id()), value_key }))
    }

    /// The subject's group in words; empty where nothing is grouped by.
    pub(crate) fn value_key(&self, subject: &Subject<'_>) -> String {
        let mut value_key = String::new();
        for group in &self.groups {
            if !value_key.is_empty() {
                value_key.push(',');
            }
            group.write(&mut value_key);
            value_key.push(':');
            match subject.see(group.borrowed()) {
                Some(AttributeValue::Text(text)) => value_key.push_str(text),
                Some(AttributeValue::Id(id)) => {
                    value_key.push_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
                }
                Some(AttributeValue::Unread) | None => value_key.push('?'),
            }
        }
        value_key
    }
}

/// A digest of everything whose change starts a new count. The value is not part of it: raising a limit must not forget
/// what was used.
fn fingerprint(source: &RuleSource) -> CounterKey {
    let mut hash = Sha256::new();
    add(&mut hash, b'p', source.id().0.as_bytes());
    match source {
        RuleSource::Rate(policy) => {
            let measure: &[u8] = match policy.rule.measure {
                Measure::Requests => b"requests",
                Measure::Tokens => b"tokens",
            };
            add(&mut hash, b'm', measure);
            add(&mut hash, b'u', policy.rule.unit.name().as_bytes());
        }
        // Its period is told by the slot: one that is replaced by another of the same beginning goes on.
        RuleSource::Usage(policy) => add(&mut hash, b'b', policy.rule.budget.spend.name().as_bytes()),
    }
    let (conditions, group_by) = source.matching();
    let mut conditions: Vec<_> = conditions.iter().map(canonical).collect();
    conditions.sort_unstable();
    for CanonicalCondition { key, value, excludes } in conditions {
        add(&mut hash, b'c', key.as_bytes());
        value.into_iter().for_each(|v| add(&mut hash, b'v', v.as_bytes()));
        excludes.into_iter().for_each(|x| add(&mut hash, b'x', x.as_bytes()));
    }
    let mut groups: Vec<&str> = group_by.iter().map(|g| g.key.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().for_each(|g| add(&mut hash, b'g', g.as_bytes()));
    cut(hash)
}

/// Order and spelling (`"a"` or `["a"]`) do not change what a condition means.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CanonicalCondition<'a> {
    key: &'a str,
    value: Vec<&'a str>,
    excludes: Vec<&'a str>,
}

fn canonical(condition: &Condition) -> CanonicalCondition<'_> {
    let [value, excludes] = [&condition.value, &condition.excludes].map(|list| sorted(list.as_ref()));
    CanonicalCondition { key: &condition.key, value, excludes }
}

fn sorted(list: Option<&OneOrMany>) -> Vec<&str> {
    let mut items: Vec<&str> = list.map(OneOrMany::as_slice).unwrap_or_default().iter().map(String::as_str).collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// Hashes a field with its length before it, so that no two lists of fields run together into the same bytes.
fn add(hash: &mut Sha256, tag: u8, field: &[u8]) {
    hash.update([tag]);
    hash.update((field.len() as u64).to_be_bytes());
    hash.update(field);
}

/// Cut from a SHA-256, so that no caller can aim at another's counter by its choice of group values, and every
/// node finds the same one.
fn cut(hash: Sha256) -> CounterKey {
    CounterKey::of(hash.finalize().iter().take(16).fold(0, |key, byte| key << 8 | u128::from(*byte)))
}
