//! A budget: how much may be spent until when, on a usage-limit policy and on keys, workspaces, providers and
//! integrations alike. Pure: knows no counter and no clock.

use super::Invalid;
use crate::time::Timestamp;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY: i64 = 86_400_000_000;

/// What is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spend {
    /// US dollars.
    #[default]
    Cost,
    Tokens,
    Requests,
}

impl Spend {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
        }
    }
}

/// US dollars of a cost, a whole number of anything else. Shown as it was given, `5` and not `5.0`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Amount(f64);

impl Amount {
    /// Up to here every whole number is exact.
    const MOST: f64 = 9_007_199_254_740_992.0;
    /// Keeps nanodollars within 64 bits.
    const MOST_USD: f64 = 1e9;

    pub const fn new(value: f64) -> Self {
        Self(value)
    }

    /// The amount as it is counted: nanodollars of a cost, else the number itself. It must have passed its check.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub fn units(self, spend: Spend) -> u64 {
        match spend {
            Spend::Cost => (self.0 * 1e9).round() as u64,
            Spend::Tokens | Spend::Requests => self.0 as u64,
        }
    }

    /// The amount that people are shown for what was counted.
    #[expect(clippy::cast_precision_loss, reason = "shown to people, never counted with")]
    pub fn shown(units: u64, spend: Spend) -> Self {
        match spend {
            Spend::Cost => Self(units as f64 / 1e9),
            Spend::Tokens | Spend::Requests => Self(units as f64),
        }
    }

    fn check(self, field: &str, spend: Spend, least: f64) -> Result<(), Invalid> {
        if self.0.is_nan() || self.0 < least {
            return Err(Invalid::new(field, format!("must be at least {least}")));
        }
        let most = if spend == Spend::Cost { Self::MOST_USD } else { Self::MOST };
        if self.0 > most {
            return Err(Invalid::new(field, format!("must be at most {most}")));
        }
        if spend != Spend::Cost && self.0.fract() != 0.0 {
            return Err(Invalid::new(field, format!("must be a whole number of {}", spend.name())));
        }
        Ok(())
    }
}

/// Written like amounts of money: no more places than there are.
impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() <= Self::MOST {
            return s.serialize_i64(self.0 as i64);
        }
        s.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        f64::deserialize(d).map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    Weekly,
    Monthly,
}

/// Where weeks begin: they differ by who holds the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Week {
    /// Weeks of the budgets of policies.
    Monday,
    /// Weeks of the budgets of keys, workspaces, providers and integrations.
    Sunday,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    #[serde(rename = "type")]
    pub spend: Spend,
    pub credit_limit: Amount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_threshold: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic_reset: Option<Reset>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic_reset_days: Option<u16>,
    /// The first reset, where it was chosen; the others follow from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_reset_at: Option<Timestamp>,
    /// When the budget was set: nothing before counts.
    pub since: Timestamp,
}

/// One stretch of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub starts: Timestamp,
    /// `None`: never starts anew by itself.
    pub ends: Option<Timestamp>,
}

impl Budget {
    /// The limit as it is counted, see [`Amount::units`].
    pub fn limit(&self) -> u64 {
        self.credit_limit.units(self.spend)
    }

    /// The threshold of the alert as it is counted, see [`Amount::units`].
    pub fn threshold(&self) -> Option<u64> {
        self.alert_threshold.map(|t| t.units(self.spend))
    }

