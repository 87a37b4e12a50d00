//! The filters of `docs/admin-api.md` made into a query. The route
//! refuses what is not known or not in force: a list that silently ignores a filter shows more than was asked for.

use super::{feedback_filter, restricted};
use crate::input::QueryString;
use crate::problem::{Problem, bad, forbidden};
use crate::route::AdminCall;
use gateway_domain::export::{LogField, LogFields};
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{CacheStatus, LogCursor, LogQuery};
use gateway_domain::time::Timestamp;
use serde_json::Value;
use std::sync::LazyLock;

/// A filter, and which fields it asks by, where those can be kept from readers.
struct LogFilter {
    name: &'static str,
    fields: &'static [LogField],
}

const fn by(name: &'static str, fields: &'static [LogField]) -> LogFilter {
    LogFilter { name, fields }
}

/// Every filter that says which logs: of the list, of exports and of analytics alike.
static FILTERS: &[LogFilter] = &[
    by("workspace_slug", &[]),
    by("time_of_generation_min", &[]),
    by("time_of_generation_max", &[]),
    by("total_units_min", &[LogField::TotalUnits]),
    by("total_units_max", &[LogField::TotalUnits]),
    by("prompt_token_min", &[LogField::ReqUnits]),
    by("prompt_token_max", &[LogField::ReqUnits]),
    by("completion_token_min", &[LogField::ResUnits]),
    by("completion_token_max", &[LogField::ResUnits]),
    by("cost_min", &[LogField::Cost]),
    by("cost_max", &[LogField::Cost]),
    by("ai_model", &[LogField::AiModel]),
    by("ai_org", &[LogField::AiOrg]),
    by("ai_org_model", &[LogField::AiOrg, LogField::AiModel]),
    by("status_code", &[LogField::ResponseStatusCode]),
    by("cache_status", &[]),
    by("metadata", &[LogField::Metadata]),
    by("virtual_keys", &[]),
    by("trace_id", &[LogField::TraceId]),
    by("span_id", &[]),
    by("configs", &[LogField::Config]),
    by("prompt_slug", &[LogField::PromptSlug]),
    by("api_key_ids", &[]),
    by(feedback_filter::LEAST, &[]),
    by(feedback_filter::MOST, &[]),
];

fn named(more: &[&'static str]) -> Vec<&'static str> {
    FILTERS.iter().map(|filter| filter.name).chain(more.iter().copied()).collect()
}

/// What the list may be asked.
pub(super) static OF_LIST: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| named(&["workspace_id", "cursor", "page_size", "current_page"]));
/// What an export may be asked: which logs, not which page of them.
pub(super) static OF_EXPORTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| named(&[]));
/// What analytics may be asked.
pub(crate) static OF_ANALYTICS: LazyLock<Vec<&'static str>> = LazyLock::new(|| named(&["workspace_id", "time_zone"]));

const ANY: &str = "must be comma-separated names";
const WHOLE: &str = "must be an integer of at least 0";
/// Instead of a workspace: all of the organisation. No slug is written so.
const EVERYWHERE: &str = "*";
const MOST_WORKSPACES: usize = 100;
/// Spans, traces or prompts that one question may name.
const MOST_NAMED: usize = 50;

/// A page of the list. `None`: a reader who sees own logs only asks for those of others.
pub(super) async fn read(call: &AdminCall) -> Result<Option<LogQuery>, Problem> {
    let q = &call.query;
    let (paging, cursor) = (q.paging()?, cursor(q)?);
    let LogRange { from, to } = range(call, q)?;
    let page = |query| LogQuery { from, to, page: paging.page, page_size: paging.size, cursor, ..query };
    Ok(read_filters(call).await?.map(page))
}

