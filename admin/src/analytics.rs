//! Who spent what: sums of calls, money, tokens and time over a range, as graphs, as one row, or by what calls have in
//! common. What is told is data: a graph is a row of a table of measures, a group is a dimension. Adds up nothing
//! itself.

mod buckets;
mod feedback;
mod graph;
mod group;
mod measure;
mod query;

use crate::logs::{filter, restricted};
use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use http::Method;
use measure::{Stat, SumMeasure};
use query::{SumsAsked, VIEW, sums};
use serde_json::{Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const CACHE: &str = "Tell what the response cache did in a time";
    let summary = authed(Method::GET, "/analytics/summary/cache", VIEW, CACHE, cache_summary);
    let summary = summary.asks(&filter::OF_ANALYTICS);
    graph::routes().into_iter().chain(feedback::routes()).chain([summary]).chain(group::routes()).collect()
}

const CACHE_MEASURES: &[(&str, SumMeasure)] = &[
    ("hits", SumMeasure::Hits),
    ("avg_latency", SumMeasure::HitLatency),
    ("total_requests", SumMeasure::Calls),
    ("cache_speedup", SumMeasure::SpeedUp),
];

async fn cache_summary(call: AdminCall) -> Result<AdminReply, Problem> {
    let parts = CACHE_MEASURES.iter().map(|(_, measure)| measure.parts()).collect();
    let (_, found) = sums(&call, |buckets| SumsAsked { edges: buckets.ends(), by: Vec::new(), parts }).await?;
    let stat = Stat::total(&found);
    let hidden = restricted::hidden(&call);
    let told = CACHE_MEASURES.iter().map(|(name, measure)| ((*name).to_owned(), measure.shown(&stat, hidden)));
    let summary = Value::Object(told.collect());
    let told = json!({"object": "analytics-summary", "summary": summary, "partial": found.is_partial});
    Ok(AdminReply::json(told))
}
