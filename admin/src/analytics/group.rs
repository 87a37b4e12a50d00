//! Sums by what calls have in common: a row for each user, key, model and so on, with the columns and in the order that
//! are asked for.

use super::feedback::{RatedCalls, rated};
use super::measure::{Stat, SumMeasure};
use super::query::{SumsAsked, VIEW, shown, sums};
use crate::logs::{filter, restricted};
use crate::problem::{Problem, bad, forbidden};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::analytics::{Dimension, SumCell};
use gateway_domain::export::LogField;
use gateway_domain::metadata;
use http::Method;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

const COLUMNS: &[(&str, SumMeasure)] = &[
    ("requests", SumMeasure::Calls),
    ("cost", SumMeasure::Cost),
    ("total_tokens", SumMeasure::Tokens),
    ("avg_tokens", SumMeasure::TokensPerCall),
    ("avg_input_tokens", SumMeasure::InputPerCall),
    ("avg_output_tokens", SumMeasure::OutputPerCall),
    ("avg_latency", SumMeasure::Latency),
    ("p95_latency", SumMeasure::Quantile(95)),
    ("p99_latency", SumMeasure::Quantile(99)),
    ("success_rate", SumMeasure::SuccessRate),
    ("error_count", SumMeasure::Errors),
    ("cache_hit_rate", SumMeasure::HitRate),
    ("last_seen", SumMeasure::LastSeen),
    ("first_seen", SumMeasure::FirstSeen),
    ("avg_weighted_feedback", SumMeasure::Feedback),
    ("requests_with_feedback", SumMeasure::Rated),
];

/// How calls are grouped, and how a group is shown.
struct Grouping {
    by: Dimension,
    /// The field of a row that holds the value of its group.
    label: &'static str,
    /// Columns that are told unasked.
    columns: &'static [&'static str],
    /// The contract has its counts as texts.
    as_text: bool,
}

const MEASURES: &[&str] = &["requests", "cost", "total_tokens"];

fn grouping(name: &str) -> Option<Grouping> {
    let plain = |by, label| Grouping { by, label, columns: MEASURES, as_text: false };
    Some(match name {
        "users" => Grouping { columns: &["requests", "cost"], as_text: true, ..plain(Dimension::User, "user") },
        "ai-models" => Grouping { columns: &["requests"], as_text: true, ..plain(Dimension::Model, "ai_model") },
        "model" => plain(Dimension::Model, "model"),
        "ai_service" => plain(Dimension::Provider, "ai_service"),
        "provider" => plain(Dimension::VirtualKey, "provider"),
        "status_code" => plain(Dimension::Status, "status_code"),
        "api_key" => plain(Dimension::Key, "api_key"),
        "config" => plain(Dimension::Config, "config"),
        "prompt" => plain(Dimension::Prompt, "prompt"),
        "workspace" | "workspaces" => plain(Dimension::Workspace, "workspace"),
        _ => return None,
    })
}

static ASKED_OF_GROUPS: &[&str] =
    &["columns", "order_by", "order_by_type", "include_total", "current_page", "page_size"];

pub(super) fn routes() -> Vec<AdminRoute> {
    /// All that may be asked, made once.
    static NAMES: std::sync::LazyLock<Vec<&'static str>> =
        std::sync::LazyLock::new(|| filter::OF_ANALYTICS.iter().chain(ASKED_OF_GROUPS).copied().collect());
    const BY: &str = "/analytics/groups/{group_by}";
    const OF_LOGS: &str = "/logs/groups/{group_by}";
    const KEY: &str = "/analytics/groups/metadata/{key}";
    vec![
        authed(Method::GET, BY, VIEW, "Sum up calls by what they have in common", by_name).asks(&NAMES),
        authed(Method::GET, OF_LOGS, VIEW, "Sum up logs by what they have in common", by_name).asks(&NAMES),
        authed(Method::GET, KEY, VIEW, "Sum up calls by the values of a key of metadata", by_metadata).asks(&NAMES),
    ]
}

async fn by_name(call: AdminCall) -> Result<AdminReply, Problem> {
    const RULE: &str =
        "must be one of users, ai-models, model, ai_service, provider, status_code, api_key, config, prompt, workspace";
    let name = call.var("group_by");
    let grouping = grouping(name).ok_or_else(|| bad("group_by", RULE))?;
    answer(call, grouping).await
}

async fn by_metadata(call: AdminCall) -> Result<AdminReply, Problem> {
    const COLUMNS: &[&str] =
        &["requests", "cost", "avg_tokens", "avg_weighted_feedback", "requests_with_feedback", "last_seen"];
    let key = call.var("key").to_owned();
    if !metadata::is_short(&key) {
        return Err(bad("key", format_args!("must be at most {} characters", metadata::CHARACTERS)));
    }
    let by = if key == "_user" { Dimension::User } else { Dimension::Metadata(key.into()) };
    answer(call, Grouping { by, label: "metadata_value", columns: COLUMNS, as_text: false }).await
}

