//! What all translations of a chat request share: reading it, refusing by name, noting what is dropped, and where its
//! parts stand. It knows chat's dialect and no provider's.

use crate::wire::{JsonStr, chat, speaks};
use gateway_domain::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A body in the provider's dialect, with the fields of the client's that did not reach it whole.
#[derive(Debug)]
pub(crate) struct TranslatedBody {
    pub(crate) body: Vec<u8>,
    pub(crate) adjusted: Vec<&'static str>,
}

impl TranslatedBody {
    pub(super) fn of(body: &impl Serialize, adjusted: Adjusted) -> Result<Self, Fault> {
        let body = serde_json::to_vec(body).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
        Ok(Self { body, adjusted: adjusted.0 })
    }
}

/// Names of fields that were dropped or clamped, each once.
#[derive(Debug, Default)]
pub(crate) struct Adjusted(pub(super) Vec<&'static str>);

impl Adjusted {
    pub(super) fn note(&mut self, field: &'static str) {
        if !self.0.contains(&field) {
            self.0.push(field);
        }
    }

    pub(super) fn note_if(&mut self, field: &'static str, present: bool) {
        if present {
            self.note(field);
        }
    }

    /// Notes each field that asks for anything.
    pub(super) fn note_spoken(&mut self, fields: &[(&'static str, Option<&RawValue>)]) {
        for (name, raw) in fields {
            self.note_if(name, speaks(*raw));
        }
    }

    /// What chat has for whom the answer is, how fast, and how many tools at once.
    pub(super) fn note_people(&mut self, ask: &chat::ChatRequest<'_>) {
        self.note_if("user", ask.user.is_some());
        self.note_if("safety_identifier", ask.safety_identifier.is_some());
    }

    pub(super) fn note_tier(&mut self, ask: &chat::ChatRequest<'_>) {
        self.note_if(
            "service_tier",
            ask.service_tier.as_ref().is_some_and(|tier| tier.0 != "auto" && tier.0 != "default"),
        );
    }

    pub(super) fn note_single_calls(&mut self, ask: &chat::ChatRequest<'_>) {
        let offered = ask.tools.as_ref().is_some_and(|tools| !tools.is_empty());
        self.note_if("parallel_tool_calls", offered && ask.parallel_tool_calls == Some(false));
    }
}

/// A 400 that names the field.
pub(crate) fn refused(field: impl Into<String>, why: impl std::fmt::Display) -> Fault {
    let field = field.into();
    Fault::new(FaultKind::Refused, format!("{field} {why}")).on(field)
}

/// A chat request, or the parts of one that `T` names.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no chat completion request: {e}")))
}

/// One answer only, for providers that give no more.
pub(super) fn refuse_choices(ask: &chat::ChatRequest<'_>, provider: &str) -> Result<(), Fault> {
    if ask.n.is_some_and(|n| n > 1) {
        return Err(refused("n", format_args!("must be 1: {provider} answers once")));
    }
    Ok(())
}

/// What no translation carries: answers that are not text, and the form that tools had before `tools`.
pub(super) fn refuse_untranslatable(ask: &chat::ChatRequest<'_>, provider: &str) -> Result<(), Fault> {
    if ask.audio.is_some() || ask.modalities.as_ref().is_some_and(|m| m.iter().any(|m| m.0 != "text")) {
        let field = if ask.audio.is_some() { "audio" } else { "modalities" };
        return Err(refused(
            field,
            format_args!("asks for an answer that is not text, which {provider} does not give here"),
        ));
    }
    if speaks(ask.functions) {
        return Err(refused("functions", "is not translated; send the functions as `tools`"));
    }
    if ask.function_call.is_some_and(|f| !matches!(f.get(), "\"none\"" | "\"auto\"" | "null")) {
        return Err(refused("function_call", "is not translated; use `tools` and `tool_choice`"));
    }
    Ok(())
}

/// Fields that would change the answer, and that the provider has nothing for.
pub(crate) fn refuse_spoken(fields: &[(&str, Option<&RawValue>)], provider: &str) -> Result<(), Fault> {
    match fields.iter().find(|(_, raw)| speaks(*raw)) {
        Some((name, _)) => Err(refused(*name, format_args!("has no counterpart at {provider}"))),
        None => Ok(()),
    }
}

/// A penalty of zero asks for nothing.
pub(super) fn unless_neutral(penalty: Option<&RawValue>) -> Option<&RawValue> {
    penalty.filter(|raw| !matches!(raw.get(), "0" | "0.0" | "-0" | "-0.0"))
}

/// `stop`, one text or several.
pub(super) fn stop(raw: Option<&RawValue>) -> Result<Vec<Cow<'_, str>>, Fault> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    if let Ok(one) = serde_json::from_str::<JsonStr<'_>>(raw.get()) {
        return Ok(vec![one.0]);
    }
    let all: Result<Vec<JsonStr<'_>>, _> = serde_json::from_str(raw.get());
    all.map(|all| all.into_iter().map(|t| t.0).collect())
        .map_err(|_| refused("stop", "must be a string or an array of strings"))
}

/// Whether JSON of any shape is asked for.
pub(super) fn wants_any_json(ask: &chat::ChatRequest<'_>) -> bool {
    ask.response_format.as_ref().is_some_and(|format| format.kind.0 == "json_object")
}

/// The schema of `response_format` of type `json_schema`.
pub(super) fn schema<'a>(format: &chat::ResponseFormat<'a>) -> Result<&'a RawValue, Fault> {
    let schema = format.json_schema.as_ref().and_then(|s| s.schema);
    schema.ok_or_else(|| refused("response_format.json_schema.schema", "is needed"))
}

