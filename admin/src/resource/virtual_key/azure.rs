//! How virtual keys say where a resource of Azure OpenAI is and what is deployed there: names of their own for settings
//! that integrations have. Knows how the two are called, not what they mean.

use crate::input::Edit;
use crate::problem::{Problem, bad};
use gateway_domain::resource::integration::Integration;
use serde_json::{Map, Value, json};

const FAMILY: &str = "azure-openai";
const DEPLOYMENTS: &str = "deploymentConfig";

/// What a virtual key calls a setting, and what an integration does.
pub(super) const NAMES: [(&str, &str); 4] = [
    ("apiVersion", "azure_api_version"),
    ("resourceName", "azure_resource_name"),
    ("deploymentName", "azure_deployment_id"),
    (DEPLOYMENTS, "azure_deployment_config"),
];

/// What a virtual key calls a setting of one deployment, and what an integration does.
const INNER: &[(&str, &str)] = &[("apiVersion", "azure_api_version"), ("deploymentName", "azure_deployment_name")];

pub(super) struct AzureSettingsEdit {
    pub(super) api_version: Edit<Value>,
    pub(super) resource_name: Edit<Value>,
    pub(super) deployment_name: Edit<Value>,
    pub(super) deployment_config: Edit<Value>,
}

impl AzureSettingsEdit {
    /// The edits in the order of [`NAMES`].
    const fn each(&self) -> [&Edit<Value>; 4] {
        [&self.api_version, &self.resource_name, &self.deployment_name, &self.deployment_config]
    }

    /// The name of one that was given.
    pub(super) fn first(&self) -> Option<&'static str> {
        NAMES.iter().zip(self.each()).find(|(_, edit)| **edit != Edit::Keep).map(|((name, _), _)| *name)
    }

    /// The given values as settings of an integration. They mean nothing to another family than Azure's, which takes
    /// them only as null, since some clients always send the names.
    pub(super) fn configurations(&self, family: &str) -> Result<Map<String, Value>, Problem> {
        let mut out = Map::new();
        for (&(name, setting), edit) in NAMES.iter().zip(self.each()) {
            let value = match edit {
                Edit::Keep => continue,
                Edit::Clear => Value::Null,
                Edit::Set(_) if family != FAMILY => {
                    return Err(bad(name, format_args!("has no meaning for `{family}`")));
                }
                Edit::Set(list) if name == DEPLOYMENTS => deployments(list)?,
                Edit::Set(Value::String(text)) => text.as_str().into(),
                Edit::Set(_) => return Err(bad(name, "must be a string")),
            };
            if family == FAMILY {
                out.insert(setting.to_owned(), value);
            }
        }
        Ok(out)
    }
}

fn deployments(given: &Value) -> Result<Value, Problem> {
    const RULE: &str = "must be an array of objects with deploymentName and apiVersion";
    let list = given.as_array().ok_or_else(|| bad(DEPLOYMENTS, RULE))?;
    let mut out = Vec::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        let item = item.as_object().ok_or_else(|| bad(DEPLOYMENTS, RULE))?;
        for name in item.keys() {
            if !INNER.iter().any(|(known, _)| known == name) && !["alias", "is_default"].contains(&name.as_str()) {
                return Err(bad(format_args!("{DEPLOYMENTS}[{i}].{name}"), "is not a known field"));
            }
        }
        if let Some((missing, _)) = INNER.iter().find(|(name, _)| !item.get(*name).is_some_and(Value::is_string)) {
            return Err(bad(format_args!("{DEPLOYMENTS}[{i}].{missing}"), "is required, as a string"));
        }
        out.push(renamed(item, |name| INNER.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)));
    }
    Ok(out.into())
}

fn renamed<'n>(fields: &Map<String, Value>, to: impl Fn(&str) -> Option<&'n str>) -> Value {
    fields
        .iter()
        .map(|(name, value)| (to(name).unwrap_or(name).to_owned(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// What a virtual key shows of them.
pub(super) fn model_config(of: &Integration) -> Value {
    let stored = &of.configurations.cloud;
    let mut out = Map::new();
    for (name, setting) in &NAMES {
        let Some(text) = stored.get(*setting) else { continue };
        let value = if *name == DEPLOYMENTS { shown(text) } else { json!(text) };
        out.insert((*name).to_owned(), value);
    }
    Value::Object(out)
}

fn shown(text: &str) -> Value {
    let list: Vec<Map<String, Value>> = serde_json::from_str(text).unwrap_or_default();
    let old = |name: &str| INNER.iter().find(|(_, new)| *new == name).map(|(old, _)| *old);
    list.iter().map(|item| renamed(item, old)).collect::<Vec<_>>().into()
}

/// A rule of the integration, told of the name that the client sent.
pub(super) fn in_old_words(mut problem: Problem) -> Problem {
    for (name, setting) in &NAMES {
        let field = format!("configurations.{setting}");
        if problem.message.starts_with(&field) {
            problem.message.replace_range(..field.len(), name);
        }
    }
    problem
}
