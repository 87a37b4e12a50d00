//! A chat request from a request of Anthropic's Messages.

mod blocks;

use super::build::{self, AssistantMessageBuilder, EarlierReasoning, Parts};
use super::{Adjusted, ChatForm, ChatRequestBody, refused};
use crate::adapter::Call;
use crate::wire::tree::Tree;
use crate::wire::{JsonStr, speaks};
use blocks::InboundMessagesBlock;
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesRequest<'a> {
    #[serde(borrow)]
    model: Option<JsonStr<'a>>,
    #[serde(borrow)]
    messages: Vec<InboundMessagesTurn<'a>>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    max_tokens: Option<u64>,
    #[serde(borrow)]
    stop_sequences: Option<&'a RawValue>,
    #[serde(borrow)]
    temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    top_p: Option<&'a RawValue>,
    #[serde(borrow)]
    top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tool_choice: Option<InboundMessagesToolChoice<'a>>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    output_config: Option<InboundMessagesOutputConfig<'a>>,
    /// Where the value of `output_config.format` stood before it moved.
    #[serde(borrow)]
    output_format: Option<InboundMessagesFormat<'a>>,
    #[serde(borrow)]
    metadata: Option<InboundMessagesMetadata<'a>>,
    stream: Option<bool>,

    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    container: Option<&'a RawValue>,
    #[serde(borrow)]
    mcp_servers: Option<&'a RawValue>,
    #[serde(borrow)]
    context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
    #[serde(borrow)]
    inference_geo: Option<&'a RawValue>,
    #[serde(borrow)]
    speed: Option<&'a RawValue>,
    #[serde(borrow)]
    fallbacks: Option<&'a RawValue>,
    #[serde(borrow)]
    fallback_credit_token: Option<&'a RawValue>,
    #[serde(borrow)]
    diagnostics: Option<&'a RawValue>,

    // Only Anthropic itself can do these.
    #[serde(borrow)]
    thread: Option<&'a RawValue>,
    #[serde(borrow)]
    compaction: Option<&'a RawValue>,
    #[serde(borrow)]
    billing_policy: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesTurn<'a> {
    #[serde(borrow)]
    role: JsonStr<'a>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesToolChoice<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesOutputConfig<'a> {
    #[serde(borrow)]
    effort: Option<JsonStr<'a>>,
    #[serde(borrow)]
    format: Option<InboundMessagesFormat<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesFormat<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesMetadata<'a> {
    #[serde(borrow)]
    user_id: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesTool<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
    strict: Option<bool>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
}

pub(super) fn request<'c>(call: &Call<'c>, room: ChatForm) -> Result<ChatRequestBody<'c>, Fault> {
    let ask: InboundMessagesRequest<'_> = serde_json::from_slice(call.body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no Messages request: {e}")))?;
    refuse_what_only_anthropic_does(&ask)?;
    let mut adjusted = Adjusted::default();
    let mut messages = Vec::with_capacity(ask.messages.len() + 1);
    messages.extend(system(&ask, room)?);
    for (i, turn) in ask.messages.iter().enumerate() {
        let place = format!("messages[{i}].content");
        let blocks = blocks::of(turn.content, &place)?;
        match &*turn.role.0 {
            "user" => messages.extend(asked(blocks, room, &place, &mut adjusted)?),
            "assistant" => messages.extend(answered(blocks, (call, room), &place, &mut adjusted)?),
            "system" => messages.extend(system_message(blocks, room, &place)?),
            _ => return Err(refused(format!("messages[{i}].role"), "must be user or assistant")),
        }
    }
    let mut out = vec![("messages", Tree::List(messages))];
    settings(&ask, room, &mut out, &mut adjusted)?;
    build::finish(call, ask.model.map(|m| m.0), out, adjusted)
}

fn refuse_what_only_anthropic_does(ask: &InboundMessagesRequest<'_>) -> Result<(), Fault> {
    if speaks(ask.thread) {
        return Err(unthreaded());
    }
    if speaks(ask.compaction) {
        return Err(refused("compaction", "asks for a summary that Anthropic's own API makes: ask for one in words"));
    }
    if speaks(ask.billing_policy) {
        return Err(refused("billing_policy", "says who pays Anthropic, and nobody else knows them"));
    }
    Ok(())
}

/// A thread sends only what is new of a conversation, and relies on Anthropic to know the rest: answered without it,
/// the model would not know what was said. By this code Anthropic's SDKs know to send the whole conversation instead.
pub(crate) fn unthreaded() -> Fault {
    let why = "is kept by Anthropic's own API only: leave it out and send the whole conversation in `messages`";
    refused("thread", why).code("thread_unsupported_request")
}

