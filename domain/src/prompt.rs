//! A call of a saved prompt made into the chat request that it stands for: the template rendered with the caller's
//! variables, and over it what the caller says of the request itself. What becomes of that request is no business of
//! this module.

use crate::fault::{Fault, FaultKind};
use crate::mustache::{BadTemplate, Partials, RenderBounds, Renderer};
use crate::resource::prompt::{PromptContent, split_version};
use crate::snapshot::{SavedPrompt, ShelfView};
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

/// What a prompt may cost to render. The output has room for a long document among the variables.
pub const BOUNDS: RenderBounds = RenderBounds { output: 4 * 1024 * 1024, depth: 16, work: 16 * 1024 * 1024 };

/// Messages of one prompt.
const MOST_MESSAGES: usize = 10_000;

/// What a caller says.
#[derive(Clone, Debug)]
pub struct PromptCall {
    /// An object.
    variables: Value,
    /// What the request itself says; it beats what the prompt says.
    overrides: Map<String, Value>,
    /// What a chat request goes on with: it stands behind the prompt's own messages.
    goes_on: Vec<Value>,
    /// The model is the prompt's, whatever the request says.
    is_target: bool,
}

/// Which prompt was asked for, in which version.
#[derive(Clone, Debug)]
pub struct FoundPrompt {
    pub id: Uuid,
    pub slug: Arc<str>,
    pub version_id: Uuid,
    pub number: u32,
}

/// The chat request that a call stands for.
#[derive(Clone, Debug)]
pub struct RenderedPrompt {
    pub found: FoundPrompt,
    /// The provider of the workspace that the prompt names, without its `@`.
    pub provider: Option<String>,
    pub request: Map<String, Value>,
}

fn bad(field: &str, rule: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::BadBody, format!("`{field}` {rule}")).on(field)
}

impl PromptCall {
    /// `name`: the prompt as the path names it, which clients say again.
    pub fn read(body: &[u8], name: &str) -> Result<Self, Fault> {
        let unreadable = |why: &'static str| Fault::new(FaultKind::BadBody, why);
        let mut fields: Map<String, Value> = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(unreadable("The request body must be a JSON object")),
            Err(_) if body.trim_ascii().is_empty() => Map::new(),
            Err(_) => return Err(unreadable("The request body is not valid JSON")),
        };
        // Clients send null for what they were not told.
        fields.retain(|_, value| !value.is_null());
        for spelling in ["promptID", "promptId", "prompt_id"] {
            if fields.shift_remove(spelling).is_some_and(|said| said != name) {
                return Err(bad(spelling, "must be what the path says"));
            }
        }
        let variables = fields.shift_remove("variables").unwrap_or_else(|| Value::Object(Map::new()));
        if !variables.is_object() {
            return Err(bad("variables", "must be an object"));
        }
        if let Some(more) = fields.shift_remove("hyperparameters") {
            let Value::Object(more) = more else { return Err(bad("hyperparameters", "must be an object")) };
            for (name, value) in more {
                fields.entry(name).or_insert(value);
            }
        }
        for name in ["messages", "prompt"] {
            if fields.contains_key(name) {
                return Err(bad(name, "cannot be given: the saved prompt says it"));
            }
        }
        Ok(Self { variables, overrides: fields, goes_on: Vec::new(), is_target: false })
    }

    /// A chat request that comes to a prompt: what it says of the request counts as in a call of the prompt.
    pub fn of_chat(body: &[u8]) -> Result<Self, Fault> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else {
            return Err(Fault::new(FaultKind::BadBody, "The request body must be a JSON object"));
        };
        let goes_on = match fields.shift_remove("messages") {
            Some(Value::Array(messages)) => messages,
            None | Some(_) => Vec::new(),
        };
        let variables = match fields.shift_remove("variables") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(variables @ Value::Object(_)) => variables,
            Some(_) => return Err(bad("variables", "must be an object")),
        };
        fields.retain(|_, value| !value.is_null());
        Ok(Self { variables, overrides: fields, goes_on, is_target: false })
    }

    /// The call for a target of a config: the prompt is one of several then, and each has a model of its own.
    #[must_use]
    pub fn at_target(self) -> Self {
        Self { is_target: true, ..self }
    }
}

