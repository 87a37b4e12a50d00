//! Forms of parts (RFC 7578) as they go up: the client's with some fields changed, byte for byte the same elsewhere; or
//! one of the provider's own, made of its parts. Where parts stand is known already; no file is looked into.

use crate::adapter::{BodyPieces, Call, ProviderRequest};
use bytes::Bytes;
use gateway_domain::form::{ClientForm, FormPart};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderName, HeaderValue, header};
use serde_json::Value;

/// The content type of a form.
pub fn form_media(boundary: &str) -> String {
    format!("multipart/form-data; boundary=\"{boundary}\"")
}

/// The content type of a form as a header.
pub(crate) fn media_header(boundary: &str) -> Result<(HeaderName, HeaderValue), Fault> {
    let value = HeaderValue::from_str(&form_media(boundary));
    Ok((header::CONTENT_TYPE, value.map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?))
}

/// Changes of fields, by name.
#[derive(Debug)]
pub struct FormEdit<'f> {
    form: &'f ClientForm,
    /// Each text of a name is a field of its own.
    changes: Vec<(String, Vec<String>)>,
}

impl<'f> FormEdit<'f> {
    pub const fn new(form: &'f ClientForm) -> Self {
        Self { form, changes: Vec::new() }
    }

    fn has(&self, name: &str) -> bool {
        self.form.named(name).next().is_some() || self.changes.iter().any(|(changed, _)| changed == name)
    }

    /// Fields that are not there yet, with values in JSON.
    #[must_use]
    pub fn filled<'p>(mut self, params: impl Iterator<Item = (&'p str, &'p str)>) -> Self {
        for (name, json) in params {
            if !self.has(name) {
                self.changes.push((name.to_owned(), texts_of(json)));
            }
        }
        self
    }

    /// Fields in the place of those of their names, with values in JSON.
    #[must_use]
    pub fn set<'p>(mut self, params: impl Iterator<Item = (&'p str, &'p str)>) -> Self {
        for (name, json) in params {
            self.put(name, texts_of(json));
        }
        self
    }

    #[must_use]
    pub fn without<'p>(mut self, names: impl Iterator<Item = &'p str>) -> Self {
        for name in names {
            self.put(name, Vec::new());
        }
        self
    }

    #[must_use]
    pub(crate) fn text(mut self, name: &str, text: &str) -> Self {
        self.put(name, vec![text.to_owned()]);
        self
    }

    /// The last word on a field counts.
    fn put(&mut self, name: &str, change: Vec<String>) {
        self.changes.retain(|(changed, _)| changed != name);
        self.changes.push((name.to_owned(), change));
    }

    /// The form with its changes: new fields stand before the others.
    pub fn written(&self, body: &Bytes) -> Bytes {
        let mut out = FormWriter::over(self.form);
        let of = |name: &str| self.changes.iter().find(|(changed, _)| changed == name).map(|(_, change)| change);
        for (name, texts) in &self.changes {
            if self.form.named(name).next().is_none() {
                texts.iter().for_each(|text| out.text(name, text));
            }
        }
        let mut done: Vec<&str> = Vec::new();
        for part in self.form.parts() {
            match of(&part.name) {
                None => out.as_it_was(body.get(part.whole.clone()).unwrap_or_default()),
                Some(texts) if !done.contains(&part.name.as_str()) => {
                    done.push(&part.name);
                    texts.iter().for_each(|text| out.text(&part.name, text));
                }
                Some(_) => {}
            }
        }
        out.finished()
    }
}

/// A value of JSON as fields of a form: a list is several, null is none.
fn texts_of(json: &str) -> Vec<String> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(all)) => all.into_iter().filter_map(text).collect(),
        Ok(one) => text(one).into_iter().collect(),
        Err(_) => vec![json.to_owned()],
    }
}

/// A form in the making.
#[derive(Debug)]
pub(crate) struct FormWriter {
    boundary: String,
    out: Vec<u8>,
}

impl FormWriter {
    /// Starts a form with the boundary of `form`, whose parts may go along: it stands in none of them.
    pub(crate) fn over(form: &ClientForm) -> Self {
        Self { boundary: form.boundary().to_owned(), out: Vec::new() }
    }

    fn as_it_was(&mut self, part: &[u8]) {
        self.out.extend_from_slice(part);
    }

