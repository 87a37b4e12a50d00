//! How a manager is signed in to: read by one table of fields, merged, sealed, masked, and checked as whoever reads the
//! secret will read it.

use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::egress::check_custom_host;
use gateway_domain::resource::secret_reference::SecretReference;
use gateway_domain::secret::{MASK, mask};
use gateway_domain::secret_source::{AUTH_FIELDS, SecretSource, SourceFields, auth_field};
use http::HeaderValue;
use serde_json::{Map, Value};

const LONGEST: usize = 8 * 1024;

/// Puts what was given over what is stored: absent keeps, null clears, the mask of a secret keeps it. Another way of
/// signing in drops what only the way before had a meaning for; another address drops the secrets, which are given
/// again by whoever wants them to be shown there.
pub(super) fn merge(doc: &mut SecretReference, given: Map<String, Value>, call: &AdminCall) -> Result<(), Problem> {
    const KINDS: [&str; 3] = ["aws_auth_type", "azure_auth_mode", "vault_auth_type"];
    let other = |kind: &&str| given.get(*kind).and_then(Value::as_str).is_some_and(|new| changed(doc, kind, new));
    if KINDS.iter().any(other) {
        const STAY: [&str; 4] = ["aws_region", "azure_vault_url", "vault_addr", "vault_namespace"];
        doc.fields.retain(|name, _| STAY.contains(&name.as_str()));
        doc.secrets.clear();
    }
    let addresses = AUTH_FIELDS.iter().filter(|field| field.address && doc.fields.contains_key(field.name));
    let moved =
        |field: &str| given.get(field).is_some_and(|new| new.as_str().is_none_or(|new| changed(doc, field, new)));
    if addresses.into_iter().any(|field| moved(field.name)) {
        doc.secrets.clear();
    }
    for (name, value) in given {
        let path = format!("auth_config.{name}");
        let manager = doc.manager;
        let field = auth_field(manager, &name)
            .ok_or_else(|| bad(&path, format_args!("is no field of `{}`", manager.name())))?;
        let text = match value {
            Value::Null => {
                doc.fields.remove(field.name);
                doc.secrets.remove(field.name);
                continue;
            }
            Value::String(text) => text.trim().to_owned(),
            _ => return Err(bad(&path, "must be a string")),
        };
        if text.is_empty() || text.len() > LONGEST || HeaderValue::from_str(&text).is_err() {
            return Err(bad(&path, format_args!("must be of 1..{LONGEST} printable ASCII characters")));
        }
        if field.address {
            check_custom_host(text.trim_end_matches('/'), &call.app.trusted).map_err(|rule| bad(&path, rule))?;
        }
        if !field.secret {
            doc.fields.insert(name, text);
        } else if text.starts_with(MASK) {
            let stored = doc.secrets.get(&name).and_then(|sealed| call.app.vault.open(sealed).ok());
            if stored.is_none_or(|plain| mask(plain.expose()) != text) {
                return Err(bad(&path, "is a masked value that stands for no stored one"));
            }
        } else {
            doc.secrets.insert(name, call.app.vault.seal(&text));
        }
    }
    Ok(())
}

fn changed(doc: &SecretReference, kind: &str, new: &str) -> bool {
    doc.fields.get(kind).is_some_and(|old| old != new)
}

/// It can be read, and may be: what asks for the machine is the operator's to allow.
pub(super) fn check(doc: &SecretReference, call: &AdminCall) -> Result<(), Problem> {
    let get = |name: &str| {
        let opened = |sealed: &String| call.app.vault.open(sealed).ok().map(|plain| plain.expose().clone());
        doc.fields.get(name).cloned().or_else(|| doc.secrets.get(name).and_then(opened))
    };
    let given = SourceFields { manager: doc.manager, path: &doc.secret_path, get: &get };
    let source = SecretSource::read(&given).map_err(|why| bad(why.field, why.rule))?;
    call.app.openings.allow(&source, &call.app.trusted).map_err(|why| bad(why.field, why.rule))
}

/// Secrets are shown as their masks.
pub(super) fn shown(doc: &SecretReference, call: &AdminCall) -> Map<String, Value> {
    let masked =
        |sealed: &String| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |plain| mask(plain.expose()));
    let open = doc.fields.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    open.chain(doc.secrets.iter().map(|(name, sealed)| (name.clone(), masked(sealed).into()))).collect()
}

/// A request body with its secrets blotted out, those that stand in the wrong place too.
pub(super) fn blank(body: &mut Map<String, Value>) {
    match body.get_mut("auth_config") {
        Some(Value::Object(given)) => {
            let open = |name: &str| AUTH_FIELDS.iter().any(|field| field.name == name && !field.secret);
            given
                .iter_mut()
                .filter(|(name, value)| !open(name) && !value.is_null())
                .for_each(|(_, v)| *v = MASK.into());
        }
        Some(other) if !other.is_null() => *other = MASK.into(),
        _ => {}
    }
}
