//! The organisation: the tenant. Holds what is set once for all its workspaces.

use super::guardrail::DefaultGuardrails;
use super::pricing::Rates;
use super::security::Security;
use crate::export::LogField;
use crate::id::{OrgId, WorkspaceId};
use crate::key_set::{BadKeySet, KeySet};
use crate::time::Timestamp;
use crate::trust::{TokenRule, Trust};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Organisation {
    /// Acted on when an Admin key names no workspace.
    pub default_workspace: WorkspaceId,
    /// The organisation whose Admin key made it; `None`: it is the one of the first start, which alone makes others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<OrgId>,
    /// Refuses inline provider, config and host selection. Never set: decided
    /// by the day the organisation was made, see [`Self::BLOCKED_SINCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_inline_config: Option<bool>,
    /// Days after which the secret of a user key is replaced, for every new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_api_key_rotation_period: Option<u16>,
    #[serde(default)]
    pub security_settings: Security,
    /// Sections of the security settings that workspaces may set for themselves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub overridable_sections: BTreeSet<String>,
    /// Where the issuers of its tokens publish their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jwks_uris: Vec<String>,
    /// Keys of issuers, written down instead of fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// `false`: records keep numbers only, no headers and bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_log: Option<bool>,
    /// The request's debug header does not change that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforce_debug_log_setting: bool,
    /// Seconds that the response cache keeps an answer where a config does not say, and at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_max_age: Option<u32>,
    /// Managers may change and lift the limits that a workspace as a whole is held to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub managers_set_limits: bool,
    /// Inference keys reach the routes of the table of operations and no other of a provider's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known_routes_only: bool,
    /// Keys of metadata that its analytics keep sums by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub analytics_metadata_keys: BTreeSet<String>,
    /// Fields of logs that all its workspaces keep from exports, and from whoever holds no Admin key.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub denied_log_fields: BTreeSet<LogField>,
    /// What tokens must say of themselves beside being signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_rules: Vec<TokenRule>,
    /// Guardrails for all its workspaces that are not excluded.
    #[serde(default, skip_serializing_if = "DefaultGuardrails::is_empty")]
    pub default_guardrails: DefaultGuardrails,
    /// What models cost it, by `provider/model`, instead of what they cost everybody.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model_prices: BTreeMap<String, Rates>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Organisation {
    /// More issuers than one organisation has; each is asked again and again.
    pub const MOST_JWKS_URIS: usize = 10;

    /// Far more than anybody negotiates.
    pub const MOST_PRICES: usize = 1_000;

    /// Seconds: least and most of `cache_max_age`.
    pub const CACHE_AGE: RangeInclusive<u32> = 60..=25_923_000;

    /// The issuers whose tokens it accepts; `None`: it accepts none.
    pub fn trust(&self) -> Result<Option<Trust>, BadKeySet> {
        let inline = self.jwks.as_ref().map(KeySet::parse).transpose()?.unwrap_or_default();
        let uris = self.jwks_uris.iter().map(|uri| uri.as_str().into()).collect();
        let rules = self.token_rules.clone();
        Ok(Some(Trust { uris, inline: Arc::new(inline), rules }).filter(|t| !t.is_empty()))
    }

    /// 2026-06-19: organisations made since then refuse inline selection unless told otherwise.
    pub const BLOCKED_SINCE: Timestamp = Timestamp::from_secs(1_781_827_200);

    pub fn blocks_inline(&self, made: Timestamp) -> bool {
        self.block_inline_config.unwrap_or(made >= Self::BLOCKED_SINCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_selection_is_blocked_by_the_day_unless_told() {
        let day = |text: &str| text.parse::<Timestamp>().expect("a day");
        let doc = |json: &str| serde_json::from_str::<Organisation>(json).expect("an organisation");
        let plain = doc(r#"{"default_workspace": "00000000-0000-0000-0000-000000000000"}"#);
        assert_eq!(Organisation::BLOCKED_SINCE, day("2026-06-19"));
        assert!(plain.blocks_inline(day("2026-06-19")) && !plain.blocks_inline(day("2026-06-18T23:59:59Z")));
        let told = Organisation { block_inline_config: Some(false), ..plain };
        assert!(!told.blocks_inline(day("2026-12-01")));
    }
}
