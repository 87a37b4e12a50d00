//! The token of an account: read from its row, and renewed ahead of its end by one node of many. What was disconnected
//! elsewhere is let go of within seconds.

use super::endpoint::{Brought, NoTokens};
use super::issuer::{SignInWish, discover};
use super::tokens::HeldTokens;
use crate::account_cache::{AccountToken, FailedRenewal, due};
use crate::app::App;
use gateway_domain::ports::{McpAccount, McpAccountId, StoreError};
use std::sync::atomic::Ordering;

/// Longer than a token endpoint is waited for. After a renewal that failed nobody tries for the rest of it, while the
/// token that is there holds.
const CLAIM_MICROS: i64 = 20 * 1_000_000;
/// How long after a renewal failed others on this node are told so, instead of trying it again.
const FAILED_MICROS: i64 = 2 * 1_000_000;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAccountToken {
    NotConnected,
    /// Another node renews it: who asks again in a moment has it.
    Renewing,
    /// The rest of a sentence, for the operator.
    Away(String),
}

/// The token of an account for the server at this address. `refused`: the version that the server did not take.
pub async fn account_token(
    app: &App,
    id: McpAccountId,
    server: &str,
    refused: Option<i64>,
) -> Result<AccountToken, NoAccountToken> {
    let kept = &app.kept_accounts;
    let turn = kept.turn(id);
    let mut mine = turn.lock().await;
    let is_other = |ready: &AccountToken| refused.is_none_or(|version| ready.version != version);
    if let Some(ready) = kept.ready(id, server, app.now()).filter(is_other) {
        return Ok(ready);
    }
    let row = match app.accounts.account(id).await {
        Ok(row) => row.filter(McpAccount::is_connected),
        Err(error) => return kept.while_away(id, server, app.now(), refused).ok_or_else(|| away(&error)),
    };
    let held = row.as_ref().and_then(|row| HeldTokens::open(app, row)).filter(|held| held.server == server);
    let (Some(row), Some(held)) = (row, held) else {
        kept.forget(id);
        return Err(NoAccountToken::NotConnected);
    };
    let is_refused = refused == Some(row.version);
    if is_refused || due(&row).is_some_and(|due| app.now() >= due) {
        let lately = app.now().plus_micros(-FAILED_MICROS);
        if let Some(failed) = mine.as_ref().filter(|failed| failed.version == row.version && failed.at > lately) {
            return Err(NoAccountToken::Away(failed.why.clone()));
        }
        let told = renewed(app, &row, &held, is_refused).await;
        *mine = match &told {
            Err(NoAccountToken::Away(why)) => {
                Some(FailedRenewal { version: row.version, at: app.now(), why: why.clone() })
            }
            _ => None,
        };
        return told;
    }
    keep(app, &row, &held)
}

/// Nothing of this version is good any more, whatever the server says of it.
pub async fn lapse_account(app: &App, id: McpAccountId, version: i64) {
    app.kept_accounts.forget(id);
    if let Err(error) = app.accounts.lapse_account(id, version, app.now()).await {
        tracing::warn!(%error, "an account whose tokens are over could not be marked");
    }
}

async fn renewed(
    app: &App,
    row: &McpAccount,
    held: &HeldTokens,
    is_refused: bool,
) -> Result<AccountToken, NoAccountToken> {
    let (now, counts) = (app.now(), &app.kept_accounts.renewals);
    let still_good = !is_refused && (row.expires_at.micros() == 0 || now < row.expires_at);
    if held.refresh.is_none() {
        if still_good {
            return keep(app, row, held);
        }
        lapse_account(app, row.id, row.version).await;
        return Err(NoAccountToken::NotConnected);
    }
    let claimed = now.plus_micros(CLAIM_MICROS);
    match app.accounts.claim_renewal(row.id, row.version, now, claimed).await {
        Ok(true) => {}
        _ if still_good => return keep(app, row, held),
        Ok(false) => return Err(NoAccountToken::Renewing),
        Err(error) => return Err(away(&error)),
    }
    match held.renew(app).await {
        Ok(brought) => {
            counts.renewed.fetch_add(1, Ordering::Relaxed);
            store(app, row, held, brought).await
        }
        Err(NoTokens::Denied | NoTokens::UnknownClient) => {
            counts.denied.fetch_add(1, Ordering::Relaxed);
            lapse_account(app, row.id, row.version).await;
            Err(NoAccountToken::NotConnected)
        }
        Err(NoTokens::Failed(why)) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(why, "an account at an MCP server could not be renewed");
            // Others wait for whoever claimed it: nobody may once nothing is good any more.
            let until = if still_good { claimed.min(row.expires_at) } else { app.now() };
            if let Err(error) = app.accounts.postpone_renewal(row.id, row.version, claimed, until).await {
                tracing::warn!(%error, "the claim to renew an account could not be given back");
            }
            if still_good {
                return keep(app, row, held);
            }
            if has_moved(app, held).await {
                lapse_account(app, row.id, row.version).await;
                return Err(NoAccountToken::NotConnected);
            }
            Err(NoAccountToken::Away(why))
        }
    }
}

/// Whether the server has people sign in elsewhere now: what the issuer of before gave is over then.
async fn has_moved(app: &App, held: &HeldTokens) -> bool {
    discover(app, &held.server, SignInWish::default()).await.is_ok_and(|found| found.issuer != held.issuer)
}

async fn store(
    app: &App,
    row: &McpAccount,
    held: &HeldTokens,
    brought: Brought,
) -> Result<AccountToken, NoAccountToken> {
    let cannot = || NoAccountToken::Away("a renewed token cannot be kept".to_owned());
    let access = brought.access_token.clone();
    let tokens = held.clone().sealed_with(app, brought).ok_or_else(cannot)?;
    let now = app.now();
    let (version, expires_at) = (row.version + 1, tokens.expires_at);
    let renewed = McpAccount { version, expires_at, updated_at: now, ..row.clone() };
    if !app.accounts.renew_account(row.id, row.version, &tokens, now).await.map_err(|e| away(&e))? {
        // Disconnected meanwhile, or connected anew.
        return Err(NoAccountToken::Renewing);
    }
    keep(app, &renewed, &HeldTokens { access, ..held.clone() })
}

fn keep(app: &App, row: &McpAccount, held: &HeldTokens) -> Result<AccountToken, NoAccountToken> {
    let kept = app.kept_accounts.keep(row, &held.sent(), app.now());
    kept.ok_or_else(|| NoAccountToken::Away("a token cannot be sent".to_owned()))
}

fn away(error: &StoreError) -> NoAccountToken {
    NoAccountToken::Away(format!("accounts cannot be read now: {error}"))
}
