//! Rate-limit and usage-limit policies: who they match, how they group, how much they allow.

use super::Invalid;
use super::budget::{Budget, Spend};
use crate::counters::FailMode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub target: Target,
    #[serde(rename = "type")]
    pub measure: Measure,
    pub unit: Unit,
    pub value: u64,
    #[serde(default, skip_serializing_if = "Enforcement::is_default")]
    pub enforcement: Enforcement,
    /// Tokens held of an answer that nobody bounds; `None`: [`ASSUMED_OUTPUT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_output: Option<u64>,
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub group_by: Vec<GroupBy>,
    /// While the counters that nodes share are out of reach.
    #[serde(default)]
    pub fail_mode: FailMode,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageLimitPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub target: Target,
    pub budget: Budget,
    #[serde(default, skip_serializing_if = "Enforcement::is_default")]
    pub enforcement: Enforcement,
    /// Tokens held of an answer that nobody bounds; `None`: [`ASSUMED_OUTPUT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_output: Option<u64>,
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub group_by: Vec<GroupBy>,
    /// While the counters that nodes share are out of reach.
    #[serde(default)]
    pub fail_mode: FailMode,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Tokens assumed of an answer that nobody bounds, unless a policy says otherwise.
pub const ASSUMED_OUTPUT: u64 = 1_024;

/// How tokens and money are kept within a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// What a call may use is held until it is known what it used: a limit is not exceeded.
    #[default]
    Reserve,
    /// Only asks whether anything is left, and counts afterwards: calls that are under
    /// way together may exceed the limit.
    Check,
}

impl Enforcement {
    const fn is_default(&self) -> bool {
        matches!(self, Self::Reserve)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    #[default]
    Llm,
    McpTools,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    Requests,
    Tokens,
}

/// Length of the fixed window. `tpm` … `tpw` are the same windows spelled for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "rps")]
    Second,
    #[serde(rename = "rpm", alias = "tpm")]
    Minute,
    #[serde(rename = "rph", alias = "tph")]
    Hour,
    #[serde(rename = "rpd", alias = "tpd")]
    Day,
    #[serde(rename = "rpw", alias = "tpw")]
    Week,
}

impl Unit {
    pub const fn micros(self) -> i64 {
        1_000_000
            * match self {
                Self::Second => 1,
                Self::Minute => 60,
                Self::Hour => 3_600,
                Self::Day => 86_400,
                Self::Week => 604_800,
            }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "rps",
            Self::Minute => "rpm",
            Self::Hour => "rph",
            Self::Day => "rpd",
            Self::Week => "rpw",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excludes: Option<OneOrMany>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(s) => std::slice::from_ref(s),
            Self::Many(v) => v,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBy {
    pub key: String,
}

/// What a condition or a group may look at on an `llm` policy. `metadata.<k>` is checked by prefix.
pub static LLM_KEYS: &[&str] =
    &["api_key", "workspace_id", "virtual_key", "provider", "config", "prompt", "model", "endpoint_type"];

/// What a usage limit may look at.
pub static USAGE_KEYS: &[&str] = &["api_key", "workspace_id", "virtual_key", "provider", "config", "prompt", "model"];

/// What an `mcp_tools` policy may look at.
pub static MCP_KEYS: &[&str] = &["api_key", "workspace_id", "mcp_server", "mcp_tool"];

impl RateLimitPolicy {
    /// Every rule that needs no look at other rows.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.value < 1 {
            return Err(Invalid::new("value", "must be at least 1"));
        }
        if self.unit == Unit::Second {
            return Err(Invalid::new("unit", "must be one of rpm, rph, rpd, rpw"));
        }
        check_holding(self.enforcement, self.assume_output, self.measure == Measure::Requests)?;
        check_description(self.description.as_deref())?;
        check_matching(&self.conditions, &self.group_by, if self.target == Target::Llm { LLM_KEYS } else { MCP_KEYS })
    }
}

/// The smallest limit of a usage-limit policy in tokens.
const LEAST_TOKENS: f64 = 100.0;

impl UsageLimitPolicy {
    /// Every rule that needs no look at other rows.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.target != Target::Llm {
            return Err(Invalid::new("target", "must be llm: tool calls have no budgets"));
        }
        self.budget.check("", LEAST_TOKENS)?;
        check_holding(self.enforcement, self.assume_output, self.budget.spend == Spend::Requests)?;
        check_description(self.description.as_deref())?;
        check_matching(&self.conditions, &self.group_by, USAGE_KEYS)
    }
}

/// What is held at most for one call that says nothing of its own.
const MOST_ASSUMED: u64 = 10_000_000;

fn check_holding(enforcement: Enforcement, assume_output: Option<u64>, of_requests: bool) -> Result<(), Invalid> {
    if of_requests && enforcement == Enforcement::Check {
        return Err(Invalid::new(
            "enforcement",
            "must be reserve where requests are counted: each is known beforehand",
        ));
    }
    let Some(tokens) = assume_output else { return Ok(()) };
    if of_requests {
        return Err(Invalid::new("assume_output", "is of no use where requests are counted"));
    }
    if enforcement == Enforcement::Check {
        return Err(Invalid::new("assume_output", "is of no use with enforcement check, which holds nothing"));
    }
    if !(1..=MOST_ASSUMED).contains(&tokens) {
        return Err(Invalid::new("assume_output", format!("must be in 1..{MOST_ASSUMED}")));
    }
    Ok(())
}

