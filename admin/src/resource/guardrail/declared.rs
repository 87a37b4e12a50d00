//! Guardrails in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put};
use gateway_domain::resource::guardrail::GuardrailDocument;
use serde_json::{Map, Value};

impl Declared for GuardrailDocument {
    const SECTION: &'static str = "guardrails";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const STATES: &'static [&'static str] = &["archived"];
    const SECRETS: &'static [&'static str] = &["checks"];
    const SECRETS_ARE_BOUND: bool = true;

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut checks = row.doc.checks.clone();
        for (pointer, sealed) in &row.doc.secrets {
            let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
            let path: Vec<String> = std::iter::once("checks".to_owned()).chain(parts).collect();
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let shown = to.sealed(&path, sealed)?;
            if let Some(place) = checks.pointer_mut(pointer) {
                *place = shown;
            }
        }
        let mut fields = Map::from_iter([("checks".to_owned(), checks)]);
        put(&mut fields, "actions", &row.doc.actions);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let mut row = item.create(from.call, true)?;
        if let Some(before) = &item.before {
            let open = |sealed: &str| from.call.app.vault.open(sealed).map_err(|why| why.to_string());
            let same = before.doc.opened(&open).ok() == row.doc.opened(&open).ok();
            if same && before.doc.actions == row.doc.actions {
                row.doc = GuardrailDocument { updated_by: row.doc.updated_by, ..before.doc.clone() };
            }
        }
        Ok(row)
    }
}