fn system<'a>(ask: &InboundMessagesRequest<'a>, room: ChatForm) -> Result<Option<Tree<'a>>, Fault> {
    let Some(raw) = ask.system.filter(|raw| speaks(Some(raw))) else { return Ok(None) };
    system_message(blocks::of(raw, "system")?, room, "system")
}

/// A message of the system: text alone.
fn system_message<'a>(
    blocks: Vec<InboundMessagesBlock<'a>>,
    room: ChatForm,
    place: &str,
) -> Result<Option<Tree<'a>>, Fault> {
    let mut parts = Parts::default();
    for (j, block) in blocks.into_iter().enumerate() {
        let text = block.text.filter(|_| &*block.kind.0 == "text");
        let text = text.ok_or_else(|| refused(format!("{place}[{j}].type"), "must be text"))?;
        parts.push_text(text.0, block.cache_control.filter(|_| room == ChatForm::Extended));
    }
    let content = parts.content(room == ChatForm::OpenAi);
    Ok(content.map(|content| Tree::map([("role", Tree::text("system")), ("content", content)])))
}

/// A turn of the user: results of tools first, as chat wants them right behind their calls.
fn asked<'a>(
    all: Vec<InboundMessagesBlock<'a>>,
    room: ChatForm,
    place: &str,
    adjusted: &mut Adjusted,
) -> Result<Vec<Tree<'a>>, Fault> {
    let (mut messages, mut rest) = (Vec::new(), Parts::default());
    for (j, block) in all.into_iter().enumerate() {
        let place = format!("{place}[{j}]");
        if &*block.kind.0 != "tool_result" {
            blocks::part(block, room, &place, &mut rest, adjusted)?;
            continue;
        }
        let id = block.tool_use_id.ok_or_else(|| refused(format!("{place}.tool_use_id"), "is needed"))?.0;
        let mut parts = Parts::default();
        let inner = block.content.map(|raw| blocks::of(raw, &format!("{place}.content"))).transpose()?;
        for (k, block) in inner.into_iter().flatten().enumerate() {
            blocks::part(block, room, &format!("{place}.content[{k}]"), &mut parts, adjusted)?;
        }
        let cache_control = block.cache_control.filter(|_| room == ChatForm::Extended);
        let (result, others) = build::result(id, parts, room, cache_control);
        let failed = (block.is_error == Some(true) && room == ChatForm::Extended).then_some(Tree::Flag(true));
        messages.push(result.with("is_error", failed));
        rest.0.splice(0..0, others.0);
    }
    messages.extend(build::user(rest));
    Ok(messages)
}

fn answered<'a>(
    all: Vec<InboundMessagesBlock<'a>>,
    to: (&Call<'_>, ChatForm),
    place: &str,
    adjusted: &mut Adjusted,
) -> Result<Option<Tree<'a>>, Fault> {
    let mut answer = AssistantMessageBuilder::default();
    for (j, block) in all.into_iter().enumerate() {
        let at = |rest: &str| format!("{place}[{j}]{rest}");
        let cache_control = block.cache_control.filter(|_| to.1 == ChatForm::Extended);
        match &*block.kind.0 {
            "text" => {
                let text = block.text.ok_or_else(|| refused(at(".text"), "is needed"))?.0;
                if !text.is_empty() {
                    answer.say(text, cache_control);
                }
            }
            "thinking" => {
                let said = block.thinking.map(|t| t.0).unwrap_or_default();
                let opaque = block.signature.map(|t| t.0);
                answer.reason(EarlierReasoning { said, opaque, field: "messages.thinking" }, to, adjusted);
            }
            "redacted_thinking" => {
                answer.redacted(block.data.map(|t| t.0).unwrap_or_default(), to, adjusted);
            }
            "tool_use" => {
                let (Some(id), Some(name)) = (block.id, block.name) else {
                    return Err(refused(at(""), "needs an id and a name"));
                };
                let input = block.input.map_or("{}", RawValue::get);
                answer.call((id.0, name.0), input.into(), cache_control);
            }
            // Tools that Anthropic runs itself are left out; what they found is in the text that follows.
            "server_tool_use" => adjusted.note("messages.server_tool_use"),
            kind if kind.ends_with("_tool_result") => adjusted.note("messages.server_tool_result"),
            _ => return Err(refused(at(".type"), "must be text, thinking, redacted_thinking or tool_use")),
        }
    }
    Ok(answer.message())
}

