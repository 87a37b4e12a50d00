//! A usage-limit policy that is active.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::id::PolicyId;
use crate::resource::policy::UsageLimitPolicy;
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct UsagePolicy {
    pub id: PolicyId,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    pub revision: i64,
    pub rule: UsageLimitPolicy,
}

impl SnapshotEntry for UsagePolicy {
    const KIND: Kind = Kind::UsageLimitPolicy;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let active = lives(row) && row.status == "active";
        let made = active.then(|| read(row)).transpose()?;
        workspace.put_usage_policy(row.id, made.map(Arc::new));
        Ok(())
    }
}

fn read(row: &Stored) -> Result<UsagePolicy, String> {
    let rule: UsageLimitPolicy = doc(row)?;
    rule.check().map_err(|e| format!("{} {}", e.field, e.rule))?;
    Ok(UsagePolicy {
        id: PolicyId(row.id),
        name: row.name.as_str().into(),
        slug: row.slug.as_str().into(),
        revision: row.revision,
        rule,
    })
}
