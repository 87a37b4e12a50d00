//! Checks of services outside. Most are rows of a table (`data/partners.json`): address, body, and where the verdict
//! stands in the reply. What a row cannot say is a file of its own here. None of them knows a socket.

mod credential;
mod row;
mod services;
mod template;

pub use credential::{CheckCredentials, CredentialField, credential_fields, namespaces};

use crate::check::Judge;
use crate::parameters::Parameters;
use serde_json::{Map, Value};

/// What became of a partner's check; without a judge its parameters were wrong, and problems were added.
pub(crate) struct MadePartner {
    pub(crate) judge: Option<Box<dyn Judge>>,
    pub(crate) input: bool,
    pub(crate) output: bool,
}

/// Makes the check with this id; `None` where no partner has it. `saved` are the organisation's credentials.
pub(crate) fn compile(id: &str, p: &Parameters<'_>, saved: Option<&Map<String, Value>>) -> Option<MadePartner> {
    if let Some(row) = row::ROWS.iter().find(|r| r.id.eq_ignore_ascii_case(id)) {
        return Some(row::compile(row, p, saved));
    }
    services::compile(id, p, saved)
}

#[cfg(test)]
mod tests;
