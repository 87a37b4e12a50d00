//! serde's words made into "field rule". Only what serde expected is kept: what it found may be a secret.

use crate::problem::{Problem, bad};

pub(super) fn problem(under: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let path = path.trim_end_matches(['?', '.']);
    let message = error.inner().to_string();
    if let Some(name) = quoted_after(&message, "unknown field ") {
        return bad(format!("{under}{}", join(path, name)), "is not a known field");
    }
    if let Some(name) = quoted_after(&message, "missing field ") {
        return bad(format!("{under}{}", join(path, name)), "is required");
    }
    let field = match format!("{under}{path}") {
        field if field.is_empty() => "the body".to_owned(),
        field => field,
    };
    bad(field, rule(&message))
}

fn rule(message: &str) -> String {
    if message.starts_with("invalid type: ") || message.starts_with("invalid value: ") {
        let expected = message.rsplit_once(", expected ").map_or("of another type", |(_, e)| e);
        return format!("must be {}", plain(expected));
    }
    if message.starts_with("unknown variant ") {
        let names = message.rsplit_once(", expected ").map_or("", |(_, e)| e);
        let names = names.trim_start_matches("one of ").replace('`', "").replace(" or ", ", ");
        return format!("must be one of {names}");
    }
    if message.starts_with("UUID parsing failed") {
        return "must be a UUID".to_owned();
    }
    if message.starts_with("data did not match any variant") {
        return "has a type that is not accepted here".to_owned();
    }
    message.to_owned()
}

fn plain(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "an array",
        "a borrowed string" | "a formatted UUID string" | "UUID string" => "a string",
        "f64" => "a number",
        "u64" | "u32" | "i64" => "an integer",
        e if e.starts_with("struct ") => "an object",
        e => e,
    }
}

fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

/// The path already ends in the name when serde was reading that very key.
fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        p if p == name || p.ends_with(&format!(".{name}")) => p.to_owned(),
        p => format!("{p}.{name}"),
    }
}
