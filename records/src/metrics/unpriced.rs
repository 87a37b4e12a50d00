//! Usage without a price, by provider and model. Names of models come from clients, so only so many are told apart.

use prometheus::{IntCounterVec, Opts};
use std::collections::HashSet;
use std::sync::Mutex;

const MOST: usize = 200;
/// All that come behind those.
const OTHER: &str = "other";

#[derive(Debug)]
pub(super) struct UnpricedModels {
    pub(super) counts: IntCounterVec,
    known: Mutex<HashSet<(String, String)>>,
}

impl UnpricedModels {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let help = "Records with usage but no known price, by model: 200 of them, the rest as `other`";
        let counts = IntCounterVec::new(Opts::new("gateway_unpriced_models_total", help), &["provider", "model"])?;
        Ok(Self { counts, known: Mutex::default() })
    }

    pub(super) fn count(&self, provider: &str, model: &str) {
        let model: String = model.chars().take(128).collect();
        let pair = (provider.to_owned(), model);
        let is_told = self
            .known
            .lock()
            .is_ok_and(|mut known| known.contains(&pair) || (known.len() < MOST && known.insert(pair.clone())));
        let label = if is_told { pair.1.as_str() } else { OTHER };
        self.counts.with_label_values(&[provider, label]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_models_are_counted_together() {
        let models = UnpricedModels::new().expect("valid");
        for n in 0..MOST + 5 {
            models.count("openai", &format!("m{n}"));
        }
        models.count("openai", "m0");
        assert_eq!(models.counts.with_label_values(&["openai", OTHER]).get(), 5);
        assert_eq!(models.counts.with_label_values(&["openai", "m0"]).get(), 2);
    }
}
