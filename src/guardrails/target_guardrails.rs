//! The guardrails of one target for one request, with all that their checks may know of it.

use super::Moderator;
use super::buffer_budget::Room;
use gateway_guardrails::{BodyShape, Content, Direction, Facts, Guardrail, GuardrailSubject};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct TargetGuards {
    pub(crate) input: Vec<Arc<Guardrail>>,
    pub(crate) output: Vec<Arc<Guardrail>>,
    /// Tells the lists of guardrails that judge answers from others: part of the key under which an answer is cached.
    pub(crate) digest: Vec<u8>,
    pub(crate) shape: BodyShape,
    pub(crate) facts: Arc<Facts>,
    /// The request's body before it is written in the provider's own dialect, for checks of answers that look at it.
    pub(crate) request: Option<Content>,
    pub(crate) request_is_transformed: bool,
    /// Answers checks that ask a model of the workspace's own.
    pub(crate) moderator: Option<Arc<Moderator>>,
    /// Where memory is taken for what is held until it was judged.
    pub(crate) room: Arc<dyn Room>,
}

impl TargetGuards {
    /// A request to be judged.
    pub(crate) fn asking(&self, content: Content) -> GuardrailSubject {
        GuardrailSubject {
            content,
            request: None,
            request_is_transformed: false,
            status: None,
            facts: self.facts.clone(),
        }
    }

    /// An answer to be judged.
    pub(crate) fn answering(&self, body: bytes::Bytes, shape: BodyShape) -> GuardrailSubject {
        GuardrailSubject {
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
