//! Tools and the choice among them.

use crate::convert::history::owned;
use crate::convert::request::{self, refused};
use crate::wire::chat;
use crate::wire::messages::{MessagesTool, MessagesToolChoice};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

pub(super) fn tools<'a>(ask: &chat::ChatRequest<'a>) -> Result<Vec<MessagesTool<'a>>, Fault> {
    let all = ask.tools.as_deref().unwrap_or_default();
    all.iter().enumerate().map(|(i, raw)| tool(i, raw)).collect()
}

fn tool(i: usize, raw: &RawValue) -> Result<MessagesTool<'_>, Fault> {
    let wanted = request::tool(raw, i)?;
    if wanted.kind.0 != "function" {
        return if is_anthropics(&wanted.kind.0) {
            Ok(MessagesTool::Raw(raw))
        } else {
            Err(refused(
                format!("tools[{i}].type"),
                "must be function, or a tool of Anthropic's such as web_search_20250305",
            ))
        };
    }
    let function = wanted.function.ok_or_else(|| refused(format!("tools[{i}].function"), "is needed"))?;
    let input_schema = match function.parameters.filter(|p| p.get() != "{}") {
        Some(parameters) => Cow::Borrowed(parameters),
        None => Cow::Owned(owned(NO_PARAMETERS)),
    };
    Ok(MessagesTool::Function {
        name: function.name.0,
        description: function.description.map(|d| d.0),
        input_schema,
        strict: function.strict.filter(|strict| *strict),
        cache_control: wanted.cache_control.or(function.cache_control),
    })
}

/// Its own tools carry the date of their version.
fn is_anthropics(kind: &str) -> bool {
    let dated =
        |(name, date): (&str, &str)| !name.is_empty() && date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
    kind.rsplit_once('_').is_some_and(dated)
}

pub(super) fn choice<'a>(ask: &chat::ChatRequest<'a>) -> Result<Option<MessagesToolChoice<'a>>, Fault> {
    if ask.tools.as_ref().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let single = (ask.parallel_tool_calls == Some(false)).then_some(true);
    let (kind, name) = match ask.tool_choice.map(RawValue::get) {
        None if single.is_none() => return Ok(None),
        None | Some("\"auto\"") => ("auto", None),
        Some("\"none\"") => {
            return Ok(Some(MessagesToolChoice { kind: "none", name: None, disable_parallel_tool_use: None }));
        }
        Some("\"required\"") => ("any", None),
        Some(object) => ("tool", Some(request::chosen(object)?)),
    };
    Ok(Some(MessagesToolChoice { kind, name, disable_parallel_tool_use: single }))
}
