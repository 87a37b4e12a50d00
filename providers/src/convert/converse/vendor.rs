//! Who made a model of Bedrock's, by its id: ids of models (`anthropic.claude-…`), inference profiles
//! (`us.anthropic.claude-…`) and ARNs of either. What a profile of one's own stands for is not in its name.

use crate::convert::messages::from_chat::generation::Generation;

/// Places that profiles across regions are named by
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html>).
const PLACES: &[&str] = &["us", "eu", "apac", "global", "us-gov", "jp", "au", "ca", "sa", "me"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maker<'a> {
    /// `anthropic.claude-sonnet-4-5-20250929-v1:0`, without place and ARN.
    model: &'a str,
}

impl<'a> Maker<'a> {
    pub(crate) fn of(model: &'a str) -> Self {
        let id = model.rsplit('/').next().unwrap_or(model);
        let placed = id.split_once('.').filter(|(place, _)| PLACES.contains(place));
        Self { model: placed.map_or(id, |(_, rest)| rest) }
    }

    /// The foundation model's own id.
    pub(crate) const fn model(self) -> &'a str {
        self.model
    }

    fn is(self, maker: &str) -> bool {
        self.model.strip_prefix(maker).is_some_and(|rest| rest.starts_with('.'))
    }

    /// The generation of a Claude model.
    pub(crate) fn claude(self) -> Option<Generation> {
        self.is("anthropic").then(|| Generation::of(self.model))
    }

    pub(crate) fn is_nova(self) -> bool {
        self.model.starts_with("amazon.nova")
    }

    pub(crate) fn is_titan(self) -> bool {
        self.model.starts_with("amazon.titan")
    }

    pub(crate) fn is_cohere(self) -> bool {
        self.is("cohere")
    }

    pub(crate) fn is_mistral(self) -> bool {
        self.is("mistral")
    }

    pub(crate) fn is_openai(self) -> bool {
        self.is("openai")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_profiles_and_arns() {
        let claude = "anthropic.claude-sonnet-4-5-20250929-v1:0";
        for model in [
            claude.to_owned(),
            format!("us.{claude}"),
            format!("global.{claude}"),
            format!("arn:aws:bedrock:us-east-1::foundation-model/{claude}"),
            format!("arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.{claude}"),
        ] {
            let maker = Maker::of(&model);
            assert_eq!(maker.model(), claude, "{model}");
            assert_eq!(maker.claude(), Some(Generation::of("claude-sonnet-4-5")), "{model}");
        }
        let own = Maker::of("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3");
        assert_eq!(own.claude(), None);
        assert!(Maker::of("us.amazon.nova-pro-v1:0").is_nova());
        assert!(Maker::of("cohere.embed-english-v3").is_cohere());
        assert!(!Maker::of("coherent.model").is_cohere());
    }
}
