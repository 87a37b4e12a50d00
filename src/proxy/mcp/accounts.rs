//! Servers that are called in the name of the person who calls: with a token of theirs, asked for on the control
//! runtime where it is not at hand, and renewed once where the server does not take it. Who has none hears where to
//! connect an account; the token itself is seen by nobody but the server.

use super::target::McpTarget;
use super::upstream::{UpstreamAsk, UpstreamCalls};
use crate::clock;
use crate::metrics::Metrics;
use crate::proxy::request::Tenant;
use crate::upstream::Pass;
use crate::upstream::http1::Response;
use gateway_admin::{
    AccountToken, App, ConnectFor, NoAccountToken, RenewalCounts, WantedSyncs, account_token, connect_url,
    lapse_account,
};
use gateway_domain::id::{OrgId, UserId, WorkspaceId};
use gateway_domain::ports::McpAccountId;
use gateway_domain::snapshot::McpUpstream;
use gateway_mcp::RpcError;
use gateway_mcp::challenge::BearerChallenge;
use http::{HeaderValue, header};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long a token that is not at hand is waited for, another node's renewal included.
const WITHIN: Duration = Duration::from_secs(15);
/// The pause between two looks at what another node renews.
const LOOK: Duration = Duration::from_millis(100);
const SIGN_IN_AWAY: &str = "The gateway cannot sign in at the MCP server";
/// What somebody without an account is told, as a code of the gateway's own.
const NOT_CONNECTED: i64 = 403;

/// The person in whose name a server that has people's accounts is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallingPerson {
    pub(super) org: OrgId,
    pub(super) workspace: WorkspaceId,
    /// `None`: the key is of no person.
    pub(super) user: Option<UserId>,
}

impl CallingPerson {
    pub(super) fn of(tenant: &Tenant) -> Self {
        let user = tenant.key.owner.map(UserId);
        Self { org: tenant.org.id, workspace: tenant.workspace.id, user }
    }

    /// What keeps one person's lists from another's: the id of the person, or nothing where the key is of no person.
    pub(super) fn name(self) -> Arc<str> {
        self.user.map_or_else(String::new, |user| user.to_string()).into()
    }
}

/// Finds tokens of people.
pub(crate) struct McpPeople {
    app: App,
    runtime: Handle,
}

impl McpPeople {
    pub(crate) const fn new(app: App, runtime: Handle) -> Self {
        Self { app, runtime }
    }

    pub(super) fn wanted_syncs(&self) -> Option<&WantedSyncs> {
        self.app.wanted_syncs.as_deref()
    }

