//! Integrations with MCP servers and with agents as rows at two levels: some of the organisation, some of a workspace.
//! Which of them somebody sees, who may change them, and that none goes that somebody uses.

use super::{Resource, ResourceRow, collect, everything};
use crate::actor::Actor;
use crate::change::Action;
use crate::problem::{Problem, conflict, missing};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::scope::Scope;
use serde_json::{Value, json};

/// The scopes of each thing that can be done: the organisation's first, then the workspace's.
pub(super) struct ActionScopes {
    pub(super) create: &'static [Scope],
    pub(super) read: &'static [Scope],
    pub(super) update: &'static [Scope],
    pub(super) delete: &'static [Scope],
}

impl ActionScopes {
    pub(super) const fn of(&self, action: Action) -> &'static [Scope] {
        match action {
            Action::Create => self.create,
            Action::Read => self.read,
            Action::Update | Action::Publish | Action::Rotate | Action::Warn => self.update,
            Action::Delete => self.delete,
        }
    }
}

/// Those of the organisation ask for the organisation's scope, those of a workspace for either.
pub(super) fn allow<R: Resource>(row: &ResourceRow<R>, actor: &Actor, either: &'static [Scope]) -> Result<(), Problem> {
    actor.require(if row.workspace.is_some() { either } else { &either[..1] })
}

/// Two levels at once, so the pages are cut here: integrations are few. `scopes`: as [`ActionScopes`] has them.
pub(super) async fn list<R: Resource>(
    call: AdminCall,
    scopes: &'static [Scope],
    view: fn(&ResourceRow<R>, &AdminCall) -> Value,
) -> Result<AdminReply, Problem> {
    let kind = call.query.one_of("type", &["workspace", "organisation", "all"])?.unwrap_or("all");
    if call.query.text("organisation_id").is_some_and(|id| id != call.actor.org.to_string()) {
        return Err(missing("organisation"));
    }
    let named = call.actor.named(&call.snapshot(), call.query.text("workspace_id"))?;
    let paging = call.query.paging()?;
    if kind == "organisation" {
        call.actor.require(&scopes[..1])?;
    }
    let rows = collect::<R>(&call, everything::<R>(&call, None)).await?;
    let shared = call.actor.require(&scopes[..1]).is_ok() && kind != "workspace";
    let wanted = call.query.text("search").map(str::to_lowercase);
    let found = |r: &ResourceRow<R>| {
        let fits = |text: &str| wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(wanted));
        fits(&r.name) || fits(&r.slug)
    };
    let shown = |r: &&ResourceRow<R>| match r.workspace {
        None => shared && found(r),
        Some(own) => kind != "organisation" && named.is_none_or(|w| w == own) && found(r),
    };
    let data: Vec<Value> = rows.iter().filter(shown).map(|row| view(row, &call)).collect();
    let (total, page) = (data.len() as u64, paging.cut(&data).to_vec());
    let has_more = (paging.page + 1).saturating_mul(paging.size) < total;
    Ok(AdminReply::json(json!({"object": "list", "total": total, "data": page, "has_more": has_more})))
}

/// `users`: the slugs of servers that lead to it, each with that of its workspace.
pub(super) fn refuse_used<'a>(noun: &str, users: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), Problem> {
    let mut users: Vec<String> =
        users.map(|(server, workspace)| format!("`{server}` of workspace `{workspace}`")).collect();
    if users.is_empty() {
        return Ok(());
    }
    users.sort();
    users.truncate(10);
    Err(conflict(format!("the {noun} is used by the servers {}", users.join(", "))))
}
