//! The claims of a token, read once its signature is known to be good.

mod limits;

pub use limits::Claimed;

use crate::id::{ClaimId, GrantId, McpServerId};
use crate::metadata::{self, MetadataRefusal};
use crate::resource::limits::ResourceLimits;
use crate::resource::mcp_reach::McpReach;
use crate::resource::model_reach::ModelReach;
use crate::scope::{Scope, Scopes};
use crate::time::Timestamp;
use crate::trust::{BadClaim, TokenIssue, bad};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Issuers' clocks may run this far ahead of ours.
const AHEAD_MICROS: i64 = 5_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// Id or slug.
    pub workspace: Option<String>,
    /// What it names, as far as tokens may: reading, and using the data plane.
    pub scopes: Scopes,
    pub user: Option<String>,
    /// Who says so, by its own name.
    pub issuer: Option<String>,
    /// The audiences that the token was issued for.
    pub audience: Vec<String>,
    /// Whom the issuer means, else whom it calls the user.
    pub subject: Option<String>,
    /// Default config, by id or slug; one that does not exist is as good as none.
    pub config: Option<String>,
    pub metadata: Vec<(String, String)>,
    pub limits: Vec<Claimed>,
    /// What it may do on MCP servers by the scopes that the protocol has for them.
    pub mcp: McpGrant,
    /// What of MCP servers it opens, where it says so.
    pub mcp_access: Option<Arc<McpReach>>,
    /// Which models it may call, where it says so.
    pub allowed_models: Option<ModelReach>,
    pub expires_at: Timestamp,
    pub not_before: Option<Timestamp>,
}

impl Claims {
    /// The organisation that an unverified token names.
    pub fn organisation(claims: &Map<String, Value>) -> Option<&str> {
        ["gateway_oid", "organisation_id"].iter().find_map(|name| claims.get(*name)?.as_str())
    }

    pub fn read(claims: &Map<String, Value>) -> Result<Self, BadClaim> {
        let first = |names: &[&'static str]| -> Result<Option<String>, BadClaim> {
            let Some((name, value)) = names.iter().find_map(|n| Some((*n, claims.get(*n)?))) else { return Ok(None) };
            let text = value.as_str().filter(|t| !t.is_empty() && t.len() <= 255);
            text.map(|t| Some(t.to_owned())).ok_or(bad(name, "must be a text of 1..255 characters"))
        };
        let defaults = match claims.get("defaults") {
            None | Some(Value::Null) => None,
            Some(Value::Object(defaults)) => Some(defaults),
            Some(_) => return Err(bad("defaults", "must be an object")),
        };
        let config = match defaults.and_then(|d| d.get("config_id")) {
            None | Some(Value::Null) => None,
            Some(Value::String(config)) => Some(config.clone()),
            Some(_) => return Err(bad("defaults.config_id", "must be a text")),
        };
        let named = scopes(claims)?;
        let user = first(&["email_id", "sub", "uid"])?;
        Ok(Self {
            workspace: first(&["gateway_workspace", "workspace_slug"])?,
            scopes: named.iter().filter_map(|n| Scope::parse(n)).collect::<Scopes>().meet(&Scopes::for_reading()),
            mcp: McpGrant::of(&named),
            issuer: first(&["iss"])?,
            audience: audience(claims.get("aud"))?,
            subject: first(&["sub"])?.or_else(|| user.clone()),
            user,
            config,
            metadata: metadata(defaults.and_then(|d| d.get("metadata")))?,
            limits: limits::read(claims)?,
            mcp_access: mcp_access(claims.get("mcp_access"))?,
            allowed_models: allowed_models(claims.get("allowed_models"))?,
            expires_at: date(claims, "exp")?.ok_or(bad("exp", "is required"))?,
            not_before: date(claims, "nbf")?,
        })
    }

    /// Whether it is over or not yet to be used.
    pub fn check_time(&self, now: Timestamp) -> Result<(), BadClaim> {
        if self.expires_at <= now {
            return Err(bad("exp", "says that it has expired"));
        }
        match self.not_before {
            Some(from) if from > now.plus_micros(AHEAD_MICROS) => Err(bad("nbf", "says that it is not valid yet")),
            _ => Ok(()),
        }
    }
}

/// All names; those that are no scopes of ours belong to the issuer's other services.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<&str>, BadClaim> {
    const RULE: &str = "must be a text or an array of texts";
    let mut found = Vec::new();
    for name in ["scope", "scopes"] {
        match claims.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => found.extend(text.split_ascii_whitespace()),
            Some(Value::Array(many)) => {
                for one in many {
                    found.extend(one.as_str().ok_or(bad(name, RULE))?.split_ascii_whitespace());
                }
            }
            Some(_) => return Err(bad(name, RULE)),
        }
    }
    Ok(found)
}

/// What `mcp`, `mcp:read` and `mcp:write` among the scopes of a token allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpGrant {
    pub reads: bool,
    pub writes: bool,
}

