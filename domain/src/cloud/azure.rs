//! Azure OpenAI and Azure AI: resources to addresses, modes of authentication to ways of signing in.

use super::sign_in::{Assertion, ClientCredentials, SignIn};
use super::{Settings, Wrong};
use crate::egress::BaseUrl;
use crate::secret::Secret;

/// What tokens are asked for unless `azure_entra_scope` says otherwise (`spec/providers.md`).
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const AUTHORITY: &str = "https://login.microsoftonline.com";

pub(super) fn auth_mode(value: &str) -> Result<(), &'static str> {
    match value {
        "default" | "entra" | "managed" | "workload" | "entraFederated" => Ok(()),
        _ => Err("must be one of default, entra, managed, workload, entraFederated"),
    }
}

pub(super) fn openai_url(settings: &Settings) -> Result<String, Wrong> {
    let resource = settings.needed("azure_resource_name")?;
    Ok(format!("https://{resource}.openai.azure.com/openai"))
}

pub(super) fn foundry_url(settings: &Settings) -> Result<String, Wrong> {
    let url = settings.needed("azure_foundry_url")?.trim_end_matches('/');
    BaseUrl::parse(url).map_err(|rule| Wrong::new("azure_foundry_url", rule))?;
    Ok(url.to_owned())
}

fn token_endpoint(tenant: &str) -> String {
    format!("{AUTHORITY}/{tenant}/oauth2/v2.0/token")
}

pub(super) fn sign_in(_family: &str, settings: &Settings) -> Result<Option<SignIn>, Wrong> {
    let scope = settings.get("azure_entra_scope").unwrap_or(SCOPE);
    let given = |name: &'static str| settings.needed(name).map(str::to_owned);
    Ok(match settings.get("azure_auth_mode") {
        None | Some("default") => None,
        Some("entra") => Some(SignIn::ClientCredentials(ClientCredentials {
            endpoint: token_endpoint(settings.needed("azure_entra_tenant_id")?),
            client_id: given("azure_entra_client_id")?,
            secret: Assertion::Secret(Secret::new(given("azure_entra_client_secret")?)),
            scope: Some(scope.to_owned()),
        })),
        Some("managed") => Some(SignIn::AzureHost {
            client_id: settings.get("azure_managed_client_id").map(str::to_owned),
            resource: scope.trim_end_matches("/.default").to_owned(),
        }),
        // The platform's own token stands for the client: the same for both names.
        Some(mode) => {
            let of = |workload, entra| if mode == "workload" { workload } else { entra };
            Some(SignIn::ClientCredentials(ClientCredentials {
                endpoint: token_endpoint(settings.needed(of("azure_workload_tenant_id", "azure_entra_tenant_id"))?),
                client_id: given(of("azure_workload_client_id", "azure_entra_client_id"))?,
                secret: Assertion::FederatedFile,
                scope: Some(scope.to_owned()),
            }))
        }
    })
}
