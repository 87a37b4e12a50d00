//! Forms of parts as clients upload them (RFC 7578): where each part stands in a body that is held whole. Reads no
//! part, and changes nothing; fields of text are found by name. What a form may hold is bounded here.

use std::fmt;
use std::ops::Range;

/// RFC 2046, section 5.1.1.
const LONGEST_BOUNDARY: usize = 70;
const MOST_PARTS: usize = 256;
const LONGEST_HEAD: usize = 8 * 1024;
const LONGEST_NAME: usize = 256;

/// What is wrong with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormError {
    Boundary,
    Delimiter,
    Head,
    Name,
    Parts,
    End,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boundary => "content-type must name the boundary of the form, of 1..70 characters (RFC 2046, 5.1.1)",
            Self::Delimiter => "a part must begin with the boundary that content-type names, on a line of its own",
            Self::Head => "the head of a part must be lines of at most 8192 bytes together, and an empty line",
            Self::Name => "each part must have a content-disposition with a name of 1..256 bytes",
            Self::Parts => "at most 256 parts are taken",
            Self::End => "it does not end with its boundary and two hyphens",
        })
    }
}

/// One part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPart {
    pub name: String,
    /// The name of the file that the part holds; `None` for a plain field.
    pub filename: Option<String>,
    /// The media type of the part, as the client states it.
    pub media: Option<String>,
    /// The bytes of the whole part: from its delimiter up to the next one.
    pub whole: Range<usize>,
    /// What it holds.
    pub value: Range<usize>,
}

/// A form that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientForm {
    boundary: String,
    parts: Vec<FormPart>,
}

impl ClientForm {
    /// `content_type`: the header that came with `body`.
    pub fn read(content_type: &str, body: &[u8]) -> Result<Self, FormError> {
        let boundary = boundary(content_type).ok_or(FormError::Boundary)?;
        let line = format!("--{boundary}");
        let mut parts = Vec::new();
        let mut at = first(body, line.as_bytes()).ok_or(FormError::Delimiter)?;
        loop {
            let start = at;
            let mut rest = at + line.len();
            if body[rest..].starts_with(b"--") {
                return Ok(Self { boundary, parts });
            }
            // Blanks may stand behind a boundary.
            while matches!(body.get(rest), Some(b' ' | b'\t')) {
                rest += 1;
            }
            if !body[rest..].starts_with(b"\r\n") {
                return Err(FormError::Delimiter);
            }
            if parts.len() == MOST_PARTS {
                return Err(FormError::Parts);
            }
            // The line break in front of the empty line ends the last line of the head, which may be the first.
            let head = rest + 2;
            let room = &body[rest..body.len().min(head + LONGEST_HEAD)];
            let length = memchr::memmem::find(room, b"\r\n\r\n").ok_or(FormError::Head)?;
            let value = rest + length + 4;
            let end = next(body, value, line.as_bytes()).ok_or(FormError::End)?;
            let head = body.get(head..rest + length).unwrap_or_default();
            let head = PartHead::read(head)?;
            at = end + 2;
            let PartHead { name, filename, media } = head;
            parts.push(FormPart { name, filename, media, whole: start..at, value: value..end });
        }
    }

    pub fn boundary(&self) -> &str {
        &self.boundary
    }

    pub fn parts(&self) -> &[FormPart] {
        &self.parts
    }

    pub fn named<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f FormPart> {
        self.parts.iter().filter(move |part| part.name == name)
    }

    /// The last part of this name, as text. A file is none.
    pub fn text<'b>(&self, body: &'b [u8], name: &str) -> Option<&'b str> {
        let part = self.parts.iter().rev().find(|part| part.name == name && part.filename.is_none())?;
        std::str::from_utf8(body.get(part.value.clone())?).ok()
    }

    /// The first file under one of these names.
    pub fn file(&self, names: &[&str]) -> Option<&FormPart> {
        self.parts.iter().find(|part| names.contains(&part.name.as_str()) && part.filename.is_some())
    }
}

fn boundary(content_type: &str) -> Option<String> {
    let (_, parameters) = content_type.split_once(';')?;
    let found = parameters_of(parameters).into_iter().find(|(name, _)| name == "boundary")?.1;
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&c);
    let good = (1..=LONGEST_BOUNDARY).contains(&found.len()) && found.bytes().all(fits) && !found.ends_with(' ');
    good.then_some(found)
}

/// Where the first delimiter begins: at the start, or behind what nobody reads (RFC 2046 calls it the preamble).
fn first(body: &[u8], line: &[u8]) -> Option<usize> {
    if body.starts_with(line) { Some(0) } else { next(body, 0, line).map(|at| at + 2) }
}

/// Where the line break before the next delimiter stands. Two hyphens, blanks or a line break have to follow that: a
/// value may hold text that begins as the delimiter does.
fn next(body: &[u8], from: usize, line: &[u8]) -> Option<usize> {
    let behind = |at: usize| body.get(at + 2 + line.len()..).unwrap_or_default();
    let ends = |rest: &[u8]| rest.starts_with(b"--") || rest.starts_with(b"\r\n") || matches!(rest, [b' ' | b'\t', ..]);
    let broken = [b"\r\n", line].concat();
    memchr::memmem::find_iter(body.get(from..)?, &broken).map(|at| from + at).find(|at| ends(behind(*at)))
}

struct PartHead {
    name: String,
    filename: Option<String>,
    media: Option<String>,
}