impl McpGrant {
    /// Reads a text of scopes with blanks between them.
    pub fn read(scope: &str) -> Self {
        Self::of(&scope.split_ascii_whitespace().collect::<Vec<_>>())
    }

    fn of(scopes: &[&str]) -> Self {
        let writes = scopes.iter().any(|scope| matches!(*scope, "mcp" | "mcp:write"));
        Self { reads: writes || scopes.contains(&"mcp:read"), writes }
    }
}

fn mcp_access(value: Option<&Value>) -> Result<Option<Arc<McpReach>>, BadClaim> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let read = McpReach::deserialize(value).ok().filter(|reach| reach.check().is_ok());
    let reach =
        read.ok_or(bad("mcp_access", "must hold lists `allow` and `deny` of at most 200 slugs or slug/name"))?;
    Ok((!reach.is_empty()).then(|| Arc::new(reach)))
}

fn allowed_models(value: Option<&Value>) -> Result<Option<ModelReach>, BadClaim> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let read = ModelReach::deserialize(value).ok();
    read.map(Some).ok_or(bad("allowed_models", "must be a list of 1..200 texts, each a model or @slug/model"))
}

fn metadata(value: Option<&Value>) -> Result<Vec<(String, String)>, BadClaim> {
    const CLAIM: &str = "defaults.metadata";
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(given)) => metadata::read(given).map_err(|refused| match refused {
            MetadataRefusal::TooMany => bad(CLAIM, "must be an object of at most 64 texts"),
            MetadataRefusal::LongKey(_) => bad(CLAIM, "must have keys of at most 128 characters"),
            MetadataRefusal::LongValue(_) | MetadataRefusal::NoText(_) => {
                bad(CLAIM, "must hold texts of at most 128 characters")
            }
        }),
        Some(_) => Err(bad(CLAIM, "must be an object of at most 64 texts")),
    }
}

/// One text or an array of them (RFC 7519, 4.1.3).
fn audience(value: Option<&Value>) -> Result<Vec<String>, BadClaim> {
    const RULE: &str = "must be a text or an array of at most 64 texts";
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(many)) if many.len() <= 64 => {
            many.iter().map(|one| one.as_str().map(str::to_owned).ok_or(bad("aud", RULE))).collect()
        }
        Some(_) => Err(bad("aud", RULE)),
    }
}

/// RFC 7519 NumericDate: seconds, perhaps with a fraction.
fn date(claims: &Map<String, Value>, name: &'static str) -> Result<Option<Timestamp>, BadClaim> {
    /// 9999-12-31, beyond which the fraction would lose its meaning and arithmetic its range.
    const MOST: f64 = 253_402_300_799.0;
    let Some(value) = claims.get(name).filter(|v| !v.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|s| (0.0..=MOST).contains(s));
    let seconds = seconds.ok_or(bad(name, "must be a number of seconds since 1970"))?;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let micros = (seconds * 1e6) as i64;
    Ok(Some(Timestamp(micros)))
}

/// What only a token has.
#[derive(Debug)]
pub struct Token {
    pub limits: Vec<ClaimedLimits>,
    /// The audiences that the token was issued for.
    pub audience: Vec<String>,
    pub mcp: McpGrant,
    /// The grant behind a token that the gateway issued itself; `None` for tokens of other issuers.
    pub grant: Option<GrantId>,
    /// The one MCP server whose own issuer signed the token; `None` for tokens of all other issuers.
    pub server: Option<McpServerId>,
}

/// What a token is limited to, together with all tokens that are counted as it is.
#[derive(Debug)]
pub struct ClaimedLimits {
    pub id: ClaimId,
    /// The name that people are shown: the id that the token gives its limits, else the token's subject.
    pub name: Arc<str>,
    pub limits: ResourceLimits,
}

impl Claims {
    pub fn issue(&self) -> TokenIssue<'_> {
        TokenIssue { issuer: self.issuer.as_deref(), audience: &self.audience }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(claims: &Value) -> Result<Claims, BadClaim> {
        Claims::read(claims.as_object().expect("an object"))
    }

