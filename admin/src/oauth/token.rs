//! Codes and refresh tokens become access tokens. Whatever is not exactly as it should be is answered alike; a code or
//! refresh token that comes twice ends the grant, since somebody else has it.

use super::access::{self, resource};
use super::authorize_request::SCOPES;
use super::client;
use super::client_proof;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::grant::{self, CodeTerms};
use super::refresh::{self, RefreshToken};
use super::request_context::OauthVisit;
use crate::reply::AdminReply;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::id::{GrantId, OrgId, WorkspaceId};
use gateway_domain::ports::{OauthStore, RefreshTurn};
use gateway_domain::resource::mcp_grant::McpSignIn;
use gateway_domain::snapshot::SavedGrant;
use gateway_domain::token::{self, McpGrant};
use http::StatusCode;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What is brought is a random text, or a sealed one.
const LONGEST: usize = 4 * 1024;

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    let pace = &visit.desk.paces.failed_token;
    pace.check(visit.visit.client, visit.visit.now)?;
    let done = exchange(&visit).await;
    if done.as_ref().is_err_and(|fault| matches!(fault.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)) {
        pace.count(visit.visit.client, visit.visit.now);
    }
    done
}

async fn exchange(visit: &OauthVisit) -> Result<AdminReply, OauthFault> {
    let form = OauthForm::of_body(&visit.visit)?;
    let store = visit.app().oauth.as_ref().ok_or_else(OauthFault::off)?;
    let client_id = client_proof::client(visit, &form)?;
    let client_id = client_id.as_str();
    let is_known = client::is_address(client_id)
        || client_proof::made(visit, client_id).is_some()
        || store.client(client_id).await?.is_some();
    if !is_known {
        return Err(OauthFault::client());
    }
    let reply = match form.required("grant_type")? {
        "authorization_code" => by_code(visit, store, &form, client_id).await?,
        "refresh_token" => by_refresh(visit, store, &form, client_id).await?,
        _ => {
            let told = "grant_type must be authorization_code or refresh_token";
            return Err(OauthFault::bad("unsupported_grant_type", told));
        }
    };
    store.use_client(client_id, visit.visit.now).await?;
    Ok(reply)
}

async fn by_code(
    visit: &OauthVisit,
    store: &Arc<dyn OauthStore>,
    form: &OauthForm,
    client_id: &str,
) -> Result<AdminReply, OauthFault> {
    let now = visit.visit.now;
    let code = form.at_most("code", LONGEST)?.ok_or_else(|| OauthFault::request("code is required"))?;
    let redirect_uri = form.required("redirect_uri")?;
    let verifier = form.at_most("code_verifier", 128)?;
    let verifier = verifier.ok_or_else(|| OauthFault::request("code_verifier is required"))?;
    let spent = store.spend_code(&grant::digest(code)).await?.ok_or_else(OauthFault::grant)?;
    let (id, org) = (spent.code.grant, spent.code.org);
    if spent.uses != 1 {
        grant::end(visit, org, id, "its code was brought twice").await?;
        return Err(OauthFault::grant());
    }
    // Whoever brings it with anything else has used it up.
    let terms: CodeTerms = serde_json::from_str(&spent.code.asked).map_err(|_| OauthFault::internal())?;
    let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let fits = terms.client_id == client_id && terms.redirect_uri == redirect_uri && terms.challenge == proof;
    if !fits || spent.code.expires_at <= now {
        grant::end(visit, org, id, "its code was brought late, or with what does not fit it").await?;
        return Err(OauthFault::grant());
    }
    let found = found(visit, org, id).await?;
    check_resource(visit, form, &found)?;
    let until = now.plus_micros(refresh::LASTS_MICROS);
    if store.turn_grant(id, 0, now, until).await? != RefreshTurn::Turned {
        return Err(OauthFault::grant());
    }
    issue_tokens(visit, &found, &found.scope, 1)
}