    /// Every rule on its own fields; `under` is where it stands in the body, with a dot at its end.
    /// `least_tokens`: the smallest limit in tokens.
    pub fn check(&self, under: &str, least_tokens: f64) -> Result<(), Invalid> {
        let field = |name: &str| format!("{under}{name}");
        let least = if self.spend == Spend::Tokens { least_tokens } else { 1.0 };
        self.credit_limit.check(&field("credit_limit"), self.spend, least)?;
        if let Some(threshold) = self.alert_threshold {
            threshold.check(&field("alert_threshold"), self.spend, 1.0)?;
            if threshold >= self.credit_limit {
                return Err(Invalid::new(field("alert_threshold"), "must be less than credit_limit"));
            }
        }
        if self.periodic_reset.is_some() && self.periodic_reset_days.is_some() {
            return Err(Invalid::new(field("periodic_reset_days"), "must not stand beside periodic_reset"));
        }
        if self.periodic_reset_days.is_some_and(|days| !(1..=365).contains(&days)) {
            return Err(Invalid::new(field("periodic_reset_days"), "must be in 1..365"));
        }
        let periodic = self.periodic_reset.is_some() || self.periodic_reset_days.is_some();
        if self.first_reset_at.is_some() && !periodic {
            let rule = "needs periodic_reset or periodic_reset_days";
            return Err(Invalid::new(field("next_usage_reset_at"), rule));
        }
        Ok(())
    }

    /// The stretch that `now` falls into. Its start is the same for everybody who asks, so counters may go by it.
    pub fn period(&self, week: Week, now: Timestamp) -> Period {
        let whole = Period { starts: self.since, ends: None };
        if let Some(first) = self.first_reset_at
            && now < first
        {
            return Period { ends: Some(first), ..whole };
        }
        match (self.periodic_reset, self.periodic_reset_days) {
            (Some(Reset::Monthly), _) => month(self.first_reset_at, now).unwrap_or(whole),
            (Some(Reset::Weekly), _) => every(7, self.first_reset_at.unwrap_or_else(|| week.anchor()), now),
            (None, Some(days)) => {
                every(i64::from(days.max(1)), midnight(self.first_reset_at.unwrap_or(self.since)), now)
            }
            (None, None) => whole,
        }
    }
}

impl Week {
    /// Some such day at midnight, UTC. The epoch was a Thursday.
    const fn anchor(self) -> Timestamp {
        match self {
            Self::Monday => Timestamp(4 * DAY),
            Self::Sunday => Timestamp(3 * DAY),
        }
    }
}

fn every(days: i64, anchor: Timestamp, now: Timestamp) -> Period {
    let length = days * DAY;
    let starts = anchor.0 + (now.0 - anchor.0).div_euclid(length) * length;
    Period { starts: Timestamp(starts), ends: Some(Timestamp(starts + length)) }
}

/// The month around `now`: it begins on the 1st, or on the day of the month that the first reset fell on, which in
/// shorter months is their last day. `None` beyond the calendar.
fn month(first: Option<Timestamp>, now: Timestamp) -> Option<Period> {
    let today = date(now)?;
    let day = first.and_then(date).map_or(1, Date::day);
    let begins = |of: Date| of.first_of_month().with().day(day.min(of.days_in_month())).build().ok();
    let here = begins(today)?;
    let (starts, ends) = if today < here {
        (begins(here.checked_sub(1.month()).ok()?)?, here)
    } else {
        (here, begins(here.first_of_month().checked_add(1.month()).ok()?)?)
    };
    Some(Period { starts: time(starts)?, ends: Some(time(ends)?) })
}

fn date(at: Timestamp) -> Option<Date> {
    Some(jiff::Timestamp::from_microsecond(at.0).ok()?.to_zoned(TimeZone::UTC).date())
}

fn time(date: Date) -> Option<Timestamp> {
    Some(Timestamp(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond()))
}