    #[test]
    fn claims_are_read_as_documented() {
        let claims = read(&json!({
            "gateway_workspace": "prod", "workspace_slug": "other", "scope": "openid gateway.completions.write",
            "scopes": ["virtual_keys.list", "configs.create"], "sub": "u1", "uid": "u2", "exp": 1_900_000_000.5,
            "nbf": 10, "defaults": {"config_id": "pc-1", "metadata": {"team": "a"}},
        }));
        let claims = claims.expect("good claims");
        assert_eq!(claims.workspace.as_deref(), Some("prod"));
        // What changes a setting is not to be had by token.
        assert_eq!(claims.scopes.names(), ["virtual_keys.list", "completions.write"]);
        let mcp = |scope: &str| read(&json!({"exp": 1, "scope": scope})).expect("good").mcp;
        assert_eq!(mcp("openid mcp:read"), McpGrant { reads: true, writes: false });
        assert_eq!(
            (mcp("mcp"), mcp("mcp:write").reads, mcp("mcp2")),
            (McpGrant { reads: true, writes: true }, true, McpGrant::default())
        );
        assert_eq!((claims.user.as_deref(), claims.config.as_deref()), (Some("u1"), Some("pc-1")));
        assert_eq!(claims.metadata, [("team".to_owned(), "a".to_owned())]);
        assert_eq!(claims.expires_at, Timestamp(1_900_000_000_500_000));
        assert_eq!(claims.not_before, Some(Timestamp(10_000_000)));
        let user = |extra: Value| read(&extra).expect("good").user;
        assert_eq!(user(json!({"exp": 1, "email_id": "a@x.com", "sub": "s"})).as_deref(), Some("a@x.com"));
        assert_eq!(user(json!({"exp": 1, "uid": "s"})).as_deref(), Some("s"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (claims, claim) in [
            (json!({}), "exp"),
            (json!({"exp": "soon"}), "exp"),
            (json!({"exp": -1}), "exp"),
            (json!({"exp": 1e300}), "exp"),
            (json!({"exp": 1, "nbf": true}), "nbf"),
            (json!({"exp": 1, "scope": 3}), "scope"),
            (json!({"exp": 1, "scopes": [3]}), "scopes"),
            (json!({"exp": 1, "sub": 3}), "sub"),
            (json!({"exp": 1, "aud": 3}), "aud"),
            (json!({"exp": 1, "aud": ["a", 3]}), "aud"),
            (json!({"exp": 1, "gateway_workspace": ""}), "gateway_workspace"),
            (json!({"exp": 1, "defaults": []}), "defaults"),
            (json!({"exp": 1, "mcp_access": {"allow": "files"}}), "mcp_access"),
            (json!({"exp": 1, "mcp_access": {"allow": ["fi*les"]}}), "mcp_access"),
            (json!({"exp": 1, "mcp_access": {"only": []}}), "mcp_access"),
            (json!({"exp": 1, "allowed_models": []}), "allowed_models"),
            (json!({"exp": 1, "allowed_models": "gpt-4o"}), "allowed_models"),
            (json!({"exp": 1, "defaults": {"config_id": 1}}), "defaults.config_id"),
            (json!({"exp": 1, "defaults": {"metadata": {"a": 1}}}), "defaults.metadata"),
        ] {
            assert_eq!(read(&claims).map_err(|b| b.claim), Err(claim), "{claims}");
        }
    }

    #[test]
    fn issuer_and_audience_are_held_to_what_was_set() {
        use crate::token::{TokenRule, Trust};
        let rule = |iss: Option<&str>, aud: &[&str]| TokenRule {
            jwks_uri: Some("https://a.example/keys".to_owned()),
            iss: iss.map(str::to_owned),
            aud: aud.iter().map(|a| (*a).to_owned()).collect(),
        };
        for (said, rule, wrong) in [
            (json!({"exp": 1}), rule(None, &[]), None),
            (json!({"exp": 1, "iss": "a", "aud": "x"}), rule(None, &[]), None),
            (json!({"exp": 1, "iss": "a"}), rule(Some("a"), &[]), None),
            (json!({"exp": 1, "iss": "b"}), rule(Some("a"), &[]), Some("iss")),
            (json!({"exp": 1}), rule(Some("a"), &[]), Some("iss")),
            (json!({"exp": 1, "aud": "x"}), rule(None, &["x", "y"]), None),
            (json!({"exp": 1, "aud": ["z", "y"]}), rule(None, &["x", "y"]), None),
            (json!({"exp": 1, "aud": ["z"]}), rule(None, &["x", "y"]), Some("aud")),
            (json!({"exp": 1}), rule(None, &["x"]), Some("aud")),
        ] {
            let claims = read(&said).expect("good claims");
            let trust = Trust { rules: vec![rule], ..Trust::default() };
            let found = trust.check(Some("https://a.example/keys"), None, claims.issue()).err().map(|b| b.claim);
            assert_eq!(found, wrong, "{said}");
            assert_eq!(trust.check(Some("https://b.example/keys"), None, claims.issue()), Ok(()), "another issuer's");
            assert_eq!(trust.check(None, None, claims.issue()), Ok(()), "written down");
        }
    }

    #[test]
    fn time_is_kept_to_the_moment() {
        let claims = read(&json!({"exp": 100, "nbf": 50})).expect("good");
        let at = |seconds: i64| claims.check_time(Timestamp::from_secs(seconds)).map_err(|b| b.claim);
        assert_eq!((at(99), at(100), at(101)), (Ok(()), Err("exp"), Err("exp")));
        assert_eq!((at(44), at(45), at(50)), (Err("nbf"), Ok(()), Ok(())));
    }
}
