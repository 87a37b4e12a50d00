//! Limits in files. When a budget was set and when it begins anew is partly history: it comes from what is stored, and
//! a reset that was chosen may lie behind by now.

use super::put;
use crate::problem::{Problem, bad};
use gateway_domain::resource::budget::Budget;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value};

pub(crate) fn declare_budget(budget: &Budget) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "type", budget.spend);
    put(&mut fields, "credit_limit", budget.credit_limit);
    put(&mut fields, "alert_threshold", budget.alert_threshold);
    put(&mut fields, "periodic_reset", budget.periodic_reset);
    put(&mut fields, "periodic_reset_days", budget.periodic_reset_days);
    put(&mut fields, "next_usage_reset_at", budget.first_reset_at);
    fields
}

pub(crate) fn declare_limits(fields: &mut Map<String, Value>, limits: &ResourceLimits) {
    put(fields, "rate_limits", &limits.rate_limits);
    put(fields, "usage_limits", limits.usage_limits.iter().map(declare_budget).collect::<Vec<_>>());
}

/// When budgets begin anew, as a file says it.
#[derive(Debug, Default)]
pub(crate) struct Resets(Vec<Option<Timestamp>>);

impl Resets {
    /// Takes them out of the budgets of a declaration, or of one that stands alone in it.
    pub(crate) fn take(fields: &mut Map<String, Value>) -> Result<Self, Problem> {
        match fields.get_mut("usage_limits") {
            Some(Value::Array(items)) => {
                let each = items.iter_mut().map(|item| item.as_object_mut().map_or(Ok(None), taken));
                Ok(Self(each.collect::<Result<_, _>>()?))
            }
            Some(Value::Object(one)) => Ok(Self(vec![taken(one)?])),
            Some(_) => Ok(Self::default()),
            None => Ok(Self(vec![taken(fields)?])),
        }
    }

    /// `before`: what is stored; a budget of the same type goes on from there.
    pub(crate) fn settle(&self, budgets: &mut [Budget], before: Option<&[Budget]>) {
        for (at, budget) in budgets.iter_mut().enumerate() {
            if let Some(reset) = self.0.get(at).copied().flatten() {
                budget.first_reset_at = Some(reset);
            }
            let same = |b: &&Budget| b.spend == budget.spend;
            if let Some(stored) = before.unwrap_or_default().iter().find(same) {
                budget.since = stored.since;
            }
        }
    }
}

fn taken(fields: &mut Map<String, Value>) -> Result<Option<Timestamp>, Problem> {
    match fields.shift_remove("next_usage_reset_at") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.parse().map_err(|why| bad("next_usage_reset_at", why))?)),
        Some(_) => Err(bad("next_usage_reset_at", "must be an RFC 3339 date-time")),
    }
}
