//! The OAuth client that an MCP integration calls with, and what it tells of whoever calls it: read strictly, the
//! secret sealed.

use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use crate::sso::check_address;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::egress::check_custom_host;
use gateway_domain::resource::mcp_sign_in::{IdentityForwarding, IdentityMethod, McpKnownClient, McpOauthClient};
use gateway_domain::secret::{MASK, mask};
use serde::Deserialize;

const LONGEST: usize = 2048;
/// What the protocol says of a message itself, and what calls are signed in with.
const TAKEN: &[&str] = &[
    "accept",
    "content-type",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
    "cookie",
];

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenOauthClient {
    token_url: String,
    client_id: String,
    client_secret: String,
    scope: Option<String>,
    resource: Option<String>,
    audience: Option<String>,
}

impl GivenOauthClient {
    /// The mask of the stored secret keeps it, where it still goes to the same place.
    pub(super) fn read(self, stored: Option<&McpOauthClient>, call: &AdminCall) -> Result<McpOauthClient, Problem> {
        const FIELD: &str = "configurations.oauth";
        let place = |rule| bad(format_args!("{FIELD}.token_url"), rule);
        check_custom_host(self.token_url.split('?').next().unwrap_or_default(), &call.app.trusted).map_err(place)?;
        let texts = [
            ("token_url", Some(&self.token_url)),
            ("client_id", Some(&self.client_id)),
            ("scope", self.scope.as_ref()),
            ("resource", self.resource.as_ref()),
            ("audience", self.audience.as_ref()),
        ];
        for (name, text) in texts {
            if text.is_some_and(|text| text.is_empty() || text.len() > LONGEST || text.contains(char::is_control)) {
                return Err(bad(
                    format_args!("{FIELD}.{name}"),
                    format_args!("must be 1..{LONGEST} printable characters"),
                ));
            }
        }
        let kept = stored.filter(|stored| stored.token_url == self.token_url);
        let kept = kept.map(|stored| stored.client_secret.as_str());
        let client_secret = sealed("configurations.oauth.client_secret", &self.client_secret, kept, call)?;
        let Self { token_url, client_id, scope, resource, audience, .. } = self;
        Ok(McpOauthClient { token_url, client_id, client_secret, scope, resource, audience })
    }
}

/// `stored`: sealed, where its mask may stand for it.
fn sealed(field: &str, given: &str, stored: Option<&str>, call: &AdminCall) -> Result<String, Problem> {
    let is_kept = |stored: &&str| call.app.vault.open(stored).is_ok_and(|known| mask(known.expose()) == given);
    match stored.filter(is_kept) {
        Some(kept) => Ok(kept.to_owned()),
        None if given.starts_with(MASK) => Err(bad(field, "is a masked value that stands for no stored one")),
        None if given.is_empty() || given.len() > LONGEST => {
            Err(bad(field, format_args!("must be 1..{LONGEST} characters")))
        }
        None => Ok(call.app.vault.seal(given)),
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenKnownClient {
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
}

impl GivenKnownClient {
    /// The mask of the stored secret keeps it, where it is still for the same issuer.
    pub(super) fn read(self, stored: Option<&McpKnownClient>, call: &AdminCall) -> Result<McpKnownClient, Problem> {
        const FIELD: &str = "configurations.known_client";
        check_address(&self.issuer, &call.app.trusted).map_err(|rule| bad(format_args!("{FIELD}.issuer"), rule))?;
        for (name, text) in [("issuer", &self.issuer), ("client_id", &self.client_id)] {
            let is_plain = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
            if !is_plain {
                let rule = format_args!("must be 1..{LONGEST} printable ASCII characters without blanks");
                return Err(bad(format_args!("{FIELD}.{name}"), rule));
            }
        }
        let kept = stored.filter(|stored| stored.issuer == self.issuer);
        let kept = kept.and_then(|stored| stored.client_secret.as_deref());
        let secret = |given: String| sealed("configurations.known_client.client_secret", &given, kept, call);
        let client_secret = self.client_secret.map(secret).transpose()?;
        Ok(McpKnownClient { issuer: self.issuer, client_id: self.client_id, client_secret })
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenForwarding {
    method: String,
    header_name: Option<String>,
    #[serde(default)]
    include_claims: Vec<String>,
    jwt_expiry_seconds: Option<u32>,
}

impl GivenForwarding {
    pub(super) fn read(self, call: &AdminCall) -> Result<IdentityForwarding, Problem> {
        const FIELD: &str = "configurations.user_identity_forwarding";
        let method = match self.method.as_str() {
            "claims_header" => IdentityMethod::ClaimsHeader,
            "jwt_header" => IdentityMethod::JwtHeader,
            "bearer" => IdentityMethod::Bearer,
            _ => return Err(bad(format_args!("{FIELD}.method"), "must be one of claims_header, jwt_header, bearer")),
        };
        if method == IdentityMethod::JwtHeader && call.app.issuer().is_none() {
            let rule =
                "jwt_header needs --public-url, and no --mcp-authorization-servers: the gateway signs as an issuer";
            return Err(bad(format_args!("{FIELD}.method"), rule));
        }
        let header_name = self.header_name.map(|name| header(&name, method)).transpose();
        let header_name = header_name.map_err(|rule| bad(format_args!("{FIELD}.header_name"), rule))?;
        for (at, claim) in self.include_claims.iter().enumerate() {
            if !IdentityForwarding::CLAIMS.contains(&claim.as_str()) {
                let rule = format!("must be one of {}", IdentityForwarding::CLAIMS.join(", "));
                return Err(bad(format_args!("{FIELD}.include_claims[{at}]"), rule));
            }
        }
        let lasts = self.jwt_expiry_seconds.unwrap_or(IdentityForwarding::LASTS);
        if !(10..=IdentityForwarding::LONGEST).contains(&lasts) {
            let rule = format_args!("must be 10..{}", IdentityForwarding::LONGEST);
            return Err(bad(format_args!("{FIELD}.jwt_expiry_seconds"), rule));
        }
        let include_claims = self.include_claims;
        Ok(IdentityForwarding { method, header_name, include_claims, jwt_expiry_seconds: lasts })
    }
}

fn header(name: &str, method: IdentityMethod) -> Result<String, &'static str> {
    if method == IdentityMethod::Bearer {
        return Err("is `authorization` where the method is bearer");
    }
    let name = name.to_ascii_lowercase();
    if name == "authorization" {
        let is_token = method == IdentityMethod::JwtHeader;
        return if is_token { Ok(name) } else { Err("may be `authorization` where the method is jwt_header") };
    }
    let name = check_forward_header(&name)?;
    if TAKEN.contains(&name.as_str()) { Err("is set by the protocol, or never sent") } else { Ok(name) }
}