pub(super) struct LogRange {
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

/// The range of times that a query asks for, cut to how far back logs are shown.
pub(super) fn range(call: &AdminCall, q: &QueryString) -> Result<LogRange, Problem> {
    let (from, to) = (time(q, "time_of_generation_min")?, time(q, "time_of_generation_max")?);
    Ok(LogRange { from: from.max(shown_since(call)), to: to.map(end_of_millisecond) })
}

/// What records have to be like, whenever they were made. `None` as for [`read`].
pub(crate) async fn read_filters(call: &AdminCall) -> Result<Option<LogQuery>, Problem> {
    read_from(call, &call.query, workspaces(call)?, restricted::hidden(call)).await
}

/// The filters of a query, within these workspaces.
pub(super) async fn read_from(
    call: &AdminCall,
    q: &QueryString,
    workspaces: Vec<WorkspaceId>,
    hidden: LogFields,
) -> Result<Option<LogQuery>, Problem> {
    for filter in FILTERS.iter().filter(|filter| q.text(filter.name).is_some()) {
        for field in filter.fields {
            restricted::refuse(filter.name, *field, hidden)?;
        }
    }
    let mut query = LogQuery {
        org: Some(call.actor.org),
        workspaces,
        span_ids: names(q, "span_id")?,
        cache_statuses: cache_statuses(q)?,
        prompts: names(q, "prompt_slug")?,
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
    // One is found by the index of traces.
    match &mut names(q, "trace_id")?[..] {
        [one] => query.trace_id = Some(std::mem::take(one)),
        many => {
            query.trace_ids = many.to_vec();
            // A client may have named a trace with commas in it.
            query.trace_ids.extend(q.text("trace_id").filter(|whole| whole.contains(',')).map(str::to_owned));
        }
    }
    pairs(q, &mut query)?;
    if !call.actor.sees_metadata && !query.metadata.is_empty() {
        return Err(forbidden("your role does not see the metadata of logs"));
    }
    if !call.actor.sees_all {
        narrow(call, &mut query);
        if query.keys.is_empty() {
            return Ok(None);
        }
    }
    // Feedback comes after the call.
    feedback_filter::narrow(call, q, query, time(q, "time_of_generation_min")?).await
}

fn names(q: &QueryString, name: &str) -> Result<Vec<String>, Problem> {
    let given: Vec<String> = q.list(name, ANY)?;
    if given.len() > MOST_NAMED {
        Err(bad(name, format_args!("must hold at most {MOST_NAMED} names")))
    } else {
        Ok(given)
    }
}

fn cache_statuses(q: &QueryString) -> Result<Vec<CacheStatus>, Problem> {
    const ALL: [CacheStatus; 4] = [CacheStatus::Disabled, CacheStatus::Hit, CacheStatus::Miss, CacheStatus::Refresh];
    let given: Vec<String> = q.list("cache_status", ANY)?;
    let status = |name: &String| {
        let found = ALL.into_iter().find(|status| status.label() == name || status.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|status| status.label()).collect();
            bad("cache_status", format_args!("must be of {}", names.join(", ")))
        })
    };
    given.iter().map(status).collect()
}

/// Those that are named, in ids or slugs; empty: all of the organisation, for whom a key of it asks.
pub(crate) fn workspaces(call: &AdminCall) -> Result<Vec<WorkspaceId>, Problem> {
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
fn cursor(q: &QueryString) -> Result<Option<LogCursor>, Problem> {
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
pub(super) fn shown_since(call: &AdminCall) -> Option<Timestamp> {
    const DAY_MICROS: i64 = 86_400 * 1_000_000;
    let days = i64::try_from(call.app.log_retention_days).ok().filter(|days| *days > 0)?;
    Some(call.app.now().plus_micros(days.saturating_mul(-DAY_MICROS)))
}

/// Narrows a query to the keys of the person who reads.
fn narrow(call: &AdminCall, query: &mut LogQuery) {
    let snapshot = call.snapshot();
    let own = snapshot.keys().filter(|k| k.owner.is_some() && k.owner == call.actor.user).map(|k| k.id);
    let own: Vec<KeyId> = own.filter(|id| query.keys.is_empty() || query.keys.contains(id)).collect();
    query.keys = own;
}

pub(crate) fn time(q: &QueryString, name: &str) -> Result<Option<Timestamp>, Problem> {
    q.text(name).map(|v| v.parse().map_err(|rule: String| bad(name, rule))).transpose()
}

/// Times are shown in milliseconds and kept in microseconds: a shown time includes its own records.
pub(crate) const fn end_of_millisecond(time: Timestamp) -> Timestamp {
    Timestamp(time.0 - time.0.rem_euclid(1_000) + 999)
}

/// Costs of logs are told in cents.
fn cents(q: &QueryString, name: &str) -> Result<Option<NanoUsd>, Problem> {
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

fn metadata(q: &QueryString) -> Result<Vec<(String, String)>, Problem> {
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
fn pairs(q: &QueryString, query: &mut LogQuery) -> Result<(), Problem> {
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
