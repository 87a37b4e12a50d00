//! Accounts of people at MCP servers that sign people in by themselves (`oauth_auto`): where a server has them sign in,
//! as which client the gateway asks there, and the tokens that come of it. Tokens stay between this module, the sealed
//! rows and the server that they are for: whoever calls that server is handed a header.

mod client;
mod endpoint;
mod issuer;
mod link;
mod removal;
mod renewal;
mod tokens;

pub(crate) use client::{AccountClient, client_at, client_document, redirect_uri};
pub(crate) use endpoint::{Brought, NoTokens, exchange};
pub(crate) use issuer::{AccountIssuer, AskedBefore, SignInWish, discover};
pub(crate) use link::ConnectLink;
pub use link::{ConnectFor, connect_url};
pub(crate) use removal::{forget_integration, remove, sweep};
pub use renewal::{NoAccountToken, account_token, lapse_account};
pub(crate) use tokens::HeldTokens;
