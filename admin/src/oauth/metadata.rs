//! What the authorisation server says of itself (RFC 8414), also where OpenID's clients look for it, and the keys that
//! its tokens are signed with. Built from the public address alone, never from what a request calls this host.

use super::authorize_request::SCOPES;
use super::fault::OauthFault;
use super::request_context::OauthVisit;
use super::signing;
use crate::reply::AdminReply;
use serde_json::{Value, json};

/// How clients say who they are. Those that have a secret are made by admins.
const PROOFS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

/// Whether what stands behind the well-known name is this installation (RFC 8414, 3.1), or one of its servers, for
/// which clients ask as well.
fn is_ours(path: &str, issuer: &str) -> bool {
    let rest = path.split('/').skip(3).collect::<Vec<_>>().join("/");
    let base = issuer.splitn(4, '/').nth(3).unwrap_or_default();
    let rest = rest.trim_end_matches('/');
    let below = rest.strip_prefix(base).map(|rest| rest.trim_start_matches('/'));
    let server = |rest: &str| rest.strip_suffix("/mcp").is_some_and(|slug| !slug.is_empty() && !slug.contains('/'));
    rest.is_empty() || below.is_some_and(|rest| rest.is_empty() || server(rest)) || server(rest)
}

fn document(visit: &OauthVisit) -> Result<Value, OauthFault> {
    let issuer = visit.issuer()?;
    if !is_ours(visit.visit.uri.path(), issuer) {
        return Err(OauthFault::off());
    }
    Ok(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/oauth/authorize"),
        "token_endpoint": format!("{issuer}/oauth/token"),
        "registration_endpoint": format!("{issuer}/oauth/register"),
        "introspection_endpoint": format!("{issuer}/oauth/introspect"),
        "revocation_endpoint": format!("{issuer}/oauth/revoke"),
        "jwks_uri": format!("{issuer}/.well-known/jwks.json"),
        "scopes_supported": SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": PROOFS,
        "revocation_endpoint_auth_methods_supported": PROOFS,
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": true,
    }))
}

pub(super) async fn server(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    Ok(AdminReply::json(document(&visit)?))
}

/// The metadata of [`server`] with what readers of OpenID documents insist on. Nobody is given an id token.
pub(super) async fn openid(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    let mut document = document(&visit)?;
    document["subject_types_supported"] = json!(["public"]);
    document["id_token_signing_alg_values_supported"] = json!(["ES256"]);
    Ok(AdminReply::json(document))
}

pub(super) async fn keys(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    Ok(AdminReply::json(signing::key_set(&visit.app().live.snapshot())))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn paths_that_clients_try() {
        let (plain, below) = ("https://ai.example.com", "https://ai.example.com/gw");
        for (path, issuer, ours) in [
            ("/.well-known/oauth-authorization-server", plain, true),
            ("/.well-known/oauth-authorization-server/files/mcp", plain, true),
            ("/.well-known/oauth-authorization-server/gw", plain, false),
            ("/.well-known/oauth-authorization-server/gw", below, true),
            ("/.well-known/openid-configuration/gw/files/mcp", below, true),
            ("/.well-known/openid-configuration/files/mcp", below, true),
            ("/.well-known/openid-configuration/other", below, false),
            ("/.well-known/openid-configuration/a/b/mcp", below, false),
        ] {
            assert_eq!(is_ours(path, issuer), ours, "{path} {issuer}");
        }
    }
}
