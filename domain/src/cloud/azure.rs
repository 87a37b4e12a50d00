//! Azure OpenAI and Azure AI: resources to addresses, models to deployments, modes of authentication to ways of signing
//! in. Knows no path of an API.

use super::sign_in::{Assertion, ClientCredentials, SignIn, SignInEndpoint};
use super::{CloudSettings, Wrong, segment};
use crate::egress::BaseUrl;
use crate::secret::Secret;
use serde::Deserialize;

/// What tokens are asked for unless `azure_entra_scope` says otherwise.
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
pub(super) const DEPLOYMENTS: &str = "azure_deployment_config";
const MOST_DEPLOYMENTS: usize = 200;

/// A model that somebody deployed in a resource of Azure OpenAI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename = "Deployment")]
pub struct AzureDeployment {
    /// What clients call it.
    pub alias: Option<String>,
    /// What the resource calls it.
    #[serde(
        rename = "azure_deployment_name",
        alias = "deployment_id",
        alias = "deploymentId",
        alias = "deployment_name"
    )]
    pub name: String,
    /// Instead of the provider's.
    #[serde(rename = "azure_api_version", alias = "api_version", alias = "apiVersion")]
    pub api_version: Option<String>,
    /// The model that it is: what it costs.
    #[serde(rename = "azure_model_slug", alias = "model_slug")]
    pub model: Option<String>,
    /// Serves models that no deployment is named for.
    #[serde(default, alias = "isDefault")]
    pub is_default: bool,
}

pub(super) fn deployments(text: &str) -> Result<Vec<AzureDeployment>, Wrong> {
    let wrong = |rule: String| Wrong::new(DEPLOYMENTS, rule);
    let list: Vec<AzureDeployment> = serde_json::from_str(text)
        .map_err(|e| wrong(format!("must be an array of objects with azure_deployment_name: {e}")))?;
    if list.is_empty() || list.len() > MOST_DEPLOYMENTS {
        return Err(wrong(format!("must hold 1..{MOST_DEPLOYMENTS} deployments")));
    }
    if list.iter().filter(|d| d.is_default).count() > 1 {
        return Err(wrong("must have at most one deployment with is_default".to_owned()));
    }
    for (i, deployment) in list.iter().enumerate() {
        let AzureDeployment { alias, name, api_version, model, .. } = deployment;
        for text in [Some(name), api_version.as_ref(), model.as_ref()].into_iter().flatten() {
            segment(text).map_err(|rule| wrong(format!("[{i}]: `{text}` {rule}")))?;
        }
        let twice = alias.is_some() && list[..i].iter().any(|d| d.alias == *alias);
        if twice || alias.as_ref().is_some_and(|a| a.is_empty() || a.len() > 255) {
            return Err(wrong(format!("[{i}].alias must be of 1..255 characters and not be given twice")));
        }
    }
    Ok(list)
}

/// The deployment that serves `model`, and the version of the API to call it by; `None` where nothing says so.
pub fn addressed<'s>(
    settings: &'s CloudSettings,
    model: Option<&'s str>,
) -> Result<(Option<&'s str>, Option<&'s str>), Wrong> {
    let version = settings.get("azure_api_version");
    let list = settings.deployments();
    if list.is_empty() {
        return Ok((settings.get("azure_deployment_id").or(model), version));
    }
    match of_model(list, model) {
        Some(found) => Ok((Some(&found.name), found.api_version.as_deref().or(version))),
        None if model.is_none() => Ok((None, version)),
        None => {
            let known: Vec<&str> = list.iter().take(10).map(|d| d.alias.as_deref().unwrap_or(&d.name)).collect();
            Err(Wrong::new("model", format!("names none of the deployments: {}", known.join(", "))))
        }
    }
}

fn of_model<'s>(list: &'s [AzureDeployment], model: Option<&str>) -> Option<&'s AzureDeployment> {
    let model = model.unwrap_or_default();
    let by = |fits: &dyn Fn(&AzureDeployment) -> bool| list.iter().find(|d| fits(d));
    by(&|d| d.alias.as_deref() == Some(model))
        .or_else(|| by(&|d| d.name == model))
        .or_else(|| by(&|d| d.model.as_deref() == Some(model)))
        .or_else(|| by(&|d| d.is_default))
}

