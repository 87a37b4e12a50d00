//! The quick way through a body: one look over JSON that is spelled as clients nearly always spell it, by its bytes. It
//! accepts nothing that the thorough way refuses, and finds the same; whatever is odd (an escape in a name, a value
//! that breaks a rule, text that is no JSON) is `None`, and left to the thorough way, which words what is wrong.

use super::rules::{self, FieldRule, FieldShape};
use super::{Peek, includes_usage};
use crate::{json_string, kept};
use std::borrow::Cow;
use std::ops::Range;

/// Nested deeper than this is left to the thorough way.
const DEEPEST: usize = 32;

pub(super) fn look<'b>(rules: &'static [FieldRule], body: &'b [u8]) -> Option<Peek<'b>> {
    let mut scan = BodyScan::of(body)?;
    let (mut peek, mut model) = (Peek { read: true, ..Peek::default() }, None);
    let mut seen = 0_u64;
    scan.open(b'{')?;
    while let Some(key) = scan.key()? {
        let Some(i) = rules.iter().position(|rule| rule.field.as_bytes() == key) else {
            if rules::is_closed(rules) {
                return None;
            }
            scan.value(0)?;
            peek.model_respelled |= key.eq_ignore_ascii_case(b"model");
            continue;
        };
        if seen & (1 << i) != 0 {
            return None;
        }
        seen |= 1 << i;
        let rule = &rules[i];
        if matches!(rule.shape, FieldShape::Messages) {
            scan.messages()?;
            continue;
        }
        let place = scan.value(0)?;
        let raw = std::str::from_utf8(&body[place.clone()]).ok()?;
        rule.check(raw).ok()?;
        match rule.field {
            _ if rule.is_of_some_models() => return None,
            "model" if raw != "null" => model = Some(place),
            "stream" => peek.stream = raw == "true",
            "stream_options" => peek.wants_usage = includes_usage(raw),
            _ => {}
        }
    }
    scan.end()?;
    peek.names_no_object = !scan.may_name_object;
    if rules.iter().enumerate().any(|(i, rule)| rule.required && seen & (1 << i) == 0) {
        return None;
    }
    if let Some(place) = model {
        peek.model = Some(Cow::Borrowed(plain_text(&body[place.clone()])?));
        peek.model_span = Some(place);
    }
    Some(peek)
}

/// What a string without escapes says.
fn plain_text(raw: &[u8]) -> Option<&str> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        return None;
    }
    std::str::from_utf8(inner).ok()
}

struct BodyScan<'b> {
    body: &'b [u8],
    /// The place of the first byte that was not read yet.
    at: usize,
    /// No byte is below a space, so none in a string is a control character.
    is_smooth: bool,
    /// What is open has had a member or an item. True again behind each that was closed, for it is one itself.
    is_begun: bool,
    /// A name was read by which a kept object may be named.
    may_name_object: bool,
}

impl<'b> BodyScan<'b> {
    fn of(body: &'b [u8]) -> Option<Self> {
        // A plain loop without an early end, which a compiler turns into wide instructions.
        let (least, most) = body.iter().fold((u8::MAX, 0), |(least, most), byte| (least.min(*byte), most.max(*byte)));
        if !most.is_ascii() && std::str::from_utf8(body).is_err() {
            return None;
        }
        Some(Self { body, at: 0, is_smooth: least >= b' ', is_begun: false, may_name_object: false })
    }

    /// The next byte that is no space, unread.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.body.get(self.at)?;
            // Nearly always told by one look.
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        if self.peek()? != wanted {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Reads an opening bracket; members or items follow.
    fn open(&mut self, bracket: u8) -> Option<()> {
        self.take(bracket)?;
        self.is_begun = false;
        Some(())
    }

    /// Whether another member or item follows, which begins here then; otherwise the closing bracket is read.
    fn goes_on(&mut self, closing: u8) -> Option<bool> {
        let byte = self.peek()?;
        let first = !std::mem::replace(&mut self.is_begun, true);
        if byte == closing {
            self.at += 1;
            return Some(false);
        }
        if first {
            return Some(true);
        }
        self.take(b',')?;
        self.peek()?;
        Some(true)
    }

    /// The next name, its colon read; `None` within behind the object's end. Its value is to be read before the next.
    fn key(&mut self) -> Option<Option<&'b [u8]>> {
        if !self.goes_on(b'}')? {
            return Some(None);
        }
        let key = self.name()?;
        if key.contains(&b'\\') {
            return None;
        }
        Some(Some(key))
    }

