//! Changes single texts of a JSON body by where they stand, and leaves every other byte as it is. Takes no tree apart
//! and no memory but what it changes; what is no JSON stays as it came.

/// Deeper bodies are left as they are.
const DEEPEST: usize = 64;
/// What stands below these is the client's own, whatever its fields are called.
const NOT_OURS: &[&str] = &["metadata", "attributes", "parameters", "schema", "properties"];

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPlace<'a> {
    /// Its field; of a text in a list, that of the list.
    pub field: &'a str,
    /// How many objects and lists it lies in.
    pub depth: usize,
    /// The field of the list that its object is part of.
    pub list: &'a str,
    /// The field of another object that its own is the value of.
    pub object: &'a str,
}

#[derive(Clone, Copy, Debug)]
struct Level<'a> {
    is_object: bool,
    /// The field that is being read; of a list, its own.
    field: &'a str,
    /// The next text of an object is a field's name.
    at_name: bool,
    is_foreign: bool,
}

/// The body with other texts wherever `change` gives one; `None`: nothing changed. Texts and names with escapes in them
/// are passed over, as no id has any.
pub fn rewrite(json: &[u8], mut change: impl FnMut(&IdPlace<'_>, &str) -> Option<String>) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let (mut copied, mut at) = (0, 0);
    let mut levels: Vec<Level<'_>> = Vec::new();
    while at < json.len() {
        match json[at] {
            b'"' => {
                let end = end_of_text(json, at)?;
                let text = std::str::from_utf8(&json[at + 1..end]).ok()?;
                let is_plain = !text.contains('\\');
                match levels.last_mut() {
                    Some(level) if level.is_object && level.at_name => {
                        level.field = if is_plain { text } else { "" };
                        level.at_name = false;
                    }
                    Some(level) if is_plain && !level.is_foreign => {
                        let field = level.field;
                        let (list, object) = around(&levels);
                        let place = IdPlace { field, depth: levels.len(), list, object };
                        if let Some(changed) = change(&place, text) {
                            let out = out.get_or_insert_with(|| Vec::with_capacity(json.len() + 128));
                            out.extend_from_slice(&json[copied..=at]);
                            out.extend_from_slice(changed.as_bytes());
                            copied = end;
                        }
                    }
                    _ => {}
                }
                at = end;
            }
            open @ (b'{' | b'[') => {
                if levels.len() == DEEPEST {
                    return None;
                }
                let (field, foreign) = levels.last().map_or(("", false), |level| (level.field, level.is_foreign));
                let is_foreign = foreign || NOT_OURS.contains(&field);
                let is_object = open == b'{';
                levels.push(Level { is_object, field, at_name: is_object, is_foreign });
            }
            b'}' | b']' => drop(levels.pop()),
            b',' => {
                if let Some(level) = levels.last_mut() {
                    level.at_name = level.is_object;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut out = out?;
    out.extend_from_slice(&json[copied..]);
    Some(out)
}

/// Whether a body has more levels than are looked at.
pub fn is_too_deep(json: &[u8]) -> bool {
    let (mut levels, mut at) = (0_usize, 0);
    while at < json.len() {
        match json[at] {
            b'"' => match end_of_text(json, at) {
                Some(end) => at = end,
                None => return false,
            },
            b'{' | b'[' if levels == DEEPEST => return true,
            b'{' | b'[' => levels += 1,
            b'}' | b']' => levels = levels.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The field of the list that the innermost object is part of, and the one that it is the value of.
fn around<'a>(levels: &[Level<'a>]) -> (&'a str, &'a str) {
    match levels {
        [.., outer, inner] if inner.is_object && outer.is_object => ("", outer.field),
        [.., list, inner] if inner.is_object => (list.field, ""),
        _ => ("", ""),
    }
}

/// The place of the quote that ends a text.
fn end_of_text(json: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(json: &str) -> Vec<String> {
        let mut found = Vec::new();
        let changed = rewrite(json.as_bytes(), |place, text| {
            found.push(format!("{}{}/{}/{}={text}", place.list, place.object, place.field, place.depth));
            None
        });
        assert_eq!(changed, None);
        found
    }

    #[test]
    fn places_are_told() {
        let json = r#"{"id":"a","data":[{"id":"b","n":1},{"id":"c"}],"file_ids":["d","e"],"x":{"id":"f"}}"#;
        let told = ["/id/1=a", "data/id/3=b", "data/id/3=c", "/file_ids/2=d", "/file_ids/2=e", "x/id/2=f"];
        assert_eq!(places(json), told);
        assert_eq!(places(r#"["a"]"#), ["//1=a"]);
    }

    #[test]
    fn what_is_not_changed_stays_byte_for_byte() {
        let json = "{ \"id\" :\"old\",\n\"t\":\"say \\\"old\\\"\", \"old\":[1.50,\"old\",null], \"e\":\"ü\"}";
        let out = rewrite(json.as_bytes(), |place, text| (place.field == "id" && text == "old").then(|| "new".into()));
        assert_eq!(String::from_utf8(out.unwrap()).unwrap(), json.replacen("\"old\"", "\"new\"", 1));
    }

    #[test]
    fn what_the_client_wrote_for_itself_is_not_seen() {
        assert!(places(r#"{"metadata":{"id":"a","deep":[{"file_id":"b"}]},"n":{"n":1}}"#).is_empty());
        assert_eq!(places(r#"{"metadata":{"id":"a"},"id":"b"}"#), ["/id/1=b"]);
        assert_eq!(places(r#"{"\u0069d":"a","id":"b\n"}"#), ["//1=a"]);
    }

    #[test]
    fn broken_and_deep_bodies_are_left_alone() {
        for json in [r#"{"id":"a"#, "}}]]\"a\"", "\"\\", ""] {
            assert_eq!(rewrite(json.as_bytes(), |_, _| Some("x".into())), None, "{json}");
        }
        let deep = format!("{}\"a\"", "[".repeat(DEEPEST + 1));
        assert_eq!(rewrite(deep.as_bytes(), |_, _| Some("x".into())), None);
    }
}
