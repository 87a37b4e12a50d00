//! Limits that an issuer writes into a token, in the words of the Admin API (`spec/policies.md`, levels).

use super::claims::{BadClaim, bad};
use crate::resource::budget::{Amount, Budget, Reset, Spend};
use crate::resource::limits::{Limits, RateLimit};
use crate::time::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const MOST: usize = 16;

/// One usage limit. Its id and names that only the issuer knows say nothing here.
#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "type", default)]
    spend: Spend,
    credit_limit: Amount,
    #[serde(default)]
    periodic_reset: Option<Reset>,
    #[serde(default)]
    periodic_reset_days: Option<u16>,
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

/// `since`: what a budget counts from; the same for every look at the token.
pub(super) fn read(claims: &Map<String, Value>, since: Timestamp) -> Result<Limits, BadClaim> {
    let rate_limits: Vec<RateLimit> = items(claims, "rate_limits")?;
    let mut usage_limits = Vec::new();
    for usage in items::<Usage>(claims, "usage_limits")? {
        if usage.status.is_some_and(|s| s != "active") {
            return Err(bad("usage_limits", "says that a limit is not active"));
        }
        usage_limits.push(Budget {
            spend: usage.spend,
            credit_limit: usage.credit_limit,
            alert_threshold: None,
            periodic_reset: usage.periodic_reset,
            periodic_reset_days: usage.periodic_reset_days,
            first_reset_at: None,
            since,
        });
    }
    let limits = Limits { rate_limits, usage_limits };
    let names = |usage| if usage { "usage_limits" } else { "rate_limits" };
    limits.check("").map_err(|why| {
        bad(names(why.field.starts_with("usage")), "breaks a rule of limits: numbers, types, doubles")
    })?;
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(claims: &Value) -> Result<Limits, &'static str> {
        read(claims.as_object().expect("an object"), Timestamp(7)).map_err(|b| b.claim)
    }

    #[test]
    fn limits_are_read_alone_and_in_lists() {
        let limits = of(&json!({
            "rate_limits": [{"type": "requests", "unit": "rpm", "value": 3}, {"type": "tokens", "unit": "tpd", "value": 9}],
            "usage_limits": {"id": "x", "type": "cost", "credit_limit": 2.5, "status": "active"},
        }));
        let limits = limits.expect("good limits");
        assert_eq!(limits.rate_limits.iter().map(|l| l.value).collect::<Vec<_>>(), [3, 9]);
        assert_eq!(
            limits.usage_limits.iter().map(|b| (b.limit(), b.since)).collect::<Vec<_>>(),
            [(2_500_000_000, Timestamp(7))]
        );
        assert_eq!(of(&json!({"rate_limits": null})), Ok(Limits::default()));
    }

    #[test]
    fn what_breaks_a_rule_is_named() {
        for (claims, claim) in [
            (json!({"rate_limits": 3}), "rate_limits"),
            (json!({"rate_limits": [{"type": "requests", "unit": "rpy", "value": 3}]}), "rate_limits"),
            (json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": -3}]}), "rate_limits"),
            (
                json!({"rate_limits": [{"type": "tokens", "unit": "rpm", "value": 3}, {"type": "tokens", "unit": "rpm", "value": 4}]}),
                "rate_limits",
            ),
            (json!({"usage_limits": [{"type": "requests", "credit_limit": 3}]}), "usage_limits"),
            (json!({"usage_limits": [{"type": "cost", "credit_limit": 0}]}), "usage_limits"),
            (json!({"usage_limits": [{"type": "cost", "credit_limit": 3, "status": "exhausted"}]}), "usage_limits"),
        ] {
            assert_eq!(of(&claims), Err(claim), "{claims}");
        }
    }
}
