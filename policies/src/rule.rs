//! One policy made ready for calls: its conditions, its groups, and the key that its counters go by.
//! Knows no other policy and no counter's state.

use crate::condition::Test;
use crate::meter::Meter;
use crate::subject::{Attribute, Seen, Subject};
use gateway_domain::counters::CounterKey;
use gateway_domain::resource::Invalid;
use gateway_domain::resource::limits::Limits;
use gateway_domain::resource::policy::{Condition, Measure, OneOrMany, RateLimitPolicy, Target, UsageLimitPolicy};
use gateway_domain::snapshot::Policy;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// When a policy is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Once per call, before a target is chosen.
    Caller,
    /// Once per target tried: policies with a condition or a group on `virtual_key` or `provider`.
    Target,
}

/// What the Admin API must not save yet, since no call would ever be held to it.
pub fn supported(rule: &RateLimitPolicy) -> Result<(), Invalid> {
    const LATER: &str = "is not available in this version";
    if rule.target == Target::McpTools {
        return Err(Invalid::new("target", format!("mcp_tools {LATER}")));
    }
    let conditions = rule.conditions.iter().map(|c| c.key.as_str()).enumerate();
    let groups = rule.group_by.iter().map(|g| g.key.as_str()).enumerate();
    let keys = conditions.map(|(i, k)| ("conditions", i, k)).chain(groups.map(|(i, k)| ("group_by", i, k)));
    for (list, i, key) in keys {
        if matches!(key, "prompt" | "mcp_server" | "mcp_tool") {
            return Err(Invalid::new(format!("{list}[{i}].key"), format!("{key} {LATER}")));
        }
    }
    Ok(())
}

/// As [`supported`], of usage limits.
pub fn supported_usage(_rule: &UsageLimitPolicy) -> Result<(), Invalid> {
    Err(Invalid::new("type", "is not available in this version"))
}

/// As [`supported`], of what a key, workspace, provider or integration is limited to.
pub fn supported_limits(limits: &Limits) -> Result<(), Invalid> {
    if limits.usage_limits.is_empty() {
        return Ok(());
    }
    Err(Invalid::new("usage_limits", "is not available in this version"))
}

/// As [`supported`], of what a token says that it is limited to.
pub fn supported_claims(limits: &Limits) -> Result<(), Invalid> {
    if limits.rate_limits.is_empty() {
        return supported_limits(limits);
    }
    Err(Invalid::new("rate_limits", "is not available in this version"))
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Arc<Policy>,
    pub(crate) stage: Stage,
    pub(crate) tests: Box<[Test]>,
    /// Sorted, each once.
    pub(crate) groups: Box<[Attribute]>,
    pub(crate) meter: Meter,
    key: CounterKey,
}

impl Rule {
    /// `None` for what is not counted here: policies of tool calls.
    pub(crate) fn compile(policy: &Arc<Policy>) -> Option<Self> {
        let rule = &policy.rule;
        if rule.target != Target::Llm {
            return None;
        }
        let tests = rule.conditions.iter().map(Test::compile).collect::<Option<Box<[_]>>>()?;
        let mut groups = rule.group_by.iter().map(|g| Attribute::parse(&g.key)).collect::<Option<Vec<_>>>()?;
        groups.sort_unstable();
        groups.dedup();
        let mut asked = tests.iter().map(|t| &t.attribute).chain(&groups);
        let stage = if asked.any(Attribute::of_target) { Stage::Target } else { Stage::Caller };
        Some(Self {
            stage,
            tests,
            groups: groups.into(),
            meter: Meter::of_rate(rule),
            key: fingerprint(policy),
            policy: policy.clone(),
        })
    }

    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        self.tests.iter().all(|t| t.holds(subject.see(t.attribute.borrowed())))
    }

    /// The counter of the subject's group. `None` when a value to group by is missing: the policy does not apply.
    pub(crate) fn counter(&self, subject: &Subject<'_>) -> Option<CounterKey> {
        if self.groups.is_empty() {
            return Some(self.key);
        }
        let mut hash = Sha256::new();
        hash.update(self.key.0.to_be_bytes());
        hash.update(self.key.1.to_be_bytes());
        for group in &self.groups {
            match subject.see(group.borrowed())? {
                Seen::Text(text) => add(&mut hash, b't', text.as_bytes()),
                Seen::Id(id) => add(&mut hash, b'i', id.as_bytes()),
                // One group of their own: whoever hides the model still shares a limit.
                Seen::Unread => add(&mut hash, b'u', &[]),
            }
        }
        Some(cut(hash))
    }
}

/// Of everything whose change starts a new count. The value is not part of it: raising a limit must not
/// forget what was used.
fn fingerprint(policy: &Policy) -> CounterKey {
    let rule = &policy.rule;
    let mut hash = Sha256::new();
    add(&mut hash, b'p', policy.id.0.as_bytes());
    let measure: &[u8] = match rule.measure {
        Measure::Requests => b"requests",
        Measure::Tokens => b"tokens",
    };
    add(&mut hash, b'm', measure);
    add(&mut hash, b'u', rule.unit.name().as_bytes());
    let mut conditions: Vec<_> = rule.conditions.iter().map(canonical).collect();
    conditions.sort_unstable();
    for (key, value, excludes) in conditions {
        add(&mut hash, b'c', key.as_bytes());
        value.into_iter().for_each(|v| add(&mut hash, b'v', v.as_bytes()));
        excludes.into_iter().for_each(|x| add(&mut hash, b'x', x.as_bytes()));
    }
    let mut groups: Vec<&str> = rule.group_by.iter().map(|g| g.key.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().for_each(|g| add(&mut hash, b'g', g.as_bytes()));
    cut(hash)
}

/// Order and spelling (`"a"` or `["a"]`) do not change what a condition means.
fn canonical(condition: &Condition) -> (&str, Vec<&str>, Vec<&str>) {
    (&condition.key, sorted(condition.value.as_ref()), sorted(condition.excludes.as_ref()))
}

fn sorted(list: Option<&OneOrMany>) -> Vec<&str> {
    let mut items: Vec<&str> = list.map(OneOrMany::as_slice).unwrap_or_default().iter().map(String::as_str).collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// With its length before it, so that no two lists of fields run together into the same bytes.
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
