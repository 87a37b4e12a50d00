//! The model's place in the path. Ids of models, profiles and ARNs are one segment there, so that what is not a letter,
//! a digit or one of `-._~` is escaped, as AWS's own SDKs do.

use super::refused;
use crate::adapter::Call;
use crate::convert::converse::vendor::Maker;
use gateway_domain::Fault;

const LONGEST: usize = 2048;

pub(super) fn named<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    let model = call.model.ok_or_else(|| refused("model", "is needed: it is part of this provider's path"))?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/');
    if model.len() > LONGEST || !model.bytes().all(fits) || !model.bytes().any(|b| b.is_ascii_alphanumeric()) {
        let rule = "must be the id of a model or of an inference profile, or an ARN: letters, digits and `-_.:/`";
        return Err(refused("model", rule));
    }
    Ok(model)
}

pub(super) fn of(model: &str, verb: &str) -> String {
    let mut path = String::with_capacity(model.len() + verb.len() + 32);
    path.push_str("/model/");
    for c in model.chars() {
        match c {
            ':' => path.push_str("%3A"),
            '/' => path.push_str("%2F"),
            c => path.push(c),
        }
    }
    path.push('/');
    path.push_str(verb);
    path
}

/// The foundation model that a profile across regions leads to; other names as they are.
pub(super) fn foundation<'a>(model: &'a str, maker: Maker<'a>) -> &'a str {
    if model.contains(":foundation-model/") || model.contains(":application-inference-profile/") {
        model
    } else {
        maker.model()
    }
}
