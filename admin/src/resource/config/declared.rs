//! Configs in a file: the document as it was written, its credentials by name.

use crate::change::WriteView;
use crate::problem::{Problem, conflict};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put};
use crate::resource::{Resource, ResourceRow};
use gateway_domain::config::{visit_prompts, visit_secrets};
use gateway_domain::resource::config::SavedConfig;
use gateway_domain::resource::prompt::split_version;
use serde_json::{Map, Value};

impl Declared for SavedConfig {
    const SECTION: &'static str = "configs";
    const SCOPES: Option<&'static str> = Some("configs");
    const SECRETS: &'static [&'static str] = &["config"];
    const SECRETS_ARE_BOUND: bool = true;

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut config = row.doc.config.clone();
        let mut sealed = Vec::new();
        // Where they stand is found by what is put there.
        visit_secrets(&mut config, &mut |secret| {
            if !secret.is_empty() {
                sealed.push(std::mem::replace(secret, mark(sealed.len())));
            }
        });
        name_all(&mut config, to);
        visit_prompts(&mut config, &mut |name| {
            if let (bare, Some(version)) = split_version(name) {
                *name = format!("{}@{}", to.names.instead_of(bare), to.names.instead_of(version));
            }
        });
        let mut places = Vec::new();
        find(&config, &mut vec!["config".to_owned()], &mut places);
        let mut fields = Map::from_iter([("config".to_owned(), config)]);
        for MarkedPlace { path, number } in places {
            let Some(sealed) = sealed.get(number) else { continue };
            let shown = to.sealed(&path.iter().map(String::as_str).collect::<Vec<_>>(), sealed)?;
            if let Some(place) = crate::resource::declared::secrets::spot(&mut fields, &path) {
                *place = shown;
            }
        }
        put(&mut fields, "is_default", row.doc.is_default);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let mut row = item.create(from.call, true)?;
        if let Some(before) = &item.before
            && same(&before.doc.config, &row.doc.config, from)
        {
            row.doc.version_id = before.doc.version_id;
            row.doc.config.clone_from(&before.doc.config);
        }
        Ok(row)
    }

    fn verify(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        Self::check(row, around)?;
        let mut others = around.workspace(row.workspace)?.configs().filter(|c| c.is_default && c.id.0 != row.id);
        match others.next().filter(|_| row.doc.is_default) {
            None => Ok(()),
            Some(other) => {
                let why = format!("is_default is taken by `{}`: a workspace has one default at most", other.slug);
                Err(conflict(why))
            }
        }
    }
}

/// Whether two documents say the same, sealed as they are.
fn same(one: &Value, other: &Value, from: &Assuming<'_>) -> bool {
    let opened = |config: &Value| {
        let mut config = config.clone();
        visit_secrets(&mut config, &mut |secret| {
            if let Ok(plain) = from.call.app.vault.open(secret) {
                plain.expose().clone_into(secret);
            }
        });
        config.to_string()
    };
    opened(one) == opened(other)
}

/// Providers, guardrails and configs may be meant by their ids.
fn name_all(value: &mut Value, to: &Declaring<'_>) {
    match value {
        Value::Object(inner) => inner.values_mut().for_each(|value| name_all(value, to)),
        Value::Array(items) => items.iter_mut().for_each(|value| name_all(value, to)),
        Value::String(text) => *text = to.names.instead_of(text),
        _ => {}
    }
}

const MARK: char = '\u{1}';

fn mark(number: usize) -> String {
    format!("{MARK}{number}{MARK}")
}

struct MarkedPlace {
    path: Vec<String>,
    number: usize,
}

fn find(value: &Value, path: &mut Vec<String>, places: &mut Vec<MarkedPlace>) {
    let mut below = |part: String, value: &Value| {
        path.push(part);
        find(value, path, places);
        path.pop();
    };
    match value {
        Value::Object(inner) => inner.iter().for_each(|(name, value)| below(name.clone(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value)),
        Value::String(text) => {
            let number = text.strip_prefix(MARK).and_then(|text| text.strip_suffix(MARK));
            if let Some(number) = number.and_then(|text| text.parse().ok()) {
                places.push(MarkedPlace { path: path.clone(), number });
            }
        }
        _ => {}
    }
}
