//! Builds the record of each target tried, in one piece of memory as far as names are short; pricing and encoding are
//! the writer's work.

mod attempt_info;
mod capture;

pub(crate) use attempt_info::AttemptInfo;
pub(crate) use capture::{BodyCapture, Received, RecordBodies, SentRequest, secrets};

use super::request::Request;
use super::routing::Routing;
use crate::guardrails::{HookNotes, NotedRecord};
use crate::ids;
use gateway_domain::record::{LogRecord, RecordedOperation, RecordedPrompt, Steps, Timings};
use gateway_domain::{Fault, Timestamp};
use smol_str::SmolStr;
use std::sync::Arc;

/// The records of one request so far.
#[derive(Debug, Default)]
pub(crate) struct PendingRecords(Vec<NotedRecord>);

impl PendingRecords {
    pub(crate) fn push(&mut self, record: Box<LogRecord>) {
        self.push_noted(record, None);
    }

    pub(crate) fn push_noted(&mut self, record: Box<LogRecord>, mut notes: Option<Box<HookNotes>>) {
        if let Some(notes) = &mut notes {
            notes.rewritten = None;
        }
        let noted = NotedRecord { record, notes };
        if self.0.is_empty() {
            // Most requests have one: no room for more is asked for.
            self.0 = vec![noted];
        } else {
            self.0.push(noted);
        }
    }

    pub(crate) fn extend(&mut self, records: impl IntoIterator<Item = NotedRecord>) {
        self.0.extend(records);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = NotedRecord> {
        self.0.drain(..)
    }
}

/// What is known of the target that was tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried<'a> {
    pub(crate) info: &'a AttemptInfo,
    pub(crate) status: u16,
    /// The gateway's name for what went wrong.
    pub(crate) fault: Option<&'static str>,
}

/// A record of `request`, for the target that was tried if one was.
pub(crate) fn of(
    request: &Request,
    steps: &Steps,
    routing: Option<&Routing>,
    tried: Option<Tried<'_>>,
    attempt: u32,
) -> Box<LogRecord> {
    let info = tried.map(|t| t.info);
    let tenant = &request.caller.tenant;
    let asked = request.asked_model();
    let total_us = request.elapsed_us();
    // Made in its place: made before, all of it would be copied.
    let room = Box::new_uninit();
    Box::write(
        room,
        LogRecord {
            id: ids::next(request.caller.at),
            created_at: request.caller.at.plus_micros(i64::try_from(total_us).unwrap_or(0)),
            trace_id: request.caller.trace.clone(),
            attempt,
            last: false,
            org: tenant.org.id,
            workspace: tenant.workspace.id,
            workspace_slug: short(&tenant.workspace.slug),
            key: Some(tenant.key.id),
            key_name: short(&tenant.key.name),
            owner: tenant.key.owner,
            config: routing.map(|r| short(&r.config)).unwrap_or_default(),
            config_id: routing.and_then(|r| Some(r.saved?.id)),
            config_version: routing.and_then(|r| Some(r.saved?.version)),
            virtual_key: info.map(|f| short(&f.virtual_key)).unwrap_or_default(),
            provider: SmolStr::new_static(info.map_or("", |f| f.provider)),
            model: info.and_then(|f| f.model.as_ref()).or(asked).map(short).unwrap_or_default(),
            operation: operation(request, info),
            method: request.ask.method.as_str().into(),
            path: short(request.ask.prompt.as_ref().map_or(&request.ask.route.path, |prompt| &prompt.path)),
            status: tried.map_or(0, |t| t.status),
            fault: tried.and_then(|t| t.fault),
            stream: info.map_or(request.ask.content.stream, |f| f.stream),
            option_index: info.map(|f| short(&f.option_index)).unwrap_or_default(),
            strategy: routing.map_or("", |r| r.plan.config().strategy()),
            cost: None,
            timings: Timings {
                total_us,
                upstream_us: info.map_or(0, AttemptInfo::upstream_us),
                first_byte_us: 0,
                gateway_us: info.map_or(total_us, |f| f.own_work_us(request)),
            },
            steps: *steps,
            request_bytes: info.map_or(request.ask.content.bytes.len() as u64, |f| f.request_bytes),
            response_bytes: 0,
            client_ip: request.caller.client_ip,
            metadata: metadata(&request.caller.metadata),
            trace: request.caller.span.clone(),
            client: request.ask.headers.client.clone(),
            charges: Vec::new(),
            bodies: None,
            hooks: None,
        },
    )
}

/// What only records of this kind of operation have, as far as it is known before there is an answer.
fn operation(request: &Request, info: Option<&AttemptInfo>) -> RecordedOperation {
    let mut operation = RecordedOperation::blank(request.ask.route.operation.name());
    if let Some(llm) = operation.llm_mut() {
        llm.prompt = request.prompt().map(|prompt| {
            Arc::new(RecordedPrompt {
                id: prompt.id,
                slug: short(&prompt.slug),
                version_id: prompt.version_id,
                version: prompt.number,
            })
        });
        if let Some(info) = info {
            (llm.cache, llm.retries) = (info.cache, info.retries);
            llm.card = info.card.clone();
            if !info.adjusted.is_empty() {
                llm.adjusted = info.adjusted.join(",").into();
            }
        }
    }
    operation
}

/// A copy where it fits into the record, else the name itself, shared.
fn short(name: &Arc<str>) -> SmolStr {
    const FITS: usize = SmolStr::INLINE_CAP;
    if name.len() <= FITS { SmolStr::new(name) } else { SmolStr::from(name.clone()) }
}

fn metadata(pairs: &[(String, String)]) -> SmolStr {
    if pairs.is_empty() {
        return SmolStr::new_static("{}");
    }
    let map: serde_json::Map<String, serde_json::Value> =
        pairs.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    serde_json::Value::Object(map).to_string().into()
}

/// A request of a known tenant that never reached a target.
pub(crate) fn refused(request: &Request, fault: &Fault, sent: u64) -> Box<LogRecord> {
    let mut record = of(request, &request.steps(), None, None, 1);
    record.status = fault.status();
    record.fault = Some(fault.kind().row().label);
    record.response_bytes = sent;
    finish(&mut record, request);
    record
}

/// The client left before an answer was there.
pub(crate) fn abandoned(record: &mut LogRecord, request: &Request) {
    record.status = 499;
    record.fault = Some("client_gone");
    finish(record, request);
}

/// The last word on the record that the client's answer came from.
pub(crate) fn finish(record: &mut LogRecord, request: &Request) {
    record.last = true;
    record.steps.after_us = record.timings.gateway_us.saturating_sub(record.steps.before_us);
    record.timings.total_us = request.look();
    record.created_at =
        Timestamp(request.caller.at.0.saturating_add(i64::try_from(record.timings.total_us).unwrap_or(0)));
}
