//! What can be said of sums: each measure one way to read them. Money is told in cents, time in milliseconds, rates in
//! percent; an average of nothing is null.

use crate::logs::feedback_filter::Opinions;
use gateway_domain::analytics::{SumCell, SumPart, SumParts, Sums, SumsFound};
use gateway_domain::export::{LogField, LogFields};
use gateway_domain::{NanoUsd, Timestamp};
use serde_json::{Value, json};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SumMeasure {
    Calls,
    Cost,
    CostPerCall,
    Tokens,
    TokensPerCall,
    InputPerCall,
    OutputPerCall,
    Latency,
    /// The latency below which this share of the calls stayed, in percent.
    Quantile(u8),
    Users,
    CallsPerUser,
    Errors,
    ErrorRate,
    SuccessRate,
    Retried,
    /// The calls that a retry brought to success, as a list of one entry or none; graphs show them in this form.
    RetriedList,
    FellBack,
    Hits,
    HitRate,
    Saved,
    HitLatency,
    SpeedUp,
    FirstSeen,
    LastSeen,
    /// The weighted average of what was thought of calls.
    Feedback,
    /// Calls that anything was thought of.
    Rated,
    /// Always 0: a measure of semantic caches, which do not exist yet.
    Nothing,
}

/// Sums, and who made the calls where that was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Stat<'f> {
    pub(super) sums: Sums,
    users: HashSet<&'f str>,
    /// Calls of anybody who is known.
    user_calls: i64,
    /// Where that was asked.
    pub(super) opinions: Opinions,
    pub(super) rated: i64,
}

impl<'f> Stat<'f> {
    pub(super) fn total(found: &'f SumsFound) -> Self {
        let mut all = Self::default();
        found.cells.iter().for_each(|cell| all.sums.merge(&cell.sums));
        all
    }

    pub(super) fn add(&mut self, cell: &SumCell) {
        self.sums.merge(&cell.sums);
    }

    /// Adds a cell whose first value is a user.
    pub(super) fn add_user(&mut self, cell: &'f SumCell) {
        self.sums.merge(&cell.sums);
        if let Some(user) = cell.values.first().filter(|user| !user.is_empty() && cell.sums.calls > 0) {
            self.users.insert(user);
            self.user_calls += cell.sums.calls;
        }
    }
}

impl SumMeasure {
    pub(super) fn of(self, stat: &Stat<'_>) -> Value {
        let s = &stat.sums;
        match self {
            Self::Calls => s.calls.into(),
            Self::Cost => cents(s.cost),
            Self::CostPerCall => per(NanoUsd(s.cost).cents(), s.calls),
            Self::Tokens => s.tokens().into(),
            Self::TokensPerCall => mean(s.tokens(), s.calls),
            Self::InputPerCall => mean(s.input_tokens, s.calls),
            Self::OutputPerCall => mean(s.output_tokens, s.calls),
            Self::Latency => millis(s.total_us, s.answered),
            Self::Quantile(percent) => {
                s.latency.quantile(f64::from(percent) / 100.0).map_or(Value::Null, |us| rounded(us / 1e3))
            }
            Self::Users => stat.users.len().into(),
            Self::CallsPerUser => mean(stat.user_calls, i64::try_from(stat.users.len()).unwrap_or(i64::MAX)),
            Self::Errors => s.errors.into(),
            Self::ErrorRate => percent(s.errors, s.calls),
            Self::SuccessRate => percent(s.calls - s.errors, s.calls),
            Self::Retried => s.retried.into(),
            Self::RetriedList if s.retried == 0 => json!([]),
            Self::RetriedList => json!([{"total": s.retried}]),
            Self::FellBack => s.fell_back.into(),
            Self::Hits => s.hits.into(),
            Self::HitRate => percent(s.hits, s.hits + s.misses),
            Self::Saved => cents(s.saved),
            Self::HitLatency => millis(s.hit_us, s.hits),
            Self::SpeedUp => speed_up(s),
            Self::FirstSeen => time(s.first_seen),
            Self::LastSeen => time(s.last_seen),
            Self::Feedback => stat.opinions.average().map_or(Value::Null, rounded),
            Self::Rated => stat.rated.into(),
            Self::Nothing => 0.into(),
        }
    }

