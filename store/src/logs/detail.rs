//! What only records of tools and batches have, as the text of one column. Of which kind a record is is told by its
//! operation alone, so that no row can say two things.

use super::field::{from_json, json};
use gateway_domain::record::{Detail, RecordKind, ToolDetail};

/// Nothing of a call of a model, which has columns of its own.
pub(super) fn detail_json(detail: &Detail) -> Option<String> {
    match detail {
        Detail::Llm(_) => None,
        Detail::Tool(tool) => Some(tool).filter(|tool| **tool != ToolDetail::default()).and_then(json),
        Detail::Batch(batch) => batch.as_deref().and_then(json),
    }
}

/// `None`: the record is one of a call of a model, and has its detail.
pub(super) fn parse_detail(operation: &str, told: Option<&str>) -> Option<Detail> {
    match RecordKind::of(operation) {
        RecordKind::Llm => None,
        RecordKind::Tool => Some(Detail::Tool(from_json(told).unwrap_or_default())),
        RecordKind::Batch => Some(Detail::Batch(from_json(told).map(Box::new))),
    }
}
