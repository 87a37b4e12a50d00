//! Credentials of partners: which fields each namespace has, of what form, and what a check's own ones override.

use super::row::ROWS;
use super::services::SERVICES;
use crate::parameters::{Parameters, checked_address};
use gateway_domain::egress::Trusted;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One field of a partner's credentials, as its specification writes it: `secret*`, `host=api.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialField {
    pub name: &'static str,
    /// Never shown.
    pub is_secret: bool,
    pub is_required: bool,
    form: CredentialForm,
    default: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialForm {
    Text,
    /// A name with dots and nothing else, so that it cannot lead elsewhere.
    Host,
    /// One piece of such a name.
    Label,
    /// A base address.
    Url,
    /// How a cloud is signed in to.
    Mode,
}

impl CredentialField {
    fn parse(name: &'static str, spec: &'static str) -> Self {
        let (spec, default) = spec.split_once('=').map_or((spec, None), |(s, d)| (s, Some(d)));
        let (spec, is_required) = spec.strip_suffix('*').map_or((spec, false), |s| (s, true));
        let form = match spec {
            "host" => CredentialForm::Host,
            "label" => CredentialForm::Label,
            "url" => CredentialForm::Url,
            "mode" => CredentialForm::Mode,
            _ => CredentialForm::Text,
        };
        Self { name, is_secret: spec == "secret", is_required, form, default }
    }

    /// The rule that a value of it breaks. `trusted`: hosts of private networks that may be called.
    pub fn check(&self, value: &str, trusted: &Trusted) -> Result<(), &'static str> {
        let is_label = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match self.form {
            CredentialForm::Text if value.len() > 16 * 1024 => Err("must have at most 16384 bytes"),
            CredentialForm::Text if value.bytes().any(|b| b < 0x20 || b == 0x7f) => {
                Err("must not contain control characters")
            }
            CredentialForm::Text => Ok(()),
            CredentialForm::Label if !value.is_empty() && value.len() <= 63 && value.chars().all(is_label) => Ok(()),
            CredentialForm::Label => Err("must be letters, digits and hyphens"),
            CredentialForm::Host => {
                let (host, port) = value.split_once(':').map_or((value, None), |(h, p)| (h, Some(p)));
                let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(|c| is_label(c) || c == '.');
                let is_port = port.is_none_or(|p| p.parse::<u16>().is_ok_and(|p| p > 0));
                if !is_name || !is_port {
                    return Err("must be the name of a host");
                }
                checked_address(&format!("https://{value}"), trusted)
            }
            CredentialForm::Mode if matches!(value, "apiKey" | "entra") => Ok(()),
            CredentialForm::Mode => {
                Err("must be one of: apiKey, entra (the machine's own identity is lent to no check)")
            }
            CredentialForm::Url if !value.starts_with("https://") => Err("must begin with https://"),
            CredentialForm::Url => match checked_address(value, trusted) {
                Ok(()) if value.contains('?') => Err("must not contain a query"),
                other => other,
            },
        }
    }
}

/// The namespaces whose checks take credentials.
pub fn namespaces() -> Vec<&'static str> {
    let ids = ROWS.iter().map(|r| r.id.as_str()).chain(SERVICES.iter().map(|s| s.id));
    let mut out: Vec<&'static str> = ids.filter_map(|id| id.split('.').next()).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The fields of a namespace's credentials; `None` where no partner has it.
pub fn credential_fields(namespace: &str) -> Option<Vec<CredentialField>> {
    let of = |id: &str| id.split('.').next().is_some_and(|n| n.eq_ignore_ascii_case(namespace));
    let rows = ROWS.iter().filter(|r| of(&r.id)).flat_map(|r| r.credentials.iter());
    let mut fields: Vec<CredentialField> = rows.map(|(n, s)| CredentialField::parse(n, s)).collect();
    for service in SERVICES.iter().filter(|s| of(s.id)) {
        fields.extend(service.credentials.iter().map(|(n, s)| CredentialField::parse(n, s)));
    }
    fields.sort_by_key(|f| f.name);
    fields.dedup_by_key(|f| f.name);
    let is_known = ROWS.iter().any(|r| of(&r.id)) || SERVICES.iter().any(|s| of(s.id));
    is_known.then_some(fields)
}

/// Credentials as a check uses them. Their values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CheckCredentials(BTreeMap<&'static str, String>);

impl std::fmt::Debug for CheckCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl CheckCredentials {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The saved ones, the check's own before them; what is missing or of a wrong form is a problem.
    pub(crate) fn read<'s>(
        specs: impl Iterator<Item = (&'static str, &'static str)> + 's,
        p: &Parameters<'_>,
        saved: Option<&Map<String, Value>>,
    ) -> Self {
        let own = p.map("credentials");
        let mut out = BTreeMap::new();
        let mut known = Vec::new();
        for (name, spec) in specs {
            let field = CredentialField::parse(name, spec);
            let path = format!("credentials.{name}");
            let found = own.and_then(|o| o.get(name)).or_else(|| saved.and_then(|s| s.get(name)));
            let value = match found.filter(|v| !v.is_null() && v.as_str() != Some("")) {
                None => field.default.map(ToOwned::to_owned),
                Some(Value::String(text)) => Some(text.trim().to_owned()),
                Some(Value::Number(number)) => Some(number.to_string()),
                Some(_) => {
                    p.problem(&path, "must be a string");
                    continue;
                }
            };
            match value {
                None if field.is_required => {
                    p.problem(&path, "is required: save it for the organisation, or give it here")
                }
                None => {}
                Some(value) => match field.check(&value, p.trusted()) {
                    Ok(()) => {
                        out.insert(name, value.trim_end_matches('/').to_owned());
                    }
                    Err(message) => p.problem(&path, message),
                },
            }
            known.push(name);
        }
        for name in own.into_iter().flat_map(Map::keys).filter(|n| !known.contains(&n.as_str())) {
            p.problem(&format!("credentials.{name}"), "is not a credential of this check");
        }
        Self(out)
    }
}
