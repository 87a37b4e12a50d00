//! What a chat request asks for, read alike from the bodies of all dialects.
//! Reads JSON only; decides no reply.

use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(super) struct MockRequest {
    pub(super) model: String,
    /// Text of the last message that is the user's, or of the tool result that came last.
    pub(super) said: String,
    pub(super) answers_tool: bool,
    pub(super) tools: Vec<MockTool>,
    pub(super) choice: MockToolChoice,
    pub(super) max_tokens: Option<usize>,
    /// A schema that the text must fit; empty for any JSON object.
    pub(super) form: Option<Value>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) n: usize,
    /// Words of the whole prompt, which the mock counts as its tokens.
    pub(super) prompt_tokens: usize,
}

#[derive(Debug)]
pub(super) struct MockTool {
    pub(super) name: String,
    pub(super) schema: Value,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum MockToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

/// A request that a provider would refuse: the message of its 400.
pub(super) type MockRefusal = String;

pub(super) fn openai(body: &Value) -> Result<MockRequest, MockRefusal> {
    let messages = messages(body)?;
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.map(|t| &t["function"]).filter_map(|f| tool(&f["name"], &f["parameters"]));
    let choice = match &body["tool_choice"] {
        Value::String(s) if s == "required" => MockToolChoice::Required,
        Value::String(s) if s == "none" => MockToolChoice::None,
        Value::Object(o) => MockToolChoice::Named(string(&o["function"]["name"])),
        _ => MockToolChoice::Auto,
    };
    let form = match body["response_format"]["type"].as_str() {
        Some("json_schema") => Some(body["response_format"]["json_schema"]["schema"].clone()),
        Some("json_object") => Some(Value::Null),
        _ => None,
    };
    let limit = [&body["max_completion_tokens"], &body["max_tokens"]];
    Ok(MockRequest {
        tools: tools.collect(),
        choice,
        form,
        max_tokens: limit.iter().find_map(|v| size(v)),
        include_usage: body["stream_options"]["include_usage"] == true,
        n: size(&body["n"]).unwrap_or(1),
        answers_tool: messages.last().is_some_and(|m| m["role"] == "tool"),
        ..common(body, messages)
    })
}

pub(super) fn anthropic(body: &Value) -> Result<MockRequest, MockRefusal> {
    let messages = messages(body)?;
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|t| tool(&t["name"], &t["input_schema"]));
    let choice = match body["tool_choice"]["type"].as_str() {
        Some("any") => MockToolChoice::Required,
        Some("none") => MockToolChoice::None,
        Some("tool") => MockToolChoice::Named(string(&body["tool_choice"]["name"])),
        _ => MockToolChoice::Auto,
    };
    let results = |m: &Value| m["content"].as_array().is_some_and(|c| c.iter().any(|p| p["type"] == "tool_result"));
    let ask = common(body, messages);
    Ok(MockRequest {
        tools: tools.collect(),
        choice,
        form: body["output_config"]["format"].get("schema").cloned(),
        max_tokens: size(&body["max_tokens"]),
        include_usage: true,
        n: 1,
        answers_tool: messages.last().is_some_and(results),
        prompt_tokens: ask.prompt_tokens + words(&text(&body["system"])),
        ..ask
    })
}

/// The model stands in the path, and so does whether to stream.
pub(super) fn gemini(body: &Value, model: &str, stream: bool) -> Result<MockRequest, MockRefusal> {
    let contents = body["contents"].as_array().filter(|c| !c.is_empty());
    let contents = contents.ok_or_else(|| "contents: must be an array of at least one content".to_owned())?;
    let declared = |t: &Value| t["functionDeclarations"].as_array().cloned().unwrap_or_default();
    let declarations: Vec<Value> = body["tools"].as_array().into_iter().flatten().flat_map(declared).collect();
    let tools = declarations.iter();
    // Google reads the names of fields in either spelling, and its own clients send both.
    let schema =
        |f: &'_ Value| f.get("parametersJsonSchema").or(f.get("parameters_json_schema")).cloned().unwrap_or_default();
    let calling = &body["toolConfig"]["functionCallingConfig"];
    let choice = match (calling["mode"].as_str(), calling["allowedFunctionNames"].get(0)) {
        (Some("ANY"), Some(name)) => MockToolChoice::Named(string(name)),
        (Some("ANY"), None) => MockToolChoice::Required,
        (Some("NONE"), _) => MockToolChoice::None,
        _ => MockToolChoice::Auto,
    };
    let config = &body["generationConfig"];
    let json = config["responseMimeType"] == "application/json";
    let last = contents.iter().rfind(|c| c["role"] != "model");
    let results =
        |c: &Value| c["parts"].as_array().is_some_and(|p| p.iter().any(|p| p["functionResponse"].is_object()));
    Ok(MockRequest {
        model: model.to_owned(),
        said: last.map(parts).unwrap_or_default(),
        answers_tool: contents.last().is_some_and(results),
        tools: tools.filter_map(|f| tool(&f["name"], &schema(f))).collect(),
        choice,
        max_tokens: size(&config["maxOutputTokens"]),
        form: json.then(|| config["responseJsonSchema"].clone()),
        stream,
        include_usage: true,
        n: 1,
        prompt_tokens: contents.iter().map(|c| words(&parts(c))).sum::<usize>().max(1),
    })
}

