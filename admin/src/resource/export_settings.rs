//! Which fields of logs are kept from exports and from readers: a setting of the organisation and of each workspace.

use crate::problem::{Problem, bad};
use gateway_domain::export::LogField;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenExportSettings {
    #[serde(default)]
    denied_fields: Vec<String>,
}

impl GivenExportSettings {
    pub(super) fn fields(self) -> Result<BTreeSet<LogField>, Problem> {
        let known = |name: String| LogField::parse(&name).filter(|field| field.is_deniable());
        let fields: Option<BTreeSet<LogField>> = self.denied_fields.into_iter().map(known).collect();
        fields.ok_or_else(|| {
            let all = LogField::ALL.iter().filter(|field| field.is_deniable()).map(|field| field.name());
            let all = all.collect::<Vec<_>>().join(", ");
            bad("export_settings.denied_fields", format_args!("must hold only {all}"))
        })
    }
}

pub(super) fn shown(denied: &BTreeSet<LogField>) -> Value {
    json!({"denied_fields": denied})
}
