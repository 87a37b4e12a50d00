//! Which role a user has in a workspace; kept with the workspace.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::resource::person::Member;
use crate::resource::{Kind, Stored};

/// It is no entry of its own.
pub(super) struct Membership;

impl SnapshotEntry for Membership {
    const KIND: Kind = Kind::Member;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let member: Member = doc(row)?;
        workspace.put_member(member.user_id, lives(row).then_some(member.role));
        Ok(())
    }
}