/// The `i`th tool as it was written.
pub(super) fn tool<'a>(raw: &'a RawValue, i: usize) -> Result<chat::ChatTool<'a>, Fault> {
    serde_json::from_str(raw.get()).map_err(|e| refused(format!("tools[{i}]"), format!("is no tool: {e}")))
}

/// The `i`th tool, for a provider to which only functions can be offered.
pub(super) fn function<'a>(
    raw: &'a RawValue,
    i: usize,
    adjusted: &mut Adjusted,
) -> Result<chat::ChatFunction<'a>, Fault> {
    let wanted = tool(raw, i)?;
    if wanted.kind.0 != "function" {
        return Err(refused(format!("tools[{i}].type"), "must be function"));
    }
    let function = wanted.function.ok_or_else(|| refused(format!("tools[{i}].function"), "is needed"))?;
    adjusted.note_if("cache_control", wanted.cache_control.or(function.cache_control).is_some());
    Ok(function)
}

/// A call that an earlier message tells of: its id, and what was called.
pub(super) struct EarlierCall<'c, 'a> {
    pub(super) id: &'c Cow<'a, str>,
    pub(super) function: &'c chat::ChatFunctionCall<'a>,
}

impl<'c, 'a> EarlierCall<'c, 'a> {
    /// `at` names a field of it.
    pub(super) fn of(call: &'c chat::ToolCall<'a>, at: &dyn Fn(&str) -> String) -> Result<Self, Fault> {
        if call.kind.as_ref().is_some_and(|kind| kind.0 != "function") {
            return Err(refused(at(".type"), "must be function"));
        }
        let id = &call.id.as_ref().ok_or_else(|| refused(at(".id"), "is needed"))?.0;
        let function = call.function.as_ref().ok_or_else(|| refused(at(".function"), "is needed"))?;
        Ok(Self { id, function })
    }
}

/// The one function that the object form of `tool_choice` names.
pub(super) fn chosen(choice: &str) -> Result<Cow<'_, str>, Fault> {
    let chosen: Option<chat::ChatToolChoice<'_>> = serde_json::from_str(choice).ok();
    let function = chosen.filter(|c| c.kind.0 == "function").and_then(|c| c.function);
    let rule = "must be none, auto, required or {\"type\":\"function\",\"function\":{\"name\":…}}";
    Ok(function.ok_or_else(|| refused("tool_choice", rule))?.name.0)
}

/// Where a part stands, for the name of a field at fault.
#[derive(Clone, Copy)]
pub(super) struct PartPosition {
    pub(super) message: usize,
    pub(super) part: usize,
}

impl PartPosition {
    pub(super) fn field(self, rest: &str) -> String {
        format!("messages[{}].content[{}]{rest}", self.message, self.part)
    }

    pub(super) fn read<'a>(self, raw: &'a RawValue) -> Result<chat::ChatPart<'a>, Fault> {
        serde_json::from_str(raw.get()).map_err(|e| refused(self.field(""), format!("is no content part: {e}")))
    }

    /// What a part of its kind cannot be without.
    pub(super) fn needed<T>(self, value: Option<T>, field: &str) -> Result<T, Fault> {
        value.ok_or_else(|| refused(self.field(field), "is needed"))
    }
}

/// The parts of a message's content; `made` leaves out what says nothing. A bare text is one part.
pub(super) fn content<'a, P>(
    raw: Option<&'a RawValue>,
    message: usize,
    text: impl FnOnce(Cow<'a, str>) -> P,
    mut made: impl FnMut(&'a RawValue, PartPosition) -> Result<Option<P>, Fault>,
) -> Result<Vec<P>, Fault> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    let field = || format!("messages[{message}].content");
    if raw.get().starts_with('"') {
        let told: JsonStr<'a> = serde_json::from_str(raw.get()).map_err(|e| refused(field(), e))?;
        return Ok(if told.0.is_empty() { Vec::new() } else { vec![text(told.0)] });
    }
    let given: Vec<&'a RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| refused(field(), "must be a string or an array of parts"))?;
    let mut parts = Vec::with_capacity(given.len());
    for (part, raw) in given.into_iter().enumerate() {
        parts.extend(made(raw, PartPosition { message, part })?);
    }
    Ok(parts)
}

/// What of an earlier answer no provider takes back.
pub(super) fn refuse_kept_elsewhere(message: &chat::ChatMessage<'_>, i: usize) -> Result<(), Fault> {
    if message.function_call.is_some() {
        return Err(refused(format!("messages[{i}].function_call"), "is not translated; use tool_calls"));
    }
    if message.audio.is_some() {
        return Err(refused(format!("messages[{i}].audio"), "names audio that another provider keeps"));
    }
    Ok(())
}
