//! The strategy of a branch: its mode, what belongs to each mode, sticky assignment and circuit breakers.

use super::breaker::BreakerRules;
use super::compiler::Compiler;
use super::cost::{Cost, quoted};
use super::place::At;
use super::query::{Query, QueryKey};
use super::tree::{Mode, Sticky};
use super::typed_fields::Fields;
use serde_json::Value;
use std::sync::Arc;

const KEYS: &[&str] = &["mode", "on_status_codes", "conditions", "default", "sticky", "cb_config"];
const BREAKER_KEYS: &[&str] = &[
    "failure_threshold",
    "failure_threshold_percentage",
    "minimum_requests",
    "cooldown_interval",
    "failure_status_codes",
];

const STICKY_KEYS: &[&str] = &["enabled", "hash_fields", "ttl"];
const CONDITION_KEYS: &[&str] = &["query", "then"];

/// The keys of each object below a strategy.
pub(super) const fn keys() -> [(&'static str, &'static [&'static str]); 4] {
    [
        ("strategy", KEYS),
        ("strategy.sticky", STICKY_KEYS),
        ("strategy.conditions", CONDITION_KEYS),
        ("cb_config", BREAKER_KEYS),
    ]
}

/// Keys of the strategy, each with the one mode that it belongs to.
const OF_MODE: &[(&str, &str)] = &[
    ("on_status_codes", "fallback"),
    ("conditions", "conditional"),
    ("default", "conditional"),
    ("sticky", "loadbalance"),
];

const LONGEST_STICKY: u64 = 30 * 24 * 3600;
const MOST_FIELDS: usize = 16;
/// Answers are counted in 16 bits.
const MOST_COUNTED: u64 = 10_000;
const LEAST_COOLDOWN: u64 = 30_000;
const LONGEST_COOLDOWN: u64 = 24 * 3_600_000;
/// The default of `minimum_requests`: with fewer answers than these a share of failures means nothing.
const MINIMUM: u32 = 10;

/// A strategy as it is read, before its targets are known.
#[derive(Default)]
pub(super) struct Strategy<'v> {
    pub(super) mode: StrategyMode<'v>,
    pub(super) breaker: Option<Arc<BreakerRules>>,
}

#[derive(Default)]
pub(super) enum StrategyMode<'v> {
    /// Also what stands in for a strategy that has problems.
    #[default]
    Single,
    Fallback(Option<Arc<[u16]>>),
    LoadBalance(Option<Sticky>),
    Conditional {
        conditions: Vec<(Query, &'v str)>,
        default: Option<&'v str>,
    },
}

impl Compiler<'_> {
    pub(super) fn strategy<'v>(&mut self, at: &At<'_>, value: &'v Value) -> Strategy<'v> {
        let Some(fields) = self.object(at, value, KEYS) else { return Strategy::default() };
        let mode = fields.get("mode").and_then(Value::as_str);
        for (key, home) in OF_MODE.iter().filter(|(key, home)| fields.has(key) && mode != Some(home)) {
            self.problem(at, key, format!("belongs to mode {home}"));
        }
        let read = match mode {
            Some("single") => StrategyMode::Single,
            Some("fallback") => StrategyMode::Fallback(self.statuses(at, &fields, "on_status_codes")),
            Some("loadbalance") => StrategyMode::LoadBalance(self.sticky(at, &fields)),
            Some("conditional") => self.conditional(at, &fields),
            _ => {
                self.problem(at, "mode", "must be one of single, fallback, loadbalance, conditional");
                // Said all the same, so that one answer names every problem.
                self.statuses(at, &fields, "on_status_codes");
                StrategyMode::Single
            }
        };
        let breaker = fields.get("cb_config").and_then(|v| self.breaker(&at.then("cb_config"), v));
        Strategy { mode: read, breaker }
    }

    fn conditional<'v>(&mut self, at: &At<'_>, fields: &Fields<'v>) -> StrategyMode<'v> {
        let mut conditions = Vec::new();
        match fields.get("conditions") {
            Some(Value::Array(list)) if !list.is_empty() => {
                let at = at.then("conditions");
                for (i, condition) in list.iter().enumerate() {
                    if !self.spend(&at.then(&i.to_string()), Cost::Conditions, 1) {
                        break;
                    }
                    conditions.extend(self.condition(&at.then(&i.to_string()), condition));
                }
            }
            _ => self.problem(at, "conditions", "must be an array of at least 1 condition with mode conditional"),
        }
        StrategyMode::Conditional { conditions, default: self.string(at, fields, "default") }
    }

    fn condition<'v>(&mut self, at: &At<'_>, value: &'v Value) -> Option<(Query, &'v str)> {
        let fields = self.object(at, value, CONDITION_KEYS)?;
        let query = match fields.get("query") {
            Some(query) => self.query(&at.then("query"), query, 0),
            None => {
                self.problem(at, "query", "is required");
                Query::default()
            }
        };
        if !fields.has("then") {
            self.problem(at, "then", "is required: the name of a target");
        }
        Some((query, self.string(at, &fields, "then")?))
    }

    /// Names become places, once the targets' names are known.
    pub(super) fn settle(
        &mut self,
        at: &At<'_>,
        read: StrategyMode<'_>,
        names: &[Option<&str>],
        weights: &[f64],
    ) -> Mode {
        match read {
            StrategyMode::Single => Mode::Single,
            StrategyMode::Fallback(on) => Mode::Fallback(on),
            StrategyMode::LoadBalance(sticky) => {
                let total: f64 = weights.iter().sum();
                if !weights.is_empty() && total <= 0.0 {
                    self.problem(at, "targets", "must have a weight above 0 on at least one target");
                }
                Mode::LoadBalance { total, sticky }
            }
            StrategyMode::Conditional { conditions, default } => {
                let at = at.then("strategy");
                let listed = conditions.into_iter().enumerate().filter_map(|(i, (query, then))| {
                    let (list, number) = (at.then("conditions"), i.to_string());
                    Some((query, self.named(&list.then(&number).then("then"), then, names)?))
                });
                let conditions = listed.collect();
                let default = default.and_then(|name| self.named(&at.then("default"), name, names));
                Mode::Conditional { conditions, default }
            }
        }
    }

    fn named(&mut self, at: &At<'_>, name: &str, names: &[Option<&str>]) -> Option<usize> {
        let place = names.iter().position(|n| *n == Some(name));
        if place.is_none() {
            self.here(at, format!("target name `{}` is invalid: no target of this strategy has it", quoted(name)));
        }
        place
    }

    fn sticky(&mut self, at: &At<'_>, fields: &Fields<'_>) -> Option<Sticky> {
        let value = fields.get("sticky")?;
        let at = at.then("sticky");
        let fields = self.object(&at, value, STICKY_KEYS)?;
        let enabled = self.boolean(&at, &fields, "enabled").unwrap_or(false);
        let ttl = self.integer(&at, &fields, "ttl", (1, LONGEST_STICKY)).unwrap_or(3600);
        let named = self.strings(&at, &fields, "hash_fields", "field paths");
        if named.as_ref().is_some_and(|n| n.is_empty() || n.len() > MOST_FIELDS) || (named.is_none() && enabled) {
            self.problem(&at, "hash_fields", format!("must name 1..{MOST_FIELDS} fields"));
        }
        let mut keys = Vec::new();
        for name in named.unwrap_or_default() {
            match QueryKey::parse_field(name) {
                Some(key) => keys.push(key),
                None => {
                    let rule = format!("`{}` must be metadata.<key>, params.<path> or url.pathname", quoted(name));
                    self.problem(&at, "hash_fields", rule);
                }
            }
        }
        let ttl_ms = i64::try_from(ttl * 1000).unwrap_or(i64::MAX);
        enabled.then(|| Sticky { fields: keys.into(), ttl_ms })
    }

    pub(super) fn breaker(&mut self, at: &At<'_>, value: &Value) -> Option<Arc<BreakerRules>> {
        let fields = self.object(at, value, BREAKER_KEYS)?;
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let threshold = self.integer(at, &fields, "failure_threshold", (1, MOST_COUNTED)).map(small);
        let percentage = fields.get("failure_threshold_percentage").and_then(|v| {
            let share = v.as_f64().filter(|p| *p > 0.0 && *p <= 100.0);
            if share.is_none() {
                self.problem(at, "failure_threshold_percentage", "must be a number above 0 and at most 100");
            }
            share
        });
        if !fields.has("failure_threshold") && !fields.has("failure_threshold_percentage") {
            self.problem(at, "failure_threshold", "is required, or failure_threshold_percentage");
        }
        let minimum = self.integer(at, &fields, "minimum_requests", (1, MOST_COUNTED)).map_or(MINIMUM, small);
        let cooldown = self.integer(at, &fields, "cooldown_interval", (LEAST_COOLDOWN, LONGEST_COOLDOWN));
        Some(Arc::new(BreakerRules {
            threshold,
            percentage,
            minimum,
            cooldown_ms: i64::try_from(cooldown.unwrap_or(LEAST_COOLDOWN)).unwrap_or(i64::MAX),
            statuses: self.statuses(at, &fields, "failure_status_codes"),
        }))
    }
}