    /// What is at hand of accounts on this node, and how renewals went.
    pub(crate) fn watch(&self, metrics: &Metrics) -> Result<(), prometheus::Error> {
        let kept = self.app.kept_accounts.clone();
        let help = "Accounts of people at MCP servers whose token is at hand on this node, 8,192 at most";
        metrics.watch("gateway_mcp_accounts_at_hand", help, move || kept.len() as u64)?;
        let documents = self.app.client_documents.clone();
        let help = "Documents of OAuth clients that this node keeps, 512 at most";
        metrics.watch("gateway_oauth_client_documents", help, move || documents.load(Ordering::Relaxed))?;
        type Read = fn(&RenewalCounts) -> &AtomicU64;
        let counted: [(&str, &str, Read); 3] = [
            (
                "gateway_mcp_account_renewals",
                "Tokens of accounts at MCP servers that were renewed since the start",
                |c| &c.renewed,
            ),
            ("gateway_mcp_account_renewals_denied", "Those that a server did not renew: people connect anew", |c| {
                &c.denied
            }),
            ("gateway_mcp_account_renewals_failed", "Those that could not be asked for, to be tried again", |c| {
                &c.failed
            }),
        ];
        for (name, help, read) in counted {
            let kept = self.app.kept_accounts.clone();
            metrics.watch(name, help, move || read(&kept.renewals).load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// What lets a person in there, if it is at hand.
    pub(super) fn ready(&self, person: CallingPerson, upstream: &McpUpstream) -> Option<HeaderValue> {
        let id = McpAccountId { integration: upstream.id, user: person.user? };
        self.app.kept_accounts.ready(id, &upstream.url, clock::now()).map(|token| token.header)
    }

    async fn token(
        &self,
        id: McpAccountId,
        server: &str,
        refused: Option<i64>,
    ) -> Result<AccountToken, NoAccountToken> {
        if refused.is_none()
            && let Some(ready) = self.app.kept_accounts.ready(id, server, clock::now())
        {
            return Ok(ready);
        }
        let (app, server) = (self.app.clone(), server.to_owned());
        // Beside the workers, and to its end though the caller leaves: what was spent for a new token must be kept.
        let asking = self.runtime.spawn(async move {
            let began = Instant::now();
            loop {
                match account_token(&app, id, &server, refused).await {
                    Err(NoAccountToken::Renewing) if began.elapsed() < WITHIN => tokio::time::sleep(LOOK).await,
                    told => return told,
                }
            }
        });
        asking.await.unwrap_or_else(|_| Err(NoAccountToken::Away("the process takes leave".to_owned())))
    }

    /// The account is over when this returns: who is sent to connect it anew does not call with it meanwhile.
    async fn lapse(&self, id: McpAccountId, version: i64) {
        let app = self.app.clone();
        // The task runs to its end though the caller leaves; if the process takes leave, the next one finds out itself.
        let _ = self.runtime.spawn(async move { lapse_account(&app, id, version).await }).await;
    }
}

impl UpstreamCalls<'_> {
    /// Opens a response like [`Self::open`], in the name of a person.
    pub(super) async fn open_for(
        &self,
        person: CallingPerson,
        ask: &UpstreamAsk,
        silence: Duration,
    ) -> Result<Response, RpcError> {
        let away = || RpcError::own(502, SIGN_IN_AWAY);
        let people = self.state.people().ok_or_else(away)?;
        let Some(user) = person.user else { return Err(not_connected(self.target, None)) };
        let (upstream, connect) = (&self.target.upstream, |scope: Option<&str>| {
            let whose =
                ConnectFor { org: person.org, workspace: person.workspace, user, integration: self.target.upstream.id };
            not_connected(self.target, connect_url(&people.app, whose, scope))
        });
        let id = McpAccountId { integration: upstream.id, user };
        let refused = |why: NoAccountToken| match why {
            NoAccountToken::NotConnected => connect(None),
            NoAccountToken::Renewing | NoAccountToken::Away(_) => away(),
        };
        let first = people.token(id, &upstream.url, None).await.map_err(refused)?;
        let mut token = first;
        let mut response = self.sent(ask, silence, Some(&Pass::Header(token.header.clone()))).await?;
        if response.status() == 401 {
            response.discard(self.pool()).await;
            token = people.token(id, &upstream.url, Some(token.version)).await.map_err(refused)?;
            response = self.sent(ask, silence, Some(&Pass::Header(token.header.clone()))).await?;
            if response.status() == 401 {
                response.discard(self.pool()).await;
                people.lapse(id, token.version).await;
                return Err(connect(None));
            }
        }
        if response.status() == 403 {
            let values = response.head().headers().get_all(header::WWW_AUTHENTICATE).iter();
            let challenge = BearerChallenge::read(values.filter_map(|value| value.to_str().ok()));
            if let Some(challenge) = challenge.filter(BearerChallenge::wants_scope) {
                response.discard(self.pool()).await;
                let lacked = challenge.scope.as_deref().unwrap_or_default();
                if token.was_asked_in_vain(lacked, clock::now()) {
                    return Err(asked_in_vain(self.target));
                }
                return Err(connect(Some(lacked)));
            }
        }
        Ok(response)
    }
}

/// The error where a person has no account, with the place to connect one if there is a person who can.
fn not_connected(target: &McpTarget, url: Option<String>) -> RpcError {
    let server = &target.server.slug;
    match url {
        Some(url) => {
            let told = format!("Connect an account of yours at the MCP server `{server}` first");
            RpcError::new(200, NOT_CONNECTED, told).data(json!({"authorization_url": url}))
        }
        None => {
            let told = format!("The MCP server `{server}` is called with accounts of people, and this key is of none");
            RpcError::new(200, NOT_CONNECTED, told)
        }
    }
}

/// Somebody who signed in for a scope again and again is not sent there once more.
fn asked_in_vain(target: &McpTarget) -> RpcError {
    let server = &target.server.slug;
    let told = format!("The MCP server `{server}` refuses the account for want of a scope that was asked for before");
    RpcError::new(200, NOT_CONNECTED, told)
}

/// Whether it says that a token cannot be had now, which is no fault of the server that it is for.
pub(super) fn is_sign_in_away(error: &RpcError) -> bool {
    *error.message == *SIGN_IN_AWAY
}

/// Whether it says that there is no account to call with.
pub(super) fn is_not_connected(error: &RpcError) -> bool {
    error.status == 200 && error.code == NOT_CONNECTED
}

/// Where somebody connects one.
pub(super) fn place_to_connect(error: &RpcError) -> Option<&str> {
    error.data.as_ref()?.get("authorization_url")?.as_str()
}