/// What clients call the deployment of this name.
pub fn name_of_deployment<'s>(settings: &'s CloudSettings, name: &str) -> Option<&'s str> {
    let found = settings.deployments().iter().find(|d| d.name.eq_ignore_ascii_case(name))?;
    Some(found.alias.as_deref().unwrap_or(&found.name))
}

/// The other names of what `model` leads to: alias, deployment and the model that it is.
pub fn spellings<'s>(settings: &'s CloudSettings, model: &str) -> Vec<&'s str> {
    let list = settings.deployments();
    let named = |d: &&AzureDeployment| d.alias.as_deref() == Some(model) || d.name.eq_ignore_ascii_case(model);
    let found = list.iter().find(named).or_else(|| list.iter().find(|d| d.model.as_deref() == Some(model)));
    if let Some(d) = found {
        return [d.alias.as_deref(), Some(&*d.name), d.model.as_deref()].into_iter().flatten().collect();
    }
    let single = settings.get("azure_deployment_id").filter(|id| id.eq_ignore_ascii_case(model));
    single.and_then(|_| settings.get("azure_model_name")).into_iter().collect()
}

/// The model that a deployment is said to be, by OpenAI's name.
pub fn model_behind<'s>(settings: &'s CloudSettings, model: Option<&str>) -> Option<&'s str> {
    let deployed = of_model(settings.deployments(), model).and_then(|d| d.model.as_deref());
    deployed.or_else(|| settings.get("azure_model_name"))
}

pub(super) fn extra_params(value: &str) -> Result<(), &'static str> {
    if matches!(value, "drop" | "pass-through" | "error") {
        Ok(())
    } else {
        Err("must be one of drop, pass-through, error")
    }
}

pub(super) fn auth_mode(value: &str) -> Result<(), &'static str> {
    match value {
        "default" | "entra" | "managed" | "workload" | "entraFederated" => Ok(()),
        _ => Err("must be one of default, entra, managed, workload, entraFederated"),
    }
}

pub(super) fn openai_url(settings: &CloudSettings) -> Result<String, Wrong> {
    let resource = settings.needed("azure_resource_name")?;
    Ok(format!("https://{resource}.openai.azure.com/openai"))
}

fn foundry(settings: &CloudSettings) -> Result<BaseUrl, Wrong> {
    let url = settings.needed("azure_foundry_url")?.trim_end_matches('/');
    BaseUrl::parse(url).map_err(|rule| Wrong::new("azure_foundry_url", rule))
}

/// The foundry's URL without its path: some calls go to other paths of the same host.
pub(super) fn foundry_origin(settings: &CloudSettings) -> Result<String, Wrong> {
    let url = foundry(settings)?;
    let scheme = if url.tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}", url.authority()))
}

/// The path of the foundry's URL, without a slash at its end; empty when none is set.
pub fn foundry_path(settings: &CloudSettings) -> &str {
    let url = settings.get("azure_foundry_url").unwrap_or_default();
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'))
}

pub(super) fn sign_in(settings: &CloudSettings) -> Result<Option<SignIn>, Wrong> {
    let scope = settings.get("azure_entra_scope").unwrap_or(SCOPE);
    let given = |name: &'static str| settings.needed(name).map(str::to_owned);
    let client = |tenant, client_id, secret| {
        let scope = Some(scope.to_owned());
        Some(SignIn::ClientCredentials(ClientCredentials {
            endpoint: SignInEndpoint::Entra { tenant },
            client_id,
            secret,
            scope,
            resource: None,
            audience: None,
        }))
    };
    Ok(match settings.get("azure_auth_mode") {
        None | Some("default") => None,
        Some("entra") => client(
            given("azure_entra_tenant_id")?,
            given("azure_entra_client_id")?,
            Assertion::Secret(Secret::new(given("azure_entra_client_secret")?)),
        ),
        Some("managed") => Some(SignIn::AzureHost {
            client_id: settings.get("azure_managed_client_id").map(str::to_owned),
            resource: scope.trim_end_matches("/.default").to_owned(),
        }),
        // The platform's own token stands for the client: the same for both names.
        Some("workload") => {
            client(given("azure_workload_tenant_id")?, given("azure_workload_client_id")?, Assertion::FederatedFile)
        }
        Some(_) => client(given("azure_entra_tenant_id")?, given("azure_entra_client_id")?, Assertion::FederatedFile),
    })
}
