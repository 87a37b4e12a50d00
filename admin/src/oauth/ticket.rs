//! What a page carries from one step to the next: what the client asks for, and who has signed in by now. Sealed, good
//! for ten minutes, and only in the browser that began.

use super::authorize_request::AuthorizeAsk;
use super::browser;
use super::fault::OauthFault;
use super::request_context::OauthVisit;
use crate::seal;
use gateway_domain::id::KeyId;
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const PURPOSE: &str = "oauth page";
const LASTS_MICROS: i64 = 600 * 1_000_000;

/// The key by which somebody showed who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SignedBy {
    pub(super) key: KeyId,
    /// It is a session, which stands for the person and not for itself.
    pub(super) by_session: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AuthorizeTicket {
    pub(super) id: Uuid,
    browser: String,
    pub(super) ask: AuthorizeAsk,
    pub(super) signed_by: Option<SignedBy>,
    until: Timestamp,
}

impl AuthorizeTicket {
    pub(super) fn new(visit: &OauthVisit, browser: &str, ask: AuthorizeAsk, signed_by: Option<SignedBy>) -> Self {
        let id = Uuid::from_bytes(visit.app().bytes());
        Self { id, browser: browser.to_owned(), ask, signed_by, until: visit.visit.now.plus_micros(LASTS_MICROS) }
    }

    pub(super) fn seal(&self, visit: &OauthVisit) -> Result<String, OauthFault> {
        seal::seal(visit.app(), PURPOSE, self).ok_or_else(OauthFault::internal)
    }

    /// `None`: it is none, is over, or another browser's.
    pub(super) fn open(visit: &OauthVisit, text: &str) -> Option<Self> {
        let ticket: Self = seal::open(visit.app(), PURPOSE, text)?;
        let is_theirs = browser::known(visit).is_some_and(|browser| browser == ticket.browser);
        (is_theirs && ticket.until > visit.visit.now).then_some(ticket)
    }
}
