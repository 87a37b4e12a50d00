//! A chat request from a request of OpenAI's Responses.

mod items;

use super::build;
use super::{Adjusted, ChatForm, ChatRequestBody, refused};
use crate::adapter::Call;
use crate::wire::tree::Tree;
use crate::wire::{JsonStr, speaks};
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesRequest<'a> {
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<TextConfig<'a>>,
    #[serde(borrow)]
    reasoning: Option<ResponsesReasoning<'a>>,
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    include: Option<Vec<JsonStr<'a>>>,
    #[serde(borrow)]
    top_logprobs: Option<&'a RawValue>,
    stream: Option<bool>,

    // Fields that mean the same in chat.
    #[serde(borrow)]
    temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    top_p: Option<&'a RawValue>,
    #[serde(borrow)]
    parallel_tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    safety_identifier: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_cache_options: Option<&'a RawValue>,
    #[serde(borrow)]
    moderation: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    stop: Option<&'a RawValue>,
    #[serde(borrow)]
    seed: Option<&'a RawValue>,

    // Only a service that keeps responses can do these.
    #[serde(borrow)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    background: Option<&'a RawValue>,
    store: Option<bool>,
    #[serde(borrow)]
    truncation: Option<&'a RawValue>,
    #[serde(borrow)]
    max_tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_cache_retention: Option<&'a RawValue>,
    #[serde(borrow)]
    access_programs: Option<&'a RawValue>,
    #[serde(borrow)]
    image: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextConfig<'a> {
    #[serde(borrow)]
    format: Option<ResponsesTextFormat<'a>>,
    #[serde(borrow)]
    verbosity: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesTextFormat<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    #[serde(borrow)]
    strict: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesReasoning<'a> {
    #[serde(borrow)]
    effort: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesTool<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    strict: Option<bool>,
}

#[derive(Deserialize)]
struct ResponsesToolChoice<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
}

pub(super) fn request<'c>(call: &Call<'c>, room: ChatForm) -> Result<ChatRequestBody<'c>, Fault> {
    let ask: ResponsesRequest<'_> = serde_json::from_slice(call.body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no Responses request: {e}")))?;
    refuse_what_is_kept(&ask, call.keeps.is_some())?;
    let mut adjusted = Adjusted::default();
    let mut messages = Vec::new();
    if let Some(instructions) = ask.instructions.filter(|raw| speaks(Some(raw))) {
        if !instructions.get().starts_with('"') {
            return Err(refused("instructions", "must be a string"));
        }
        messages.push(Tree::map([("role", Tree::text("system")), ("content", Tree::Raw(instructions))]));
    }
    let input = ask.input.ok_or_else(|| refused("input", "is needed"))?;
    items::messages(input, (call, room), &mut messages, &mut adjusted)?;
    let mut out = vec![("messages", Tree::List(messages))];
    adjusted.note_if("store", ask.store == Some(true) && call.keeps.is_none());
    settings(&ask, room, &mut out, &mut adjusted)?;
    build::finish(call, ask.model.map(|m| m.0), out, adjusted)
}

/// `keeps`: the gateway keeps responses of its own making; what it found of them stands in the input by now.
fn refuse_what_is_kept(ask: &ResponsesRequest<'_>, keeps: bool) -> Result<(), Fault> {
    let rule = "needs a provider with the Responses API of its own: send the whole conversation in `input`, with `store: false`";
    if keeps && speaks(ask.previous_response_id) {
        let rule = "names no response that is kept, or is kept any more: send the whole conversation in `input`, with `store: false`";
        return Err(refused("previous_response_id", rule));
    }
    for (field, value) in
        [("previous_response_id", ask.previous_response_id), ("conversation", ask.conversation), ("prompt", ask.prompt)]
    {
        if speaks(value) {
            return Err(refused(field, rule));
        }
    }
    if speaks(ask.background) {
        return Err(refused("background", "needs a provider with the Responses API of its own"));
    }
    Ok(())
}

