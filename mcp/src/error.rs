//! What goes wrong with a message, as JSON-RPC tells it, and the status of HTTP beside it. Codes of the gateway's own
//! are those of HTTP: the ranges below zero belong to JSON-RPC and to the protocol.

use crate::message::RpcId;
use crate::version::McpVersion;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The status of the HTTP response that carries the error.
    pub status: u16,
    pub code: i64,
    pub message: Cow<'static, str>,
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(status: u16, code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// A code of the gateway's own.
    pub fn own(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(status, i64::from(status), message)
    }

    pub fn no_json(why: impl std::fmt::Display) -> Self {
        Self::new(400, -32700, format!("Parse error: {why}"))
    }

    pub fn invalid(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, -32600, why)
    }

    /// No such session: clients begin anew on this status, and on nothing else.
    pub fn no_session() -> Self {
        Self::new(404, -32600, "Session not found")
    }

    /// A method that is not served; the modern era says so in the status too.
    pub fn no_method(method: &str, modern: bool) -> Self {
        let shown: String = method.chars().take(80).collect();
        Self::new(if modern { 404 } else { 200 }, -32601, format!("Method not found: {shown}"))
    }

    pub fn bad_params(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(200, -32602, why)
    }

    /// A tool, prompt or resource that there is not, or that the caller may not see: both are told alike.
    pub fn unknown(noun: &str, name: &str) -> Self {
        let shown: String = name.chars().take(200).collect();
        Self::bad_params(format!("Unknown {noun}: {shown}"))
    }

    pub fn bad_headers(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, -32020, why)
    }

    pub fn bad_version(requested: &str) -> Self {
        let shown: String = requested.chars().take(40).collect();
        let supported: Vec<&str> = McpVersion::SERVED.iter().rev().map(|v| v.name()).collect();
        Self::new(400, -32022, "Unsupported protocol version").data(json!({"supported": supported, "requested": shown}))
    }

    /// The error as a JSON-RPC response; it has no `id` where none could be read from the request.
    pub fn body(&self, id: Option<&RpcId>) -> String {
        let id = id.map_or_else(String::new, |id| format!(r#""id":{},"#, id.json()));
        let data = self.data.as_ref().map_or_else(String::new, |data| format!(r#","data":{data}"#));
        let (code, message) = (self.code, Value::from(&*self.message));
        format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":{message}{data}}}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_the_id_as_it_was_written() {
        let error = RpcError::own(429, "over").data(json!({"retry_after_ms": 5}));
        let body = error.body(RpcId::parse("\"a\\u0062\"").ok().as_ref());
        assert_eq!(
            body,
            r#"{"jsonrpc":"2.0","id":"a\u0062","error":{"code":429,"message":"over","data":{"retry_after_ms":5}}}"#
        );
        assert_eq!(
            RpcError::no_json("x").body(None),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error: x"}}"#
        );
    }

    #[test]
    fn versions_that_are_served_are_told() {
        let data = RpcError::bad_version("v999").data.expect("data");
        assert_eq!(data["supported"], json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]));
        assert_eq!(data["requested"], "v999");
    }
}
