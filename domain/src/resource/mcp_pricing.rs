//! What calls of an MCP server's tools cost: a price for each call, by tool or for all. Nothing is known of what the
//! server itself is paid for.

use crate::money::NanoUsd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct McpPricing {
    /// What a call costs of each tool that is not named in `tools`; `None`: no price is known for these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_usd_per_call: Option<f64>,
    /// The price of a call of each tool in US dollars, by the name that the tool has at its server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, f64>,
}

impl McpPricing {
    pub const MOST: usize = 1000;
    const DEAREST: f64 = 1000.0;

    pub fn is_empty(&self) -> bool {
        self.default_usd_per_call.is_none() && self.tools.is_empty()
    }

    /// `Err`: the field below it, and the rule that it breaks.
    pub fn check(&self) -> Result<(), (String, &'static str)> {
        const RULE: &str = "must be a number of 0..1000, in dollars";
        let good = |usd: f64| usd.is_finite() && (0.0..=Self::DEAREST).contains(&usd);
        if self.default_usd_per_call.is_some_and(|usd| !good(usd)) {
            return Err(("default_usd_per_call".to_owned(), RULE));
        }
        if self.tools.len() > Self::MOST {
            return Err(("tools".to_owned(), "must hold at most 1000 tools"));
        }
        for (name, usd) in &self.tools {
            if name.is_empty() || name.len() > 2048 {
                return Err(("tools".to_owned(), "must name tools in 1..2048 bytes"));
            }
            if !good(*usd) {
                return Err((format!("tools.{name}"), RULE));
            }
        }
        Ok(())
    }

    /// `None`: no price is known.
    pub fn of(&self, tool: &str) -> Option<NanoUsd> {
        let usd = self.tools.get(tool).copied().or(self.default_usd_per_call)?;
        #[expect(clippy::cast_possible_truncation, reason = "at most 1000 dollars, which was checked")]
        Some(NanoUsd((usd * 1e9).round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_costs_its_own_price_or_that_of_all() {
        let pricing = McpPricing { default_usd_per_call: Some(0.01), tools: [("dear".to_owned(), 1.5)].into() };
        assert_eq!(pricing.of("dear"), Some(NanoUsd(1_500_000_000)));
        assert_eq!(pricing.of("other"), Some(NanoUsd(10_000_000)));
        let named = McpPricing { default_usd_per_call: None, ..pricing };
        assert_eq!(named.of("other"), None);
        assert!(McpPricing::default().is_empty() && McpPricing::default().check().is_ok());
    }

    #[test]
    fn prices_that_mean_nothing_are_named() {
        let one = |usd: f64| McpPricing { default_usd_per_call: None, tools: [("t".to_owned(), usd)].into() };
        for usd in [-0.1, 1000.5, f64::NAN, f64::INFINITY] {
            assert_eq!(one(usd).check().expect_err("wrong").0, "tools.t");
            let default = McpPricing { default_usd_per_call: Some(usd), ..McpPricing::default() };
            assert_eq!(default.check().expect_err("wrong").0, "default_usd_per_call");
        }
        let many = |n: usize| McpPricing { tools: (0..n).map(|n| (n.to_string(), 1.0)).collect(), ..one(1.0) };
        assert!(many(McpPricing::MOST).check().is_ok() && many(McpPricing::MOST + 1).check().is_err());
        assert!(McpPricing { tools: [(String::new(), 1.0)].into(), ..one(1.0) }.check().is_err());
    }
}
