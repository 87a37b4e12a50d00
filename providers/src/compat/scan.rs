//! Looks into events without parsing them: whether a key says something other than null, how much text one carries.
//! A quoted name that is a key stands in JSON exactly so; inside a string its quotes would be escaped.

use memchr::memchr2;
use memchr::memmem::Finder;

/// Whether `key` (quotes included) stands in `json` with anything but null after it.
pub(crate) fn says(json: &[u8], key: &Finder<'_>) -> bool {
    key.find_iter(json).any(|at| {
        let rest = json[at + key.needle().len()..].trim_ascii_start();
        // Without a colon it is a value, `"type":"error"`, and worth a closer look.
        rest.strip_prefix(b":").is_none_or(|value| !value.trim_ascii_start().starts_with(b"null"))
    })
}

/// The first string that is the value of `key` (quotes included): its inside as it stands, and its characters.
pub(crate) fn string_after<'j>(json: &'j [u8], key: &Finder<'_>) -> Option<(&'j [u8], u64)> {
    strings_after(json, key).next()
}

/// All strings that are values of `key`.
pub(crate) fn strings_after<'j>(json: &'j [u8], key: &Finder<'_>) -> impl Iterator<Item = (&'j [u8], u64)> {
    key.find_iter(json).filter_map(|at| string_at(&json[at + key.needle().len()..]))
}

/// What follows a name: a colon and a string, with or without space around them.
fn string_at(rest: &[u8]) -> Option<(&[u8], u64)> {
    let value = rest.trim_ascii_start().strip_prefix(b":")?;
    string(value.trim_ascii_start().strip_prefix(b"\"")?)
}

/// What stands before the closing quote, and its characters; an escape counts as one.
fn string(json: &[u8]) -> Option<(&[u8], u64)> {
    let (mut count, mut from) = (0, 0);
    loop {
        let at = from + memchr2(b'"', b'\\', &json[from..])?;
        count += json[from..at].iter().filter(|b| (**b & 0xC0) != 0x80).count() as u64;
        if json[at] == b'"' {
            return Some((&json[..at], count));
        }
        let escape = if json.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        count += 1;
        from = at + escape;
        json.get(from..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_says_nothing() {
        let usage = Finder::new("\"usage\"");
        assert!(!says(br#"{"a":1}"#, &usage));
        assert!(!says(br#"{"usage":null,"x":"usage"}"#, &Finder::new("\"usages\"")));
        assert!(!says(br#"{"usage" : null}"#, &usage));
        assert!(says(br#"{"usage":null,"b":{"usage":{}}}"#, &usage));
        assert!(!says(br#"{"content":"the \"usage\": 3"}"#, &usage), "escaped quotes are text");
        assert!(says(br#"{"type":"error"}"#, &Finder::new("\"error\"")));
    }

    fn chars_after(json: &[u8], key: &Finder<'_>) -> Option<u64> {
        string_after(json, key).map(|(_, chars)| chars)
    }

    #[test]
    fn characters_not_bytes() {
        let content = Finder::new("\"content\"");
        assert_eq!(chars_after("{\"content\":\"h\u{e9}\\n\\u00e9\\\"!\"}".as_bytes(), &content), Some(6));
        assert_eq!(chars_after(br#"{"content":""}"#, &content), Some(0));
        assert_eq!(chars_after(br#"{"content":"cut"#, &content), None);
        assert_eq!(chars_after(br#"{}"#, &content), None);
        assert_eq!(chars_after(br#"{"x":"content","content" : "ab"}"#, &content), Some(2));
        assert_eq!(chars_after(br#"{"content":null}"#, &content), None);
    }
}
