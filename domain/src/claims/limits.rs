//! Limits that an issuer writes into a token, in the words of the Admin API.

use crate::resource::budget::{Amount, Budget, Reset, Spend};
use crate::resource::limits::{RateLimit, ResourceLimits};
use crate::resource::policy::Unit;
use crate::time::Timestamp;
use crate::trust::{BadClaim, bad};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const MOST: usize = 16;

/// Limits of a token that have one id, or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed {
    pub id: Option<String>,
    pub limits: ResourceLimits,
}

#[derive(Deserialize)]
struct RateLimitClaim {
    #[serde(default)]
    id: Option<String>,
    #[serde(flatten)]
    limit: RateLimit,
}

#[derive(Deserialize)]
struct UsageLimitClaim {
    #[serde(default)]
    id: Option<String>,
    #[serde(rename = "type", default)]
    spend: Spend,
    credit_limit: Amount,
    #[serde(default)]
    periodic_reset: Option<Reset>,
    #[serde(default)]
    periodic_reset_days: Option<u16>,
    #[serde(default)]
    alert_threshold: Value,
    #[serde(default)]
    next_usage_reset_at: Value,
    #[serde(default)]
    status: Option<String>,
}

/// Alone or in a list.
fn items<T: DeserializeOwned>(claims: &Map<String, Value>, name: &'static str) -> Result<Vec<T>, BadClaim> {
    let rule = bad(name, "must be an array of limits, each with its type and numbers");
    let read = |value: &Value| T::deserialize(value).map_err(|_| rule.clone());
    match claims.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(many)) if many.len() <= MOST => many.iter().map(read).collect(),
        Some(one @ Value::Object(_)) => Ok(vec![read(one)?]),
        Some(_) => Err(rule),
    }
}

pub(super) fn read(claims: &Map<String, Value>) -> Result<Vec<Claimed>, BadClaim> {
    let mut all: Vec<Claimed> = Vec::new();
    for RateLimitClaim { id, limit } in items::<RateLimitClaim>(claims, "rate_limits")? {
        if limit.unit == Unit::Second {
            return Err(bad("rate_limits", "must be in units of a minute, an hour, a day or a week"));
        }
        of_id(&mut all, "rate_limits", id)?.rate_limits.push(limit);
    }
    let mut exhausted = Vec::new();
    for usage in items::<UsageLimitClaim>(claims, "usage_limits")? {
        if is_exhausted(&usage)? {
            exhausted.push((usage.id.clone(), usage.spend));
        }
        let budget = Budget {
            spend: usage.spend,
            credit_limit: usage.credit_limit,
            alert_threshold: None,
            periodic_reset: usage.periodic_reset,
            periodic_reset_days: usage.periodic_reset_days,
            first_reset_at: None,
            // Every token that is counted together needs the same start, whenever it was issued.
            since: Timestamp(0),
        };
        of_id(&mut all, "usage_limits", usage.id)?.usage_limits.push(budget);
    }
    for Claimed { limits, .. } in &all {
        let names = |usage| if usage { "usage_limits" } else { "rate_limits" };
        limits.check("").map_err(|why| {
            bad(names(why.field.starts_with("usage")), "breaks a rule of limits: numbers, types, doubles")
        })?;
    }
    // What the issuer says is used up, is; by whatever count.
    for (id, spend) in exhausted {
        let same = all.iter_mut().filter(|c| c.id == id).flat_map(|c| &mut c.limits.usage_limits);
        same.filter(|b| b.spend == spend).for_each(|b| b.credit_limit = Amount::new(0.0));
    }
    Ok(all)
}

fn is_exhausted(usage: &UsageLimitClaim) -> Result<bool, BadClaim> {
    let exhausted = match usage.status.as_deref() {
        None | Some("active") => false,
        Some("exhausted") => true,
        Some(_) => return Err(bad("usage_limits", "has a status that is neither active nor exhausted")),
    };
    if !usage.alert_threshold.is_null() {
        return Err(bad("usage_limits", "has an alert_threshold: of tokens nobody is told"));
    }
    if !usage.next_usage_reset_at.is_null() {
        return Err(bad("usage_limits", "has next_usage_reset_at, which each token would say anew"));
    }
    Ok(exhausted)
}

