//! The form `COHERE`, in which Cohere's models were asked before they had messages: what is said now stands apart from
//! what was said before, and calls of tools have no ids.

use super::{note_dropped, note_of_message, refuse_untranslatable};
use crate::convert::request::{self, Adjusted, EarlierCall, PartPosition, TranslatedBody, refused};
use crate::shapes::Object;
use crate::wire::cohere::CohereExtensions;
use crate::wire::{chat, speaks};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub(super) fn request(body: &[u8], stream: bool) -> Result<TranslatedBody, Fault> {
    let ask: chat::ChatRequest<'_> = request::parsed(body)?;
    let own: CohereExtensions<'_> = request::parsed(body)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);
    note_further(&ask, &own, &mut adjusted);
    let said = SplitTalk::of(&ask.messages, &mut adjusted)?;
    let mut out = Object::new();
    out.put("apiFormat", &"COHERE");
    out.put("message", &said.now);
    out.put_some("preambleOverride", said.preamble);
    out.put_some("chatHistory", (!said.before.is_empty()).then_some(said.before));
    out.put_some("toolResults", (!said.results.is_empty()).then_some(said.results));
    if stream {
        out.put("isStream", &true);
        out.put("streamOptions", &json!({ "isIncludeUsage": true }));
    }
    out.put_some("maxTokens", ask.max_completion_tokens.or(ask.max_tokens));
    let stop = request::stop(ask.stop)?;
    out.put_some("stopSequences", (!stop.is_empty()).then_some(stop));
    let plain = [
        ("temperature", ask.temperature),
        ("topP", ask.top_p),
        ("topK", ask.top_k),
        ("seed", ask.seed),
        ("frequencyPenalty", ask.frequency_penalty),
        ("presencePenalty", ask.presence_penalty),
        ("documents", own.documents),
        ("safetyMode", own.safety_mode),
    ];
    plain.into_iter().for_each(|(name, value)| out.put_some(name, value));
    out.put_some("responseFormat", format(&ask)?);
    let tools = tools(&ask, &mut adjusted)?;
    out.put_some("tools", (!tools.is_empty()).then_some(tools));
    Ok(TranslatedBody { body: out.written().to_vec(), adjusted: adjusted.0 })
}

fn note_further(ask: &chat::ChatRequest<'_>, own: &CohereExtensions<'_>, adjusted: &mut Adjusted) {
    adjusted.note_spoken(&[
        ("logit_bias", ask.logit_bias),
        ("metadata", ask.metadata),
        ("verbosity", ask.verbosity),
        ("citation_options", own.citation_options),
        ("priority", own.priority),
    ]);
    adjusted.note_if("reasoning_effort", ask.reasoning_effort.is_some());
    adjusted.note_tier(ask);
    adjusted.note_single_calls(ask);
}

fn format(ask: &chat::ChatRequest<'_>) -> Result<Option<Value>, Fault> {
    let Some(wanted) = &ask.response_format else { return Ok(None) };
    match &*wanted.kind.0 {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({ "type": "JSON_OBJECT" }))),
        "json_schema" => Ok(Some(json!({ "type": "JSON_OBJECT", "schema": request::schema(wanted)? }))),
        _ => Err(refused("response_format", "must be of type text, json_object or json_schema")),
    }
}

fn tools(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) -> Result<Vec<Value>, Fault> {
    match ask.tool_choice.map(RawValue::get) {
        None | Some("null" | "\"auto\"") => {}
        // Tools that may not be used are not offered.
        Some("\"none\"") => return Ok(Vec::new()),
        Some(_) if ask.tools.as_ref().is_none_or(Vec::is_empty) => {}
        Some(_) => {
            let rule = "must be auto or none: models asked in the form COHERE cannot be made to call a tool";
            return Err(refused("tool_choice", rule));
        }
    }
    let mut out = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let function = request::function(raw, i, adjusted)?;
        adjusted.note_if("tools.function.strict", function.strict == Some(true));
        // A description is required here, and is not at OpenAI.
        let description = function.description.map_or_else(|| function.name.0.to_string(), |text| text.0.into_owned());
        let mut made = json!({ "name": function.name.0, "description": description });
        let schema: Value = function.parameters.map(|raw| json!(raw)).unwrap_or_default();
        let definitions = definitions(&schema);
        if !definitions.is_empty() {
            made["parameterDefinitions"] = definitions.into();
        }
        out.push(made);
    }
    Ok(out)
}

/// Each property under the name that Python has for its type. What else its schema says is told in words, where the
/// model can read it.
fn definitions(schema: &Value) -> Map<String, Value> {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let one = |(name, property): (&String, &Value)| {
        let kind = match property["type"].as_str() {
            Some("string") => "str",
            Some("number") => "float",
            Some("integer") => "int",
            Some("boolean") => "bool",
            Some("array") => "List",
            Some("object") => "Dict",
            _ => "Any",
        };
        let mut told = vec![property["description"].as_str().unwrap_or_default().to_owned()];
        let rest = property.as_object().into_iter().flatten().filter(|(key, _)| *key != "description");
        let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        if rest.keys().any(|key| key != "type" && key != "title") {
            told.push(format!("JSON schema: {}", Value::Object(rest)));
        }
        told.retain(|part| !part.is_empty());
        let mut made = json!({ "type": kind, "isRequired": required(name) });
        if !told.is_empty() {
            made["description"] = told.join(". ").into();
        }
        (name.clone(), made)
    };
    schema["properties"].as_object().into_iter().flatten().map(one).collect()
}

