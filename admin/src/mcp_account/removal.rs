//! The end of accounts: with whoever takes them away, with their integration, and with their people. Tokens are given
//! back where the server takes that; the rows go whether it minds or not.

use super::tokens::HeldTokens;
use crate::app::App;
use crate::problem::Problem;
use futures_util::StreamExt as _;
use gateway_domain::id::McpIntegrationId;
use gateway_domain::ports::{McpAccount, McpAccountId};

/// Servers that are told at the same time.
const AT_ONCE: usize = 8;
/// Rows of one look.
const PAGE: u32 = 500;

/// True where there was one.
pub(crate) async fn remove(app: &App, id: McpAccountId) -> Result<bool, Problem> {
    let gone = app.accounts.remove_account(id).await?;
    app.kept_accounts.forget(id);
    let Some(row) = gone else { return Ok(false) };
    give_back(app, &row).await;
    Ok(true)
}

async fn give_back(app: &App, row: &McpAccount) {
    if let Some(held) = HeldTokens::open(app, row) {
        held.revoke(app).await;
    }
}

/// All accounts behind an integration that is gone.
pub(crate) async fn forget_integration(app: &App, integration: McpIntegrationId) -> Result<(), Problem> {
    loop {
        let some = app.accounts.accounts_of(integration, None, PAGE).await?;
        if some.is_empty() {
            return Ok(());
        }
        let all = futures_util::stream::iter(some).map(|row| async move { remove(app, row.id).await });
        let done: Vec<Result<bool, Problem>> = all.buffer_unordered(AT_ONCE).collect().await;
        for one in done {
            one?;
        }
    }
}

/// Looks at some accounts of all, and takes away those whose person or integration there is not any more.
pub(crate) async fn sweep(app: &App) -> Result<(), Problem> {
    let walked = &app.kept_accounts.walked;
    let from = *walked.lock();
    let some = app.accounts.all_accounts(from, PAGE).await?;
    *walked.lock() = some.last().map(|row| row.id);
    let snapshot = app.live.snapshot();
    for row in some {
        let has_person = snapshot.person(row.id.user).is_some_and(|person| person.org == row.org);
        let has_server = snapshot.mcp_upstream(row.id.integration).is_some_and(|upstream| upstream.org == row.org);
        // One that was connected a moment ago may be of a state that this node has not heard of.
        let is_old = app.now().micros().saturating_sub(row.updated_at.micros()) > 3_600 * 1_000_000;
        if is_old && !(has_person && has_server) {
            remove(app, row.id).await?;
        }
    }
    Ok(())
}
