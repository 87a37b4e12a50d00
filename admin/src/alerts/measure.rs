//! What a rule finds: sums of the calls of its window, or how much of budgets is used. Windows of an hour and more are
//! made of whole hours, which rollups know; shorter ones read single records, within bounds.

use super::budgets;
use super::finding::AlertFinding;
use crate::app::App;
use gateway_domain::analytics::{Grain, SumPart, SumParts, SumQuery, Sums};
use gateway_domain::ports::StoreError;
use gateway_domain::record::LogQuery;
use gateway_domain::resource::alert::{AlertKind, AlertRule};
use gateway_domain::snapshot::SavedAlert;
use gateway_domain::time::Timestamp;
use std::time::Duration;

/// Records that are read one by one where no rollup knows the answer, and for how long.
const MOST_RECORDS: u64 = 200_000;
const TIME: Duration = Duration::from_millis(1_800);

pub(super) async fn measure(app: &App, rule: &SavedAlert, now: Timestamp) -> Result<AlertFinding, StoreError> {
    if rule.rule.kind == AlertKind::Budget {
        return budgets::measure(app, rule).await;
    }
    let filters = &rule.rule.filters;
    let of = LogQuery {
        org: Some(rule.org),
        workspaces: rule.workspace.into_iter().collect(),
        providers: filters.ai_org.clone(),
        models: filters.ai_model.clone(),
        virtual_keys: filters.virtual_keys.clone(),
        ..LogQuery::default()
    };
    let query = SumQuery {
        of,
        edges: window(rule.rule.window_minutes, now).to_vec(),
        by: Vec::new(),
        parts: parts(&rule.rule),
        most_records: MOST_RECORDS,
        time: TIME,
    };
    let found = app.sums.sums(&query).await?;
    let mut all = Sums::default();
    found.cells.iter().for_each(|cell| all.merge(&cell.sums));
    let value = value(&rule.rule, &all);
    Ok(AlertFinding { value, calls: all.calls, is_partial: found.is_partial, budgets: Vec::new() })
}

/// Nothing is recorded in times to come, so that the rest of the hour is taken along: a rollup knows it whole.
fn window(minutes: u32, now: Timestamp) -> [Timestamp; 2] {
    let from = now.plus_micros(-i64::from(minutes) * 60_000_000);
    let from = if minutes >= AlertRule::HOUR { Grain::Hour.floor(from) } else { from };
    [from, Grain::Hour.ceil(now.plus_micros(1))]
}

/// What [`value`] reads.
const fn parts(rule: &AlertRule) -> SumParts {
    let of_kind: &[SumPart] = match rule.kind {
        AlertKind::Spend => &[SumPart::Cost],
        AlertKind::ErrorRate => &[SumPart::Errors],
        AlertKind::Latency if rule.statistic.quantile().is_some() => &[SumPart::Latency],
        AlertKind::Latency => &[SumPart::TotalUs, SumPart::Answered],
        AlertKind::Budget => &[],
    };
    SumParts::of(of_kind).with(SumParts::of(&[SumPart::Calls]))
}

fn value(rule: &AlertRule, sums: &Sums) -> Option<f64> {
    const NANOS: f64 = 1e9;
    if u64::try_from(sums.calls).unwrap_or_default() < rule.minimum_count {
        return None;
    }
    match rule.kind {
        AlertKind::Spend => Some(float(sums.cost) / NANOS),
        AlertKind::ErrorRate => (sums.calls > 0).then(|| float(sums.errors) * 100.0 / float(sums.calls)),
        AlertKind::Latency => match rule.statistic.quantile() {
            Some(share) => sums.latency.quantile(share).map(|micros| micros / 1e3),
            None => (sums.answered > 0).then(|| float(sums.total_us) / 1e3 / float(sums.answered)),
        },
        AlertKind::Budget => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "told to people, never counted with")]
const fn float(number: i64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HOUR: i64 = 3_600_000_000;

    fn rule(kind: &str, more: &serde_json::Value) -> AlertRule {
        let mut doc = json!({
            "type": kind, "threshold": 5, "window_minutes": 60, "cool_down_minutes": 60,
            "channels": [{"type": "email", "to": ["a@example.com"]}],
        });
        for (name, value) in more.as_object().expect("an object") {
            doc[name] = value.clone();
        }
        serde_json::from_value(doc).expect("a rule")
    }

    #[test]
    fn windows_of_hours_are_whole_hours() {
        let now = Timestamp(10 * HOUR + 5);
        assert_eq!(window(60, now), [Timestamp(9 * HOUR), Timestamp(11 * HOUR)]);
        assert_eq!(window(90, now), [Timestamp(8 * HOUR), Timestamp(11 * HOUR)]);
        assert_eq!(window(30, now), [Timestamp(9 * HOUR + HOUR / 2 + 5), Timestamp(11 * HOUR)]);
        assert_eq!(window(60, Timestamp(10 * HOUR))[1], Timestamp(11 * HOUR));
    }

    #[test]
    fn too_few_calls_say_nothing() {
        let sums =
            Sums { calls: 4, errors: 1, answered: 2, total_us: 3_000_000, cost: 2_500_000_000, ..Sums::default() };
        assert_eq!(value(&rule("error_rate", &json!({})), &sums), Some(25.0));
        assert_eq!(value(&rule("error_rate", &json!({"minimum_count": 4})), &sums), Some(25.0));
        assert_eq!(value(&rule("error_rate", &json!({"minimum_count": 5})), &sums), None);
        assert_eq!(value(&rule("spend", &json!({})), &sums), Some(2.5));
        assert_eq!(value(&rule("latency", &json!({"statistic": "avg"})), &sums), Some(1_500.0));
        assert_eq!(value(&rule("latency", &json!({})), &sums), None, "no quantile of nothing");
        assert_eq!(value(&rule("error_rate", &json!({})), &Sums::default()), None);
    }
}
