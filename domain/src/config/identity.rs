//! What a target is, apart from how it is used: two states of a config mean the same target by it.

use super::breaker::Rules;
use super::read::Fields;
use crate::cloud;
use crate::egress::BaseUrl;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Who answers for a target, and by which rules it is judged.
pub(super) fn identity(
    fields: &Fields<'_>,
    overrides: &[(String, String)],
    custom_host: Option<&BaseUrl>,
    rules: &Rules,
) -> [u8; 16] {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    let answers = |key: &&str| matches!(*key, "provider" | "virtual_key" | "api_key") || cloud::setting(key).is_some();
    for key in fields.keys().filter(answers) {
        part(key.as_bytes());
        part(fields.get(key).map(Value::to_string).unwrap_or_default().as_bytes());
    }
    if let Some((_, model)) = overrides.iter().find(|(key, _)| key == "model") {
        part(model.as_bytes());
    }
    part(format!("{custom_host:?} {rules:?}").as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| digest[i])
}
