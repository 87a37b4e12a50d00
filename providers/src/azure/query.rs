//! The query of a call: the client's, with the version that the provider is called by in place of the client's.

use gateway_domain::cloud::Wrong;
use gateway_domain::{Fault, FaultKind};

const VERSION: &str = "api-version";

/// The value of a parameter of the client's query.
pub(super) fn param<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    query?.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
}

/// The version to call by: the provider's own, or the one that the client asks for.
pub(super) fn version<'a>(set: Option<&'a str>, query: Option<&'a str>) -> Option<&'a str> {
    set.or_else(|| param(query, VERSION)).filter(|v| !v.is_empty())
}

/// Dated versions have other paths than the API that is called `v1`, which needs no version.
pub(super) fn is_dated(version: Option<&str>) -> bool {
    version.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
}

/// Appends the client's query without what `more` says anew, then `more`.
pub(super) fn append(path: &mut String, query: Option<&str>, version: Option<&str>, more: &[(&str, &str)]) {
    let said = |pair: &str| {
        let key = pair.split('=').next().unwrap_or_default();
        key == VERSION || more.iter().any(|(name, _)| *name == key)
    };
    let kept = query.into_iter().flat_map(|q| q.split('&')).filter(|pair| !pair.is_empty() && !said(pair));
    let mut mark = '?';
    for pair in kept {
        path.push(mark);
        path.push_str(pair);
        mark = '&';
    }
    let version = version.filter(|v| *v != "v1").map(|v| (VERSION, v));
    for (name, value) in version.iter().chain(more) {
        path.push(mark);
        path.push_str(name);
        path.push('=');
        path.push_str(value);
        mark = '&';
    }
}

pub(super) fn fault(wrong: &Wrong) -> Fault {
    Fault::new(FaultKind::Refused, wrong.to_string()).on(wrong.field)
}
