//! What a caller is held to before it asks for anything: every limit that holds for all its calls, and those of which
//! only a request says whether they hold. Takes nothing; counters are looked at elsewhere.

use crate::entity_limits;
use crate::index::Index;
use crate::meter::LimitKind;
use crate::rule::{Rule, RuleSource, Stage};
use crate::subject::Subject;
use gateway_domain::Timestamp;
use gateway_domain::counters::{CounterOp, Measured, Take};
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::ports::{Holder, KeyLimit};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::policy::{Target, Unit};
use std::sync::Arc;

/// A limit, and how its counter is asked; `None` where the request decides which counter it is.
#[derive(Clone, Debug)]
pub struct Outlook {
    pub limit: KeyLimit,
    pub look: Option<CounterOp>,
}

/// What is the same for every call of a key.
#[derive(Clone, Copy, Debug)]
pub struct KnownCaller<'a> {
    pub key: KeyId,
    pub workspace: WorkspaceId,
    /// Metadata that no request can change.
    pub metadata: &'a [(String, String)],
}

/// Who has limits beside those of policies, such as a key or a provider, and what decides whether they hold.
#[derive(Clone, Debug)]
pub struct BoundHolder {
    pub holder: Holder,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    /// What only a request tells, and what decides whether the limits hold; empty: they hold for every call.
    pub depends_on: Vec<String>,
}

impl Index {
    /// The rate limits and budgets that may hold for this caller: rates first, then budgets, each by policy id.
    pub fn outlook(&self, caller: &KnownCaller<'_>, now: Timestamp) -> Vec<Outlook> {
        let subject = Subject {
            api_key: Some(caller.key),
            workspace: caller.workspace,
            metadata: caller.metadata,
            virtual_key: None,
            provider: None,
            config: None,
            prompt: None,
            model: None,
            endpoint_type: "",
            mcp_server: None,
            mcp_tool: None,
            unread: false,
        };
        self.all().filter_map(|rule| of_rule(rule, &subject, now)).collect()
    }
}

/// `None`: it holds for no call of this caller.
fn of_rule(rule: &Rule, subject: &Subject<'_>, now: Timestamp) -> Option<Outlook> {
    let mut depends_on: Vec<String> = Vec::new();
    let mut unknown = |write: &dyn Fn(&mut String)| {
        let mut name = String::new();
        write(&mut name);
        if !depends_on.contains(&name) {
            depends_on.push(name);
        }
    };
    for test in &rule.tests {
        match subject.see(test.attribute.borrowed()) {
            None => unknown(&|name| test.attribute.write(name)),
            seen if test.holds(seen) => {}
            _ => return None,
        }
    }
    for group in rule.groups.iter().filter(|group| subject.see(group.borrowed()).is_none()) {
        unknown(&|name| group.write(name));
    }
    let counter = rule.counter(subject);
    let look = counter.map(|counter| looked(rule.meter.ask(counter, now, 0)));
    let (name, slug) = rule.source.names();
    let limit = KeyLimit {
        holder: Holder::Policy(rule.source.id()),
        name: name.clone(),
        slug: slug.clone(),
        target: match &rule.source {
            RuleSource::Rate(policy) => policy.rule.target,
            RuleSource::Usage(policy) => policy.rule.target,
        },
        measured: rule.meter.measured,
        unit: unit(rule.meter.kind()),
        limit: rule.meter.limit,
        value_key: if counter.is_some() { rule.value_key(subject) } else { String::new() },
        depends_on,
        count: None,
    };
    debug_assert!(rule.stage != Stage::Tool || limit.target == Target::McpTools, "tools have a stage of their own");
    Some(Outlook { limit, look })
}

/// The rate limits and budgets of one key, workspace, provider or integration.
pub fn outlook_of(of: &BoundHolder, limits: &ResourceLimits, now: Timestamp) -> Vec<Outlook> {
    let made = |measured: Measured, unit, limit: u64, ask: CounterOp| Outlook {
        limit: KeyLimit {
            holder: of.holder,
            name: of.name.clone(),
            slug: of.slug.clone(),
            target: Target::Llm,
            measured,
            unit,
            limit,
            value_key: String::new(),
            depends_on: of.depends_on.clone(),
            count: None,
        },
        look: Some(looked(ask)),
    };
    let rates = limits.rate_limits.iter().map(|limit| {
        let ask = entity_limits::ask(of.holder, limit, now, 0);
        made(ask.measured, Some(limit.unit), ask.limit, ask)
    });
    let budgets = limits.usage_limits.iter().map(|budget| {
        let ask = entity_limits::budget_ask(of.holder, budget, now, 0);
        made(ask.measured, None, ask.limit, ask)
    });
    rates.chain(budgets).collect()
}

const fn looked(ask: CounterOp) -> CounterOp {
    CounterOp { take: Take::Look, amount: 0, ..ask }
}

const fn unit(kind: LimitKind) -> Option<Unit> {
    match kind {
        LimitKind::Rate(unit) => Some(unit),
        LimitKind::Budget => None,
    }
}
