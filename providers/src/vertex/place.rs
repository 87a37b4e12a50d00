//! Where a model lives: project, region, publisher and name, from the settings and from how the client writes it.

use crate::adapter::Call;
use crate::compat::safe;
use gateway_domain::cloud::vertex_project;
use gateway_domain::{Fault, FaultKind};
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publisher {
    Google,
    Anthropic,
    Mistral,
    Meta,
    /// An endpoint of the project's own.
    Endpoint,
}

/// Prefixes as clients write them; with a dot or a slash.
static PREFIXES: &[(&str, Publisher)] = &[
    ("google", Publisher::Google),
    ("anthropic", Publisher::Anthropic),
    ("mistralai", Publisher::Mistral),
    ("meta", Publisher::Meta),
    ("endpoints", Publisher::Endpoint),
];

impl Publisher {
    /// The publisher of a model, and its name without what stands before it.
    pub(super) fn of(model: &str) -> (Self, &str) {
        if let Some(at) = model.find("publishers/").filter(|_| model.contains("/models/")) {
            let rest = &model[at + "publishers/".len()..];
            let publisher = rest.split('/').next().unwrap_or_default();
            let name = model.rsplit("/models/").next().unwrap_or(model);
            let known = PREFIXES.iter().find(|(prefix, _)| *prefix == publisher);
            return (known.map_or(Self::Google, |(_, publisher)| *publisher), name);
        }
        if let Some((_, id)) = model.split_once("/endpoints/") {
            return (Self::Endpoint, id);
        }
        for (prefix, publisher) in PREFIXES {
            let rest = model.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(['.', '/']));
            if let Some(rest) = rest {
                return (*publisher, rest);
            }
        }
        if model.starts_with("claude-") { (Self::Anthropic, model) } else { (Self::Google, model) }
    }

    /// Every way to write the same model, but for projects and regions.
    pub(super) fn spellings(model: &str) -> Vec<String> {
        let (publisher, name) = Self::of(model);
        let Some((prefix, _)) = PREFIXES.iter().find(|(_, known)| *known == publisher) else { return Vec::new() };
        let mut all = vec![format!("{prefix}.{name}"), format!("{prefix}/{name}")];
        if publisher != Self::Endpoint {
            all.extend([name.to_owned(), format!("publishers/{prefix}/models/{name}")]);
        }
        all
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Google | Self::Endpoint => "google",
            Self::Anthropic => "anthropic",
            Self::Mistral => "mistralai",
            Self::Meta => "meta",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct VertexModel<'c> {
    project: Cow<'c, str>,
    region: Cow<'c, str>,
    pub(super) publisher: Publisher,
    /// The model as the publisher's API names it.
    pub(super) name: Cow<'c, str>,
}

fn refused(field: &'static str, rule: &str) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

/// `projects/<project>/locations/<region>/…`.
fn located(model: &str) -> Option<(&str, &str)> {
    let mut parts = model.strip_prefix("projects/")?.split('/');
    let project = parts.next()?;
    (parts.next()? == "locations").then_some(())?;
    Some((project, parts.next()?))
}

/// Versions of partners' models stand behind an `@`.
fn fits(model: &str) -> bool {
    let (name, version) = model.split_once('@').unwrap_or((model, "latest"));
    safe(name) && safe(version) && !version.contains('/')
}

impl<'c> VertexModel<'c> {
    pub(super) fn of(call: &Call<'c>) -> Result<Self, Fault> {
        let model = call.model.ok_or_else(|| refused("model", "is needed: it is part of this provider's path"))?;
        if !fits(model) {
            let rule = "does not fit into a path: only letters, digits, `-`, `_`, `.`, `:`, `@` and single `/`";
            return Err(refused("model", rule));
        }
        let (publisher, name) = Publisher::of(model);
        if name.contains('/') {
            return Err(refused("model", "names no model of a publisher"));
        }
        let (project, region) = match located(model) {
            Some((project, region)) => (Cow::Borrowed(project), Cow::Borrowed(region)),
            None => {
                let needed = |name: &'static str| refused(name, "is needed: it is part of this provider's path");
                let project = vertex_project(call.settings).ok_or_else(|| needed("vertex_project_id"))?;
                let region = call.settings.get("vertex_region").ok_or_else(|| needed("vertex_region"))?;
                (Cow::Owned(project), Cow::Borrowed(region))
            }
        };
        if call.settings.get("vertex_region").is_some_and(|own| own != region) {
            return Err(refused("model", "is in another region than this provider's address"));
        }
        // In OpenAI's dialect a name has its publisher before it.
        let name = if publisher == Publisher::Meta { format!("meta/{name}").into() } else { Cow::Borrowed(name) };
        Ok(Self { project, region, publisher, name })
    }

    pub(super) fn with_name(&self, name: &'c str) -> Self {
        Self { name: Cow::Borrowed(name), ..self.clone() }
    }

    pub(super) fn model_path(&self, verb: &str) -> String {
        let Self { project, region, publisher, name } = self;
        let publisher = publisher.name();
        format!("/v1/projects/{project}/locations/{region}/publishers/{publisher}/models/{name}:{verb}")
    }

    /// The path of Cloud Speech, without settings that somebody saved there.
    pub(super) fn recognizer_path(&self) -> String {
        let Self { project, region, .. } = self;
        format!("/v2/projects/{project}/locations/{region}/recognizers/_:recognize")
    }

    /// The path of chat in OpenAI's dialect: Meta's models share an endpoint, a deployed model has its own.
    pub(super) fn chat_path(&self) -> String {
        let Self { project, region, publisher, name } = self;
        let endpoint = if *publisher == Publisher::Endpoint { name.as_ref() } else { "openapi" };
        format!("/v1/projects/{project}/locations/{region}/endpoints/{endpoint}/chat/completions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_of_names() {
        for (model, publisher, name) in [
            ("gemini-2.5-flash", Publisher::Google, "gemini-2.5-flash"),
            ("google/gemini-2.5-flash", Publisher::Google, "gemini-2.5-flash"),
            ("anthropic.claude-sonnet-4-5@20250929", Publisher::Anthropic, "claude-sonnet-4-5@20250929"),
            ("claude-sonnet-4-5@20250929", Publisher::Anthropic, "claude-sonnet-4-5@20250929"),
            ("mistralai/mistral-small-2503", Publisher::Mistral, "mistral-small-2503"),
            ("meta.llama-3.3-70b", Publisher::Meta, "llama-3.3-70b"),
            ("endpoints.1234", Publisher::Endpoint, "1234"),
            ("projects/p/locations/us-east5/endpoints/1234", Publisher::Endpoint, "1234"),
            ("projects/p/locations/us-east5/publishers/anthropic/models/claude-x", Publisher::Anthropic, "claude-x"),
            ("publishers/google/models/gemini-x", Publisher::Google, "gemini-x"),
        ] {
            assert_eq!(Publisher::of(model), (publisher, name), "{model}");
        }
    }
}
