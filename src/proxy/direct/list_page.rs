//! Which part of a list of a provider's files a client asks for. Lists begin with the newest.

use super::bad;
use crate::proxy::request::Request;
use gateway_domain::Fault;
use gateway_domain::path::decoded;
use serde_json::{Value, json};

const USUAL: usize = 20;
const MOST: usize = 10_000;

pub(super) struct FileListPart {
    after: Option<String>,
    most: usize,
    purpose: Option<String>,
}

impl FileListPart {
    pub(super) fn read(request: &Request) -> Result<Self, Fault> {
        let mut part = Self { after: None, most: USUAL, purpose: None };
        let query = request.ask.route.query.as_deref().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "limit" => match value.parse::<usize>() {
                    Ok(most @ 1..=MOST) => part.most = most,
                    _ => return Err(bad("limit", "must be a number of 1..10000")),
                },
                "after" => part.after = Some(decoded(value).into_owned()),
                "order" if value == "desc" => {}
                "order" => return Err(bad("order", "must be desc: lists begin with the newest")),
                "purpose" => part.purpose = Some(decoded(value).into_owned()),
                other => return Err(bad(other, "is not known here")),
            }
        }
        Ok(part)
    }

    /// The part of these files, newest first; `are_more`: not all of them were looked at.
    pub(super) fn cut(&self, mut files: Vec<Value>, are_more: bool) -> Result<Value, Fault> {
        files.retain(|file| self.purpose.as_deref().is_none_or(|purpose| file["purpose"] == purpose));
        if let Some(after) = &self.after {
            let place = files.iter().position(|file| file["id"] == after.as_str());
            let place = place.ok_or_else(|| bad("after", "must be the id of a file of this list"))?;
            files.drain(..=place);
        }
        let has_more = are_more || files.len() > self.most;
        files.truncate(self.most);
        let end = |file: Option<&Value>| file.map_or(Value::Null, |file| file["id"].clone());
        let (first, last) = (end(files.first()), end(files.last()));
        Ok(json!({ "object": "list", "data": files, "first_id": first, "last_id": last, "has_more": has_more }))
    }
}
