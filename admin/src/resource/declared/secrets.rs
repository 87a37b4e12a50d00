//! Secrets in files: each is a name in the place of a value. Names are made from where the secret stands, so that they
//! are the same each time; what they stand for is given beside the file, never in it.

use crate::problem::{Problem, bad};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const OPEN: &str = "${";
/// What every name begins with.
pub(crate) const PREFIX: &str = "GATEWAY_SECRET_";
const LONGEST: usize = 512;

/// A secret, and the fields that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownSecret {
    pub(crate) path: Vec<String>,
    pub(crate) plain: String,
}

/// The names that a file has given so far.
#[derive(Debug, Default)]
pub(crate) struct SecretNames(BTreeSet<String>);

impl SecretNames {
    /// A name that no other secret of the file has.
    pub(crate) fn next(&mut self, of: &[&str], path: &[String]) -> String {
        let parts = of.iter().copied().chain(path.iter().map(String::as_str));
        let words: Vec<String> = parts.filter(|part| !part.is_empty()).map(upper).collect();
        let name = format!("{PREFIX}{}", words.join("_"));
        let mut own = name.clone();
        let mut more = 2;
        while !self.0.insert(own.clone()) {
            own = format!("{name}_{more}");
            more += 1;
        }
        own
    }
}

fn upper(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

pub(crate) fn placeholder(name: &str) -> String {
    format!("{OPEN}{name}}}")
}

/// A place of a document; `None` where there is none.
pub(crate) fn spot<'v>(fields: &'v mut Map<String, Value>, path: &[String]) -> Option<&'v mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(fields.get_mut(first)?, |place, part| match place {
        Value::Object(inner) => inner.get_mut(part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A text in which names of secrets stand.
struct NamingText {
    path: Vec<String>,
    text: String,
}

fn search(value: &Value, path: &mut Vec<String>, found: &mut Vec<NamingText>) {
    let mut below = |part: String, value: &Value| {
        path.push(part);
        search(value, path, found);
        path.pop();
    };
    match value {
        Value::Object(inner) => inner.iter().for_each(|(name, value)| below(name.clone(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value)),
        Value::String(text) if text.contains(&format!("{OPEN}{PREFIX}")) => {
            found.push(NamingText { path: path.clone(), text: text.clone() });
        }
        _ => {}
    }
}

/// What names stand for, and which of them nothing stands for.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    given: BTreeMap<String, String>,
}

impl SecretValues {
    /// Names that are no names of secrets are refused: they would be read from nowhere.
    pub(crate) fn of(given: BTreeMap<String, String>) -> Result<Self, Problem> {
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        for name in given.keys() {
            if !name.starts_with(PREFIX) || name.len() > LONGEST || !plain(name) {
                return Err(bad("secrets", format_args!("must have names of the form {PREFIX}NAME, in capitals")));
            }
        }
        Ok(Self { given })
    }

    /// The text with its names replaced; `Err` names the first that nothing stands for.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&format!("{OPEN}{PREFIX}")) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let Some(end) = from.find('}') else { break };
            let name = &from[OPEN.len()..end];
            out.push_str(self.given.get(name).ok_or_else(|| name.to_owned())?);
            rest = &from[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// What is known of a declaration before its secrets are put in.
pub(crate) struct Filling<'a> {
    pub(crate) values: &'a SecretValues,
    /// Fields in which names are read.
    pub(crate) within: &'a [&'a str],
    /// What is stored, with an empty text in the place of each secret, and the secrets.
    pub(crate) before: Option<StoredFields<'a>>,
    /// A stored one stays only where what stands around it stays.
    pub(crate) bound: bool,
}

pub(crate) struct StoredFields<'a> {
    pub(crate) fields: &'a Map<String, Value>,
    pub(crate) shown: &'a [ShownSecret],
}

/// Puts in what the names stand for. The names that nothing stands for come back.
pub(crate) fn fill(fields: &mut Map<String, Value>, how: &Filling<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for field in how.within {
        if let Some(value) = fields.get(*field) {
            search(value, &mut vec![(*field).to_owned()], &mut found);
        }
    }
    let paths: Vec<Vec<String>> = found.iter().map(|f| f.path.clone()).collect();
    let around = Surroundings { fields: blanked(fields, paths.iter()), before: how.before.as_ref() };
    let mut missing = Vec::new();
    for NamingText { path, text } in found {
        let kept = || {
            let stored = how.before.as_ref()?.shown.iter().find(|s| s.path == path)?;
            (!how.bound || around.stays(&path)).then(|| stored.plain.clone())
        };
        match how.values.fill(&text).or_else(|name| kept().ok_or(name)) {
            Err(name) => missing.push(name),
            Ok(plain) => {
                if let Some(place) = spot(fields, &path) {
                    *place = Value::String(plain);
                }
            }
        }
    }
    missing
}

