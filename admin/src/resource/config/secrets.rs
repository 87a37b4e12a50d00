//! Credentials inside a config document: sealed on the way in, masked on the way out, and a mask that comes
//! back stands for the credential it was made from.

use crate::problem::{Problem, bad};
use gateway_domain::config::{visit_called_secrets, visit_secrets};
use gateway_domain::ports::Vault;
use gateway_domain::secret::{MASK, Secret, mask};
use serde_json::Value;

/// Seals every credential. `before`: the stored document, whose credentials a mask may stand for.
pub(super) fn seal(mut config: Value, before: Option<&Value>, vault: &dyn Vault) -> Result<Value, Problem> {
    let stored = before.map(sealed).unwrap_or_default();
    let mut outcome = Ok(());
    let (mut at, mut kept) = (0, Vec::new());
    visit_secrets(&mut config, &mut |secret| {
        if secret.starts_with(MASK) {
            match meant(&stored, at, secret, vault) {
                Some(meant) => {
                    *secret = meant;
                    kept.push(at);
                }
                None => {
                    outcome = Err(bad(
                        "config",
                        format_args!("holds the masked api_key `{secret}`, which stands for no stored one"),
                    ))
                }
            }
        } else if !secret.is_empty() {
            *secret = vault.seal(secret);
        }
        at += 1;
    });
    outcome?;
    if kept.is_empty() {
        return Ok(config);
    }
    // Whoever may change where a check sends its secrets could have them sent to himself.
    let (now, then) = (sent(&config, vault), before.map(|before| sent(before, vault)).unwrap_or_default());
    let moved = |at: &usize| now.get(*at).is_none_or(|secret| !then.contains(secret));
    if kept.iter().any(moved) {
        let told = "holds a masked secret of a check that now calls another address: give the secret itself";
        return Err(bad("config", told));
    }
    Ok(config)
}

/// A secret, and whom it is sent to.
#[derive(PartialEq, Eq)]
struct SentSecret {
    plain: Secret<String>,
    to: Vec<String>,
}

fn sent(config: &Value, vault: &dyn Vault) -> Vec<SentSecret> {
    let mut config = config.clone();
    visit_secrets(&mut config, &mut |secret| {
        if let Ok(plain) = vault.open(secret) {
            plain.expose().clone_into(secret);
        }
    });
    let mut found = Vec::new();
    visit_called_secrets(&mut config, &mut |secret, to| {
        found.push(SentSecret { plain: Secret::new(secret.clone()), to: to.to_vec() });
    });
    found
}

/// The stored credential that a mask means: the one in the same place, or else the only one that looks so.
fn meant(stored: &[String], at: usize, masked: &str, vault: &dyn Vault) -> Option<String> {
    let looks_so = |s: &&String| vault.open(s).is_ok_and(|plain| mask(plain.expose()) == masked);
    if let Some(same) = stored.get(at).filter(looks_so) {
        return Some(same.clone());
    }
    let mut alike = stored.iter().filter(looks_so);
    let first = alike.next()?;
    let plain = vault.open(first).ok()?;
    let same = |s: &String| vault.open(s).is_ok_and(|other| other == plain);
    alike.all(same).then(|| first.clone())
}

fn sealed(config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit_secrets(&mut config.clone(), &mut |secret| found.push(secret.clone()));
    found
}

/// Every credential in its place; empty where it cannot be opened. For comparing, never for showing.
pub(super) fn opened(config: &Value, vault: &dyn Vault) -> Vec<Secret<String>> {
    sealed(config).iter().map(|s| vault.open(s).unwrap_or_else(|_| Secret::new(String::new()))).collect()
}

pub(super) fn masked(config: &Value, vault: &dyn Vault) -> Value {
    let mut shown = config.clone();
    visit_secrets(&mut shown, &mut |secret| {
        *secret = vault.open(secret).map_or_else(|_| MASK.to_owned(), |plain| mask(plain.expose()));
    });
    shown
}

/// A client's document with its credentials blotted out.
pub(super) fn blank(mut config: Value) -> Value {
    visit_secrets(&mut config, &mut |secret| MASK.clone_into(secret));
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Secret;
    use gateway_domain::ports::VaultError;
    use serde_json::json;

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

    const A: &str = "sk-aaaaaaaaaaaaaaaa-0001";
    const B: &str = "sk-bbbbbbbbbbbbbbbb-0001";

    fn targets(keys: &[&str]) -> Value {
        let list: Vec<Value> = keys.iter().map(|k| json!({"provider": "openai", "api_key": k})).collect();
        json!({"strategy": {"mode": "fallback"}, "targets": list})
    }

    #[test]
    fn a_mask_stands_for_the_credential_in_its_place() {
        let stored = seal(targets(&[A, B]), None, &Reversed).expect("sealed");
        assert_ne!(stored["targets"][0]["api_key"], A);
        let shown = masked(&stored, &Reversed);
        assert_eq!(shown["targets"][0]["api_key"], "****0001");
        assert_eq!(seal(shown, Some(&stored), &Reversed).expect("kept"), stored);
    }

    #[test]
    fn a_mask_within_a_check_goes_nowhere_else() {
        let hooked = |url: &str, token: &str| {
            json!({"provider": "openai", "input_guardrails": [
                {"default.webhook": {"webhookURL": url, "headers": {"authorization": token}}}]})
        };
        let stored = seal(hooked("https://a.example/x?sig=0123456789abcdef", A), None, &Reversed).expect("sealed");
        let shown = masked(&stored, &Reversed);
        let check = &shown["input_guardrails"][0]["default.webhook"];
        assert_eq!(check["webhookURL"], "https://a.example/x?****cdef");
        assert!(!stored.to_string().contains("0123456789abcdef"), "{stored}");
        assert_eq!(seal(shown, Some(&stored), &Reversed).expect("kept"), stored);
        for url in ["https://thief.example/x?****cdef", "https://thief.example/x", "https://a.example/y?****cdef"] {
            let refused = seal(hooked(url, "****0001"), Some(&stored), &Reversed).expect_err(url);
            assert!(refused.message.contains("calls another address"), "{url}: {}", refused.message);
        }
        let partner = |base: &str, key: &str| json!({"input_guardrails": [{"lakera.guard": {"credentials": {"apiBase": base, "apiKey": key}}}]});
        let stored = seal(partner("https://a.example/lakera", A), None, &Reversed).expect("sealed");
        assert!(seal(masked(&stored, &Reversed), Some(&stored), &Reversed).is_ok());
        assert!(seal(partner("https://thief.example/lakera", "****0001"), Some(&stored), &Reversed).is_err());
    }

    #[test]
    fn a_moved_mask_is_followed_only_when_it_can_mean_one_thing() {
        let one = seal(targets(&[A]), None, &Reversed).expect("sealed");
        let moved = seal(targets(&["sk-new-new-new-new", "****0001"]), Some(&one), &Reversed).expect("followed");
        assert_eq!(moved["targets"][1], one["targets"][0]);
        let two = seal(targets(&[A, B]), None, &Reversed).expect("sealed");
        let outcome = seal(targets(&["sk-new-new-new-new", "x", "****0001"]), Some(&two), &Reversed);
        assert!(outcome.expect_err("either of two").message.contains("****0001"));
        assert!(seal(targets(&["****0001"]), None, &Reversed).is_err(), "nothing is stored yet");
    }
}
