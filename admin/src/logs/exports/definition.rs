//! What an export is asked for with: a workspace, the filters of the log list, fields, and a form.

use super::super::{filter, restricted};
use crate::input::QueryString;
use crate::problem::{Problem, bad, forbidden, internal};
use crate::route::AdminCall;
use gateway_domain::export::{ExportFormat, ExportRequest, LogExport, LogField};
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::record::LogQuery;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Characters.
const LONGEST_DESCRIPTION: usize = 1_000;
/// Bytes of the filters as they are kept.
const LONGEST_FILTERS: usize = 32 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewExport {
    #[serde(default)]
    workspace_id: Option<String>,
    /// Needed, which is said when there is something to ask for.
    #[serde(default)]
    filters: Option<Map<String, Value>>,
    #[serde(default)]
    requested_data: Option<Vec<String>>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    format: Option<String>,
}

pub(super) struct ExportAsked {
    pub(super) workspace: WorkspaceId,
    request: ExportRequest,
    query: LogQuery,
}

impl ExportAsked {
    /// `before`: what it was, of which stays what is not given.
    pub(super) async fn read(call: &AdminCall, given: NewExport, before: Option<&LogExport>) -> Result<Self, Problem> {
        let NewExport { workspace_id, filters, requested_data, description, format } = given;
        let filters = filters.ok_or_else(|| bad("filters", "is required"))?;
        let workspace = workspace(call, workspace_id.as_deref(), &filters, before)?;
        let fields = match (requested_data, before) {
            (Some(names), _) => fields(&names)?,
            (None, Some(before)) => before.request.fields.clone(),
            (None, None) => return Err(bad("requested_data", "is required")),
        };
        let denied = restricted::denied(&call.snapshot(), workspace);
        for field in &fields {
            restricted::refuse("requested_data", *field, denied)?;
        }
        if !call.actor.sees_metadata && fields.contains(&LogField::Metadata) {
            return Err(forbidden("your role does not see the metadata of logs"));
        }
        let format = match (format.as_deref(), before) {
            (Some(name), _) => form(name)?,
            (None, before) => before.map_or_else(ExportFormat::default, |before| before.request.format),
        };
        let description = match (description, before) {
            (Some(text), _) if text.chars().count() > LONGEST_DESCRIPTION => {
                return Err(bad("description", format_args!("must be at most {LONGEST_DESCRIPTION} characters")));
            }
            (Some(text), _) => text,
            (None, before) => before.map_or_else(String::new, |before| before.request.description.clone()),
        };
        let query = question(call, &filters, workspace).await?;
        let filters = Value::Object(filters).to_string();
        if filters.len() > LONGEST_FILTERS {
            return Err(bad("filters", format_args!("must take at most {LONGEST_FILTERS} bytes")));
        }
        let request = ExportRequest { description, filters, fields, format, total: 0 };
        Ok(Self { workspace, request, query })
    }

    /// The request to be stored, with the number of records that match now.
    pub(super) async fn counted(&self, call: &AdminCall) -> Result<ExportRequest, Problem> {
        let found = call.app.logs.query(&LogQuery { page: 0, page_size: 0, ..self.query.clone() }).await?;
        Ok(ExportRequest { total: found.total, ..self.request.clone() })
    }
}

fn workspace(
    call: &AdminCall,
    given: Option<&str>,
    filters: &Map<String, Value>,
    before: Option<&LogExport>,
) -> Result<WorkspaceId, Problem> {
    let snapshot = call.snapshot();
    let text = |name: &str| filters.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let named = given.or_else(|| call.query.text("workspace_id")).or_else(|| text("workspace_slug"));
    let workspace = match (named, before) {
        (None, Some(before)) => before.workspace,
        (named, _) => call.actor.home(&snapshot, named)?,
    };
    if before.is_some_and(|before| before.workspace != workspace) {
        return Err(bad("workspace_id", "must stay what it was"));
    }
    let filtered = text("workspace_slug").map(|slug| call.actor.home(&snapshot, Some(slug))).transpose()?;
    if filtered.is_some_and(|filtered| filtered != workspace) {
        return Err(bad("filters.workspace_slug", "must be the workspace of the export"));
    }
    Ok(workspace)
}

fn fields(names: &[String]) -> Result<Vec<LogField>, Problem> {
    let mut fields = Vec::new();
    for name in names {
        let Some(field) = LogField::parse(name) else {
            let all: Vec<&str> = LogField::ALL.iter().map(|field| field.name()).collect();
            return Err(bad("requested_data", format_args!("must hold only {}", all.join(", "))));
        };
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    if fields.is_empty() { Err(bad("requested_data", "must name at least one field")) } else { Ok(fields) }
}

fn form(name: &str) -> Result<ExportFormat, Problem> {
    ExportFormat::parse(name).ok_or_else(|| {
        let names = ExportFormat::ALL.map(ExportFormat::name);
        bad("format", format_args!("must be one of {}", names.join(", ")))
    })
}

/// What matches, for whoever asks.
async fn question(call: &AdminCall, filters: &Map<String, Value>, workspace: WorkspaceId) -> Result<LogQuery, Problem> {
    let under = |problem: Problem| {
        let is_of_filter = problem.status == http::StatusCode::BAD_REQUEST;
        if is_of_filter { Problem { message: format!("filters.{}", problem.message), ..problem } } else { problem }
    };
    let asked = QueryString::of_filters(filters, &filter::OF_EXPORTS).map_err(under)?;
    let range = filter::range(call, &asked).map_err(under)?;
    let denied = restricted::denied(&call.snapshot(), workspace);
    let query = filter::read_from(call, &asked, vec![workspace], denied).await.map_err(under)?;
    // A reader of own logs who has no key of their own has no logs.
    let nothing = || LogQuery {
        org: Some(call.actor.org),
        workspaces: vec![workspace],
        keys: vec![KeyId(Uuid::nil())],
        ..LogQuery::default()
    };
    Ok(LogQuery { from: range.from, to: range.to, ..query.unwrap_or_else(nothing) })
}

pub(super) async fn question_of(call: &AdminCall, export: &LogExport) -> Result<LogQuery, Problem> {
    let filters: Value = serde_json::from_str(&export.request.filters).map_err(internal)?;
    question(call, filters.as_object().unwrap_or(&Map::new()), export.workspace).await
}
