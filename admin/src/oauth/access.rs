//! Access tokens: JSON Web Tokens (RFC 9068) that are good for a quarter of an hour, for one MCP server, while the
//! grant behind them stands. Signed here, and read here for whoever must know what one says; what it opens is decided
//! elsewhere.

use super::fault::OauthFault;
use super::signing;
use crate::app::App;
use crate::signature::signed_with;
use gateway_domain::id::{GrantId, SigningKeyId};
use gateway_domain::ports::Revision;
use gateway_domain::snapshot::{SavedGrant, Snapshot};
use gateway_domain::time::Timestamp;
use gateway_domain::token::McpGrant;
use jsonwebtoken::{Algorithm, DecodingKey, Header, decode_header, encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(super) const LASTS_SECONDS: i64 = 900;
const LONGEST: usize = 8 * 1024;
const TYPE: &str = "at+jwt";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AccessClaims {
    pub(super) iss: String,
    pub(super) sub: String,
    pub(super) aud: String,
    pub(super) client_id: String,
    pub(super) scope: String,
    gateway_oid: String,
    gateway_workspace: String,
    pub(super) jti: Uuid,
    pub(super) grant: GrantId,
    /// A node that has not come so far does not know the grant yet.
    gateway_revision: Revision,
    pub(super) iat: i64,
    pub(super) exp: i64,
}

/// What a token says that was signed here and is not over.
#[derive(Clone, Debug)]
pub struct AccessToken {
    pub grant: GrantId,
    pub signed_by: SigningKeyId,
    /// The one server that it is for.
    pub audience: String,
    pub scopes: McpGrant,
    pub expires_at: Timestamp,
    /// The revision that brought the grant: a node that has come this far and does not have it knows that it was ended.
    pub known_from: Revision,
}

/// Why it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAccessToken {
    /// Nothing says that it was issued here: others may know it.
    Foreign,
    Wrong(&'static str),
}

/// The address of a server, which its tokens are for.
pub(super) fn resource(issuer: &str, server: &str) -> String {
    format!("{issuer}/{server}/mcp")
}

pub(super) fn sign(app: &App, issuer: &str, grant: &SavedGrant, scope: &str) -> Result<String, OauthFault> {
    let (snapshot, now) = (app.live.snapshot(), app.now());
    let key = signing::current(&snapshot, now).ok_or_else(OauthFault::internal)?;
    let iat = now.micros() / 1_000_000;
    let claims = AccessClaims {
        iss: issuer.to_owned(),
        sub: grant.user.to_string(),
        aud: resource(issuer, &grant.server),
        client_id: grant.client_id.to_string(),
        scope: scope.to_owned(),
        gateway_oid: grant.org.to_string(),
        gateway_workspace: grant.workspace.to_string(),
        jti: Uuid::from_bytes(app.bytes()),
        grant: grant.id,
        gateway_revision: grant.revision,
        iat,
        exp: iat + LASTS_SECONDS,
    };
    let mut header = Header::new(Algorithm::ES256);
    (header.typ, header.kid) = (Some(TYPE.to_owned()), Some(key.id.to_string()));
    encode(&header, &claims, &signing::opened(app, key)?).map_err(|_| OauthFault::internal())
}

/// All that it claims, its signature and its times being good. The algorithm is ours to say, not the token's.
pub(super) fn claims(
    snapshot: &Snapshot,
    issuer: &str,
    text: &str,
    now: Timestamp,
) -> Result<(SigningKeyId, AccessClaims), BadAccessToken> {
    if text.len() > LONGEST {
        return Err(BadAccessToken::Foreign);
    }
    let header = decode_header(text).map_err(|_| BadAccessToken::Foreign)?;
    let is_ours = header.alg == Algorithm::ES256 && header.typ.as_deref() == Some(TYPE) && header.crit.is_none();
    let name = header.kid.as_deref().filter(|_| is_ours).and_then(|kid| kid.parse::<SigningKeyId>().ok());
    let id = name.ok_or(BadAccessToken::Foreign)?;
    let key = snapshot.signing_key(id).ok_or(BadAccessToken::Wrong("The token is signed with a key that is over"))?;
    let unsigned = BadAccessToken::Wrong("The token's signature is not valid");
    let key = DecodingKey::from_ec_components(&key.x, &key.y).map_err(|_| unsigned)?;
    let claims: AccessClaims = signed_with(text, &key, Algorithm::ES256).ok_or(unsigned)?;
    if claims.iss != issuer {
        return Err(BadAccessToken::Wrong("The token was issued under another address"));
    }
    if claims.exp <= now.micros() / 1_000_000 {
        return Err(BadAccessToken::Wrong("The token has expired"));
    }
    Ok((id, claims))
}

/// Checks an access token and reads what it opens, for whoever lets requests in.
pub fn read_access_token(
    snapshot: &Snapshot,
    issuer: &str,
    text: &str,
    now: Timestamp,
) -> Result<AccessToken, BadAccessToken> {
    let (signed_by, claims) = claims(snapshot, issuer, text, now)?;
    Ok(AccessToken {
        grant: claims.grant,
        signed_by,
        scopes: McpGrant::read(&claims.scope),
        expires_at: Timestamp::from_secs(claims.exp),
        known_from: claims.gateway_revision,
        audience: claims.aud,
    })
}
