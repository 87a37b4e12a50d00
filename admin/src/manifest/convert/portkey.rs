//! Config objects of Portkey. They are written as ours are; what this version does not take is left out, each by its
//! path.

use super::conversion::{CarriedParts, Conversion, secret_of, slug_of, text};
use crate::problem::{Problem, bad};
use gateway_domain::config::{Context, compile, visit_prompts, visit_secrets};
use serde_json::{Value, json};

/// More rounds than a document has keys that are worth keeping.
const MOST_ROUNDS: usize = 200;

pub(super) fn convert(file: &Value, with: &Conversion<'_>) -> Result<CarriedParts, Problem> {
    let list = match file {
        Value::Array(items) => items.clone(),
        Value::Object(fields) => match fields.get("data") {
            Some(Value::Array(items)) => items.clone(),
            _ => vec![file.clone()],
        },
        _ => return Err(bad("the file", "must be a config, a list of configs, or an object with data")),
    };
    let mut carried = CarriedParts::default();
    for (at, item) in list.into_iter().enumerate() {
        let Value::Object(mut item) = item else {
            carried.note(format_args!("[{at}]"), "is no object");
            continue;
        };
        let own = item.contains_key("config");
        let config = if own { item.shift_remove("config").unwrap_or_default() } else { Value::Object(item.clone()) };
        let config = match config {
            Value::String(text) => serde_json::from_str(&text).unwrap_or_default(),
            config => config,
        };
        let slug = text(&item, "slug").filter(|_| own).map_or_else(|| format!("pc-{}", at + 1), slug_of);
        let name = text(&item, "name").filter(|_| own).unwrap_or(&slug).to_owned();
        let config = kept(&slug, config, with, &mut carried);
        let mut made = json!({"workspace": with.workspace, "slug": slug, "name": name, "config": config});
        let is_default = item.get("is_default").or_else(|| item.get("isDefault"));
        if own && is_default.is_some_and(|flag| flag == 1 || flag == true) {
            made["is_default"] = true.into();
        }
        carried.add("configs", made);
    }
    Ok(carried)
}

/// The config as it is carried over: secrets and prompts become names, and needless fields that would be refused are
/// left out.
fn kept(slug: &str, mut config: Value, with: &Conversion<'_>, carried: &mut CarriedParts) -> Value {
    name_secrets(slug, &mut config, carried);
    name_prompts(slug, &mut config, carried);
    let known = |family: &str| with.catalog.provider(family).is_some();
    let open = |_: &str| None;
    let context = Context { known_provider: &known, trusted: with.trusted, open: &open, saved: true };
    for _ in 0..MOST_ROUNDS {
        let Err(problems) = compile(&config, &context) else { break };
        let mut changed = false;
        for problem in problems.iter().filter(|problem| is_needless(&problem.message)) {
            let path: Vec<&str> = problem.path.split(',').collect();
            if remove(&mut config, &path) {
                changed = true;
                carried.note(format_args!("{slug}: {}", problem.path), format_args!("{}; left out", problem.message));
                break;
            }
        }
        if !changed {
            for problem in &problems {
                carried.note(format_args!("{slug}: {}", problem.path), format_args!("{}; mend it", problem.message));
            }
            break;
        }
    }
    config
}

/// Credentials in it become names.
fn name_secrets(slug: &str, config: &mut Value, carried: &mut CarriedParts) {
    let mut number = 0;
    let mut names = Vec::new();
    visit_secrets(config, &mut |secret| {
        if !secret.is_empty() && !secret.starts_with("${") {
            number += 1;
            *secret = secret_of(&format!("{slug}_{number}"));
            names.push(secret.clone());
        }
    });
    for name in names {
        carried.note(slug, format_args!("holds a credential: give it as {name}"));
    }
}

/// Prompts are in no file of theirs.
fn name_prompts(slug: &str, config: &mut Value, carried: &mut CarriedParts) {
    let mut named: Vec<String> = Vec::new();
    visit_prompts(config, &mut |name| {
        if !named.contains(name) {
            named.push(name.clone());
        }
    });
    for name in named {
        carried
            .note(slug, format_args!("asks the prompt `{name}`, which is not in the file: make it before the import"));
    }
}

/// Keys without which a config does what it did; without its provider, say, it would do something else.
fn is_needless(message: &str) -> bool {
    let begins = ["is not a known key", "is not available in this version", "has no effect beside targets"];
    begins.iter().any(|begin| message.starts_with(begin))
}

/// Takes out what stands at a path.
fn remove(config: &mut Value, path: &[&str]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let holder = parents.iter().try_fold(config, |place, part| match place {
        Value::Object(fields) => fields.get_mut(*part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    });
    match holder {
        Some(Value::Object(fields)) => fields.shift_remove(*last).is_some(),
        Some(Value::Array(items)) => {
            let at = last.parse::<usize>().ok().filter(|at| *at < items.len());
            at.map(|at| items.remove(at)).is_some()
        }
        _ => false,
    }
}
