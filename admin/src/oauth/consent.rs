//! What somebody presses on the page: to sign in with a key or at their organisation's provider, to allow, or to deny.
//! Only a page of ours, in the browser that began, can press it; only behind that is a browser sent to the client.

use super::authorize_request::AuthorizeAsk;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use super::ticket::AuthorizeTicket;
use super::{authorize, browser, grant, signer};
use crate::reply::AdminReply;
use gateway_domain::denied_caller::TurnedAway;
use http::{StatusCode, header};
use url::form_urlencoded::Serializer;

const LONGEST_ORGANISATION: usize = 255;

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    browser::check_own_page(&visit)?;
    let pace = &visit.desk.paces.failed_sign_in;
    pace.check(visit.visit.client, visit.visit.now)?;
    let form = OauthForm::of_body(&visit.visit)?;
    let ticket = form.text("ticket").and_then(|ticket| AuthorizeTicket::open(&visit, ticket));
    let Some(ticket) = ticket else {
        pace.count(visit.visit.client, visit.visit.now);
        return Err(OauthFault::forbidden("this page is over, or another browser's: begin again in the app"));
    };
    match form.text("step") {
        Some("key") => by_key(&visit, &form, ticket),
        Some("organisation") => elsewhere(&visit, &form, &ticket),
        Some("other") => authorize::show(&visit, ticket.ask, None),
        Some("deny") => {
            // Whoever comes late with the same page is told what was decided first.
            grant::decide_once(&visit, &ticket).await?;
            leave(&visit, &ticket.ask, &[("error", "access_denied")])
        }
        Some("allow") => {
            let code = grant::begin(&visit, &ticket, form.text("workspace")).await?;
            leave(&visit, &ticket.ask, &[("code", &code)])
        }
        _ => Err(OauthFault::request("step must be one of the page's buttons")),
    }
}

fn by_key(visit: &OauthVisit, form: &OauthForm, ticket: AuthorizeTicket) -> Result<AdminReply, OauthFault> {
    let signed_by = signer::of_typed(visit, form, TurnedAway::short(visit.visit.uri.path()))?;
    authorize::show(visit, ticket.ask, Some(signed_by))
}

/// Sends the browser to the provider of an organisation, which leads it back to this page with a session.
fn elsewhere(visit: &OauthVisit, form: &OauthForm, ticket: &AuthorizeTicket) -> Result<AdminReply, OauthFault> {
    let organisation = form.at_most("organisation", LONGEST_ORGANISATION)?;
    let organisation = organisation.ok_or_else(|| OauthFault::request("organisation is required"))?;
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let issuer = visit.issuer()?;
    let base = issuer.splitn(4, '/').nth(3).map(|base| format!("/{base}")).unwrap_or_default();
    let back = encode(&format!("{base}/oauth/authorize"));
    let start = format!("{issuer}/v1/sso/{}/start?return_to={back}", encode(organisation));
    let carried = browser::carry(&ticket.seal(visit)?)?;
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER).with_header(header::LOCATION, start).cookie(carried))
}

/// Back to the client, with the answer and who gives it (RFC 9207).
fn leave(visit: &OauthVisit, ask: &AuthorizeAsk, answer: &[(&str, &str)]) -> Result<AdminReply, OauthFault> {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(answer).append_pair("iss", visit.issuer()?);
    if let Some(state) = &ask.state {
        query.append_pair("state", state);
    }
    let joint = if ask.redirect_uri.contains('?') { '&' } else { '?' };
    let location = format!("{}{joint}{}", ask.redirect_uri, query.finish());
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER).with_header(header::LOCATION, location))
}
