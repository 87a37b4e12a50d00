//! The way back from an MCP server's own sign-in: the answer counts once, for the browser that began, from the server
//! that was asked, and for the person that the link was for. What comes of it is an account; nothing of the answer is
//! shown.

use super::browser;
use super::connect::{ConnectFlow, held_before, person_of, public, upstream_of};
use super::connect_page;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use crate::mcp_account::{Brought, HeldTokens, NoTokens, client_document, exchange, redirect_uri};
use crate::mcp_sync::learn_anew;
use crate::reply::AdminReply;
use crate::scope_challenges::AskedScope;
use gateway_domain::ports::McpAccountId;

/// Accounts that one organisation may have.
const MOST_ACCOUNTS: u64 = 50_000;
const LONGEST_CODE: usize = 4 * 1024;

/// The document that is the gateway's name where documents are taken.
pub(super) async fn document(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    Ok(AdminReply::json(client_document(public(&visit)?)))
}

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    let pace = &visit.desk.paces.failed_sign_in;
    pace.check(visit.visit.client, visit.visit.now)?;
    let done = Box::pin(connect(&visit)).await;
    if done.is_err() {
        pace.count(visit.visit.client, visit.visit.now);
    }
    done
}

async fn connect(visit: &OauthVisit) -> Result<AdminReply, OauthFault> {
    let app = visit.app();
    let form = OauthForm::of_query(&visit.visit)?;
    let none = || OauthFault::forbidden("nothing was begun here that this answers: open the link again");
    let flow = ConnectFlow::open(visit).ok_or_else(none)?;
    if form.text("state") != Some(flow.id.to_string().as_str()) {
        return Err(none());
    }
    // Before anything of the answer is used, an error in it too: another server may have sent it (RFC 9207, 2.4).
    let is_from_there = match form.text("iss") {
        Some(named) => named == flow.at.issuer,
        None => !flow.at.names_itself,
    };
    if !is_from_there {
        return Err(OauthFault::forbidden("this answer is of another server than the one that was asked"));
    }
    if app.claims.claim(&[flow.id], visit.visit.now).await?.first() != Some(&visit.visit.now) {
        return Err(OauthFault::forbidden("this answer was brought before: open the link again"));
    }
    let Some(code) = form.at_most("code", LONGEST_CODE)?.filter(|_| form.text("error").is_none()) else {
        return Err(OauthFault::forbidden("the server did not let you in, or you did not let the gateway in"));
    };
    let brought = tokens(visit, &flow, code).await?;
    Box::pin(keep(visit, flow, brought)).await
}

async fn tokens(visit: &OauthVisit, flow: &ConnectFlow, code: &str) -> Result<Brought, OauthFault> {
    let (app, redirect) = (visit.app(), redirect_uri(public(visit)?));
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect.as_str()),
        ("code_verifier", flow.verifier.as_str()),
        ("resource", flow.at.resource.as_str()),
    ];
    let brought = exchange(app, &flow.at.token_endpoint, &flow.client, &form).await;
    match brought {
        Ok(brought) => Ok(brought),
        Err(NoTokens::Denied) => Err(OauthFault::bad_server("the server did not take its own answer: try again")),
        Err(NoTokens::UnknownClient) => {
            // Whoever tries again is registered anew.
            app.accounts.forget_server_client(flow.link.org, &flow.at.issuer).await?;
            Err(OauthFault::bad_server("the server does not know the gateway any more: open the link again"))
        }
        Err(NoTokens::Failed(why)) => Err(OauthFault::bad_server(format!("the account cannot be connected: {why}"))),
    }
}

async fn keep(visit: &OauthVisit, flow: ConnectFlow, brought: Brought) -> Result<AdminReply, OauthFault> {
    let app = visit.app();
    let snapshot = app.live.snapshot();
    let upstream = upstream_of(&snapshot, &flow.link)?;
    let changed = || OauthFault::forbidden("what you may do has changed meanwhile: ask in the app for a new link");
    let person = person_of(visit, &snapshot, &flow.link, flow.signed_by).ok_or_else(changed)?;
    if *upstream.url != *flow.server {
        return Err(changed());
    }
    let before = held_before(app, &flow.link).await?;
    let before = before.filter(|held| held.server == flow.server && held.issuer == flow.at.issuer);
    let (scope, lacked) = (flow.at.scope.as_deref(), flow.link.scope.as_deref());
    let asked = AskedScope::next(before.as_ref().map(|held| &held.asked), scope, lacked, app.now());
    let held = HeldTokens {
        server: flow.server,
        issuer: flow.at.issuer,
        token_endpoint: flow.at.token_endpoint,
        revocation_endpoint: flow.at.revocation_endpoint,
        client: flow.client,
        resource: flow.at.resource,
        scope: flow.at.scope,
        access: String::new(),
        refresh: None,
        asked,
    };
    let sealed = held.sealed_with(app, brought).ok_or_else(OauthFault::internal)?;
    let id = McpAccountId { integration: upstream.id, user: person.person.id };
    let kept = app.accounts.connect_account(id, flow.link.org, &sealed, app.now(), MOST_ACCOUNTS).await?;
    if !kept {
        return Err(OauthFault::busy("the organisation has as many accounts as it may"));
    }
    app.kept_accounts.forget(id);
    // Lists are of what the server says of itself, which nobody could ask before the first account was there.
    learn_anew(app, flow.link.org, upstream.id).await;
    Ok(connect_page::done(&upstream.slug).cookie(browser::carry_away_nothing()))
}
