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
    /// All of the text was counted, by the model's own tokenizer: the count is no estimate.
    pub is_exact: bool,
}

/// Too much is being counted to begin another count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBusyToCount;

pub trait TokenCounts: Send + Sync {
    /// Waits for threads that serve nobody.
    fn count_tokens(&self, model: Option<String>, subject: TokenSubject)
    -> Fut<'_, Result<TokenCount, TooBusyToCount>>;
}