    /// The name that begins here as it is spelled, its colon read.
    fn name(&mut self) -> Option<&'b [u8]> {
        let place = self.string()?;
        let name = &self.body[place.start + 1..place.end - 1];
        self.may_name_object |= kept::may_name_object(name);
        self.take(b':')?;
        Some(name)
    }

    /// The place of the next value, without the space around it.
    fn value(&mut self, depth: usize) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' if depth < DEEPEST => {
                self.open(b'{')?;
                while self.goes_on(b'}')? {
                    self.name()?;
                    self.value(depth + 1)?;
                }
            }
            b'[' if depth < DEEPEST => {
                self.open(b'[')?;
                while self.goes_on(b']')? {
                    self.value(depth + 1)?;
                }
            }
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return None,
        }
        Some(start..self.at)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let found = self.body[self.at..].starts_with(word);
        self.at += word.len();
        found.then_some(())
    }

    /// RFC 8259, 6.
    fn number(&mut self) -> Option<()> {
        if self.body[self.at] == b'-' {
            self.at += 1;
        }
        match self.body.get(self.at)? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.body.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.body.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.body.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// One digit at least.
    fn digits(&mut self) -> Option<()> {
        let digits = self.body[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(())
    }

    /// The place of the string that begins here, quotes included.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        if *self.body.get(start)? != b'"' {
            return None;
        }
        let mut at = start + 1;
        loop {
            let rest = &self.body[at..];
            let found = json_string::find(rest)?;
            if !self.is_smooth && rest[..found].iter().fold(u8::MAX, |least, byte| least.min(*byte)) < b' ' {
                return None;
            }
            at += found + 1;
            if rest[found] == b'"' {
                self.at = at;
                return Some(start..at);
            }
            at += escape(&rest[found + 1..])?;
        }
    }

    /// Reads a list of at least one message: an object with a string `role`, contents in any form and a string `name`.
    fn messages(&mut self) -> Option<()> {
        self.open(b'[')?;
        let mut any = false;
        while self.goes_on(b']')? {
            self.message()?;
            any = true;
        }
        any.then_some(())
    }

    fn message(&mut self) -> Option<()> {
        let mut role = false;
        self.open(b'{')?;
        while let Some(key) = self.key()? {
            let place = self.value(0)?;
            let first = self.body[place.start];
            let fits = match key {
                b"role" => {
                    role = true;
                    first == b'"'
                }
                b"content" => matches!(first, b'"' | b'[' | b'n'),
                b"name" => matches!(first, b'"' | b'n'),
                _ => true,
            };
            if !fits {
                return None;
            }
        }
        role.then_some(())
    }

    /// Nothing but space follows.
    fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }
}

