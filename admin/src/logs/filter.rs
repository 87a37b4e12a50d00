//! The filters of `docs/admin-api.md` made into a query. The route
//! refuses what is not known or not in force: a list that silently ignores a filter shows more than was asked for.

use super::restricted;
use crate::input::Query;
use crate::problem::{Problem, bad, forbidden};
use crate::route::Call;
use gateway_domain::export::{LogField, LogFields};
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{LogCursor, LogQuery};
use gateway_domain::time::Timestamp;
use serde_json::Value;

pub(super) static KNOWN: &[&str] = &[
    "workspace_id",
    "workspace_slug",
    "time_of_generation_min",
    "time_of_generation_max",
    "total_units_min",
    "total_units_max",
    "cost_min",
    "cost_max",
    "ai_model",
    "ai_org",
    "ai_org_model",
    "status_code",
    "metadata",
    "virtual_keys",
    "trace_id",
    "configs",
    "api_key_ids",
    "prompt_token_min",
    "prompt_token_max",
    "completion_token_min",
    "completion_token_max",
    "cursor",
    "page_size",
    "current_page",
];
/// Those of the list that say which logs, not which page of them.
pub(super) static OF_EXPORTS: &[&str] = &[
    "workspace_slug",
    "time_of_generation_min",
    "time_of_generation_max",
    "total_units_min",
    "total_units_max",
    "cost_min",
    "cost_max",
    "ai_model",
    "ai_org",
    "ai_org_model",
    "status_code",
    "metadata",
    "virtual_keys",
    "trace_id",
    "configs",
    "api_key_ids",
    "prompt_token_min",
    "prompt_token_max",
    "completion_token_min",
    "completion_token_max",
];
pub(super) static LATER: &[&str] = &["weighted_feedback_min", "weighted_feedback_max", "prompt_slug", "span_id"];

/// Which field a filter asks by; what is not here asks by none that can be kept from readers.
const FIELDS: &[(&str, LogField)] = &[
    ("trace_id", LogField::TraceId),
    ("status_code", LogField::ResponseStatusCode),
    ("ai_org", LogField::AiOrg),
    ("ai_model", LogField::AiModel),
    ("ai_org_model", LogField::AiOrg),
    ("ai_org_model", LogField::AiModel),
    ("total_units_min", LogField::TotalUnits),
    ("total_units_max", LogField::TotalUnits),
    ("prompt_token_min", LogField::ReqUnits),
    ("prompt_token_max", LogField::ReqUnits),
    ("completion_token_min", LogField::ResUnits),
    ("completion_token_max", LogField::ResUnits),
    ("cost_min", LogField::Cost),
    ("cost_max", LogField::Cost),
    ("metadata", LogField::Metadata),
    ("configs", LogField::Config),
];

const ANY: &str = "must be comma-separated names";
const WHOLE: &str = "must be an integer of at least 0";
/// Instead of a workspace: all of the organisation. No slug is written so.
const EVERYWHERE: &str = "*";
const MOST_WORKSPACES: usize = 100;

/// A page of the list. `None`: a reader who sees own logs only asks for those of others.
pub(super) fn read(call: &Call) -> Result<Option<LogQuery>, Problem> {
    let q = &call.query;
    let (paging, cursor) = (q.paging()?, cursor(q)?);
    let LogRange { from, to } = range(call, q)?;
    let page = |query| LogQuery { from, to, page: paging.page, page_size: paging.size, cursor, ..query };
    Ok(read_filters(call)?.map(page))
}

