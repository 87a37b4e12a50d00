//! Steps of an answer from events of Oracle's own chat, in either of its forms. A whole answer is read as the one event
//! that would have brought it.

use super::blocks::{SaidBlocks, Saying};
use crate::answer::{Aside, ResponseEvent};
use crate::failure::ProviderError;
use crate::translate::{EventError, EventReader};
use crate::wire::usage::OracleUsage;
use crate::wire::{JsonStr, read, speaks};
use gateway_domain::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatResult<'a> {
    #[serde(borrow)]
    chat_response: OracleEvent<'a>,
    #[serde(borrow)]
    model_id: Option<JsonStr<'a>>,
}

/// An event, or a choice, or a whole answer: what is there depends on the form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OracleEvent<'a> {
    #[serde(borrow)]
    choices: Option<Vec<OracleEvent<'a>>>,
    #[serde(borrow)]
    message: Option<OracleMessage<'a>>,
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OracleCall<'a>>>,
    #[serde(borrow)]
    citations: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    finish_reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    error_message: Option<JsonStr<'a>>,
    usage: Option<OracleUsage>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OracleMessage<'a> {
    #[serde(borrow)]
    content: Option<Vec<OraclePart<'a>>>,
    #[serde(borrow)]
    reasoning_content: Option<JsonStr<'a>>,
    #[serde(borrow)]
    refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OracleCall<'a>>>,
}

#[derive(Deserialize)]
struct OraclePart<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
}

/// The generic form has arguments as text, Cohere's has parameters as an object.
#[derive(Deserialize)]
struct OracleCall<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    arguments: Option<JsonStr<'a>>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

#[derive(Debug, Default)]
pub(crate) struct OracleReader {
    /// The model that was asked for, which stands in until the answer names one; a stream does not.
    asked: Option<String>,
    told: Option<String>,
    /// Ids of calls are made of this where there are none.
    seed: u64,
    opened: bool,
    finished: bool,
    ended: bool,
    blocks: SaidBlocks,
    /// Whether text has come: Cohere's last event repeats the whole of it, and the calls.
    texted: bool,
    calls: u64,
    call: Option<String>,
    argued: bool,
    usage: Option<Usage>,
}

/// Numbers of blocks above any that content has.
const CITATIONS: u64 = 1000;

impl OracleReader {
    pub(crate) fn new(model: Option<&str>, seed: u64) -> Self {
        Self { asked: model.map(str::to_owned), seed, ..Self::default() }
    }

