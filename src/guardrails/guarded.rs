//! The guardrails of one target for one request, with all that their checks may know of it.

use super::Moderator;
use super::room::Room;
use gateway_guardrails::{Content, Direction, Facts, Guardrail, Shape, Subject};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct TargetGuards {
    pub(crate) input: Vec<Arc<Guardrail>>,
    pub(crate) output: Vec<Arc<Guardrail>>,
    /// Of the lists that judge answers: part of what an answer is kept under.
    pub(crate) digest: Vec<u8>,
    pub(crate) shape: Shape,
    pub(crate) facts: Arc<Facts>,
    /// As it goes up, but for what a provider's own dialect makes of it.
    pub(crate) request: Option<Content>,
    pub(crate) request_is_transformed: bool,
    /// For checks that a model of the workspace's own answers.
    pub(crate) moderator: Option<Arc<Moderator>>,
    /// For what is held until it was judged.
    pub(crate) room: Arc<dyn Room>,
}

impl TargetGuards {
    /// A request to be judged.
    pub(crate) fn asking(&self, content: Content) -> Subject {
        Subject { content, request: None, request_is_transformed: false, status: None, facts: self.facts.clone() }
    }

    /// An answer to be judged.
    pub(crate) fn answering(&self, body: bytes::Bytes, shape: Shape) -> Subject {
        Subject {
            content: Content::new(body, shape, Direction::Output),
            request: self.request.clone(),
            request_is_transformed: self.request_is_transformed,
            status: Some(200),
            facts: self.facts.clone(),
        }
    }

    /// Some guardrail waits for the answer and decides on it.
    pub(crate) fn decides_on_answers(&self) -> bool {
        self.output.iter().any(|g| !g.actions().is_async)
    }
}