/// A conversation taken apart.
#[derive(Default)]
struct SplitTalk {
    /// What the system said before anybody else.
    preamble: Option<String>,
    before: Vec<Value>,
    now: String,
    /// What the tools gave that were called last.
    results: Vec<Value>,
}

impl SplitTalk {
    fn of(messages: &[chat::ChatMessage<'_>], adjusted: &mut Adjusted) -> Result<Self, Fault> {
        let mut said = Self::default();
        // Calls that were made so far: results name them by ids, which stay here.
        let mut called: Vec<(&str, Value)> = Vec::new();
        let last = messages.len().saturating_sub(1);
        for (i, message) in messages.iter().enumerate() {
            note_of_message(message, adjusted);
            let text = text(message.content, i, adjusted)?;
            if message.role.0 != "tool" {
                said.put_off();
            }
            match &*message.role.0 {
                "system" | "developer" if said.before.is_empty() => {
                    let earlier = said.preamble.take().map(|earlier| earlier + "\n\n").unwrap_or_default();
                    said.preamble = Some(earlier + &text);
                }
                "system" | "developer" => said.before.push(json!({ "role": "SYSTEM", "message": text })),
                "user" if i == last => said.now = text,
                "user" => said.before.push(json!({ "role": "USER", "message": text })),
                "assistant" => {
                    request::refuse_kept_elsewhere(message, i)?;
                    let calls = calls(message, i)?;
                    let refusal = message.refusal.as_ref().map_or("", |refusal| &*refusal.0);
                    let text = text + refusal;
                    let mut turn = json!({ "role": "CHATBOT" });
                    if !text.is_empty() || calls.is_empty() {
                        turn["message"] = text.into();
                    }
                    if !calls.is_empty() {
                        turn["toolCalls"] = calls.iter().map(|(_, call)| call.clone()).collect();
                    }
                    called.extend(calls);
                    said.before.push(turn);
                }
                "tool" => {
                    let id = message.tool_call_id.as_ref();
                    let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
                    let call = called.iter().rev().find(|(known, _)| *known == id.0).map(|(_, call)| call);
                    let call = call.ok_or_else(|| {
                        refused(format!("messages[{i}].tool_call_id"), "names no call of an earlier message")
                    })?;
                    said.results.push(json!({ "call": call, "outputs": outputs(&text) }));
                }
                _ => {
                    let rule = "must be system, developer, user, assistant or tool";
                    return Err(refused(format!("messages[{i}].role"), rule));
                }
            }
        }
        Ok(said)
    }

    /// Results that something else was said after belong to what was before.
    fn put_off(&mut self) {
        if !self.results.is_empty() {
            let results = std::mem::take(&mut self.results);
            self.before.push(json!({ "role": "TOOL", "toolResults": results }));
        }
    }
}

/// A result as Cohere wants it, a list of objects.
fn outputs(text: &str) -> Vec<Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(one)) => vec![Value::Object(one)],
        Ok(Value::Array(all)) if !all.is_empty() && all.iter().all(Value::is_object) => all,
        _ => vec![json!({ "output": text })],
    }
}

fn calls<'m>(message: &'m chat::ChatMessage<'_>, i: usize) -> Result<Vec<(&'m str, Value)>, Fault> {
    let mut out = Vec::new();
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        let EarlierCall { id, function } = EarlierCall::of(call, &at)?;
        let arguments = function.arguments.as_ref().map_or("", |arguments| arguments.0.trim());
        let parameters: Value = match arguments {
            "" => json!({}),
            arguments => serde_json::from_str(arguments)
                .map_err(|_| refused(at(".function.arguments"), "must be JSON: this model takes it as an object"))?,
        };
        out.push((&**id, json!({ "name": function.name.0, "parameters": parameters })));
    }
    Ok(out)
}

/// Content as one text: this form has no parts.
fn text(raw: Option<&RawValue>, i: usize, adjusted: &mut Adjusted) -> Result<String, Fault> {
    let part = |raw: &RawValue, place: PartPosition| {
        let part = place.read(raw)?;
        adjusted.note_if("cache_control", speaks(part.cache_control));
        match &*part.kind.0 {
            "text" | "input_text" | "refusal" => {
                Ok(Some(place.needed(part.text.or(part.refusal), ".text")?.0.into_owned()))
            }
            _ => Err(refused(place.field(".type"), "must be text: models asked in the form COHERE take nothing else")),
        }
    };
    Ok(request::content(raw, i, |text| text.into_owned(), part)?.join("\n"))
}
