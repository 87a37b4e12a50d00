//! A body that is one object or a list of them, as some clients send it.

use crate::input::JsonBody;
use crate::problem::{Problem, unreadable};
use crate::route::AdminCall;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One object, and where it stands in the body.
pub(crate) struct OneGiven<T> {
    pub(crate) given: T,
    /// The place in the body with a dot at its end; empty where the body is one object.
    pub(crate) under: String,
}

/// Reads a body that is one object or a list of at least one and at most `most` objects.
pub(crate) fn one_or_several<T: DeserializeOwned>(call: &AdminCall, most: usize) -> Result<Vec<OneGiven<T>>, Problem> {
    let Ok(Value::Array(items)) = serde_json::from_slice(&call.bytes) else {
        return Ok(vec![OneGiven { given: call.body()?.read()?, under: String::new() }]);
    };
    if items.is_empty() || items.len() > most {
        return Err(unreadable(format!("the list must hold at least one and at most {most} objects")));
    }
    let read = |(at, item): (usize, Value)| {
        let under = format!("[{at}].");
        let body = JsonBody::parse(item.to_string().as_bytes())?.aligned(&call.route.known_names(), &call.vars)?;
        let given = body.read_under(&under)?;
        Ok(OneGiven { given, under })
    };
    items.into_iter().enumerate().map(read).collect()
}
