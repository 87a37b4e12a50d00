//! What a config may say about a request body: paths, as `drop_params` writes them (`a.b`, `tools[0].x`,
//! `tools[*].x`, `a["b.c"]`), and top-level keys that conditions read.

use super::cost::{VALUE_TEXT, start};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// One step into a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(Box<str>),
    Index(usize),
    /// Every element of an array.
    Each,
}

pub type Path = Box<[Step]>;

/// Deeper paths have no use, and cost at each request.
const MOST_STEPS: usize = 32;

/// Reads a path; the error is a rule that goes with the path's text.
pub fn parse(text: &str) -> Result<Path, &'static str> {
    const RULE: &str = "is not a path such as a.b, tools[0].x or tools[*].x";
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner, &mut steps).ok_or(RULE)?,
            None => {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                let (key, after) = rest.split_at(end);
                if key.is_empty() || after.starts_with(']') {
                    return Err(RULE);
                }
                steps.push(Step::Key(key.into()));
                after
            }
        };
        if rest.is_empty() {
            break;
        }
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() || after.starts_with('[') {
                return Err(RULE);
            }
            rest = after;
        } else if !rest.starts_with('[') {
            return Err(RULE);
        }
    }
    if steps.len() > MOST_STEPS { Err("must have at most 32 steps") } else { Ok(steps.into()) }
}

/// What stands after an opening bracket; gives the rest behind the closing one.
fn bracket<'t>(inner: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    if let Some(quote) = inner.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (key, rest) = inner[1..].split_once(quote)?;
        steps.push(Step::Key(key.into()));
        return rest.strip_prefix(']');
    }
    let (inside, rest) = inner.split_once(']')?;
    steps.push(match inside {
        "*" => Step::Each,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => Step::Index(digits.parse().ok()?),
        _ => return None,
    });
    Some(rest)
}

/// The values of `wanted` keys of a JSON object, each in its key's place; everything else is passed over. What is no
/// JSON object has none. Of a long value the start is kept as a text.
pub fn read(body: &[u8], wanted: &[Box<str>]) -> Vec<Option<Value>> {
    let mut found: Vec<Option<Value>> = vec![None; wanted.len()];
    let mut left = wanted.len();
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = ParamVisitor { keys: wanted, found: &mut found, left: &mut left }.deserialize(&mut json);
    // Whoever has all that is wanted reads no further.
    if read.is_err() && left > 0 {
        found.fill(None);
    }
    found
}

struct ParamVisitor<'f, 'k> {
    keys: &'k [Box<str>],
    found: &'f mut [Option<Value>],
    left: &'f mut usize,
}

impl<'de> DeserializeSeed<'de> for ParamVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ParamVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while *self.left > 0 {
            let Some(ParamKey(key)) = map.next_key::<ParamKey<'de>>()? else { return Ok(()) };
            let place = self.keys.iter().position(|wanted| **wanted == *key);
            match place.filter(|place| self.found[*place].is_none()) {
                Some(place) => {
                    let raw: &'de RawValue = map.next_value()?;
                    self.found[place] = Some(value(raw.get()).map_err(A::Error::custom)?);
                    *self.left -= 1;
                }
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// A value from its text. A tree of a long one would take many times the memory that the text does.
fn value(raw: &str) -> Result<Value, serde_json::Error> {
    if raw.len() <= VALUE_TEXT {
        return serde_json::from_str(raw);
    }
    if raw.starts_with('"') {
        let text: Cow<'_, str> = serde_json::from_str::<ParamKey<'_>>(raw)?.0;
        return Ok(Value::from(start(&text, VALUE_TEXT)));
    }
    Ok(Value::from(start(raw, VALUE_TEXT)))
}

/// Borrowed unless it holds escapes.
#[derive(serde::Deserialize)]
struct ParamKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(k: &str) -> Step {
        Step::Key(k.into())
    }

    #[test]
    fn paths_are_read() {
        for (text, steps) in [
            ("a", vec![key("a")]),
            ("a.b", vec![key("a"), key("b")]),
            ("tools[0].x", vec![key("tools"), Step::Index(0), key("x")]),
            ("tools[*].x", vec![key("tools"), Step::Each, key("x")]),
            ("a[*][2]", vec![key("a"), Step::Each, Step::Index(2)]),
            (r#"a["b.c"].d"#, vec![key("a"), key("b.c"), key("d")]),
            ("a['b']", vec![key("a"), key("b")]),
            ("a-b_c.d e", vec![key("a-b_c"), key("d e")]),
        ] {
            assert_eq!(parse(text).map(Vec::from), Ok(steps), "{text}");
        }
    }

    #[test]
    fn only_wanted_keys_are_read() {
        let wanted: [Box<str>; 2] = ["model".into(), "n".into()];
        let body = br#"{"messages":[{"model":"no"}],"n":2,"mo\u0064el":"m","x":{"n":3}}"#;
        assert_eq!(read(body, &wanted), [Some("m".into()), Some(2.into())]);
        for body in [&b"[1]"[..], b"", b"{\"n\":1", b"\xff"] {
            assert_eq!(read(body, &wanted), [None, None]);
        }
    }

    #[test]
    fn of_a_long_value_the_start_is_read() {
        let wanted: [Box<str>; 3] = ["text".into(), "list".into(), "n".into()];
        let text = format!("é\\n{}", "x".repeat(VALUE_TEXT));
        let list = vec!["y"; VALUE_TEXT];
        let body = serde_json::json!({"list": list, "text": text, "n": 1}).to_string();
        let found = read(body.as_bytes(), &wanted);
        assert_eq!(found[0], Some(Value::from(&text[..VALUE_TEXT])));
        let list = found[1].as_ref().and_then(Value::as_str).expect("a text");
        assert!(list.len() == VALUE_TEXT && list.starts_with("[\"y\",\"y\""));
        assert_eq!(found[2], Some(1.into()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a]", "a[x]", "a[-1]", "a.[0]", "a[0]b", "a['b", "a['b'"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"a.".repeat(40)[..79]).is_err(), "too deep");
    }
}