/// The text of a content's parts, and what functions answered.
fn parts(content: &Value) -> String {
    let texts = content["parts"].as_array().into_iter().flatten().map(|part| {
        let result = &part["functionResponse"]["response"];
        let said = part["text"].as_str().or(result["output"].as_str());
        said.map_or_else(|| if result.is_object() { result.to_string() } else { String::new() }, str::to_owned)
    });
    texts.filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n")
}

pub(super) fn cohere(body: &Value) -> Result<MockRequest, MockRefusal> {
    let choice = match body["tool_choice"].as_str() {
        Some("REQUIRED") => MockToolChoice::Required,
        Some("NONE") => MockToolChoice::None,
        _ => MockToolChoice::Auto,
    };
    let form =
        (body["response_format"]["type"] == "json_object").then(|| body["response_format"]["json_schema"].clone());
    Ok(MockRequest { choice, form, include_usage: true, n: 1, ..openai(body)? })
}

/// Items of input are read as the messages that chat has for them.
pub(super) fn responses(body: &Value) -> Result<MockRequest, MockRefusal> {
    let message = |item: &Value| match item["type"].as_str() {
        Some("function_call" | "reasoning") => json!({ "role": "assistant", "content": null }),
        Some("function_call_output") => json!({ "role": "tool", "content": item["output"] }),
        _ => json!({ "role": item["role"], "content": item["content"] }),
    };
    let messages: Vec<Value> = match &body["input"] {
        Value::String(said) => vec![json!({ "role": "user", "content": said })],
        Value::Array(items) => items.iter().map(message).collect(),
        _ => return Err("Missing required parameter: 'input'.".to_owned()),
    };
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools: Vec<Value> = tools.map(|tool| json!({ "type": tool["type"], "function": tool })).collect();
    let choice = match &body["tool_choice"] {
        Value::Object(named) => json!({ "type": "function", "function": named }),
        said => said.clone(),
    };
    let format = &body["text"]["format"];
    openai(&json!({
        "model": body["model"], "messages": messages, "tools": tools, "tool_choice": choice,
        "max_tokens": body["max_output_tokens"], "stream": body["stream"],
        "response_format": { "type": format["type"], "json_schema": format },
    }))
}

fn messages(body: &Value) -> Result<&Vec<Value>, MockRefusal> {
    match body["messages"].as_array() {
        Some(m) if !m.is_empty() => Ok(m),
        _ => Err("messages: must be an array of at least one message".to_owned()),
    }
}

fn common(body: &Value, messages: &[Value]) -> MockRequest {
    let last = messages.iter().rfind(|m| m["role"] == "user" || m["role"] == "tool");
    let prompt: usize = messages.iter().map(|m| words(&text(&m["content"]))).sum();
    MockRequest {
        model: string(&body["model"]),
        said: last.map(|m| text(&m["content"])).unwrap_or_default(),
        stream: body["stream"] == true,
        prompt_tokens: prompt.max(1),
        ..MockRequest::default()
    }
}

fn tool(name: &Value, schema: &Value) -> Option<MockTool> {
    Some(MockTool { name: name.as_str()?.to_owned(), schema: schema.clone() })
}

/// The text of a content that is a string, or a list of parts of which some hold text.
fn text(content: &Value) -> String {
    match content {
        Value::String(s) => s.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|p| match &p["text"] {
                Value::String(s) => s.clone(),
                _ => text(&p["content"]),
            });
            texts.filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub(super) fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

pub(super) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}
