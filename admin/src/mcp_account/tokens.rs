//! The tokens of one account, as they lie sealed in its row: with them everything that a renewal needs, so that it asks
//! nobody else.

use super::client::AccountClient;
use super::endpoint::{Brought, NoTokens, exchange, revoke};
use crate::account_cache::TokenSent;
use crate::app::App;
use crate::scope_challenges::AskedScope;
use gateway_domain::ports::{McpAccount, SealedTokens};
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Whatever it says of itself.
const LONGEST_SECONDS: u64 = 366 * 86_400;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HeldTokens {
    /// The server that they are for: an integration that leads elsewhere now has none.
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) client: AccountClient,
    pub(crate) resource: String,
    pub(crate) scope: Option<String>,
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    /// What the person was last sent for.
    #[serde(default)]
    pub(crate) asked: AskedScope,
}

impl HeldTokens {
    pub(crate) fn open(app: &App, row: &McpAccount) -> Option<Self> {
        let opened = app.vault.open(&row.sealed).ok()?;
        let mut held: Self = serde_json::from_str(opened.expose()).ok()?;
        // The secret of a client that somebody made may be another by now.
        let snapshot = app.live.snapshot();
        let known = snapshot.mcp_upstream(row.id.integration).and_then(|upstream| upstream.known_client.as_ref());
        let known = known.filter(|known| known.client_id == held.client.id && known.is_of(&held.issuer));
        if let Some(sealed) = known.and_then(|known| known.client_secret.as_ref()) {
            held.client.secret = app.vault.open(sealed).ok().map(|plain| plain.expose().clone()).or(held.client.secret);
        }
        Some(held)
    }

    /// The access token with the server that it is for, in the form that calls send it in.
    pub(crate) fn sent(&self) -> TokenSent<'_> {
        TokenSent { server: &self.server, access: &self.access, asked: &self.asked }
    }

    /// What its person was asked to allow; of accounts of earlier versions what they came to.
    pub(crate) fn asked_scope(&self) -> Option<&str> {
        self.asked.scope.as_deref().or(self.scope.as_deref())
    }

    /// Takes in what an endpoint brought. A renewal that brings no refresh token leaves the one before good (RFC 6749,
    /// 6).
    pub(crate) fn sealed_with(mut self, app: &App, brought: Brought) -> Option<SealedTokens> {
        let lives = brought.expires_in.map(|seconds| seconds.clamp(1, LONGEST_SECONDS));
        let micros = lives.and_then(|seconds| i64::try_from(seconds).ok()).map(|seconds| seconds * 1_000_000);
        self.access = brought.access_token;
        self.refresh = brought.refresh_token.or(self.refresh);
        self.scope = brought.scope.filter(|scope| scope.len() <= 2_000).or(self.scope);
        let plain = serde_json::to_string(&self).ok()?;
        let expires_at = micros.map_or(Timestamp(0), |micros| app.now().plus_micros(micros));
        Some(SealedTokens { sealed: app.vault.seal(&plain), expires_at })
    }

    pub(super) async fn renew(&self, app: &App) -> Result<Brought, NoTokens> {
        let refresh = self.refresh.as_deref().ok_or(NoTokens::Denied)?;
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("resource", self.resource.as_str())];
        exchange(app, &self.token_endpoint, &self.client, &form).await
    }

    /// Gives them back where the server takes that.
    pub(super) async fn revoke(&self, app: &App) {
        let Some(endpoint) = &self.revocation_endpoint else { return };
        if let Some(refresh) = &self.refresh {
            revoke(app, endpoint, &self.client, ("refresh_token", refresh)).await;
        }
        revoke(app, endpoint, &self.client, ("access_token", &self.access)).await;
    }
}
