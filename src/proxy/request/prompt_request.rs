//! Calls of saved prompts as their paths tell them. What a prompt says is read once the body is here.

use super::Route;
use bytes::Bytes;
use gateway_domain::operation::Body;
use gateway_domain::path::{decoded, normal};
use gateway_domain::prompt::FoundPrompt;
use gateway_domain::{Dialect, Operation};
use http::Method;
use std::sync::Arc;

/// What the path says.
#[derive(Clone, Debug)]
pub(crate) struct PromptAsk {
    /// The path as records tell it.
    pub(crate) path: Arc<str>,
    /// Slug or id, with a version behind it or not.
    pub(crate) name: String,
    pub(crate) verb: PromptVerb,
    /// The body of the call, for prompts that a config asks in the place of this one.
    pub(crate) sent: Bytes,
    /// Once the body was read.
    pub(crate) found: Option<FoundPrompt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptVerb {
    /// The model is asked.
    Complete,
    /// The request that would be sent is shown.
    Render,
}

/// Where such paths begin. A client with a base URL that ends in `/v1` says that twice for one of them.
const PREFIXES: [&str; 4] = ["/v1/v2/", "/v1/v1/", "/v1/", "/v2/"];

const CHAT: &str = "/v1/chat/completions";

/// `None` for every other path.
pub(crate) fn asked(method: &Method, path: &str) -> Option<PromptAsk> {
    let path = normal(path).ok()?;
    let rest = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)?.strip_prefix("prompts/"))?;
    let (name, verb) = rest.strip_suffix('/').unwrap_or(rest).split_once('/')?;
    let known = match verb {
        "completions" | "generate" => PromptVerb::Complete,
        "render" => PromptVerb::Render,
        _ => return None,
    };
    let wanted = *method == Method::POST && !name.is_empty();
    wanted.then(|| PromptAsk {
        path: format!("/v1/prompts/{name}/{verb}").into(),
        name: decoded(name).into_owned(),
        verb: known,
        sent: Bytes::new(),
        found: None,
    })
}

/// The route of the chat request that such a call becomes.
pub(crate) fn route() -> Route {
    Route {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        raw: false,
        body: Some(Body::Json),
        path: CHAT.into(),
        tail: "/v1".len()..CHAT.len(),
        query: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_prompts_are_told_by_their_paths() {
        let of = |path: &str| asked(&Method::POST, path).map(|ask| (ask.name, ask.verb, ask.path.to_string()));
        let complete = |name: &str, path: &str| Some((name.to_owned(), PromptVerb::Complete, path.to_owned()));
        for (path, expected) in [
            ("/v1/prompts/pp-a/completions", complete("pp-a", "/v1/prompts/pp-a/completions")),
            ("/v1/prompts/pp-a/completions/", complete("pp-a", "/v1/prompts/pp-a/completions")),
            ("/v2/prompts/pp-a@3/completions", complete("pp-a@3", "/v1/prompts/pp-a@3/completions")),
            ("/v1/v1/prompts/pp-a/generate", complete("pp-a", "/v1/prompts/pp-a/generate")),
            ("/v1/prompts/pp-a/versions", None),
            ("/v1/prompts/pp-a", None),
            ("/v1/prompts/pp-a/b/completions", None),
            ("/v1/proxy/prompts/pp-a/completions", None),
            ("/v1/chat/completions", None),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
        let name = of("/v1/prompts/pp-a%40production/render").map(|(name, ..)| name);
        assert_eq!(name.as_deref(), Some("pp-a@production"));
        assert!(asked(&Method::GET, "/v1/prompts/pp-a/completions").is_none());
    }
}
