//! The conversation: system messages are gathered, calls of tools get their thought signatures back, and results
//! become one turn of the user, in the order of their calls.

use super::parts::part;
use crate::convert::request::{self, Adjusted, refused};
use crate::opaque::{self, OpaqueKind, Opened};
use crate::wire::chat::ChatMessage;
use crate::wire::gemini::{FunctionResponse, GeminiContent, GeminiFunctionCall, GeminiPart};
use crate::wire::{JsonStr, speaks};
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Since Gemini 3 a call that comes back without its signature is refused; for calls that another model made, Google
/// names this stand-in (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) struct GeminiTurns<'a> {
    pub(super) system: Option<GeminiContent<'a>>,
    pub(super) turns: Vec<GeminiContent<'a>>,
}

/// Calls of the last turn of the model, to find names and order of their results.
struct PendingTurn<'a> {
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
}

pub(super) fn conversation<'a>(
    messages: &[ChatMessage<'a>],
    model: &str,
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<GeminiTurns<'a>, Fault> {
    let (mut system, mut turns) = (Vec::new(), Vec::<GeminiContent<'a>>::new());
    let mut pending: Vec<PendingTurn<'a>> = Vec::new();
    let mut results: Vec<(usize, GeminiPart<'a>)> = Vec::new();
    let signs = needs_signatures(model);
    for (i, message) in messages.iter().enumerate() {
        if message.name.is_some() && message.role.0 != "tool" {
            adjusted.note("messages.name");
        }
        if message.cache_control.is_some() {
            adjusted.note("cache_control");
        }
        if message.role.0 != "tool" {
            flush(&mut results, &mut turns);
        }
        match &*message.role.0 {
            "system" | "developer" => system.extend(content(message.content, i, adjusted)?),
            "user" => push(&mut turns, "user", content(message.content, i, adjusted)?),
            "assistant" => {
                let (parts, calls) = answer(message, i, origin, signs, adjusted)?;
                pending = calls;
                push(&mut turns, "model", parts);
            }
            "tool" => {
                let result = result(message, i, &pending, adjusted)?;
                results.push(result);
            }
            _ => {
                let rule = "must be system, developer, user, assistant or tool";
                return Err(refused(format!("messages[{i}].role"), rule));
            }
        }
    }
    flush(&mut results, &mut turns);
    let system = (!system.is_empty()).then_some(GeminiContent { role: None, parts: system });
    Ok(GeminiTurns { system, turns })
}

fn needs_signatures(model: &str) -> bool {
    let version = model.rsplit_once("gemini-").map(|(_, rest)| rest.split(['.', '-']).next().unwrap_or_default());
    version.and_then(|v| v.parse::<u32>().ok()).is_some_and(|major| major >= 3)
}

fn push<'a>(turns: &mut Vec<GeminiContent<'a>>, role: &'static str, parts: Vec<GeminiPart<'a>>) {
    if !parts.is_empty() {
        turns.push(GeminiContent { role: Some(role), parts });
    }
}

fn flush<'a>(results: &mut Vec<(usize, GeminiPart<'a>)>, turns: &mut Vec<GeminiContent<'a>>) {
    results.sort_by_key(|(order, _)| *order);
    push(turns, "user", results.drain(..).map(|(_, part)| part).collect());
}

/// Content as parts, empty text left out.
fn content<'a>(raw: Option<&'a RawValue>, i: usize, adjusted: &mut Adjusted) -> Result<Vec<GeminiPart<'a>>, Fault> {
    request::content(raw, i, |text| GeminiPart::Text { text }, |raw, place| part(raw, place, adjusted))
}

