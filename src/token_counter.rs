//! Tokens counted for whoever asks the Admin API: beside the threads that serve, a few at a time.

use gateway_domain::ports::{Fut, TokenCount, TokenCounts, TokenSubject, TooBusyToCount};
use gateway_providers::tokens::{self, Tokenized};
use tokio::sync::Semaphore;

const AT_ONCE: usize = 4;

pub(crate) struct TokenCounter {
    seats: Semaphore,
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self { seats: Semaphore::new(AT_ONCE) }
    }
}

impl TokenCounts for TokenCounter {
    fn count_tokens(
        &self,
        model: Option<String>,
        subject: TokenSubject,
    ) -> Fut<'_, Result<TokenCount, TooBusyToCount>> {
        Box::pin(async move {
            let _seat = self.seats.try_acquire().map_err(|_| TooBusyToCount)?;
            let counted = tokio::task::spawn_blocking(move || count(model.as_deref(), &subject)).await;
            counted.map_err(|_| TooBusyToCount)
        })
    }
}

fn count(model: Option<&str>, subject: &TokenSubject) -> TokenCount {
    let Tokenized { tokens, tokenizer, is_exact } = match subject {
        TokenSubject::Text(text) => tokens::tokenize(model, text),
        // What stands around messages and tools is each model's own.
        TokenSubject::Request(body) => {
            Tokenized { tokens: tokens::prompt(body.as_bytes()), tokenizer: "o200k_base", is_exact: false }
        }
    };
    TokenCount { tokens, tokenizer, is_exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_are_counted_at_a_time() {
        let counter = TokenCounter::default();
        let ask = || counter.count_tokens(Some("gpt-4o".to_owned()), TokenSubject::Text("hello world".to_owned()));
        let taken = counter.seats.acquire_many(4).await.expect("open");
        assert_eq!(ask().await, Err(TooBusyToCount));
        drop(taken);
        assert_eq!(ask().await.map(|told| (told.tokens, told.is_exact)), Ok((2, true)));
    }
}
