//! A user, as far as it bounds keys.

use super::{Build, Draft, Entry, doc, keep};
use crate::id::{OrgId, UserId};
use crate::resource::person::{self, OrgRole};
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct Person {
    pub id: UserId,
    pub org: OrgId,
    pub email: Arc<str>,
    pub first_name: Arc<str>,
    pub last_name: Arc<str>,
    pub role: OrgRole,
}

impl Entry for Person {
    const KIND: Kind = Kind::User;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        keep(&mut draft.next.people, UserId(row.id), row, || read(row))
    }
}

fn read(row: &Stored) -> Result<Person, String> {
    let u: person::User = doc(row)?;
    Ok(Person {
        id: UserId(row.id),
        org: OrgId(row.org),
        email: u.email.into(),
        first_name: u.first_name.into(),
        last_name: u.last_name.into(),
        role: u.role,
    })
}
