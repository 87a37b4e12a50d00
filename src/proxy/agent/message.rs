//! What a client asks of an agent, read from either binding into one form, and what it is told: JSON-RPC answers as
//! such, HTTP with JSON in the form of `google.rpc.Status`.

use super::route::{AgentRoute, AgentVersion, RestRoute};
use gateway_mcp::a2a::method::A2aMethod;
use gateway_mcp::{RawObject, RpcBody, RpcError, RpcId, RpcMessage};
use serde_json::{Value, json};

/// One request of a client's.
#[derive(Clone, Debug)]
pub(super) struct AgentAsked {
    pub(super) method: Option<A2aMethod>,
    pub(super) version: AgentVersion,
    pub(super) way: AgentWay,
    /// JSON of an object.
    pub(super) params: String,
}

/// Which binding it came by.
#[derive(Clone, Debug)]
pub(super) enum AgentWay {
    JsonRpc {
        target: String,
        /// `None`: it could not be read.
        id: Option<RpcId>,
        /// The whole JSON-RPC request as the client wrote it.
        envelope: String,
    },
    Rest(RestRoute),
}

/// What cannot be read, and its id where that could be.
#[derive(Debug)]
pub(super) struct BadAsk {
    pub(super) error: RpcError,
    pub(super) id: Option<RpcId>,
}

/// Reasons of errors as the protocol names them, with the status that HTTP with JSON has for each.
const REASONS: &[(i64, u16, &str, &str)] = &[
    (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
];

/// An error of the protocol, which is told with 200 in JSON-RPC.
pub(super) fn protocol_error(code: i64, message: impl Into<std::borrow::Cow<'static, str>>) -> RpcError {
    let reason = REASONS.iter().find(|reason| reason.0 == code).map(|reason| reason.3);
    let info = |reason| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}]);
    let error = RpcError::new(200, code, message);
    reason.into_iter().fold(error, |error, reason| error.data(info(reason)))
}

pub(super) fn read(route: &AgentRoute, bytes: &[u8], version: &AgentVersion) -> Result<AgentAsked, Box<BadAsk>> {
    let bad = |error: RpcError| Box::new(BadAsk { error, id: None });
    match route {
        AgentRoute::JsonRpc { target } => {
            let text = match RpcBody::parse(bytes).map_err(|error| bad(RpcError { status: 200, ..error }))? {
                RpcBody::One(text) => text,
                RpcBody::Batch(_) => {
                    return Err(bad(protocol_error(-32600, "Invalid Request: agents take one message at a time")));
                }
            };
            match RpcMessage::parse(text) {
                Ok(RpcMessage::Request { id, method, envelope }) => Ok(AgentAsked {
                    method: A2aMethod::named(&method, &version.name),
                    version: version.clone(),
                    params: envelope.raw("params").unwrap_or("{}").to_owned(),
                    way: AgentWay::JsonRpc { target: target.clone(), id: Some(id), envelope: text.to_owned() },
                }),
                Ok(_) => Err(bad(protocol_error(-32600, "Invalid Request: a request with an id is expected"))),
                Err(wrong) => Err(Box::new(BadAsk { error: RpcError { status: 200, ..wrong.error }, id: wrong.id })),
            }
        }
        AgentRoute::Rest(rest) => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| bad(protocol_error(-32700, "the body is not UTF-8")))?.trim();
            let params = if text.is_empty() { "{}" } else { text };
            RawObject::parse(params)
                .map_err(|why| bad(protocol_error(-32700, format!("the body cannot be read: {why}"))))?;
            let (params, method) = (params.to_owned(), Some(rest.method));
            Ok(AgentAsked { method, version: version.clone(), params, way: AgentWay::Rest(rest.clone()) })
        }
        AgentRoute::Card => Err(bad(protocol_error(-32600, "Invalid Request"))),
    }
}

impl AgentAsked {
    /// Stands for one that could not be read, so that it can be answered.
    pub(super) fn unread(route: &AgentRoute, id: Option<RpcId>, version: &AgentVersion) -> Self {
        let way = match route {
            AgentRoute::Rest(rest) => AgentWay::Rest(rest.clone()),
            AgentRoute::JsonRpc { .. } | AgentRoute::Card => {
                AgentWay::JsonRpc { target: String::new(), id, envelope: String::new() }
            }
        };
        Self { method: None, version: version.clone(), way, params: String::new() }
    }

    pub(super) const fn is_rest(&self) -> bool {
        matches!(self.way, AgentWay::Rest(_))
    }

    /// A result as the client's binding carries it.
    pub(super) fn answered(&self, result: &str) -> String {
        match &self.way {
            AgentWay::JsonRpc { id: Some(id), .. } => {
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.json())
            }
            AgentWay::JsonRpc { id: None, .. } | AgentWay::Rest(_) => result.to_owned(),
        }
    }

    /// An error as the client's binding carries it, with its status.
    pub(super) fn failed(&self, error: &RpcError) -> FailedAsk {
        let AgentWay::JsonRpc { id, .. } = &self.way else { return rest_error(error) };
        FailedAsk { status: error.status, body: error.body(id.as_ref()) }
    }
}

/// How an error is told.
pub(super) struct FailedAsk {
    pub(super) status: u16,
    pub(super) body: String,
}

fn rest_error(error: &RpcError) -> FailedAsk {
    let known = REASONS.iter().find(|reason| reason.0 == error.code);
    let status = match known {
        Some(reason) => reason.1,
        None if error.status == 200 => 400,
        None => error.status,
    };
    let name = known.map_or_else(|| name(status), |reason| reason.2);
    let details = match &error.data {
        Some(Value::Array(details)) => json!(details),
        Some(other) => json!([other]),
        None => json!([]),
    };
    let body = json!({"error": {"code": status, "status": name, "message": error.message, "details": details}});
    FailedAsk { status, body: body.to_string() }
}

/// The name that `google.rpc.Code` has for what a status says.
const fn name(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        403 | 446 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 => "DEADLINE_EXCEEDED",
        412 => "FAILED_PRECONDITION",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_either_binding() {
        let version = AgentVersion { name: "1.0".into(), is_named: true };
        let route = AgentRoute::JsonRpc { target: "/".into() };
        let body = br#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t"}}"#;
        let asked = read(&route, body, &version).expect("a request");
        assert_eq!((asked.method, asked.params.as_str()), (Some(A2aMethod::GetTask), r#"{"id":"t"}"#));
        let failed = asked.failed(&protocol_error(-32001, "Task not found"));
        assert_eq!(failed.status, 200);
        assert!(failed.body.contains(r#""id":7"#) && failed.body.contains("TASK_NOT_FOUND"), "{}", failed.body);
        let failed = rest_error(&protocol_error(-32001, "Task not found"));
        assert!(failed.status == 404 && failed.body.contains(r#""status":"NOT_FOUND""#), "{}", failed.body);
        assert_eq!(rest_error(&protocol_error(-32602, "bad")).status, 400);
        assert_eq!(read(&route, b"[{}]", &version).expect_err("a batch").error.code, -32600);
        assert_eq!(read(&route, b"{", &version).expect_err("no JSON").error.status, 200);
    }
}
