//! Tokens counted for whoever asks, by the tokenizers that are here.

use super::Fut;

/// What is to be counted.
#[derive(Clone, Debug)]
pub enum TokenSubject {
    Text(String),
    /// The JSON body of a request.
    Request(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCount {
    pub tokens: u64,
    pub tokenizer: &'static str,
    /// By the model's own tokenizer, and whole.
    pub is_exact: bool,
}

/// As much is being counted as may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBusyToCount;

pub trait TokenCounts: Send + Sync {
    /// Waits for threads that serve nobody.
    fn count_tokens(&self, model: Option<String>, subject: TokenSubject)
    -> Fut<'_, Result<TokenCount, TooBusyToCount>>;
}
