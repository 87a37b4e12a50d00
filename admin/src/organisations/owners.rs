//! Who owns an organisation: users of it with the role that nothing else gives or takes. Named by their addresses, all
//! at once: whom the list leaves out is an admin from then on, and whom nobody knows yet becomes a user, who comes in
//! by sign-on or by a key that an Admin key makes.

use crate::change::{Action, WriteView};
use crate::problem::{Problem, bad, busy};
use crate::resource::ResourceRow;
use crate::route::AdminCall;
use gateway_domain::id::OrgId;
use gateway_domain::ports::ResourceQuery;
use gateway_domain::resource::person::{OrgRole, User, email};
use gateway_domain::resource::{Kind, Stored};
use serde_json::Map;
use std::collections::BTreeSet;

const MOST_OWNERS: usize = 20;

pub(super) struct OwnersEdit {
    org: OrgId,
    wanted: BTreeSet<String>,
    /// The people who are wanted or were owners, in the state in which they were stored.
    read: Vec<Stored>,
}

impl OwnersEdit {
    /// The owners of a new organisation, which has no people yet; `given` are their addresses.
    pub(super) fn of_new(org: OrgId, given: Vec<String>) -> Result<Self, Problem> {
        if given.len() > MOST_OWNERS {
            return Err(bad("owners", format_args!("must hold at most {MOST_OWNERS} addresses")));
        }
        let read = |(i, text): (usize, String)| email(&format!("owners[{i}]"), &text).map_err(Problem::from);
        let wanted = given.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self { org, wanted, read: Vec::new() })
    }

    pub(super) async fn read(call: &AdminCall, org: OrgId, given: Vec<String>) -> Result<Self, Problem> {
        let mut edit = Self::of_new(org, given)?;
        let snapshot = call.snapshot();
        let ids = snapshot.people().filter(|p| p.org == org).filter(|p| edit.concerns(&p.email, p.role));
        let query =
            ResourceQuery { ids: ids.map(|person| person.id.0).collect(), ..ResourceQuery::all(Kind::User, org) };
        if !query.ids.is_empty() {
            edit.read = call.app.directory.list(&query).await?.rows;
        }
        Ok(edit)
    }

    fn concerns(&self, address: &str, role: OrgRole) -> bool {
        role == OrgRole::Owner || self.wanted.contains(address)
    }

    pub(super) fn changes(
        mut self,
        call: &AdminCall,
        around: &WriteView<'_>,
    ) -> Result<Vec<(Action, Stored)>, Problem> {
        let mut changes = Vec::new();
        let people = around.snapshot.people().filter(|p| p.org == self.org);
        let concerned: Vec<_> = people.filter(|p| self.concerns(&p.email, p.role)).cloned().collect();
        for person in concerned {
            let is_wanted = self.wanted.remove(&*person.email);
            let role = if is_wanted { OrgRole::Owner } else { OrgRole::Admin };
            if person.role == role {
                continue;
            }
            let read = self.read.iter().find(|row| row.id == person.id.0);
            let row = read.ok_or_else(|| busy("the users were changed at the same time, try again"))?;
            let mut row = around.newest(ResourceRow::<User>::read(row)?)?;
            row.doc.role = role;
            row.touch(call.now);
            changes.push((Action::Update, row.stored()?));
        }
        for address in self.wanted {
            let doc = User {
                email: address.clone(),
                first_name: String::new(),
                last_name: String::new(),
                role: OrgRole::Owner,
                directory: None,
                signs_in_as: None,
                rest: Map::new(),
            };
            let mut row = ResourceRow::fresh(&call.app, self.org, None, Some(call.actor.key.0), doc);
            row.slug.clone_from(&address);
            row.name = address;
            changes.push((Action::Create, row.stored()?));
        }
        Ok(changes)
    }
}
