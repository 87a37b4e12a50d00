//! A Responses request from a chat request, for models and providers that serve no chat. Nothing is kept there for a
//! client of chat unless it asks for that.

mod items;

use crate::convert::request::{self, Adjusted, refused};
use crate::wire::tree::Tree;
use crate::wire::{chat, speaks};
use gateway_domain::Fault;
use serde_json::value::RawValue;

/// A chat request in the words of Responses, member by member, so that a provider may add its own.
#[derive(Debug)]
pub(crate) struct ResponsesAsk<'a> {
    pub(crate) members: Vec<(&'static str, Tree<'a>)>,
    pub(crate) adjusted: Vec<&'static str>,
}

/// What differs between OpenAI and those who took over its Responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponsesRoom {
    /// The name of the provider in messages to clients that something of theirs has no counterpart.
    pub(crate) provider: &'static str,
    /// Sampling, tiers, keys of caches and the like; without it they are dropped and named.
    pub(crate) tuning: bool,
    /// Files, and results of tools that are more than text.
    pub(crate) files: bool,
    /// The format of the answer stands in `text`, with its schema flat; without it where chat has it.
    pub(crate) text: bool,
}

impl<'a> ResponsesAsk<'a> {
    pub(crate) fn put(&mut self, key: &'static str, value: Option<Tree<'a>>) {
        self.members.extend(value.map(|value| (key, value)));
    }
}

/// `ask` without its model, which is the provider's to name.
pub(crate) fn request<'a>(
    ask: &chat::ChatRequest<'a>,
    room: ResponsesRoom,
    stream: bool,
) -> Result<ResponsesAsk<'a>, Fault> {
    refuse_untranslatable(ask, room)?;
    let mut adjusted = Adjusted::default();
    note_dropped(ask, room, &mut adjusted);
    let input = Tree::List(items::items(&ask.messages, room, &mut adjusted)?);
    let mut out = ResponsesAsk { members: vec![("input", input)], adjusted: Vec::new() };
    out.put("max_output_tokens", ask.max_completion_tokens.or(ask.max_tokens).map(Tree::Number));
    let effort = ask.reasoning_effort.as_ref().map(|effort| Tree::map([("effort", Tree::Text(effort.0.clone()))]));
    out.put("reasoning", effort);
    let tools = tools(ask, &mut adjusted)?;
    if tools.is_some() && room.tuning {
        out.put("tool_choice", ask.tool_choice.map(choice).transpose()?.flatten());
        out.put("parallel_tool_calls", ask.parallel_tool_calls.map(Tree::Flag));
    }
    out.put("tools", tools);
    format(ask, room, &mut out)?;
    if room.tuning {
        tuning(ask, &mut out);
    }
    out.put("stream", stream.then_some(Tree::Flag(true)));
    out.adjusted = adjusted.0;
    Ok(out)
}

fn refuse_untranslatable(ask: &chat::ChatRequest<'_>, room: ResponsesRoom) -> Result<(), Fault> {
    request::refuse_choices(ask, room.provider)?;
    request::refuse_untranslatable(ask, room.provider)?;
    let fields = [
        ("stop", ask.stop),
        ("mcp_servers", ask.mcp_servers),
        ("container", ask.container),
        ("context_management", ask.context_management),
        ("moderation", ask.moderation),
    ];
    request::refuse_spoken(&fields, room.provider)
}

fn note_dropped(ask: &chat::ChatRequest<'_>, room: ResponsesRoom, adjusted: &mut Adjusted) {
    adjusted.note_spoken(&[
        ("frequency_penalty", request::unless_neutral(ask.frequency_penalty)),
        ("presence_penalty", request::unless_neutral(ask.presence_penalty)),
        ("logit_bias", ask.logit_bias),
        ("seed", ask.seed),
        ("prediction", ask.prediction),
        ("thinking", ask.thinking),
        ("top_k", ask.top_k),
        ("cache_control", ask.cache_control),
        ("inference_geo", ask.inference_geo),
        ("speed", ask.speed),
    ]);
    if room.tuning {
        return;
    }
    adjusted.note_spoken(&[
        ("temperature", ask.temperature),
        ("top_p", ask.top_p),
        ("logprobs", ask.logprobs.filter(|raw| raw.get() == "true")),
        ("top_logprobs", ask.top_logprobs),
        ("metadata", ask.metadata),
        ("verbosity", ask.verbosity),
        ("prompt_cache_key", ask.prompt_cache_key),
        ("prompt_cache_options", ask.prompt_cache_options),
        ("prompt_cache_retention", ask.prompt_cache_retention),
    ]);
    adjusted.note_if("tool_choice", ask.tool_choice.is_some_and(|choice| !matches!(choice.get(), "\"auto\"" | "null")));
    adjusted.note_people(ask);
    adjusted.note_tier(ask);
    adjusted.note_single_calls(ask);
}