    /// A whole answer.
    pub(crate) fn whole<'a>(&mut self, body: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        let Some(answer) = read::<ChatResult<'a>>(body) else {
            let trouble = ProviderError::read(body).filter(|trouble| !trouble.message.starts_with('{'));
            return Err(trouble.map_or(EventError::Unreadable, EventError::trouble));
        };
        self.told = answer.model_id.map(|model| model.0.into_owned());
        self.take(answer.chat_response, body, steps)?;
        if !self.finished {
            return Err(EventError::Unreadable);
        }
        self.end(steps);
        Ok(())
    }

    fn take<'a>(
        &mut self,
        event: OracleEvent<'a>,
        data: &[u8],
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        if speaks(event.error) || speaks(event.code) {
            return Err(EventError::trouble(ProviderError::read(data).unwrap_or_default()));
        }
        self.usage = event.usage.and_then(|usage| usage.split()).or(self.usage);
        // One answer is asked for.
        for choice in event.choices.into_iter().flatten().take(1) {
            self.take(choice, data, steps)?;
        }
        if self.finished {
            return Ok(());
        }
        let last = event.finish_reason.is_some();
        if event.message.is_some() || event.text.is_some() || event.tool_calls.is_some() || last {
            self.open(steps);
        }
        if let Some(message) = event.message {
            self.message(message, steps);
        }
        if let Some(text) = event.text.filter(|_| !(last && self.texted)) {
            self.text(text.0, steps);
        }
        let repeated = last && self.calls > 0;
        for call in event.tool_calls.into_iter().flatten().filter(|_| !repeated) {
            self.call(call, steps);
        }
        for citation in event.citations.into_iter().flatten() {
            steps.push(ResponseEvent::Aside { block: CITATIONS + self.blocks.number(), aside: Aside::Block(citation) });
        }
        match event.finish_reason {
            Some(reason) => self.finish(reason.0, event.error_message.map(|message| message.0), steps),
            None => Ok(()),
        }
    }

    fn open(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        if !std::mem::replace(&mut self.opened, true) {
            let model = self.told.as_ref().or(self.asked.as_ref());
            steps.push(ResponseEvent::Open { id: None, model: model.cloned().map(Cow::Owned) });
        }
    }

    fn message<'a>(&mut self, message: OracleMessage<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        if let Some(thought) = message.reasoning_content {
            self.blocks.say(Saying::Reasoning, thought.0, steps);
        }
        for text in message.content.into_iter().flatten().filter_map(|part| part.text) {
            self.text(text.0, steps);
        }
        if let Some(refusal) = message.refusal {
            self.blocks.say(Saying::Refusal, refusal.0, steps);
        }
        for call in message.tool_calls.into_iter().flatten() {
            self.call(call, steps);
        }
    }

    fn text<'a>(&mut self, text: Cow<'a, str>, steps: &mut Vec<ResponseEvent<'a>>) {
        self.texted |= !text.is_empty();
        self.blocks.say(Saying::Text, text, steps);
    }

    /// A name begins a call; what has none goes on with the last one.
    fn call<'a>(&mut self, call: OracleCall<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let id = call.id.map(|id| id.0).filter(|id| !id.is_empty());
        let name = call.name.map(|name| name.0).filter(|name| !name.is_empty());
        let same = id.is_some() && id.as_deref() == self.call.as_deref();
        if let Some(name) = name.filter(|_| !same) {
            self.close_call(steps);
            self.blocks.close();
            self.call = id.as_deref().map(str::to_owned);
            let (call, seed) = (self.calls, self.seed);
            let id = id.unwrap_or_else(|| format!("call_{seed:016x}{call:04}").into());
            steps.push(ResponseEvent::ToolOpen { call, id, name, signature: None });
            self.calls += 1;
            self.argued = false;
        }
        // A piece without a call before it belongs nowhere.
        let Some(number) = self.calls.checked_sub(1) else { return };
        let object = call.parameters.map(|raw| Cow::Borrowed(raw.get()));
        if let Some(fragment) = call.arguments.map(|text| text.0).or(object).filter(|text| !text.is_empty()) {
            self.argued = true;
            steps.push(ResponseEvent::ToolArguments { call: number, fragment });
        }
    }

    fn close_call(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        if let Some(call) = self.calls.checked_sub(1).filter(|_| !self.argued) {
            self.argued = true;
            steps.push(ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed("{}") });
        }
    }

    fn finish<'a>(
        &mut self,
        reason: Cow<'a, str>,
        error: Option<Cow<'a, str>>,
        steps: &mut Vec<ResponseEvent<'a>>,
    ) -> Result<(), EventError> {
        if let failed @ ("ERROR" | "ERROR_LIMIT" | "USER_CANCEL" | "error") = &*reason {
            let message = error.map_or_else(|| format!("the answer ended with {failed}"), Cow::into_owned);
            let kind = Some(failed.to_owned());
            return Err(EventError::trouble(ProviderError { kind, code: 500.into(), ..ProviderError::new(message) }));
        }
        self.close_call(steps);
        self.finished = true;
        let standard = match &*reason.to_ascii_lowercase() {
            "length" | "max_tokens" => "length",
            "content_filter" | "error_toxic" => "content_filter",
            _ if self.calls > 0 => "tool_calls",
            _ => "stop",
        };
        steps.push(ResponseEvent::Finish { reason, standard });
        Ok(())
    }

    fn end(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        if self.finished && !std::mem::replace(&mut self.ended, true) {
            steps.push(ResponseEvent::End { usage: self.usage });
        }
    }
}

impl EventReader for OracleReader {
    fn event<'a>(&mut self, data: &'a [u8], steps: &mut Vec<ResponseEvent<'a>>) -> Result<(), EventError> {
        if data.trim_ascii() == b"[DONE]" {
            self.end(steps);
            return Ok(());
        }
        match read::<OracleEvent<'a>>(data) {
            Some(event) => self.take(event, data, steps),
            // An error's message is a text where an event's is an object.
            None => Err(ProviderError::read(data).map_or(EventError::Unreadable, EventError::trouble)),
        }
    }

    /// Cohere's form has no mark, and the counts may come behind the finish.
    fn close(&mut self, steps: &mut Vec<ResponseEvent<'static>>) {
        self.end(steps);
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn model(&self) -> Option<&str> {
        self.told.as_deref()
    }
}