fn of_id<'a>(
    all: &'a mut Vec<Claimed>,
    claim: &'static str,
    id: Option<String>,
) -> Result<&'a mut ResourceLimits, BadClaim> {
    if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 255) {
        return Err(bad(claim, "must name limits by ids of 1..255 characters"));
    }
    let at = all.iter().position(|c| c.id == id).unwrap_or_else(|| {
        all.push(Claimed { id, limits: ResourceLimits::default() });
        all.len() - 1
    });
    Ok(&mut all[at].limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(claims: &Value) -> Result<Vec<Claimed>, &'static str> {
        read(claims.as_object().expect("an object")).map_err(|b| b.claim)
    }

    #[test]
    fn limits_are_read_alone_and_in_lists_and_stand_with_their_id() {
        let all = of(&json!({
            "rate_limits": [
                {"type": "requests", "unit": "rpm", "value": 3}, {"type": "tokens", "unit": "tpd", "value": 9},
                {"id": "team", "type": "requests", "unit": "rpm", "value": 30},
            ],
            "usage_limits": {"id": "team", "type": "cost", "credit_limit": 2.5, "status": "active", "note": "x"},
        }));
        let all = all.expect("good limits");
        let rates = |c: &Claimed| c.limits.rate_limits.iter().map(|l| l.value).collect::<Vec<_>>();
        let budgets = |c: &Claimed| c.limits.usage_limits.iter().map(Budget::limit).collect::<Vec<_>>();
        let found: Vec<_> = all.iter().map(|c| (c.id.as_deref(), rates(c), budgets(c))).collect();
        assert_eq!(found, [(None, vec![3, 9], vec![]), (Some("team"), vec![30], vec![2_500_000_000])]);
        assert_eq!(of(&json!({"rate_limits": null})), Ok(vec![]));
    }

    #[test]
    fn what_the_issuer_calls_exhausted_lets_nothing_through() {
        let all = of(&json!({"usage_limits": [
            {"type": "cost", "credit_limit": 3, "status": "exhausted"}, {"type": "tokens", "credit_limit": 4},
        ]}));
        let limits: Vec<_> = all.expect("good limits")[0].limits.usage_limits.iter().map(Budget::limit).collect();
        assert_eq!(limits, [0, 4]);
    }

    #[test]
    fn what_breaks_a_rule_is_named() {
        for (claims, claim) in [
            (json!({"rate_limits": 3}), "rate_limits"),
            (json!({"rate_limits": [{"type": "requests", "unit": "rpy", "value": 3}]}), "rate_limits"),
            (json!({"rate_limits": [{"type": "requests", "unit": "rps", "value": 3}]}), "rate_limits"),
            (json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": -3}]}), "rate_limits"),
            (json!({"rate_limits": [{"id": "", "type": "requests", "unit": "rpm", "value": 3}]}), "rate_limits"),
            (json!({"rate_limits": [{"id": 7, "type": "requests", "unit": "rpm", "value": 3}]}), "rate_limits"),
            (
                json!({"rate_limits": [{"type": "tokens", "unit": "rpm", "value": 3}, {"type": "tokens", "unit": "rpm", "value": 4}]}),
                "rate_limits",
            ),
            (json!({"usage_limits": [{"type": "requests", "credit_limit": 3}]}), "usage_limits"),
            (json!({"usage_limits": [{"type": "cost", "credit_limit": 0}]}), "usage_limits"),
            (json!({"usage_limits": [{"type": "cost", "credit_limit": 3, "status": "paused"}]}), "usage_limits"),
            (json!({"usage_limits": [{"type": "cost", "credit_limit": 3, "alert_threshold": 1}]}), "usage_limits"),
            (
                json!({"usage_limits": [{"type": "cost", "credit_limit": 3, "next_usage_reset_at": "2026-12-01"}]}),
                "usage_limits",
            ),
        ] {
            assert_eq!(of(&claims), Err(claim), "{claims}");
        }
    }
}
