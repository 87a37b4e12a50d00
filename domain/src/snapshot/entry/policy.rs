//! A rate-limit policy that is active.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::id::PolicyId;
use crate::resource::policy::RateLimitPolicy;
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct Policy {
    pub id: PolicyId,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    pub revision: i64,
    pub rule: RateLimitPolicy,
}

impl SnapshotEntry for Policy {
    const KIND: Kind = Kind::RateLimitPolicy;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let active = lives(row) && row.status == "active";
        let made = active.then(|| read(row)).transpose()?;
        workspace.put_policy(row.id, made.map(Arc::new));
        Ok(())
    }
}

fn read(row: &Stored) -> Result<Policy, String> {
    let rule: RateLimitPolicy = doc(row)?;
    rule.check().map_err(|e| format!("{} {}", e.field, e.rule))?;
    Ok(Policy {
        id: PolicyId(row.id),
        name: row.name.as_str().into(),
        slug: row.slug.as_str().into(),
        revision: row.revision,
        rule,
    })
}
