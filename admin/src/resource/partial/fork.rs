//! Another partial that begins as one of the workspace, or as one that others share with it.

use crate::input::WholeNumber;
use crate::problem::Problem;
use crate::resource::sharing::locate_source;
use crate::resource::shelf::CREATE;
use crate::resource::{Resource as _, insert};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::resource::prompt::PartialDocument;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

pub(super) fn route() -> AdminRoute {
    const FORK: &str = "/prompts/partials/{id}/fork";
    authed(Method::POST, FORK, CREATE, "Make a partial of one's own of one that may be read", fork)
        .takes::<PartialFork>()
        .and(HERE)
        .asks(HERE)
}

/// The workspace of the body is where the new one goes, that of the query where the first is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartialFork {
    name: Option<String>,
    version: Option<WholeNumber>,
}

async fn fork(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let home = body.0.shift_remove("workspace_id");
    let asked: PartialFork = body.read()?;
    let (source, kept) = locate_source::<PartialDocument>(&call, asked.version.map(|v| v.0)).await?;
    let from = format!("forked from {}, version {}", source.slug, kept.number);
    let name = asked.name.unwrap_or(source.name);
    let fields = [("name", name), ("string", kept.edition.content), ("version_description", from)];
    let mut fields: Map<String, Value> =
        fields.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
    fields.extend(home.map(|home| ("workspace_id".to_owned(), home)));
    let body = crate::input::JsonBody(fields);
    let (row, revision) = insert::<PartialDocument>(&call, body).await?;
    Ok(AdminReply::json(PartialDocument::created(&row)).at(revision))
}