/// Resets fall on midnight, UTC.
pub const fn midnight(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_euclid(DAY) * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn budget(fields: &Value) -> Budget {
        let mut base = json!({"type": "cost", "credit_limit": 10, "since": "2026-01-14T15:00:00Z"});
        base.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        serde_json::from_value(base).expect("a budget")
    }

    #[test]
    fn rules_name_the_field() {
        for (fields, field) in [
            (json!({"credit_limit": 0.5}), "credit_limit"),
            (json!({"credit_limit": 1e10}), "credit_limit"),
            (json!({"type": "tokens", "credit_limit": 99}), "credit_limit"),
            (json!({"type": "tokens", "credit_limit": 100.5}), "credit_limit"),
            (json!({"type": "requests", "credit_limit": 0}), "credit_limit"),
            (json!({"alert_threshold": 10}), "alert_threshold"),
            (json!({"alert_threshold": 0.5}), "alert_threshold"),
            (json!({"periodic_reset": "weekly", "periodic_reset_days": 3}), "periodic_reset_days"),
            (json!({"periodic_reset_days": 0}), "periodic_reset_days"),
            (json!({"periodic_reset_days": 366}), "periodic_reset_days"),
            (json!({"first_reset_at": "2026-02-01"}), "next_usage_reset_at"),
        ] {
            let said = budget(&fields).check("b.", 100.0).map_err(|e| e.field);
            assert_eq!(said, Err(format!("b.{field}")), "{fields}");
        }
        for fields in [
            json!({}),
            json!({"credit_limit": 1.5, "alert_threshold": 1.25}),
            json!({"type": "requests", "credit_limit": 1}),
            json!({"type": "tokens", "credit_limit": 100, "periodic_reset_days": 365, "first_reset_at": "2026-02-01"}),
        ] {
            assert_eq!(budget(&fields).check("", 100.0), Ok(()), "{fields}");
        }
    }

    #[test]
    fn periods_begin_at_their_anchors() {
        for (fields, week, now, starts, ends) in [
            (json!({"periodic_reset": "weekly"}), Week::Monday, "2026-01-15T10:00:00Z", "2026-01-12", "2026-01-19"),
            (json!({"periodic_reset": "weekly"}), Week::Sunday, "2026-01-15T10:00:00Z", "2026-01-11", "2026-01-18"),
            (json!({"periodic_reset": "weekly"}), Week::Monday, "2026-01-19", "2026-01-19", "2026-01-26"),
            (json!({"periodic_reset": "monthly"}), Week::Monday, "2026-02-28T23:59:59Z", "2026-02-01", "2026-03-01"),
            (
                json!({"periodic_reset": "monthly", "first_reset_at": "2026-01-31"}),
                Week::Monday,
                "2026-02-28T12:00:00Z",
                "2026-02-28",
                "2026-03-31",
            ),
            (
                json!({"periodic_reset": "monthly", "first_reset_at": "2026-01-20"}),
                Week::Monday,
                "2026-03-05",
                "2026-02-20",
                "2026-03-20",
            ),
            (json!({"periodic_reset_days": 3}), Week::Sunday, "2026-01-19T01:00:00Z", "2026-01-17", "2026-01-20"),
            (
                json!({"periodic_reset_days": 10, "first_reset_at": "2026-02-01"}),
                Week::Sunday,
                "2026-02-12",
                "2026-02-11",
                "2026-02-21",
            ),
            (
                json!({"periodic_reset_days": 10, "first_reset_at": "2026-02-01"}),
                Week::Sunday,
                "2026-01-30",
                "2026-01-14T15:00:00Z",
                "2026-02-01",
            ),
        ] {
            let period = Period { starts: at(starts), ends: Some(at(ends)) };
            assert_eq!(budget(&fields).period(week, at(now)), period, "{fields} {now}");
        }
        let whole = Period { starts: at("2026-01-14T15:00:00Z"), ends: None };
        assert_eq!(budget(&json!({})).period(Week::Monday, at("2030-01-01")), whole);
    }

    #[test]
    fn amounts_are_shown_as_they_were_given() {
        for text in ["5", "0.25", "9007199254740992"] {
            let amount: Amount = serde_json::from_str(text).expect("an amount");
            assert_eq!(serde_json::to_string(&amount).ok().as_deref(), Some(text));
        }
        assert_eq!(Amount::new(0.1).units(Spend::Cost), 100_000_000);
        assert_eq!(Amount::shown(1_500_000_000, Spend::Cost), Amount::new(1.5));
    }
}