    fn head(&mut self, name: &str, filename: Option<&str>, media: Option<&str>) {
        self.out
            .extend_from_slice(format!("--{}\r\ncontent-disposition: form-data; name=\"", self.boundary).as_bytes());
        self.out.extend_from_slice(quoted(name).as_bytes());
        if let Some(filename) = filename {
            self.out.extend_from_slice(b"\"; filename=\"");
            self.out.extend_from_slice(quoted(filename).as_bytes());
        }
        self.out.extend_from_slice(b"\"\r\n");
        if let Some(media) = media.filter(|media| media.bytes().all(|b| b >= b' ')) {
            self.out.extend_from_slice(format!("content-type: {media}\r\n").as_bytes());
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// A field. One that holds what would end it is cut off there: nothing that a client says becomes a part.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.head(name, None, None);
        let end = text.find(&format!("--{}", self.boundary)).unwrap_or(text.len());
        self.out.extend_from_slice(&text.as_bytes()[..end]);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A part of the client's under another name.
    pub(crate) fn part(&mut self, name: &str, part: &FormPart, body: &[u8]) {
        self.head(name, part.filename.as_deref(), part.media.as_deref());
        self.out.extend_from_slice(body.get(part.value.clone()).unwrap_or_default());
        self.out.extend_from_slice(b"\r\n");
    }

    fn finished(mut self) -> Bytes {
        self.out.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        self.out.into()
    }

    pub(crate) fn outgoing(self, path: Option<String>, adjusted: Vec<&'static str>) -> Result<ProviderRequest, Fault> {
        let headers = vec![media_header(&self.boundary)?];
        Ok(ProviderRequest { path, headers, body: BodyPieces::One(self.finished()), adjusted })
    }
}

/// Escapes a name in a form the way browsers do
/// (<https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data>).
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The client's form with the model to ask for in its place. Its files are not copied.
pub(crate) fn named(call: &Call<'_>, form: &ClientForm) -> Result<BodyPieces, Fault> {
    let body = call.body;
    let Some(model) = call.model else { return Ok(BodyPieces::One(body.clone())) };
    if model.contains("\r\n--") {
        return Err(Fault::new(FaultKind::Refused, "model cannot stand in a form").on("model"));
    }
    match form.named("model").next() {
        Some(part) if body.get(part.value.clone()) == Some(model.as_bytes()) => Ok(BodyPieces::One(body.clone())),
        Some(part) => {
            let new = Bytes::copy_from_slice(model.as_bytes());
            Ok(BodyPieces::Three([body.slice(..part.value.start), new, body.slice(part.value.end..)]))
        }
        None => {
            let mut field = FormWriter::over(form);
            field.text("model", model);
            Ok(BodyPieces::Three([Bytes::new(), field.out.into(), body.clone()]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, value: &str) -> String {
        format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    }

    const FILE: &str = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\0\r\n";

    #[test]
    fn fields_change_and_the_rest_keeps_its_bytes() {
        let body =
            Bytes::from(format!("{FILE}{}{}{}--b--\r\n", part("model", "a"), part("x[]", "1"), part("x[]", "2")));
        let form = ClientForm::read("multipart/form-data; boundary=b", &body).expect("a form");
        let edit = FormEdit::new(&form)
            .filled([("model", "\"never\""), ("language", "\"de\"")].into_iter())
            .set([("x[]", "[3,\"4\"]"), ("temperature", "0.5"), ("stream", "true"), ("none", "null")].into_iter());
        let out = edit.written(&body);
        let expected = [
            part("language", "de"),
            part("temperature", "0.5"),
            part("stream", "true"),
            FILE.to_owned(),
            part("model", "a"),
            part("x[]", "3"),
            part("x[]", "4"),
            "--b--\r\n".to_owned(),
        ];
        assert_eq!(String::from_utf8_lossy(&out), expected.concat());
        let out = FormEdit::new(&form).without(["x[]", "model"].into_iter()).written(&body);
        assert_eq!(String::from_utf8_lossy(&out), format!("{FILE}--b--\r\n"));
    }

    #[test]
    fn nothing_that_is_said_becomes_a_part() {
        let body = Bytes::from(format!("{}--b--\r\n", part("model", "a")));
        let form = ClientForm::read("multipart/form-data; boundary=b", &body).expect("a form");
        let evil = "\"x\\r\\n--b\\r\\ncontent-disposition: form-data; name=\\\"model\\\"\\r\\n\\r\\ndear\"";
        let out = FormEdit::new(&form).set([("prompt", evil), ("a\"\r\nb", "1")].into_iter()).written(&body);
        let read = ClientForm::read("multipart/form-data; boundary=b", &out).expect("still a form");
        let names: Vec<&str> = read.parts().iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["prompt", "a%22%0D%0Ab", "model"]);
    }
}