pub(super) struct LogRange {
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

/// As far back as logs are shown.
pub(super) fn range(call: &Call, q: &Query) -> Result<LogRange, Problem> {
    let (from, to) = (time(q, "time_of_generation_min")?, time(q, "time_of_generation_max")?);
    Ok(LogRange { from: from.max(shown_since(call)), to: to.map(end_of_millisecond) })
}

/// What records have to be like, whenever they were made. `None` as for [`read`].
pub(crate) fn read_filters(call: &Call) -> Result<Option<LogQuery>, Problem> {
    read_from(call, &call.query, workspaces(call)?, restricted::hidden(call))
}

/// The filters of a query, within these workspaces.
pub(super) fn read_from(
    call: &Call,
    q: &Query,
    workspaces: Vec<WorkspaceId>,
    hidden: LogFields,
) -> Result<Option<LogQuery>, Problem> {
    for (name, field) in FIELDS.iter().filter(|(name, _)| q.text(name).is_some()) {
        restricted::refuse(name, *field, hidden)?;
    }
    let mut query = LogQuery {
        org: Some(call.actor.org),
        workspaces,
        trace_id: q.text("trace_id").map(str::to_owned),
        statuses: q.list("status_code", "must be comma-separated status codes")?,
        providers: q.list("ai_org", ANY)?,
        virtual_keys: q.list("virtual_keys", ANY)?,
        models: q.list("ai_model", ANY)?,
        configs: q.list("configs", ANY)?,
        keys: q.list("api_key_ids", "must be comma-separated UUIDs")?,
        min_tokens: q.parsed("total_units_min", WHOLE)?,
        max_tokens: q.parsed("total_units_max", WHOLE)?,
        min_prompt_tokens: q.parsed("prompt_token_min", WHOLE)?,
        max_prompt_tokens: q.parsed("prompt_token_max", WHOLE)?,
        min_completion_tokens: q.parsed("completion_token_min", WHOLE)?,
        max_completion_tokens: q.parsed("completion_token_max", WHOLE)?,
        min_cost: cents(q, "cost_min")?,
        max_cost: cents(q, "cost_max")?,
        metadata: metadata(q)?,
        ..LogQuery::default()
    };
    pairs(q, &mut query)?;
    if !call.actor.sees_metadata && !query.metadata.is_empty() {
        return Err(forbidden("your role does not see the metadata of logs"));
    }
    if !call.actor.sees_all {
        narrow(call, &mut query);
        return Ok(Some(query).filter(|q| !q.keys.is_empty()));
    }
    Ok(Some(query))
}

/// Those that are named, in ids or slugs; empty: all of the organisation, for whom a key of it asks.
pub(crate) fn workspaces(call: &Call) -> Result<Vec<WorkspaceId>, Problem> {
    let (q, snapshot) = (&call.query, call.snapshot());
    let mut given: Vec<String> = q.list("workspace_id", ANY)?;
    given.extend(q.list::<String>("workspace_slug", ANY)?);
    if given.is_empty() {
        return Ok(vec![call.actor.home(&snapshot, None)?]);
    }
    if given.len() > MOST_WORKSPACES {
        return Err(bad("workspace_id", format_args!("must name at most {MOST_WORKSPACES} workspaces")));
    }
    if given.iter().any(|name| name == EVERYWHERE) {
        return match call.actor.workspace {
            None => Ok(Vec::new()),
            Some(_) => Err(forbidden("this API key is of one workspace")),
        };
    }
    let named = given.iter().map(|name| call.actor.home(&snapshot, Some(name)));
    named.collect()
}

/// `start` is where the first page begins.
fn cursor(q: &Query) -> Result<Option<LogCursor>, Problem> {
    match q.text("cursor") {
        Some("start") => Ok(Some(LogCursor::START)),
        Some(place) if q.text("current_page").is_none() => {
            Ok(Some(place.parse().map_err(|()| bad("cursor", "must be `start` or the next_cursor of a page"))?))
        }
        Some(_) => Err(bad("cursor", "cannot be combined with current_page")),
        None => Ok(None),
    }
}

/// Records outlive the logs that are shown of them: analytics needs them longer.
pub(super) fn shown_since(call: &Call) -> Option<Timestamp> {
    const DAY_MICROS: i64 = 86_400 * 1_000_000;
    let days = i64::try_from(call.app.log_retention_days).ok().filter(|days| *days > 0)?;
    Some(call.app.now().plus_micros(days.saturating_mul(-DAY_MICROS)))
}

/// To the keys of the person who reads.
fn narrow(call: &Call, query: &mut LogQuery) {
    let snapshot = call.snapshot();
    let own = snapshot.keys().filter(|k| k.owner.is_some() && k.owner == call.actor.user).map(|k| k.id);
    let own: Vec<KeyId> = own.filter(|id| query.keys.is_empty() || query.keys.contains(id)).collect();
    query.keys = own;
}

pub(crate) fn time(q: &Query, name: &str) -> Result<Option<Timestamp>, Problem> {
    q.text(name).map(|v| v.parse().map_err(|rule: String| bad(name, rule))).transpose()
}

/// Times are shown in milliseconds and kept in microseconds: a shown time includes its own records.
pub(crate) const fn end_of_millisecond(time: Timestamp) -> Timestamp {
    Timestamp(time.0 - time.0.rem_euclid(1_000) + 999)
}

/// Costs of logs are told in cents.
fn cents(q: &Query, name: &str) -> Result<Option<NanoUsd>, Problem> {
    const NANOS_PER_CENT: f64 = 10_000_000.0;
    const RULE: &str = "must be a number of at least 0 (cents)";
    let Some(cents) = q.parsed::<f64>(name, RULE)? else { return Ok(None) };
    let nanos = (cents * NANOS_PER_CENT).round();
    if !(0.0..=9e15).contains(&nanos) {
        return Err(bad(name, RULE));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    Ok(Some(NanoUsd(nanos as i64)))
}

fn metadata(q: &Query) -> Result<Vec<(String, String)>, Problem> {
    const RULE: &str = "must be a JSON object of strings";
    let Some(text) = q.text("metadata") else { return Ok(Vec::new()) };
    let Ok(Value::Object(map)) = serde_json::from_str(text) else { return Err(bad("metadata", RULE)) };
    let pair = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        _ => Err(bad("metadata", RULE)),
    };
    map.into_iter().map(pair).collect()
}

/// `provider__model`, several of them only while they share one side: the store holds sets, not pairs.
fn pairs(q: &Query, query: &mut LogQuery) -> Result<(), Problem> {
    let given: Vec<String> = q.list("ai_org_model", ANY)?;
    if given.is_empty() {
        return Ok(());
    }
    if !query.providers.is_empty() || !query.models.is_empty() {
        return Err(bad("ai_org_model", "cannot be combined with ai_org or ai_model"));
    }
    for pair in &given {
        let split = pair.split_once("__").filter(|(p, m)| !p.is_empty() && !m.is_empty());
        let (provider, model) = split.ok_or_else(|| bad("ai_org_model", "must be comma-separated provider__model"))?;
        query.providers.push(provider.to_owned());
        query.models.push(model.to_owned());
    }
    query.providers.dedup();
    query.models.dedup();
    if query.providers.len() > 1 && query.models.len() > 1 {
        return Err(bad("ai_org_model", "must share one provider or one model"));
    }
    Ok(())
}
