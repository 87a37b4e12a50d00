//! OAuth client credentials, Microsoft Entra's with them, and the identity that Azure gives a machine.

use super::fetch::{Fetched, Fetcher, TokenRefusal, ask, ask_hiding, token};
use gateway_domain::cloud::{Assertion, ClientCredentials, SignInEndpoint};
use http::Method;

/// RFC 6749 §4.4; the secret in the body, which Entra wants and others must take. With a token of the platform in
/// place of the secret: RFC 7523 §2.2.
pub(super) async fn client_credentials(fetcher: &Fetcher, client: &ClientCredentials) -> Result<Fetched, TokenRefusal> {
    let (federated, secret);
    let mut form = vec![("grant_type", "client_credentials"), ("client_id", client.client_id.as_str())];
    match &client.secret {
        Assertion::Secret(given) => {
            secret = given.expose().as_str();
            form.push(("client_secret", secret));
        }
        Assertion::FederatedFile => {
            let path = fetcher.places.azure_token_file.as_ref();
            let path = path.ok_or_else(|| TokenRefusal::failed("this gateway was given no --azure-token-file"))?;
            federated = tokio::fs::read_to_string(path).await.map_err(|e| {
                TokenRefusal::failed(format!("the file of --azure-token-file cannot be read: {}", e.kind()))
            })?;
            form.push(("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
            secret = federated.trim();
            form.push(("client_assertion", secret));
        }
    }
    let more = [("scope", &client.scope), ("resource", &client.resource), ("audience", &client.audience)];
    form.extend(more.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
    let request = match &client.endpoint {
        SignInEndpoint::Url(url) => fetcher.outbound.request(Method::POST, url)?,
        SignInEndpoint::Entra { tenant } => {
            let authority = fetcher.places.azure_authority.trim_end_matches('/');
            fetcher.outbound.operator_request(Method::POST, &format!("{authority}/{tenant}/oauth2/v2.0/token"))
        }
    };
    token(&ask_hiding(request.form(&form), secret).await?)
}

/// <https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token>, or where the
/// platform set it, <https://learn.microsoft.com/azure/app-service/overview-managed-identity>.
pub(super) async fn azure_host(
    fetcher: &Fetcher,
    client_id: Option<&str>,
    resource: &str,
) -> Result<Fetched, TokenRefusal> {
    let places = &fetcher.places;
    let version = if places.azure_identity.is_some() { "2019-08-01" } else { "2018-02-01" };
    let mut query = vec![("api-version", version), ("resource", resource)];
    query.extend(client_id.map(|id| ("client_id", id)));
    let ask_of = |url: &str| fetcher.outbound.operator_request(Method::GET, url).query(&query);
    let request = match &places.azure_identity {
        Some((url, secret)) => ask_of(url).header("x-identity-header", secret.expose()),
        None => {
            let base = places.azure_metadata.trim_end_matches('/');
            ask_of(&format!("{base}/metadata/identity/oauth2/token")).header("metadata", "true")
        }
    };
    token(&ask(request).await?)
}
