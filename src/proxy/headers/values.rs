//! How the value of a header is read, one function for each form that values have. Knows no header: a bad value is told
//! by the name that the client spelled.

use gateway_domain::{Fault, FaultKind, metadata};
use http::HeaderValue;
use serde_json::Value;
use std::sync::Arc;

pub(super) fn bad(name: &str, rule: &str) -> Fault {
    Fault::new(FaultKind::BadHeader, format!("{name} {rule}")).on(name)
}

/// Seconds, up to a day of them.
pub(super) fn sound_millis(name: &str, text: &str) -> Result<u32, Fault> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| bad(name, "must be the length of the sound in seconds, 0..86400"))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds above")]
    Ok((seconds * 1e3).round() as u32)
}

pub(super) fn word<'a>(name: &str, text: &'a str) -> Result<&'a str, Fault> {
    if text.is_empty() || text.len() > 256 || text.contains(char::is_whitespace) {
        return Err(bad(name, "must be a slug of 1..256 characters"));
    }
    Ok(text)
}

pub(super) fn short(name: &str, text: &str) -> Result<Arc<str>, Fault> {
    if text.is_empty() || text.len() > 255 {
        return Err(bad(name, "must be of 1..255 characters"));
    }
    Ok(text.into())
}

pub(super) fn flag(name: &str, text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(bad(name, "must be true or false")),
    }
}

pub(super) fn refuses(name: &str, text: &str) -> Result<bool, Fault> {
    match text {
        "refuse" => Ok(true),
        "allow" => Ok(false),
        _ => Err(bad(name, "must be refuse or allow")),
    }
}

/// `a, b` or `["a","b"]`: the documents show both.
pub(super) fn list(name: &str, text: &str) -> Result<Vec<String>, Fault> {
    const MOST: usize = 100;
    let names: Vec<String> = match text.starts_with('[') {
        true => serde_json::from_str(text).map_err(|_| bad(name, "must be an array of strings"))?,
        false => text.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect(),
    };
    match names.len() {
        0 if !text.starts_with('[') => Err(bad(name, "must name at least one header")),
        n if n > MOST => Err(bad(name, &format!("must name at most {MOST} headers"))),
        _ => Ok(names),
    }
}

/// A JSON object of strings.
pub(super) fn read_metadata(name: &str, value: &HeaderValue) -> Result<Vec<(String, String)>, Fault> {
    let Ok(Value::Object(map)) = serde_json::from_slice(value.as_bytes()) else {
        return Err(bad(name, "must be a JSON object"));
    };
    metadata::read(&map).map_err(|refused| bad(name, &refused.rule()))
}
