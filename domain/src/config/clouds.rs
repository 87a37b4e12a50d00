//! Settings of clouds in a target: the same names as in integrations, for a provider family with a credential of the
//! config or of the request.

use super::compiler::Compiler;
use super::place::At;
use super::tree::ProviderRef;
use super::typed_fields::Fields;
use crate::cloud::{self, CloudSettings, Setting};
use crate::egress::check_custom_host;
use serde_json::Value;
use std::sync::Arc;

impl Compiler<'_> {
    pub(super) fn settings(&mut self, at: &At<'_>, fields: &Fields<'_>, provider: &ProviderRef) -> Arc<CloudSettings> {
        let mut settings = CloudSettings::default();
        for key in fields.keys() {
            let (Some(setting), Some(value)) = (cloud::setting(key), fields.get(key)) else { continue };
            match provider {
                ProviderRef::Family { slug, .. } if !setting.serves(slug) => {
                    self.problem(at, key, format!("has no meaning for `{slug}`"));
                }
                ProviderRef::Family { .. } => match self.setting(setting, value) {
                    Ok(text) => {
                        if let Err(wrong) = settings.set(setting, text) {
                            self.problem(at, key, wrong.rule);
                        }
                    }
                    Err(rule) => self.problem(at, key, rule),
                },
                _ => self.problem(
                    at,
                    key,
                    "needs a provider family beside it; those of a managed provider are saved with its integration",
                ),
            }
        }
        if settings.is_empty() { Arc::default() } else { Arc::new(settings) }
    }

    fn setting(&self, setting: &'static Setting, value: &Value) -> Result<String, &'static str> {
        let text = match value {
            value if setting.json => value.to_string(),
            Value::String(text) => text.clone(),
            Value::Object(_) if setting.secret => value.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err("must be a string"),
        };
        if setting.address {
            check_custom_host(text.trim_end_matches('/'), self.context.trusted)?;
        }
        if !setting.secret {
            return Ok(text);
        }
        let opened = (self.context.open)(&text).ok_or("cannot be opened with this master key")?;
        Ok(opened.expose().clone())
    }
}
