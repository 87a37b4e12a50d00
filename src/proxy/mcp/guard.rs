//! Guardrails of tool calls and of agents: the defaults of workspace and organisation judge the texts of a call's
//! arguments before it goes up, and those of its result before the client sees it. A denial is a result, which a model
//! can read.

use crate::guardrails::TargetGuards;
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::exchange::CallParts;
use crate::proxy::hooks::{moderator, room, unknown};
use crate::proxy::request::{DefaultGuardrail, Request};
use crate::proxy::text_guard::TextGuard;
use gateway_domain::{Fault, Operation};
use gateway_guardrails::{BodyShape, Facts, Guardrail};
use gateway_mcp::RawObject;
use serde_json::json;
use std::sync::Arc;

/// What is called, for checks that ask.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct GuardedTool<'a> {
    pub(in crate::proxy) server: &'a str,
    pub(in crate::proxy) tool: &'a str,
    pub(in crate::proxy) operation: Operation,
    pub(in crate::proxy) streams: bool,
}

/// `None`: nothing judges the calls of this caller.
pub(in crate::proxy) async fn guard(
    calls: &CallParts,
    request: &Request,
    called: GuardedTool<'_>,
) -> Result<Option<TextGuard>, Fault> {
    let Some(defaults) = request.caller.tenant.guardrails.as_deref() else { return Ok(None) };
    let input = compiled(calls, request, &defaults.input).await?;
    let output = compiled(calls, request, &defaults.output).await?;
    if input.is_empty() && output.is_empty() {
        return Ok(None);
    }
    let facts = Facts {
        request_type: called.operation.name().to_owned(),
        streams: called.streams,
        provider: called.server.to_owned(),
        model: called.tool.to_owned(),
        asked_model: called.tool.to_owned(),
        metadata: request.caller.metadata.clone(),
        headers: http::HeaderMap::new(),
        trace_id: request.caller.trace.to_string(),
    };
    let guards = TargetGuards {
        input,
        output,
        digest: Vec::new(),
        shape: BodyShape::Chat,
        facts: Arc::new(facts),
        request: None,
        request_is_transformed: false,
        moderator: moderator(request).map(Arc::new),
        room: room(&calls.delivery.budget, request),
    };
    Ok(Some(TextGuard::new(guards, request.caller.keep != CapturePolicy::Nothing)))
}

async fn compiled(
    calls: &CallParts,
    request: &Request,
    list: &[DefaultGuardrail],
) -> Result<Vec<Arc<Guardrail>>, Fault> {
    let mut out: Vec<Arc<Guardrail>> = Vec::new();
    for default in list {
        let saved = default.saved.as_ref().ok_or_else(|| unknown(&default.slug))?;
        let guardrail = calls.guardrails.of_saved(saved, &request.caller.tenant.org).await?;
        if !out.iter().any(|known| Arc::ptr_eq(known, &guardrail)) {
            out.push(guardrail);
        }
    }
    Ok(out)
}

/// The result that a denied call gives in place of its own.
pub(in crate::proxy) fn denial(guard: &TextGuard) -> String {
    let results = guard.results();
    json!({
        "content": [{"type": "text", "text": "The call was denied by a guardrail."}], "isError": true,
        "_meta": {"gateway/hook_results": results},
    })
    .to_string()
}

/// The result of a message with another in its place.
pub(in crate::proxy) fn with_result(envelope: &str, result: &str) -> String {
    let Ok(mut object) = RawObject::parse(envelope) else { return envelope.to_owned() };
    object.set("result", result);
    object.to_json()
}
