//! Tools and the choice among them.

use super::turns::ConverseTurns;
use crate::convert::converse::vendor::Maker;
use crate::convert::history::owned;
use crate::convert::request::{self, Adjusted, refused};
use crate::wire::chat;
use crate::wire::converse::{ConverseTool, ConverseToolChoice, InputSchema, ToolConfig, ToolSpec};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

#[derive(Default)]
pub(super) struct Tools<'a> {
    pub(super) config: Option<ToolConfig<'a>>,
    /// What only the model behind Converse understands.
    pub(super) additional: Map<String, Value>,
}

pub(super) fn config<'a>(
    ask: &chat::ChatRequest<'a>,
    maker: Maker<'_>,
    conversation: &ConverseTurns<'a>,
    adjusted: &mut Adjusted,
) -> Result<Tools<'a>, Fault> {
    let is_claude = maker.claude().is_some();
    let (mut tools, mut foreign) = (Vec::new(), Vec::new());
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        tool(i, raw, is_claude, &mut tools, &mut foreign)?;
    }
    let mut out = Tools::default();
    let offered = !tools.is_empty() || !foreign.is_empty();
    if !foreign.is_empty() {
        out.additional.insert("tools".to_owned(), foreign.into());
    }
    let choice = offered.then(|| choice(ask)).transpose()?.unwrap_or(ToolChoiceMode::Auto);
    if choice == ToolChoiceMode::None && conversation.called.is_empty() {
        // What is not offered cannot be called.
        return Ok(Tools::default());
    }
    if tools.is_empty() {
        // A conversation in which tools were called is refused without any.
        tools = conversation.called.iter().map(|name| spec(name.clone(), None, None)).collect();
    }
    let single = offered && ask.parallel_tool_calls == Some(false) && choice != ToolChoiceMode::None;
    let tool_choice = if is_claude && (single || choice == ToolChoiceMode::None) {
        out.additional.insert("tool_choice".to_owned(), choice.anthropics(single));
        None
    } else if choice == ToolChoiceMode::None {
        let why = "must not be none in a conversation in which tools were called: Bedrock cannot forbid them there";
        return Err(refused("tool_choice", why));
    } else {
        if single {
            adjusted.note("parallel_tool_calls");
        }
        choice.converses()
    };
    if !tools.is_empty() {
        out.config = Some(ToolConfig { tools, tool_choice });
    }
    Ok(out)
}

fn tool<'a>(
    i: usize,
    raw: &'a RawValue,
    is_claude: bool,
    tools: &mut Vec<ConverseTool<'a>>,
    foreign: &mut Vec<Value>,
) -> Result<(), Fault> {
    let wanted = request::tool(raw, i)?;
    if wanted.kind.0 != "function" {
        if !is_claude || wanted.function.is_some() {
            return Err(refused(format!("tools[{i}].type"), "must be function"));
        }
        // Anthropic's own, such as its computer: Claude takes them past Converse.
        foreign.push(serde_json::from_str(raw.get()).unwrap_or_default());
        return Ok(());
    }
    let function = wanted.function.ok_or_else(|| refused(format!("tools[{i}].function"), "is needed"))?;
    let description = function.description.map(|d| d.0).filter(|d| !d.is_empty());
    let mut made = spec(function.name.0, description, function.parameters);
    if let ConverseTool::ToolSpec(made) = &mut made {
        made.strict = function.strict.filter(|strict| *strict);
    }
    tools.push(made);
    let mark = wanted.cache_control.or(function.cache_control);
    tools.extend(mark.and_then(super::parts::cache_point).map(ConverseTool::CachePoint));
    Ok(())
}

fn spec<'a>(
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    parameters: Option<&'a RawValue>,
) -> ConverseTool<'a> {
    let json = match parameters.filter(|p| !matches!(p.get(), "{}" | "null")) {
        Some(parameters) => Cow::Borrowed(parameters),
        None => Cow::Owned(owned(r#"{"type":"object","properties":{}}"#)),
    };
    ConverseTool::ToolSpec(ToolSpec { name, description, input_schema: InputSchema { json }, strict: None })
}

#[derive(PartialEq, Eq)]
enum ToolChoiceMode<'a> {
    Auto,
    None,
    Any,
    One(Cow<'a, str>),
}

impl<'a> ToolChoiceMode<'a> {
    fn converses(self) -> Option<ConverseToolChoice<'a>> {
        match self {
            Self::Auto | Self::None => None,
            Self::Any => Some(ConverseToolChoice::Any {}),
            Self::One(name) => Some(ConverseToolChoice::Tool { name }),
        }
    }

    /// The choice as Anthropic's own API spells it, which also knows `none` and calls one at a time.
    fn anthropics(self, single: bool) -> Value {
        let mut out = match self {
            Self::Auto => json!({ "type": "auto" }),
            Self::None => return json!({ "type": "none" }),
            Self::Any => json!({ "type": "any" }),
            Self::One(name) => json!({ "type": "tool", "name": name }),
        };
        if single {
            out["disable_parallel_tool_use"] = true.into();
        }
        out
    }
}

fn choice<'a>(ask: &chat::ChatRequest<'a>) -> Result<ToolChoiceMode<'a>, Fault> {
    let Some(wanted) = ask.tool_choice else { return Ok(ToolChoiceMode::Auto) };
    Ok(match wanted.get() {
        "null" | "\"auto\"" => ToolChoiceMode::Auto,
        "\"none\"" => ToolChoiceMode::None,
        "\"required\"" => ToolChoiceMode::Any,
        object => ToolChoiceMode::One(request::chosen(object)?),
    })
}
