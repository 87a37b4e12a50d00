//! Who the gateway is when it calls an MCP server: a client of its own at the server's authorisation server; and what
//! the server is told of the person behind a call.

use crate::cloud::{Assertion, ClientCredentials, Grant, SignIn, SignInEndpoint};
use crate::secret::Secret;
use serde::{Deserialize, Serialize};

/// OAuth client credentials (RFC 6749, 4.4). The gateway is the client, and one token serves everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpOauthClient {
    /// Held to the rules of [`crate::egress`].
    pub token_url: String,
    pub client_id: String,
    /// Sealed.
    pub client_secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What the token is for (RFC 8707).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What the token is for, under the name that some servers use in place of `resource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

impl McpOauthClient {
    /// `secret`: opened.
    pub fn grant(&self, secret: Secret<String>) -> Grant {
        Grant::new(SignIn::ClientCredentials(ClientCredentials {
            endpoint: SignInEndpoint::Url(self.token_url.clone()),
            client_id: self.client_id.clone(),
            secret: Assertion::Secret(secret),
            scope: self.scope.clone(),
            resource: self.resource.clone(),
            audience: self.audience.clone(),
        }))
    }
}

/// The gateway as a client that somebody made for it at an authorisation server, where people have accounts of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpKnownClient {
    /// The authorisation server, as it calls itself: no other hears of the client.
    pub issuer: String,
    pub client_id: String,
    /// Sealed; `None`: PKCE alone proves who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
}

impl McpKnownClient {
    /// An origin may be written with a slash or without.
    pub fn is_of(&self, issuer: &str) -> bool {
        fn bare(issuer: &str) -> &str {
            issuer.strip_suffix('/').filter(|rest| rest.matches('/').count() == 2).unwrap_or(issuer)
        }
        bare(&self.issuer) == bare(issuer)
    }
}

/// How a server hears who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityMethod {
    /// Claims as JSON, which the server believes since it believes the gateway.
    ClaimsHeader,
    /// A token that the gateway signs for this server and for minutes.
    JwtHeader,
    /// The caller's own token, where it was issued for this server.
    Bearer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityForwarding {
    pub method: IdentityMethod,
    /// The header that tells who calls, in lower case; `None`: the usual one of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_name: Option<String>,
    /// What the server is told, each one of [`IdentityForwarding::CLAIMS`]; empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_claims: Vec<String>,
    pub jwt_expiry_seconds: u32,
}

impl IdentityForwarding {
    /// What may be told of whoever calls. `sub` always is.
    pub const CLAIMS: &'static [&'static str] =
        &["sub", "email", "name", "username", "workspace_id", "workspace_slug", "organisation_id", "api_key_id"];
    pub const LASTS: u32 = 300;
    pub const LONGEST: u32 = 3600;

    pub fn header(&self) -> &str {
        match (&self.header_name, self.method) {
            (_, IdentityMethod::Bearer) => "authorization",
            (Some(name), _) => name,
            (None, IdentityMethod::ClaimsHeader) => "x-user-claims",
            (None, IdentityMethod::JwtHeader) => "x-user-jwt",
        }
    }

    pub fn forwards(&self, claim: &str) -> bool {
        claim == "sub" || self.include_claims.is_empty() || self.include_claims.iter().any(|told| told == claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_is_told_under_the_name_that_the_method_has() {
        let one = |method, name: Option<&str>| IdentityForwarding {
            method,
            header_name: name.map(str::to_owned),
            include_claims: vec!["email".to_owned()],
            jwt_expiry_seconds: IdentityForwarding::LASTS,
        };
        assert_eq!(one(IdentityMethod::ClaimsHeader, None).header(), "x-user-claims");
        assert_eq!(one(IdentityMethod::JwtHeader, None).header(), "x-user-jwt");
        assert_eq!(one(IdentityMethod::JwtHeader, Some("x-who")).header(), "x-who");
        assert_eq!(one(IdentityMethod::Bearer, Some("x-who")).header(), "authorization");
        let told = one(IdentityMethod::ClaimsHeader, None);
        assert!(told.forwards("sub") && told.forwards("email") && !told.forwards("name"));
        assert!(IdentityForwarding { include_claims: Vec::new(), ..told }.forwards("name"));
    }

    #[test]
    fn a_client_is_known_at_one_issuer() {
        let of = |own: &str, issuer: &str| {
            McpKnownClient { issuer: own.into(), client_id: "c".into(), client_secret: None }.is_of(issuer)
        };
        assert!(of("https://a.example", "https://a.example/") && of("https://a.example/", "https://a.example"));
        assert!(of("https://a.example/x", "https://a.example/x") && !of("https://a.example/x", "https://a.example/x/"));
        assert!(!of("https://a.example", "https://a.example.evil") && !of("https://a.example", "http://a.example"));
    }

    #[test]
    fn clients_that_differ_in_anything_have_tokens_of_their_own() {
        let client = McpOauthClient {
            token_url: "https://login.example.com/token".into(),
            client_id: "c".into(),
            client_secret: "sealed".into(),
            scope: None,
            resource: None,
            audience: None,
        };
        let id = |client: &McpOauthClient, secret: &str| client.grant(Secret::new(secret.to_owned())).id;
        let first = id(&client, "s");
        assert_eq!(first, id(&client, "s"));
        assert_ne!(first, id(&client, "t"));
        for other in [
            McpOauthClient { scope: Some("x".into()), ..client.clone() },
            McpOauthClient { resource: Some("x".into()), ..client.clone() },
            McpOauthClient { audience: Some("x".into()), ..client.clone() },
            McpOauthClient { client_id: "d".into(), ..client.clone() },
        ] {
            assert_ne!(first, id(&other, "s"), "{other:?}");
        }
    }
}
