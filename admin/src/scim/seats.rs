//! Seats that groups give: an admin says which role members of a group have in a workspace, and the seats follow in the
//! same write in which a group or a mapping changes. A seat that somebody gave by hand stays as it is. Who loses the
//! seat of a group loses the keys there, as with every seat.

use crate::change::{Action, WriteView, audit};
use crate::problem::{Problem, bad, busy};
use crate::resource::member::member_of;
use crate::resource::{ResourceRow, everything, tombstone};
use crate::route::AdminCall;
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::person::{Member, OrgRole, WorkspaceRole};
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::snapshot::Snapshot;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Seats that one write may change.
const MOST: usize = 20_000;
/// Above so many people all seats of a workspace are read at once, and not those of each.
const FEW: usize = 50;

/// The people whose seats follow their groups, and the workspaces where these seats are.
#[derive(Clone, Debug, Default)]
pub(super) struct SeatScope {
    pub(super) users: BTreeSet<UserId>,
    pub(super) workspaces: BTreeSet<WorkspaceId>,
}

/// What was stored of them before the write.
#[derive(Debug)]
pub(super) struct SeatsRead {
    scope: SeatScope,
    seats: Vec<Stored>,
    keys: Vec<Stored>,
}

/// The workspaces that mappings give seats of a group in.
pub(super) fn workspaces_of(snapshot: &Snapshot, call: &AdminCall, group: Uuid) -> BTreeSet<WorkspaceId> {
    let Some(org) = snapshot.org(call.actor.org) else { return BTreeSet::new() };
    org.directory().mappings().filter(|m| m.group == group).map(|m| m.workspace).collect()
}

impl SeatsRead {
    pub(super) async fn of(call: &AdminCall, scope: SeatScope) -> Result<Self, Problem> {
        if scope.users.len().saturating_mul(scope.workspaces.len()) > MOST {
            return Err(bad("the group", format_args!("would change more than {MOST} seats at once")));
        }
        let mut seats = Vec::new();
        if scope.workspaces.is_empty() || scope.users.is_empty() {
            return Ok(Self { scope, seats, keys: Vec::new() });
        }
        if scope.users.len() <= FEW {
            for user in &scope.users {
                let query = ResourceQuery { name: Some(user.to_string()), ..everything::<Member>(call, None) };
                seats.extend(call.app.directory.list(&query).await?.rows);
            }
        } else {
            for workspace in &scope.workspaces {
                seats.extend(all_seats(call, *workspace).await?);
            }
        }
        let keys = keys_in(call, &scope).await?;
        Ok(Self { scope, seats, keys })
    }

    /// Puts the seats of `scope` into `batch` as they are once its rows are in force.
    pub(super) fn follow(
        self,
        call: &AdminCall,
        around: &WriteView<'_>,
        scope: &SeatScope,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        if !scope.users.is_subset(&self.scope.users) || !scope.workspaces.is_subset(&self.scope.workspaces) {
            return Err(busy("the group was changed at the same time, try again"));
        }
        if scope.users.is_empty() || scope.workspaces.is_empty() {
            return Ok(());
        }
        let after = around.plus(&batch.rows)?;
        let kind = |wanted: Kind| move |row: &Stored| row.kind == wanted.name();
        let mut held: BTreeMap<(WorkspaceId, UserId), ResourceRow<Member>> = BTreeMap::new();
        for stored in around.now(self.seats, kind(Kind::Member)) {
            let row: ResourceRow<Member> = ResourceRow::read(&stored)?;
            if let Some(workspace) = row.workspace {
                held.insert((workspace, row.doc.user_id), row);
            }
        }
        let keys = around.now(self.keys, kind(Kind::ApiKey));
        for workspace in &scope.workspaces {
            for user in &scope.users {
                let wanted = wanted(&after, call, *workspace, *user);
                match (held.remove(&(*workspace, *user)), wanted) {
                    (None, Some(role)) => {
                        let mut row = member_of(call, &after, *workspace, *user, role)?;
                        row.doc.by_group = true;
                        note(batch, call, Action::Create, row.stored()?);
                    }
                    (Some(mut row), Some(role)) if row.doc.by_group && row.doc.role != role => {
                        row.doc.role = role;
                        row.touch(call.now);
                        note(batch, call, Action::Update, row.stored()?);
                    }
                    (Some(row), None) if row.doc.by_group => {
                        note(batch, call, Action::Delete, row.tombstone(call.now)?);
                        // Who runs the organisation belongs everywhere, also without a seat.
                        if after.snapshot.person(*user).is_none_or(|person| person.role == OrgRole::Member) {
                            end_keys(batch, call, &keys, (*workspace, *user))?;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// What groups give somebody in a workspace that is in use.
fn wanted(after: &WriteView<'_>, call: &AdminCall, workspace: WorkspaceId, user: UserId) -> Option<WorkspaceRole> {
    let snapshot = &after.snapshot;
    let is_used = snapshot.workspace(workspace).is_some_and(|w| w.active && w.org == call.actor.org);
    let is_here = snapshot.person(user).is_some_and(|person| person.org == call.actor.org);
    let org = snapshot.org(call.actor.org).filter(|_| is_used && is_here)?;
    org.directory().seat(user, workspace)
}

fn note(batch: &mut Batch, call: &AdminCall, action: Action, row: Stored) {
    batch.audit.push(audit(call, action, &row, &Map::new()));
    batch.rows.push(row);
}

fn end_keys(
    batch: &mut Batch,
    call: &AdminCall,
    keys: &[Stored],
    (workspace, user): (WorkspaceId, UserId),
) -> Result<(), Problem> {
    for key in keys.iter().filter(|key| key.workspace == Some(workspace.0)) {
        if ResourceRow::<ApiKey>::read(key)?.doc.user_id == Some(user.0) {
            note(batch, call, Action::Delete, tombstone(key.clone(), call.now)?);
        }
    }
    Ok(())
}

async fn all_seats(call: &AdminCall, workspace: WorkspaceId) -> Result<Vec<Stored>, Problem> {
    let mut query = everything::<Member>(call, Some(Some(workspace)));
    let mut rows = Vec::new();
    loop {
        let page = call.app.directory.list(&query).await?.rows;
        let more = page.len() as u64 == query.page_size;
        rows.extend(page);
        if !more {
            return Ok(rows);
        }
        query.page += 1;
    }
}

/// Keys of these people in these workspaces, by one look through the keys in memory.
async fn keys_in(call: &AdminCall, scope: &SeatScope) -> Result<Vec<Stored>, Problem> {
    const CHUNK: usize = 1000;
    let snapshot = call.snapshot();
    let theirs = snapshot.keys().filter(|key| {
        let here = key.workspace.is_some_and(|w| scope.workspaces.contains(&w));
        here && key.owner.is_some_and(|user| scope.users.contains(&UserId(user)))
    });
    let ids: Vec<Uuid> = theirs.map(|key| key.id.0).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let query = ResourceQuery { ids: ids.to_vec(), ..everything::<ApiKey>(call, None) };
        rows.extend(call.app.directory.list(&query).await?.rows);
    }
    Ok(rows)
}
