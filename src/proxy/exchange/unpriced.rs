//! Calls that a limit on money has to do with, and that nobody knows the price of: such a limit counts nothing of them,
//! which its owner should hear of. Each model is warned of once.

use crate::metrics::Metrics;
use std::collections::HashSet;
use std::sync::Mutex;

/// Models that are warned of by name. Names come from clients.
const MOST: usize = 1_000;

#[derive(Debug)]
pub(crate) struct UnpricedCalls {
    warned: Mutex<HashSet<(&'static str, String)>>,
    metrics: Metrics,
}

impl UnpricedCalls {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { warned: Mutex::default(), metrics }
    }

    pub(crate) fn saw(&self, provider: &'static str, model: Option<&str>) {
        self.metrics.pass_a_money_limit();
        let model: String = model.unwrap_or_default().chars().take(200).collect();
        let Ok(mut warned) = self.warned.lock() else { return };
        if warned.len() < MOST && warned.insert((provider, model.clone())) {
            tracing::warn!(provider, model, "a limit on money counts nothing of calls whose price is not known");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsOptions;

    #[test]
    fn names_are_bounded() {
        let calls = UnpricedCalls::new(Metrics::new(MetricsOptions::default()).expect("metrics"));
        for n in 0..MOST + 10 {
            calls.saw("openai", Some(&format!("m{n}")));
        }
        assert_eq!(calls.warned.lock().expect("held by nobody").len(), MOST);
    }
}
