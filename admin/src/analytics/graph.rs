//! The graphs, one row each: what is told of the whole range, and of every bucket of it. Empty buckets are there.

use super::buckets::TimeBuckets;
use super::measure::{Stat, SumMeasure};
use super::query::{SumsAsked, VIEW, shown, sums};
use crate::logs::{filter, restricted};
use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::analytics::{Dimension, SumParts, SumsFound};
use gateway_domain::export::{LogField, LogFields};
use http::Method;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type NamedMeasure = (&'static str, SumMeasure);

/// What the points of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Points {
    /// A bucket each.
    Plain,
    /// A bucket each, and who called in it.
    Users,
    /// A bucket each, with its statuses of 400 and more.
    Stacks,
    /// A status of 400 and more each.
    Statuses,
}

struct Graph {
    path: &'static str,
    about: &'static str,
    points: Points,
    summary: &'static [NamedMeasure],
    point: &'static [NamedMeasure],
}

const fn graph(
    path: &'static str,
    about: &'static str,
    summary: &'static [NamedMeasure],
    point: &'static [NamedMeasure],
) -> Graph {
    Graph { path, about, points: Points::Plain, summary, point }
}

impl Graph {
    const fn of(mut self, points: Points) -> Self {
        self.points = points;
        self
    }
}

const TOTAL_COST: &[NamedMeasure] = &[("total", SumMeasure::Cost), ("avg", SumMeasure::CostPerCall)];
const TOTAL_TOKENS: &[NamedMeasure] = &[("total", SumMeasure::Tokens), ("avg", SumMeasure::TokensPerCall)];
const CALLS: &[NamedMeasure] = &[("total", SumMeasure::Calls)];
const ERRORS: &[NamedMeasure] = &[("total", SumMeasure::Errors)];
const RATE: &[NamedMeasure] = &[("rate", SumMeasure::ErrorRate)];
const USERS: &[NamedMeasure] = &[("total", SumMeasure::Users)];
const HIT_LATENCY: &[NamedMeasure] = &[("avg", SumMeasure::HitLatency)];
const LATENCY: &[NamedMeasure] = &[
    ("avg", SumMeasure::Latency),
    ("p50", SumMeasure::Quantile(50)),
    ("p90", SumMeasure::Quantile(90)),
    ("p99", SumMeasure::Quantile(99)),
];

static GRAPHS: &[Graph] = &[
    graph("/analytics/graphs/requests", "Plot requests over time", CALLS, CALLS),
    graph("/analytics/graphs/cost", "Plot costs over time, in cents", TOTAL_COST, TOTAL_COST),
    graph("/analytics/graphs/latency", "Plot how long calls took over time, in milliseconds", LATENCY, LATENCY),
    graph("/analytics/graphs/tokens", "Plot tokens over time", TOTAL_TOKENS, TOTAL_TOKENS),
    graph("/analytics/graphs/users", "Plot how many users called over time", USERS, USERS).of(Points::Users),
    graph(
        "/analytics/graphs/users/requests",
        "Plot requests of each user over time",
        &[("total", SumMeasure::Calls), ("unique", SumMeasure::Users), ("avg", SumMeasure::CallsPerUser)],
        &[("avg", SumMeasure::CallsPerUser)],
    )
    .of(Points::Users),
    graph("/analytics/graphs/errors", "Plot failed requests over time", ERRORS, ERRORS),
    graph("/analytics/graphs/errors/rate", "Plot the part of requests that failed, in percent", RATE, RATE),
    graph("/analytics/graphs/errors/stacks", "Plot failed requests over time by status", ERRORS, &[])
        .of(Points::Stacks),
    graph("/analytics/graphs/errors/status-codes", "Count failed requests by status", &[], &[]).of(Points::Statuses),
    graph(
        "/analytics/graphs/requests/rescued",
        "Plot requests that a retry or a fallback brought to success",
        &[("retry", SumMeasure::Retried), ("fallback", SumMeasure::FellBack)],
        &[("retry", SumMeasure::RetriedList), ("fallback", SumMeasure::FellBack)],
    ),
    graph(
        "/analytics/graphs/cache/hit-rate",
        "Plot what the response cache answered, and what it saved, in cents",
        &[("total", SumMeasure::Hits), ("rate", SumMeasure::HitRate)],
        &[
            ("simple_hits", SumMeasure::Hits),
            ("semantic_hits", SumMeasure::Nothing),
            ("rate", SumMeasure::HitRate),
            ("cumulative_semantic_cache_savings", SumMeasure::Nothing),
        ],
    ),
    graph("/analytics/graphs/cache/latency", "Plot how long answers from the cache took", HIT_LATENCY, HIT_LATENCY),
];

