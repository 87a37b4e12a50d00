//! Tokens of the issuer that one MCP server names for itself. Such a token opens that server and nothing else: its
//! signature is checked against that issuer's keys alone, and the person behind it is nobody that the organisation
//! knows.

use super::{IssuerKeys, IssuerSets, Issuers, candidates_in, invalid, key_name, unverified};
use gateway_admin::signed_by;
use gateway_domain::keys::KeyHash;
use gateway_domain::snapshot::{Key, ServerIssuer, ServerPlace, Snapshot};
use gateway_domain::token::{self, Claims, TokenError};
use gateway_domain::{Timestamp, WorkspaceId};
use jsonwebtoken::decode_header;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What comes to an MCP server.
pub(crate) struct ServerAsk<'a> {
    /// The server's slug in the address that is called.
    pub(crate) slug: &'a str,
    /// The server's name in the audience of tokens that are for it.
    pub(crate) resource: &'a str,
    pub(crate) token: &'a str,
    pub(crate) hash: &'a KeyHash,
    pub(crate) now: Timestamp,
}

/// A good token, with all that made it good.
pub(super) struct ServerToken {
    slug: Box<str>,
    claims: Claims,
    workspace: WorkspaceId,
    issuer: Arc<ServerIssuer>,
    set: Option<(Arc<str>, Arc<IssuerKeys>)>,
    key: Arc<Key>,
}

impl ServerToken {
    fn stands(&self, snapshot: &Snapshot, sets: &IssuerSets, ask: &ServerAsk<'_>) -> bool {
        let place = snapshot.workspace(self.workspace).filter(|workspace| workspace.active);
        let server = place.and_then(|w| w.mcp_server(ask.slug).map(|server| (w, server)));
        let own = server.and_then(|(w, server)| snapshot.server_issuer(w, server));
        let org = snapshot.org(self.key.org);
        *self.slug == *ask.slug
            && self.key.expires_at.is_some_and(|at| at > ask.now)
            && own.is_some_and(|own| Arc::ptr_eq(own, &self.issuer))
            && self.set.as_ref().is_none_or(|(uri, set)| sets.get(uri).is_some_and(|held| Arc::ptr_eq(held, set)))
            && org.is_some_and(|org| !token::is_barred(&self.claims, org))
    }
}

impl Issuers {
    /// Whether this token was good for a server before.
    pub(crate) fn knows_for_server(&self, hash: &KeyHash) -> bool {
        self.served.peek(hash).is_some()
    }

    /// The key that a token stands for at one server. `None`: the server has no issuer of its own that says so; others
    /// may know it.
    pub(crate) fn server_key(&self, snapshot: &Snapshot, ask: &ServerAsk<'_>) -> Result<Option<Arc<Key>>, TokenError> {
        let sets = self.sets.load();
        if let Some(known) = self.served.get(ask.hash).filter(|known| known.stands(snapshot, &sets, ask)) {
            return Ok(Some(known.key.clone()));
        }
        let places = snapshot.server_places(ask.slug);
        if places.is_empty() {
            return Ok(None);
        }
        let said = unverified(ask.token)?;
        let own = |place: &ServerPlace| said.get("iss").and_then(Value::as_str) == Some(&*place.issuer.issuer);
        let places: Vec<ServerPlace> = places.into_iter().filter(own).collect();
        let place = match &places[..] {
            [] => return Ok(None),
            [one] => one,
            several => {
                let named = Claims::read(&said)?.workspace;
                let is_named = |place: &&ServerPlace| {
                    let (id, slug) = (place.workspace.id.to_string(), &*place.workspace.slug);
                    named.as_deref().is_some_and(|named| named == id || named == slug)
                };
                several.iter().find(is_named).ok_or_else(|| {
                    invalid("The token names no workspace (gateway_workspace), and several have a server here")
                })?
            }
        };
        let verified = verify(&sets, place, ask)?;
        let org = snapshot.org(place.workspace.org);
        if org.is_none_or(|org| token::is_barred(&verified.claims, org)) {
            return Err(TokenError::Forbidden("The person of the token is not active in the organisation"));
        }
        let key = verified.key.clone();
        self.served.insert(*ask.hash, Arc::new(verified));
        Ok(Some(key))
    }
}

fn verify(sets: &IssuerSets, place: &ServerPlace, ask: &ServerAsk<'_>) -> Result<ServerToken, TokenError> {
    let (kid, own) = (key_name(ask.token)?, &place.issuer);
    let header = decode_header(ask.token).map_err(|_| invalid("The token cannot be read"))?;
    if !own.rules.algorithms.iter().any(|taken| *taken == format!("{:?}", header.alg)) {
        return Err(invalid("The token is signed by an algorithm that this MCP server does not take"));
    }
    let keys = candidates_in(&own.inline, own.keys_at.iter(), sets, &kid);
    if keys.is_empty() {
        return Err(TokenError::UnknownKey(place.workspace.org));
    }
    let found = keys.into_iter().find_map(|(set, key)| Some((set, signed_by(ask.token, key)?)));
    let (set, said) = found.ok_or_else(|| invalid("The token's signature is not valid"))?;
    let claims = Claims::read(&said)?;
    let until = check(&claims, &said, own, ask)?;
    let key = token::server_key(&place.workspace, &claims, (place.server, ask.hash), until);
    let (slug, issuer) = (ask.slug.into(), own.clone());
    Ok(ServerToken { slug, claims, workspace: place.workspace.id, issuer, set, key: Arc::new(key) })
}

/// Checks that the token is good at this server; until when it is.
fn check(
    claims: &Claims,
    said: &Map<String, Value>,
    own: &ServerIssuer,
    ask: &ServerAsk<'_>,
) -> Result<Timestamp, TokenError> {
    if claims.issuer.as_deref() != Some(&*own.issuer) {
        return Err(invalid("The token's claim iss names another issuer than the MCP server's"));
    }
    if !claims.audience.iter().any(|audience| audience == ask.resource) {
        return Err(invalid("The token's claim aud does not name this MCP server"));
    }
    let tolerance = i64::from(own.rules.clock_tolerance) * 1_000_000;
    let mut until = claims.expires_at.plus_micros(tolerance);
    if let Some(most) = own.rules.max_token_age {
        let issued = said.get("iat").and_then(Value::as_i64).filter(|at| (0..=253_402_300_799).contains(at));
        let issued = issued.ok_or_else(|| invalid("The token's claim iat is required by this MCP server"))?;
        until = until.min(Timestamp::from_secs(issued).plus_micros(i64::from(most) * 1_000_000 + tolerance));
    }
    if until <= ask.now {
        return Err(invalid(
            "The token's claim exp says that it has expired, or it is older than this MCP server takes",
        ));
    }
    if claims.not_before.is_some_and(|from| from > ask.now.plus_micros(tolerance)) {
        return Err(invalid("The token's claim nbf says that it is not valid yet"));
    }
    match own.rules.lacking(said) {
        None => Ok(until),
        Some(name) => Err(TokenError::Invalid(format!("The token's claim {name} is not what this MCP server wants"))),
    }
}
