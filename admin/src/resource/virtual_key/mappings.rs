//! How virtual keys name what is filled from secret references: `model_config.awsRegion` for what integrations call
//! `configurations.aws_region`. What a mapping means is not known here.

use super::azure;
use serde_json::Value;

const THEIRS: &str = "model_config.";
const OURS: &str = "configurations.";

/// Gives mappings the target names of integrations, which refuse what cannot be read.
pub(super) fn inward(mut given: Value) -> Value {
    each(&mut given, |target| target.strip_prefix(THEIRS).map(|name| format!("{OURS}{}", snake(name))));
    given
}

/// Gives mappings the target names that clients of virtual keys know.
pub(super) fn outward(mut shown: Value) -> Value {
    each(&mut shown, |target| target.strip_prefix(OURS).map(|name| format!("{THEIRS}{}", camel(name))));
    shown
}

fn each(mappings: &mut Value, rename: impl Fn(&str) -> Option<String>) {
    for mapping in mappings.as_array_mut().into_iter().flatten() {
        if let Some(target) = mapping.get_mut("target_field")
            && let Some(name) = target.as_str().and_then(&rename)
        {
            *target = name.into();
        }
    }
}

fn snake(name: &str) -> String {
    if let Some((_, setting)) = azure::NAMES.iter().find(|(theirs, _)| *theirs == name) {
        return (*setting).to_owned();
    }
    // Names of headers stand behind the first dot, as they are.
    let (word, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
    let mut out = String::with_capacity(name.len() + 4);
    for c in word.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out + rest
}

fn camel(name: &str) -> String {
    if let Some((theirs, _)) = azure::NAMES.iter().find(|(_, setting)| *setting == name) {
        return (*theirs).to_owned();
    }
    let (word, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
    let mut parts = word.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    let joined = parts.fold(first, |mut out, part| {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out + chars.as_str()
    });
    joined + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_go_in_and_come_out() {
        let pairs = [
            ("key", "key"),
            ("model_config.awsSecretAccessKey", "configurations.aws_secret_access_key"),
            ("model_config.apiVersion", "configurations.azure_api_version"),
            ("model_config.customHeaders.x-api_key", "configurations.custom_headers.x-api_key"),
        ];
        for (theirs, ours) in pairs {
            let of = |target: &str| json!([{ "target_field": target, "secret_reference_id": "s" }]);
            assert_eq!(inward(of(theirs)), of(ours));
            assert_eq!(outward(of(ours)), of(theirs));
        }
        assert_eq!(inward(json!("no list")), json!("no list"));
    }
}
