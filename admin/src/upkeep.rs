//! What happens without being asked for: secrets are replaced when their policy says so, and the ones before end.
//! Each step is one write that looks again at what is due, so that any number of nodes may do it at once.

mod alerts;
mod prices;

pub use alerts::{Alert, alert};
pub(crate) use prices::own_card;
pub use prices::reprice;

use crate::app::App;
use crate::resource::api_key::rotation::{advance, due};
use crate::{mcp_account, oauth};

/// Does what is due, in a few writes at a time. To be called every minute or so by nodes that may write.
pub async fn maintain(app: &App) {
    const MOST: usize = 1_000;
    for key in due(app, app.now()).into_iter().take(MOST) {
        if let Err(problem) = advance(app, key).await {
            tracing::warn!(%key, message = problem.message, "the rotation of a key has to wait");
        }
    }
    if let Err(problem) = oauth::sweep(app, app.now()).await {
        tracing::warn!(message = problem.message, "sign-ins of clients that are over have to wait");
    }
    if let Err(problem) = mcp_account::sweep(app).await {
        tracing::warn!(message = problem.message, "accounts at MCP servers that are over have to wait");
    }
}
