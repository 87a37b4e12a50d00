//! The end of an organisation. It must be empty first: what is left of more than it was made with is named, and nothing
//! is deleted with it that somebody could miss. What it was made with goes along, and so does what hangs on nothing
//! else.

use super::access::{audit_for_both, row};
use crate::change::{Action, WriteView};
use crate::problem::{Problem, conflict};
use crate::resource::{ResourceRow, pages, tombstone};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::OrgId;
use gateway_domain::ports::ResourceQuery;
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::person::{OrgRole, User};
use gateway_domain::resource::{Kind, Stored};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// What it is called when it stands in the way; `None`: it goes along.
const fn noun(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Organisation
        | Kind::SignOn
        | Kind::Collection
        | Kind::Label
        | Kind::Member
        | Kind::Invite
        | Kind::GroupMapping
        | Kind::McpGrant
        | Kind::SigningKey => None,
        Kind::Workspace => Some("workspaces beside the default one"),
        Kind::ApiKey => Some("keys of workspaces"),
        Kind::User => Some("users beside its owners"),
        Kind::Guardrail => Some("guardrails"),
        Kind::Plugin => Some("credentials of partners"),
        Kind::Alert => Some("alert rules"),
        Kind::Config => Some("configs"),
        Kind::Integration => Some("integrations"),
        Kind::Provider => Some("providers"),
        Kind::McpIntegration => Some("MCP integrations"),
        Kind::McpServer => Some("MCP servers"),
        Kind::AgentIntegration => Some("agent integrations"),
        Kind::AgentServer => Some("agent servers"),
        Kind::RateLimitPolicy => Some("rate-limit policies"),
        Kind::UsageLimitPolicy => Some("usage-limit policies"),
        Kind::PromptPartial => Some("prompt partials"),
        Kind::Prompt => Some("prompts"),
        Kind::SecretReference => Some("secret references"),
        Kind::Deployment => Some("deployments"),
        Kind::OauthClient => Some("OAuth clients"),
        Kind::DirectoryGroup => Some("groups of a directory"),
    }
}

pub(super) async fn delete(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = row(&call).await?;
    let org = row.org;
    if row.doc.made_by.is_none() {
        return Err(conflict("the organisation of the first start cannot be deleted"));
    }
    let read = holdings(&call, org).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        let rows = around.now(read, |r| r.org == org.0 && r.kind != Kind::Organisation.name());
        refuse_full(&row.doc, &rows)?;
        let mut gone = Vec::with_capacity(rows.len() + 1);
        for row in rows {
            gone.push((Action::Delete, tombstone(row, call.now)?));
        }
        gone.push((Action::Delete, row.tombstone(call.now)?));
        call.promise(|| json!({}));
        Ok(audit_for_both(&call, gone, &Map::new()))
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Everything of it, as far as it could go along.
async fn holdings(call: &AdminCall, org: OrgId) -> Result<Vec<Stored>, Problem> {
    let mut rows = Vec::new();
    for kind in Kind::ALL.iter().copied().filter(|kind| *kind != Kind::Organisation) {
        let mut query = ResourceQuery::all(kind, org);
        let page = call.app.directory.list(&query).await?;
        let more = page.rows.len() as u64 == query.page_size;
        // So many are never only what goes along.
        if let (true, Some(noun)) = (more, noun(kind)) {
            return Err(still_holds(&[format!("{} {noun}", page.total)]));
        }
        rows.extend(page.rows);
        if more {
            query.page += 1;
            rows.extend(pages(&call.app, query).await?);
        }
    }
    Ok(rows)
}

fn still_holds(held: &[String]) -> Problem {
    conflict(format!("the organisation still holds {}: only an empty one is deleted", held.join(", ")))
}

fn refuse_full(doc: &Organisation, rows: &[Stored]) -> Result<(), Problem> {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for row in rows {
        let Some(kind) = Kind::parse(&row.kind) else { continue };
        if noun(kind).is_some() && row.status != "archived" && !was_made_with_it(doc, kind, row)? {
            *counts.entry(kind).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    let held = counts.iter().filter_map(|(kind, count)| Some(format!("{count} {}", noun(*kind)?)));
    Err(still_holds(&held.collect::<Vec<_>>()))
}

fn was_made_with_it(doc: &Organisation, kind: Kind, row: &Stored) -> Result<bool, Problem> {
    Ok(match kind {
        Kind::Workspace => doc.default_workspace.0 == row.id,
        Kind::ApiKey => ResourceRow::<ApiKey>::read(row)?.doc.kind == KeyKind::OrganisationService,
        Kind::User => ResourceRow::<User>::read(row)?.doc.role == OrgRole::Owner,
        _ => false,
    })
}
