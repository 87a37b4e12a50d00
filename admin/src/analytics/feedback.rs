//! Graphs of feedback: how much there was, which values, how good by weight, and by model. Made from the pieces
//! themselves, which are few beside calls.

use super::buckets::TimeBuckets;
use super::measure::Stat;
use super::query::{MOST_RECORDS, TIME, VIEW, shown};
use crate::logs::feedback_filter::{MOST_READ, MOST_TRACES, Opinions, by_trace};
use crate::logs::{filter, restricted};
use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::analytics::{Dimension, SumPart, SumParts, SumQuery};
use gateway_domain::export::LogField;
use gateway_domain::feedback::{FeedbackQuery, TraceFeedback};
use http::Method;
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

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

pub(super) fn routes() -> Vec<AdminRoute> {
    [
        ("/analytics/graphs/feedbacks", "Plot how much feedback came over time", Shows::Count),
        ("/analytics/graphs/feedbacks/scores", "Count feedback by its value", Shows::Scores),
        ("/analytics/graphs/feedbacks/weighted", "Plot the weighted average of feedback over time", Shows::Weighted),
        ("/analytics/graphs/feedbacks/ai-models", "Average feedback by model", Shows::Models),
    ]
    .into_iter()
    .map(|(path, about, shows)| {
        authed(Method::GET, path, VIEW, about, move |call| plot(call, shows)).asks(ASKED).not_yet(&LATER)
    })
    .collect()
}

/// Filters of records say nothing of feedback.
static LATER: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| filter::OF_ANALYTICS.iter().copied().filter(|name| !ASKED.contains(name)).collect());

async fn plot(call: AdminCall, shows: Shows) -> Result<AdminReply, Problem> {
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
        most: MOST_READ,
        id: None,
    };
    // Whoever sees own logs only sees no feedback of others, and nobody knows whose it is.
    let found = if call.actor.sees_all { call.app.feedbacks.feedbacks(&query).await? } else { Vec::new() };
    let (summary, points) = match shows {
        Shows::Count => over_time(&buckets, &found, |some| json!({"total": some.count})),
        Shows::Weighted => over_time(&buckets, &found, |some| json!({"avg": shown_average(some)})),
        Shows::Scores => scores(&found),
        Shows::Models => models(&found),
    };
    Ok(AdminReply::json(json!({
        "object": "analytics-graph",
        "summary": summary,
        "data_points": points,
        "partial": found.len() as u64 >= MOST_READ,
        "cut": false,
    })))
}

/// Calls that anything was thought of, by what they have in common.
#[derive(Debug, Default)]
pub(super) struct RatedCalls {
    by_value: HashMap<SmolStr, (Opinions, i64)>,
    /// There was feedback of more traces than were looked for.
    pub(super) is_partial: bool,
}

impl RatedCalls {
    pub(super) fn fill(&self, value: &SmolStr, stat: &mut Stat<'_>) {
        if let Some((opinions, calls)) = self.by_value.get(value) {
            (stat.opinions, stat.rated) = (*opinions, *calls);
        }
    }
}

/// Adds up feedback by the value of `by`, for the calls that a request for groups asks for. The newest traces with
/// feedback are looked for among the records.
pub(super) async fn rated(call: &AdminCall, by: &Dimension) -> Result<RatedCalls, Problem> {
    let mut rated = RatedCalls::default();
    let buckets = TimeBuckets::read(&call.query, call.app.now())?;
    // Whoever sees own logs only sees no feedback of others, and nobody knows whose it is.
    if !call.actor.sees_all {
        return Ok(rated);
    }
    let asked = FeedbackQuery {
        org: Some(call.actor.org),
        workspaces: filter::workspaces(call)?,
        from: buckets.edges.first().copied(),
        most: MOST_READ,
        ..FeedbackQuery::default()
    };
    let found = call.app.feedbacks.feedbacks(&asked).await?;
    let mut traces = by_trace(&found);
    rated.is_partial = found.len() as u64 >= MOST_READ || traces.len() > MOST_TRACES;
    traces.truncate(MOST_TRACES);
    let Some(mut of) = filter::read_filters(call).await?.filter(|_| !traces.is_empty()) else { return Ok(rated) };
    let is_asked = |trace: &str| {
        let named = of.trace_id.as_deref().into_iter().chain(of.trace_ids.iter().map(String::as_str));
        let mut named = named.peekable();
        named.peek().is_none() || named.any(|one| one == trace)
    };
    let traces: HashMap<&str, Opinions> = traces.into_iter().filter(|(trace, _)| is_asked(trace)).collect();
    if traces.is_empty() {
        return Ok(rated);
    }
    (of.trace_id, of.trace_ids) = (None, traces.keys().map(|trace| (*trace).to_owned()).collect());
    let query = SumQuery {
        of,
        edges: buckets.ends(),
        by: vec![by.clone(), Dimension::Trace],
        parts: SumParts::of(&[SumPart::Calls]),
        most_records: MOST_RECORDS,
        time: TIME,
    };
    let sums = call.app.sums.sums(&query).await?;
    rated.is_partial |= sums.is_partial;
    // A call that tried several targets has a record for each; only the last one counts as the call and is shown.
    for cell in sums.cells.iter().filter(|cell| cell.sums.calls > 0) {
        let Some(opinions) = traces.get(cell.values[1].as_str()) else { continue };
        let (all, calls) = rated.by_value.entry(cell.values[0].clone()).or_default();
        all.merge(opinions);
        *calls += cell.sums.calls;
    }
    Ok(rated)
}

fn shown_average(some: &Opinions) -> Value {
    some.average().map_or(Value::Null, |average| json!((average * 100.0).round() / 100.0))
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
        json!({"ai_model": model, "total": some.count, "avg_weighted_feedback": shown_average(&some)})
    };
    (json!({}), by.into_iter().map(point).collect())
}
