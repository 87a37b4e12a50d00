//! Graphs of feedback: how much there was, which values, how good by weight, and by model. Made from the pieces themselves,
//! which are few beside calls.

use super::buckets::TimeBuckets;
use super::question::{VIEW, shown};
use crate::logs::{filter, restricted};
use crate::problem::Problem;
use crate::route::{Call, Reply, Route, authed};
use gateway_domain::analytics::Dimension;
use gateway_domain::export::LogField;
use gateway_domain::feedback::{FeedbackQuery, Opinion, TraceFeedback};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The newest of a range that are read.
const MOST: u64 = 100_000;

static ASKED: &[&str] =
    &["workspace_id", "workspace_slug", "time_of_generation_min", "time_of_generation_max", "time_zone", "trace_id"];

/// What a graph shows.
#[derive(Clone, Copy, Debug)]
enum Shows {
    Count,
    Scores,
    Weighted,
    Models,
}

pub(super) fn routes() -> Vec<Route> {
    [
        ("/analytics/graphs/feedbacks", "Plot how much feedback came over time", Shows::Count),
        ("/analytics/graphs/feedbacks/scores", "Count feedback by its value", Shows::Scores),
        ("/analytics/graphs/feedbacks/weighted", "Plot the weighted average of feedback over time", Shows::Weighted),
        ("/analytics/graphs/feedbacks/ai-models", "Average feedback by model", Shows::Models),
    ]
    .into_iter()
    .map(|(path, about, shows)| {
        authed(Method::GET, path, VIEW, about, move |call| plot(call, shows)).asks(ASKED).not_yet(LATER)
    })
    .collect()
}

/// Filters of records say nothing of feedback.
static LATER: &[&str] = &[
    "status_code",
    "ai_model",
    "ai_org",
    "ai_org_model",
    "metadata",
    "virtual_keys",
    "configs",
    "api_key_ids",
    "cost_min",
    "cost_max",
    "total_units_min",
    "total_units_max",
    "prompt_token_min",
    "prompt_token_max",
    "completion_token_min",
    "completion_token_max",
    "weighted_feedback_min",
    "weighted_feedback_max",
    "prompt_slug",
    "span_id",
];

async fn plot(call: Call, shows: Shows) -> Result<Reply, Problem> {
    let hidden = restricted::hidden(&call);
    if call.query.text("trace_id").is_some() {
        restricted::refuse("trace_id", LogField::TraceId, hidden)?;
    }
    if matches!(shows, Shows::Models) {
        restricted::refuse("graph", LogField::AiModel, hidden)?;
    }
    let buckets = TimeBuckets::read(&call.query, call.app.now())?;
    let query = FeedbackQuery {
        org: Some(call.actor.org),
        workspaces: filter::workspaces(&call)?,
        from: buckets.edges.first().copied(),
        to: buckets.edges.last().copied(),
        trace_ids: call.query.list("trace_id", "must be comma-separated ids of traces")?,
        most: MOST,
        id: None,
    };
    // Whoever sees own logs only sees no feedback of others, and nobody knows whose it is.
    let found = if call.actor.sees_all { call.app.feedbacks.feedbacks(&query).await? } else { Vec::new() };
    let (summary, points) = match shows {
        Shows::Count => over_time(&buckets, &found, |some| json!({"total": some.count})),
        Shows::Weighted => over_time(&buckets, &found, |some| json!({"avg": some.average()})),
        Shows::Scores => scores(&found),
        Shows::Models => models(&found),
    };
    Ok(Reply::json(json!({
        "object": "analytics-graph",
        "summary": summary,
        "data_points": points,
        "partial": found.len() as u64 >= MOST,
        "cut": false,
    })))
}

#[derive(Clone, Copy, Debug, Default)]
struct Opinions {
    count: u64,
    weighted: i128,
    weight: i128,
}

impl Opinions {
    fn add(&mut self, opinion: &Opinion) {
        self.count += 1;
        self.weighted += i128::from(opinion.value) * i128::from(opinion.weight);
        self.weight += i128::from(opinion.weight);
    }

    #[expect(clippy::cast_precision_loss, reason = "told to people, never counted with")]
    fn average(self) -> Value {
        if self.weight == 0 {
            return Value::Null;
        }
        let average = self.weighted as f64 / self.weight as f64 / 1e3;
        json!((average * 100.0).round() / 100.0)
    }
}

fn over_time(buckets: &TimeBuckets, found: &[TraceFeedback], tell: impl Fn(&Opinions) -> Value) -> (Value, Vec<Value>) {
    let (mut all, mut each) = (Opinions::default(), vec![Opinions::default(); buckets.stamps.len()]);
    for feedback in found {
        all.add(&feedback.opinion);
        let behind = buckets.edges.partition_point(|edge| *edge <= feedback.created_at);
        if let Some(some) = each.get_mut(behind.saturating_sub(1)) {
            some.add(&feedback.opinion);
        }
    }
    let point = |(stamp, some)| {
        let mut point: Value = tell(some);
        point["timestamp"] = json!(stamp);
        point
    };
    (tell(&all), buckets.stamps.iter().zip(&each).map(point).collect())
}

fn scores(found: &[TraceFeedback]) -> (Value, Vec<Value>) {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    found.iter().for_each(|feedback| *counts.entry(feedback.opinion.value).or_default() += 1);
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let point = |(value, total): (i64, u64)| {
        let score = if value % 1_000 == 0 { json!(value / 1_000) } else { json!(value as f64 / 1e3) };
        json!({"score": score, "total": total})
    };
    (json!({"total": found.len()}), counts.into_iter().map(point).collect())
}

fn models(found: &[TraceFeedback]) -> (Value, Vec<Value>) {
    let mut by: BTreeMap<&str, Opinions> = BTreeMap::new();
    found.iter().for_each(|feedback| by.entry(&feedback.model).or_default().add(&feedback.opinion));
    let point = |(model, some): (&str, Opinions)| {
        let model = shown(&Dimension::Model, model);
        json!({"ai_model": model, "total": some.count, "avg_weighted_feedback": some.average()})
    };
    (json!({}), by.into_iter().map(point).collect())
}
