//! JSON-RPC 2.0 envelopes: what a body holds, told apart strictly. Members that are not known stay with the message.

use crate::error::RpcError;
use crate::object::{RawObject, items};
use serde_json::Value;

/// An id as it was written: a text or a whole number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RpcId(Box<str>);

/// Longer ones are nobody's.
const LONGEST_ID: usize = 512;
const LONGEST_METHOD: usize = 256;

impl RpcId {
    pub fn parse(json: &str) -> Result<Self, &'static str> {
        let json = json.trim();
        if json.len() > LONGEST_ID {
            return Err("id must be shorter");
        }
        let whole = || {
            let digits = json.strip_prefix('-').unwrap_or(json);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        };
        if json.starts_with('"') || whole() { Ok(Self(json.into())) } else { Err("id must be a string or an integer") }
    }

    pub fn of(text: &str) -> Self {
        Self(Value::from(text).to_string().into())
    }

    pub fn json(&self) -> &str {
        &self.0
    }

    /// Whether both are the same, however they were written.
    pub fn is(&self, json: &str) -> bool {
        let same = || {
            let value = |text: &str| serde_json::from_str::<Value>(text).ok();
            value(&self.0).is_some_and(|own| Some(own) == value(json))
        };
        *self.0 == *json || same()
    }
}

/// One message.
#[derive(Clone, Debug)]
pub enum RpcMessage<'a> {
    Request {
        id: RpcId,
        method: String,
        envelope: RawObject<'a>,
    },
    Notification {
        method: String,
        envelope: RawObject<'a>,
    },
    /// The other side's answer to a request of ours; `is_error`: it holds an error.
    Response {
        id: RpcId,
        is_error: bool,
        envelope: RawObject<'a>,
    },
}

/// What is wrong with a message, and its id where one could be read.
#[derive(Clone, Debug)]
pub struct BadMessage {
    pub error: RpcError,
    pub id: Option<RpcId>,
}

impl<'a> RpcMessage<'a> {
    pub fn parse(text: &'a str) -> Result<Self, Box<BadMessage>> {
        let wrong = |why: String, id: Option<RpcId>| {
            Box::new(BadMessage { error: RpcError::invalid(format!("Invalid Request: {why}")), id })
        };
        let envelope = RawObject::parse(text).map_err(|why| wrong(why, None))?;
        let id = match envelope.raw("id").map(RpcId::parse) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(why)) => return Err(wrong(why.to_owned(), None)),
        };
        if envelope.text("jsonrpc").as_deref() != Some("2.0") {
            return Err(wrong("jsonrpc must be \"2.0\"".into(), id));
        }
        let answers = envelope.contains("result") || envelope.contains("error");
        match (envelope.raw("method"), answers) {
            (Some(_), true) => Err(wrong("a message has a method or a result, not both".into(), id)),
            (Some(_), false) => {
                let method = envelope.text("method").filter(|m| !m.is_empty() && m.len() <= LONGEST_METHOD);
                let Some(method) = method else { return Err(wrong("method must be a short text".into(), id)) };
                if envelope.raw("params").is_some_and(|params| !params.starts_with('{')) {
                    return Err(wrong("params must be an object".into(), id));
                }
                Ok(match id {
                    Some(id) => Self::Request { id, method, envelope },
                    None => Self::Notification { method, envelope },
                })
            }
            (None, true) => {
                if envelope.contains("result") && envelope.contains("error") {
                    return Err(wrong("a response has a result or an error, not both".into(), id));
                }
                let is_error = envelope.contains("error");
                let Some(id) = id else { return Err(wrong("a response must have an id".into(), None)) };
                Ok(Self::Response { id, is_error, envelope })
            }
            (None, false) => Err(wrong("method is missing".into(), id)),
        }
    }

    pub const fn envelope(&self) -> &RawObject<'a> {
        match self {
            Self::Request { envelope, .. } | Self::Notification { envelope, .. } | Self::Response { envelope, .. } => {
                envelope
            }
        }
    }

    /// None where there are none or they are no object.
    pub fn params(&self) -> Option<RawObject<'_>> {
        self.envelope().object("params")
    }
}

/// What one body holds.
#[derive(Clone, Debug)]
pub enum RpcBody<'a> {
    One(&'a str),
    Batch(Vec<&'a str>),
}

impl<'a> RpcBody<'a> {
    /// Messages of a batch.
    pub const MOST: usize = 50;

    pub fn parse(bytes: &'a [u8]) -> Result<Self, RpcError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RpcError::no_json("the body is not UTF-8"))?;
        let valid: &serde_json::value::RawValue = serde_json::from_str(text).map_err(RpcError::no_json)?;
        let text = valid.get();
        if !text.starts_with('[') {
            return Ok(Self::One(text));
        }
        let all = items(text).unwrap_or_default();
        if all.is_empty() || all.len() > Self::MOST {
            let why = format!("Invalid Request: a batch holds 1 to {} messages", Self::MOST);
            return Err(RpcError::invalid(why));
        }
        Ok(Self::Batch(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &'static str| RpcMessage::parse(text);
        let request = parse(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","x":1}"#);
        assert!(matches!(request, Ok(RpcMessage::Request { method, envelope, .. })
            if method == "tools/list" && envelope.raw("x") == Some("1")));
        let note = parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(note, Ok(RpcMessage::Notification { .. })));
        let answer = parse(r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":""}}"#);
        assert!(matches!(answer, Ok(RpcMessage::Response { is_error: true, .. })));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, None),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Some("1")),
            (r#"{"id":1,"method":"ping"}"#, Some("1")),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, Some("\"a\"")),
            (r#"{"jsonrpc":"2.0","id":2,"method":""}"#, Some("2")),
            (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, Some("2")),
            (r#"{"jsonrpc":"2.0","id":2,"method":"a","params":[1]}"#, Some("2")),
            (r#"{"jsonrpc":"2.0","id":2,"method":"a","result":{}}"#, Some("2")),
            (r#"{"jsonrpc":"2.0","id":2,"error":{},"result":{}}"#, Some("2")),
            (r#"{"jsonrpc":"2.0","result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, None),
            ("7", None),
            ("\"x\"", None),
        ] {
            let bad = RpcMessage::parse(text).expect_err(text);
            assert_eq!((bad.error.status, bad.error.code), (400, -32600), "{text}");
            assert_eq!(bad.id.as_ref().map(RpcId::json), id, "{text}");
        }
    }

    #[test]
    fn bodies() {
        assert!(matches!(RpcBody::parse(b" {} "), Ok(RpcBody::One("{}"))));
        assert!(matches!(RpcBody::parse(b"[{},{}]"), Ok(RpcBody::Batch(all)) if all.len() == 2));
        let code = |body: &[u8]| RpcBody::parse(body).expect_err("refused").code;
        assert_eq!(code(b"{"), -32700);
        assert_eq!(code(b""), -32700);
        assert_eq!(code(b"\xff"), -32700);
        assert_eq!(code(b"[]"), -32600);
        assert_eq!(code(format!("[{}]", ["1"; 51].join(",")).as_bytes()), -32600);
        let deep = "[".repeat(100_000);
        assert_eq!(code(deep.as_bytes()), -32700);
    }

    #[test]
    fn ids_are_the_same_however_they_are_written() {
        let id = RpcId::parse("\"ab\"").expect("an id");
        assert!(id.is("\"ab\"") && id.is("\"\\u0061b\"") && !id.is("\"abc\"") && !id.is("7"));
        assert!(RpcId::parse("12").expect("an id").is("12"));
        assert!(RpcId::parse(&format!("\"{}\"", "x".repeat(600))).is_err());
    }
}
