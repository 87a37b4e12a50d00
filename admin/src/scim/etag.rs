//! Versions of resources as entity tags (RFC 7644, 3.14; RFC 9110, 13.1): the number of a row, weak, since what others
//! say of it (groups of a user) is shown with it.

use super::refusal::stale;
use crate::problem::Problem;
use crate::route::AdminCall;
use http::{HeaderName, header};

pub(super) fn tag(version: i64) -> String {
    format!("W/\"{version}\"")
}

/// Whether a list of tags in a header names this version; `None` without the header.
fn names(call: &AdminCall, header: HeaderName, version: i64) -> Option<bool> {
    let mut given = call.headers.get_all(header).iter().peekable();
    given.peek()?;
    let number = version.to_string();
    let fits = |tag: &str| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"') == number
    };
    Some(given.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(',')).any(fits))
}

/// Refuses a change of what is not the version that the client has seen.
pub(super) fn check_match(call: &AdminCall, version: i64) -> Result<(), Problem> {
    match names(call, header::IF_MATCH, version) {
        Some(false) => Err(stale()),
        _ => Ok(()),
    }
}

/// Whether the client has this version already.
pub(super) fn is_known(call: &AdminCall, version: i64) -> bool {
    names(call, header::IF_NONE_MATCH, version) == Some(true)
}
