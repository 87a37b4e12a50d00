//! A user, as far as it bounds keys.

use super::{Build, Draft, SnapshotEntry, doc, keep};
use crate::id::{OrgId, UserId};
use crate::resource::person::{self, OrgRole};
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct Person {
    pub id: UserId,
    pub org: OrgId,
    pub email: Arc<str>,
    /// What a directory calls them; the address where none does.
    pub user_name: Arc<str>,
    /// The directory's own id.
    pub external_id: Option<Arc<str>>,
    pub signs_in_as: Option<Arc<str>>,
    /// Who is not may do nothing, and nothing is done in their name.
    pub active: bool,
    pub first_name: Arc<str>,
    pub last_name: Arc<str>,
    pub role: OrgRole,
}

impl SnapshotEntry for Person {
    const KIND: Kind = Kind::User;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let id = UserId(row.id);
        let was_barred = draft.next.people.get(&id).is_some_and(|person| !person.active);
        keep(&mut draft.next.people, id, row, || read(row))?;
        let barred = draft.next.people.get(&id).filter(|person| !person.active).cloned();
        if (was_barred || barred.is_some())
            && let Some(org) = draft.org_of(row)?
        {
            org.put_barred(id, barred.as_deref());
        }
        Ok(())
    }
}

fn read(row: &Stored) -> Result<Person, String> {
    let u: person::User = doc(row)?;
    Ok(Person {
        id: UserId(row.id),
        org: OrgId(row.org),
        user_name: u.user_name().into(),
        external_id: u.directory.as_ref().and_then(|d| d.external_id.as_deref()).map(Into::into),
        signs_in_as: u.signs_in_as.as_deref().map(Into::into),
        active: row.status != person::User::INACTIVE,
        email: u.email.into(),
        first_name: u.first_name.into(),
        last_name: u.last_name.into(),
        role: u.role,
    })
}
