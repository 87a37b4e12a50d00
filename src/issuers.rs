//! Tokens of the issuers that organisations trust: checked against the key sets that are held, with what was
//! found kept by the hash of the whole token. Reads no network and no database; `fetch` does, beside the path.

mod fetch;
mod server;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub(crate) use fetch::start;
use gateway_admin::signed_by;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::{Fut, Tokens};
use gateway_domain::snapshot::{Key, Org, Snapshot};
use gateway_domain::token::{self, Claims, KeySet, PublicKey, TokenError, Trust};
use gateway_domain::{OrgId, Timestamp, WorkspaceId};
use jsonwebtoken::{Algorithm, decode_header};
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
pub(crate) use server::ServerAsk;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Tokens whose signature is known to be good.
const VERIFIED: usize = 16_384;
/// Longest that a request waits for issuers to be asked again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Organisations that wait to be looked after.
const MOST_ASKS: usize = 256;

/// What an issuer publishes.
#[derive(Debug, PartialEq)]
struct IssuerKeys {
    keys: KeySet,
    /// The issuer's name in its discovery document, where that could be found.
    issuer: Option<String>,
}

/// The sets of keys by the address that each was fetched from.
type IssuerSets = HashMap<Arc<str>, Arc<IssuerKeys>>;

/// Somebody waits for the issuers of an organisation: until every copy of `pending` is dropped.
struct RefreshAsk {
    org: OrgId,
    pending: mpsc::Sender<Infallible>,
}

pub(crate) struct Issuers {
    sets: ArcSwap<IssuerSets>,
    verified: Cache<KeyHash, Arc<VerifiedToken>>,
    /// Good tokens of issuers that single servers have of their own.
    served: Cache<KeyHash, Arc<server::ServerToken>>,
    asks: mpsc::Sender<RefreshAsk>,
}

impl Issuers {
    /// Holds no set until somebody answers what is asked.
    fn new() -> (Self, mpsc::Receiver<RefreshAsk>) {
        let (asks, asked) = mpsc::channel(MOST_ASKS);
        let (verified, served) = (Cache::new(VERIFIED), Cache::new(VERIFIED));
        (Self { sets: ArcSwap::default(), verified, served, asks }, asked)
    }

    /// Issuers for commands that serve nothing: no token is good.
    pub(crate) fn detached() -> Self {
        Self::new().0
    }
}

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuers").field("sets", &self.sets.load().len()).finish_non_exhaustive()
    }
}

/// A good token, with all that made it good: it is checked anew when any of that was replaced.
struct VerifiedToken {
    claims: Claims,
    org: OrgId,
    workspace: WorkspaceId,
    trust: Arc<Trust>,
    /// The fetched set that names its key; `None` for a key that was written down.
    set: Option<(Arc<str>, Arc<IssuerKeys>)>,
    key: Arc<Key>,
}

impl VerifiedToken {
    /// Takes effect at once: an issuer taken out, a key that it names no more, a workspace archived.
    fn stands(&self, snapshot: &Snapshot, sets: &IssuerSets, now: Timestamp) -> bool {
        let Some(org) = snapshot.org(self.org) else { return false };
        let place = snapshot.workspace(self.workspace);
        self.claims.expires_at > now
            && org.trust.as_ref().is_some_and(|t| Arc::ptr_eq(t, &self.trust))
            && self.set.as_ref().is_none_or(|(uri, set)| sets.get(uri).is_some_and(|held| Arc::ptr_eq(held, set)))
            && place.is_some_and(|w| token::still_means(&self.claims, snapshot, org, w))
            && !token::is_barred(&self.claims, org)
    }
}

impl Issuers {
    /// Whether this token was good before, and most likely is still.
    pub(crate) fn knows(&self, hash: &KeyHash) -> bool {
        self.verified.peek(hash).is_some()
    }
}

impl Tokens for Issuers {
    fn key(&self, snapshot: &Snapshot, token: &str, hash: &KeyHash, now: Timestamp) -> Result<Arc<Key>, TokenError> {
        let sets = self.sets.load();
        if let Some(known) = self.verified.get(hash).filter(|v| v.stands(snapshot, &sets, now)) {
            return Ok(known.key.clone());
        }
        let verified = verify(snapshot, &sets, token, hash, now)?;
        let key = verified.key.clone();
        self.verified.insert(*hash, Arc::new(verified));
        Ok(key)
    }

