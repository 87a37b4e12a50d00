//! Servers that are shown as one: who the members are, by what prefix, and what may not be one.

use crate::change::WriteView;
use crate::input::Flag;
use crate::problem::{Problem, bad, conflict};
use crate::resource::ResourceRow;
use crate::route::AdminCall;
use gateway_domain::id::{McpServerId, WorkspaceId};
use gateway_domain::resource::mcp::{McpServer, McpSync, ServerMember};
use gateway_domain::snapshot::McpBehind;
use gateway_mcp::filter::McpKind;
use gateway_mcp::merge;
use gateway_mcp::names::check_prefix;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenMember {
    /// Slug or id.
    pub(super) mcp_server_id: String,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    optional: Option<Flag>,
}

/// A slug is looked up, an id is asked about once everything is there.
pub(super) fn named(
    given: Vec<GivenMember>,
    home: Option<WorkspaceId>,
    call: &AdminCall,
) -> Result<Vec<ServerMember>, Problem> {
    if given.is_empty() || given.len() > ServerMember::MOST {
        return Err(bad("members", format_args!("must hold 1..{} servers", ServerMember::MOST)));
    }
    let snapshot = call.snapshot();
    let workspace = home.and_then(|id| snapshot.workspace(id));
    let mut members = Vec::with_capacity(given.len());
    for (at, member) in given.into_iter().enumerate() {
        let by_slug = || Some(workspace?.mcp_server(&member.mcp_server_id)?.id);
        let id = member.mcp_server_id.parse::<McpServerId>().ok().or_else(by_slug);
        let none = || bad(format_args!("members[{at}].mcp_server_id"), "names no MCP server of this workspace");
        let mcp_server_id = id.ok_or_else(none)?;
        let optional = member.optional.is_none_or(|flag| flag.0);
        members.push(ServerMember { mcp_server_id, prefix: member.prefix, optional });
    }
    Ok(members)
}

/// Each is there, leads to a server itself, and has a prefix of its own.
pub(super) fn check(row: &ResourceRow<McpServer>, around: &WriteView<'_>) -> Result<(), Problem> {
    let (mut prefixes, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (at, member) in row.doc.members.iter().enumerate() {
        let workspace = around.workspace(row.workspace)?;
        let id = format!("members[{at}].mcp_server_id");
        let found = workspace.mcp_server_of(member.mcp_server_id);
        let found = found.ok_or_else(|| bad(&id, "names no MCP server of this workspace"))?;
        if matches!(found.behind, McpBehind::Members(_)) {
            return Err(bad(&id, "names a server that is made of others itself"));
        }
        if !seen.insert(member.mcp_server_id) {
            return Err(bad(&id, "is named again"));
        }
        let (field, prefix) = match &member.prefix {
            Some(prefix) => ("prefix", prefix.clone()),
            None => ("mcp_server_id", found.slug.to_string()),
        };
        let field = format!("members[{at}].{field}");
        check_prefix(&prefix).map_err(|rule| match &member.prefix {
            Some(_) => bad(&field, rule),
            None => bad(&field, format_args!("has a slug that is no prefix: a prefix {rule}; give one in `prefix`")),
        })?;
        if !prefixes.insert(prefix) {
            return Err(bad(&field, "gives a prefix that another member has"));
        }
    }
    Ok(())
}

/// Who is a member of others stays.
pub(super) fn check_unused(row: &ResourceRow<McpServer>, around: &WriteView<'_>) -> Result<(), Problem> {
    let Some(workspace) = row.workspace.and_then(|id| around.snapshot.workspace(id)) else { return Ok(()) };
    let holds = |members: &[ServerMember]| members.iter().any(|member| member.mcp_server_id.0 == row.id);
    let mut users: Vec<String> =
        workspace.mcp_servers().filter(|s| holds(s.members())).map(|s| format!("`{}`", s.slug)).collect();
    if users.is_empty() {
        return Ok(());
    }
    users.sort();
    users.truncate(10);
    Err(conflict(format!("the MCP server is a member of {}", users.join(", "))))
}

/// The members of a server as the Admin API shows them.
pub(super) fn shown(row: &ResourceRow<McpServer>, call: &AdminCall) -> Vec<Value> {
    let snapshot = call.snapshot();
    let workspace = row.workspace.and_then(|id| snapshot.workspace(id));
    let one = |member: &ServerMember| {
        let server = workspace.and_then(|w| w.mcp_server_of(member.mcp_server_id));
        let slug = server.map(|server| server.slug.to_string());
        let prefix = member.prefix.clone().or_else(|| slug.clone());
        json!({"mcp_server_id": member.mcp_server_id, "slug": slug, "prefix": prefix, "optional": member.optional})
    };
    row.doc.members.iter().map(one).collect()
}

/// What one member said when it was last asked.
pub(crate) struct MemberSync {
    pub(crate) prefix: String,
    pub(crate) sync: McpSync,
}

/// What all members said, under the names of the whole. The worst state is that of all.
pub(crate) fn joined(name: &str, all: Vec<MemberSync>) -> McpSync {
    let rank = |status: &str| match status {
        "ok" => 0,
        "stale" => 1,
        _ => 2,
    };
    let mut whole = McpSync { server_name: Some(name.to_owned()), status: "ok".to_owned(), ..McpSync::default() };
    let told: Vec<String> = all.iter().map(|member| member.sync.flags.to_string()).collect();
    whole.flags = serde_json::from_str(&merge::capabilities(told.iter().map(String::as_str))).unwrap_or_default();
    let mut errors = Vec::new();
    for MemberSync { prefix, sync } in all {
        if rank(&sync.status) > rank(&whole.status) {
            whole.status.clone_from(&sync.status);
        }
        whole.at = match (whole.at, sync.at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        errors.extend(sync.error.map(|why| format!("{prefix}: {why}")));
        for kind in McpKind::ALL {
            for item in sync.items.get(kind.name()).into_iter().flatten() {
                let Some(item) = merge::item(kind, &prefix, &item.to_string()) else { continue };
                let Ok(item) = serde_json::from_str(&item.json) else { continue };
                whole.items.entry(kind.name().to_owned()).or_default().push(item);
            }
        }
    }
    whole.error = (!errors.is_empty()).then(|| errors.join("; "));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_state_is_that_of_all_and_names_have_their_prefix() {
        let member = |prefix: &str, status: &str, error: Option<&str>| {
            let items = [("tool".to_owned(), vec![json!({"name": "read"})])].into();
            let sync = McpSync { status: status.into(), error: error.map(str::to_owned), items, ..McpSync::default() };
            MemberSync { prefix: prefix.to_owned(), sync }
        };
        let all = joined("all", vec![member("a", "ok", None), member("b", "stale", Some("away"))]);
        assert_eq!((all.status.as_str(), all.error.as_deref()), ("stale", Some("b: away")));
        assert_eq!(all.items["tool"], [json!({"name": "a__read"}), json!({"name": "b__read"})]);
        assert_eq!(joined("all", vec![member("a", "", None)]).status, "");
    }
}
