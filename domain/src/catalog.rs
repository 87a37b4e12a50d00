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
    /// The address of its API without a trailing slash; `None` when only a custom host can tell (Ollama, Qdrant).
    pub base_url: Option<&'static str>,
    pub auth: AuthStyle,
    /// What its chat endpoint speaks.
    pub dialect: Dialect,
}

/// A service that its provider ended for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedService {
    pub day: &'static str,
    /// Where that is written, and what is left.
    pub says: &'static str,
}

/// The end of a family's service, where a page of its provider's own tells the day. Calls go up all the same: nobody
/// here knows better than the address itself, and a custom host may be of somebody who still serves it.
pub fn ended(slug: &str) -> Option<&'static EndedService> {
    match slug {
        "anyscale" => Some(&EndedService {
            day: "2024-08-01",
            says: "Anyscale ended its shared endpoints on 2024-08-01 \
                   (https://docs.anyscale.com/endpoints/text-generation/query-a-model); a service of one's own there is \
                   reached by a custom host",
        }),
        "palm" => Some(&EndedService {
            day: "2024-08-15",
            says: "the PaLM API was shut down on 2024-08-15 (https://ai.google.dev/palm_docs/deprecation); `google` and \
                   `vertex-ai` serve its successors",
        }),
        _ => None,
    }
}

pub trait Catalog: Send + Sync {
    fn provider(&self, slug: &str) -> Option<&'static ProviderInfo>;
    fn providers(&self) -> Vec<&'static ProviderInfo>;
}
