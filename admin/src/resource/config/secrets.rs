//! Credentials inside a config document: sealed on the way in, masked on the way out, and a mask that comes
//! back stands for the credential it was made from.

use crate::problem::{Problem, bad};
use gateway_domain::config::visit_secrets;
use gateway_domain::ports::Vault;
use gateway_domain::secret::{MASK, Secret, mask};
use serde_json::Value;

/// Seals every credential. `before`: the stored document, whose credentials a mask may stand for.
pub(super) fn seal(mut config: Value, before: Option<&Value>, vault: &dyn Vault) -> Result<Value, Problem> {
    let stored = before.map(sealed).unwrap_or_default();
    let mut outcome = Ok(());
    let mut at = 0;
    visit_secrets(&mut config, &mut |secret| {
        if secret.starts_with(MASK) {
            match meant(&stored, at, secret, vault) {
                Some(kept) => *secret = kept,
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
    outcome.map(|()| config)
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
