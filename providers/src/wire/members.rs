//! The members of a JSON object, found without reading what they hold: values that nobody asks for are passed by their
//! quotes and brackets alone. Knows no names. What it gives is to be parsed by whoever wants it; text that is no JSON
//! gives an error or values that do not parse, never a value of another member.

use gateway_domain::json_string;

/// Not an object as JSON has it, or a key with escapes in it, which wants a real parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Odd;

/// A key as it nearly always stands in an object: behind a comma, in quotes, with its colon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualKey(&'static str);

impl UsualKey {
    /// `spelled` as in `,"key":`.
    pub(crate) const fn new(spelled: &'static str) -> Self {
        let bytes = spelled.as_bytes();
        assert!(bytes.len() > 4 && bytes[0] == b',' && bytes[1] == b'"', "it begins with a comma and a quote");
        assert!(bytes[bytes.len() - 2] == b'"' && bytes[bytes.len() - 1] == b':', "it ends with a quote and a colon");
        Self(spelled)
    }
}

/// A way through one object, member by member.
#[derive(Clone, Debug)]
pub(crate) struct MemberCursor<'j> {
    json: &'j str,
    /// Position of the first byte that was not read yet.
    at: usize,
    is_begun: bool,
}

impl<'j> MemberCursor<'j> {
    pub(crate) fn of(json: &'j str) -> Result<Self, Odd> {
        Self::from(json, 0)
    }

    fn from(json: &'j str, from: usize) -> Result<Self, Odd> {
        Ok(Self { json, at: expect(json.as_bytes(), from, b'{').ok_or(Odd)?, is_begun: false })
    }

    /// The next key; `None` behind the object's end. Its value is to be read before the next.
    pub(crate) fn key(&mut self) -> Result<Option<&'j str>, Odd> {
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        let mut byte = next(bytes, &mut at).ok_or(Odd)?;
        if byte == b'}' {
            self.at = at;
            return Ok(None);
        }
        if self.is_begun {
            if byte != b',' {
                return Err(Odd);
            }
            byte = next(bytes, &mut at).ok_or(Odd)?;
        }
        if byte != b'"' {
            return Err(Odd);
        }
        let end = at + json_string::find(&bytes[at..]).ok_or(Odd)?;
        if bytes[end] != b'"' {
            return Err(Odd);
        }
        let key = &self.json[at..end];
        (self.at, self.is_begun) = (expect(bytes, end + 1, b':').ok_or(Odd)?, true);
        Ok(Some(key))
    }

    /// The next key, told by one comparison where it is `usual` and spelled without space.
    #[inline]
    pub(crate) fn key_as(&mut self, usual: Option<&UsualKey>) -> Result<Option<&'j str>, Odd> {
        if let Some(UsualKey(spelled)) = usual {
            let bytes = self.json.as_bytes();
            // The first has no comma before it.
            let from = if self.is_begun { 0 } else { 1 };
            if let Some(next) = bytes.get(self.at..)
                && next.starts_with(&spelled.as_bytes()[from..])
            {
                (self.at, self.is_begun) = (self.at + spelled.len() - from, true);
                return Ok(Some(&spelled[2..spelled.len() - 2]));
            }
        }
        self.key()
    }

    /// The text of the value behind the key that was read.
    pub(crate) fn value(&mut self) -> Result<&'j str, Odd> {
        let mut from = self.at;
        next(self.json.as_bytes(), &mut from).ok_or(Odd)?;
        let until = pass(self.json.as_bytes(), from - 1)?;
        self.at = until;
        Ok(&self.json[from - 1..until])
    }

    /// The members of that value, which is an object: `found` is to read the value of each.
    pub(crate) fn object(&mut self, mut found: impl FnMut(&'j str, &mut Self) -> Result<(), Odd>) -> Result<(), Odd> {
        let mut inner = Self::from(self.json, self.at)?;
        while let Some(key) = inner.key()? {
            found(key, &mut inner)?;
        }
        self.at = inner.at;
        Ok(())
    }

    /// Goes past `text`, if that comes next to the byte, whatever it is the beginning or the end of.
    pub(crate) fn skip(&mut self, text: &str) -> Option<()> {
        self.json.as_bytes().get(self.at..)?.starts_with(text.as_bytes()).then(|| self.at += text.len())
    }

    /// Whether that value is `null`, or will be odd. It is still to be read.
    pub(crate) fn is_null(&self) -> bool {
        next(self.json.as_bytes(), &mut { self.at }) == Some(b'n')
    }

    /// That value as a whole number without a sign, or `null`.
    pub(crate) fn count(&mut self) -> Result<Option<u64>, Odd> {
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        let mut byte = next(bytes, &mut at).ok_or(Odd)?;
        if !byte.is_ascii_digit() {
            return if self.value()? == "null" { Ok(None) } else { Err(Odd) };
        }
        let mut number = 0_u64;
        while byte.is_ascii_digit() {
            let ten = number.checked_mul(10).and_then(|ten| ten.checked_add(u64::from(byte - b'0')));
            number = ten.ok_or(Odd)?;
            byte = *bytes.get(at).ok_or(Odd)?;
            at += 1;
        }
        if !matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t') {
            return Err(Odd);
        }
        self.at = at - 1;
        Ok(Some(number))
    }

    /// Whether nothing but space follows.
    pub(crate) fn end(self) -> Result<(), Odd> {
        next(self.json.as_bytes(), &mut { self.at }).map_or(Ok(()), |_| Err(Odd))
    }
}

