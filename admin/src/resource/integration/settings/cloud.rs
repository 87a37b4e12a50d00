//! Settings of clouds in an integration: one table in the domain says which there are; here they are read, sealed,
//! checked together and shown.

use crate::problem::{Problem, bad};
use crate::resource::integration::mappings;
use crate::route::AdminCall;
use gateway_domain::catalog::ProviderInfo;
use gateway_domain::cloud::{self, CloudSettings, SETTINGS, Setting, Wrong};
use gateway_domain::egress::check_custom_host;
use gateway_domain::resource::integration::Integration;
use gateway_domain::secret::{MASK, mask};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Takes the settings out of what was given: absent keeps, null clears, the mask of a secret keeps it.
pub(super) fn merge(
    stored: &mut BTreeMap<String, String>,
    given: &mut Map<String, Value>,
    call: &AdminCall,
) -> Result<(), Problem> {
    for setting in SETTINGS {
        let Some(value) = given.shift_remove(setting.name) else { continue };
        let field = format!("configurations.{}", setting.name);
        let text = match value {
            Value::Null => {
                stored.remove(setting.name);
                continue;
            }
            Value::String(text) if !setting.json => text,
            // A credential file may be given as the object that it is.
            Value::Object(file) if setting.secret => Value::Object(file).to_string(),
            value if setting.json => value.to_string(),
            _ => return Err(bad(field, "must be a string")),
        };
        let kept = stored.get(setting.name).filter(|sealed| setting.secret && masked(sealed, call) == text);
        if kept.is_some() {
            continue;
        }
        CloudSettings::default().set(setting, text.clone()).map_err(|wrong| bad(&field, wrong.rule))?;
        if setting.secret && text.starts_with(MASK) {
            return Err(bad(field, "is a masked value that stands for no stored one"));
        }
        if setting.address {
            check_custom_host(text.trim_end_matches('/'), &call.app.trusted).map_err(|rule| bad(&field, rule))?;
        }
        let at_rest = if setting.secret { call.app.vault.seal(&text) } else { text };
        stored.insert(setting.name.to_owned(), at_rest);
    }
    Ok(())
}

fn masked(sealed: &str, call: &AdminCall) -> String {
    call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |v| mask(v.expose()))
}

/// What the settings mean together: the family takes them, an address and a way to sign in can be made of them.
pub(super) fn check(doc: &Integration, family: &ProviderInfo, call: &AdminCall) -> Result<(), Problem> {
    let slug = family.slug;
    let foreign = |name: &&String| cloud::setting(name).is_some_and(|s: &Setting| !s.serves(slug));
    if let Some(name) = doc.configurations.cloud.keys().find(foreign) {
        return Err(bad(format!("configurations.{name}"), format_args!("has no meaning for `{slug}`")));
    }
    let open = |sealed: &str| call.app.vault.open(sealed).map_err(|e| e.to_string());
    let settings: CloudSettings = doc
        .configurations
        .settings(&open)
        .map_err(|why| bad("configurations", format_args!("cannot be read: {why}")))?;
    let settings = mappings::supposed(doc, settings);
    // Nothing can be said here of a value that only a secret manager holds.
    let wrong = |wrong: Wrong| match mappings::fills(doc, wrong.field) {
        true => Ok(()),
        false => Err(bad(format!("configurations.{}", wrong.field), wrong.rule)),
    };
    if family.base_url.is_none() && doc.configurations.custom_host.is_none() {
        match cloud::base_url(slug, &settings) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let why = format!("is required, since `{slug}` has no address of its own");
                return Err(bad("configurations.custom_host", why));
            }
            Err(why) => wrong(why)?,
        }
    }
    let has_key = doc.sealed_key.is_some() || mappings::fills_key(doc);
    cloud::grant(slug, &settings, has_key, true).map(drop).or_else(wrong)
}

/// Secrets are shown as their masks.
pub(super) fn show(
    stored: &BTreeMap<String, String>,
    view: &mut Map<String, Value>,
    masked: &impl Fn(&String) -> String,
) {
    for (name, value) in stored {
        let setting = cloud::setting(name);
        let shown = match setting {
            Some(s) if s.json => serde_json::from_str(value).unwrap_or_default(),
            Some(s) if !s.secret => value.clone().into(),
            _ => masked(value).into(),
        };
        view.insert(name.clone(), shown);
    }
}

pub(super) fn blank(given: &mut Map<String, Value>) {
    for setting in SETTINGS.iter().filter(|s| s.secret) {
        if let Some(value) = given.get_mut(setting.name).filter(|v| !v.is_null()) {
            *value = MASK.into();
        }
    }
}
