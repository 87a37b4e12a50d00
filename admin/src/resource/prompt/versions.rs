//! What a prompt was and is: its versions, and the labels that point at them.

use super::view;
use crate::change::Action;
use crate::input::Edit;
use crate::problem::{Problem, missing};
use crate::resource::edition::{change, history, pick};
use crate::resource::sharing::locate_readable;
use crate::resource::shelf::{LIST, READ, UPDATE, named};
use crate::resource::{Resource as _, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, PAGES, authed};
use gateway_domain::resource::prompt::PromptDocument;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

pub(super) fn routes() -> Vec<AdminRoute> {
    const ONE: &str = "/prompts/{id}/versions/{version}";
    vec![
        authed(Method::GET, "/prompts/{id}/versions", LIST, "List the versions of a prompt, newest first", list)
            .asks(PAGES),
        authed(Method::GET, ONE, READ, "Show a version of a prompt, by number or id", show).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Put a label on a version of a prompt, or take its label off", label)
            .takes::<Labelled>()
            .and(&["workspace_id"])
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    #[serde(default)]
    label_id: Edit<String>,
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let row = locate_readable::<PromptDocument>(&call, call.query.text("workspace_id")).await?;
    let versions = history(&call, &row).await?;
    let data: Vec<Value> = paging.cut(&versions).iter().map(|kept| view::version(&row, kept)).collect();
    Ok(AdminReply::json(PromptDocument::listed(versions.len() as u64, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate_readable::<PromptDocument>(&call, call.query.text("workspace_id")).await?;
    let kept = pick(history(&call, &row).await?, call.var("version"))?;
    Ok(AdminReply::json(view::one(&row, kept.number, Some(&kept.edition))))
}

/// A label points at one version of a prompt: put on another it leaves the first.
async fn label(call: AdminCall) -> Result<AdminReply, Problem> {
    let (seen, mut body) = (call.snapshot().revision, call.body()?);
    let told = body.0.clone();
    let given = body.take_text("workspace_id")?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<PromptDocument>(&call, given, Action::Update).await?;
    let asked: Labelled = body.read()?;
    let kept = pick(history(&call, &row).await?, call.var("version"))?;
    let snapshot = call.snapshot();
    let workspace = row.workspace.and_then(|w| snapshot.workspace(w)).ok_or_else(|| missing("workspace"))?;
    let number = kept.number;
    match asked.label_id {
        Edit::Keep => Err(crate::problem::bad("label_id", "is required, or null to take a label off")),
        Edit::Set(name) => {
            let label = named("label_id", workspace.shelf().label(&name))?;
            change(&call, row, seen, told, move |editions| editions.label(label, number, kept.edition)).await
        }
        Edit::Clear => {
            let unlabel = move |editions: &mut gateway_domain::resource::edition::Editions<_>| {
                editions.labels.retain(|_, labelled| *labelled != number);
                true
            };
            change(&call, row, seen, told, unlabel).await
        }
    }
}