/// Fields that mean the same in both.
fn tuning<'a>(ask: &chat::ChatRequest<'a>, out: &mut ResponsesAsk<'a>) {
    let raw = |raw: Option<&'a RawValue>| raw.filter(|raw| raw.get() != "null").map(Tree::Raw);
    let text = |text: &Option<crate::wire::JsonStr<'a>>| text.as_ref().map(|text| Tree::Text(text.0.clone()));
    out.put("temperature", raw(ask.temperature));
    out.put("top_p", raw(ask.top_p));
    let probabilities = ask.logprobs.is_some_and(|raw| raw.get() == "true");
    let wish = || Tree::List(vec![Tree::text("message.output_text.logprobs")]);
    out.put("include", probabilities.then(wish));
    out.put("top_logprobs", raw(ask.top_logprobs).filter(|_| probabilities));
    out.put("metadata", raw(ask.metadata));
    out.put("user", text(&ask.user));
    out.put("safety_identifier", text(&ask.safety_identifier));
    out.put("service_tier", text(&ask.service_tier));
    out.put("prompt_cache_key", raw(ask.prompt_cache_key));
    out.put("prompt_cache_options", raw(ask.prompt_cache_options));
    out.put("prompt_cache_retention", raw(ask.prompt_cache_retention));
    // Responses are kept unless told otherwise, completions are not.
    out.put("store", Some(Tree::Flag(ask.store.is_some_and(|raw| raw.get() == "true"))));
}

fn tools<'a>(ask: &chat::ChatRequest<'a>, adjusted: &mut Adjusted) -> Result<Option<Tree<'a>>, Fault> {
    let mut all = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let function = request::function(raw, i, adjusted)?;
        let parameters = function.parameters.map_or_else(no_parameters, Tree::Raw);
        let made = Tree::map([("type", Tree::text("function")), ("name", Tree::Text(function.name.0))])
            .with("description", function.description.map(|text| Tree::Text(text.0)))
            .with("parameters", Some(parameters))
            // Held to its schema unless told otherwise, which chat has the other way round.
            .with("strict", Some(Tree::Flag(function.strict == Some(true))));
        all.push(made);
    }
    Ok((!all.is_empty()).then_some(Tree::List(all)))
}

fn no_parameters<'a>() -> Tree<'a> {
    Tree::map([("type", Tree::text("object")), ("properties", Tree::Map(Vec::new()))])
}

fn choice(raw: &RawValue) -> Result<Option<Tree<'_>>, Fault> {
    match raw.get() {
        "null" => Ok(None),
        "\"auto\"" | "\"none\"" | "\"required\"" => Ok(Some(Tree::Raw(raw))),
        named => Ok(Some(Tree::map([("type", Tree::text("function")), ("name", Tree::Text(request::chosen(named)?))]))),
    }
}

fn format<'a>(ask: &chat::ChatRequest<'a>, room: ResponsesRoom, out: &mut ResponsesAsk<'a>) -> Result<(), Fault> {
    let verbosity = ask.verbosity.filter(|raw| room.text && speaks(Some(raw))).map(Tree::Raw);
    let format = match &ask.response_format {
        None => None,
        Some(format) => match &*format.kind.0 {
            "text" => None,
            "json_object" => Some(Tree::map([("type", Tree::text("json_object"))])),
            "json_schema" => Some(schema(format, room)?),
            _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
        },
    };
    if !room.text {
        out.put("response_format", format);
    } else if format.is_some() || verbosity.is_some() {
        out.put("text", Some(Tree::Map(Vec::new()).with("format", format).with("verbosity", verbosity)));
    }
    Ok(())
}

fn schema<'a>(format: &chat::ResponseFormat<'a>, room: ResponsesRoom) -> Result<Tree<'a>, Fault> {
    let schema = request::schema(format)?;
    let name = format.json_schema.as_ref().and_then(|s| s.name.as_ref()).map_or("answer".into(), |name| name.0.clone());
    let strict = format.json_schema.as_ref().and_then(|s| s.strict).map(Tree::Flag);
    let flat = [("name", Tree::Text(name)), ("schema", Tree::Raw(schema))];
    Ok(if room.text {
        let mut members = vec![("type", Tree::text("json_schema"))];
        members.extend(flat);
        Tree::Map(members).with("strict", strict)
    } else {
        let inner = Tree::map(flat).with("strict", strict);
        Tree::map([("type", Tree::text("json_schema")), ("json_schema", inner)])
    })
}
