//! Fields of logs that are kept from readers: by organisation and workspace, from exports for everybody, and from
//! lists, single logs and sums for whoever holds no Admin key. What is kept is not shown, nor can it be asked by.

use crate::problem::{Problem, bad};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::export::{LogField, LogFields};
use gateway_domain::id::WorkspaceId;
use gateway_domain::snapshot::Snapshot;
use serde_json::{Value, json};

/// What nobody exports from a workspace.
pub(crate) fn denied(snapshot: &Snapshot, workspace: WorkspaceId) -> LogFields {
    let Some(workspace) = snapshot.workspace(workspace) else { return LogFields::default() };
    let all = snapshot.org(workspace.org).map_or_else(LogFields::default, |org| org.denied_log_fields);
    all.union(workspace.denied_log_fields)
}

/// What whoever asks does not see.
pub(crate) fn hidden(call: &AdminCall) -> LogFields {
    call.actor.workspace.map_or_else(LogFields::default, |workspace| denied(&call.snapshot(), workspace))
}

/// `name` is a part of the request that asks for or by a field.
pub(crate) fn refuse(name: &str, field: LogField, hidden: LogFields) -> Result<(), Problem> {
    if hidden.contains(field) {
        return Err(bad(name, format_args!("asks for {}, which is kept from you", field.name())));
    }
    Ok(())
}

pub(super) async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let workspace = call.actor.home(&call.snapshot(), call.query.text("workspace_id"))?;
    let fields = denied(&call.snapshot(), workspace).names();
    Ok(AdminReply::json(json!({"object": "field-restrictions", "workspace_id": workspace, "denied_fields": fields})))
}

/// Every place of a shown log that tells of a field, or gives it away.
const PLACES: &[(LogField, &[&str])] = &[
    (LogField::Id, &["/_id", "/id", "/metrics/id"]),
    (LogField::TraceId, &["/trace_id", "/metrics/trace_id", "/metrics/internal_trace_id"]),
    (LogField::CreatedAt, &["/created_at", "/metrics/created_at"]),
    (LogField::Request, &["/finalUntransformedRequest", "/transformedRequest", "/hook_results"]),
    (LogField::Response, &["/originalResponse", "/hook_results"]),
    (LogField::AiOrg, &["/metrics/ai_org"]),
    (LogField::AiModel, &["/metrics/ai_model", "/metrics/response_model", "/tool/name"]),
    (LogField::ReqUnits, &["/metrics/req_units", "/metrics/total_units", "/metrics/usage", "/batch/input_tokens"]),
    (LogField::ResUnits, &["/metrics/res_units", "/metrics/total_units", "/metrics/usage", "/batch/output_tokens"]),
    (LogField::TotalUnits, &["/metrics/total_units", "/metrics/usage", "/batch/input_tokens", "/batch/output_tokens"]),
    (
        LogField::RequestUrl,
        &[
            "/metrics/request_url",
            "/metrics/span_name",
            "/request/url",
            "/finalUntransformedRequest/url",
            "/transformedRequest/url",
            "/batch/endpoint",
        ],
    ),
    (LogField::Cost, &["/metrics/cost", "/batch/cost"]),
    (LogField::CostCurrency, &["/metrics/cost_currency"]),
    (LogField::ResponseTime, &["/metrics/response_time", "/metrics/upstream_response_time", "/response/responseTime"]),
    (
        LogField::ResponseStatusCode,
        &["/metrics/response_status_code", "/response/status", "/originalResponse/status", "/batch/status", "/fault"],
    ),
    (LogField::Config, &["/metrics/config", "/metrics/config_id", "/metrics/config_version_id"]),
    (LogField::PromptSlug, &["/metrics/prompt_slug", "/metrics/prompt_id", "/metrics/prompt_version_id"]),
];

/// Takes what is kept out of a shown log. Metadata is left out where it is read.
pub(super) fn conceal(shown: &mut Value, hidden: LogFields) {
    if hidden.is_empty() {
        return;
    }
    for (_, places) in PLACES.iter().filter(|(field, _)| hidden.contains(*field)) {
        for place in *places {
            if let Some(value) = shown.pointer_mut(place) {
                *value = Value::Null;
            }
        }
    }
    for (field, place) in [(LogField::Request, "/request"), (LogField::Response, "/response")] {
        if hidden.contains(field)
            && let Some(message) = shown.pointer_mut(place).and_then(Value::as_object_mut)
        {
            // Fields of their own, which are kept or not by themselves.
            message.retain(|name, _| ["url", "method", "status", "responseTime"].contains(&name.as_str()));
        }
    }
}
