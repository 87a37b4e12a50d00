//! Secrets inside the checks of a guardrail: headers and credentials that they send, and the queries of addresses they
//! call. They are sealed on the way in, a mask is shown in their place, and a mask that comes back stands for the
//! secret that it was made from, as long as it is for the same service.

use crate::problem::{Problem, bad};
use gateway_domain::config::hooks::ADDRESSES;
use gateway_domain::ports::Vault;
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::secret::{MASK, mask};
use gateway_guardrails::partners::{CredentialField, credential_fields};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Checks with masks where secrets stood.
pub(super) struct SealedChecks {
    pub(super) checks: Value,
    pub(super) secrets: BTreeMap<String, String>,
}

#[derive(Clone, Copy)]
enum SecretForm {
    Text,
    Address,
}

impl SecretForm {
    fn mask(self, plain: &str) -> String {
        match self {
            Self::Text => mask(plain),
            Self::Address => format!("{}?{MASK}", plain.split('?').next().unwrap_or_default()),
        }
    }

    fn is_mask(self, text: &str) -> bool {
        match self {
            Self::Text => text.starts_with(MASK),
            Self::Address => text.split_once('?').is_some_and(|(_, query)| query == MASK),
        }
    }
}

/// Where a secret stands.
struct SecretSpot {
    check: usize,
    /// JSON Pointer (RFC 6901) below the check.
    below: String,
    form: SecretForm,
}

impl SecretSpot {
    fn pointer(&self) -> String {
        format!("/{}{}", self.check, self.below)
    }

    /// What messages call the place: `checks[0].parameters.url`.
    fn field(&self) -> String {
        let path = self.below.replace('/', ".").replace("~1", "/").replace("~0", "~");
        format!("checks[{}]{path}", self.check)
    }
}

/// `before`: the stored guardrail, whose secrets a mask may stand for.
pub(super) fn seal(
    mut checks: Value,
    before: Option<&GuardrailDocument>,
    vault: &dyn Vault,
) -> Result<SealedChecks, Problem> {
    let mut secrets = BTreeMap::new();
    for spot in spots(&checks) {
        let Some(given) = checks.pointer(&spot.pointer()).and_then(written) else { continue };
        let (at_rest, shown) = match spot.form.is_mask(&given) {
            true => (kept(&spot, &given, &checks, before, vault)?, given),
            false => (vault.seal(&given), spot.form.mask(&given)),
        };
        if let Some(place) = checks.pointer_mut(&spot.pointer()) {
            *place = Value::String(shown);
        }
        secrets.insert(spot.pointer(), at_rest);
    }
    Ok(SealedChecks { checks, secrets })
}

/// A client's checks with their secrets blotted out.
pub(super) fn blank(mut checks: Value) -> Value {
    for spot in spots(&checks) {
        if let Some(place) = checks.pointer_mut(&spot.pointer()) {
            *place = MASK.into();
        }
    }
    checks
}

/// The stored secret that a mask means: of the same parameter of the same check, in its place or else the only one that
/// looks so. Whoever may change where a check sends its secrets could have them sent to himself: for another service
/// they are given again.
fn kept(
    spot: &SecretSpot,
    masked: &str,
    checks: &Value,
    before: Option<&GuardrailDocument>,
    vault: &dyn Vault,
) -> Result<String, Problem> {
    let unknown = || bad(spot.field(), "is a masked value that stands for no stored one");
    let before = before.ok_or_else(unknown)?;
    let named = |list: &Value, at: usize| list[at]["id"].as_str().unwrap_or_default().to_ascii_lowercase();
    let looks_so = |s: &&SecretSpot| {
        s.below == spot.below
            && named(&before.checks, s.check) == named(checks, spot.check)
            && before.checks.pointer(&s.pointer()).and_then(Value::as_str) == Some(masked)
    };
    let stored = spots(&before.checks);
    let alike: Vec<&SecretSpot> = stored.iter().filter(looks_so).collect();
    if alike.is_empty() {
        return Err(unknown());
    }
    let to = destination(&checks[spot.check]);
    let same: Vec<&SecretSpot> = alike.into_iter().filter(|s| destination(&before.checks[s.check]) == to).collect();
    let sealed = |s: &SecretSpot| before.secrets.get(&s.pointer()).cloned();
    if let Some(own) = same.iter().find(|s| s.check == spot.check) {
        return sealed(own).ok_or_else(unknown);
    }
    let first = same.first().and_then(|s| sealed(s)).ok_or_else(|| {
        bad(spot.field(), "is masked, and the check now calls another address: give the value itself")
    })?;
    let open = |sealed: &str| vault.open(sealed).ok();
    let one = same.iter().all(|s| sealed(s).and_then(|other| open(&other)) == open(&first));
    if one { Ok(first) } else { Err(unknown()) }
}

