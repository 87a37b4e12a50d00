//! Parameters as clients and browsers send them, in a form or in a query: each once, and none without end. Names that
//! nobody knows are passed over, as OAuth wants it (RFC 6749, 3.1).

use super::fault::OauthFault;
use crate::route::Visit;
use http::header;
use std::collections::BTreeMap;

const MOST_NAMES: usize = 40;

#[derive(Clone, Debug, Default)]
pub(super) struct OauthForm(BTreeMap<String, String>);

impl OauthForm {
    /// Reads the form in a body and takes no other kind of content: a page of another origin could send other kinds
    /// unasked just as well, but what is read here must not depend on which.
    pub(super) fn of_body(visit: &Visit) -> Result<Self, OauthFault> {
        let kind = visit.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(OauthFault::request("the body must be application/x-www-form-urlencoded"));
        }
        Self::read(&visit.bytes)
    }

    pub(super) fn of_query(visit: &Visit) -> Result<Self, OauthFault> {
        Self::read(visit.uri.query().unwrap_or_default().as_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Self, OauthFault> {
        let mut all = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(bytes) {
            if all.len() >= MOST_NAMES {
                return Err(OauthFault::request("there are too many parameters"));
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(OauthFault::request("no parameter may hold the character U+0000"));
            }
            // `resource` may stand several times (RFC 8707, 2); here a token is for one.
            if all.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(OauthFault::request("a parameter is given twice"));
            }
        }
        Ok(Self(all))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing is as good as absent.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, OauthFault> {
        self.text(name).ok_or_else(|| OauthFault::request(format!("{name} is required")))
    }

    pub(super) fn at_most(&self, name: &str, most: usize) -> Result<Option<&str>, OauthFault> {
        match self.text(name) {
            Some(value) if value.len() > most => {
                Err(OauthFault::request(format!("{name} must be at most {most} bytes")))
            }
            value => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OauthForm;

    #[test]
    fn each_parameter_stands_once() {
        let form = OauthForm::read(b"a=b%20c&d=&e=%C3%A9&e2").expect("good");
        assert_eq!((form.text("a"), form.text("d"), form.text("e")), (Some("b c"), None, Some("\u{e9}")));
        assert!(form.required("d").is_err() && form.at_most("a", 2).is_err() && form.at_most("a", 3).is_ok());
        for bad in ["a=1&a=1", "a=%00", "%00=1"] {
            assert!(OauthForm::read(bad.as_bytes()).is_err(), "{bad}");
        }
        let many: String = (0..60).map(|n| format!("p{n}=1&")).collect();
        assert!(OauthForm::read(many.as_bytes()).is_err());
    }
}