async fn by_refresh(
    visit: &OauthVisit,
    store: &Arc<dyn OauthStore>,
    form: &OauthForm,
    client_id: &str,
) -> Result<AdminReply, OauthFault> {
    let now = visit.visit.now;
    let text = form.at_most("refresh_token", LONGEST)?;
    let text = text.ok_or_else(|| OauthFault::request("refresh_token is required"))?;
    let brought = RefreshToken::open(visit.app(), text).ok_or_else(OauthFault::grant)?;
    let found = found(visit, brought.org, brought.grant).await?;
    // Another client's is refused before it is used up: it is not that client's to lose.
    if *found.client_id != *client_id {
        return Err(OauthFault::grant());
    }
    check_resource(visit, form, &found)?;
    let scope = narrowed(&found, form.text("scope"))?;
    let until = now.plus_micros(refresh::LASTS_MICROS);
    match store.turn_grant(brought.grant, brought.number, now, until).await? {
        RefreshTurn::Turned => issue_tokens(visit, &found, &scope, brought.number + 1),
        RefreshTurn::Reused => {
            grant::end(visit, brought.org, brought.grant, "an old refresh token was brought").await?;
            Err(OauthFault::grant())
        }
        RefreshTurn::Gone => Err(OauthFault::grant()),
    }
}

/// The grant as it stands in the store, if whoever gave it may still do that.
async fn found(visit: &OauthVisit, org: OrgId, id: GrantId) -> Result<SavedGrant, OauthFault> {
    let app = visit.app();
    let row = grant::stored(app, org, id).await?.ok_or_else(OauthFault::grant)?;
    let doc: McpSignIn = serde_json::from_str(&row.doc).map_err(|_| OauthFault::internal())?;
    let found = SavedGrant {
        id,
        org,
        workspace: WorkspaceId(row.workspace.ok_or_else(OauthFault::internal)?),
        user: doc.user,
        key: doc.key,
        client_id: doc.client_id.into(),
        server: doc.server.into(),
        scopes: McpGrant::read(&doc.scope),
        scope: doc.scope.into(),
        created_at: row.created_at,
        revision: row.revision,
    };
    // It may have been given on another node, with the key that signs, a moment ago.
    let seen = app.live.snapshot().revision;
    if seen < found.revision {
        let changes = app.store.since(seen).await?;
        app.live.publish(&changes);
    }
    let key = token::granted(&app.live.snapshot(), &found, found.scopes);
    let may = key.is_some_and(|key| key.expires_at.is_none_or(|until| until > visit.visit.now));
    if may { Ok(found) } else { Err(OauthFault::grant()) }
}

/// A client may say once more what it wants the token for.
fn check_resource(visit: &OauthVisit, form: &OauthForm, grant: &SavedGrant) -> Result<(), OauthFault> {
    let own = resource(visit.issuer()?, &grant.server);
    if form.text("resource").is_none_or(|asked| asked == own) {
        return Ok(());
    }
    Err(OauthFault::bad("invalid_target", "resource is not the one that was allowed"))
}

/// No more than was allowed (RFC 6749, 6).
fn narrowed(grant: &SavedGrant, asked: Option<&str>) -> Result<String, OauthFault> {
    let Some(asked) = asked else { return Ok(grant.scope.to_string()) };
    let wanted = McpGrant::read(asked);
    let names: Vec<&str> = asked.split_ascii_whitespace().filter(|name| SCOPES.contains(name)).collect();
    let is_more = (wanted.reads && !grant.scopes.reads) || (wanted.writes && !grant.scopes.writes);
    if names.is_empty() || is_more {
        return Err(OauthFault::bad("invalid_scope", "scope is more than was allowed"));
    }
    Ok(names.join(" "))
}

fn issue_tokens(visit: &OauthVisit, grant: &SavedGrant, scope: &str, number: i64) -> Result<AdminReply, OauthFault> {
    let app = visit.app();
    let next = RefreshToken { grant: grant.id, org: grant.org, number };
    Ok(AdminReply::json(json!({
        "access_token": access::sign(app, visit.issuer()?, grant, scope)?,
        "token_type": "Bearer",
        "expires_in": access::LASTS_SECONDS,
        "refresh_token": next.seal(app).ok_or_else(OauthFault::internal)?,
        "scope": scope,
    })))
}
