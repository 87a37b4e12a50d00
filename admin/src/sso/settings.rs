//! The settings of sign-on: one set for each organisation, with the client's secret sealed.

use super::client_assertion::{AssertionKey, LONGEST_CERTIFICATE, LONGEST_KEY, thumbprint};
use super::issuer::check_address;
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag, WholeNumber};
use crate::problem::{Problem, bad, busy, missing};
use crate::resource::{NewRow, Resource, ResourceRow};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::person::{OrgRole, WorkspaceRole};
use gateway_domain::resource::sign_on::{ClaimedSeat, SignOn};
use gateway_domain::scope::Scope;
use gateway_domain::secret::{MASK, mask};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const PATH: &str = "/admin/organisation/sign-on";
const LONGEST: usize = 255;
const MOST_ROLES: usize = 100;
const MOST_SEATS: usize = 500;
const MOST_DOMAINS: usize = 50;

pub(super) fn routes() -> Vec<AdminRoute> {
    const READ: &[Scope] = &[Scope::named("organisation_settings.read")];
    const UPDATE: &[Scope] = &[Scope::named("organisation_settings.update")];
    vec![
        authed(Method::GET, PATH, READ, "Show how people sign in", show),
        authed(Method::PUT, PATH, UPDATE, "Say how people sign in", change).takes::<SignOnPatch>(),
        authed(Method::DELETE, PATH, UPDATE, "Let nobody sign in any more; sessions go on to their end", remove),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignOnPatch {
    #[serde(default)]
    issuer: Edit<String>,
    #[serde(default)]
    client_id: Edit<String>,
    #[serde(default)]
    client_secret: Edit<String>,
    #[serde(default)]
    client_private_key: Edit<String>,
    #[serde(default)]
    client_key_id: Edit<String>,
    #[serde(default)]
    client_certificate: Edit<String>,
    #[serde(default)]
    role_claim: Edit<String>,
    #[serde(default)]
    roles: Edit<BTreeMap<String, OrgRole>>,
    #[serde(default)]
    workspace_roles: Edit<Vec<GivenClaimSeat>>,
    #[serde(default)]
    makes_users: Edit<Flag>,
    #[serde(default)]
    new_user_role: Edit<WorkspaceRole>,
    #[serde(default)]
    email_domains: Edit<Vec<String>>,
    #[serde(default)]
    trusts_unverified_emails: Edit<Flag>,
    #[serde(default)]
    session_seconds: Edit<WholeNumber>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenClaimSeat {
    /// The value of the claim that gives the seat.
    value: String,
    workspace_id: String,
    role: WorkspaceRole,
}

fn fresh() -> SignOn {
    SignOn {
        issuer: String::new(),
        client_id: String::new(),
        client_secret: None,
        client_private_key: None,
        client_key_id: None,
        client_certificate: None,
        role_claim: None,
        roles: BTreeMap::new(),
        workspace_roles: Vec::new(),
        makes_users: false,
        new_user_role: None,
        email_domains: Vec::new(),
        trusts_unverified_emails: false,
        session_seconds: SignOn::USUAL_SESSION,
        rest: Map::new(),
    }
}

impl Resource for SignOn {
    const KIND: Kind = Kind::SignOn;
    const NOUN: &'static str = "sign-on";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = SignOnPatch;
    type Patch = SignOnPatch;

    fn create(_: SignOnPatch, _: Option<WorkspaceId>, _: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(row: &mut ResourceRow<Self>, input: SignOnPatch, call: &AdminCall) -> Result<(), Problem> {
        let doc = &mut row.doc;
        let before = (doc.issuer.clone(), doc.client_id.clone());
        if let Some(issuer) = input.issuer.required("issuer")? {
            let issuer = issuer.trim().to_owned();
            // It rides in a cookie on the way.
            short("issuer", &issuer)?;
            check_address(&issuer, &call.app.trusted).map_err(|why| bad("issuer", why))?;
            doc.issuer = issuer;
        }
        if let Some(client) = input.client_id.required("client_id")? {
            short("client_id", &client)?;
            doc.client_id = client;
        }
        let is_for = (&before.0, &before.1) == (&doc.issuer, &doc.client_id);
        secret(("client_secret", &mut doc.client_secret), input.client_secret, is_for, call)?;
        if let Edit::Set(id) = &input.client_key_id {
            short("client_key_id", id)?;
        }
        input.client_key_id.onto(&mut doc.client_key_id);
        if let Edit::Set(pem) = &input.client_certificate {
            let fits = thumbprint(pem).map(|_| ()).map_err(|rule| bad("client_certificate", rule));
            fits.and_then(|()| bounded("client_certificate", pem, LONGEST_CERTIFICATE))?;
        }
        input.client_certificate.onto(&mut doc.client_certificate);
        if let Edit::Set(pem) = &input.client_private_key
            && !pem.starts_with(MASK)
        {
            bounded("client_private_key", pem, LONGEST_KEY)?;
            let key = AssertionKey { pem, id: None, certificate: None };
            key.check().map_err(|rule| bad("client_private_key", rule))?;
        }
        secret(("client_private_key", &mut doc.client_private_key), input.client_private_key, is_for, call)?;
        if let Edit::Set(claim) = &input.role_claim {
            short("role_claim", claim)?;
        }
        input.role_claim.onto(&mut doc.role_claim);
        claims(doc, input.roles, input.workspace_roles, call)?;
        if let Some(flag) = input.makes_users.or_default() {
            doc.makes_users = flag.0;
        }
        input.new_user_role.onto(&mut doc.new_user_role);
        if let Some(domains) = input.email_domains.or_default() {
            let wrong =
                |domain: &String| domain.len() > LONGEST || !domain.contains('.') || domain.contains(['@', ' ', '/']);
            if domains.len() > MOST_DOMAINS || domains.iter().any(wrong) {
                return Err(bad("email_domains", format_args!("must hold at most {MOST_DOMAINS} domains")));
            }
            doc.email_domains = domains;
        }
        if let Some(flag) = input.trusts_unverified_emails.or_default() {
            doc.trusts_unverified_emails = flag.0;
        }
        match input.session_seconds {
            Edit::Keep => {}
            Edit::Clear => doc.session_seconds = SignOn::USUAL_SESSION,
            Edit::Set(given) => {
                let (least, most) = SignOn::SESSION_SECONDS.into_inner();
                let seconds = u32::try_from(given.0).ok().filter(|s| SignOn::SESSION_SECONDS.contains(s));
                let rule = format_args!("must be an integer of {least}..{most}");
                doc.session_seconds = seconds.ok_or_else(|| bad("session_seconds", rule))?;
            }
        }
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, _: &WriteView<'_>) -> Result<(), Problem> {
        let doc = &row.doc;
        for (field, text) in [("issuer", &doc.issuer), ("client_id", &doc.client_id)] {
            if text.is_empty() {
                return Err(bad(field, "is required"));
            }
        }
        let has_key = doc.client_private_key.is_some();
        if has_key && doc.client_secret.is_some() {
            return Err(bad("client_private_key", "must not stand beside client_secret: set one of them to null"));
        }
        for (field, given) in [("client_key_id", &doc.client_key_id), ("client_certificate", &doc.client_certificate)] {
            if given.is_some() && !has_key {
                return Err(bad(field, "is of no use without client_private_key"));
            }
        }
        if (doc.roles.is_empty() && doc.workspace_roles.is_empty()) != doc.role_claim.is_none() {
            return Err(bad("role_claim", "and roles or workspace_roles must be given together"));
        }
        if doc.new_user_role.is_some() && !doc.makes_users {
            return Err(bad("new_user_role", "is of no use where makes_users is false"));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let open = |sealed: &String| call.app.vault.open(sealed).ok().map(|secret| mask(secret.expose()));
        json!({
            "object": "sign-on",
            "issuer": row.doc.issuer,
            "client_id": row.doc.client_id,
            "client_secret": row.doc.client_secret.as_ref().and_then(open),
            "client_private_key": row.doc.client_private_key.as_ref().map(|_| MASK),
            "client_key_id": row.doc.client_key_id,
            "client_certificate": row.doc.client_certificate,
            "role_claim": row.doc.role_claim,
            "roles": row.doc.roles,
            "workspace_roles": row.doc.workspace_roles.iter().map(seat_view).collect::<Vec<_>>(),
            "makes_users": row.doc.makes_users,
            "new_user_role": row.doc.new_user_role,
            "email_domains": row.doc.email_domains,
            "trusts_unverified_emails": row.doc.trusts_unverified_emails,
            "session_seconds": row.doc.session_seconds,
            "created_at": row.created_at,
            "last_updated_at": row.updated_at,
        })
    }

    fn mask(body: &mut Map<String, Value>) {
        for field in ["client_secret", "client_private_key"] {
            if let Some(secret) = body.get_mut(field).filter(|secret| secret.is_string()) {
                *secret = MASK.into();
            }
        }
    }

    fn forget(&mut self) {
        self.client_secret = None;
        self.client_private_key = None;
    }
}

fn seat_view(seat: &ClaimedSeat) -> Value {
    json!({"value": seat.value, "workspace_id": seat.workspace, "role": seat.role})
}

/// `is_for`: what is stored is for the issuer and the client that are named now.
fn secret(
    (field, stored): (&str, &mut Option<String>),
    given: Edit<String>,
    is_for: bool,
    call: &AdminCall,
) -> Result<(), Problem> {
    match given {
        Edit::Clear => *stored = None,
        // A mask that is sent back stands for what is stored.
        Edit::Set(given) if !(given.starts_with(MASK) && stored.is_some()) => {
            if field == "client_secret" {
                short(field, &given)?;
            } else if given.starts_with(MASK) {
                return Err(bad(field, "is a masked value that stands for no stored one"));
            }
            *stored = Some(call.app.vault.seal(&given));
        }
        // Whoever may change the issuer may not thereby learn a secret that nobody is shown, nor sign with it.
        Edit::Keep | Edit::Set(_) if stored.is_some() && !is_for => {
            return Err(bad(field, "must be given anew with another issuer or client_id"));
        }
        Edit::Keep | Edit::Set(_) => {}
    }
    Ok(())
}

/// What claims make of somebody.
fn claims(
    doc: &mut SignOn,
    roles: Edit<BTreeMap<String, OrgRole>>,
    seats: Edit<Vec<GivenClaimSeat>>,
    call: &AdminCall,
) -> Result<(), Problem> {
    if let Some(roles) = roles.or_default() {
        if roles.len() > MOST_ROLES || roles.keys().any(|value| value.is_empty() || value.len() > LONGEST) {
            return Err(bad("roles", format_args!("must name at most {MOST_ROLES} values of 1..{LONGEST} bytes")));
        }
        if roles.values().any(|role| *role == OrgRole::Owner) {
            return Err(bad("roles", "must hold admin and member only"));
        }
        doc.roles = roles;
    }
    if let Some(seats) = seats.or_default() {
        if seats.len() > MOST_SEATS {
            return Err(bad("workspace_roles", format_args!("must hold at most {MOST_SEATS}")));
        }
        let snapshot = call.snapshot();
        let read = |(i, seat): (usize, GivenClaimSeat)| {
            let field = |name: &str| format!("workspace_roles[{i}].{name}");
            short(&field("value"), &seat.value)?;
            let found = call.actor.named(&snapshot, Some(&seat.workspace_id)).ok().flatten();
            let workspace = found.ok_or_else(|| bad(field("workspace_id"), "names no workspace in use"))?;
            Ok(ClaimedSeat { value: seat.value, workspace, role: seat.role })
        };
        doc.workspace_roles = seats.into_iter().enumerate().map(read).collect::<Result<_, Problem>>()?;
    }
    Ok(())
}

fn bounded(field: &str, text: &str, most: usize) -> Result<(), Problem> {
    if text.len() > most {
        return Err(bad(field, format_args!("must be at most {most} bytes")));
    }
    Ok(())
}

fn short(field: &str, text: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(bad(field, format_args!("must be of 1..{LONGEST} bytes")));
    }
    Ok(())
}

async fn stored(call: &AdminCall) -> Result<Option<ResourceRow<SignOn>>, Problem> {
    let found = call.app.directory.get(Kind::SignOn, call.actor.org, None, SignOn::SLUG).await?;
    if let Some(found) = &found {
        call.subject.found(found);
    }
    found.as_ref().map(ResourceRow::read).transpose()
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = stored(&call).await?.ok_or_else(|| missing(SignOn::NOUN))?;
    Ok(AdminReply::json(SignOn::view(&row, &call)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let body = call.body()?;
    let mut told = body.0.clone();
    SignOn::mask(&mut told);
    let input: SignOnPatch = body.read()?;
    let row = stored(&call).await?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let (mut row, action) = match row {
            Some(row) => (around.newest(row)?, Action::Update),
            // Two at once make one: the second finds it there when it asks again.
            None if around.took(Kind::SignOn, call.actor.org, None, SignOn::SLUG) => {
                return Err(busy("the sign-on was set at the same time, try again"));
            }
            None => {
                let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), fresh());
                SignOn::SLUG.clone_into(&mut row.slug);
                (row, Action::Create)
            }
        };
        SignOn::patch(&mut row, input, &call)?;
        SignOn::check(&row, around)?;
        if action == Action::Update {
            row.touch(call.now);
        }
        let stored = row.stored()?;
        let audit = vec![audit(&call, action, &stored, &told)];
        let view = SignOn::view(&row, &call);
        call.promise(|| view.clone());
        done = Some(view);
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    let view = done.ok_or_else(|| missing(SignOn::NOUN))?;
    Ok(AdminReply::json(view).at(revision))
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = stored(&call).await?.ok_or_else(|| missing(SignOn::NOUN))?;
    let decide = |around: &WriteView<'_>| {
        let gone = around.newest(row)?.tombstone(call.now)?;
        let audit = vec![audit(&call, Action::Delete, &gone, &Map::new())];
        call.promise(|| json!({}));
        Ok(Batch { rows: vec![gone], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