/// The one field of a point that goes on from point to point.
const SAVINGS: (&str, &str) = ("/analytics/graphs/cache/hit-rate", "cumulative_simple_cache_savings");

pub(super) fn routes() -> Vec<AdminRoute> {
    let route = |graph: &'static Graph| {
        authed(Method::GET, graph.path, VIEW, graph.about, move |call| plot(call, graph)).asks(&filter::OF_ANALYTICS)
    };
    GRAPHS.iter().map(route).collect()
}

async fn plot(call: AdminCall, graph: &'static Graph) -> Result<AdminReply, Problem> {
    let hidden = restricted::hidden(&call);
    if matches!(graph.points, Points::Stacks | Points::Statuses) {
        restricted::refuse("graph", LogField::ResponseStatusCode, hidden)?;
    }
    let by = match graph.points {
        Points::Plain => Vec::new(),
        Points::Users => vec![Dimension::User],
        Points::Stacks | Points::Statuses => vec![Dimension::Status],
    };
    let of_points = match graph.points {
        Points::Plain if graph.path == SAVINGS.0 => SumMeasure::Saved.parts(),
        Points::Plain => SumParts::NONE,
        Points::Users => SumMeasure::Users.parts(),
        Points::Stacks | Points::Statuses => SumMeasure::Errors.parts(),
    };
    let of_measures = graph.summary.iter().chain(graph.point).map(|(_, measure)| measure.parts());
    let parts = of_measures.chain([of_points]).collect();
    let whole = graph.points == Points::Statuses;
    let ask = |buckets: &TimeBuckets| {
        let edges = if whole { buckets.ends() } else { buckets.edges.clone() };
        SumsAsked { edges, by, parts }
    };
    let (buckets, found) = sums(&call, ask).await?;
    let (summary, points) = if whole {
        statuses(&found)
    } else {
        let (all, each) = stats(graph, &found, buckets.stamps.len());
        let mut points: Vec<Value> = Vec::with_capacity(each.len());
        let mut saved = Stat::default();
        for (span, (stamp, stat)) in buckets.stamps.iter().zip(&each).enumerate() {
            let mut point = render_measures(graph.point, stat, hidden);
            point.insert("timestamp".into(), json!(stamp));
            if graph.path == SAVINGS.0 {
                saved.sums.saved += stat.sums.saved;
                point.insert(SAVINGS.1.into(), SumMeasure::Saved.shown(&saved, hidden));
            }
            if graph.points == Points::Stacks {
                point.insert("stats".into(), stack(&found, span).into());
            }
            points.push(Value::Object(point));
        }
        (Value::Object(render_measures(graph.summary, &all, hidden)), points)
    };
    Ok(AdminReply::json(json!({
        "object": "analytics-graph",
        "summary": summary,
        "data_points": points,
        "partial": found.is_partial,
        "cut": found.is_cut,
    })))
}

fn render_measures(measures: &[NamedMeasure], stat: &Stat<'_>, hidden: LogFields) -> Map<String, Value> {
    measures.iter().map(|(name, measure)| ((*name).to_owned(), measure.shown(stat, hidden))).collect()
}

/// Adds up the sums that were found, for the whole range and for each of its buckets.
fn stats<'f>(graph: &Graph, found: &'f SumsFound, buckets: usize) -> (Stat<'f>, Vec<Stat<'f>>) {
    let (mut all, mut each) = (Stat::default(), vec![Stat::default(); buckets]);
    for cell in &found.cells {
        for stat in [Some(&mut all), each.get_mut(cell.span)].into_iter().flatten() {
            match graph.points {
                Points::Users => stat.add_user(cell),
                _ => stat.add(cell),
            }
        }
    }
    (all, each)
}

fn stack(found: &SumsFound, span: usize) -> Vec<Value> {
    let cells = found.cells.iter().filter(|cell| cell.span == span && cell.sums.errors > 0);
    cells.map(|c| json!({"status_code": shown(&Dimension::Status, &c.values[0]), "count": c.sums.errors})).collect()
}

fn statuses(found: &SumsFound) -> (Value, Vec<Value>) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for cell in found.cells.iter().filter(|cell| cell.sums.errors > 0) {
        *counts.entry(&cell.values[0]).or_default() += cell.sums.errors;
    }
    let summary = json!({"total_errors": counts.values().sum::<i64>(), "unique_error_codes": counts.len()});
    let point = |(status, count)| json!({"status_code": shown(&Dimension::Status, status), "count": count});
    (summary, counts.into_iter().map(point).collect())
}
