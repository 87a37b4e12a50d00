//! An answer of the gateway's own to a request that asks nobody, and its record. What it says is made elsewhere.

use super::client::answer_early;
use super::deliver::{ReplyNames, json_answer};
use super::record::{self, PendingRecords};
use super::request::Request;
use super::routing::Routing;
use bytes::Bytes;
use pingora::proxy::Session;
use serde_json::Value;

/// What is answered, and to whom.
pub(crate) struct RecordedAnswer<'a> {
    pub(crate) request: &'a Request,
    /// Where a plan was made.
    pub(crate) routing: Option<&'a Routing>,
    pub(crate) body: Value,
}

pub(crate) async fn deliver(
    names: &ReplyNames,
    session: &mut Session,
    told: RecordedAnswer<'_>,
    records: &mut PendingRecords,
) -> pingora::Result<bool> {
    let RecordedAnswer { request, routing, body } = told;
    let body = Bytes::from(body.to_string());
    let mut record = record::of(request, &request.steps(), routing, None, 1);
    record.status = 200;
    record.response_bytes = body.len() as u64;
    record::finish(&mut record, request);
    records.push(record);
    answer_early(session, json_answer(names, request, body)).await.map(|()| true)
}
