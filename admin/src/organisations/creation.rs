//! A new organisation: itself, its default workspace, its owners, and the one Admin key by which it is run from then
//! on.

use super::access::{audit_for_both, guest_key, require_first};
use super::owners::OwnersEdit;

use crate::change::{Action, WriteView};
use crate::organisation_seed::Founded;
use crate::problem::{Problem, bad, conflict, internal};
use crate::resource::Slug;
use crate::resource::provider::slug_of;
use crate::route::{AdminCall, AdminReply};
use gateway_domain::keys::mint;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::resource::check_name;
use serde::Deserialize;
use serde_json::json;

/// Each is kept in the memory of every node.
const MOST: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOrganisation {
    name: String,
    slug: Option<String>,
    owners: Option<Vec<String>>,
}

/// One that nobody has: the given one or none, or one like it.
fn free_slug(wanted: &Slug, around: &WriteView<'_>, tail: impl FnOnce() -> String) -> Result<String, Problem> {
    let is_taken = |slug: &String| around.snapshot.orgs().any(|org| *org.slug == **slug);
    match wanted {
        Slug::Given(slug) if is_taken(slug) => {
            Err(conflict(format!("an organisation with the slug `{slug}` already exists")))
        }
        Slug::Derived(slug) if is_taken(slug) || uuid::Uuid::parse_str(slug).is_ok() => {
            Ok(format!("{slug}-{}", tail()))
        }
        Slug::Given(slug) | Slug::Derived(slug) => Ok(slug.clone()),
        Slug::None => Err(internal("an organisation needs a slug")),
    }
}

pub(super) async fn make(call: AdminCall) -> Result<AdminReply, Problem> {
    require_first(&call)?;
    let seen = call.snapshot().revision;
    let body = call.body()?;
    let told = body.0.clone();
    let input: NewOrganisation = body.read()?;
    check_name("name", &input.name)?;
    let slug = Slug::given("slug", input.slug)?.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "organisation")));
    let mut founded = Founded::new(&call.app, Some(call.actor.org));
    founded.organisation.name = input.name;
    founded.organisation.owner = Some(call.actor.key.0);
    let owners = OwnersEdit::of_new(founded.org(), input.owners.unwrap_or_default())?;
    let text = mint(KeyKind::OrganisationService.tag(), &call.app.bytes());
    let key = guest_key(&call, founded.org(), "First admin key", &text);
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        if around.snapshot.orgs().count() >= MOST {
            return Err(bad("the installation", format_args!("has {MOST} organisations, which is the most")));
        }
        founded.organisation.slug = free_slug(&slug, around, || call.app.tail::<6>())?;
        let mut changes = vec![
            (Action::Create, founded.organisation.stored()?),
            (Action::Create, founded.workspace.stored()?),
            (Action::Create, key.stored()?),
        ];
        changes.extend(owners.changes(&call, around)?);
        let body = json!({
            "object": "organisation",
            "id": founded.organisation.id,
            "slug": founded.organisation.slug,
            "default_workspace_id": founded.home(),
            "admin_key": {"id": key.id, "key": text},
        });
        call.promise(|| body.clone());
        done = Some(body);
        Ok(audit_for_both(&call, changes, &told))
    };
    let revision = call.commit(seen, decide).await?;
    let body = done.ok_or_else(|| internal("no organisation was made"))?;
    Ok(AdminReply::json(body).at(revision))
}
