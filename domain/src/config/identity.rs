//! What a target is, apart from how it is used: two states of a config mean the same target by it. Credentials count as
//! they are and not as they are sealed, which differs each time.

use super::breaker::BreakerRules;
use super::tree::{Leaf, ProviderRef};
use sha2::{Digest, Sha256};

/// Who answers for a target, and by which rules it is judged.
pub(super) fn identity(leaf: &Leaf, rules: &BreakerRules) -> [u8; 16] {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    match &leaf.provider {
        ProviderRef::Managed(slug) => {
            part("managed");
            part(slug);
        }
        ProviderRef::Family { slug, key } => {
            part("family");
            part(slug);
            part(key.as_ref().map_or("", |key| key.expose()));
        }
        ProviderRef::FromRequest => part("request"),
        ProviderRef::Passthrough => part("passthrough"),
    }
    for (name, value) in leaf.settings.iter() {
        part(name);
        part(value);
    }
    if let Some(prompt) = &leaf.prompt {
        part("prompt");
        part(prompt);
    }
    part(leaf.model.as_deref().unwrap_or_default());
    part(&format!("{:?} {rules:?}", leaf.custom_host));
    let digest: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| digest[i])
}
