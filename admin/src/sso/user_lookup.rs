//! Whom claims name: somebody who signed in before, by the provider's name for them; else the user with the address, if
//! the provider vouches for it; else nobody yet.

use super::ticket::SignInTicket;
use crate::problem::{Problem, forbidden};
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::resource::person::{OrgRole, WorkspaceRole, email};
use gateway_domain::resource::sign_on::SignOn;
use gateway_domain::snapshot::Snapshot;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What the claims say of somebody.
pub(super) struct SignedPerson {
    pub(super) subject: String,
    /// That may sign in here, and that the provider vouches for.
    pub(super) email: Option<String>,
    pub(super) first_name: String,
    pub(super) last_name: String,
    pub(super) role: Option<OrgRole>,
    pub(super) seats: BTreeMap<WorkspaceId, WorkspaceRole>,
    /// Whether only addresses of some domains may.
    is_held_to_domains: bool,
}

impl SignedPerson {
    pub(super) fn read(claims: &Map<String, Value>, settings: &SignOn) -> Self {
        const LONGEST: usize = 255;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let short = |name: &str| text(name).chars().take(LONGEST).collect::<String>();
        let is_verified = match claims.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            Some(Value::String(text)) => text == "true",
            _ => settings.trusts_unverified_emails,
        };
        let address = email("email", text("email")).ok().filter(|_| is_verified);
        let first_name = if text("given_name").is_empty() { short("name") } else { short("given_name") };
        Self {
            subject: text("sub").to_owned(),
            email: address.filter(|address| settings.takes(address)),
            first_name,
            last_name: short("family_name"),
            role: settings.role(claims),
            seats: settings.seats(claims),
            is_held_to_domains: !settings.email_domains.is_empty(),
        }
    }

    /// The user that it is, by id: known by the provider's name, or to be known by the address.
    pub(super) fn known(&self, snapshot: &Snapshot, ticket: &SignInTicket) -> Result<Option<UserId>, Problem> {
        let subject = signed(&ticket.issuer, &self.subject);
        let ours = || snapshot.people().filter(|person| person.org == ticket.org);
        let no_address = || no_place("the provider vouches for no address of yours that may sign in here");
        if self.is_held_to_domains && self.email.is_none() {
            return Err(no_address());
        }
        if let Some(person) = ours().find(|person| person.signs_in_as.as_deref() == Some(&*subject)) {
            return Ok(Some(person.id));
        }
        let address = self.email.as_deref().ok_or_else(no_address)?;
        let Some(person) = ours().find(|person| &*person.email == address) else { return Ok(None) };
        // The address has another owner at the provider now. What another provider called them is of no matter: the
        // organisation has left it.
        if person.signs_in_as.as_deref().is_some_and(|name| is_of(name, &ticket.issuer)) {
            return Err(no_place("somebody else signs in with your address"));
        }
        Ok(Some(person.id))
    }
}

/// The provider's name for somebody, which is one at that provider only.
pub(super) fn signed(issuer: &str, subject: &str) -> String {
    format!("{issuer} {subject}")
}

/// An address of a provider holds no blank.
fn is_of(name: &str, issuer: &str) -> bool {
    name.split_once(' ').is_some_and(|(of, _)| of == issuer)
}

/// Who signs in and may not.
pub(super) fn no_place(why: &str) -> Problem {
    forbidden(format!("the sign-in was refused: {why}"))
}
