//! What a sign-in writes of the person who comes in: the user, where there is none or the role changed; the seats that
//! the claims give or give no more; and the end of keys that have no place any more. Seats that somebody gave by hand,
//! or a group of a directory, stay as they are.

use super::ticket::SignInTicket;
use super::user_lookup::{SignedPerson, no_place, signed};
use crate::change::{Action, ChangeOrigin, WriteView};
use crate::problem::Problem;
use crate::resource::user::UserKeys;
use crate::resource::{ResourceRow, tombstone};
use crate::route::Visit;
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::ports::Batch;
use gateway_domain::resource::person::{Member, OrgRole, User, WorkspaceRole};
use gateway_domain::resource::sign_on::SignOn;
use gateway_domain::resource::{Kind, Stored};
use serde_json::Map;
use std::collections::BTreeMap;

/// What is stored of somebody known, as it was before.
#[derive(Default)]
pub(super) struct Belongings {
    pub(super) user: Option<ResourceRow<User>>,
    pub(super) seats: Vec<Stored>,
    pub(super) keys: Vec<Stored>,
}

pub(super) struct Entrance<'a> {
    pub(super) visit: &'a Visit,
    pub(super) settings: &'a SignOn,
    pub(super) ticket: &'a SignInTicket,
    pub(super) claimed: &'a SignedPerson,
    pub(super) batch: &'a mut Batch,
}