fn settings<'a>(
    ask: &ResponsesRequest<'a>,
    room: ChatForm,
    out: &mut Vec<(&'static str, Tree<'a>)>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    let mut put = |key, value: Option<Tree<'a>>| out.extend(value.map(|value| (key, value)));
    let raw = |raw: Option<&'a RawValue>| raw.filter(|raw| raw.get() != "null").map(Tree::Raw);
    put("max_completion_tokens", raw(ask.max_output_tokens));
    put("temperature", raw(ask.temperature));
    put("top_p", raw(ask.top_p));
    let tools = tools(ask)?;
    put("tool_choice", ask.tool_choice.filter(|_| tools.is_some()).map(chosen).transpose()?.flatten());
    put("parallel_tool_calls", raw(ask.parallel_tool_calls).filter(|_| tools.is_some()));
    put("tools", tools);
    let text = ask.text.as_ref();
    put("response_format", text.and_then(|t| t.format.as_ref()).map(format).transpose()?.flatten());
    put("verbosity", text.and_then(|t| raw(t.verbosity)));
    put("reasoning_effort", ask.reasoning.as_ref().and_then(|r| raw(r.effort)));
    let wanted = ask.include.iter().flatten().any(|i| i.0 == "message.output_text.logprobs");
    let many = speaks(ask.top_logprobs) && ask.top_logprobs.is_some_and(|n| n.get() != "0");
    put("logprobs", (wanted || many).then_some(Tree::Flag(true)));
    put("top_logprobs", raw(ask.top_logprobs).filter(|_| many));
    put("user", raw(ask.user));
    put("safety_identifier", raw(ask.safety_identifier));
    put("service_tier", raw(ask.service_tier).filter(|_| ask.service_tier.is_some_and(|t| t.get() != "\"auto\"")));
    put("prompt_cache_key", raw(ask.prompt_cache_key));
    put("prompt_cache_options", raw(ask.prompt_cache_options));
    put("moderation", raw(ask.moderation));
    put("metadata", raw(ask.metadata).filter(|_| speaks(ask.metadata)));
    put("stop", raw(ask.stop));
    put("seed", raw(ask.seed));
    put("thinking", raw(ask.thinking));
    put("top_k", raw(ask.top_k).filter(|_| room == ChatForm::Extended));
    put("stream", (ask.stream == Some(true)).then_some(Tree::Flag(true)));
    adjusted.note_if("truncation", ask.truncation.is_some_and(|t| t.get() == "\"auto\""));
    adjusted.note_if("max_tool_calls", speaks(ask.max_tool_calls));
    adjusted.note_if("context_management", speaks(ask.context_management));
    adjusted.note_if("prompt_cache_retention", speaks(ask.prompt_cache_retention));
    adjusted.note_if("access_programs", speaks(ask.access_programs));
    adjusted.note_if("image", speaks(ask.image));
    adjusted.note_if("top_k", room == ChatForm::OpenAi && speaks(ask.top_k));
    for wish in ask.include.iter().flatten() {
        // The two that are heard: reasoning is always included, log-probabilities were asked for above.
        let heard = matches!(&*wish.0, "reasoning.encrypted_content" | "message.output_text.logprobs");
        adjusted.note_if("include", !heard);
    }
    Ok(())
}

fn tools<'a>(ask: &ResponsesRequest<'a>) -> Result<Option<Tree<'a>>, Fault> {
    let mut all = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let at = |rest: &str| format!("tools[{i}]{rest}");
        let tool: ResponsesTool<'a> =
            serde_json::from_str(raw.get()).map_err(|e| refused(at(""), format!("is no tool: {e}")))?;
        if &*tool.kind.0 != "function" {
            let why = format!("must be function: {} needs a provider with the Responses API of its own", tool.kind.0);
            return Err(refused(at(".type"), why));
        }
        let name = tool.name.ok_or_else(|| refused(at(".name"), "is needed"))?;
        let function = Tree::map([("name", Tree::Text(name.0))])
            .with("description", tool.description.map(Tree::Raw))
            .with("parameters", tool.parameters.map(Tree::Raw))
            .with("strict", tool.strict.map(Tree::Flag));
        all.push(Tree::map([("type", Tree::text("function")), ("function", function)]));
    }
    Ok((!all.is_empty()).then_some(Tree::List(all)))
}

fn chosen(raw: &RawValue) -> Result<Option<Tree<'_>>, Fault> {
    if raw.get() == "null" {
        return Ok(None);
    }
    if raw.get().starts_with('"') {
        return Ok(Some(Tree::Raw(raw)));
    }
    let chosen: Option<ResponsesToolChoice<'_>> = serde_json::from_str(raw.get()).ok();
    let name = chosen.filter(|c| c.kind.0 == "function").and_then(|c| c.name);
    let rule = "must be none, auto, required or {\"type\":\"function\",\"name\":…}";
    let name = name.ok_or_else(|| refused("tool_choice", rule))?;
    let function = Tree::map([("name", Tree::Text(name.0))]);
    Ok(Some(Tree::map([("type", Tree::text("function")), ("function", function)])))
}

fn format<'a>(format: &ResponsesTextFormat<'a>) -> Result<Option<Tree<'a>>, Fault> {
    Ok(match &*format.kind.0 {
        "text" => None,
        "json_object" => Some(Tree::map([("type", Tree::text("json_object"))])),
        "json_schema" => {
            let schema = format.schema.ok_or_else(|| refused("text.format.schema", "is needed"))?;
            let name = format.name.map_or(Tree::text("answer"), Tree::Raw);
            let named = Tree::map([("name", name)])
                .with("description", format.description.map(Tree::Raw))
                .with("schema", Some(Tree::Raw(schema)))
                .with("strict", format.strict.map(Tree::Raw));
            Some(Tree::map([("type", Tree::text("json_schema")), ("json_schema", named)]))
        }
        _ => return Err(refused("text.format.type", "must be text, json_schema or json_object")),
    })
}
