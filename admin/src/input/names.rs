//! Names as clients spell them: camelCase of a name that is known, and what says again what the path has said.
//! Knows names only; what they mean is read by others.

use serde_json::Value;

/// The names that a route knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownNames {
    pub(crate) path: &'static str,
    /// Names that the query string may hold; others are refused.
    pub(crate) query: &'static [&'static str],
    /// Names of the query string whose features are not in this version: they are refused with a message that says so.
    pub(crate) later: &'static [&'static str],
    /// The schema of the body.
    pub(crate) body: Option<fn() -> Value>,
    /// Fields that the body may hold beside those of its schema.
    pub(crate) more: &'static [&'static str],
}

/// One variable of a path, as the request fills it.
pub(crate) type Variable = (String, String);

pub(super) const OTHERWISE: &str = "must be what the path says";
pub(super) const TWICE: &str = "is given twice, in two spellings";

/// The one character that a database may not be able to keep.
pub(crate) fn is_nul(text: &str) -> bool {
    text.contains('\0')
}

/// `apiVersion`, `api-version` and `api_version` are one name; `Key` is none of `key`.
fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut small = false;
    for c in name.chars() {
        match c {
            '-' => out.push('_'),
            // `workspaceID` is `workspace_id`.
            c if c.is_ascii_uppercase() && small => {
                out.push('_');
                out.push(c.to_ascii_lowercase());
            }
            c if c.is_ascii_uppercase() && out.contains('_') => out.push(c.to_ascii_lowercase()),
            c => out.push(c),
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    // One client spells this one name as Americans do.
    if out == "organization_id" { "organisation_id".to_owned() } else { out }
}

/// The known name that `given` is, or is another spelling of.
pub(super) fn known<'n>(given: &str, mut names: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    names.clone().find(|name| *name == given).or_else(|| {
        let given = folded(given);
        names.find(|name| folded(name) == given)
    })
}

/// What the path says of `name`: the value of a variable by its own name, or of `{id}` by the names that clients
/// give it in bodies, `slug` and the singular of the collection before it with `_id`.
pub(super) fn said<'v>(name: &str, path: &str, vars: &'v [Variable]) -> Option<&'v str> {
    let name = folded(name);
    let fits = |(variable, _): &&Variable| {
        *variable == name || variable == "id" && (name == "slug" || Some(&name) == id_of(path).as_ref())
    };
    vars.iter().find(fits).map(|(_, value)| value.as_str())
}

/// `workspace_id` for `/admin/workspaces/{id}/users`.
fn id_of(path: &str) -> Option<String> {
    let (collections, _) = path.split_once("/{id}")?;
    let collection = collections.rsplit('/').next()?.replace('-', "_");
    let one = collection
        .strip_suffix("ies")
        .map_or_else(|| collection.strip_suffix('s').unwrap_or(&collection).to_owned(), |stem| format!("{stem}y"));
    Some(one + "_id")
}

/// A name as messages show it, cut to a length: a client may send any.
pub(super) fn shown(name: &str) -> String {
    const MOST: usize = 64;
    match name.char_indices().nth(MOST) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name() {
        let names = ["workspace_id", "isDefault", "key", "url"];
        for (given, want) in [
            ("workspace_id", Some("workspace_id")),
            ("workspaceId", Some("workspace_id")),
            ("workspaceID", Some("workspace_id")),
            ("workspace-id", Some("workspace_id")),
            ("is_default", Some("isDefault")),
            ("isDefault", Some("isDefault")),
            ("Key", None),
            ("KEY", None),
            ("keys", None),
            ("workspaceid", None),
            ("organizationId", None),
            ("", None),
        ] {
            assert_eq!(known(given, names.into_iter()), want, "{given}");
        }
    }

    #[test]
    fn what_a_path_says_again() {
        let vars = |pairs: &[(&str, &str)]| -> Vec<Variable> {
            pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
        };
        for (name, path, pairs, want) in [
            ("id", "/api-keys/{id}", &[("id", "k")][..], Some("k")),
            ("api_key_id", "/api-keys/{id}", &[("id", "k")], Some("k")),
            ("slug", "/configs/{id}", &[("id", "c")], Some("c")),
            ("workspaceId", "/admin/workspaces/{id}/users", &[("id", "w")], Some("w")),
            ("sub-type", "/api-keys/{type}/{sub_type}", &[("type", "a"), ("sub_type", "b")], Some("b")),
            ("user_id", "/workspaces/{id}/users/{user_id}", &[("id", "w"), ("user_id", "u")], Some("u")),
            ("name", "/configs/{id}", &[("id", "c")], None),
            ("workspace_id", "/configs/{id}", &[("id", "c")], None),
            ("slug", "/configs", &[], None),
        ] {
            assert_eq!(said(name, path, &vars(pairs)), want, "{name} {path}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shown("abc"), "abc");
        assert_eq!(shown(&"ä".repeat(100)).chars().count(), 65);
    }
}
