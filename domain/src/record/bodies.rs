//! What is kept of messages beside their numbers: heads that were masked where they were taken, and the start of
//! bodies as references to bytes that were there anyway. Joined, masked and compared on the writer's thread.

use super::mask;
use crate::secret::Secret;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::any::Any;
use std::sync::Arc;

/// The four messages of one call: what the client sent and got, and
/// what passed between the gateway and the provider, where one was called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bodies {
    pub request: RecordedMessage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<RecordedMessage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<RecordedMessage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedMessage>,
    /// Where all that is kept lies, when it is not here. Whoever shows a record has fetched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<BodiesPlace>,
    /// Taken out of every body wherever they stand; gone once [`Self::settle`] was called.
    #[serde(skip)]
    pub secrets: Vec<Secret<String>>,
    /// Gives the bytes back to the process's budget when dropped.
    #[serde(skip)]
    pub held: BodyLease,
}

/// A part of an object outside the log store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodiesPlace {
    pub object: SmolStr,
    /// The first byte of the part in the object; `bytes` is its length.
    pub at: u64,
    pub bytes: u64,
}

/// A head and what is kept of its body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedMessage {
    /// Empty on answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// 0 on requests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: u16,
    /// Names in lower case, values masked.
    pub headers: Vec<(String, String)>,
    pub body: RecordedBody,
}

fn is_zero(status: &u16) -> bool {
    *status == 0
}

/// The first [`RecordedBody::MOST`] bytes of a body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "SerializedBody", into = "SerializedBody")]
pub struct RecordedBody {
    pieces: Vec<Bytes>,
    kept: usize,
    length: u64,
    kind: RecordedBodyKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecordedBodyKind {
    #[default]
    Text,
    /// No text: only its length is kept.
    Binary,
    /// Equal to that of the message on the client's side.
    Same,
}

#[derive(Serialize, Deserialize)]
struct SerializedBody {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    length: u64,
    kind: RecordedBodyKind,
}

impl From<SerializedBody> for RecordedBody {
    fn from(told: SerializedBody) -> Self {
        let (kept, length, kind) = (told.text.len(), told.length, told.kind);
        Self { pieces: (kept > 0).then(|| told.text.into()).into_iter().collect(), kept, length, kind }
    }
}

impl From<RecordedBody> for SerializedBody {
    fn from(body: RecordedBody) -> Self {
        Self { text: body.text().unwrap_or_default(), length: body.length, kind: body.kind }
    }
}

impl RecordedBody {
    /// Most bytes kept of one body.
    pub const MOST: usize = 64 * 1024;
    /// A reference to part of something larger than this would keep too much of it alive.
    const WORTH_PINNING: usize = 4 * Self::MOST;

    pub fn of(bytes: &Bytes) -> Self {
        let mut body = Self::default();
        body.add(bytes);
        body
    }

    /// A body that went past and of which nothing can be kept.
    pub const fn unseen(length: u64) -> Self {
        Self { pieces: Vec::new(), kept: 0, length, kind: RecordedBodyKind::Binary }
    }

    pub fn add(&mut self, piece: &Bytes) {
        self.length += piece.len() as u64;
        let room = Self::MOST.saturating_sub(self.kept).min(piece.len());
        if room > 0 {
            let start = piece.slice(..room);
            let kept = if piece.len() > Self::WORTH_PINNING { Bytes::copy_from_slice(&start) } else { start };
            if self.pieces.is_empty() {
                // Most bodies are one piece: no room for more is asked for.
                self.pieces = vec![kept];
            } else {
                self.pieces.push(kept);
            }
            self.kept += room;
        }
    }

    /// Bytes that are kept.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes of the whole body.
    pub const fn length(&self) -> u64 {
        self.length
    }

    pub const fn is_same(&self) -> bool {
        matches!(self.kind, RecordedBodyKind::Same)
    }

    /// Whether less is kept than there was.
    pub const fn is_cut(&self) -> bool {
        (self.kept as u64) < self.length
    }

    /// What is kept, `None` when that is no text.
    pub fn text(&self) -> Option<String> {
        match self.kind {
            RecordedBodyKind::Text => Some(self.pieces.iter().map(|p| String::from_utf8_lossy(p)).collect()),
            RecordedBodyKind::Binary | RecordedBodyKind::Same => None,
        }
    }

    fn refers_to(&self, other: &Self) -> bool {
        let same = |(a, b): (&Bytes, &Bytes)| (a.as_ptr() == b.as_ptr() && a.len() == b.len()) || a == b;
        self.kind == other.kind
            && self.length == other.length
            && self.pieces.len() == other.pieces.len()
            && self.pieces.iter().zip(&other.pieces).all(same)
    }

