//! How clients find out where to sign in (RFC 9728), and what a token must say before it opens a server: that it was
//! issued for that server (RFC 8707) and, for calls of tools, that it may write. Checks no signature; intake did.

use crate::proxy::request::{Request, Tenant};
use gateway_domain::resource::mcp::check_server_slug;
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Snapshot;
use gateway_domain::token::Token;
use gateway_domain::{Fault, FaultKind};
use http::HeaderValue;
use serde_json::json;
use std::sync::Arc;

const DOCUMENT: &str = "/.well-known/oauth-protected-resource/";

/// Set where clients are to sign in: at issuers that the operator names, else at the gateway itself.
#[derive(Clone, Debug)]
pub(crate) struct McpAuthorization {
    /// Where clients reach the proxy port, without a slash at its end. Never the `Host` of a request, which anybody
    /// can make up.
    public: Arc<str>,
    /// Issuers of tokens, by their own names.
    servers: Arc<[String]>,
    /// They are others than the gateway.
    is_elsewhere: bool,
}

impl McpAuthorization {
    /// `None`: nobody signs in for MCP servers, since nobody can tell clients where.
    pub(crate) fn new(public: Option<&str>, servers: &[String]) -> Result<Option<Self>, String> {
        let servers: Vec<String> = servers.iter().flat_map(|s| s.split(',')).map(|s| s.trim().to_owned()).collect();
        if servers.is_empty() {
            let public: Option<Arc<str>> = public.map(|public| public.trim_end_matches('/').into());
            let own = |public: Arc<str>| Self { servers: [public.to_string()].into(), public, is_elsewhere: false };
            return Ok(public.map(own));
        }
        for server in &servers {
            let rest = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://127.0.0.1"));
            let bad = |c: char| c.is_whitespace() || matches!(c, '?' | '#' | '"' | '\\');
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains(bad)) {
                let rule = "must be an https: URL without query or fragment, as the issuer calls itself";
                return Err(format!("--mcp-authorization-servers `{server}` {rule}"));
            }
        }
        let needs =
            || "--mcp-authorization-servers needs --public-url: tokens are issued for addresses below it".to_owned();
        let public = public.ok_or_else(needs)?.trim_end_matches('/').into();
        Ok(Some(Self { public, servers: servers.into(), is_elsewhere: true }))
    }

    /// The name under which the gateway issues tokens itself.
    pub(crate) fn issuer(&self) -> Option<&str> {
        (!self.is_elsewhere).then_some(&*self.public)
    }

    /// What tokens for a server are issued for.
    fn resource(&self, slug: &str) -> String {
        format!("{}/{slug}/mcp", self.public)
    }

    /// The metadata of a server that clients may call. It is told of every slug, so that it tells nobody which there
    /// are.
    pub(crate) fn document(&self, path: &str, snapshot: &Snapshot) -> Option<String> {
        let slug = slug_of(path.strip_prefix(DOCUMENT.trim_end_matches('/'))?)?;
        let own = snapshot.sign_in_places(slug);
        let mut servers: Vec<&str> = own.issuers.iter().map(|issuer| &**issuer).collect();
        if servers.is_empty() || own.has_plain {
            servers.extend(self.servers.iter().map(String::as_str));
        }
        let document = json!({
            "resource": self.resource(slug),
            "authorization_servers": servers,
            "scopes_supported": ["mcp", "mcp:read", "mcp:write"],
            "bearer_methods_supported": ["header"],
        });
        Some(document.to_string())
    }

    /// The slug of the server that a path is of, and what tokens for it are issued for.
    pub(crate) fn asked_of<'p>(&self, path: &'p str) -> Option<(&'p str, String)> {
        let slug = slug_of(path)?;
        Some((slug, self.resource(slug)))
    }

    /// What a refusal says of how to come again (RFC 6750, 3). `None`: the path is no server's.
    pub(crate) fn challenge(&self, path: &str, why: McpChallenge) -> Option<HeaderValue> {
        let slug = slug_of(path)?;
        let (error, scope) = match why {
            McpChallenge::NoToken => ("", "mcp"),
            McpChallenge::BadToken => (r#", error="invalid_token""#, "mcp"),
            McpChallenge::NoScope => (r#", error="insufficient_scope""#, "mcp"),
            McpChallenge::NoWriting => (r#", error="insufficient_scope""#, "mcp:write"),
        };
        let document = format!("{}{DOCUMENT}{slug}/mcp", self.public);
        HeaderValue::from_str(&format!(r#"Bearer resource_metadata="{document}", scope="{scope}"{error}"#)).ok()
    }

    /// A token for one server opens no other. Keys are for all of their workspace, and so are tokens of issuers where
    /// clients are not sent to them.
    pub(super) fn check_audience(&self, request: &Request) -> Result<(), Fault> {
        let token = request.caller.tenant.key.token.as_ref().filter(|token| self.reads_scopes_of(token));
        let Some(token) = token else { return Ok(()) };
        let named = slug_of(&request.ask.route.path).map(|slug| self.resource(slug));
        if named.is_some_and(|named| token.audience.contains(&named)) {
            return Ok(());
        }
        let told = "The token's claim aud does not name this MCP server";
        Err(Fault::new(FaultKind::Unauthenticated, told))
    }

    /// Whether it opens MCP servers by the names that the protocol has for scopes.
    pub(crate) fn admits(&self, tenant: &Tenant) -> bool {
        tenant.key.token.as_ref().is_some_and(|token| self.reads_scopes_of(token) && token.mcp.reads)
    }

    /// Whether it is one that clients of MCP servers were sent to fetch.
    fn reads_scopes_of(&self, token: &Token) -> bool {
        self.is_elsewhere || token.grant.is_some() || token.server.is_some()
    }

    /// Whether it may call tools.
    pub(super) fn may_write(&self, tenant: &Tenant) -> bool {
        tenant.key.scopes.has(Scope::MCP_INVOKE) || tenant.key.token.as_ref().is_none_or(|token| token.mcp.writes)
    }
}

/// Why a client is sent to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpChallenge {
    NoToken,
    BadToken,
    NoScope,
    /// It may read.
    NoWriting,
}

fn slug_of(path: &str) -> Option<&str> {
    let slug = path.strip_prefix('/')?.strip_suffix("/mcp")?;
    check_server_slug(slug).is_ok().then_some(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> McpAuthorization {
        let servers = ["https://id.example.com/realm".to_owned()];
        McpAuthorization::new(Some("https://ai.example.com/gw/"), &servers).expect("good").expect("set")
    }

    #[test]
    fn documents_name_the_address_that_clients_call() {
        let document = made()
            .document("/.well-known/oauth-protected-resource/files/mcp", &Snapshot::default())
            .expect("a document");
        let document: serde_json::Value = serde_json::from_str(&document).expect("json");
        assert_eq!(document["resource"], "https://ai.example.com/gw/files/mcp");
        assert_eq!(document["authorization_servers"], json!(["https://id.example.com/realm"]));
        for other in ["", "/", "/files", "/files/mcp/", "/a b/mcp", "/x\"y/mcp", "/../mcp", "/files/mcp?x"] {
            assert_eq!(
                made().document(&format!("/.well-known/oauth-protected-resource{other}"), &Snapshot::default()),
                None,
                "{other}"
            );
        }
        assert_eq!(made().document("/.well-known/oauth-protected-resourcefiles/mcp", &Snapshot::default()), None);
    }

    #[test]
    fn challenges_lead_to_the_document() {
        let told = made().challenge("/files/mcp", McpChallenge::NoToken).expect("a challenge");
        let told = told.to_str().expect("text");
        let document = "https://ai.example.com/gw/.well-known/oauth-protected-resource/files/mcp";
        assert_eq!(told, format!(r#"Bearer resource_metadata="{document}", scope="mcp""#));
        let told = made().challenge("/files/mcp", McpChallenge::NoWriting).expect("a challenge");
        assert!(told.to_str().expect("text").ends_with(r#"scope="mcp:write", error="insufficient_scope""#));
        assert_eq!(made().challenge("/v1/chat/completions", McpChallenge::NoToken), None);
    }

    #[test]
    fn what_cannot_be_a_place_to_sign_in_is_refused() {
        let of = |public: Option<&str>, server: &str| McpAuthorization::new(public, &[server.to_owned()]).map(|_| ());
        let public = Some("https://ai.example.com");
        for bad in
            ["http://id.example.com", "id.example.com", "https://", "https://a b", "https://a?x", "https://a#x", ""]
        {
            assert!(of(public, bad).is_err(), "{bad}");
        }
        assert!(of(None, "https://id.example.com").expect_err("refused").contains("--public-url"));
        assert!(of(public, "https://a.example, https://b.example").is_ok());
        assert!(McpAuthorization::new(None, &[]).is_ok_and(|made| made.is_none()));
    }

    #[test]
    fn without_issuers_elsewhere_the_gateway_is_its_own() {
        let own = McpAuthorization::new(Some("https://ai.example.com/gw/"), &[]).expect("good").expect("set");
        assert_eq!((own.issuer(), made().issuer()), (Some("https://ai.example.com/gw"), None));
        let document =
            own.document("/.well-known/oauth-protected-resource/files/mcp", &Snapshot::default()).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&document).expect("json");
        assert_eq!(document["authorization_servers"], json!(["https://ai.example.com/gw"]));
    }
}
