//! The fields of events that a gateway has to know, read without the rest: what a client asks for and which models it
//! names, what a provider says of responses, sessions and transcripts. A field that stands twice makes an event
//! unreadable, as two readers could then see two events.
//!
//! Names are those of <https://platform.openai.com/docs/api-reference/realtime>, those of the beta beside them.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use thiserror::Error;

/// Longer names are of nothing that is known, and ids that are longer are not repeated to anybody.
const MOST_NAME: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    #[error("an event must be a JSON object with a `type`, and have none of its fields twice")]
    NoEvent,
    #[error("`{field}` of an event {why}")]
    Field { field: String, why: String },
    #[error("`type`, `event_id` and the names of models have 512 bytes at most")]
    TooLong,
}

impl Unreadable {
    /// Says why an event cannot be read: it is parsed a second time, to learn which field is at fault.
    fn of(text: &str) -> Self {
        let from = &mut serde_json::Deserializer::from_str(text);
        let Err(error) = serde_path_to_error::deserialize::<_, EventFields<'_>>(from) else { return Self::NoEvent };
        let (path, inner) = (error.path().to_string(), error.into_inner());
        if !inner.is_data() {
            return Self::NoEvent;
        }
        let why = inner.to_string();
        let field = |name: &str| if path == "." { name.to_owned() } else { format!("{path}.{name}") };
        if let Some((name, _)) = why.strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`')) {
            return Self::Field { field: field(name), why: "is given twice".to_owned() };
        }
        let expected = ["struct ", "a string"].into_iter().find(|kind| why.contains(&format!("expected {kind}")));
        let why = if expected == Some("struct ") { "must be an object" } else { "must be a string" };
        Self::Field { field: path, why: why.to_owned() }
    }
}

/// What a client says.
#[derive(Debug, Default)]
pub struct ClientEvent<'e> {
    pub kind: Cow<'e, str>,
    pub id: Option<Cow<'e, str>>,
    /// Every model that it names, with the field that does.
    pub models: Vec<(&'static str, Cow<'e, str>)>,
    /// The most tokens of a response, as `session` or `response` in the event asks for; `None`: no number is given.
    pub most_output: Option<u64>,
    /// The most tokens where the event itself is the request, as on a socket for Responses.
    pub own_most_output: Option<u64>,
    /// It goes on from a response or in a conversation that the provider keeps.
    pub goes_on: bool,
}

impl<'e> ClientEvent<'e> {
    pub fn read(text: &'e str) -> Result<Self, Unreadable> {
        // Serde would read a struct from a list as well, so anything but an object is refused first.
        if !text.trim_start().starts_with('{') {
            return Err(Unreadable::NoEvent);
        }
        let told: EventFields<'e> = serde_json::from_str(text).map_err(|_| Unreadable::of(text))?;
        let kind = told.kind.ok_or(Unreadable::NoEvent)?;
        let mut models = Vec::new();
        models.extend(told.model.map(|model| ("model", model)));
        let own_most_output = told.max_output_tokens.and_then(|told| told.get().parse().ok());
        let goes_on = [told.previous_response_id, told.conversation].into_iter().flatten().any(|id| id.get() != "null");
        let mut most_output = None;
        for (session, fields) in [(told.session, IN_SESSION), (told.response, IN_RESPONSE)] {
            let Some(mut session) = session else { continue };
            most_output = session.most_output();
            let delegated = session.delegation.take().and_then(|delegation| delegation.responses?.model);
            models.extend(delegated.map(|model| (DELEGATED, model)));
            let [model, heard] = session.models();
            models.extend(model.map(|model| (fields.0, model)));
            models.extend(heard.map(|model| (fields.1, model)));
        }
        let texts = [Some(&kind), told.event_id.as_ref()].into_iter().flatten();
        if texts.chain(models.iter().map(|(_, name)| name)).any(|text| text.len() > MOST_NAME) {
            return Err(Unreadable::TooLong);
        }
        Ok(Self { kind, id: told.event_id, models, most_output, own_most_output, goes_on })
    }

    /// What its client calls an event that cannot be read otherwise.
    pub fn id_alone(text: &'e str) -> Option<Cow<'e, str>> {
        let told: ErrorPart<'e> = serde_json::from_str(text).ok()?;
        told.event_id.filter(|id| id.len() <= MOST_NAME)
    }

    /// It asks for a response.
    pub fn asks(&self) -> bool {
        self.kind == "response.create"
    }

    /// The model that the event itself names.
    pub fn model(&self) -> Option<&str> {
        self.models.iter().find(|(field, _)| *field == "model").map(|(_, model)| &**model)
    }

    /// The model that is to write down what the client says, as it asks for here.
    pub fn transcriber(&self) -> Option<&str> {
        let is_update = self.kind.ends_with("session.update");
        let named = self.models.iter().find(|(field, _)| is_update && *field == IN_SESSION.1);
        named.map(|(_, model)| &**model)
    }

    /// It adds sound to what the model will hear.
    pub fn is_sound(&self) -> bool {
        self.kind == "input_audio_buffer.append"
    }
}

const IN_SESSION: (&str, &str) = ("session.model", "session.audio.input.transcription.model");
const IN_RESPONSE: (&str, &str) = ("response.model", "response.audio.input.transcription.model");

/// The field of a Live API session that names the model which is asked for what the session's own model cannot say.
const DELEGATED: &str = "session.delegation.responses.model";

/// What a provider says.
#[derive(Debug)]
pub enum ProviderEvent<'e> {
    Session {
        facts: SessionFacts,
        /// It was changed, as a client asked for.
        is_changed: bool,
    },
    ResponseCreated {
        id: Cow<'e, str>,
        /// The stream of the response, where several run at once on a socket for Responses.
        stream: Option<Cow<'e, str>>,
    },
    ResponseDone {
        id: Cow<'e, str>,
        status: Cow<'e, str>,
        usage: Option<&'e RawValue>,
        /// Its items.
        output: Option<&'e RawValue>,
    },
    /// All that the model wrote, or said aloud, in one part of an item.
    Said {
        response: Cow<'e, str>,
        item: Option<Cow<'e, str>>,
        text: Cow<'e, str>,
    },
    /// The whole arguments of a function, or of a tool of an MCP server, that the model asks for.
    Called {
        response: Cow<'e, str>,
        item: Option<Cow<'e, str>>,
        arguments: Cow<'e, str>,
    },
    /// So many bytes of text or of sound, as it is written in JSON.
    Delta {
        /// Empty on a socket for Responses.
        response: Cow<'e, str>,
        stream: Option<Cow<'e, str>>,
        bytes: usize,
        is_sound: bool,
    },
    Transcribed {
        item: Cow<'e, str>,
        usage: Option<&'e RawValue>,
        text: Cow<'e, str>,
    },
    /// Seconds of sound that a session of the Live API took since it began.
    Lasted {
        seconds: f64,
        /// It is over.
        is_last: bool,
    },
    /// An event of a response that such a session asked another model for.
    Delegated(&'e RawValue),
    /// What a client's event led to.
    Error {
        event: Option<Cow<'e, str>>,
    },
    /// An event that nothing is counted or judged by.
    Other,
}

impl<'e> ProviderEvent<'e> {
    /// What cannot be read says nothing.
    pub fn read(text: &'e str) -> Self {
        let Ok(told) = serde_json::from_str::<EventFields<'e>>(text) else { return Self::Other };
        let Some(kind) = told.kind else { return Self::Other };
        let response = || told.response_id.clone().unwrap_or_default();
        match &*kind {
            "session.created"
            | "session.started"
            | "session.updated"
            | "transcription_session.created"
            | "transcription_session.updated" => {
                let is_changed = kind.ends_with(".updated");
                told.session.map_or(Self::Other, |session| Self::Session { facts: session.facts(), is_changed })
            }
            "response.created" => match told.response.and_then(|response| response.id) {
                Some(id) => Self::ResponseCreated { id, stream: told.stream_id },
                None => Self::Other,
            },
            "response.done" | "response.completed" | "response.incomplete" | "response.failed" => match told.response {
                Some(SessionPart { id: Some(id), status, usage, output, .. }) => {
                    Self::ResponseDone { id, status: status.unwrap_or_default(), usage, output }
                }
                _ => Self::Other,
            },
            "conversation.item.input_audio_transcription.completed" => match told.item_id {
                Some(item) => Self::Transcribed { item, usage: told.usage, text: told.transcript.unwrap_or_default() },
                None => Self::Other,
            },
            "session.usage.updated" | "session.closed" => {
                let usage = told.usage.and_then(|usage| serde_json::from_str::<LastedFor>(usage.get()).ok());
                let is_last = &*kind == "session.closed";
                usage.map_or(Self::Other, |usage| Self::Lasted { seconds: usage.seconds, is_last })
            }
            "response.event" => told.event.map_or(Self::Other, Self::Delegated),
            "error" => Self::Error { event: told.error.and_then(|error| error.event_id) },
            "response.output_text.done" | "response.text.done" => {
                let text = told.text.and_then(|text| serde_json::from_str(text.get()).ok());
                Self::Said { response: response(), item: told.item_id, text: text.unwrap_or_default() }
            }
            "response.output_audio_transcript.done" | "response.audio_transcript.done" => {
                Self::Said { response: response(), item: told.item_id, text: told.transcript.unwrap_or_default() }
            }
            "response.function_call_arguments.done" | "response.mcp_call_arguments.done" => {
                let arguments = told.arguments.unwrap_or_default();
                Self::Called { response: response(), item: told.item_id, arguments }
            }
            kind if kind.starts_with("response.") && kind.ends_with(".delta") => {
                let bytes = told.delta.map_or(0, |delta| delta.get().len().saturating_sub(2));
                let is_sound = matches!(kind, "response.output_audio.delta" | "response.audio.delta");
                Self::Delta { response: response(), stream: told.stream_id, bytes, is_sound }
            }
            _ => Self::Other,
        }
    }
}

/// What an event of a provider's is about.
#[derive(Debug, Default)]
pub struct EventIds<'e> {
    pub response: Option<Cow<'e, str>>,
    pub item: Option<Cow<'e, str>>,
    /// The stream that the event is in, on a socket for Responses: there events of a response do not name it.
    pub stream: Option<Cow<'e, str>>,
    pub kind: Cow<'e, str>,
}

impl<'e> EventIds<'e> {
    pub fn read(text: &'e str) -> Self {
        let Ok(told) = serde_json::from_str::<EventFields<'e>>(text) else { return Self::default() };
        let response = told.response_id.or_else(|| told.response?.id);
        let item = told.item_id.or_else(|| told.item?.id);
        Self { response, item, stream: told.stream_id, kind: told.kind.unwrap_or_default() }
    }
}

/// What a provider says of a session as it now is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    pub model: Option<String>,
    /// That writes down what the client says; `None`: none does.
    pub transcribes: Option<String>,
    /// Tokens of one response.
    pub most_output: Option<u64>,
}

/// An error in the form of the provider's own.
pub fn error_event(id: &str, kind: &str, code: &str, message: &str, about: Option<&str>) -> String {
    serde_json::json!({
        "type": "error",
        "event_id": id,
        "error": { "type": kind, "code": code, "message": message, "param": null, "event_id": about },
    })
    .to_string()
}

/// Every field that is looked at, of every kind of event.
#[derive(Deserialize)]
struct EventFields<'e> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    event_id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    model: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    session: Option<SessionPart<'e>>,
    #[serde(borrow, default)]
    response: Option<SessionPart<'e>>,
    #[serde(borrow, default)]
    response_id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    item: Option<ItemPart<'e>>,
    /// The stream that the event belongs to, where several responses run at once on a socket for Responses.
    #[serde(borrow, default)]
    stream_id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    max_output_tokens: Option<&'e RawValue>,
    #[serde(borrow, default)]
    previous_response_id: Option<&'e RawValue>,
    #[serde(borrow, default)]
    conversation: Option<&'e RawValue>,
    /// A text, or how one is to be written.
    #[serde(borrow, default)]
    text: Option<&'e RawValue>,
    #[serde(borrow, default)]
    transcript: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    delta: Option<&'e RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'e RawValue>,
    #[serde(borrow, default)]
    error: Option<ErrorPart<'e>>,
    #[serde(borrow, default)]
    event: Option<&'e RawValue>,
}

#[derive(Deserialize)]
struct LastedFor {
    seconds: f64,
}

/// A session or a response.
#[derive(Deserialize)]
struct SessionPart<'e> {
    #[serde(borrow, default)]
    id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    usage: Option<&'e RawValue>,
    #[serde(borrow, default)]
    output: Option<&'e RawValue>,
    #[serde(borrow, default)]
    model: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    audio: Option<Sound<'e>>,
    /// The transcription settings at the place where the beta of the interface has them.
    #[serde(borrow, default)]
    input_audio_transcription: Option<Transcriber<'e>>,
    #[serde(borrow, default)]
    delegation: Option<DelegationPart<'e>>,
    /// A number, or `inf`.
    #[serde(borrow, default)]
    max_output_tokens: Option<&'e RawValue>,
    /// The name that `max_output_tokens` has in the beta of the interface.
    #[serde(borrow, default)]
    max_response_output_tokens: Option<&'e RawValue>,
}

#[derive(Deserialize)]
struct DelegationPart<'e> {
    #[serde(borrow, default)]
    responses: Option<Transcriber<'e>>,
}

#[derive(Deserialize)]
struct Sound<'e> {
    #[serde(borrow, default)]
    input: Option<SoundIn<'e>>,
}

#[derive(Deserialize)]
struct SoundIn<'e> {
    #[serde(borrow, default)]
    transcription: Option<Transcriber<'e>>,
}

#[derive(Deserialize)]
struct Transcriber<'e> {
    #[serde(borrow, default)]
    model: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct ItemPart<'e> {
    #[serde(borrow, default)]
    id: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct ErrorPart<'e> {
    #[serde(borrow, default)]
    event_id: Option<Cow<'e, str>>,
}

impl<'e> SessionPart<'e> {
    fn most_output(&self) -> Option<u64> {
        let told = self.max_output_tokens.or(self.max_response_output_tokens)?;
        told.get().parse().ok()
    }

    /// The one that answers, and the one that writes down what it hears.
    fn models(self) -> [Option<Cow<'e, str>>; 2] {
        let heard = self.audio.and_then(|audio| audio.input?.transcription).or(self.input_audio_transcription);
        [self.model, heard.and_then(|heard| heard.model)]
    }

    fn facts(self) -> SessionFacts {
        let most_output = self.most_output();
        let [model, transcribes] = self.models().map(|name| name.filter(|n| n.len() <= MOST_NAME).map(Cow::into_owned));
        SessionFacts { model, transcribes, most_output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_asks_for() {
        let event = ClientEvent::read(
            r#"{"event_id":"e1","type":"response.create","response":{"max_output_tokens":50,"model":"m","metadata":{"type":"x"}}}"#,
        )
        .expect("an event");
        assert!(event.asks() && !event.is_sound());
        assert_eq!((event.id.as_deref(), event.most_output), (Some("e1"), Some(50)));
        assert_eq!(event.models, [("response.model", Cow::Borrowed("m"))]);
        let event = ClientEvent::read(
            r#"{"type":"session.update","session":{"model":"a","max_output_tokens":"inf","audio":{"input":{"transcription":{"model":"b"},"format":{}}}}}"#,
        )
        .expect("an event");
        let named =
            [("session.model", Cow::Borrowed("a")), ("session.audio.input.transcription.model", Cow::Borrowed("b"))];
        assert_eq!((event.models.as_slice(), event.most_output), (&named[..], None));
        assert_eq!(event.transcriber(), Some("b"));
        let beta = ClientEvent::read(
            r#"{"type":"transcription_session.update","session":{"input_audio_transcription":{"model":"c"}}}"#,
        );
        assert_eq!(beta.expect("an event").models.len(), 1);
        assert!(
            ClientEvent::read(r#"{"type":"input_audio_buffer.append","audio":"AAAA"}"#).expect("an event").is_sound()
        );
        assert!(ClientEvent::read(r#"{"type":"response\u002ecreate"}"#).expect("an event").asks());
    }

    #[test]
    fn on_a_socket_for_responses_the_event_is_the_request() {
        let asked = r#"{"type":"response.create","model":"m","input":"hi","max_output_tokens":50,"text":{"format":{}},"previous_response_id":"r"}"#;
        let event = ClientEvent::read(asked).expect("an event");
        assert_eq!((event.model(), event.own_most_output, event.goes_on), (Some("m"), Some(50), true));
        let fresh = ClientEvent::read(r#"{"type":"response.create","previous_response_id":null}"#).expect("an event");
        assert_eq!((fresh.model(), fresh.own_most_output, fresh.goes_on), (None, None, false));
        for end in ["completed", "incomplete", "failed"] {
            let told = format!(r#"{{"type":"response.{end}","response":{{"id":"r","status":"{end}","usage":{{}}}}}}"#);
            assert!(matches!(ProviderEvent::read(&told), ProviderEvent::ResponseDone { usage: Some(_), .. }), "{end}");
        }
        let delta = r#"{"type":"response.output_text.delta","item_id":"i","delta":"abcd","stream_id":"s"}"#;
        let ids = EventIds::read(delta);
        assert_eq!((ids.response, ids.stream.as_deref()), (None, Some("s")));
        assert!(matches!(ProviderEvent::read(delta), ProviderEvent::Delta { stream: Some(_), bytes: 4, .. }));
    }

    #[test]
    fn sessions_of_the_live_api_tell_their_seconds() {
        let start = r#"{"type":"session.start","session":{"model":"a","delegation":{"type":"responses","responses":{"model":"b"}}}}"#;
        let named = [(DELEGATED, Cow::Borrowed("b")), ("session.model", Cow::Borrowed("a"))];
        assert_eq!(ClientEvent::read(start).expect("an event").models, named);
        for (text, expected) in [
            (r#"{"type":"session.usage.updated","usage":{"seconds":2.5}}"#, Some((2.5, false))),
            (r#"{"type":"session.closed","usage":{"seconds":4},"reason":"expired"}"#, Some((4.0, true))),
            (r#"{"type":"session.usage.updated","usage":{"seconds":null}}"#, None),
            (r#"{"type":"session.closed"}"#, None),
        ] {
            let told = match ProviderEvent::read(text) {
                ProviderEvent::Lasted { seconds, is_last } => Some((seconds, is_last)),
                _ => None,
            };
            assert_eq!(told, expected, "{text}");
        }
        let nested = r#"{"type":"response.event","event":{"type":"response.completed"}}"#;
        assert!(
            matches!(ProviderEvent::read(nested), ProviderEvent::Delegated(event) if event.get().contains("completed"))
        );
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_no_event() {
        for text in [
            "",
            "null",
            "[]",
            r#"["session.update"]"#,
            r#"{"event_id":"e"}"#,
            r#"{"type":"a"} {"type":"response.create"}"#,
        ] {
            assert_eq!(ClientEvent::read(text).map(drop), Err(Unreadable::NoEvent), "{text}");
        }
        for (text, told) in [
            (r#"{"type":1}"#, "`type` of an event must be a string"),
            (r#"{"type":"a","type":"response.create"}"#, "`type` of an event is given twice"),
            (
                r#"{"type":"session.update","session":{"model":"a","model":"b"}}"#,
                "`session.model` of an event is given twice",
            ),
            (
                r#"{"type":"session.update","session":{},"session":{"model":"b"}}"#,
                "`session` of an event is given twice",
            ),
            (r#"{"type":"session.update","session":{"model":["b"]}}"#, "`session.model` of an event must be a string"),
            (r#"{"type":"session.update","session":5}"#, "`session` of an event must be an object"),
            (
                r#"{"type":"session.update","session":{"audio":{"input":{"transcription":"w"}}}}"#,
                "`session.audio.input.transcription` of an event must be an object",
            ),
        ] {
            let why = ClientEvent::read(text).map(drop).expect_err(text);
            assert_eq!(why.to_string(), told, "{text}");
        }
        assert_eq!(ClientEvent::id_alone(r#"{"type":1,"event_id":"e"}"#).as_deref(), Some("e"));
        assert_eq!(ClientEvent::id_alone(r#"{"type":1,"event_id":1}"#), None);
        let long = format!(r#"{{"type":"a","event_id":"{}"}}"#, "x".repeat(MOST_NAME + 1));
        assert_eq!(ClientEvent::read(&long).map(drop), Err(Unreadable::TooLong));
    }

    #[test]
    fn what_a_provider_tells() {
        let done = r#"{"type":"response.done","response":{"id":"r1","status":"cancelled","output":[],"usage":{"total_tokens":3}}}"#;
        match ProviderEvent::read(done) {
            ProviderEvent::ResponseDone { id, status, usage, output } => {
                assert_eq!((&*id, &*status), ("r1", "cancelled"));
                assert_eq!(output.map(RawValue::get), Some("[]"));
                assert_eq!(usage.map(RawValue::get), Some(r#"{"total_tokens":3}"#));
            }
            other => panic!("{other:?}"),
        }
        let delta = r#"{"type":"response.output_audio.delta","response_id":"r1","delta":"AAAABBBB"}"#;
        assert!(matches!(
            ProviderEvent::read(delta),
            ProviderEvent::Delta { bytes: 8, is_sound: true, response, .. } if response == "r1"
        ));
        let session = r#"{"type":"session.updated","session":{"id":"s","type":"realtime","model":"gpt-realtime-2025-08-28",
            "max_output_tokens":400,"audio":{"input":{"transcription":{"model":"whisper-1"}}}}}"#;
        let ProviderEvent::Session { facts, is_changed: true } = ProviderEvent::read(session) else {
            panic!("a session")
        };
        assert_eq!(facts.model.as_deref(), Some("gpt-realtime-2025-08-28"));
        assert_eq!((facts.transcribes.as_deref(), facts.most_output), (Some("whisper-1"), Some(400)));
        let heard = r#"{"type":"conversation.item.input_audio_transcription.completed","item_id":"i","transcript":"hi",
            "usage":{"type":"duration","seconds":1.5}}"#;
        assert!(matches!(
            ProviderEvent::read(heard),
            ProviderEvent::Transcribed { usage: Some(_), text, .. } if text == "hi"
        ));
        for said in [
            r#"{"type":"response.output_text.done","response_id":"r","item_id":"i","text":"said"}"#,
            r#"{"type":"response.output_audio_transcript.done","response_id":"r","item_id":"i","transcript":"said"}"#,
        ] {
            let ProviderEvent::Said { response, item, text } = ProviderEvent::read(said) else { panic!("{said}") };
            assert_eq!((&*response, item.as_deref(), &*text), ("r", Some("i"), "said"));
        }
        let called = r#"{"type":"response.function_call_arguments.done","response_id":"r","item_id":"i","name":"f","arguments":"{\"q\":1}"}"#;
        let ProviderEvent::Called { response, item, arguments } = ProviderEvent::read(called) else { panic!("a call") };
        assert_eq!((&*response, item.as_deref(), &*arguments), ("r", Some("i"), r#"{"q":1}"#));
        let error = r#"{"type":"error","error":{"code":"x","event_id":"e1"}}"#;
        assert!(matches!(ProviderEvent::read(error), ProviderEvent::Error { event: Some(id) } if id == "e1"));
        for text in ["", "{", r#"{"type":"rate_limits.updated"}"#, r#"{"type":"response.done"}"#] {
            assert!(matches!(ProviderEvent::read(text), ProviderEvent::Other), "{text}");
        }
    }

    #[test]
    fn what_an_event_is_about() {
        for (text, response, item, kind) in [
            (r#"{"type":"response.done","response":{"id":"r"}}"#, Some("r"), None, "response.done"),
            (r#"{"type":"a","response_id":"r","item":{"id":"i"}}"#, Some("r"), Some("i"), "a"),
            (r#"{"type":"b","response_id":"r","item_id":"i"}"#, Some("r"), Some("i"), "b"),
            (r#"{"type":"c","item":{"id":"i"}}"#, None, Some("i"), "c"),
            (r#"{"type":"rate_limits.updated"}"#, None, None, "rate_limits.updated"),
            ("", None, None, ""),
        ] {
            let ids = EventIds::read(text);
            assert_eq!((ids.response.as_deref(), ids.item.as_deref(), &*ids.kind), (response, item, kind), "{text}");
        }
    }

    #[test]
    fn an_error_of_ours_is_like_theirs() {
        let told: serde_json::Value =
            serde_json::from_str(&error_event("event_1", "invalid_request_error", "c", "why", Some("e")))
                .expect("JSON");
        assert_eq!((&told["type"], &told["error"]["event_id"]), (&"error".into(), &"e".into()));
    }
}
