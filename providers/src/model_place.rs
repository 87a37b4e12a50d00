//! Where a call that goes up as it came names its model: in its path, its query or its body. What an address says
//! beats the body, since it is what the provider goes by. Reads addresses only; whose they are is the adapters' to say.

use gateway_domain::cloud::CloudSettings;
use gateway_domain::path::decoded;

/// A call that goes up as it came, as far as its head tells.
#[derive(Clone, Copy, Debug)]
pub struct Untouched<'a> {
    /// Normal form of the path below `/v1` or `/v1/proxy`.
    pub tail: &'a str,
    /// The query, without its `?`.
    pub query: Option<&'a str>,
    pub settings: &'a CloudSettings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelPlace {
    /// The model that the address names, written as the provider's other routes write it.
    Named(String),
    /// The top-level `model` of the body is what the provider goes by.
    Body,
    /// The model is named elsewhere, or nowhere: a `model` in the body means nothing.
    Unknown,
}

/// How the rows of providers that are no cloud name models in addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    OpenAi,
    /// `models/{model}:{verb}`.
    Google,
    /// The segments behind the one named first, up to one of the others or the path's end. A path without them is read
    /// as OpenAI's if it ends like one of those.
    Behind(&'static str, &'static [&'static str]),
    /// The segment behind the one of this name, if a verb that invokes a model follows. A path without it is read as
    /// OpenAI's if it ends like one of those.
    Invoked(&'static str),
    /// The first segment is the model.
    First,
    /// All of the path is.
    Whole,
    /// A field of the body that is not `model` names it.
    Elsewhere,
}

impl Naming {
    pub(crate) fn place(self, call: &Untouched<'_>) -> ModelPlace {
        let parts = segments(call.tail);
        match self {
            Self::OpenAi => openai(call),
            Self::Google => google(call),
            Self::Behind(mark, ends) => match behind(&parts, mark, ends) {
                Some(name) => ModelPlace::Named(name),
                None if speaks_openai(&parts) => openai(call),
                None => ModelPlace::Unknown,
            },
            Self::Invoked(mark) => match invoked(&parts, mark) {
                Some(name) => ModelPlace::Named(name.to_owned()),
                None if speaks_openai(&parts) => openai(call),
                None => ModelPlace::Unknown,
            },
            Self::First if speaks_openai(&parts) => openai(call),
            Self::First => parts.into_iter().next().map_or(ModelPlace::Unknown, ModelPlace::Named),
            Self::Whole if parts.is_empty() => ModelPlace::Unknown,
            Self::Whole => ModelPlace::Named(parts.join("/")),
            Self::Elsewhere => ModelPlace::Unknown,
        }
    }
}

/// OpenAI and whoever speaks as it does: the body, but for engines, sockets, and what is done later or piece by piece.
pub(crate) fn openai(call: &Untouched<'_>) -> ModelPlace {
    const ELSEWHERE: &[&str] = &["batches", "files", "uploads", "evals", "graders"];
    let parts = segments(call.tail);
    if let Some(engine) = next_to(&parts, "engines") {
        return ModelPlace::Named(engine.to_owned());
    }
    if let Some(at) = parts.iter().position(|part| is(part, "realtime")) {
        return match parts.get(at + 1).map(String::as_str) {
            None => in_query(call.query, &["model"]),
            Some("sessions" | "transcription_sessions") => ModelPlace::Body,
            Some(_) => ModelPlace::Unknown,
        };
    }
    let elsewhere = parts.iter().any(|part| ELSEWHERE.iter().any(|word| is(part, word)));
    if elsewhere { ModelPlace::Unknown } else { ModelPlace::Body }
}

/// Azure: dated versions have deployments in the path, sockets name one in the query; else it is OpenAI's API.
pub(crate) fn azure(call: &Untouched<'_>) -> ModelPlace {
    let parts = segments(call.tail);
    let place = match next_to(&parts, "deployments") {
        Some(deployment) => ModelPlace::Named(deployment.to_owned()),
        None if parts.last().is_some_and(|part| is(part, "realtime")) => in_query(call.query, &["deployment", "model"]),
        None => openai(call),
    };
    match place {
        ModelPlace::Named(name) => ModelPlace::Named(
            gateway_domain::cloud::azure::name_of_deployment(call.settings, &name).unwrap_or(&name).to_owned(),
        ),
        other => other,
    }
}

/// Gemini: `models/{model}:{verb}` wherever it stands.
pub(crate) fn google(call: &Untouched<'_>) -> ModelPlace {
    const IN_BODY: &[&str] = &["openai", "interactions", "cachedContents"];
    let parts = segments(call.tail);
    for (kind, name) in parts.iter().zip(parts.iter().skip(1)).rev() {
        let model = name.rsplit_once(':').map_or(name.as_str(), |(model, _)| model);
        if is(kind, "models") {
            return ModelPlace::Named(model.to_owned());
        }
        if is(kind, "tunedModels") {
            return ModelPlace::Named(format!("tunedModels/{model}"));
        }
    }
    let in_body = speaks_openai(&parts) || parts.iter().any(|part| IN_BODY.iter().any(|word| is(part, word)));
    if in_body { ModelPlace::Body } else { ModelPlace::Unknown }
}

/// Vertex AI: as Gemini, or an endpoint of the project's own. Claude's counter is a model of its own, and is told in
/// the body for which one it counts; so is OpenAI's dialect.
pub(crate) fn vertex(call: &Untouched<'_>) -> ModelPlace {
    let parts = segments(call.tail);
    if let Some(endpoint) = next_to(&parts, "endpoints") {
        let id = endpoint.split(':').next().unwrap_or_default();
        let shared = is(id, "openapi");
        return if shared { ModelPlace::Body } else { ModelPlace::Named(format!("endpoints.{id}")) };
    }
    match google(call) {
        ModelPlace::Named(model) if is(&model, "count-tokens") => ModelPlace::Body,
        place => place,
    }
}

/// Bedrock: `model/{id}/{verb}`, where an id may be an ARN with encoded slashes; else what it has of OpenAI's and
/// Anthropic's APIs.
pub(crate) fn bedrock(call: &Untouched<'_>) -> ModelPlace {
    let mut parts = call.tail.split('/').filter(|part| !part.is_empty());
    if parts.next().is_some_and(|part| is(&decoded(part), "model"))
        && let Some(id) = parts.next()
    {
        return ModelPlace::Named(decoded(id).into_owned());
    }
    if speaks_openai(&segments(call.tail)) { openai(call) } else { ModelPlace::Unknown }
}

/// Decoded before it is cut: an encoded slash leads nowhere else.
fn segments(tail: &str) -> Vec<String> {
    decoded(tail).split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Servers that read paths without their case must not be led past.
fn is(part: &str, word: &str) -> bool {
    part.eq_ignore_ascii_case(word)
}

fn next_to<'p>(parts: &'p [String], word: &str) -> Option<&'p str> {
    let at = parts.iter().position(|part| is(part, word))?;
    parts.get(at + 1).map(String::as_str)
}

fn behind(parts: &[String], mark: &str, ends: &[&str]) -> Option<String> {
    let at = parts.iter().position(|part| is(part, mark))?;
    let name: Vec<&str> =
        parts[at + 1..].iter().map(String::as_str).take_while(|part| !ends.iter().any(|end| is(part, end))).collect();
    (!name.is_empty()).then(|| name.join("/"))
}

fn invoked<'p>(parts: &'p [String], mark: &str) -> Option<&'p str> {
    const VERBS: &[&str] = &["invocations", "invocations-response-stream", "async-invocations", "openai"];
    let at = parts.iter().position(|part| is(part, mark))?;
    let verb = parts.get(at + 2)?;
    VERBS.iter().any(|word| is(verb, word)).then(|| parts[at + 1].as_str())
}

/// Ends like one of the paths whose body names a model.
fn speaks_openai(parts: &[String]) -> bool {
    const LAST: &[&str] = &["completions", "responses", "messages", "count_tokens", "embeddings"];
    parts.last().is_some_and(|part| LAST.iter().any(|word| is(part, word)))
}

/// Two values that differ name nothing: nobody knows which one counts.
fn in_query(query: Option<&str>, names: &[&str]) -> ModelPlace {
    let mut found: Option<String> = None;
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !names.iter().any(|name| is(&decoded(key), name)) {
            continue;
        }
        let value = decoded(value).into_owned();
        if value.is_empty() || found.as_ref().is_some_and(|have| *have != value) {
            return ModelPlace::Unknown;
        }
        found = Some(value);
    }
    found.map_or(ModelPlace::Unknown, ModelPlace::Named)
}

#[cfg(test)]
mod tests;