impl PartHead {
    fn read(head: &[u8]) -> Result<Self, FormError> {
        let head = String::from_utf8_lossy(head);
        let (mut disposition, mut media) = (None, None);
        for line in head.split("\r\n") {
            let Some((name, value)) = line.split_once(':') else { continue };
            match name.trim().to_ascii_lowercase().as_str() {
                "content-disposition" => disposition = Some(value.trim().to_owned()),
                "content-type" => media = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let disposition = disposition.ok_or(FormError::Name)?;
        let (kind, rest) = disposition.split_once(';').ok_or(FormError::Name)?;
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(FormError::Name);
        }
        let (mut name, mut filename) = (None, None);
        for (key, value) in parameters_of(rest) {
            match key.as_str() {
                "name" => name = Some(value),
                "filename" => filename = Some(value),
                _ => {}
            }
        }
        let name = name.filter(|name| (1..=LONGEST_NAME).contains(&name.len())).ok_or(FormError::Name)?;
        Ok(Self { name, filename, media })
    }
}

/// `name=value` and `name="value"`, names in lower case. Browsers escape quotes as `%22`, others with a backslash
/// (RFC 7578, section 4.2); both are left as they are but for the backslash.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let name = name.trim_matches(|c: char| c == ';' || c.is_whitespace()).to_ascii_lowercase();
        let behind = behind.trim_start();
        let (value, after) = match behind.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (value, after) = behind.split_once(';').unwrap_or((behind, ""));
                (value.trim().to_owned(), after)
            }
        };
        out.push((name, value));
        rest = after;
    }
    out
}

fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &text[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=b";

    fn read(body: &str) -> Result<ClientForm, FormError> {
        ClientForm::read(KIND, body.as_bytes())
    }

    fn part(name: &str, value: &str) -> String {
        format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    }

    #[test]
    fn parts_stand_where_they_are() {
        let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".wav\"\r\n\
                    Content-Type: audio/wav\r\n\r\nRIFF\r\n--bad\r\n--\r\n";
        let body = format!("{}{file}{}--b--\r\n", part("empty", ""), part("model", "whisper-1"));
        let form = read(&body).expect("a form");
        let names: Vec<&str> = form.parts().iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["empty", "file", "model"]);
        assert_eq!(form.text(body.as_bytes(), "model"), Some("whisper-1"));
        assert_eq!(form.text(body.as_bytes(), "empty"), Some(""));
        assert_eq!(form.text(body.as_bytes(), "file"), None, "a file is no text");
        let file = form.file(&["file"]).expect("a file");
        assert_eq!(&body[file.value.clone()], "RIFF\r\n--bad\r\n--");
        let told = (file.filename.as_deref(), file.media.as_deref());
        assert_eq!(told, (Some("a \"b\".wav"), Some("audio/wav")));
        let whole: String = form.parts().iter().map(|part| &body[part.whole.clone()]).collect();
        assert_eq!(format!("{whole}--b--\r\n"), body, "nothing is left over");
    }

    #[test]
    fn what_stands_before_and_behind_a_form_is_nobodys() {
        let body = format!("read me not\r\n{}--b--\r\nnor this", part("a", "1"));
        assert_eq!(read(&body).expect("a form").parts().len(), 1);
        assert_eq!(read("--b--").expect("an empty form").parts().len(), 0);
        assert_eq!(read("--b--\r\n").expect("an empty form").parts().len(), 0);
    }

    #[test]
    fn boundaries_are_those_of_the_rules() {
        let of =
            |kind: &str, body: &str| ClientForm::read(kind, body.as_bytes()).map(|form| form.boundary().to_owned());
        assert_eq!(of("multipart/form-data; charset=x; Boundary=\"a b\"", "--a b--"), Ok("a b".to_owned()));
        let long = "b".repeat(71);
        for kind in
            ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a\u{e9}\""]
        {
            assert_eq!(of(kind, "--b--"), Err(FormError::Boundary), "{kind}");
        }
        assert_eq!(of(&format!("multipart/form-data; boundary={long}"), "--b--"), Err(FormError::Boundary));
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let nameless = "--b\r\ncontent-disposition: form-data\r\n\r\n1\r\n--b--";
        let attachment = "--b\r\ncontent-disposition: attachment; name=\"a\"\r\n\r\n1\r\n--b--";
        for (body, error) in [
            ("", FormError::Delimiter),
            ("{}", FormError::Delimiter),
            ("--bx\r\n", FormError::Delimiter),
            ("--b", FormError::Delimiter),
            ("--b\r\n", FormError::Head),
            ("--b\r\n\r\n1\r\n--b--", FormError::Name),
            (nameless, FormError::Name),
            (attachment, FormError::Name),
            (&part("a", "1"), FormError::End),
            (&format!("{}--b", part("a", "1")), FormError::End),
            (&format!("--b\r\nx: {}\r\n\r\n1\r\n--b--", "y".repeat(9000)), FormError::Head),
            (&format!("{}--b--", part(&"n".repeat(300), "1")), FormError::Name),
            (&format!("{}--b--", part("a", "1").repeat(257)), FormError::Parts),
        ] {
            assert_eq!(read(body), Err(error), "{}", body.chars().take(60).collect::<String>());
        }
        assert_eq!(read(&format!("{}--b--", part("a", "1").repeat(256))).map(|form| form.parts().len()), Ok(256));
    }

    #[test]
    fn any_cut_of_a_form_is_read_without_harm() {
        let body = format!("{}{}--b--\r\n", part("a", "1"), part("file", "\r\n--b\u{e9}"));
        for end in 0..body.len() {
            let _ = ClientForm::read(KIND, &body.as_bytes()[..end]);
        }
    }
}