/// `name`: a slug or an id, with `@` and a version behind it or not. One that is shared is rendered as it is where it
/// lies, and asks a provider of whoever calls it.
pub fn render(shelf: ShelfView<'_>, name: &str, call: PromptCall) -> Result<RenderedPrompt, Fault> {
    let (bare, version) = split_version(name);
    let missing = |why: String| Fault::new(FaultKind::UnknownPrompt, why).on("prompt_id");
    let prompt = shelf.prompt(bare).filter(|p| p.active);
    let prompt: &Arc<SavedPrompt> =
        prompt.ok_or_else(|| missing("The prompt does not exist in this workspace".into()))?;
    let there = shelf.at(prompt.home).ok_or_else(|| missing("The prompt does not exist in this workspace".into()))?;
    let edition = prompt.editions.named(version, |label| there.label(label));
    let Some((number, edition)) = edition else {
        let message = "The prompt has no such version in force: name one by its number, `latest` or a label. Of old \
                       versions without a label only the last are kept in force";
        return Err(missing(message.into()));
    };
    let content = &edition.content;
    let mut renderer = Renderer::new(&call.variables, there, BOUNDS);
    let mut messages = messages(content, &mut renderer)
        .map_err(|why| Fault::new(FaultKind::BadBody, format!("The prompt `{}` {why}", prompt.slug)).on("variables"))?;
    if let Value::Array(all) = &mut messages {
        all.extend(call.goes_on);
    }
    let mut request = Map::new();
    let model = content.model.as_ref().map(|model| ("model".to_owned(), Value::from(model.as_str())));
    request.extend(model);
    request.insert("messages".to_owned(), messages);
    request.extend(content.parameters.iter().map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in [
        ("functions", content.functions.clone().map(Value::Array)),
        ("tools", content.tools.clone().map(Value::Array)),
        ("tool_choice", content.tool_choice.clone()),
    ] {
        request.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mut overrides = call.overrides;
    if call.is_target && content.model.is_some() {
        overrides.shift_remove("model");
    }
    request.extend(overrides);
    let found = FoundPrompt { id: prompt.id, slug: prompt.slug.clone(), version_id: edition.id, number };
    let provider =
        content.virtual_key.as_deref().map(|key| there.provider_slug(key.trim_start_matches('@')).to_owned());
    Ok(RenderedPrompt { found, provider, request })
}

fn messages<'a, P: Partials<'a>>(
    content: &PromptContent,
    renderer: &mut Renderer<'a, P>,
) -> Result<Value, BadTemplate> {
    if content.is_raw_template {
        let text = renderer.json(&content.string)?;
        return match serde_json::from_str(&text) {
            Ok(Value::Array(messages)) if (1..=MOST_MESSAGES).contains(&messages.len()) => Ok(Value::Array(messages)),
            Ok(_) => Err(BadTemplate("does not render to messages: a JSON array of them".to_owned())),
            Err(e) => Err(BadTemplate(format!("does not render to JSON (line {}, column {})", e.line(), e.column()))),
        };
    }
    let written = content
        .messages()
        .map_err(|invalid| BadTemplate(format!("holds a {} that {}", invalid.field, invalid.rule)))?;
    match written {
        Some(messages) => {
            let mut all = Value::Array(messages);
            fill(&mut all, renderer)?;
            Ok(all)
        }
        None => Ok(serde_json::json!([{"role": "user", "content": renderer.text(&content.string)?}])),
    }
}

/// Renders every text in a value. Names of fields are no templates.
fn fill<'a, P: Partials<'a>>(value: &mut Value, renderer: &mut Renderer<'a, P>) -> Result<(), BadTemplate> {
    match value {
        Value::String(text) if text.contains("{{") => *text = renderer.text(text)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill(item, renderer))?,
        Value::Object(fields) => fields.values_mut().try_for_each(|field| fill(field, renderer))?,
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
