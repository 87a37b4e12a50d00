//! Policies from JSON, and a call in whose attributes a test changes what it is about.

use crate::{Denied, Estimate, Hold, Index, Ledger, ReservationRequest, Stage, Subject};
use gateway_domain::Timestamp;
use gateway_domain::counters::Counters;
use gateway_domain::id::{KeyId, PolicyId, WorkspaceId};
use gateway_domain::snapshot::{Policy, UsagePolicy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

pub(super) const KEY: &str = "0191e0a0-0000-7000-8000-00000000000a";
pub(super) const WORKSPACE: &str = "0191e0a0-0000-7000-8000-0000000000f0";

/// A Wednesday morning.
pub(super) const NOW: Timestamp = Timestamp(1_794_997_230_000_000);

pub(super) fn policy(n: u128, rule: &Value) -> Arc<Policy> {
    let rule = serde_json::from_value(rule.clone()).unwrap();
    Arc::new(Policy {
        id: PolicyId(Uuid::from_u128(n)),
        name: format!("Policy {n}").into(),
        slug: format!("policy-{n}").into(),
        revision: 1,
        rule,
    })
}

pub(super) fn requests(unit: &str, value: u64, conditions: &Value, group_by: &[&str]) -> Value {
    let groups: Vec<_> = group_by.iter().map(|key| json!({ "key": key })).collect();
    json!({"type": "requests", "unit": unit, "value": value, "conditions": conditions, "group_by": groups})
}

/// Numbered from 1.
pub(super) fn policies(rules: &[Value]) -> BTreeMap<PolicyId, Arc<Policy>> {
    (1..).zip(rules).map(|(n, rule)| policy(n, rule)).map(|p| (p.id, p)).collect()
}

pub(super) fn index(rules: &[Value]) -> Index {
    Index::build(&policies(rules), &BTreeMap::new())
}

/// Usage limits, numbered from 1.
pub(super) fn usage_index(rules: &[Value]) -> Index {
    let made = |(n, rule): (u128, &Value)| {
        let rule = serde_json::from_value(rule.clone()).unwrap();
        let (name, slug) = (format!("Usage {n}").into(), format!("usage-{n}").into());
        let id = PolicyId(Uuid::from_u128(n));
        (id, Arc::new(UsagePolicy { id, name, slug, revision: 1, rule }))
    };
    Index::build(&BTreeMap::new(), &(1..).zip(rules).map(made).collect())
}

pub(super) fn subject<'a>() -> Subject<'a> {
    Subject {
        api_key: Some(KeyId(Uuid::parse_str(KEY).unwrap())),
        workspace: WorkspaceId(Uuid::parse_str(WORKSPACE).unwrap()),
        metadata: &[],
        virtual_key: None,
        provider: None,
        config: None,
        prompt: None,
        model: Some("gpt-4o"),
        endpoint_type: "chatComplete",
        mcp_server: None,
        mcp_tool: None,
        unread: false,
    }
}

pub(super) fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

pub(super) fn seconds(n: i64) -> Timestamp {
    NOW.plus_micros(n * 1_000_000)
}

/// Slugs of the policies that a call is held to.
pub(super) fn found(index: &Index, stage: Stage, subject: &Subject<'_>) -> Vec<String> {
    let mut wants = ReservationRequest::default();
    wants.gather(index, stage, subject, NOW);
    wants.asks().iter().map(|a| index.rule(a.tag).unwrap().source.names().1.to_string()).collect()
}

/// The ledger, asked as the proxy asks it.
#[derive(Default)]
pub(super) struct Engine {
    pub(super) ledger: Arc<Ledger>,
}

impl std::ops::Deref for Engine {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Engine {
    pub(super) fn new(capacity: usize) -> Self {
        Self { ledger: Arc::new(Ledger::new(capacity)) }
    }

    pub(super) fn ask(
        &self,
        index: &Index,
        stage: Stage,
        subject: &Subject<'_>,
        estimate: Estimate,
        now: Timestamp,
    ) -> Result<Hold, Denied> {
        let mut wants = ReservationRequest::default();
        wants.gather(index, stage, subject, now);
        wants.measure(&estimate, None);
        let verdict = self.ledger.admit(wants.asks(), now);
        let counters: Arc<dyn Counters> = self.ledger.clone();
        match verdict {
            Ok(()) => Ok(wants.granted(stage, &counters, estimate)),
            Err(refusal) => Err(wants.denied(Some(index), refusal, now).unwrap()),
        }
    }

    pub(super) fn admit(
        &self,
        index: &Index,
        stage: Stage,
        subject: &Subject<'_>,
        now: Timestamp,
    ) -> Result<Hold, Denied> {
        self.ask(index, stage, subject, Estimate::default(), now)
    }

    pub(super) fn caller(&self, index: &Index, subject: &Subject<'_>, now: Timestamp) -> Result<Hold, Denied> {
        self.admit(index, Stage::Caller, subject, now)
    }

    /// How many of `tries` calls are let through.
    pub(super) fn admitted(&self, index: &Index, subject: &Subject<'_>, now: Timestamp, tries: usize) -> usize {
        let taken = || self.caller(index, subject, now).map(Hold::count);
        (0..tries).filter(|_| taken().is_ok()).count()
    }
}