fn blanked<'p>(fields: &Map<String, Value>, paths: impl Iterator<Item = &'p Vec<String>>) -> Map<String, Value> {
    let mut blank = fields.clone();
    for path in paths {
        if let Some(place) = spot(&mut blank, path) {
            *place = Value::String(String::new());
        }
    }
    blank
}

/// A declaration and what is stored, both without their secrets.
struct Surroundings<'a> {
    fields: Map<String, Value>,
    before: Option<&'a StoredFields<'a>>,
}

impl Surroundings<'_> {
    /// Whether the innermost item of a list that a secret stands in is as it was; the whole where it is in none.
    fn stays(&self, path: &[String]) -> bool {
        let Some(before) = self.before else { return false };
        let item = path.iter().rposition(|part| part.parse::<usize>().is_ok()).map_or(1, |at| at + 1);
        let (mut now, mut then) = (self.fields.clone(), blanked(before.fields, before.shown.iter().map(|s| &s.path)));
        let (now, then) = (spot(&mut now, &path[..item]).cloned(), spot(&mut then, &path[..item]).cloned());
        now.is_some() && now == then
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn values(pairs: &[(&str, &str)]) -> SecretValues {
        let given = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        SecretValues::of(given).unwrap_or_default()
    }

    #[test]
    fn names_are_made_of_places_and_differ() {
        let mut names = SecretNames::default();
        let path = ["targets".to_owned(), "0".to_owned(), "api_key".to_owned()];
        let first = names.next(&["config", "default", "pc-a"], &path);
        assert_eq!(first, "GATEWAY_SECRET_CONFIG_DEFAULT_PC_A_TARGETS_0_API_KEY");
        assert_eq!(names.next(&["config", "default", "pc.a"], &path), format!("{first}_2"));
    }

    #[test]
    fn names_are_filled_where_they_stand_and_nowhere_else() {
        let values = values(&[("GATEWAY_SECRET_A", "one"), ("GATEWAY_SECRET_B", "two")]);
        let mut fields = map(&json!({
            "headers": {"x": "Bearer ${GATEWAY_SECRET_A}, ${GATEWAY_SECRET_B}", "y": "${OTHER}", "z": "${GATEWAY_SECRET_A"},
            "text": "${GATEWAY_SECRET_A}",
        }));
        let how = Filling { values: &values, within: &["headers"], before: None, bound: false };
        assert_eq!(fill(&mut fields, &how), Vec::<String>::new());
        let headers = json!({"x": "Bearer one, two", "y": "${OTHER}", "z": "${GATEWAY_SECRET_A"});
        assert_eq!(fields["headers"], headers);
        assert_eq!(fields["text"], "${GATEWAY_SECRET_A}");
    }

    #[test]
    fn what_is_not_given_stays_where_it_was_and_where_it_goes() {
        let before = map(&json!({"checks": [{"url": "https://a.example", "key": ""}]}));
        let path = ["checks", "0", "key"].map(str::to_owned).to_vec();
        let shown = [ShownSecret { path, plain: "stored".to_owned() }];
        let none = SecretValues::default();
        let filled = |url: &str, bound| {
            let mut fields = map(&json!({"checks": [{"url": url, "key": "${GATEWAY_SECRET_K}"}]}));
            let before = Some(StoredFields { fields: &before, shown: &shown });
            let missing = fill(&mut fields, &Filling { values: &none, within: &["checks"], before, bound });
            (missing, fields["checks"][0]["key"].clone())
        };
        assert_eq!(filled("https://a.example", true), (vec![], json!("stored")));
        assert_eq!(filled("https://b.example", false), (vec![], json!("stored")));
        let (missing, _) = filled("https://b.example", true);
        assert_eq!(missing, ["GATEWAY_SECRET_K"]);
    }

    #[test]
    fn names_have_their_form() {
        for name in ["PATH", "GATEWAY_SECRET_a", "GATEWAY_SECRET_A-B"] {
            assert!(SecretValues::of([(name.to_owned(), String::new())].into()).is_err(), "{name}");
        }
    }
}
