//! Asks for another model than the body does, without copying the body.

use crate::adapter::{BodyPieces, Call};
use crate::edit;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};

/// The JSON of `model`, when the body names another or none.
pub(crate) fn changed(call: &Call<'_>, model: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(model) = model else { return Ok(None) };
    let quoted = serde_json::to_string(model).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    let same = call.model_span.clone().is_some_and(|span| call.body.get(span) == Some(quoted.as_bytes()));
    Ok((!same).then_some(quoted))
}

/// The body with `model` in its place and `extra` (further members, comma first) right behind it, so that one
/// piece carries both changes. Without a model in the body there is no such place and `extra` must be empty.
pub(crate) fn replaced(call: &Call<'_>, model: Option<String>, extra: &'static str) -> Result<BodyPieces, Fault> {
    let Some(span) = call.model_span.clone() else {
        let Some(model) = model.filter(|_| !call.body.is_empty()) else {
            return Ok(BodyPieces::One(call.body.clone()));
        };
        let named = edit::set_top_level(call.body, &[("model", Some(&model))]);
        return named.map(BodyPieces::One).map_err(|e| not_an_object(&e));
    };
    let (cut, new) = match (model, extra) {
        (None, "") => return Ok(BodyPieces::One(call.body.clone())),
        (None, extra) => (span.end, Bytes::from_static(extra.as_bytes())),
        (Some(model), extra) => (span.start, Bytes::from(model + extra)),
    };
    Ok(BodyPieces::Three([call.body.slice(..cut), new, call.body.slice(span.end..)]))
}

pub(crate) fn not_an_object(error: &serde_json::Error) -> Fault {
    Fault::new(FaultKind::BadBody, format!("the body is not a JSON object: {error}"))
}
