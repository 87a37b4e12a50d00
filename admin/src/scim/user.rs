//! Users as the protocol shows them. Who was invited is one as well; what a directory says beyond name and address is
//! kept and shown, and nothing goes by it. Somebody who is not active keeps seats and keys, and none of them opens
//! anything.

mod activity;
mod profile;

use super::etag::check_match;
use super::filter::ScimFilter;
use super::group;
use super::handlers::{NextProfile, ScimWritten, WrittenRow, change, create, replace, show};
use super::lookup::{meta, one};
use super::page::{self, ScimListed, list};
use super::refusal::taken;
use super::schema::{ResourceType, USERS, patch_body, user_body};
use super::selection::{self, AttributeSelection};
use crate::app::DirectoryBounds;
use crate::change::{Action, WriteView, audit, commit};
use crate::problem::{Problem, bad, missing};
use crate::resource::user::end;
use crate::resource::{Resource, ResourceRow};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use activity::KeysOfUser;
use gateway_domain::id::UserId;
use gateway_domain::ports::{Batch, Fut};
use gateway_domain::resource::person::User;
use gateway_domain::scope::Scope;
use gateway_domain::secret::MASK;
use http::{Method, StatusCode};
use profile::Profile;
use serde_json::{Map, Value};
use uuid::Uuid;

pub(super) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("scim.list")];
    const CREATE: &[Scope] = &[Scope::named("scim.create")];
    const READ: &[Scope] = &[Scope::named("scim.read")];
    const UPDATE: &[Scope] = &[Scope::named("scim.update")];
    const DELETE: &[Scope] = &[Scope::named("scim.delete")];
    const ALL: &str = "/scim/Users";
    const ONE: &str = "/scim/Users/{id}";
    vec![
        authed(Method::GET, ALL, LIST, "List users by SCIM", list::<User>).asks(page::PARAMETERS),
        authed(Method::POST, ALL, CREATE, "Make a user by SCIM", create::<User>)
            .reads(user_body)
            .asks(selection::PARAMETERS),
        authed(Method::GET, ONE, READ, "Show a user by SCIM", show::<User>).asks(selection::PARAMETERS),
        authed(Method::PUT, ONE, UPDATE, "Replace a user by SCIM", replace::<User>)
            .reads(user_body)
            .asks(selection::PARAMETERS),
        authed(Method::PATCH, ONE, UPDATE, "Change a user by SCIM", change::<User>)
            .reads(patch_body)
            .asks(selection::PARAMETERS),
        authed(Method::DELETE, ONE, DELETE, "Delete a user with their seats and keys by SCIM", remove),
    ]
}

impl ScimListed for User {
    const TYPE: &'static ResourceType = &USERS;

    fn render(row: &ResourceRow<Self>, call: &AdminCall, selection: &AttributeSelection) -> Map<String, Value> {
        let mut out = profile::shown(row);
        if selection.shows("groups") {
            let groups = group::shown_of(call, UserId(row.id));
            if !groups.is_empty() {
                out.insert("groups".to_owned(), Value::Array(groups));
            }
        }
        out.insert("meta".to_owned(), meta(row, &USERS, call));
        out
    }

    fn candidates(filter: &ScimFilter, call: &AdminCall) -> Option<Vec<Uuid>> {
        let equals = filter.equals();
        equals.iter().find_map(|one| match (one.attribute, one.part) {
            ("id", None) => Some(one.text.parse().into_iter().collect()),
            ("userName", None) => Some(people(call, |p| p.user_name.to_lowercase() == one.text.to_lowercase())),
            ("externalId", None) => Some(people(call, |p| p.external_id.as_deref() == Some(one.text))),
            ("groups", None | Some("value")) => Some(members(call, one.text)),
            _ => None,
        })
    }
}

fn people(call: &AdminCall, fits: impl Fn(&gateway_domain::snapshot::Person) -> bool) -> Vec<Uuid> {
    let snapshot = call.snapshot();
    let ours = snapshot.people().filter(|person| person.org == call.actor.org);
    ours.filter(|person| fits(person)).map(|person| person.id.0).collect()
}

