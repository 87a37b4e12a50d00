//! What a request for analytics asks of the sums of records: its filters, its range, and what may be read for it.

use super::buckets::TimeBuckets;
use crate::logs::filter;
use crate::problem::Problem;
use crate::route::AdminCall;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Dimension, SumParts, SumQuery, SumsFound};
use gateway_domain::scope::Scope;
use serde_json::Value;
use std::time::Duration;

/// Records that are read one by one where no rollup knows the answer, and for how long.
pub(super) const MOST_RECORDS: u64 = 200_000;
pub(super) const TIME: Duration = Duration::from_millis(1_800);

pub(super) const VIEW: &[Scope] = &[Scope::named("analytics.view")];

/// What of a range is asked.
pub(super) struct SumsAsked {
    pub(super) edges: Vec<Timestamp>,
    pub(super) by: Vec<Dimension>,
    pub(super) parts: SumParts,
}

/// The range of a request in its buckets, and what it sums up to.
pub(super) async fn sums(
    call: &AdminCall,
    ask: impl FnOnce(&TimeBuckets) -> SumsAsked,
) -> Result<(TimeBuckets, SumsFound), Problem> {
    let buckets = TimeBuckets::read(&call.query, call.app.now())?;
    let Some(of) = filter::read_filters(call).await? else { return Ok((buckets, SumsFound::default())) };
    let SumsAsked { edges, by, parts } = ask(&buckets);
    let query = SumQuery { of, edges, by, parts, most_records: MOST_RECORDS, time: TIME };
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
