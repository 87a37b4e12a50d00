//! What is different on a socket for Responses (`GET /v1/responses`): each `response.create` is a whole request with a
//! model of its own, several responses may run at once in streams that have names, events of a response do not name it,
//! and nothing cancels or deletes what was said. All else is as in any session.
//!
//! Events are those of <https://platform.openai.com/docs/guides/websocket-mode>.

use super::session::LiveSession;
use super::turns::MOST_AT_ONCE;
use crate::clock;
use crate::ids;
use crate::proxy::request::Request;
use gateway_domain::{Fault, FaultKind, Operation, Usage};
use gateway_realtime::{ClientEvent, WireMessage, error_event};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Responses that run, each with the name of its stream; the latest is the last.
#[derive(Debug, Default)]
pub(super) struct ResponseStreams(VecDeque<(Option<String>, String)>);

impl ResponseStreams {
    fn begin(&mut self, stream: Option<&str>, response: &str) {
        // A stream has one response at a time.
        self.0.retain(|(known, _)| known.as_deref() != stream);
        if self.0.len() >= MOST_AT_ONCE {
            self.0.pop_front();
        }
        self.0.push_back((stream.map(str::to_owned), response.to_owned()));
    }

    /// The response that an event in this stream belongs to.
    pub(super) fn of(&self, stream: Option<&str>) -> Option<&str> {
        let named = self.0.iter().find(|(known, _)| known.as_deref() == stream);
        named.or_else(|| self.0.back()).map(|(_, response)| response.as_str())
    }

    /// What a response used that has come to its end, at a provider of this family.
    pub(super) fn end(&mut self, response: &str, (family, told): (&str, &WireMessage)) -> Option<Usage> {
        self.0.retain(|(_, known)| known != response);
        gateway_providers::response_usage(family, &told.payload).0
    }
}

pub(super) fn is_for_responses(request: &Request) -> bool {
    request.ask.route.operation == Operation::ResponsesSession
}

/// The end of a response that may not be heard.
pub(super) fn refusal(id: &str, usage: &Value) -> String {
    let response = json!({
        "object": "response", "id": id, "status": "incomplete", "incomplete_details": { "reason": "content_filter" },
        "output": [], "usage": usage,
    });
    json!({ "type": "response.incomplete", "response": response }).to_string()
}

impl LiveSession<'_, '_, '_> {
    pub(super) fn is_for_responses(&self) -> bool {
        is_for_responses(self.gate.request)
    }

    /// What a response of the session is for its record.
    pub(super) fn part(&self) -> Operation {
        if self.is_for_responses() { Operation::Responses } else { Operation::RealtimeResponse }
    }

    /// A response that names no model could be any model's, and nobody reads a provider out of a name that goes up as
    /// it is.
    pub(super) fn permit_asked(&self, event: &ClientEvent<'_>) -> Result<(), Fault> {
        if !self.is_for_responses() || !event.asks() {
            return Ok(());
        }
        let refused = |why| Err(Fault::new(FaultKind::BadBody, why).on("model"));
        match event.model() {
            None => refused("model is required: each response on a socket names its model"),
            Some(name) if name.starts_with('@') => {
                refused("model must be the provider's own name: the provider of a socket is chosen when it opens")
            }
            Some(_) => Ok(()),
        }
    }

    /// Notes the model that an event asks for: from now on the session is one with this model.
    pub(super) fn hear_model(&mut self, event: &ClientEvent<'_>) {
        if self.is_for_responses()
            && event.asks()
            && let Some(model) = event.model()
        {
            self.switched = Some(model.into());
        }
    }

    /// What a response will read is told with it.
    pub(super) fn hear_asked(&mut self, event: &ClientEvent<'_>, bytes: usize) {
        if !self.is_for_responses() {
            return;
        }
        if event.asks() && !event.goes_on {
            self.turns.context.settle(0);
        }
        self.turns.context.add(bytes, false);
    }

    pub(super) fn most_output(&self, event: &ClientEvent<'_>) -> Option<u64> {
        if self.is_for_responses() { event.own_most_output } else { event.most_output }
    }

    pub(super) fn stream_begins(&mut self, response: &str, stream: Option<&str>) {
        if self.is_for_responses() {
            self.streams.begin(stream, response);
        }
    }

    /// An error in the provider's own form, of this type and code.
    pub(super) fn error(&self, (kind, code): (&str, &str), message: &str, about: Option<&str>) -> Value {
        let id = format!("event_{}", ids::next(clock::now()).simple());
        let mut told: Value = serde_json::from_str(&error_event(&id, kind, code, message, about)).unwrap_or_default();
        if self.is_for_responses() {
            // Clients of Responses look for it beside the type.
            for field in ["code", "message", "param"] {
                told[field] = told["error"][field].clone();
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_of_the_response_of_its_stream_or_of_the_latest() {
        let mut streams = ResponseStreams::default();
        assert_eq!(streams.of(None), None);
        streams.begin(None, "one");
        streams.begin(Some("b"), "two");
        assert_eq!(
            [None, Some("b"), Some("c")].map(|stream| streams.of(stream)),
            [Some("one"), Some("two"), Some("two")]
        );
        streams.begin(Some("b"), "three");
        assert_eq!((streams.of(Some("b")), streams.0.len()), (Some("three"), 2));
        for number in 0..2 * MOST_AT_ONCE {
            streams.begin(Some(&number.to_string()), "more");
        }
        assert_eq!(streams.0.len(), MOST_AT_ONCE);
    }
}
