//! Which models a key or token may call, by their names and by the providers that they are called through. Knows no
//! provider: whoever asks says by which names a model goes.

use crate::glob::Glob;
use crate::model_name::split_model;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The models that may be called, and no others. Stored as a list of texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ModelReach(Arc<[ReachEntry]>);

#[derive(Debug)]
struct ReachEntry {
    written: String,
    whole: Glob,
    /// Both parts of an entry that is written `@slug/model`.
    apart: Option<ProviderModel>,
}

#[derive(Debug)]
struct ProviderModel {
    provider: Glob,
    model: Glob,
}

/// What is wrong with a list: the place in it, unless it is wrong as a whole, and the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelReachFlaw {
    pub at: Option<usize>,
    pub rule: &'static str,
}

const MOST: usize = 200;
const LONGEST: usize = 255;
/// Wildcards in one entry.
const MOST_STARS: usize = 4;

impl ModelReach {
    pub fn of(list: Vec<String>) -> Result<Self, ModelReachFlaw> {
        if list.is_empty() || list.len() > MOST {
            return Err(ModelReachFlaw { at: None, rule: "must name 1..200 models" });
        }
        let flawed = list.iter().enumerate().find_map(|(at, entry)| Some((at, flaw(entry)?)));
        if let Some((at, rule)) = flawed {
            return Err(ModelReachFlaw { at: Some(at), rule });
        }
        Ok(Self(list.into_iter().map(ReachEntry::of).collect()))
    }

    /// Whether a model may be called by one of these names. `provider`: the slug of the managed provider that it is
    /// called through, empty where there is none.
    pub fn allows<'n>(&self, provider: &str, mut names: impl Iterator<Item = &'n str>) -> bool {
        names.any(|name| self.0.iter().any(|entry| entry.covers(provider, name)))
    }

    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.written.as_str())
    }
}

impl ReachEntry {
    fn of(written: String) -> Self {
        let compile = |(provider, model): (&str, &str)| ProviderModel {
            provider: Glob::compile(provider),
            model: Glob::compile(model),
        };
        Self { whole: Glob::compile(&written), apart: split_model(&written).map(compile), written }
    }

    /// A model of Cloudflare's is called `@cf/…` itself, whatever it is called through.
    fn covers(&self, provider: &str, name: &str) -> bool {
        let through = |apart: &ProviderModel| apart.provider.matches(provider) && apart.model.matches(name);
        self.whole.matches(name) || (!provider.is_empty() && self.apart.as_ref().is_some_and(through))
    }
}

fn flaw(entry: &str) -> Option<&'static str> {
    if entry.is_empty() || entry.len() > LONGEST || entry.chars().any(char::is_control) {
        return Some("must have 1..255 bytes, without control characters");
    }
    if entry.starts_with('@') && split_model(entry).is_none() {
        return Some("must be a model, or @slug/model");
    }
    (entry.matches('*').count() > MOST_STARS).then_some("may hold '*' four times at most")
}

impl TryFrom<Vec<String>> for ModelReach {
    type Error = &'static str;

    fn try_from(list: Vec<String>) -> Result<Self, Self::Error> {
        Self::of(list).map_err(|flaw| flaw.rule)
    }
}

impl From<ModelReach> for Vec<String> {
    fn from(reach: ModelReach) -> Self {
        reach.written().map(str::to_owned).collect()
    }
}

impl PartialEq for ModelReach {
    fn eq(&self, other: &Self) -> bool {
        self.written().eq(other.written())
    }
}

impl Eq for ModelReach {}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(list: &[&str]) -> ModelReach {
        ModelReach::of(list.iter().map(|entry| (*entry).to_owned()).collect()).expect("a list")
    }

    #[test]
    fn models_are_named_alone_or_with_their_provider() {
        let some = reach(&["gpt-4o", "claude-*", "@main/o3*", "@*-eu/mistral", "@cf/meta/*"]);
        for (provider, name, expected) in [
            ("", "gpt-4o", true),
            ("any", "gpt-4o", true),
            ("any", "gpt-4o-mini", false),
            ("any", "claude-sonnet-4", true),
            ("main", "o3-mini", true),
            ("other", "o3-mini", false),
            ("", "o3-mini", false),
            ("x-eu", "mistral", true),
            ("x-us", "mistral", false),
            ("workers", "@cf/meta/llama-3", true),
            ("workers", "@cf/other/llama-3", false),
            ("cf", "meta/llama", true),
        ] {
            assert_eq!(some.allows(provider, std::iter::once(name)), expected, "@{provider}/{name}");
        }
        assert!(some.allows("any", ["models/gpt-4o", "gpt-4o"].into_iter()), "by any of its names");
        assert!(!reach(&["@*/*"]).allows("", std::iter::once("gpt-4o")), "called through no provider of the workspace");
        assert!(reach(&["*"]).allows("", std::iter::once("gpt-4o")));
    }

    #[test]
    fn entries_that_mean_nothing_are_named() {
        for bad in ["", "@", "@main", "@main/", "@/x", "a*b*c*d*e*", "a\nb", &"x".repeat(256)] {
            let flaw = ModelReach::of(vec!["ok".to_owned(), bad.to_owned()]).expect_err(bad);
            assert_eq!(flaw.at, Some(1), "{bad}");
        }
        for list in [Vec::new(), vec!["a".to_owned(); 201]] {
            assert_eq!(ModelReach::of(list).expect_err("a number of them").at, None);
        }
    }

    #[test]
    fn it_is_kept_as_it_was_written() {
        let kept = serde_json::to_string(&reach(&["b", "@p/*"])).expect("a text");
        assert_eq!(kept, r#"["b","@p/*"]"#);
        assert_eq!(serde_json::from_str::<ModelReach>(&kept).expect("a list"), reach(&["b", "@p/*"]));
        assert!(serde_json::from_str::<ModelReach>("[]").is_err());
    }
}
