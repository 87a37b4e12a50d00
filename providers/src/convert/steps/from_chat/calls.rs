//! Tool calls of one choice, counted from 0 without gaps, whatever numbers and ids the server gives.

use crate::answer::ResponseEvent;
use crate::wire::{JsonStr, read};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
pub(super) struct ChatToolCallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    function: Option<ChatFunctionDelta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ChatFunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    /// A string of JSON; some servers send the JSON itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> ChatToolCallDelta<'a> {
    /// `function_call`, the form from before there were several.
    pub(super) fn legacy(function: ChatFunctionDelta<'a>) -> Self {
        Self { index: Some(0), id: None, function: Some(function) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Calls(Vec<ToolCallState>);

#[derive(Debug)]
struct ToolCallState {
    index: Option<u64>,
    id: String,
    argued: bool,
}

impl Calls {
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn take<'a>(&mut self, called: ChatToolCallDelta<'a>, steps: &mut Vec<ResponseEvent<'a>>) {
        let id = called.id.map(|t| t.0).filter(|id| !id.is_empty());
        let (name, arguments) = called.function.map_or((None, None), |f| (f.name, f.arguments));
        let name = name.map(|t| t.0).filter(|name| !name.is_empty());
        let call = match self.known(called.index, id.as_deref(), name.is_some()) {
            Some(call) => call,
            None => {
                let call = self.0.len();
                let id = id.unwrap_or_else(|| Cow::Owned(format!("call_{call}")));
                self.0.push(ToolCallState { index: called.index, id: id.to_string(), argued: false });
                let name = name.unwrap_or_default();
                steps.push(ResponseEvent::ToolOpen { call: call as u64, id, name, signature: None });
                call
            }
        };
        let fragment = arguments.map(text_of).filter(|text| !text.is_empty());
        if let Some(fragment) = fragment {
            self.0[call].argued = true;
            steps.push(ResponseEvent::ToolArguments { call: call as u64, fragment });
        }
    }

    /// The call that more is said of. A second id under a known number, or a name without a number, begins anew.
    fn known(&self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        let at = match (index, id) {
            (Some(_), _) => self.0.iter().rposition(|call| call.index == index)?,
            (None, Some(id)) => return self.0.iter().position(|call| call.id == id),
            (None, None) => self.0.len().checked_sub(1).filter(|_| !named)?,
        };
        let another = named && id.is_some_and(|id| id != self.0[at].id);
        (!another).then_some(at)
    }

    /// A call without arguments has an empty object of them.
    pub(super) fn close(&mut self, steps: &mut Vec<ResponseEvent<'_>>) {
        for (call, state) in (0..).zip(&mut self.0) {
            if !std::mem::replace(&mut state.argued, true) {
                steps.push(ResponseEvent::ToolArguments { call, fragment: Cow::Borrowed("{}") });
            }
        }
    }
}

fn text_of(arguments: &RawValue) -> Cow<'_, str> {
    match arguments.get() {
        "null" => Cow::Borrowed(""),
        json if json.starts_with('"') => read::<JsonStr<'_>>(json.as_bytes()).map(|t| t.0).unwrap_or_default(),
        json => Cow::Borrowed(json),
    }
}
