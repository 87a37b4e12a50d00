//! Where people sign in for one MCP server, in place of the gateway, and what their tokens must say: read strictly.
//! What of the rules is not held to is refused by its name.

use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use crate::sso::check_address;
use gateway_domain::resource::mcp_external_auth::{ClaimMatch, ClaimValues, JwtValidation, McpExternalAuth};
use gateway_domain::token::KeySet;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const LONGEST: usize = 600;
const MOST_KEYS_BYTES: usize = 64 * 1024;
const LONGEST_AGE: u32 = 366 * 86_400;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenExternalAuth {
    issuer: String,
}

impl GivenExternalAuth {
    pub(super) fn read(self, call: &AdminCall) -> Result<McpExternalAuth, Problem> {
        const FIELD: &str = "configurations.external_auth_config";
        if call.app.public_url.is_none() {
            return Err(bad(FIELD, "needs --public-url: tokens are issued for addresses below it"));
        }
        let field = format!("{FIELD}.issuer");
        check_address(&self.issuer, &call.app.trusted).map_err(|rule| bad(&field, rule))?;
        let is_plain = self.issuer.len() <= LONGEST && self.issuer.bytes().all(|b| b.is_ascii_graphic());
        if !is_plain || self.issuer.contains(['?', '#']) {
            return Err(bad(&field, "must be the issuer's own name, a URL without query or fragment"));
        }
        Ok(McpExternalAuth { issuer: self.issuer })
    }
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GivenJwtValidation {
    jwks_uri: Option<String>,
    jwks: Option<Value>,
    algorithms: Option<Vec<String>>,
    clock_tolerance: Option<u32>,
    max_token_age: Option<u32>,
    #[serde(default)]
    required_claims: Vec<String>,
    #[serde(default)]
    claim_values: BTreeMap<String, ClaimValues>,
    /// The fields from here on are of the contract and not in this version: whoever gives one is refused.
    header_key: Option<Value>,
    header_payload_match: Option<Value>,
    cache_max_age: Option<Value>,
    introspect_endpoint: Option<Value>,
    introspect_content_type: Option<Value>,
    introspect_client_id: Option<Value>,
    introspect_client_secret: Option<Value>,
    introspect_cache_max_age: Option<Value>,
}

fn field(name: &str) -> String {
    format!("configurations.jwt_validation.{name}")
}

impl GivenJwtValidation {
    pub(super) fn read(self, call: &AdminCall) -> Result<JwtValidation, Problem> {
        let later = [
            ("headerKey", &self.header_key),
            ("headerPayloadMatch", &self.header_payload_match),
            ("cacheMaxAge", &self.cache_max_age),
            ("introspectEndpoint", &self.introspect_endpoint),
            ("introspectContentType", &self.introspect_content_type),
            ("introspectClientId", &self.introspect_client_id),
            ("introspectClientSecret", &self.introspect_client_secret),
            ("introspectCacheMaxAge", &self.introspect_cache_max_age),
        ];
        if let Some((name, _)) = later.iter().find(|(_, given)| given.is_some()) {
            return Err(bad(field(name), "is not available in this version"));
        }
        let usual = JwtValidation::default();
        let rules = JwtValidation {
            jwks_uri: self.jwks_uri,
            jwks: self.jwks,
            algorithms: self.algorithms.unwrap_or(usual.algorithms),
            clock_tolerance: self.clock_tolerance.unwrap_or(usual.clock_tolerance),
            max_token_age: self.max_token_age,
            required_claims: self.required_claims,
            claim_values: self.claim_values,
        };
        check_keys(&rules, call)?;
        check_times(&rules)?;
        check_claims(&rules)?;
        Ok(rules)
    }
}

fn check_keys(rules: &JwtValidation, call: &AdminCall) -> Result<(), Problem> {
    if let Some(uri) = &rules.jwks_uri {
        let bare = uri.split('?').next().unwrap_or(uri);
        check_address(bare, &call.app.trusted).map_err(|rule| bad(field("jwksUri"), rule))?;
        if uri.len() > LONGEST || !uri.bytes().all(|b| b.is_ascii_graphic()) || rules.jwks.is_some() {
            return Err(bad(field("jwksUri"), "must be a URL of at most 600 characters, and stands beside no jwks"));
        }
    }
    if let Some(jwks) = &rules.jwks {
        if jwks.to_string().len() > MOST_KEYS_BYTES {
            return Err(bad(field("jwks"), format_args!("must be at most {MOST_KEYS_BYTES} bytes")));
        }
        KeySet::parse(jwks).map_err(|rule| bad(field("jwks"), rule))?;
    }
    let known = |name: &String| JwtValidation::ALGORITHMS.contains(&name.as_str());
    if rules.algorithms.is_empty() || rules.algorithms.len() > 2 || !rules.algorithms.iter().all(known) {
        return Err(bad(field("algorithms"), "must be a list of RS256 and ES256"));
    }
    Ok(())
}

fn check_times(rules: &JwtValidation) -> Result<(), Problem> {
    if rules.clock_tolerance > JwtValidation::LONGEST_TOLERANCE {
        let rule = format_args!("must be 0..{} seconds", JwtValidation::LONGEST_TOLERANCE);
        return Err(bad(field("clockTolerance"), rule));
    }
    if rules.max_token_age.is_some_and(|age| !(1..=LONGEST_AGE).contains(&age)) {
        return Err(bad(field("maxTokenAge"), format_args!("must be 1..{LONGEST_AGE} seconds")));
    }
    Ok(())
}

fn check_claims(rules: &JwtValidation) -> Result<(), Problem> {
    let is_text = |text: &str| (1..=JwtValidation::LONGEST_TEXT).contains(&text.len());
    let names = rules.required_claims.len() <= JwtValidation::MOST_CLAIMS;
    if !names || !rules.required_claims.iter().all(|name| is_text(name)) {
        let rule = format_args!("must be at most {} names of claims", JwtValidation::MOST_CLAIMS);
        return Err(bad(field("requiredClaims"), rule));
    }
    if rules.claim_values.len() > JwtValidation::MOST_CLAIMS || !rules.claim_values.keys().all(|name| is_text(name)) {
        let rule = format_args!("must name at most {} claims", JwtValidation::MOST_CLAIMS);
        return Err(bad(field("claimValues"), rule));
    }
    for (name, wanted) in &rules.claim_values {
        let of = || field(&format!("claimValues.{name}.values"));
        let counts = (1..=JwtValidation::MOST_VALUES).contains(&wanted.values.len());
        if !counts || !wanted.values.iter().all(|value| is_text(value)) {
            let (most, longest) = (JwtValidation::MOST_VALUES, JwtValidation::LONGEST_TEXT);
            return Err(bad(of(), format_args!("must be 1..{most} texts of at most {longest} bytes")));
        }
        let patterns = wanted.match_type == ClaimMatch::Regex;
        if patterns && wanted.values.iter().any(|value| ClaimValues::pattern(value).is_none()) {
            return Err(bad(of(), "must be patterns that can be read, of a bounded size"));
        }
    }
    Ok(())
}