impl Entrance<'_> {
    /// Who it is now; what became of it stands in the batch.
    pub(super) fn enter(&mut self, held: Belongings, around: &WriteView<'_>) -> Result<UserId, Problem> {
        let Belongings { user, seats, keys } = held;
        let before = user.as_ref().map(|row| row.doc.role);
        let user = match user {
            Some(row) => self.known(around.newest(row)?)?,
            None if self.settings.makes_users => self.fresh()?,
            None => return Err(no_place("you are no user of this organisation")),
        };
        let after = around.plus(&self.batch.rows)?;
        let mut is_less = self.seats(user, around.now(seats, |row| is_seat_of(row, user)), &after)?;
        if before.is_none() {
            self.usual_seat(user, &after)?;
        }
        let after = around.plus(&self.batch.rows)?;
        let role = after.snapshot.person(user).map_or(OrgRole::Member, |person| person.role);
        is_less |= before.is_some_and(|before| before != role);
        // Who runs the organisation belongs everywhere, also without a seat.
        if is_less && role == OrgRole::Member {
            let seated = |w| after.snapshot.workspace(w).is_some_and(|w| w.members().contains_key(&user));
            for key in (UserKeys { user, kept: seated }).to_end(around, keys) {
                self.note(Action::Delete, user, tombstone(key, self.visit.now)?);
            }
        }
        Ok(user)
    }

    fn note(&mut self, action: Action, user: UserId, row: Stored) {
        self.batch.audit.push(ChangeOrigin::of_visit(self.visit, user).audit(action, &row, &Map::new()));
        self.batch.rows.push(row);
    }

    fn known(&mut self, mut row: ResourceRow<User>) -> Result<UserId, Problem> {
        if row.status == User::INACTIVE {
            return Err(no_place("you are not active here"));
        }
        let user = UserId(row.id);
        let before = (row.doc.signs_in_as.clone(), row.doc.role);
        row.doc.signs_in_as = Some(signed(&self.ticket.issuer, &self.claimed.subject));
        // The owner is not a provider's to change.
        if let Some(role) = self.claimed.role.filter(|_| row.doc.role != OrgRole::Owner) {
            row.doc.role = role;
        }
        if before != (row.doc.signs_in_as.clone(), row.doc.role) {
            row.touch(self.visit.now);
            self.note(Action::Update, user, row.stored()?);
        }
        Ok(user)
    }

    fn fresh(&mut self) -> Result<UserId, Problem> {
        let claimed = self.claimed;
        let address = claimed.email.clone().ok_or_else(|| no_place("the provider vouches for no address of yours"))?;
        let doc = User {
            email: address.clone(),
            first_name: claimed.first_name.clone(),
            last_name: claimed.last_name.clone(),
            role: claimed.role.unwrap_or(OrgRole::Member),
            directory: None,
            signs_in_as: Some(signed(&self.ticket.issuer, &claimed.subject)),
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&self.visit.app, self.ticket.org, None, None, doc);
        row.slug = address;
        row.name = format!("{} {}", claimed.first_name, claimed.last_name).trim().to_owned();
        let user = UserId(row.id);
        row.owner = Some(row.id);
        self.note(Action::Create, user, row.stored()?);
        Ok(user)
    }

    /// What the claims give, in workspaces that are in use. Says whether a seat was lost.
    fn seats(&mut self, user: UserId, held: Vec<Stored>, after: &WriteView<'_>) -> Result<bool, Problem> {
        let org = self.ticket.org;
        let mut rows: BTreeMap<WorkspaceId, ResourceRow<Member>> = BTreeMap::new();
        for stored in held {
            let row: ResourceRow<Member> = ResourceRow::read(&stored)?;
            rows.extend(row.workspace.map(|workspace| (workspace, row)));
        }
        for (workspace, role) in &self.claimed.seats {
            if !after.snapshot.workspace(*workspace).is_some_and(|w| w.active && w.org == org) {
                continue;
            }
            match rows.remove(workspace) {
                None => self.seat(user, *workspace, *role)?,
                Some(mut row) if row.doc.by_sign_on && row.doc.role != *role => {
                    row.doc.role = *role;
                    row.touch(self.visit.now);
                    self.note(Action::Update, user, row.stored()?);
                }
                Some(_) => {}
            }
        }
        let mut is_less = false;
        for (workspace, mut row) in rows.into_iter().filter(|(_, row)| row.doc.by_sign_on) {
            let by_group = after.snapshot.org(org).and_then(|org| org.directory().seat(user, workspace));
            if let Some(role) = by_group {
                (row.doc.by_sign_on, row.doc.by_group, row.doc.role) = (false, true, role);
                row.touch(self.visit.now);
                self.note(Action::Update, user, row.stored()?);
            } else {
                is_less = true;
                self.note(Action::Delete, user, row.tombstone(self.visit.now)?);
            }
        }
        Ok(is_less)
    }

    /// Gives somebody new a seat in the default workspace; a seat that the claims give there goes before it.
    fn usual_seat(&mut self, user: UserId, after: &WriteView<'_>) -> Result<(), Problem> {
        let default = after.snapshot.org(self.ticket.org).map(|org| org.default_workspace);
        let free = default.filter(|workspace| !self.claimed.seats.contains_key(workspace));
        let (Some(role), Some(workspace)) = (self.settings.new_user_role, free) else { return Ok(()) };
        self.put_seat(
            user,
            workspace,
            Member { user_id: user, role, by_group: false, by_sign_on: false, rest: Map::new() },
        )
    }

    fn seat(&mut self, user: UserId, workspace: WorkspaceId, role: WorkspaceRole) -> Result<(), Problem> {
        self.put_seat(
            user,
            workspace,
            Member { user_id: user, role, by_group: false, by_sign_on: true, rest: Map::new() },
        )
    }

    fn put_seat(&mut self, user: UserId, workspace: WorkspaceId, doc: Member) -> Result<(), Problem> {
        let mut row = ResourceRow::fresh(&self.visit.app, self.ticket.org, Some(workspace), Some(user.0), doc);
        row.slug = user.to_string();
        row.name.clone_from(&row.slug);
        self.note(Action::Create, user, row.stored()?);
        Ok(())
    }
}

fn is_seat_of(row: &Stored, user: UserId) -> bool {
    row.kind == Kind::Member.name() && row.name == user.to_string()
}
