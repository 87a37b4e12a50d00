//! A client gives back what it was allowed (RFC 7009): with either of its tokens the whole grant ends. A token that is
//! none is as good as given back.

use super::access;
use super::client_proof;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::grant;
use super::refresh::RefreshToken;
use super::request_context::OauthVisit;
use crate::reply::AdminReply;
use gateway_domain::id::{GrantId, OrgId};
use gateway_domain::resource::mcp_grant::McpSignIn;
use http::StatusCode;

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    visit.desk.paces.failed_token.check(visit.visit.client, visit.visit.now)?;
    let form = OauthForm::of_body(&visit.visit)?;
    let text = form.required("token")?;
    let client_id = client_proof::client(&visit, &form).inspect_err(|_| {
        visit.desk.paces.failed_token.count(visit.visit.client, visit.visit.now);
    })?;
    let done = Ok(AdminReply::nothing(StatusCode::OK));
    let Some((org, id)) = named(&visit, text)? else {
        visit.desk.paces.failed_token.count(visit.visit.client, visit.visit.now);
        return done;
    };
    let Some(row) = grant::stored(visit.app(), org, id).await? else { return done };
    let doc: McpSignIn = serde_json::from_str(&row.doc).map_err(|_| OauthFault::internal())?;
    if doc.client_id != client_id {
        return Err(OauthFault::bad("unauthorized_client", "the token was not issued to this client"));
    }
    grant::end(&visit, org, id, "the client gave it back").await?;
    done
}

/// The grant of a token that was made here.
fn named(visit: &OauthVisit, text: &str) -> Result<Option<(OrgId, GrantId)>, OauthFault> {
    if let Some(token) = RefreshToken::open(visit.app(), text) {
        return Ok(Some((token.org, token.grant)));
    }
    let snapshot = visit.app().live.snapshot();
    let claims = access::claims(&snapshot, visit.issuer()?, text, visit.visit.now);
    Ok(claims.ok().and_then(|(_, claims)| Some((snapshot.grant(claims.grant)?.org, claims.grant))))
}
