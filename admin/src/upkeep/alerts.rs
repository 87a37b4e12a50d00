//! Alerts of budgets in the audit trail. Knows not when one is due.

use crate::app::App;
use crate::change::{ChangeOrigin, commit};
use gateway_domain::id::OrgId;
use gateway_domain::ports::{Batch, Holder};
use gateway_domain::resource::Kind;
use gateway_domain::snapshot::Snapshot;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A budget that reached its threshold or its limit.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    pub holder: Holder,
    /// Whether the limit itself is reached, and not only the threshold.
    pub exhausted: bool,
    pub told: &'a Map<String, Value>,
}

/// Writes it down. Returns what the budget belongs to, as people know it; `None` when that is gone.
pub async fn alert(app: &App, alert: &Alert<'_>) -> Result<Option<Value>, String> {
    let snapshot = app.live.snapshot();
    let Some(AlertSubject { kind, id, org }) = subject(&snapshot, alert.holder) else { return Ok(None) };
    let found = app.directory.get(kind, org, None, &id.to_string()).await.map_err(|e| e.to_string())?;
    let Some(row) = found else { return Ok(None) };
    let event = if alert.exhausted { "budget_exhausted" } else { "budget_threshold_reached" };
    let audit = vec![ChangeOrigin::of_upkeep(app).audit_event(event, &row, alert.told)];
    let written = commit(app, snapshot.revision, |_| Ok(Batch { audit, ..Batch::default() })).await;
    written.map_err(|problem| problem.message)?;
    Ok(Some(json!({
        "kind": row.kind,
        "id": row.id,
        "slug": row.slug,
        "name": row.name,
        "organisation_id": row.org,
        "workspace_id": row.workspace,
    })))
}

/// The row that a budget stands in.
struct AlertSubject {
    kind: Kind,
    id: Uuid,
    org: OrgId,
}

fn subject(snapshot: &Snapshot, holder: Holder) -> Option<AlertSubject> {
    let (kind, id, org) = match holder {
        Holder::Policy(id) => {
            let home = snapshot.workspaces().find(|w| w.usage_policies().contains_key(&id))?;
            (Kind::UsageLimitPolicy, id.0, home.org)
        }
        Holder::Key(id) => (Kind::ApiKey, id.0, snapshot.key_by_id(id)?.org),
        Holder::Workspace(id) => (Kind::Workspace, id.0, snapshot.workspace(id)?.org),
        Holder::Provider(id) => {
            let name = id.to_string();
            (Kind::Provider, id.0, snapshot.workspaces().find(|w| w.provider(&name).is_some())?.org)
        }
        Holder::Integration(id, _) => (Kind::Integration, id.0, snapshot.upstream(id)?.org),
        Holder::Claim(_) => return None,
    };
    Some(AlertSubject { kind, id, org })
}