/// The elements of the array that `json` is.
pub(crate) fn elements(json: &str) -> Result<Vec<&str>, Odd> {
    let bytes = json.as_bytes();
    let mut at = expect(bytes, 0, b'[').ok_or(Odd)?;
    let mut found = Vec::new();
    loop {
        let byte = next(bytes, &mut at).ok_or(Odd)?;
        if byte == b']' && found.is_empty() {
            break;
        }
        let until = pass(bytes, at - 1)?;
        found.push(&json[at - 1..until]);
        at = until;
        match next(bytes, &mut at).ok_or(Odd)? {
            b',' => {}
            b']' => break,
            _ => return Err(Odd),
        }
    }
    next(bytes, &mut at).map_or(Ok(found), |_| Err(Odd))
}

/// The next byte that is no space; `at` is behind it then.
#[inline]
fn next(json: &[u8], at: &mut usize) -> Option<u8> {
    loop {
        let byte = *json.get(*at)?;
        *at += 1;
        // Nearly always told by one look.
        if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            return Some(byte);
        }
    }
}

/// The place behind `wanted`, which has to come next.
#[inline]
fn expect(json: &[u8], mut from: usize, wanted: u8) -> Option<usize> {
    let found = next(json, &mut from)?;
    (found == wanted).then_some(from)
}

/// The place behind the value at `from`.
fn pass(json: &[u8], from: usize) -> Result<usize, Odd> {
    match json[from] {
        b'"' => pass_string(json, from + 1),
        b'{' | b'[' => pass_nested(json, from + 1),
        _ => {
            let mut at = from;
            while !matches!(json.get(at).ok_or(Odd)?, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
                at += 1;
            }
            if at == from { Err(Odd) } else { Ok(at) }
        }
    }
}

/// `from` is behind the opening quote.
fn pass_string(json: &[u8], mut from: usize) -> Result<usize, Odd> {
    loop {
        let rest = json.get(from..).ok_or(Odd)?;
        let at = json_string::find(rest).ok_or(Odd)?;
        if rest[at] == b'"' {
            return Ok(from + at + 1);
        }
        from += at + 2;
    }
}

/// `from` is behind the opening bracket.
fn pass_nested(json: &[u8], from: usize) -> Result<usize, Odd> {
    let (mut at, mut depth) = (from, 1_usize);
    loop {
        let byte = *json.get(at).ok_or(Odd)?;
        at += 1;
        match byte {
            b'"' => at = pass_string(json, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn all(json: &str) -> Result<Vec<(&str, &str)>, Odd> {
        let (mut found, mut all) = (Vec::new(), MemberCursor::of(json)?);
        while let Some(key) = all.key()? {
            found.push((key, all.value()?));
        }
        all.end().map(|()| found)
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

    #[test]
    fn a_key_is_the_same_whatever_was_expected() {
        for json in [
            "{\"a\":1,\"bc\":2}",
            "{ \"a\" : 1 , \"bc\":2}",
            "{\"bc\":2,\"a\":1}",
            "{}",
            "{\"a\":1",
            "{\"a\"",
            "{",
            "{\"a\":1 \"bc\":2}",
        ] {
            let all = |usual: &[UsualKey]| {
                let (mut found, mut all, mut usual) = (Vec::new(), MemberCursor::of(json)?, usual.iter());
                while let Some(key) = all.key_as(usual.next())? {
                    found.push((key, all.value()?));
                }
                all.end().map(|()| found)
            };
            let plain = all(&[]);
            let [a, b, bc, c] = [r#","a":"#, r#","b":"#, r#","bc":"#, r#","c":"#].map(UsualKey::new);
            for usual in [&[a, bc][..], &[bc, a], &[a], &[b, b], &[c, c]] {
                assert_eq!(all(usual), plain, "{json} {usual:?}");
            }
        }
    }

    #[test]
    fn elements_are_given_as_they_stand() {
        for (json, found) in [
            (" [] ", Ok(vec![])),
            ("[ 1 ,\"],\", [2,[3]],{\"a\":[]} ]", Ok(vec!["1", "\"],\"", "[2,[3]]", "{\"a\":[]}"])),
            ("[1", Err(Odd)),
            ("[1,", Err(Odd)),
            ("[1 2]", Err(Odd)),
            ("[1]]", Err(Odd)),
            ("[,1]", Err(Odd)),
            ("{}", Err(Odd)),
        ] {
            assert_eq!(elements(json), found, "{json}");
        }
    }

    #[test]
    fn counts_are_whole_numbers() {
        let count = |json: &str| {
            let mut all = MemberCursor::of(json).expect("an object");
            all.key().expect("a key");
            let count = all.count()?;
            all.key()?;
            all.end().map(|()| count)
        };
        for (json, number) in [
            ("{\"a\":0}", Some(0)),
            ("{\"a\": 12 }", Some(12)),
            ("{\"a\":null}", None),
            ("{\"a\":18446744073709551615}", Some(u64::MAX)),
        ] {
            assert_eq!(count(json), Ok(number), "{json}");
        }
        for odd in ["1.0", "-1", "+1", "1e2", "\"1\"", "[1]", "{}", "true", "nul", "18446744073709551616", "", "1]"] {
            assert_eq!(count(&format!("{{\"a\":{odd}}}")), Err(Odd), "{odd}");
        }
    }

    #[test]
    fn an_object_within_is_read_in_its_place() {
        let json = r#"{"a":1,"c":{"d":2},"e":3}"#;
        let mut all = MemberCursor::of(json).expect("an object");
        assert_eq!((all.key(), all.value(), all.key()), (Ok(Some("a")), Ok("1"), Ok(Some("c"))));
        let mut inner = Vec::new();
        let read = all.object(|key, at| at.value().map(|value| inner.push((key, value))));
        assert_eq!(read, Ok(()));
        assert_eq!(inner, [("d", "2")]);
        assert_eq!((all.key(), all.value(), all.key()), (Ok(Some("e")), Ok("3"), Ok(None)));
        assert_eq!(all.end(), Ok(()));
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