/// What says whom a check calls.
fn destination(check: &Value) -> Vec<(String, Value)> {
    let Some(parameters) = check["parameters"].as_object() else { return Vec::new() };
    let addresses = ADDRESSES.iter().filter_map(|name| Some(((*name).to_owned(), parameters.get(*name)?.clone())));
    let fields = fields_of(check);
    let credentials = parameters.get("credentials").and_then(Value::as_object);
    let open = credentials.into_iter().flatten().filter(|(name, _)| !is_secret(&fields, name));
    addresses.chain(open.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

fn fields_of(check: &Value) -> Vec<CredentialField> {
    let id = check["id"].as_str().unwrap_or_default();
    credential_fields(id.split('.').next().unwrap_or_default()).unwrap_or_default()
}

/// One that nobody knows may be one.
fn is_secret(fields: &[CredentialField], name: &str) -> bool {
    fields.iter().find(|f| f.name == name).is_none_or(|f| f.is_secret)
}

fn spots(checks: &Value) -> Vec<SecretSpot> {
    let mut out = Vec::new();
    for (at, check) in checks.as_array().into_iter().flatten().enumerate() {
        let Some(parameters) = check["parameters"].as_object() else { continue };
        let mut add = |below: String, form| out.push(SecretSpot { check: at, below, form });
        match parameters.get("headers") {
            // They may come as their JSON text.
            Some(Value::String(_)) => add("/parameters/headers".to_owned(), SecretForm::Text),
            Some(Value::Object(headers)) => texts("headers", headers, |_| true, &mut add),
            _ => {}
        }
        if let Some(Value::Object(credentials)) = parameters.get("credentials") {
            let fields = fields_of(check);
            texts("credentials", credentials, |name| is_secret(&fields, name), &mut add);
        }
        for name in ADDRESSES {
            let text = parameters.get(*name).and_then(Value::as_str);
            if text.is_some_and(|text| text.split_once('?').is_some_and(|(_, query)| !query.is_empty())) {
                add(format!("/parameters/{name}"), SecretForm::Address);
            }
        }
    }
    out
}

fn texts(of: &str, map: &Map<String, Value>, wanted: impl Fn(&str) -> bool, add: &mut impl FnMut(String, SecretForm)) {
    for (name, value) in map {
        if wanted(name) && written(value).is_some() {
            add(format!("/parameters/{of}/{}", name.replace('~', "~0").replace('/', "~1")), SecretForm::Text);
        }
    }
}

/// A value as it would be sent; `None` where there is nothing to hide.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Secret;
    use gateway_domain::ports::VaultError;
    use serde_json::json;
    use uuid::Uuid;

    struct Reversed;

    impl Vault for Reversed {
        fn seal(&self, plain: &str) -> String {
            format!("sealed:{}", plain.chars().rev().collect::<String>())
        }
        fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError> {
            let text = sealed.strip_prefix("sealed:").ok_or(VaultError::Malformed)?;
            Ok(Secret::new(text.chars().rev().collect()))
        }
    }

    const A: &str = "Bearer aaaaaaaaaaaa-0001";
    const B: &str = "Bearer bbbbbbbbbbbb-0001";

    fn stored(checks: Value, before: Option<&GuardrailDocument>) -> Result<GuardrailDocument, String> {
        let sealed = seal(checks, before, &Reversed).map_err(|p| p.message)?;
        let SealedChecks { checks, secrets } = sealed;
        Ok(GuardrailDocument {
            checks,
            actions: json!({}),
            secrets,
            version_id: Uuid::nil(),
            updated_by: None,
            rest: Map::new(),
        })
    }

    fn opened(doc: &GuardrailDocument) -> Value {
        doc.opened(&|s| Reversed.open(s).map_err(|e| e.to_string())).expect("opened")
    }

    fn webhook(url: &str, token: &str) -> Value {
        json!({"id": "default.webhook", "parameters": {"webhookURL": url, "headers": {"Authorization": token}}})
    }

    #[test]
    fn headers_credentials_and_queries_are_sealed_and_nothing_else() {
        let checks = json!([
            webhook("https://a.example/x?sig=s3cr3t", A),
            {"id": "default.log", "parameters": {"logURL": "https://a.example", "headers": "{\"x-key\":\"k3y\"}"}},
            {"id": "azure.pii", "parameters": {"redact": true, "credentials": {"resourceName": "r", "apiKey": A}}},
            {"id": "default.contains", "parameters": {"words": ["k3y"]}},
        ]);
        let doc = stored(checks.clone(), None).expect("sealed");
        let shown = doc.checks.to_string();
        for secret in ["s3cr3t", "x-key", "aaaa"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        assert_eq!(doc.checks[0]["parameters"]["webhookURL"], "https://a.example/x?****");
        assert_eq!(doc.checks[2]["parameters"]["credentials"], json!({"resourceName": "r", "apiKey": "****0001"}));
        assert_eq!(doc.checks[3], checks[3]);
        assert_eq!(opened(&doc), checks);
        assert!(!blank(checks).to_string().contains("0001"));
    }

    #[test]
    fn a_mask_stands_for_its_secret_and_for_the_same_service_only() {
        let one = stored(json!([webhook("https://a.example", A)]), None).expect("sealed");
        let again = stored(one.checks.clone(), Some(&one)).expect("kept");
        assert_eq!(opened(&again), opened(&one));
        let elsewhere = stored(json!([webhook("https://evil.example", "****0001")]), Some(&one));
        assert!(elsewhere.expect_err("another service").contains("another address"));
        let contains = json!({"id": "default.contains", "parameters": {"words": ["x"]}});
        let moved = stored(json!([contains, one.checks[0]]), Some(&one)).expect("followed");
        assert_eq!(opened(&moved)[1], opened(&one)[0]);
        let two = json!([webhook("https://a.example", A), webhook("https://a.example", B)]);
        let two = stored(two, None).expect("sealed");
        assert_eq!(opened(&stored(two.checks.clone(), Some(&two)).expect("kept")), opened(&two));
        let third = json!([contains, contains, webhook("https://a.example", "****0001")]);
        assert!(stored(third, Some(&two)).is_err(), "either of two");
        assert!(stored(json!([webhook("https://a.example", "****0001")]), None).is_err(), "nothing is stored yet");
    }
}
