//! What the rest of the house may know of a provider without knowing its dialect.
//! The rows live in the `providers` crate; the snapshot only asks through [`Catalog`].

use crate::operation::Dialect;

/// How a provider wants its credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStyle {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// The bare key in a header, `x-api-key` for example.
    Header(&'static str),
    /// `<scheme> <key>` in `Authorization`, `Key` for example.
    Scheme(&'static str),
    /// `Bearer <key>` in a header that is not `Authorization`.
    BearerIn(&'static str),
    /// `Bearer <key>`, and beside it what kind of token that is ([`crate::cloud::snowflake_token_type`]).
    Snowflake,
    None,
}

/// One provider, as data.
#[derive(Clone, Copy, Debug)]
pub struct ProviderInfo {
    pub slug: &'static str,
    pub name: &'static str,
    /// Without a trailing slash; `None` when only a custom host can tell (Ollama, Qdrant).
    pub base_url: Option<&'static str>,
    pub auth: AuthStyle,
    /// What its chat endpoint speaks.
    pub dialect: Dialect,
}

pub trait Catalog: Send + Sync {
    fn provider(&self, slug: &str) -> Option<&'static ProviderInfo>;
    fn providers(&self) -> Vec<&'static ProviderInfo>;
}
