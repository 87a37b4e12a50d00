//! What an answer says of its bill beside the counts: its tier, and what the provider charged.

use gateway_domain::Usage;
use gateway_domain::usage::ServiceTier;

/// Keeps the cost that an answer names only of those whose figure is what was paid: OpenRouter
/// (<https://openrouter.ai/docs/use-cases/usage-accounting>) and Perplexity
/// (<https://docs.perplexity.ai/guides/pricing>). Anybody else's is left aside.
pub(crate) fn filter_reported_cost(slug: &str, usage: Option<Usage>) -> Option<Usage> {
    let mut usage = usage?;
    if !matches!(slug, "openrouter" | "perplexity-ai") {
        usage.detail.told = None;
    }
    Some(usage)
}

/// The tier that an answer says it was served at, as it stands in its JSON.
pub(crate) fn served(tier: Option<&str>, usage: Option<Usage>) -> Option<Usage> {
    let mut usage = usage?;
    if let Some(name) = tier.and_then(|tier| tier.strip_prefix('"')?.strip_suffix('"')) {
        usage.detail.tier = ServiceTier::named(name);
    }
    Some(usage)
}
