//! Takes parts out of a JSON text by path; all other bytes stay. What a path leads to but is not there is ignored.

use super::{elements, members, splice};
use bytes::Bytes;
use gateway_domain::config::params::Step;
use serde_json::Error;
use std::borrow::Cow;
use std::ops::Range;

/// The body without what `paths` lead to, as it came when they lead nowhere.
pub fn remove<'p>(body: &Bytes, paths: impl Iterator<Item = &'p [Step]>) -> Result<Bytes, Error> {
    let mut gone = Vec::new();
    mark(body, 0, &paths.filter(|p| !p.is_empty()).collect::<Vec<_>>(), &mut gone)?;
    if gone.is_empty() {
        return Ok(body.clone());
    }
    Ok(splice(body, gone.into_iter().map(|range| (range, Cow::Borrowed(&b""[..]))).collect()))
}

/// One member or element: where all of it stands, and where its value does.
struct ContainerItem<'k> {
    key: Option<Cow<'k, str>>,
    index: usize,
    whole: Range<usize>,
    value: Range<usize>,
}

impl ContainerItem<'_> {
    fn is_meant(&self, step: &Step) -> bool {
        match step {
            Step::Key(key) => self.key.as_deref() == Some(&**key),
            Step::Index(index) => self.key.is_none() && self.index == *index,
            Step::Each => self.key.is_none(),
        }
    }
}

/// Finds what goes of the value in `text`, which starts at `base` of the whole. Paths are not empty.
fn mark(text: &[u8], base: usize, paths: &[&[Step]], gone: &mut Vec<Range<usize>>) -> Result<(), Error> {
    let parts: Vec<ContainerItem<'_>> = match text.iter().find(|b| !b.is_ascii_whitespace()) {
        _ if paths.is_empty() => return Ok(()),
        Some(b'{') => {
            let numbered = members(text)?.into_iter().enumerate();
            numbered
                .map(|(index, m)| ContainerItem {
                    key: Some(m.key),
                    index,
                    whole: m.name.start..m.value.end,
                    value: m.value,
                })
                .collect()
        }
        Some(b'[') => {
            let numbered = elements(text)?.into_iter().enumerate();
            numbered.map(|(index, value)| ContainerItem { key: None, index, whole: value.clone(), value }).collect()
        }
        _ => return Ok(()),
    };
    let meant = |part: &ContainerItem<'_>| paths.iter().any(|path| path.len() == 1 && part.is_meant(&path[0]));
    let goes: Vec<bool> = parts.iter().map(meant).collect();
    for (part, _) in parts.iter().zip(&goes).filter(|(_, goes)| !**goes) {
        let deeper: Vec<&[Step]> = paths.iter().filter(|p| part.is_meant(&p[0])).map(|p| &p[1..]).collect();
        mark(&text[part.value.clone()], base + part.value.start, &deeper, gone)?;
    }
    runs(&parts, &goes, base, gone);
    Ok(())
}

/// Each run of parts that go takes one comma less than it has neighbours.
fn runs(parts: &[ContainerItem<'_>], goes: &[bool], base: usize, gone: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < parts.len() {
        if !goes[at] {
            at += 1;
            continue;
        }
        let end = goes[at..].iter().position(|g| !g).map_or(parts.len(), |n| at + n);
        let range = match (at.checked_sub(1), parts.get(end)) {
            (_, Some(next)) => parts[at].whole.start..next.whole.start,
            (Some(before), None) => parts[before].whole.end..parts[end - 1].whole.end,
            (None, None) => parts[at].whole.start..parts[end - 1].whole.end,
        };
        gone.push(base + range.start..base + range.end);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::config::params::parse;

    fn without(body: &str, paths: &[&str]) -> String {
        let paths: Vec<_> = paths.iter().map(|p| parse(p).expect("a path")).collect();
        let left = remove(&Bytes::copy_from_slice(body.as_bytes()), paths.iter().map(|p| &**p)).expect("JSON");
        let text = String::from_utf8(left.to_vec()).expect("UTF-8");
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        text
    }

    #[test]
    fn parts_go_and_all_else_stays_as_it_was() {
        const BODY: &str =
            r#"{ "a" : 1.0, "b": {"x": [1, 2 ,3], "y" : {"z":1e2}}, "tools":[{"n":1,"x":2},{"x":3},{"n":4}] }"#;
        for (paths, left) in [
            (&["none", "a.x", "b[0]", "tools.x", "tools[9].x"][..], BODY),
            (&["a"], r#"{ "b": {"x": [1, 2 ,3], "y" : {"z":1e2}}, "tools":[{"n":1,"x":2},{"x":3},{"n":4}] }"#),
            (&["tools"], r#"{ "a" : 1.0, "b": {"x": [1, 2 ,3], "y" : {"z":1e2}} }"#),
            (&["a", "b"], r#"{ "tools":[{"n":1,"x":2},{"x":3},{"n":4}] }"#),
            (&["b", "tools"], r#"{ "a" : 1.0 }"#),
            (&["a", "b", "tools"], "{  }"),
            (&["b.x", "tools"], r#"{ "a" : 1.0, "b": {"y" : {"z":1e2}} }"#),
            (&["b.y.z", "tools", "a"], r#"{ "b": {"x": [1, 2 ,3], "y" : {}} }"#),
            (&["b.x[1]", "tools"], r#"{ "a" : 1.0, "b": {"x": [1, 3], "y" : {"z":1e2}} }"#),
            (&["b.x[2]", "b.x[1]", "tools"], r#"{ "a" : 1.0, "b": {"x": [1], "y" : {"z":1e2}} }"#),
            (&["b.x[*]", "b.y", "tools"], r#"{ "a" : 1.0, "b": {"x": []} }"#),
            (&["b", "tools[*].x"], r#"{ "a" : 1.0, "tools":[{"n":1},{},{"n":4}] }"#),
            (&["b", "tools[0].x", "tools[0].n", "tools[2]"], r#"{ "a" : 1.0, "tools":[{},{"x":3}] }"#),
            (&["b", "b.x", "tools[*]", "tools[1].x"], r#"{ "a" : 1.0, "tools":[] }"#),
        ] {
            assert_eq!(without(BODY, paths), left, "{paths:?}");
        }
    }

    #[test]
    fn a_key_given_twice_goes_twice_and_escapes_are_read() {
        assert_eq!(without(r#"{"a":1,"b":2,"\u0061":3}"#, &["a"]), r#"{"b":2}"#);
        assert_eq!(without(r#"{"a.b":1,"c":2}"#, &["['a.b']"]), r#"{"c":2}"#);
        assert_eq!(without("[1,2]", &["a"]), "[1,2]");
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        let path = parse("a").expect("a path");
        assert!(remove(&Bytes::from_static(b"{\"a\":"), [&*path].into_iter()).is_err());
    }
}
