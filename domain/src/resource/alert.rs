//! Alert rules: what has to be so for somebody to hear of it, and by which ways. A rule is about a workspace or about
//! the whole organisation. When a rule is looked at, and what it finds, is known elsewhere.

use super::Invalid;
use crate::secret::MASK;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rules of one organisation, at all its levels.
pub const MOST_ALERT_RULES: usize = 100;
const MOST_CHANNELS: usize = 5;
const MOST_RECIPIENTS: usize = 20;
const MOST_HEADERS: usize = 10;
const MOST_NAMES: usize = 50;
const LONGEST: usize = 2_048;
/// The windows that a rule may have, in minutes; it looks back over 31 days at most.
const WINDOWS: std::ops::RangeInclusive<u32> = 5..=44_640;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// US dollars in the window.
    Spend,
    /// Percent of the calls in the window.
    ErrorRate,
    /// Milliseconds that calls of the window took.
    Latency,
    /// Percent of any budget, whenever it began.
    Budget,
}

impl AlertKind {
    pub const ALL: [Self; 4] = [Self::Spend, Self::ErrorRate, Self::Latency, Self::Budget];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::ErrorRate => "error_rate",
            Self::Latency => "latency",
            Self::Budget => "budget",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Spend => "usd",
            Self::ErrorRate | Self::Budget => "percent",
            Self::Latency => "ms",
        }
    }
}

/// Which latency of the calls in a window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencyStatistic {
    Avg,
    P50,
    P90,
    #[default]
    P95,
    P99,
}

impl LatencyStatistic {
    /// `None`: the mean.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Self::Avg => None,
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }
}

/// Which calls are looked at; empty means all. The names are those of the log list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertFilters {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ai_org: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ai_model: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_keys: Vec<String>,
}

impl AlertFilters {
    pub const fn is_empty(&self) -> bool {
        self.ai_org.is_empty() && self.ai_model.is_empty() && self.virtual_keys.is_empty()
    }

    fn check(&self) -> Result<(), Invalid> {
        let all = [("ai_org", &self.ai_org), ("ai_model", &self.ai_model), ("virtual_keys", &self.virtual_keys)];
        for (name, values) in all {
            let field = format!("filters.{name}");
            if values.len() > MOST_NAMES {
                return Err(Invalid::new(field, format!("must hold at most {MOST_NAMES} names")));
            }
            if values.iter().any(|value| value.is_empty() || value.len() > 255) {
                return Err(Invalid::new(field, "must hold names of 1 to 255 bytes"));
            }
        }
        Ok(())
    }
}

/// A way by which a message leaves. What is secret of it is sealed: the whole address of a Slack hook, since whoever
/// knows it may write there, and the headers of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AlertChannel {
    Webhook {
        url: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    Slack {
        url: String,
    },
    Email {
        to: Vec<String>,
    },
}

