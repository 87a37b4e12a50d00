//! The form `GENERIC`: OpenAI's chat in other words.

use super::{note_dropped, note_of_message, refuse_untranslatable};
use crate::convert::request::{self, Adjusted, EarlierCall, PartPosition, TranslatedBody, refused};
use crate::shapes::Object;
use crate::wire::{JsonStr, chat, read};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(super) fn request(body: &[u8], model: &str, stream: bool) -> Result<TranslatedBody, Fault> {
    let ask: chat::ChatRequest<'_> = request::parsed(body)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);
    let mut out = Object::new();
    out.put("apiFormat", &"GENERIC");
    out.put("messages", &turns(&ask.messages, &mut adjusted)?);
    if stream {
        out.put("isStream", &true);
        out.put("streamOptions", &json!({ "isIncludeUsage": true }));
    }
    // OpenAI's models count what they think into their limit, and refuse the other.
    let limit = if model.starts_with("openai.") { "maxCompletionTokens" } else { "maxTokens" };
    out.put_some(limit, ask.max_completion_tokens.or(ask.max_tokens));
    let stop = request::stop(ask.stop)?;
    out.put_some("stop", (!stop.is_empty()).then_some(stop));
    let plain = [
        ("temperature", ask.temperature),
        ("topP", ask.top_p),
        ("topK", ask.top_k),
        ("seed", ask.seed),
        ("frequencyPenalty", ask.frequency_penalty),
        ("presencePenalty", ask.presence_penalty),
        ("logitBias", ask.logit_bias),
        ("metadata", ask.metadata),
    ];
    plain.into_iter().for_each(|(name, value)| out.put_some(name, value));
    out.put_some("reasoningEffort", effort(&ask, &mut adjusted));
    out.put_some("verbosity", verbosity(&ask, &mut adjusted));
    out.put_some("serviceTier", tier(&ask, &mut adjusted));
    out.put_some("responseFormat", format(&ask)?);
    let tools = tools(&ask, &mut adjusted)?;
    if !tools.is_empty() {
        out.put("tools", &tools);
        out.put_some("toolChoice", choice(&ask)?);
        out.put_some("isParallelToolCalls", ask.parallel_tool_calls);
    }
    Ok(TranslatedBody { body: out.written().to_vec(), adjusted: adjusted.0 })
}

fn effort(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) -> Option<&'static str> {
    let known = match &*ask.reasoning_effort.as_ref()?.0 {
        "none" => "NONE",
        "minimal" => "MINIMAL",
        "low" => "LOW",
        "medium" => "MEDIUM",
        "high" => "HIGH",
        // There is no more to be had.
        _ => {
            adjusted.note("reasoning_effort");
            "HIGH"
        }
    };
    Some(known)
}

fn verbosity(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) -> Option<&'static str> {
    let asked = read::<JsonStr<'_>>(ask.verbosity?.get().as_bytes());
    let known = match asked.as_ref().map(|text| &*text.0) {
        Some("low") => Some("LOW"),
        Some("medium") => Some("MEDIUM"),
        Some("high") => Some("HIGH"),
        _ => None,
    };
    adjusted.note_if("verbosity", known.is_none());
    known
}

fn tier(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) -> Option<&'static str> {
    match &*ask.service_tier.as_ref()?.0 {
        "auto" => Some("AUTO"),
        "default" => Some("DEFAULT"),
        "priority" => Some("PRIORITY"),
        _ => {
            adjusted.note("service_tier");
            None
        }
    }
}

fn format(ask: &chat::ChatRequest<'_>) -> Result<Option<Value>, Fault> {
    let Some(wanted) = &ask.response_format else { return Ok(None) };
    match &*wanted.kind.0 {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({ "type": "JSON_OBJECT" }))),
        "json_schema" => {
            let schema = request::schema(wanted)?;
            let named = wanted.json_schema.as_ref();
            let name = named.and_then(|s| s.name.as_ref()).map_or("answer", |name| &*name.0);
            let mut made = json!({ "name": name, "schema": schema });
            if let Some(strict) = named.and_then(|s| s.strict) {
                made["isStrict"] = strict.into();
            }
            Ok(Some(json!({ "type": "JSON_SCHEMA", "jsonSchema": made })))
        }
        _ => Err(refused("response_format", "must be of type text, json_object or json_schema")),
    }
}

