//! Tools and the choice among them.

use crate::convert::request::{self, Adjusted, refused};
use crate::wire::chat;
use crate::wire::gemini::{CallingConfig, GeminiFunctionDeclaration, GeminiTool, GeminiToolConfig};
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Tools that Google runs itself, by the name that a client gives as `type`, and as Gemini spells it
/// (<https://ai.google.dev/gemini-api/docs/tools>).
static OWN: &[(&str, &str)] = &[
    ("google_search", "googleSearch"),
    ("google_maps", "googleMaps"),
    ("url_context", "urlContext"),
    ("code_execution", "codeExecution"),
    ("file_search", "fileSearch"),
    ("enterprise_web_search", "enterpriseWebSearch"),
];

/// `web_search_options` asks for a search as the tool of Google's gives it; its tuning is the caller's to note.
pub(super) fn tools<'a>(ask: &chat::ChatRequest<'a>, adjusted: &mut Adjusted) -> Result<Vec<GeminiTool<'a>>, Fault> {
    let mut functions = Vec::new();
    let mut out = Vec::new();
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let wanted = request::tool(raw, i)?;
        if wanted.kind.0 == "function" {
            functions.push(function(wanted, i, adjusted)?);
        } else {
            out.push(GeminiTool::Own(own(&wanted.kind.0, raw, i)?));
        }
    }
    if ask.web_search_options.is_some() {
        out.push(GeminiTool::Own(object("googleSearch", "{}")?));
    }
    if !functions.is_empty() {
        out.insert(0, GeminiTool::Functions { function_declarations: functions });
    }
    Ok(out)
}

fn function<'a>(
    wanted: chat::ChatTool<'a>,
    i: usize,
    adjusted: &mut Adjusted,
) -> Result<GeminiFunctionDeclaration<'a>, Fault> {
    let function = wanted.function.ok_or_else(|| refused(format!("tools[{i}].function"), "is needed"))?;
    if function.strict == Some(true) {
        adjusted.note("tools.function.strict");
    }
    if wanted.cache_control.or(function.cache_control).is_some() {
        adjusted.note("cache_control");
    }
    Ok(GeminiFunctionDeclaration {
        name: function.name.0,
        description: function.description.map(|d| d.0),
        parameters_json_schema: function.parameters.filter(|p| !matches!(p.get(), "{}" | "null")),
    })
}

/// `{"type":"google_search","google_search":{…}}`, the settings left out when there are none.
fn own(kind: &str, raw: &RawValue, i: usize) -> Result<Box<RawValue>, Fault> {
    let Some((name, theirs)) = OWN.iter().find(|(name, theirs)| *name == kind || *theirs == kind) else {
        let names: Vec<_> = OWN.iter().map(|(name, _)| *name).collect();
        return Err(refused(format!("tools[{i}].type"), format!("must be function, or one of {}", names.join(", "))));
    };
    #[derive(Deserialize)]
    struct ToolSettings<'a>(#[serde(borrow)] std::collections::BTreeMap<Cow<'a, str>, &'a RawValue>);
    let settings: ToolSettings<'_> =
        serde_json::from_str(raw.get()).map_err(|e| refused(format!("tools[{i}]"), format!("is no tool: {e}")))?;
    let settings = settings.0.get(*name).or_else(|| settings.0.get(*theirs));
    object(theirs, settings.map_or("{}", |s| s.get()))
}

fn object(name: &str, value: &str) -> Result<Box<RawValue>, Fault> {
    RawValue::from_string(format!("{{\"{name}\":{value}}}")).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))
}

pub(super) fn choice<'a>(
    ask: &chat::ChatRequest<'a>,
    adjusted: &mut Adjusted,
) -> Result<Option<GeminiToolConfig<'a>>, Fault> {
    let Some(wanted) = ask.tool_choice.filter(|_| ask.tools.as_ref().is_some_and(|tools| !tools.is_empty())) else {
        return Ok(None);
    };
    let (mode, names) = match wanted.get() {
        "null" => return Ok(None),
        "\"auto\"" => ("AUTO", Vec::new()),
        "\"none\"" => ("NONE", Vec::new()),
        "\"required\"" => ("ANY", Vec::new()),
        object => chosen(object, adjusted)?,
    };
    Ok(Some(GeminiToolConfig { function_calling_config: CallingConfig { mode, allowed_function_names: names } }))
}

#[derive(Deserialize)]
struct Allowed<'a> {
    #[serde(borrow)]
    allowed_tools: AllowedTools<'a>,
}

#[derive(Deserialize)]
struct AllowedTools<'a> {
    mode: String,
    #[serde(borrow)]
    tools: Vec<chat::ChatToolChoice<'a>>,
}

fn chosen<'a>(object: &'a str, adjusted: &mut Adjusted) -> Result<(&'static str, Vec<Cow<'a, str>>), Fault> {
    if let Ok(Allowed { allowed_tools }) = serde_json::from_str::<Allowed<'a>>(object) {
        let names: Vec<_> = allowed_tools.tools.into_iter().filter_map(|t| Some(t.function?.name.0)).collect();
        if allowed_tools.mode == "required" {
            return Ok(("ANY", names));
        }
        // Names may be given only where a call is wanted; this mode leaves it open and holds calls to their schema.
        adjusted.note("tool_choice.allowed_tools.mode");
        return Ok(("VALIDATED", names));
    }
    Ok(("ANY", vec![request::chosen(object)?]))
}