impl AlertChannel {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Email { .. } => "email",
        }
    }

    /// Tells it from the others of its rule, also after the rule was changed.
    pub fn key(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text).iter().take(8).fold(String::new(), |mut key, byte| {
            let _ = write!(key, "{byte:02x}");
            key
        })
    }

    /// A copy with masks in the place of what is sealed.
    #[must_use]
    pub fn masked(&self, show: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Webhook { url, headers } => {
                let headers = headers.iter().map(|(name, value)| (name.clone(), show(value))).collect();
                Self::Webhook { url: url.clone(), headers }
            }
            Self::Slack { url } => Self::Slack { url: show(url) },
            Self::Email { to } => Self::Email { to: to.clone() },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "type")]
    pub kind: AlertKind,
    /// It is told once this is reached.
    pub threshold: f64,
    #[serde(default)]
    pub statistic: LatencyStatistic,
    pub window_minutes: u32,
    /// Nothing is told when the window holds fewer calls than this.
    #[serde(default)]
    pub minimum_count: u64,
    /// The least time between two messages.
    pub cool_down_minutes: u32,
    #[serde(default, skip_serializing_if = "AlertFilters::is_empty")]
    pub filters: AlertFilters,
    pub channels: Vec<AlertChannel>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl AlertRule {
    pub const HOUR: u32 = 60;
    pub const DAY: u32 = 1_440;

    /// Everything that can be said without a look at addresses and sealed texts.
    pub fn check(&self) -> Result<(), Invalid> {
        let (most, rule) = match self.kind {
            AlertKind::Spend => (1e12, "must be a number of dollars above 0"),
            AlertKind::ErrorRate | AlertKind::Budget => (100.0, "must be a percentage above 0, at most 100"),
            AlertKind::Latency => (86_400_000.0, "must be a number of milliseconds above 0, at most 86400000"),
        };
        if !(self.threshold > 0.0 && self.threshold <= most) {
            return Err(Invalid::new("threshold", rule));
        }
        let minutes = || format!("must be from {} to {} minutes", WINDOWS.start(), WINDOWS.end());
        if !WINDOWS.contains(&self.window_minutes) {
            return Err(Invalid::new("window_minutes", minutes()));
        }
        if !WINDOWS.contains(&self.cool_down_minutes) {
            return Err(Invalid::new("cool_down_minutes", minutes()));
        }
        if self.description.as_ref().is_some_and(|text| text.len() > LONGEST) {
            return Err(Invalid::new("description", format!("must have at most {LONGEST} bytes")));
        }
        self.filters.check()?;
        if self.channels.is_empty() || self.channels.len() > MOST_CHANNELS {
            return Err(Invalid::new("channels", format!("must hold 1 to {MOST_CHANNELS} channels")));
        }
        for (at, channel) in self.channels.iter().enumerate() {
            check_channel(at, channel)?;
        }
        Ok(())
    }
}

fn check_channel(at: usize, channel: &AlertChannel) -> Result<(), Invalid> {
    let invalid = |name: &str, rule: String| Err(Invalid::new(format!("channels[{at}].{name}"), rule));
    match channel {
        AlertChannel::Webhook { headers, .. } if headers.len() > MOST_HEADERS => {
            invalid("headers", format!("must hold at most {MOST_HEADERS} headers"))
        }
        AlertChannel::Email { to } if to.is_empty() || to.len() > MOST_RECIPIENTS => {
            invalid("to", format!("must hold 1 to {MOST_RECIPIENTS} addresses"))
        }
        _ => Ok(()),
    }
}

/// Whether a text stands in the place of a secret.
pub fn is_masked(text: &str) -> bool {
    text.starts_with(MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(more: &Value) -> AlertRule {
        let mut doc = json!({
            "type": "error_rate", "threshold": 5, "window_minutes": 60, "cool_down_minutes": 60,
            "channels": [{"type": "email", "to": ["a@example.com"]}],
        });
        for (name, value) in more.as_object().expect("an object") {
            doc[name] = value.clone();
        }
        serde_json::from_value(doc).expect("a rule")
    }

    #[test]
    fn bounds_are_named() {
        assert_eq!(rule(&json!({})).check(), Ok(()));
        let mail = json!({"type": "email", "to": ["a@example.com"]});
        for (more, field) in [
            (json!({"threshold": 0}), "threshold"),
            (json!({"threshold": 101}), "threshold"),
            (json!({"threshold": 101, "type": "budget"}), "threshold"),
            (json!({"threshold": 1e9, "type": "latency"}), "threshold"),
            (json!({"window_minutes": 4}), "window_minutes"),
            (json!({"cool_down_minutes": 44_641}), "cool_down_minutes"),
            (json!({"filters": {"ai_org": vec!["a"; 51]}}), "filters.ai_org"),
            (json!({"filters": {"ai_model": [""]}}), "filters.ai_model"),
            (json!({"channels": []}), "channels"),
            (json!({"channels": vec![mail; 6]}), "channels"),
            (json!({"channels": [{"type": "email", "to": []}]}), "channels[0].to"),
        ] {
            let told = rule(&more).check().expect_err("out of bounds");
            assert_eq!(told.field, field, "{more}");
        }
    }

    #[test]
    fn channels_are_told_apart_by_what_they_are() {
        let one = AlertChannel::Slack { url: "a".to_owned() };
        let other = AlertChannel::Slack { url: "b".to_owned() };
        assert_eq!(one.key(), one.clone().key());
        assert_ne!(one.key(), other.key());
    }
}
