//! Entity tags (RFC 9110, section 8.8.3) as requests list them in `if-match` and `if-none-match`, and as answers give
//! them. A tag names the state of one stored row by the revision that wrote it, and where it stands on an answer also
//! what else that answer shows: what was used of a budget changes without a write.

use crate::problem::{Problem, bad};
use gateway_domain::digest::digest;
use gateway_domain::ports::Revision;
use http::{HeaderMap, HeaderName};

/// Longer headers are no list of states that somebody has seen.
const MOST_BYTES: usize = 4096;
const MOST_TAGS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedTag {
    /// Stands for what may differ in its bytes. We give none.
    weak: bool,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TagList {
    /// `*`: whatever is there.
    Any,
    These(Vec<ListedTag>),
}

impl TagList {
    /// `None` where the header is not sent.
    pub(crate) fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, Problem> {
        let mut whole = String::new();
        for value in headers.get_all(name) {
            let value = value.to_str().map_err(|_| bad(name, "must be printable ASCII"))?;
            if whole.len() + value.len() > MOST_BYTES {
                return Err(bad(name, format_args!("must be at most {MOST_BYTES} bytes")));
            }
            if !whole.is_empty() {
                whole.push(',');
            }
            whole.push_str(value);
        }
        if !headers.contains_key(name) {
            return Ok(None);
        }
        if whole.trim() == "*" {
            return Ok(Some(Self::Any));
        }
        let tags = tags(&whole).ok_or_else(|| bad(name, "must be * or a list of entity tags in double quotes"))?;
        if tags.len() > MOST_TAGS {
            return Err(bad(name, format_args!("must hold at most {MOST_TAGS} entity tags")));
        }
        Ok(Some(Self::These(tags)))
    }

    /// Whether a tag stands for this state of the row, by the strong comparison. Only the state counts: nothing else
    /// that an answer showed is changed by a write.
    pub(crate) fn has_state(&self, revision: Revision) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(|tag| !tag.weak && state(&tag.text) == Some(revision)),
        }
    }

    /// Whether a tag stands for an answer that shows exactly this, by the weak comparison.
    pub(crate) fn has(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(|tag| tag.text == text.trim_matches('"')),
        }
    }
}

/// The items of a list of which some may be empty (RFC 9110, section 5.6.1).
fn tags(mut rest: &str) -> Option<Vec<ListedTag>> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return if found.is_empty() { None } else { Some(found) };
        }
        let weak = rest.starts_with("W/");
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (text, after) = quoted.split_once('"')?;
        if text.contains([' ', '\t']) {
            return None;
        }
        found.push(ListedTag { weak, text: text.to_owned() });
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
}

fn state(text: &str) -> Option<Revision> {
    let digits = text.split_once('-').map_or(text, |(state, _)| state);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// The tag of a state.
pub(crate) fn of_state(revision: Revision) -> String {
    format!("\"{revision}\"")
}

/// The tag of an answer that shows a state. `revision` 0: of what is not stored.
pub(crate) fn of_answer(revision: Revision, body: &[u8]) -> String {
    let digest = digest([body]);
    format!("\"{revision}-{}\"", digest.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    fn list(values: &[&str]) -> Result<Option<TagList>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_str(value).expect("a value"));
        }
        TagList::of(&headers, &header::IF_MATCH)
    }

    #[test]
    fn lists_are_read_as_they_are_written() {
        assert_eq!(list(&[]), Ok(None));
        assert_eq!(list(&[" * "]), Ok(Some(TagList::Any)));
        for (values, has, lacks) in [
            (&["\"7\""][..], &[7][..], &[8, 77][..]),
            (&["\"7\", \"9-abc\"", "\"11\""], &[7, 9, 11], &[8]),
            (&[", \"7\" ,,\"8\","], &[7, 8], &[9]),
            (&["W/\"7\""], &[], &[7]),
            (&["\"\"", "\"x\"", "\"+7\"", "\"-7\"", "\"7x\"", "\"a,b\""], &[], &[7, 0]),
            (&["\"99999999999999999999\""], &[], &[7]),
        ] {
            let read = list(values).expect("readable").expect("given");
            assert!(has.iter().all(|r| read.has_state(*r)), "{values:?}");
            assert!(!lacks.iter().any(|r| read.has_state(*r)), "{values:?}");
        }
        let read = list(&["W/\"7-ab\""]).expect("readable").expect("given");
        assert!(read.has("7-ab") && !read.has("7"), "weak ones stand for answers");
    }

    #[test]
    fn what_is_no_list_is_refused_by_its_name() {
        let many = vec!["\"1\""; 65].join(",");
        let long = format!("\"{}\"", "1".repeat(4096));
        for value in ["", "7", "\"7", "7\"", "\"7\" \"8\"", "w/\"7\"", "*, \"7\"", "\"a b\"", ",", &many, &long] {
            let refused = list(&[value]).expect_err(value);
            assert!(refused.message.starts_with("if-match must"), "{}", refused.message);
        }
    }

    #[test]
    fn an_answer_has_its_state_and_what_it_shows() {
        let tag = of_answer(12, b"{}");
        assert_ne!(tag, of_answer(12, b"{ }"));
        assert!(tag.starts_with("\"12-") && tag.len() == 21, "{tag}");
        for tag in [tag, of_state(12)] {
            assert!(list(&[&tag]).expect("readable").expect("given").has_state(12), "{tag}");
        }
    }
}
