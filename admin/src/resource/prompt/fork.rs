//! Another prompt that begins as one of the workspace, or as one that others share with it.

use super::view::template;
use crate::input::WholeNumber;
use crate::problem::Problem;
use crate::resource::sharing::locate_source;
use crate::resource::shelf::CREATE;
use crate::resource::{Resource as _, insert};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::resource::prompt::PromptDocument;
use http::Method;
use serde::Deserialize;

pub(super) fn route() -> AdminRoute {
    const FORK: &str = "/prompts/{id}/fork";
    authed(Method::POST, FORK, CREATE, "Make a prompt of one's own of one that may be read", fork)
        .takes::<PromptFork>()
        .and(HERE)
        .asks(HERE)
}

/// The workspace of the body is where the new one goes, that of the query where the first is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptFork {
    name: Option<String>,
    collection_id: Option<String>,
    virtual_key: Option<String>,
    model: Option<String>,
    version: Option<WholeNumber>,
}

async fn fork(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let home = body.0.shift_remove("workspace_id");
    let asked: PromptFork = body.read()?;
    let (source, kept) = locate_source::<PromptDocument>(&call, asked.version.map(|v| v.0)).await?;
    let mut fields = template(&kept.edition.content);
    let from = format!("forked from {}, version {}", source.slug, kept.number);
    fields.insert("version_description".to_owned(), from.into());
    fields.insert("name".to_owned(), asked.name.unwrap_or(source.name).into());
    for (name, own) in
        [("collection_id", asked.collection_id), ("virtual_key", asked.virtual_key), ("model", asked.model)]
    {
        fields.extend(own.map(|own| (name.to_owned(), own.into())));
    }
    fields.extend(home.map(|home| ("workspace_id".to_owned(), home)));
    let body = crate::input::JsonBody(fields);
    let (row, revision) = insert::<PromptDocument>(&call, body).await?;
    Ok(AdminReply::json(PromptDocument::created(&row)).at(revision))
}
