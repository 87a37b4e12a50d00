//! Access tokens that the gateway issued itself, at the door of MCP servers: the signature is checked once and
//! remembered, the grant behind it is looked up in the snapshot each time, so that what was taken back opens nothing
//! from then on. Waits for nothing.

use gateway_admin::{AccessToken, BadAccessToken, read_access_token};
use gateway_domain::Timestamp;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::Revision;
use gateway_domain::snapshot::{Key, Snapshot};
use gateway_domain::token::{self, Token};
use quick_cache::sync::Cache;
use std::sync::Arc;

/// Tokens whose signature is known to be good.
const VERIFIED: usize = 16_384;

pub(crate) struct OwnTokens {
    verified: Cache<KeyHash, Arc<AccessToken>>,
}

/// Why a token opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTokenError {
    /// Others may know it.
    Foreign,
    Invalid(&'static str),
    /// This node has not heard of it yet.
    Ahead(Revision),
}

impl Default for OwnTokens {
    fn default() -> Self {
        Self { verified: Cache::new(VERIFIED) }
    }
}

impl std::fmt::Debug for OwnTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnTokens").field("verified", &self.verified.len()).finish()
    }
}

impl OwnTokens {
    /// Whether this token was good before.
    pub(crate) fn knows(&self, hash: &KeyHash) -> bool {
        self.verified.peek(hash).is_some()
    }

    /// What it stands for now.
    pub(crate) fn key(
        &self,
        issuer: Option<&str>,
        snapshot: &Snapshot,
        (text, hash): (&str, &KeyHash),
        now: Timestamp,
    ) -> Result<Arc<Key>, OwnTokenError> {
        let Some(issuer) = issuer else { return Err(OwnTokenError::Foreign) };
        let stands =
            |known: &Arc<AccessToken>| known.expires_at > now && snapshot.signing_key(known.signed_by).is_some();
        let token = match self.verified.get(hash).filter(stands) {
            Some(known) => known,
            None => {
                let read = read_access_token(snapshot, issuer, text, now).map_err(|why| match why {
                    BadAccessToken::Foreign => OwnTokenError::Foreign,
                    BadAccessToken::Wrong(told) => OwnTokenError::Invalid(told),
                })?;
                let read = Arc::new(read);
                self.verified.insert(*hash, read.clone());
                read
            }
        };
        let gone = OwnTokenError::Invalid("What the token was issued for has ended");
        let Some(grant) = snapshot.grant(token.grant) else {
            let is_ahead = token.known_from > snapshot.revision;
            return Err(if is_ahead { OwnTokenError::Ahead(token.known_from) } else { gone });
        };
        let mut key = token::granted(snapshot, grant, token.scopes).ok_or(gone)?;
        let own = key.token.as_deref().ok_or(gone)?;
        key.token = Some(Arc::new(Token {
            limits: Vec::new(),
            audience: vec![token.audience.clone()],
            mcp: own.mcp,
            grant: own.grant,
            server: None,
        }));
        Ok(Arc::new(key))
    }
}