fn settings<'a>(
    ask: &InboundMessagesRequest<'a>,
    room: ChatForm,
    out: &mut Vec<(&'static str, Tree<'a>)>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    let mut put = |key, value: Option<Tree<'a>>| out.extend(value.map(|value| (key, value)));
    let raw = |raw: Option<&'a RawValue>| raw.filter(|raw| raw.get() != "null").map(Tree::Raw);
    put("max_completion_tokens", ask.max_tokens.map(Tree::Number));
    put("stop", raw(ask.stop_sequences).filter(|_| speaks(ask.stop_sequences)));
    put("temperature", raw(ask.temperature));
    put("top_p", raw(ask.top_p));
    put("tools", tools(ask, room)?);
    put("tool_choice", ask.tool_choice.as_ref().map(chosen).transpose()?);
    let single = ask.tool_choice.as_ref().is_some_and(|c| c.disable_parallel_tool_use == Some(true));
    put("parallel_tool_calls", single.then_some(Tree::Flag(false)));
    let config = ask.output_config.as_ref();
    let format = config.and_then(|c| c.format.as_ref()).or(ask.output_format.as_ref());
    put("response_format", format.map(schema).transpose()?);
    put("reasoning_effort", config.and_then(|c| c.effort.as_ref()).map(|e| Tree::Text(e.0.clone())));
    let user = ask.metadata.as_ref().and_then(|m| m.user_id.as_ref());
    put("user", user.map(|user| Tree::Text(user.0.clone())));
    put("stream", (ask.stream == Some(true)).then_some(Tree::Flag(true)));
    if room == ChatForm::Extended {
        put("thinking", raw(ask.thinking));
        put("top_k", raw(ask.top_k));
    } else {
        let off = |raw: &RawValue| raw.get().contains("\"disabled\"");
        adjusted.note_if("thinking", ask.thinking.is_some_and(|raw| !off(raw)));
        adjusted.note_if("top_k", speaks(ask.top_k));
    }
    for (field, value) in [
        ("service_tier", ask.service_tier),
        ("container", ask.container),
        ("mcp_servers", ask.mcp_servers),
        ("context_management", ask.context_management),
        ("cache_control", ask.cache_control),
        ("inference_geo", ask.inference_geo),
        ("speed", ask.speed),
        ("fallbacks", ask.fallbacks),
        ("fallback_credit_token", ask.fallback_credit_token),
        ("diagnostics", ask.diagnostics),
    ] {
        // `auto` is what every provider does.
        adjusted.note_if(field, speaks(value) && value.is_some_and(|v| v.get() != "\"auto\""));
    }
    Ok(())
}

fn tools<'a>(ask: &InboundMessagesRequest<'a>, room: ChatForm) -> Result<Option<Tree<'a>>, Fault> {
    let mut all = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let at = |rest: &str| format!("tools[{i}]{rest}");
        let tool: InboundMessagesTool<'a> =
            serde_json::from_str(raw.get()).map_err(|e| refused(at(""), format!("is no tool: {e}")))?;
        if tool.kind.as_ref().is_some_and(|kind| kind.0 != "custom") {
            return Err(refused(at(".type"), "is a tool that only Anthropic runs; other providers take custom tools"));
        }
        let name = tool.name.ok_or_else(|| refused(at(".name"), "is needed"))?;
        let function = Tree::map([("name", Tree::Text(name.0))])
            .with("description", tool.description.map(Tree::Raw))
            .with("parameters", tool.input_schema.map(Tree::Raw))
            .with("strict", tool.strict.map(Tree::Flag));
        let made = Tree::map([("type", Tree::text("function")), ("function", function)]);
        let cache_control = tool.cache_control.filter(|_| room == ChatForm::Extended);
        all.push(made.with("cache_control", cache_control.map(Tree::Raw)));
    }
    Ok((!all.is_empty()).then_some(Tree::List(all)))
}

fn chosen<'a>(choice: &InboundMessagesToolChoice<'a>) -> Result<Tree<'a>, Fault> {
    Ok(match &*choice.kind.0 {
        "auto" => Tree::text("auto"),
        "none" => Tree::text("none"),
        "any" => Tree::text("required"),
        "tool" => {
            let name = choice.name.as_ref().ok_or_else(|| refused("tool_choice.name", "is needed"))?;
            let function = Tree::map([("name", Tree::Text(name.0.clone()))]);
            Tree::map([("type", Tree::text("function")), ("function", function)])
        }
        _ => return Err(refused("tool_choice.type", "must be auto, any, tool or none")),
    })
}

fn schema<'a>(format: &InboundMessagesFormat<'a>) -> Result<Tree<'a>, Fault> {
    let schema = format.schema.filter(|_| &*format.kind.0 == "json_schema");
    let schema = schema.ok_or_else(|| refused("output_config.format", "must be of type json_schema, with a schema"))?;
    // Anthropic's is always held to, and has no name.
    let named =
        Tree::map([("name", Tree::text("answer")), ("schema", Tree::Raw(schema)), ("strict", Tree::Flag(true))]);
    Ok(Tree::map([("type", Tree::text("json_schema")), ("json_schema", named)]))
}
