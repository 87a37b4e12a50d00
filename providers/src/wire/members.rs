//! The members of a JSON object, found without reading what they hold: values that nobody asks for are passed by their
//! quotes and brackets alone. Knows no names. What it gives is to be parsed by whoever wants it; text that is no JSON gives
//! an error or values that do not parse, never a value of another member.

use memchr::memchr2;

/// Not an object as JSON has it, or a key with escapes in it, which wants a real parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Odd;

/// Calls `found` with each key and the text of its value, in the order they stand.
pub(crate) fn members<'j>(json: &'j str, mut found: impl FnMut(&'j str, &'j str)) -> Result<(), Odd> {
    let mut at = expect(json, 0, b'{')?;
    if peek(json, at)?.0 == b'}' {
        return end(json, peek(json, at)?.1);
    }
    loop {
        let from = expect(json, at, b'"')?;
        let to = from + memchr2(b'"', b'\\', &json.as_bytes()[from..]).ok_or(Odd)?;
        if json.as_bytes()[to] == b'\\' {
            return Err(Odd);
        }
        let after = expect(json, to + 1, b':')?;
        let value = peek(json, after)?.1 - 1;
        let until = pass(json.as_bytes(), value)?;
        found(&json[from..to], &json[value..until]);
        match peek(json, until)? {
            (b',', next) => at = next,
            (b'}', next) => return end(json, next),
            _ => return Err(Odd),
        }
    }
}

/// The next byte that is no space, and the place behind it.
fn peek(json: &str, from: usize) -> Result<(u8, usize), Odd> {
    let rest = json.as_bytes().get(from..).ok_or(Odd)?;
    let space = rest.iter().position(|b| !matches!(b, b' ' | b'\n' | b'\r' | b'\t')).ok_or(Odd)?;
    Ok((rest[space], from + space + 1))
}

fn expect(json: &str, from: usize, byte: u8) -> Result<usize, Odd> {
    peek(json, from).and_then(|(found, next)| (found == byte).then_some(next).ok_or(Odd))
}

fn end(json: &str, from: usize) -> Result<(), Odd> {
    peek(json, from).map_or(Ok(()), |_| Err(Odd))
}

/// The place behind the value at `from`.
fn pass(json: &[u8], from: usize) -> Result<usize, Odd> {
    match json[from] {
        b'"' => pass_string(json, from + 1),
        b'{' | b'[' => pass_nested(json, from + 1),
        _ => {
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            let length = json[from..].iter().position(ends).filter(|length| *length > 0);
            length.map(|length| from + length).ok_or(Odd)
        }
    }
}

/// `from` is behind the opening quote. Most strings are names: to look for the end of one takes less than to set a search up.
fn pass_string(json: &[u8], mut from: usize) -> Result<usize, Odd> {
    const NAME: usize = 16;
    loop {
        let rest = json.get(from..).ok_or(Odd)?;
        let near = rest.iter().take(NAME).position(|b| matches!(b, b'"' | b'\\'));
        let at = match near {
            Some(at) => at,
            None => NAME + memchr2(b'"', b'\\', rest.get(NAME..).ok_or(Odd)?).ok_or(Odd)?,
        };
        if rest[at] == b'"' {
            return Ok(from + at + 1);
        }
        from += at + 2;
    }
}

/// `from` is behind the opening bracket.
fn pass_nested(json: &[u8], mut from: usize) -> Result<usize, Odd> {
    let mut depth = 1_usize;
    loop {
        let rest = json.get(from..).ok_or(Odd)?;
        let at = rest.iter().position(|b| TELLS[usize::from(*b)]).ok_or(Odd)?;
        from += at + 1;
        match rest[at] {
            b'"' => from = pass_string(json, from)?,
            b'{' | b'[' => depth += 1,
            _ => {
                depth -= 1;
                if depth == 0 {
                    return Ok(from);
                }
            }
        }
    }
}

/// Bytes that open or close something.
static TELLS: [bool; 256] = {
    let mut tells = [false; 256];
    let all = b"\"{}[]";
    let mut i = 0;
    while i < all.len() {
        tells[all[i] as usize] = true;
        i += 1;
    }
    tells
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn all(json: &str) -> Result<Vec<(&str, &str)>, Odd> {
        let mut found = Vec::new();
        members(json, |key, value| found.push((key, value)))?;
        Ok(found)
    }

    #[test]
    fn values_are_given_as_they_stand() {
        let json = " {\"a\" : 1 ,\"b\":\"x\\\"}\", \"c\":[{\"a\":\"]\"},2], \"d\":{},\"e\":null\n}\n";
        let found = [("a", "1"), ("b", "\"x\\\"}\""), ("c", "[{\"a\":\"]\"},2]"), ("d", "{}"), ("e", "null")];
        assert_eq!(all(json), Ok(found.to_vec()));
        assert_eq!(all("{}"), Ok(Vec::new()));
        assert_eq!(all("{ } "), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_object_is_odd() {
        let cases = [
            "",
            " ",
            "[]",
            "null",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{\"a\":}",
            "{\"a\":,\"b\":1}",
            "{\"a\":\"x}",
            "{\"a\":\"x\\\"}",
            "{\"a\":[1}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":1}}",
            "{\"a\":1} x",
            "{\"a\":1 2}",
            "{\"\\u0061\":1}",
            "{\"a\":\"x\\",
        ];
        for json in cases {
            assert_eq!(all(json), Err(Odd), "{json}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "[\\[\\]{}\",\\\\: a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map("[a-z]{1,4}", inner, 0..6).prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_member_is_found(object in prop::collection::btree_map("[a-z]{1,4}", json(), 0..8), pretty: bool) {
            let value: Value = object.clone().into_iter().collect();
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("it is JSON");
            let found = all(&text).expect("an object");
            prop_assert_eq!(found.len(), object.len());
            for (key, raw) in found {
                let value: Value = serde_json::from_str(raw).expect("a value");
                prop_assert_eq!(&value, &object[key]);
            }
        }

        #[test]
        fn nothing_panics(text in "[\\[\\]{}\",\\\\: aé]{0,40}") {
            let _ = all(&text);
        }
    }
}
