//! Names of models as clients write them.

/// `@slug/model` taken apart; the model may itself hold slashes.
pub fn split_model(model: &str) -> Option<(&str, &str)> {
    model.strip_prefix('@')?.split_once('/').filter(|(slug, rest)| !slug.is_empty() && !rest.is_empty())
}