    fn named(&self, snapshot: &Snapshot, token: &str) -> Option<OrgId> {
        let said = unverified(token).ok()?;
        token::organisation(snapshot, Claims::organisation(&said)).ok().map(|org| org.id)
    }

    fn refresh(&self, org: OrgId) -> Fut<'_, ()> {
        Box::pin(async move {
            let (pending, mut answered) = mpsc::channel::<Infallible>(1);
            // A full queue means that issuers are being asked as it is.
            if self.asks.try_send(RefreshAsk { org, pending }).is_ok() {
                let _ = tokio::time::timeout(PATIENCE, answered.recv()).await;
            }
        })
    }
}

fn invalid(why: &'static str) -> TokenError {
    TokenError::Invalid(why.to_owned())
}

/// The name of the key that it is signed with. By what algorithm is the key's to say, not the token's.
fn key_name(token: &str) -> Result<String, TokenError> {
    let header = decode_header(token).map_err(|_| invalid("The token cannot be read"))?;
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256) {
        return Err(invalid("The token must be signed with RS256 or ES256"));
    }
    // Access tokens have a type of their own (RFC 9068, 2.1), with or without the prefix (RFC 7515, 4.1.9).
    let known = |t: &str| ["JWT", "at+jwt", "application/at+jwt"].iter().any(|k| t.eq_ignore_ascii_case(k));
    if header.typ.is_some_and(|t| !known(&t)) || header.crit.is_some() {
        return Err(invalid("The token must be of type JWT or at+jwt, without critical extensions"));
    }
    header.kid.ok_or_else(|| invalid("The token names no key (kid)"))
}

/// Claims that nobody vouches for yet: only to know whose keys to look among.
fn unverified(token: &str) -> Result<Map<String, Value>, TokenError> {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    claims.and_then(|json| serde_json::from_slice(&json).ok()).ok_or_else(|| invalid("The token cannot be read"))
}

/// Keys of that name: those written down, then those of each issuer.
type Candidates<'a> = Vec<(Option<(Arc<str>, Arc<IssuerKeys>)>, &'a PublicKey)>;

fn candidates_in<'a>(
    inline: &'a KeySet,
    uris: impl Iterator<Item = &'a Arc<str>>,
    sets: &'a IssuerSets,
    kid: &'a str,
) -> Candidates<'a> {
    let mut found: Candidates<'a> = inline.named(kid).map(|key| (None, key)).collect();
    for uri in uris {
        let Some(set) = sets.get(uri) else { continue };
        found.extend(set.keys.named(kid).map(|key| (Some((uri.clone(), set.clone())), key)));
    }
    found
}

fn verify(
    snapshot: &Snapshot,
    sets: &IssuerSets,
    token: &str,
    hash: &KeyHash,
    now: Timestamp,
) -> Result<VerifiedToken, TokenError> {
    let kid = key_name(token)?;
    let said = unverified(token)?;
    let org: &Arc<Org> = token::organisation(snapshot, Claims::organisation(&said))?;
    let trust = org.trust.as_ref().ok_or(TokenError::Forbidden("The organisation of the token accepts none"))?;
    let keys = candidates_in(&trust.inline, trust.uris.iter(), sets, &kid);
    if keys.is_empty() {
        return Err(TokenError::UnknownKey(org.id));
    }
    let mut why = invalid("The token's signature is not valid");
    let mut proven = None;
    for (set, key) in keys {
        let Some(claims) = signed_by(token, key) else { continue };
        let claims = Claims::read(&claims)?;
        // Issuers may share a key: one of those that have it must take the token for its own.
        let own = set.as_ref().and_then(|(_, published)| published.issuer.as_deref());
        match trust.check(set.as_ref().map(|(uri, _)| &**uri), own, claims.issue()) {
            Ok(()) => {
                proven = Some((set, claims));
                break;
            }
            Err(wrong) => why = wrong.into(),
        }
    }
    let (set, claims) = proven.ok_or(why)?;
    claims.check_time(now)?;
    if token::is_barred(&claims, org) {
        return Err(TokenError::Forbidden("The person of the token is not active in the organisation"));
    }
    let workspace = token::workspace(snapshot, org, &claims)?;
    let key = Arc::new(token::key(org, workspace, &claims, hash));
    Ok(VerifiedToken { org: org.id, workspace: workspace.id, trust: trust.clone(), set, key, claims })
}