/// An earlier answer: text and calls. Thoughts are for readers, and the model does not want them back.
fn answer<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    origin: u64,
    signs: bool,
    adjusted: &mut Adjusted,
) -> Result<(Vec<GeminiPart<'a>>, Vec<PendingTurn<'a>>), Fault> {
    request::refuse_kept_elsewhere(message, i)?;
    if speaks(message.reasoning_content) {
        adjusted.note("messages.reasoning_content");
    }
    if message.content_blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
        adjusted.note("messages.content_blocks");
    }
    let mut parts = content(message.content, i, adjusted)?;
    if let Some(refusal) = message.refusal.as_ref().filter(|r| !r.0.is_empty()) {
        parts.push(GeminiPart::Text { text: refusal.0.clone() });
    }
    let mut pending = Vec::new();
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        if call.kind.as_ref().is_some_and(|kind| kind.0 != "function") {
            return Err(refused(at(".type"), "must be function"));
        }
        let function = call.function.as_ref().ok_or_else(|| refused(at(".function"), "is needed"))?;
        let (id, name) = (call.id.as_ref().map(|id| id.0.clone()), function.name.0.clone());
        let args = arguments(function.arguments.as_ref().map_or("", |a| a.0.trim()))
            .map_err(|why| refused(at(".function.arguments"), why))?;
        pending.push(PendingTurn { id: id.clone(), name: name.clone() });
        let own = call.extra_content.and_then(|extra| signature(extra, origin));
        // Only the first of parallel calls carries a signature.
        let stand_in = (signs && j == 0).then_some(Cow::Borrowed(NO_SIGNATURE));
        parts.push(GeminiPart::Call {
            function_call: GeminiFunctionCall { id, name, args },
            thought_signature: own.or(stand_in),
        });
    }
    Ok((parts, pending))
}

fn arguments(json: &str) -> Result<Box<RawValue>, String> {
    let json = if json.is_empty() { "{}" } else { json };
    if !json.starts_with('{') {
        return Err("must be a JSON object".to_owned());
    }
    RawValue::from_string(json.to_owned()).map_err(|e| format!("is no JSON: {e}"))
}

/// The place that Google's own OpenAI-like endpoint gives it.
#[derive(Deserialize)]
struct Extra<'a> {
    #[serde(borrow)]
    google: Option<Google<'a>>,
}

#[derive(Deserialize)]
struct Google<'a> {
    #[serde(borrow)]
    thought_signature: Option<JsonStr<'a>>,
}

/// Only what this credential made goes back, or what a client has from elsewhere.
fn signature<'a>(extra: &'a RawValue, origin: u64) -> Option<Cow<'a, str>> {
    let extra: Extra<'a> = serde_json::from_str(extra.get()).ok()?;
    match opaque::open(origin, extra.google?.thought_signature?.0) {
        Opened::Own(OpaqueKind::Call, signature) | Opened::Bare(signature) => Some(signature),
        Opened::Own(..) | Opened::Foreign => None,
    }
}

/// The result of a call, and the place of that call among its turn's.
fn result<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    pending: &[PendingTurn<'a>],
    adjusted: &mut Adjusted,
) -> Result<(usize, GeminiPart<'a>), Fault> {
    let id = message.tool_call_id.as_ref();
    let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?.0.clone();
    let order = pending.iter().position(|call| call.id.as_ref() == Some(&id));
    let name = order.map(|at| pending[at].name.clone()).or_else(|| message.name.as_ref().map(|n| n.0.clone()));
    let rule = "names no call of the assistant's message before it";
    let name = name.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), rule))?;
    let (mut said, mut media) = (String::new(), Vec::new());
    for part in content(message.content, i, adjusted)? {
        match part {
            GeminiPart::Text { text } => said.push_str(&text),
            other => media.push(other),
        }
    }
    let response = response(&said, message.is_error == Some(true));
    let function_response = FunctionResponse { id: Some(id), name, response, parts: media };
    Ok((order.unwrap_or(usize::MAX), GeminiPart::Result { function_response }))
}

/// Gemini wants an object; whatever is none stands under `output`, or `error`, the names that its reference gives.
fn response(said: &str, failed: bool) -> Box<RawValue> {
    let said = said.trim();
    let object = (!failed && said.starts_with('{')).then(|| RawValue::from_string(said.to_owned()).ok()).flatten();
    object.unwrap_or_else(|| {
        let name = if failed { "error" } else { "output" };
        let wrapped = serde_json::json!({ name: said });
        RawValue::from_string(wrapped.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
    })
}