    /// The value that [`Self::of`] gives, or null where the asker may not see the field of logs that it is made of.
    pub(super) fn shown(self, stat: &Stat<'_>, hidden: LogFields) -> Value {
        if self.field().is_some_and(|field| hidden.contains(field)) { Value::Null } else { self.of(stat) }
    }

    /// Which field of logs it gives away.
    pub(super) const fn field(self) -> Option<LogField> {
        match self {
            Self::Cost | Self::CostPerCall | Self::Saved => Some(LogField::Cost),
            Self::Tokens | Self::TokensPerCall => Some(LogField::TotalUnits),
            Self::InputPerCall => Some(LogField::ReqUnits),
            Self::OutputPerCall => Some(LogField::ResUnits),
            Self::Latency | Self::Quantile(_) | Self::HitLatency | Self::SpeedUp => Some(LogField::ResponseTime),
            Self::Users | Self::CallsPerUser => Some(LogField::Metadata),
            Self::FirstSeen | Self::LastSeen => Some(LogField::CreatedAt),
            Self::Calls
            | Self::Errors
            | Self::ErrorRate
            | Self::SuccessRate
            | Self::Retried
            | Self::RetriedList
            | Self::FellBack
            | Self::Hits
            | Self::HitRate
            | Self::Feedback
            | Self::Rated
            | Self::Nothing => None,
        }
    }

    /// Whether it is of what was told after the calls.
    pub(super) const fn is_of_feedback(self) -> bool {
        matches!(self, Self::Feedback | Self::Rated)
    }

    /// What [`Self::of`] reads of sums.
    pub(super) const fn parts(self) -> SumParts {
        use SumPart as P;
        SumParts::of(match self {
            Self::Calls | Self::Users | Self::CallsPerUser => &[P::Calls],
            Self::Cost => &[P::Cost],
            Self::CostPerCall => &[P::Cost, P::Calls],
            Self::Tokens => &[P::InputTokens, P::OutputTokens],
            Self::TokensPerCall => &[P::InputTokens, P::OutputTokens, P::Calls],
            Self::InputPerCall => &[P::InputTokens, P::Calls],
            Self::OutputPerCall => &[P::OutputTokens, P::Calls],
            Self::Latency => &[P::TotalUs, P::Answered],
            Self::Quantile(_) => &[P::Latency],
            Self::Errors => &[P::Errors],
            Self::ErrorRate | Self::SuccessRate => &[P::Errors, P::Calls],
            Self::Retried | Self::RetriedList => &[P::Retried],
            Self::FellBack => &[P::FellBack],
            Self::Hits => &[P::Hits],
            Self::HitRate => &[P::Hits, P::Misses],
            Self::Saved => &[P::Saved],
            Self::HitLatency => &[P::HitUs, P::Hits],
            Self::SpeedUp => &[P::HitUs, P::Hits, P::MissUs, P::Misses],
            Self::FirstSeen | Self::LastSeen => &[P::Seen],
            Self::Feedback | Self::Rated | Self::Nothing => &[],
        })
    }
}

fn cents(nanos: i64) -> Value {
    json!(NanoUsd(nanos).cents())
}

#[expect(clippy::cast_precision_loss, reason = "told to people, never counted with")]
const fn float(number: i64) -> f64 {
    number as f64
}

fn per(sum: f64, of: i64) -> Value {
    if of == 0 { Value::Null } else { json!(sum / float(of)) }
}

fn mean(sum: i64, of: i64) -> Value {
    if of == 0 { Value::Null } else { rounded(float(sum) / float(of)) }
}

fn millis(micros: i64, of: i64) -> Value {
    if of == 0 { Value::Null } else { rounded(float(micros) / 1e3 / float(of)) }
}

fn percent(part: i64, of: i64) -> Value {
    if of == 0 { Value::Null } else { rounded(float(part) * 100.0 / float(of)) }
}

/// The number with two decimal places.
fn rounded(number: f64) -> Value {
    json!((number * 100.0).round() / 100.0)
}

fn speed_up(s: &Sums) -> Value {
    if s.hits == 0 || s.misses == 0 || s.hit_us == 0 {
        return Value::Null;
    }
    rounded((float(s.miss_us) / float(s.misses)) / (float(s.hit_us) / float(s.hits)))
}

fn time(micros: i64) -> Value {
    if micros == 0 { Value::Null } else { json!(Timestamp(micros)) }
}
