//! Rate limits and budgets of one key, workspace, provider or integration:
//! they hold for whoever uses it, without conditions and groups.

use super::Invalid;
use super::budget::{Budget, Spend};
use super::policy::{Measure, Unit};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    #[serde(rename = "type")]
    pub measure: Measure,
    pub unit: Unit,
    /// Nothing at all may pass at 0.
    pub value: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceLimits {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<RateLimit>,
    /// The budgets, at most one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage_limits: Vec<Budget>,
    /// Whom the operator's webhook is asked to mail when a budget is used up; for API keys only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alert_emails: Vec<String>,
}

impl ResourceLimits {
    pub const fn is_empty(&self) -> bool {
        self.rate_limits.is_empty() && self.usage_limits.is_empty() && self.alert_emails.is_empty()
    }

    /// Every rule on its own fields; `under` is where it stands in the body, with a dot at its end.
    pub fn check(&self, under: &str) -> Result<(), Invalid> {
        for (i, limit) in self.rate_limits.iter().enumerate() {
            let same = |l: &RateLimit| (l.measure, l.unit) == (limit.measure, limit.unit);
            if self.rate_limits[..i].iter().any(same) {
                let rule = "must differ from the others in type or unit";
                return Err(Invalid::new(format!("{under}rate_limits[{i}]"), rule));
            }
        }
        for (i, budget) in self.usage_limits.iter().enumerate() {
            // One is mostly sent alone, not in a list.
            let at = if self.usage_limits.len() == 1 { String::new() } else { format!("[{i}]") };
            let at = format!("{under}usage_limits{at}.");
            if budget.spend == Spend::Requests {
                return Err(Invalid::new(format!("{at}type"), "must be one of cost, tokens"));
            }
            if self.usage_limits[..i].iter().any(|b| b.spend == budget.spend) {
                return Err(Invalid::new(format!("{at}type"), "must differ from the others"));
            }
            budget.check(&at, 1.0)?;
        }
        Ok(())
    }
}
