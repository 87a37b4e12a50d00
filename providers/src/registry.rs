//! Which providers there are: the rows of [`crate::compat`] and those with a dialect of their own.

use crate::adapter::Adapter;
use crate::anthropic::Anthropic;
use crate::azure::{AzureAi, AzureOpenAi};
use crate::bedrock::Bedrock;
use crate::bedrock::mantle::Mantle;
use crate::claude_aws::ClaudeOnAws;
use crate::cohere::Cohere;
use crate::compat;
use crate::gemini::Gemini;
use crate::perplexity::Perplexity;
use crate::sagemaker::SageMaker;
use crate::vertex::Vertex;
use gateway_domain::catalog::{Catalog, ProviderInfo};

/// Providers that are no row.
pub(crate) static OWN: &[&dyn Adapter] = &[
    &Anthropic::HOME,
    &AzureAi,
    &AzureOpenAi,
    &Bedrock,
    &ClaudeOnAws,
    &Cohere,
    &Gemini,
    &Mantle,
    &Perplexity,
    &SageMaker,
    &Vertex,
];

/// The adapter of a provider family.
pub fn adapter(slug: &str) -> Option<&'static dyn Adapter> {
    let own = OWN.iter().copied().find(|adapter| adapter.info().slug == slug);
    own.or_else(|| compat::row(slug).map(|row| row as &dyn Adapter))
}

/// Every provider, as the lower floor may know it.
pub fn catalog() -> &'static dyn Catalog {
    &Providers
}

struct Providers;

impl Catalog for Providers {
    fn provider(&self, slug: &str) -> Option<&'static ProviderInfo> {
        adapter(slug).map(Adapter::info)
    }

    fn providers(&self) -> Vec<&'static ProviderInfo> {
        let mut all: Vec<_> = OWN.iter().map(|a| a.info()).chain(compat::ROWS.iter().map(|row| &row.info)).collect();
        all.sort_unstable_by_key(|info| info.slug);
        all
    }
}