fn members(call: &AdminCall, group: &str) -> Vec<Uuid> {
    let snapshot = call.snapshot();
    let org = snapshot.org(call.actor.org).filter(|_| group.len() == 36);
    let group = org.and_then(|org| org.directory().group(group.parse().ok()?));
    group.map(|group| group.members.iter().map(|id| id.0).collect()).unwrap_or_default()
}

/// A body as the audit trail keeps it.
fn mask_body(body: &Map<String, Value>) -> Map<String, Value> {
    let secret = |name: &str| name.to_ascii_lowercase().ends_with("password");
    let mut told = body.clone();
    for (name, value) in &mut told {
        if secret(name) {
            *value = MASK.into();
        }
        let operations = if name.eq_ignore_ascii_case("Operations") { value.as_array_mut() } else { None };
        for operation in operations.into_iter().flatten().filter_map(Value::as_object_mut) {
            let is_secret = operation.iter().any(|(_, text)| text.as_str().is_some_and(secret));
            for (name, value) in operation.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("value")) {
                let _ = name;
                if is_secret {
                    *value = MASK.into();
                } else if let Some(fields) = value.as_object_mut() {
                    fields.iter_mut().filter(|(name, _)| secret(name)).for_each(|(_, value)| *value = MASK.into());
                }
            }
        }
    }
    told
}

/// Names and addresses are those of one person only.
fn check_unique(row: &ResourceRow<User>, around: &WriteView<'_>) -> Result<(), Problem> {
    let ours = || around.snapshot.people().filter(|p| p.org == row.org && p.id.0 != row.id);
    let name = row.doc.user_name().to_lowercase();
    if ours().any(|p| p.user_name.to_lowercase() == name) {
        return Err(taken("userName"));
    }
    if ours().any(|p| *p.email == *row.doc.email) {
        return Err(taken("the e-mail address"));
    }
    Ok(())
}

impl ScimWritten for User {
    type Profile = Profile;
    const IS_LONG: bool = false;

    fn mask_body(body: &Map<String, Value>) -> Map<String, Value> {
        mask_body(body)
    }

    fn profile(fields: Map<String, Value>, _: DirectoryBounds) -> Result<Profile, Problem> {
        Profile::read(fields)
    }

    fn written(row: &ResourceRow<Self>) -> Map<String, Value> {
        profile::written(row)
    }

    fn made(profile: Profile, call: &AdminCall) -> ResourceRow<Self> {
        let mut row = profile.made(call);
        row.owner = Some(call.actor.key.0);
        row
    }

    fn admit(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let most = around.app.quotas.directory.users;
        if around.snapshot.people().filter(|p| p.org == row.org).count() >= most {
            return Err(bad("the organisation", format_args!("has {most} users, which is the most")));
        }
        check_unique(row, around)
    }

    fn change<'c>(
        call: &'c AdminCall,
        told: &'c Map<String, Value>,
        next: &'c NextProfile<'c, Self>,
    ) -> Fut<'c, Result<WrittenRow<Self>, Problem>> {
        Box::pin(write(call, told, next))
    }
}

async fn write(
    call: &AdminCall,
    told: &Map<String, Value>,
    next: &NextProfile<'_, User>,
) -> Result<WrittenRow<User>, Problem> {
    let seen = call.snapshot().revision;
    let row = one::<User>(call).await?;
    let keys = KeysOfUser::read(call, UserId(row.id)).await?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        check_match(call, row.version)?;
        User::allow(&row, &call.actor, Action::Update)?;
        let was_active = row.status != User::INACTIVE;
        let profile = next(&row)?;
        let is_active = profile.active.unwrap_or(was_active);
        profile.onto(&mut row);
        check_unique(&row, around)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audits = vec![audit(call, Action::Update, &stored, told)];
        let mut batch = Batch { rows: vec![stored], audit: audits, ..Batch::default() };
        if was_active != is_active {
            keys.follow(call, around, is_active, &mut batch)?;
        }
        done = Some(row);
        Ok(batch)
    };
    let revision = commit(&call.app, seen, decide).await?;
    done.map(|row| WrittenRow { row, revision }).ok_or_else(|| missing(User::NOUN))
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    one::<User>(&call).await?;
    let revision = end(&call, |row| check_match(&call, row.version)).await?;
    Ok(AdminReply::nothing(StatusCode::NO_CONTENT).at(revision))
}
