//! The tokenizers that are here, by the models whose own they are. Every other model is counted by OpenAI's newest one,
//! which makes an estimate of it.

use super::{COUNTED, count_by};
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// The tokens of a text, as far as they can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokenized {
    pub tokens: u64,
    pub tokenizer: &'static str,
    /// It is the model's own, and the text was counted whole.
    pub is_exact: bool,
}

/// Counts a text as this model would. Loads a vocabulary: not for a thread that serves.
pub fn tokenize(model: Option<&str>, text: &str) -> Tokenized {
    let own = model.and_then(vocabulary);
    let (tokenizer, bpe) = own.unwrap_or_else(|| ("o200k_base", tiktoken_rs::o200k_base_singleton()));
    let tokens = count_by(bpe, text);
    // A run without a blank that is cut may be counted otherwise than whole.
    let is_whole = text.len() <= COUNTED && super::pieces(text).count() <= 1;
    Tokenized { tokens, tokenizer, is_exact: own.is_some() && is_whole }
}

fn vocabulary(model: &str) -> Option<(&'static str, &'static tiktoken_rs::CoreBPE)> {
    match get_tokenizer(model)? {
        Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(("o200k_base", tiktoken_rs::o200k_base_singleton())),
        Tokenizer::Cl100kBase => Some(("cl100k_base", tiktoken_rs::cl100k_base_singleton())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_own_tokenizer_or_an_estimate() {
        let text = "antidisestablishmentarianism, isn't it?";
        for (model, tokenizer, is_exact) in [
            (Some("gpt-4o-mini"), "o200k_base", true),
            (Some("gpt-4"), "cl100k_base", true),
            (Some("claude-sonnet-4"), "o200k_base", false),
            (None, "o200k_base", false),
        ] {
            let told = tokenize(model, text);
            assert_eq!((told.tokenizer, told.is_exact), (tokenizer, is_exact), "{model:?}");
            assert!((5..20).contains(&told.tokens), "{model:?}: {told:?}");
        }
        assert_eq!(tokenize(Some("gpt-4"), "hello world").tokens, 2);
        assert_eq!(tokenize(Some("gpt-4o"), "").tokens, 0);
    }

    #[test]
    fn what_is_too_long_to_be_counted_is_reckoned_and_said_to_be() {
        let long = "word ".repeat(40_000);
        let told = tokenize(Some("gpt-4o"), &long);
        assert!(!told.is_exact && (39_000..42_000).contains(&told.tokens), "{told:?}");
        let run = tokenize(Some("gpt-4o"), &"x".repeat(2_000));
        assert!(!run.is_exact, "{run:?}");
    }
}
