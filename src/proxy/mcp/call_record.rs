//! Records of MCP calls: the tool stands where a model would, the server where a managed provider would.

use crate::guardrails::HookNotes;
use crate::proxy::client::Client;
use crate::proxy::exchange::CallParts;
use crate::proxy::record::{self, BodyCapture, PendingRecords, RecordBodies};
use crate::proxy::request::Request;
use bytes::Bytes;
use gateway_domain::NanoUsd;
use gateway_domain::Operation;
use gateway_domain::counters::Charge;
use gateway_domain::record::{Detail, RecordedOperation, ToolDetail};
use smol_str::SmolStr;
use std::time::Duration;

/// What a call of one method came to.
#[derive(Debug)]
pub(in crate::proxy) struct McpOutcome {
    /// `mcp` or `a2a`.
    pub(in crate::proxy) protocol: &'static str,
    pub(in crate::proxy) operation: Operation,
    /// How a task of an agent stands, where it is about one.
    pub(in crate::proxy) state: Option<String>,
    /// The tool, prompt or resource; empty for lists.
    pub(in crate::proxy) name: String,
    pub(in crate::proxy) status: u16,
    pub(in crate::proxy) label: Option<&'static str>,
    pub(in crate::proxy) upstream: Duration,
    pub(in crate::proxy) request_bytes: usize,
    pub(in crate::proxy) answer: Bytes,
    pub(in crate::proxy) stream: bool,
    pub(in crate::proxy) charges: Vec<Charge>,
    /// `None`: nobody said what it costs.
    pub(in crate::proxy) cost: Option<NanoUsd>,
    pub(in crate::proxy) hooks: Option<Box<HookNotes>>,
}

/// The operation of a method that is recorded; the others are counted by nobody but the upstream.
pub(in crate::proxy) fn operation(method: &str) -> Option<Operation> {
    Some(match method {
        "tools/call" => Operation::McpCallTool,
        "prompts/get" => Operation::McpGetPrompt,
        "resources/read" => Operation::McpReadResource,
        "tools/list" => Operation::McpListTools,
        "prompts/list" => Operation::McpListPrompts,
        "resources/list" => Operation::McpListResources,
        "resources/templates/list" => Operation::McpListTemplates,
        "initialize" | "server/discover" => Operation::McpSession,
        _ => return None,
    })
}

/// Where a record of a call goes, and what it may be told of.
pub(in crate::proxy) struct McpBook<'a, 's> {
    pub(in crate::proxy) calls: &'a CallParts,
    pub(in crate::proxy) request: &'a Request,
    pub(in crate::proxy) slug: &'a str,
    pub(in crate::proxy) client: &'a Client<'s>,
}

impl McpBook<'_, '_> {
    pub(in crate::proxy) fn write(&self, outcome: McpOutcome, records: &mut PendingRecords) {
        let Self { calls, request, slug, client } = self;
        let number = u32::try_from(records.len() + 1).unwrap_or(u32::MAX);
        let mut record = record::of(request, &request.steps(), None, None, number);
        record.status = outcome.status;
        record.fault = outcome.label;
        record.stream = outcome.stream;
        record.virtual_key = SmolStr::new(slug);
        record.provider = SmolStr::new_static(outcome.protocol);
        if let Some(state) = &outcome.state {
            record.metadata = with_state(&record.metadata, state);
        }
        let told = Detail::Tool(ToolDetail { task_state: outcome.state.map(Into::into) });
        record.operation = RecordedOperation::new(outcome.operation.name(), told);
        record.model = SmolStr::new(&outcome.name);
        record.request_bytes = outcome.request_bytes as u64;
        record.response_bytes = outcome.answer.len() as u64;
        record.charges = outcome.charges;
        record.cost = outcome.cost;
        record::finish(&mut record, request);
        record.timings.upstream_us = u64::try_from(outcome.upstream.as_micros()).unwrap_or(u64::MAX);
        record.timings.gateway_us = record.timings.total_us.saturating_sub(record.timings.upstream_us);
        let mut capture = BodyCapture::new(request.caller.keep, &calls.delivery.budget);
        capture.sent_if_wanted(|| outcome.answer.clone());
        let (settings, budget) = (&*calls.delivery.settings, &calls.delivery.budget);
        let session = client.view();
        let rewritten = outcome.hooks.as_ref().and_then(|hooks| hooks.rewritten.as_ref());
        RecordBodies { settings, budget, session, request, sent: None, rewritten }.answered(&mut record, capture);
        records.push_noted(record, outcome.hooks);
    }
}

/// Metadata of a record with how a task stands among them; the caller's own word stays.
fn with_state(metadata: &SmolStr, state: &str) -> SmolStr {
    let mut pairs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(metadata).unwrap_or_default();
    pairs.entry("task_state").or_insert_with(|| state.into());
    SmolStr::new(serde_json::Value::Object(pairs).to_string())
}
