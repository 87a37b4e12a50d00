//! One connection that carries the messages of many requests: each goes out under a number of the connection's own, and
//! so does its progress token, since two clients may call theirs alike. What comes back is told apart by that number,
//! and gets its names back.

use crate::message::{RpcId, RpcMessage};
use crate::object::RawObject;

const CANCELLED: &str = "notifications/cancelled";
const PROGRESS: &str = "notifications/progress";

/// A request as it goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedRequest {
    pub text: String,
    /// The client's own progress token, as JSON.
    pub token: Option<String>,
}

pub fn numbered(request: &RawObject<'_>, number: u64) -> NumberedRequest {
    let number = number.to_string();
    let mut request = request.clone();
    request.set("id", number.as_str());
    let told = request.object("params").and_then(|params| {
        let mut meta = params.object("_meta")?;
        let token = meta.raw("progressToken")?.to_owned();
        meta.set("progressToken", number.as_str());
        let meta = meta.to_json();
        let mut params = params.clone();
        params.set("_meta", meta);
        Some((params.to_json(), token))
    });
    let token = told.map(|(params, token)| {
        request.set("params", params);
        token
    });
    NumberedRequest { text: request.to_json(), token }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeardMessage {
    /// An answer to the request with this number; `None`: to none of ours.
    Answer(Option<u64>),
    Progress(Option<u64>),
    /// It asks for something.
    Asked {
        id: RpcId,
        method: String,
    },
    Told {
        method: String,
    },
}

/// `None`: no message.
pub fn heard(text: &str) -> Option<HeardMessage> {
    Some(match RpcMessage::parse(text).ok()? {
        RpcMessage::Response { id, .. } => HeardMessage::Answer(id.json().parse().ok()),
        RpcMessage::Request { id, method, .. } => HeardMessage::Asked { id, method },
        RpcMessage::Notification { method, envelope } if method == PROGRESS => {
            let params = envelope.object("params");
            HeardMessage::Progress(params.and_then(|params| params.raw("progressToken")?.parse().ok()))
        }
        RpcMessage::Notification { method, .. } => HeardMessage::Told { method },
    })
}

/// An answer under the id by which it was asked for.
pub fn answer_to(text: &str, id: &str) -> Option<String> {
    let mut answer = RawObject::parse(text).ok()?;
    answer.set("id", id);
    Some(answer.to_json())
}

/// Progress under the token that the client gave.
pub fn progress_of(text: &str, token: &str) -> Option<String> {
    let mut note = RawObject::parse(text).ok()?;
    let mut params = note.object("params")?;
    params.set("progressToken", token);
    let params = params.to_json();
    note.set("params", params);
    Some(note.to_json())
}

/// The request that a client takes back, as JSON; `None`: the notice is another.
pub fn cancelled(note: &RawObject<'_>) -> Option<String> {
    let is_that = note.text("method").is_some_and(|method| method == CANCELLED);
    note.object("params").filter(|_| is_that)?.raw("requestId").map(str::to_owned)
}

pub fn cancel(number: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{number}}}}}"#)
}

pub fn pong(id: &RpcId) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.json())
}

/// The refusal of a server's request where there is no client that could be asked.
pub fn nobody(id: &RpcId) -> String {
    let told = r#"{"code":-32601,"message":"there is no client that could be asked"}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{told}}}"#, id.json())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> NumberedRequest {
        numbered(&RawObject::parse(text).expect("an object"), 7)
    }

    #[test]
    fn ids_and_tokens_go_out_as_numbers_and_all_else_as_it_was() {
        let made = request(
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p","x":1.50}},"y":2}"#,
        );
        assert_eq!(made.token.as_deref(), Some("\"p\""));
        let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7,"x":1.50}},"y":2}"#;
        assert_eq!(made.text, text);
        let plain = request(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        assert_eq!((plain.token, plain.text.contains("\"id\":7")), (None, true));
    }

    #[test]
    fn what_a_server_says_is_told_apart() {
        let told = |text: &str| heard(text).expect("a message");
        assert_eq!(told(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), HeardMessage::Answer(Some(7)));
        assert_eq!(told(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#), HeardMessage::Answer(None));
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
        assert_eq!(told(progress), HeardMessage::Progress(Some(7)));
        assert!(
            matches!(told(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), HeardMessage::Asked { method, .. } if method == "ping")
        );
        assert!(matches!(told(r#"{"jsonrpc":"2.0","method":"x"}"#), HeardMessage::Told { .. }));
        assert_eq!((heard("starting up"), heard("[]")), (None, None));
        let back = progress_of(progress, "\"p\"").expect("a note");
        assert!(back.contains(r#""progressToken":"p","progress":1"#), "{back}");
        assert_eq!(
            answer_to(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, "\"a\"").as_deref(),
            Some(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#)
        );
    }

    #[test]
    fn what_is_taken_back_is_known_by_its_id() {
        let of = |text: &str| cancelled(&RawObject::parse(text).expect("an object"));
        assert_eq!(of(r#"{"method":"notifications/cancelled","params":{"requestId":"a"}}"#).as_deref(), Some("\"a\""));
        assert_eq!(of(r#"{"method":"notifications/progress","params":{"requestId":"a"}}"#), None);
        assert_eq!(heard(&cancel(7)), Some(HeardMessage::Told { method: CANCELLED.to_owned() }));
    }
}
