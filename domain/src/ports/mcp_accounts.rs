//! Accounts of people at MCP servers: with what the gateway calls a server in somebody's name. They have a table of
//! their own and are no part of the configuration, since they change whenever a token is renewed.

use super::{Fut, StoreError};
use crate::Timestamp;
use crate::id::{McpIntegrationId, OrgId, UserId};

/// One person's account behind one integration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct McpAccountId {
    pub integration: McpIntegrationId,
    pub user: UserId,
}

/// A stored account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpAccount {
    pub id: McpAccountId,
    pub org: OrgId,
    /// Tokens and what they are renewed with. Empty: they are over, and the person has to connect anew.
    pub sealed: String,
    /// Grows whenever the tokens change.
    pub version: i64,
    /// When the access token ends; 0: nobody said.
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl McpAccount {
    pub const fn is_connected(&self) -> bool {
        !self.sealed.is_empty()
    }
}

/// Tokens as they come from a sign-in or a renewal.
#[derive(Clone, Debug)]
pub struct SealedTokens {
    pub sealed: String,
    pub expires_at: Timestamp,
}

/// The gateway as a client of somebody else's authorisation server, where it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerClient {
    pub org: OrgId,
    pub issuer: String,
    pub sealed: String,
}

/// Which accounts a page tells of.
#[derive(Clone, Copy, Debug)]
pub struct AccountsAsked<'a> {
    pub org: OrgId,
    /// Accounts of these integrations alone.
    pub integrations: &'a [McpIntegrationId],
    /// Accounts of these people alone.
    pub users: &'a [UserId],
    pub skip: u64,
    pub most: u32,
}

/// Some of the accounts that were asked for, ordered by user, then by integration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountPage {
    pub rows: Vec<McpAccount>,
    /// How many accounts there are on all pages together.
    pub total: u64,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpAccountRows {
    pub connected: u64,
    /// Accounts whose tokens are over.
    pub lapsed: u64,
    /// Registrations of the gateway's own.
    pub clients: u64,
}

pub trait McpAccounts: Send + Sync {
    /// Stores an account in place of the one before, if any. False where the organisation has `most` others already.
    fn connect_account<'a>(
        &'a self,
        id: McpAccountId,
        org: OrgId,
        tokens: &'a SealedTokens,
        now: Timestamp,
        most: u64,
    ) -> Fut<'a, Result<bool, StoreError>>;
    fn account(&self, id: McpAccountId) -> Fut<'_, Result<Option<McpAccount>, StoreError>>;
    /// The one that was connected or renewed last and can be called with.
    fn newest_account(&self, integration: McpIntegrationId) -> Fut<'_, Result<Option<McpAccount>, StoreError>>;
    /// Accounts of one integration, in the order of their users, those behind the user `after`.
    fn accounts_of(
        &self,
        integration: McpIntegrationId,
        after: Option<UserId>,
        most: u32,
    ) -> Fut<'_, Result<Vec<McpAccount>, StoreError>>;
    fn accounts_page<'a>(&'a self, asked: AccountsAsked<'a>) -> Fut<'a, Result<AccountPage, StoreError>>;
    /// All there are, in the order of their ids.
    fn all_accounts(&self, after: Option<McpAccountId>, most: u32) -> Fut<'_, Result<Vec<McpAccount>, StoreError>>;
    /// Lets one of many that want to renew the tokens of this version do so, and no other before `until`: the refresh
    /// token can be spent only once. False: another does so, or the tokens are of another version by now.
    fn claim_renewal(
        &self,
        id: McpAccountId,
        version: i64,
        now: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<bool, StoreError>>;
    /// Whoever claimed a version up to `claimed` and brought nothing says until when nobody else is to try.
    fn postpone_renewal(
        &self,
        id: McpAccountId,
        version: i64,
        claimed: Timestamp,
        until: Timestamp,
    ) -> Fut<'_, Result<bool, StoreError>>;
    /// What a renewal brought. False: somebody was first, or the account is gone.
    fn renew_account<'a>(
        &'a self,
        id: McpAccountId,
        version: i64,
        tokens: &'a SealedTokens,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>>;
    /// Nothing of the tokens of this version is good any more.
    fn lapse_account(&self, id: McpAccountId, version: i64, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// What was there.
    fn remove_account(&self, id: McpAccountId) -> Fut<'_, Result<Option<McpAccount>, StoreError>>;

    fn server_client<'a>(&'a self, org: OrgId, issuer: &'a str)
    -> Fut<'a, Result<Option<McpServerClient>, StoreError>>;
    /// Stores a registration, in place of one at the same issuer. The organisation's oldest make room above `most`.
    fn keep_server_client<'a>(
        &'a self,
        client: &'a McpServerClient,
        now: Timestamp,
        most: u64,
    ) -> Fut<'a, Result<(), StoreError>>;
    fn forget_server_client<'a>(&'a self, org: OrgId, issuer: &'a str) -> Fut<'a, Result<(), StoreError>>;

    fn account_rows(&self) -> Fut<'_, Result<McpAccountRows, StoreError>>;
}
