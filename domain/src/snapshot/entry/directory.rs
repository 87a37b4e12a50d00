//! What a directory outside says of an organisation's people: groups, the seats that they give, and who is barred. Kept
//! with the organisation; requests ask only whether the person behind a token is barred.

use super::user::Person;
use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::id::{UserId, WorkspaceId};
use crate::resource::person::WorkspaceRole;
use crate::resource::provisioning::{DirectoryGroup, GroupMapping};
use crate::resource::{Kind, Stored};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct SavedGroup {
    pub id: Uuid,
    pub name: Arc<str>,
    pub external_id: Option<Arc<str>>,
    /// Sorted.
    pub members: Box<[UserId]>,
}

impl SavedGroup {
    pub fn holds(&self, user: UserId) -> bool {
        self.members.binary_search(&user).is_ok()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SavedMapping {
    pub id: Uuid,
    pub group: Uuid,
    pub workspace: WorkspaceId,
    pub role: WorkspaceRole,
}

#[derive(Clone, Debug, Default)]
pub struct OrgDirectory {
    groups: Arc<BTreeMap<Uuid, Arc<SavedGroup>>>,
    mappings: Arc<BTreeMap<Uuid, SavedMapping>>,
    /// Names of people who are not active, in lower case: as a token may call them.
    barred: Arc<HashMap<Box<str>, UserId>>,
}

impl OrgDirectory {
    pub fn group(&self, id: Uuid) -> Option<&Arc<SavedGroup>> {
        self.groups.get(&id)
    }

    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<SavedGroup>> {
        self.groups.values()
    }

    pub fn groups_of(&self, user: UserId) -> impl Iterator<Item = &Arc<SavedGroup>> {
        self.groups.values().filter(move |group| group.holds(user))
    }

    pub fn mappings(&self) -> impl ExactSizeIterator<Item = &SavedMapping> {
        self.mappings.values()
    }

    /// The greatest role that groups give somebody in a workspace.
    pub fn seat(&self, user: UserId, workspace: WorkspaceId) -> Option<WorkspaceRole> {
        let here = self.mappings.values().filter(|m| m.workspace == workspace);
        let theirs = here.filter(|m| self.group(m.group).is_some_and(|group| group.holds(user)));
        theirs.map(|m| m.role).max_by_key(|role| role.rank())
    }

    /// Whether a token's name for somebody is that of a person who is not active.
    pub fn bars(&self, name: &str) -> bool {
        !self.barred.is_empty() && self.barred.contains_key(&*name.to_lowercase())
    }

    pub(super) fn put_barred(&mut self, id: UserId, person: Option<&Person>) {
        let barred = Arc::make_mut(&mut self.barred);
        barred.retain(|_, who| *who != id);
        if let Some(person) = person {
            let names = [Some(&person.email), Some(&person.user_name), person.external_id.as_ref()];
            barred.extend(names.into_iter().flatten().map(|name| (name.to_lowercase().into(), id)));
        }
    }
}

impl SnapshotEntry for SavedGroup {
    const KIND: Kind = Kind::DirectoryGroup;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        let groups = Arc::make_mut(&mut org.directory_mut().groups);
        if !lives(row) {
            groups.remove(&row.id);
            return Ok(());
        }
        let DirectoryGroup { external_id, mut members, .. } = doc(row)?;
        members.sort_unstable();
        members.dedup();
        let (name, external_id) = (row.name.as_str().into(), external_id.map(Into::into));
        groups.insert(row.id, Arc::new(Self { id: row.id, name, external_id, members: members.into() }));
        Ok(())
    }
}

impl SnapshotEntry for SavedMapping {
    const KIND: Kind = Kind::GroupMapping;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        let mappings = Arc::make_mut(&mut org.directory_mut().mappings);
        if lives(row) {
            let GroupMapping { group, workspace, role, .. } = doc(row)?;
            mappings.insert(row.id, Self { id: row.id, group, workspace, role });
        } else {
            mappings.remove(&row.id);
        }
        Ok(())
    }
}