fn check_description(text: Option<&str>) -> Result<(), Invalid> {
    if text.is_some_and(|d| d.chars().count() > 500) {
        return Err(Invalid::new("description", "must be at most 500 characters"));
    }
    Ok(())
}

fn check_matching(conditions: &[Condition], group_by: &[GroupBy], known: &[&str]) -> Result<(), Invalid> {
    if conditions.is_empty() {
        return Err(Invalid::new("conditions", "must hold at least 1 item"));
    }
    check_length("conditions", conditions.len(), MOST_CONDITIONS)?;
    check_length("group_by", group_by.len(), MOST_GROUPS)?;
    for (i, c) in conditions.iter().enumerate() {
        check_key(&format!("conditions[{i}].key"), &c.key, known)?;
        c.check(&format!("conditions[{i}]"))?;
    }
    for (i, g) in group_by.iter().enumerate() {
        check_key(&format!("group_by[{i}].key"), &g.key, known)?;
    }
    Ok(())
}

fn check_key(field: &str, key: &str, known: &[&str]) -> Result<(), Invalid> {
    check_text(field, key)?;
    let metadata = key.strip_prefix("metadata.").is_some_and(|k| !k.is_empty());
    if metadata || known.contains(&key) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("must be metadata.<key> or one of {}", known.join(", "))))
}

/// Every request is held against every policy of its workspace: what one may hold is bounded.
const MOST_CONDITIONS: usize = 50;
const MOST_VALUES: usize = 500;
const MOST_GROUPS: usize = 10;
const LONGEST: usize = 255;

fn check_length(field: &str, length: usize, most: usize) -> Result<(), Invalid> {
    if length > most { Err(Invalid::new(field, format!("must hold at most {most} items"))) } else { Ok(()) }
}

fn check_text(field: &str, text: &str) -> Result<(), Invalid> {
    let long = text.chars().count() > LONGEST;
    if long { Err(Invalid::new(field, format!("must be at most {LONGEST} characters"))) } else { Ok(()) }
}

impl Condition {
    fn check(&self, field: &str) -> Result<(), Invalid> {
        let lists = [("value", &self.value), ("excludes", &self.excludes)];
        if lists.iter().all(|(_, l)| l.is_none()) {
            return Err(Invalid::new(format!("{field}.value"), "is required unless excludes is given"));
        }
        for (name, list) in lists {
            let Some(list) = list else { continue };
            let items = list.as_slice();
            if items.is_empty() || items.iter().any(String::is_empty) {
                return Err(Invalid::new(format!("{field}.{name}"), "must not be empty"));
            }
            check_length(&format!("{field}.{name}"), items.len(), MOST_VALUES)?;
            items.iter().try_for_each(|item| check_text(&format!("{field}.{name}"), item))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(v: Value) -> RateLimitPolicy {
        serde_json::from_value(v).expect("a policy")
    }

    #[test]
    fn rules_name_the_field() {
        let base =
            json!({"type": "requests", "unit": "rpm", "value": 1, "conditions": [{"key": "api_key", "value": "*"}]});
        assert_eq!(policy(base.clone()).check(), Ok(()));
        for (key, value, field) in [
            ("value", json!(0), "value"),
            ("unit", json!("rps"), "unit"),
            ("enforcement", json!("check"), "enforcement"),
            ("assume_output", json!(5), "assume_output"),
            ("conditions", json!([]), "conditions"),
            ("conditions", json!([{"key": "colour", "value": "x"}]), "conditions[0].key"),
            ("conditions", json!([{"key": "metadata.", "value": "x"}]), "conditions[0].key"),
            ("conditions", json!([{"key": "model"}]), "conditions[0].value"),
            ("conditions", json!([{"key": "model", "value": []}]), "conditions[0].value"),
            ("group_by", json!([{"key": "mcp_tool"}]), "group_by[0].key"),
            ("conditions", json!(vec![json!({"key": "model", "value": "a"}); 51]), "conditions"),
            ("conditions", json!([{"key": "model", "value": vec!["a"; 501]}]), "conditions[0].value"),
            ("conditions", json!([{"key": "model", "excludes": "a".repeat(256)}]), "conditions[0].excludes"),
            (
                "conditions",
                json!([{"key": format!("metadata.{}", "a".repeat(255)), "value": "a"}]),
                "conditions[0].key",
            ),
            ("group_by", json!(vec![json!({"key": "model"}); 11]), "group_by"),
        ] {
            let mut v = base.clone();
            v[key] = value;
            assert_eq!(policy(v).check().map_err(|e| e.field), Err(field.to_owned()));
        }
    }

    #[test]
    fn what_is_held_is_chosen_where_something_is_held() {
        let of = |fields: Value| {
            let mut base =
                json!({"type": "tokens", "unit": "rpm", "value": 1, "conditions": [{"key": "api_key", "value": "*"}]});
            base.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
            policy(base).check().map_err(|e| e.field)
        };
        assert_eq!(of(json!({"enforcement": "check"})), Ok(()));
        assert_eq!(of(json!({"assume_output": 5})), Ok(()));
        for fields in [
            json!({"assume_output": 0}),
            json!({"assume_output": 10_000_001}),
            json!({"enforcement": "check", "assume_output": 5}),
        ] {
            assert_eq!(of(fields), Err("assume_output".to_owned()));
        }
    }

    #[test]
    fn token_units_are_aliases() {
        let p = policy(
            json!({"type": "tokens", "unit": "tpd", "value": 5, "conditions": [{"key": "api_key", "value": ["a", "b"]}]}),
        );
        assert_eq!(p.unit, Unit::Day);
    }
}
