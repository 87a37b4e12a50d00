//! The organisations of an installation. The one of the first start makes others over the API, names their owners,
//! gives them Admin keys, and takes them out once nothing is in them; it does not act inside them. None of the others
//! knows of any but itself, and what each does within itself stands beside the resources.

mod access;
mod creation;
mod owners;
mod removal;

use crate::change::{Action, WriteView};
use crate::input::Edit;
use crate::problem::{Problem, bad, internal, missing};
use crate::resource::{Resource as _, ResourceRow};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use access::{audit_for_both, guest_key, require_first, row};
use gateway_domain::id::OrgId;
use gateway_domain::keys::mint;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::person::OrgRole;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Org, Snapshot};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Organisations on one page: each is read by itself, since the store lists rows of one organisation only.
const MOST_SHOWN: u64 = 200;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/admin/organisations";
    const ONE: &str = "/admin/organisations/{id}";
    const LIST: &[Scope] = &[Scope::named("organisations.list")];
    const CREATE: &[Scope] = &[Scope::named("organisations.create")];
    const READ: &[Scope] = &[Scope::named("organisations.read")];
    const UPDATE: &[Scope] = &[Scope::named("organisations.update")];
    const DELETE: &[Scope] = &[Scope::named("organisations.delete")];
    const KEYS: &str = "/admin/organisations/{id}/admin-keys";
    vec![
        authed(Method::GET, ALL, LIST, "List the organisations of this installation", list).asks(&[
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Make an organisation; its Admin key is in this answer only", creation::make)
            .takes::<creation::NewOrganisation>(),
        authed(Method::GET, ONE, READ, "Show an organisation by slug or id", show),
        authed(Method::PUT, ONE, UPDATE, "Rename an organisation, or say who owns it", change)
            .takes::<OrganisationPatch>(),
        authed(Method::DELETE, ONE, DELETE, "Delete an organisation in which nothing is left", removal::delete),
        authed(
            Method::POST,
            KEYS,
            UPDATE,
            "Make another Admin key of an organisation; it is in this answer only",
            give,
        )
        .takes::<NewAdminKey>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrganisationPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    owners: Edit<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAdminKey {
    name: String,
}

fn view(row: &ResourceRow<Organisation>, owners: &BTreeSet<String>) -> Value {
    json!({
        "object": "organisation",
        "id": row.id,
        "slug": row.slug,
        "name": row.name,
        "status": row.status,
        "default_workspace_id": row.doc.default_workspace,
        "is_first": row.doc.made_by.is_none(),
        "owners": owners,
        "created_at": row.created_at,
        "last_updated_at": row.updated_at,
    })
}

/// The addresses of owners by organisation.
fn owners_of(snapshot: &Snapshot, orgs: &[OrgId]) -> BTreeMap<OrgId, BTreeSet<String>> {
    let mut owners: BTreeMap<OrgId, BTreeSet<String>> = BTreeMap::new();
    for person in snapshot.people().filter(|p| p.role == OrgRole::Owner && orgs.contains(&p.org)) {
        owners.entry(person.org).or_default().insert(person.email.to_string());
    }
    owners
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    require_first(&call)?;
    let paging = call.query.paging_by("current_page", "page_size", MOST_SHOWN)?;
    let search = call.query.text("search").map(str::to_lowercase);
    let fits = |org: &&Arc<Org>| {
        search.as_ref().is_none_or(|text| [&org.name, &org.slug].iter().any(|n| n.to_lowercase().contains(&**text)))
    };
    let snapshot = call.snapshot();
    let mut all: Vec<OrgId> = snapshot.orgs().filter(fits).map(|org| org.id).collect();
    all.sort_unstable();
    let page = paging.cut(&all);
    let mut owners = owners_of(&snapshot, page);
    let mut data = Vec::with_capacity(page.len());
    for org in page {
        // One that was deleted meanwhile is left out.
        let Some(found) = call.app.directory.get(Kind::Organisation, *org, None, &org.to_string()).await? else {
            continue;
        };
        data.push(view(&ResourceRow::read(&found)?, &owners.remove(org).unwrap_or_default()));
    }
    Ok(AdminReply::json(json!({"object": "list", "total": all.len(), "data": data})))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = row(&call).await?;
    let owners = owners_of(&call.snapshot(), &[row.org]).remove(&row.org).unwrap_or_default();
    Ok(AdminReply::json(view(&row, &owners)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = row(&call).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let input: OrganisationPatch = body.read()?;
    let name = input.name.required("name")?;
    if let Some(name) = &name {
        check_name("name", name)?;
    }
    let owners = match input.owners {
        Edit::Keep => None,
        Edit::Clear => Some(owners::OwnersEdit::read(&call, row.org, Vec::new()).await?),
        Edit::Set(wanted) => Some(owners::OwnersEdit::read(&call, row.org, wanted).await?),
    };
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        if let Some(name) = name {
            row.name = name;
        }
        row.touch(call.now);
        let mut changes = vec![(Action::Update, row.stored()?)];
        if let Some(owners) = owners {
            changes.extend(owners.changes(&call, around)?);
        }
        let batch = audit_for_both(&call, changes, &told);
        let after = around.plus(&batch.rows)?;
        let owners = owners_of(&after.snapshot, &[row.org]).remove(&row.org).unwrap_or_default();
        let view = view(&row, &owners);
        call.promise(|| view.clone());
        done = Some(view);
        Ok(batch)
    };
    let revision = call.commit(seen, decide).await?;
    let view = done.ok_or_else(|| missing(Organisation::NOUN))?;
    Ok(AdminReply::json(view).at(revision))
}

async fn give(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = row(&call).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let input: NewAdminKey = body.read()?;
    check_name("name", &input.name)?;
    if call.snapshot().is_first(row.org) {
        return Err(bad("id", "names the organisation that asks: it makes its keys at /api-keys"));
    }
    let text = mint(KeyKind::OrganisationService.tag(), &call.app.bytes());
    let key = guest_key(&call, row.org, &input.name, &text);
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        around.newest(row)?;
        let body = json!({"object": "api-key", "id": key.id, "key": text});
        call.promise(|| body.clone());
        done = Some(body);
        Ok(audit_for_both(&call, vec![(Action::Create, key.stored()?)], &told))
    };
    let revision = call.commit(seen, decide).await?;
    let body = done.ok_or_else(|| internal("no key was made"))?;
    Ok(AdminReply::json(body).at(revision))
}