/// Bytes of an escape behind its backslash. Halves of surrogate pairs pass, as they do the thorough way, where nobody
/// reads the string.
fn escape(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(1),
        b'u' => rest.get(1..5)?.iter().all(u8::is_ascii_hexdigit).then_some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read, rules};
    use super::*;
    use crate::operation::Operation;
    use proptest::prelude::*;

    const OPERATIONS: [Operation; 7] = [
        Operation::ChatCompletions,
        Operation::Messages,
        Operation::Embeddings,
        Operation::Proxy,
        Operation::ModifyRun,
        Operation::CreateRun,
        Operation::Responses,
    ];

    /// What is found quickly is what is found thoroughly.
    fn agree(body: &[u8]) {
        for operation in OPERATIONS {
            let rules = rules::of(operation);
            if let Some(mut quick) = look(rules, body) {
                let mut named = false;
                kept::rewrite(body, |place, _| {
                    named |= kept::names_object(place);
                    None
                });
                assert!(!(named && quick.names_no_object), "{}", String::from_utf8_lossy(body));
                quick.names_no_object = false;
                let thorough = read(rules, body).map_err(|error| error.to_string());
                assert_eq!(Ok(quick), thorough, "{operation:?} {}", String::from_utf8_lossy(body));
            }
        }
    }

    #[test]
    fn usual_bodies_are_read_quickly() {
        let usual = [
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
            r#"{"messages":[{"role":"user","content":"a \"b\" \u00e9\n"},{"content":null,"role":"assistant","name":"x"}],
                "model" : "gpt-4o" , "stream":true, "stream_options":{"include_usage":true}, "n":1, "temperature":0.5e0}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"ü"},{"a":[[],{}]}]}],"x":{"y":[1,-2.5]}}"#,
            r#"{"messages":[{"role":"user"}],"tools":[{"type":"function"}],"model":null,"MODEL":"x"}"#,
        ];
        for body in usual {
            let quick = look(rules::of(Operation::ChatCompletions), body.as_bytes());
            let thorough = read(rules::of(Operation::ChatCompletions), body.as_bytes()).expect(body);
            assert_eq!(quick, Some(Peek { names_no_object: true, ..thorough }), "{body}");
        }
    }

    #[test]
    fn odd_bodies_are_left_to_the_thorough_way() {
        let message = r#""messages":[{"role":"user","content":"hi"}]"#;
        let odd = [
            String::new(),
            "[]".into(),
            "{}".into(),
            format!("{{{message}"),
            format!("{{{message}}} x"),
            format!("{{{message},}}"),
            format!("{{{message} \"n\":1}}"),
            format!("{{,{message}}}"),
            format!("{{{message},\"n\":01}}"),
            format!("{{{message},\"n\":1.}}"),
            format!("{{{message},\"n\":1e}}"),
            format!("{{{message},\"n\":-}}"),
            format!("{{{message},\"x\":+1}}"),
            format!("{{{message},\"x\":tru}}"),
            format!("{{{message},\"x\":[1 2]}}"),
            format!("{{{message},\"x\":[1,]}}"),
            format!("{{{message},\"x\":{{\"a\":1,}}}}"),
            format!("{{{message},\"x\":\"\\x\"}}"),
            format!("{{{message},\"x\":\"\\u12g4\"}}"),
            format!("{{{message},\"x\":\"a\nb\"}}"),
            format!("{{{message},\"m\\u006fdel\":\"a\"}}"),
            format!("{{{message},\"model\":\"\\u0061\"}}"),
            format!("{{{message},\"model\":\"a\",\"model\":\"a\"}}"),
            format!("{{{message},\"n\":0}}"),
            format!("{{{message},\"x\":{}{}}}", "[".repeat(40), "]".repeat(40)),
            r#"{"messages":[]}"#.into(),
            r#"{"messages":[{"content":"hi"}]}"#.into(),
            r#"{"messages":[{"role":1}]}"#.into(),
            r#"{"messages":[{"role":"user","content":{}}]}"#.into(),
            r#"{"messages":null}"#.into(),
            r#"{"messages":{}}"#.into(),
        ];
        for body in odd {
            assert_eq!(look(rules::of(Operation::ChatCompletions), body.as_bytes()), None, "{body}");
            agree(body.as_bytes());
        }
        assert_eq!(look(rules::of(Operation::ChatCompletions), b"{\"messages\":[{\"role\":\"\xff\"}]}"), None);
    }

    #[test]
    fn names_of_kept_objects_are_seen_wherever_they_stand() {
        for member in [
            r#""file_id":"file-1""#,
            r#""messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]"#,
            r#""tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]"#,
            r#""container":"cntr_1""#,
        ] {
            let body = format!("{{\"model\":\"m\",\"input\":\"x\",{member}}}");
            let quick = look(rules::of(Operation::Proxy), body.as_bytes()).expect("a usual body");
            assert!(!quick.names_no_object, "{body}");
        }
    }

    fn body() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            3 => prop::sample::select(vec![
                "\"messages\"", "\"model\"", "\"role\"", "\"content\"", "\"name\"", "\"stream\"", "\"n\"", "\"Model\"",
                "\"input\"", "\"metadata\"", "\"file_id\"", "\"part_ids\"", "\"conversation\"", "\"stream_options\"", "\"include_usage\"", "\"a\\n\"", "\"\\u00e9\"", "\"x\"",
            ]).prop_map(str::to_owned),
            2 => prop::sample::select(vec!["{", "}", "[", "]", ":", ",", "\"", "\\", " ", "\n", "\u{1}", "é"])
                .prop_map(str::to_owned),
            1 => prop::sample::select(vec!["true", "false", "null", "0", "-1", "1.5", "1e3", "01", "2.", "-"])
                .prop_map(str::to_owned),
        ];
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    /// A sound body with a byte changed, left out or put in.
    fn nearly_sound() -> impl Strategy<Value = Vec<u8>> {
        let sound = prop::sample::select(vec![
            r#"{"model":"m","messages":[{"role":"user","content":"h\u0069"},{"role":"a","content":[{"t":1}]}],"n":2}"#,
            r#"{ "input" : ["a","b"], "model":"m", "dimensions":12, "x":{"y":[true,null,-0.5e+2]} }"#,
            r#"{"metadata":{"a":"b"}}"#,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user"}]}"#,
        ]);
        (sound, any::<prop::sample::Index>(), any::<u8>(), 0..3_u8).prop_map(|(sound, at, byte, how)| {
            let mut bytes = sound.as_bytes().to_vec();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn words_in_any_order(body in body()) {
            agree(body.as_bytes());
        }

        #[test]
        fn one_byte_off(body in nearly_sound()) {
            agree(&body);
        }
    }
}
