//! What a request for analytics asks of the sums of records: its filters, its range, and what may be read for it.

use super::buckets::TimeBuckets;
use crate::logs::filter;
use crate::problem::Problem;
use crate::route::Call;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Dimension, SumQuery, SumsFound};
use gateway_domain::scope::Scope;
use serde_json::Value;
use std::time::Duration;

/// Records that are read one by one where no rollup knows the answer, and for how long.
const MOST_RECORDS: u64 = 200_000;
const TIME: Duration = Duration::from_millis(1_800);

pub(super) const VIEW: &[Scope] = &[Scope::named("analytics.view")];

pub(super) static ASKED: &[&str] = &[
    "workspace_id",
    "workspace_slug",
    "time_of_generation_min",
    "time_of_generation_max",
    "time_zone",
    "total_units_min",
    "total_units_max",
    "cost_min",
    "cost_max",
    "prompt_token_min",
    "prompt_token_max",
    "completion_token_min",
    "completion_token_max",
    "ai_model",
    "ai_org",
    "ai_org_model",
    "status_code",
    "metadata",
    "virtual_keys",
    "trace_id",
    "configs",
    "api_key_ids",
];
pub(super) static LATER: &[&str] =
    &["weighted_feedback_min", "weighted_feedback_max", "prompt_slug", "span_id", "cache_status"];

/// What of a range is asked.
pub(super) struct SumsAsked {
    pub(super) edges: Vec<Timestamp>,
    pub(super) by: Vec<Dimension>,
    pub(super) latency: bool,
}

/// The range of a request in its buckets, and what it sums up to.
pub(super) async fn sums(
    call: &Call,
    ask: impl FnOnce(&TimeBuckets) -> SumsAsked,
) -> Result<(TimeBuckets, SumsFound), Problem> {
    let buckets = TimeBuckets::read(&call.query, call.app.now())?;
    let Some(of) = filter::read_filters(call)? else { return Ok((buckets, SumsFound::default())) };
    let SumsAsked { edges, by, latency } = ask(&buckets);
    let query = SumQuery { of, edges, by, with_latency: latency, most_records: MOST_RECORDS, time: TIME };
    let found = call.app.sums.sums(&query).await?;
    Ok((buckets, found))
}

/// A status is a number, and what has no value is null.
pub(super) fn shown(by: &Dimension, value: &str) -> Value {
    match by {
        _ if value.is_empty() => Value::Null,
        Dimension::Status => value.parse::<u16>().map_or(Value::Null, Value::from),
        _ => value.into(),
    }
}
