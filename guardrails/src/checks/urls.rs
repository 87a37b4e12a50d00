//! `validUrls`: addresses in a text lead somewhere. Whether they may be asked at all is the caller's rule.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep, excerpt};
use crate::content::Selection;
use crate::external_call::{CheckQuery, CheckReply, CheckRequest, Sign};
use crate::parameters::Parameters;
use bytes::Bytes;
use http::Method;
use serde_json::json;

const MOST_URLS: usize = 32;
const TIMEOUT_MS: u32 = 3_000;
const REDIRECTS: u8 = 3;

#[derive(Debug)]
struct ValidUrls {
    only_dns: bool,
    not: bool,
    selection: Selection,
}

pub(super) fn valid_urls(p: &Parameters<'_>) -> BuiltJudge {
    let (only_dns, not) = (p.flag("onlyDNS", false), p.flag("not", false));
    Some(Box::new(ValidUrls { only_dns, not, selection: selection(p, Selection::TEXT) }))
}

/// Addresses up to white space or what cannot be part of one; marks that end a sentence are not.
fn urls(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("http") {
        let candidate = &rest[at..];
        let scheme = ["https://", "http://"].iter().find(|s| candidate.starts_with(**s));
        let Some(scheme) = scheme else {
            rest = &candidate[4..];
            continue;
        };
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | '{' | '}' | '[' | ']');
        let end = candidate.find(is_end).unwrap_or(candidate.len());
        let url = candidate[..end].trim_end_matches(['.', ';', ':', '!', '?', ')']);
        if url.len() > scheme.len() && !found.contains(&url) {
            found.push(url);
        }
        rest = &candidate[end..];
    }
    found
}

/// The addresses of all texts, and the first text that has none.
struct FoundUrls<'t> {
    urls: Vec<&'t str>,
    without: Option<&'t str>,
}

impl ValidUrls {
    fn data(&self, verdict: bool, valid: &[&str], invalid: &[&str], text: &str) -> CheckOutcome {
        let explanation = match (valid.len() + invalid.len(), invalid.len()) {
            (0, _) => "There are no addresses in the text".to_owned(),
            (_, 0) => "All addresses are valid".to_owned(),
            (all, bad) => format!("{bad} of {all} addresses are not valid"),
        };
        let method = if self.only_dns { "DNS lookup" } else { "HTTP request" };
        let mut data = json!({"verdict": verdict, "not": self.not, "explanation": explanation, "validUrls": valid,
            "invalidUrls": invalid, "validationMethod": method, "textExcerpt": excerpt(text)});
        if valid.is_empty() && invalid.is_empty() {
            data["urls"] = json!([]);
        }
        CheckOutcome::new(verdict, data)
    }

    fn ask(&self, url: &str) -> CheckQuery {
        let host = url::Url::parse(url).ok().and_then(|u| u.host_str().map(ToOwned::to_owned));
        if self.only_dns {
            return CheckQuery::Resolve { host: host.unwrap_or_default(), timeout_ms: TIMEOUT_MS };
        }
        CheckQuery::Call(Box::new(CheckRequest {
            method: Method::HEAD,
            url: url.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout_ms: TIMEOUT_MS,
            most_reply: 0,
            redirects: REDIRECTS,
            sign: Sign::Nothing,
        }))
    }
}

fn find<'t>(texts: &'t [String]) -> FoundUrls<'t> {
    let mut found = FoundUrls { urls: Vec::new(), without: None };
    for text in texts {
        let of_text = urls(text);
        if of_text.is_empty() && found.without.is_none() {
            found.without = Some(text);
        }
        for url in of_text {
            if !found.urls.contains(&url) {
                found.urls.push(url);
            }
        }
    }
    found
}

impl ValidUrls {
    fn texts(&self, case: &Case<'_>) -> Vec<String> {
        let joined = case.content.joined(self.selection);
        joined.into_iter().map(|j| j.text).filter(|t| !t.is_empty()).collect()
    }
}

impl Judge for ValidUrls {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let texts = self.texts(case);
        if texts.is_empty() {
            return CheckError::missing_text().into();
        }
        let found = find(&texts);
        if let Some(text) = found.without {
            return self.data(false, &[], &[], text).into();
        }
        if found.urls.len() > MOST_URLS {
            return CheckError::closed("UrlLimit", format!("The text holds more than {MOST_URLS} addresses")).into();
        }
        JudgeStep::Ask(found.urls.iter().map(|u| self.ask(u)).collect())
    }

    fn read(&self, case: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let texts = self.texts(case);
        let found = find(&texts);
        let is_valid = |answer: &CheckReply| match answer {
            CheckReply::Reply { status, .. } => (200..300).contains(status),
            CheckReply::Resolved(there) => *there,
            CheckReply::Media { .. } => true,
            CheckReply::Failed(_) => false,
        };
        let (mut valid, mut invalid) = (Vec::new(), Vec::new());
        for (url, answer) in found.urls.iter().zip(answers) {
            if is_valid(answer) { valid.push(*url) } else { invalid.push(*url) }
        }
        let verdict = invalid.is_empty() != self.not;
        self.data(verdict, &valid, &invalid, texts.first().map_or("", String::as_str)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::urls;

    #[test]
    fn addresses_end_where_a_reader_ends_them() {
        for (text, expected) in [
            ("see https://a.example/x.", vec!["https://a.example/x"]),
            ("(https://a.example/x)", vec!["https://a.example/x"]),
            ("http://a.example,http://b.example", vec!["http://a.example", "http://b.example"]),
            ("\"https://a.example/?q=1\"", vec!["https://a.example/?q=1"]),
            ("https://a.example https://a.example", vec!["https://a.example"]),
            ("https:// http ftp://a.example", vec![]),
            ("[https://a.example]", vec!["https://a.example"]),
        ] {
            assert_eq!(urls(text), expected, "{text}");
        }
    }
}