fn tools(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let function = request::function(raw, i, adjusted)?;
        adjusted.note_if("tools.function.strict", function.strict == Some(true));
        let mut made = json!({ "type": "FUNCTION", "name": function.name.0 });
        if let Some(description) = function.description {
            made["description"] = description.0.into();
        }
        if let Some(parameters) = function.parameters {
            made["parameters"] = json!(parameters);
        }
        out.push(made);
    }
    Ok(out)
}

fn choice(ask: &chat::ChatRequest<'_>) -> Result<Option<Value>, Fault> {
    let Some(wanted) = ask.tool_choice else { return Ok(None) };
    Ok(match wanted.get() {
        "null" => None,
        "\"auto\"" => Some(json!({ "type": "AUTO" })),
        "\"none\"" => Some(json!({ "type": "NONE" })),
        "\"required\"" => Some(json!({ "type": "REQUIRED" })),
        named => Some(json!({ "type": "FUNCTION", "name": request::chosen(named)? })),
    })
}

fn turns(messages: &[chat::ChatMessage<'_>], adjusted: &mut Adjusted) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::with_capacity(messages.len());
    for (i, message) in messages.iter().enumerate() {
        note_of_message(message, adjusted);
        let role = match &*message.role.0 {
            "system" => "SYSTEM",
            "developer" => "DEVELOPER",
            "user" => "USER",
            "assistant" => "ASSISTANT",
            "tool" => "TOOL",
            _ => {
                let rule = "must be system, developer, user, assistant or tool";
                return Err(refused(format!("messages[{i}].role"), rule));
            }
        };
        let mut content = request::content(
            message.content,
            i,
            |text| json!({ "type": "TEXT", "text": text }),
            |raw, place| part(raw, place, adjusted),
        )?;
        if role != "USER" && content.iter().any(|part| part["type"] == "IMAGE") {
            return Err(refused(format!("messages[{i}].content"), "may hold images in messages of the user only"));
        }
        let mut turn = json!({ "role": role });
        if role == "ASSISTANT" {
            request::refuse_kept_elsewhere(message, i)?;
            let refusal = message.refusal.as_ref().filter(|refusal| !refusal.0.is_empty());
            content.extend(refusal.map(|refusal| json!({ "type": "TEXT", "text": refusal.0 })));
            let calls = calls(message, i)?;
            if !calls.is_empty() {
                turn["toolCalls"] = calls.into();
            }
        }
        if role == "TOOL" {
            let id = message.tool_call_id.as_ref();
            let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
            turn["toolCallId"] = json!(id.0);
        }
        // Beside calls of tools, Oracle wants no content rather than an empty one.
        if !content.is_empty() || turn.get("toolCalls").is_none() {
            turn["content"] = content.into();
        }
        out.push(turn);
    }
    Ok(out)
}

fn calls(message: &chat::ChatMessage<'_>, i: usize) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::new();
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        let EarlierCall { id, function } = EarlierCall::of(call, &at)?;
        let arguments = function.arguments.as_ref().map_or("{}", |arguments| &*arguments.0);
        out.push(json!({ "type": "FUNCTION", "id": id, "name": function.name.0, "arguments": arguments }));
    }
    Ok(out)
}

fn part(raw: &RawValue, place: PartPosition, adjusted: &mut Adjusted) -> Result<Option<Value>, Fault> {
    let part = place.read(raw)?;
    adjusted.note_if("cache_control", part.cache_control.is_some());
    match &*part.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(part.text.or(part.refusal), ".text")?.0;
            Ok((!text.is_empty()).then(|| json!({ "type": "TEXT", "text": text })))
        }
        "image_url" => {
            let image = place.needed(part.image_url, ".image_url")?;
            let mut made = json!({ "url": image.url.0 });
            if let Some(detail) = image.detail {
                made["detail"] = detail.0.to_ascii_uppercase().into();
            }
            Ok(Some(json!({ "type": "IMAGE", "imageUrl": made })))
        }
        _ => Err(refused(
            place.field(".type"),
            "must be text or image_url: Oracle's chat is given no files and no audio here",
        )),
    }
}
