//! Limits of one key, workspace, provider or integration, or of tokens: without conditions and groups, so nothing is
//! matched and the counter's key is made of ids alone. Knows no policy.

use crate::meter::{self, RuleMeter};
use gateway_domain::Timestamp;
use gateway_domain::counters::{CounterKey, CounterOp, Slot};
use gateway_domain::ports::Holder;
use gateway_domain::resource::budget::{Budget, Spend, Week};
use gateway_domain::resource::limits::RateLimit;
use gateway_domain::resource::policy::{Measure, Unit};
use uuid::Uuid;

pub(crate) fn ask(holder: Holder, limit: &RateLimit, now: Timestamp, tag: u32) -> CounterOp {
    RuleMeter::of_limit(limit).ask(counter(holder, limit), now, tag)
}

pub(crate) fn budget_ask(holder: Holder, budget: &Budget, now: Timestamp, tag: u32) -> CounterOp {
    RuleMeter::of_budget(budget, Week::Sunday).ask(budget_counter(holder, budget.spend), now, tag)
}

/// Where the budget of a key, workspace, provider or integration is counted now.
pub fn slot_of(holder: Holder, budget: &Budget, now: Timestamp) -> Slot {
    Slot { key: budget_counter(holder, budget.spend), began: meter::period(budget, Week::Sunday, now).began }
}

/// A change of the value keeps the count, one of type or unit begins another.
fn counter(holder: Holder, limit: &RateLimit) -> CounterKey {
    let measure = match limit.measure {
        Measure::Requests => 0,
        Measure::Tokens => 1,
    };
    let unit = match limit.unit {
        Unit::Second => 0,
        Unit::Minute => 1,
        Unit::Hour => 2,
        Unit::Day => 3,
        Unit::Week => 4,
    };
    key(holder, measure * 8 + unit)
}

/// A change of limit or reset keeps the count as long as the period began at the same time.
fn budget_counter(holder: Holder, spend: Spend) -> CounterKey {
    key(
        holder,
        16 + match spend {
            Spend::Cost => 0,
            Spend::Tokens => 1,
            Spend::Requests => 2,
        },
    )
}

/// `what`: below 32.
fn key(holder: Holder, what: u128) -> CounterKey {
    let (kind, id) = match holder {
        Holder::Policy(id) => (0, bits(id.0)),
        Holder::Key(id) => (1, bits(id.0)),
        Holder::Workspace(id) => (2, bits(id.0)),
        Holder::Provider(id) => (3, bits(id.0)),
        Holder::Integration(id, None) => (4, bits(id.0)),
        Holder::Integration(id, Some(workspace)) => (5, mix(bits(id.0)) ^ bits(workspace.0)),
        Holder::Claim(id) => (6, bits(id.0)),
    };
    CounterKey::of(mix(id ^ mix(1 + kind * 32 + what)))
}

const fn bits(id: Uuid) -> u128 {
    id.as_u128()
}

/// Spreads bits over the whole number, one to one: ids made in the same second would else share a shard.
const fn mix(bits: u128) -> u128 {
    const A: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    const B: u128 = 0xc2b2_ae3d_27d4_eb4f_1656_67b1_9e37_79f9;
    let bits = (bits ^ (bits >> 67)).wrapping_mul(A);
    let bits = (bits ^ (bits >> 61)).wrapping_mul(B);
    bits ^ (bits >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::id::{ClaimId, IntegrationId, KeyId, ProviderId, WorkspaceId};
    use std::collections::HashSet;

    #[test]
    fn every_holder_type_and_unit_counts_for_itself() {
        let ids = [1, 2, u128::MAX].map(Uuid::from_u128);
        let mut seen = HashSet::new();
        let mut made = 0;
        for id in ids {
            let holders = [
                Holder::Key(KeyId(id)),
                Holder::Workspace(WorkspaceId(id)),
                Holder::Provider(ProviderId(id)),
                Holder::Integration(IntegrationId(id), None),
                Holder::Integration(IntegrationId(id), Some(WorkspaceId(ids[0]))),
                Holder::Integration(IntegrationId(id), Some(WorkspaceId(ids[1]))),
                Holder::Claim(ClaimId(id)),
            ];
            for holder in holders {
                for measure in [Measure::Requests, Measure::Tokens] {
                    for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week] {
                        made += 1;
                        seen.insert(counter(holder, &RateLimit { measure, unit, value: 9 }));
                    }
                }
                for spend in [Spend::Cost, Spend::Tokens] {
                    made += 1;
                    seen.insert(budget_counter(holder, spend));
                }
            }
        }
        assert_eq!(seen.len(), made);
    }
}