async fn answer(call: AdminCall, grouping: Grouping) -> Result<AdminReply, Problem> {
    let of_people = matches!(grouping.by, Dimension::User | Dimension::Metadata(_));
    if of_people && !call.actor.sees_metadata {
        return Err(forbidden("your role does not see the metadata of logs"));
    }
    let hidden = restricted::hidden(&call);
    if let Some(field) = field(&grouping.by) {
        restricted::refuse("group_by", field, hidden)?;
    }
    let without_total = call.query.one_of("include_total", &["true", "false", "True", "False"])?;
    let without_total = without_total.is_some_and(|given| given.eq_ignore_ascii_case("false"));
    let (columns, order, paging) = (columns(&call, &grouping)?, Order::read(&call)?, call.query.paging()?);
    let named = if call.query.text("columns").is_some() { &columns[..] } else { &[] };
    for (place, (_, measure)) in named.iter().map(|column| ("columns", column)).chain([("order_by", &order.by)]) {
        if let Some(field) = measure.field() {
            restricted::refuse(place, field, hidden)?;
        }
    }
    let parts = columns.iter().chain([&order.by]).map(|(_, measure)| measure.parts()).collect();
    let by = vec![grouping.by.clone()];
    let (_, found) = sums(&call, |buckets| SumsAsked { edges: buckets.ends(), by, parts }).await?;
    let wants_feedback = columns.iter().chain([&order.by]).any(|(_, measure)| measure.is_of_feedback());
    let rated = if wants_feedback { rated(&call, &grouping.by).await? } else { RatedCalls::default() };
    // Who is not named is no user, and what has no value no value of the key.
    let cells = found.cells.iter().filter(|cell| !of_people || !cell.values[0].is_empty());
    let mut rows: Vec<(&SumCell, Stat<'_>)> = cells
        .map(|cell| {
            let mut stat = Stat::default();
            stat.add(cell);
            rated.fill(&cell.values[0], &mut stat);
            (cell, stat)
        })
        .collect();
    rows.sort_by(|(a, one), (b, other)| order.compare(one, other).then_with(|| a.values.cmp(&b.values)));
    let row = |(cell, stat): &(&SumCell, Stat<'_>)| {
        let mut row = Map::from_iter([
            (grouping.label.to_owned(), shown(&grouping.by, &cell.values[0])),
            ("object".to_owned(), "analytics-group".into()),
        ]);
        for (name, measure) in &columns {
            let value = measure.shown(stat, hidden);
            let value = if grouping.as_text && value.is_number() { value.to_string().into() } else { value };
            row.insert((*name).to_owned(), value);
        }
        Value::Object(row)
    };
    let data: Vec<Value> = paging.cut(&rows).iter().map(row).collect();
    Ok(AdminReply::json(json!({
        "object": "list",
        "total": (!without_total).then_some(rows.len()),
        "data": data,
        "partial": found.is_partial || rated.is_partial,
        "cut": found.is_cut,
    })))
}

/// What is told of logs by putting them together so.
const fn field(by: &Dimension) -> Option<LogField> {
    match by {
        Dimension::User | Dimension::Metadata(_) => Some(LogField::Metadata),
        Dimension::Provider => Some(LogField::AiOrg),
        Dimension::Model => Some(LogField::AiModel),
        Dimension::Status => Some(LogField::ResponseStatusCode),
        Dimension::Config => Some(LogField::Config),
        Dimension::Prompt => Some(LogField::PromptSlug),
        Dimension::Trace => Some(LogField::TraceId),
        Dimension::Workspace | Dimension::Key | Dimension::VirtualKey => None,
    }
}

type Column = (&'static str, SumMeasure);

fn column(name: &str, field: &str) -> Result<Column, Problem> {
    let names = || COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = COLUMNS.iter().find(|(known, _)| *known == name).copied();
    found.ok_or_else(|| bad(field, format_args!("must be of {}", names())))
}

fn columns(call: &AdminCall, grouping: &Grouping) -> Result<Vec<Column>, Problem> {
    let given: Vec<String> = call.query.list("columns", "must be comma-separated names")?;
    if given.is_empty() {
        return grouping.columns.iter().map(|name| column(name, "columns")).collect();
    }
    given.iter().map(|name| column(name, "columns")).collect()
}

struct Order {
    by: Column,
    is_descending: bool,
}

impl Order {
    fn read(call: &AdminCall) -> Result<Self, Problem> {
        let by = column(call.query.text("order_by").unwrap_or("requests"), "order_by")?;
        let is_descending = call.query.one_of("order_by_type", &["asc", "desc"])? != Some("asc");
        Ok(Self { by, is_descending })
    }

    /// What has no value comes last.
    fn compare(&self, one: &Stat<'_>, other: &Stat<'_>) -> Ordering {
        let (one, other) = (self.by.1.of(one), self.by.1.of(other));
        let ordered = match (&one, &other) {
            (Value::Null, Value::Null) => return Ordering::Equal,
            (Value::Null, _) => return Ordering::Greater,
            (_, Value::Null) => return Ordering::Less,
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (a, b) => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        };
        if self.is_descending { ordered.reverse() } else { ordered }
    }
}
