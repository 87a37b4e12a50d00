//! What the gateway's own authorisation server must know on every node at once, beside the grants themselves: which
//! codes were spent, which refresh token of a grant is the newest, and which clients have registered. Tokens and codes
//! are in none of it.

use super::{Fut, StoreError};
use crate::id::{GrantId, OrgId};
use crate::time::Timestamp;

/// A code on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthCode {
    /// A digest of it.
    pub id: String,
    pub grant: GrantId,
    pub org: OrgId,
    /// What it must be exchanged with, as the server writes it.
    pub asked: String,
    pub expires_at: Timestamp,
}

/// A code that somebody brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentCode {
    pub code: OauthCode,
    /// How often it was brought by now: only the first gets anything.
    pub uses: i64,
}

/// What becomes of a refresh token that somebody brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshTurn {
    /// It was the newest, and the next one is now.
    Turned,
    /// An older one, or one that was turned at the same time: somebody else has it too.
    Reused,
    /// The grant is over.
    Gone,
}

/// A client that registered by itself (RFC 7591).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthClient {
    pub id: String,
    /// JSON, as the server writes it.
    pub metadata: String,
    pub created_at: Timestamp,
}

/// A grant whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedGrant {
    pub grant: GrantId,
    pub org: OrgId,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OauthRows {
    pub clients: u64,
    pub grants: u64,
    pub codes: u64,
}

pub trait OauthStore: Send + Sync {
    /// A grant begins with its code: both are over when the code is, unless it is exchanged.
    fn begin_grant<'a>(&'a self, code: &'a OauthCode) -> Fut<'a, Result<(), StoreError>>;
    /// Counts that it was brought, whatever comes of it. `None`: there is no such code.
    fn spend_code<'a>(&'a self, id: &'a str) -> Fut<'a, Result<Option<SpentCode>, StoreError>>;
    /// The refresh token of this number is brought (0: the code); the next one is good until `until`.
    fn turn_grant(
        &self,
        grant: GrantId,
        number: i64,
        now: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<RefreshTurn, StoreError>>;
    /// No refresh token of it is good any more; false where none was.
    fn end_grant(&self, grant: GrantId) -> Fut<'_, Result<bool, StoreError>>;
    /// The first that are over.
    fn ended_grants(&self, now: Timestamp, most: u32) -> Fut<'_, Result<Vec<EndedGrant>, StoreError>>;
    /// Codes that were over before; some at a time, and how many went.
    fn forget_codes(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;

    /// False where there are `most` already. The oldest that nobody signed in with, and that registered before
    /// `idle_before`, makes room.
    fn add_client<'a>(
        &'a self,
        client: &'a OauthClient,
        most: u64,
        idle_before: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>>;
    fn client<'a>(&'a self, id: &'a str) -> Fut<'a, Result<Option<OauthClient>, StoreError>>;
    /// Somebody signs in with it, or stays signed in.
    fn use_client<'a>(&'a self, id: &'a str, now: Timestamp) -> Fut<'a, Result<(), StoreError>>;
    /// Clients that were neither made nor used since; some at a time, and how many went.
    fn forget_clients(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;

    fn oauth_rows(&self) -> Fut<'_, Result<OauthRows, StoreError>>;
}
