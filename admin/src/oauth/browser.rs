//! The browser on its way through the pages: a cookie tells it from others, so that what one began no other can end.
//! Tickets are bound to its digest.

use super::fault::OauthFault;
use super::request_context::OauthVisit;
use crate::cookies::{named_cookie, set_cookie};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header;
use sha2::{Digest, Sha256};

const COOKIE: &str = "__Host-gateway-oauth";
/// A ticket that goes with the browser to the provider and back.
const CARRIED: &str = "__Host-gateway-oauth-ticket";
/// What goes with the browser to the sign-in of an MCP server and back.
const AWAY: &str = "__Host-gateway-connect";
const SECONDS: i64 = 3_600;
/// What browsers keep of a cookie, its name and attributes aside.
const MOST_CARRIED: usize = 3_800;

pub(super) struct OauthBrowser {
    pub(super) digest: String,
    /// Set where it had none.
    pub(super) cookie: Option<String>,
}

fn digest(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret.as_bytes()))
}

/// The one that asks, known or new.
pub(super) fn of(visit: &OauthVisit) -> OauthBrowser {
    match known(visit) {
        Some(digest) => OauthBrowser { digest, cookie: None },
        None => {
            let secret = URL_SAFE_NO_PAD.encode(visit.app().bytes::<32>());
            OauthBrowser { digest: digest(&secret), cookie: Some(set_cookie(COOKIE, &secret, SECONDS)) }
        }
    }
}

pub(super) fn known(visit: &OauthVisit) -> Option<String> {
    named_cookie(&visit.visit.headers, COOKIE).filter(|secret| secret.len() == 43).map(digest)
}

pub(super) fn carried(visit: &OauthVisit) -> Option<&str> {
    named_cookie(&visit.visit.headers, CARRIED).filter(|ticket| !ticket.is_empty())
}

pub(super) fn carry(ticket: &str) -> Result<String, OauthFault> {
    if ticket.len() > MOST_CARRIED {
        return Err(OauthFault::request("the request is too long to be carried through a sign-in elsewhere"));
    }
    Ok(set_cookie(CARRIED, ticket, 600))
}

pub(super) fn carry_nothing() -> String {
    set_cookie(CARRIED, "", 0)
}

pub(super) fn carried_away(visit: &OauthVisit) -> Option<&str> {
    named_cookie(&visit.visit.headers, AWAY).filter(|flow| !flow.is_empty())
}

pub(super) fn carry_away(flow: &str) -> Result<String, OauthFault> {
    if flow.len() > MOST_CARRIED {
        return Err(OauthFault::bad_server("the addresses of the server's sign-in are too long to be carried there"));
    }
    Ok(set_cookie(AWAY, flow, 600))
}

pub(super) fn carry_away_nothing() -> String {
    set_cookie(AWAY, "", 0)
}

/// A form of ours was sent by a page of ours: browsers say whose page asks (Fetch Metadata), and those that do not yet
/// say so name the page's origin.
pub(super) fn check_own_page(visit: &OauthVisit) -> Result<(), OauthFault> {
    let headers = &visit.visit.headers;
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let issuer = visit.app().public_url.as_deref().ok_or_else(OauthFault::off)?;
    let host = issuer.find("://").map_or(0, |at| at + 3);
    let ours = issuer[host..].find('/').map_or(issuer, |at| &issuer[..host + at]);
    let is_ours = match (said("sec-fetch-site"), said(header::ORIGIN.as_str())) {
        (Some(site), _) => site == "same-origin",
        (None, Some(page)) => ours.eq_ignore_ascii_case(page),
        (None, None) => true,
    };
    if is_ours { Ok(()) } else { Err(OauthFault::forbidden("this form was not sent by a page of this site")) }
}