    fn settle(&mut self, secrets: &[Secret<String>]) {
        let joined = match self.pieces.len() {
            0 => return,
            1 => self.pieces[0].clone(),
            _ => self.pieces.concat().into(),
        };
        let Some(text) = text_of(&joined, self.is_cut()) else {
            *self = Self::unseen(self.length);
            return;
        };
        let masked = mask::body(text, secrets).map_or_else(|| joined.slice(..text.len()), Bytes::from);
        // What was masked is no shorter body: only a cut one tells less than its length.
        let lost = self.is_cut();
        self.kept = masked.len();
        if !lost {
            self.length = masked.len() as u64;
        }
        self.length = self.length.max(self.kept as u64 + u64::from(lost));
        self.pieces = vec![masked];
    }
}

/// Text, without the part of a character that a cut left at its end.
fn text_of(bytes: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(e) if cut && e.error_len().is_none() => std::str::from_utf8(&bytes[..e.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Whatever must live as long as the bytes; says nothing of itself.
#[derive(Clone, Default)]
pub struct BodyLease(Option<Arc<dyn Any + Send + Sync>>);

impl BodyLease {
    pub fn new(what: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(what)))
    }
}

impl std::fmt::Debug for BodyLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BodyLease({})", self.0.is_some())
    }
}

/// Records are compared by what they tell.
impl PartialEq for BodyLease {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Bodies {
    /// Joins what was kept in pieces, takes secrets out, and drops what is there twice. Before this nothing of it
    /// may be written anywhere. Doing it again changes nothing.
    pub fn settle(&mut self) {
        let secrets = std::mem::take(&mut self.secrets);
        let same = |inner: &Option<RecordedMessage>, outer: &RecordedBody| {
            inner.as_ref().is_some_and(|m| m.body.refers_to(outer))
        };
        let sent_same = same(&self.sent, &self.request.body);
        let received_same = self.response.as_ref().is_some_and(|r| same(&self.received, &r.body));
        for (message, is_same) in [(&mut self.sent, sent_same), (&mut self.received, received_same)] {
            if let Some(message) = message.as_mut().filter(|m| is_same && m.body.length > 0) {
                message.body = RecordedBody {
                    kind: RecordedBodyKind::Same,
                    length: message.body.length,
                    ..RecordedBody::default()
                };
            }
        }
        let all = [Some(&mut self.request), self.sent.as_mut(), self.received.as_mut(), self.response.as_mut()];
        for message in all.into_iter().flatten() {
            message.body.settle(&secrets);
        }
    }

    /// Bytes of bodies kept.
    pub fn kept(&self) -> usize {
        let inner = [&self.sent, &self.received, &self.response].into_iter().flatten();
        self.request.body.kept + inner.map(|m| m.body.kept).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &Bytes) -> RecordedMessage {
        RecordedMessage { body: RecordedBody::of(body), ..RecordedMessage::default() }
    }

    #[test]
    fn equal_copies_are_kept_once_and_come_back_as_they_were() {
        let (asked, said) = (Bytes::from_static(b"{\"a\":1}"), Bytes::from_static(b"{\"b\":2}"));
        let mut bodies = Bodies {
            request: message(&asked),
            sent: Some(message(&asked)),
            received: Some(message(&said)),
            response: Some(message(&Bytes::from_static(b"{\"c\":3}"))),
            ..Bodies::default()
        };
        bodies.settle();
        assert!(bodies.sent.as_ref().is_some_and(|m| m.body.is_same()));
        assert!(bodies.received.as_ref().is_some_and(|m| m.body.text().as_deref() == Some("{\"b\":2}")));
        let text = serde_json::to_string(&bodies).expect("serialises");
        assert_eq!(text.matches("a\\\":1").count(), 1, "{text}");
        assert_eq!(serde_json::from_str::<Bodies>(&text).expect("reads"), bodies);
        let once = bodies.clone();
        bodies.settle();
        assert_eq!(bodies, once);
    }

    #[test]
    fn long_bodies_are_cut_at_a_character_and_say_so() {
        let long = "ä".repeat(RecordedBody::MOST);
        let mut bodies = Bodies { request: message(&Bytes::from(format!("x{long}"))), ..Bodies::default() };
        bodies.settle();
        let body = &bodies.request.body;
        assert!(body.is_cut() && body.length() == long.len() as u64 + 1);
        assert_eq!(body.text().map(|t| t.len()), Some(RecordedBody::MOST - 1));
    }

    #[test]
    fn pieces_are_joined_and_what_is_no_text_is_only_counted() {
        let mut body = RecordedBody::default();
        for piece in ["da", "ta: x\n", "\n"] {
            body.add(&Bytes::from_static(piece.as_bytes()));
        }
        let mut bodies = Bodies { request: message(&Bytes::from_static(&[0xff, 0xfe, 0])), ..Bodies::default() };
        bodies.response = Some(RecordedMessage { body, ..RecordedMessage::default() });
        bodies.settle();
        assert_eq!((bodies.request.body.text(), bodies.request.body.length()), (None, 3));
        assert_eq!(bodies.response.and_then(|m| m.body.text()).as_deref(), Some("data: x\n\n"));
    }

    #[test]
    fn a_body_with_a_secret_loses_it_wherever_it_stands() {
        let said = Bytes::from_static(b"no such key: sk-0123456789, api_key");
        let mut bodies = Bodies { request: message(&said), ..Bodies::default() };
        bodies.secrets.push(Secret::new("sk-0123456789".to_owned()));
        bodies.settle();
        assert_eq!(bodies.request.body.text().as_deref(), Some("no such key: ***, api_key"));
        assert!(!bodies.request.body.is_cut() && bodies.secrets.is_empty());
    }
}
