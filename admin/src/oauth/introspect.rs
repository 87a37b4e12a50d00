//! What an access token says (RFC 7662), for keys of the organisation that it is of and for the client that it was
//! issued to. Whatever is not good, or not theirs, is merely not active.

use super::access::{self, AccessClaims};
use super::client_proof;
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use crate::actor::Actor;
use crate::reply::AdminReply;
use gateway_domain::id::OrgId;
use gateway_domain::token;
use http::header;
use serde_json::{Value, json};

enum Asker {
    /// A key, which sees what is of its organisation, or of its workspace alone.
    Key(Box<Actor>),
    Client(String),
}

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    visit.desk.paces.failed_token.check(visit.visit.client, visit.visit.now)?;
    let form = OauthForm::of_body(&visit.visit)?;
    let asker = asker(&visit, &form).await.inspect_err(|_| {
        visit.desk.paces.failed_token.count(visit.visit.client, visit.visit.now);
    })?;
    let text = form.required("token")?;
    Ok(AdminReply::json(active(&visit, &asker, text)?.unwrap_or_else(|| json!({"active": false}))))
}

async fn asker(visit: &OauthVisit, form: &OauthForm) -> Result<Asker, OauthFault> {
    let headers = &visit.visit.headers;
    let named = headers.keys().any(|name| name == header::AUTHORIZATION || name.as_str().ends_with("api-key"));
    let by_client = client_proof::has_header(visit) || (!named && form.text("client_id").is_some());
    match by_client {
        true => client_proof::client(visit, form).map(Asker::Client),
        false => {
            let actor = Actor::authenticate(visit.app(), headers, visit.visit.now).await;
            actor.map(|actor| Asker::Key(Box::new(actor))).map_err(|_| OauthFault::client())
        }
    }
}

fn active(visit: &OauthVisit, asker: &Asker, text: &str) -> Result<Option<Value>, OauthFault> {
    let snapshot = visit.app().live.snapshot();
    let Ok((_, claims)) = access::claims(&snapshot, visit.issuer()?, text, visit.visit.now) else { return Ok(None) };
    let Some(grant) = snapshot.grant(claims.grant) else { return Ok(None) };
    let key = token::granted(&snapshot, grant, grant.scopes);
    let Some(key) = key.filter(|key| key.expires_at.is_none_or(|until| until > visit.visit.now)) else {
        return Ok(None);
    };
    let theirs = match asker {
        Asker::Key(actor) => sees(actor, grant.org) && actor.workspace.is_none_or(|own| own == grant.workspace),
        Asker::Client(client) => *client == claims.client_id,
    };
    if !theirs {
        return Ok(None);
    }
    let AccessClaims { iss, sub, aud, client_id, scope, jti, iat, exp, .. } = claims;
    let mut told = json!({
        "active": true, "scope": scope, "client_id": client_id, "token_type": "Bearer", "exp": exp, "iat": iat,
        "sub": sub, "aud": aud, "iss": iss, "jti": jti, "workspace_id": key.workspace,
    });
    if let Some(person) = snapshot.person(grant.user) {
        told["email"] = json!(person.email);
        told["username"] = json!(person.user_name);
        told["display_name"] = json!(format!("{} {}", person.first_name, person.last_name).trim());
    }
    Ok(Some(told))
}

fn sees(actor: &Actor, org: OrgId) -> bool {
    actor.org == org
}
