//! Vertex AI: regions to addresses, credential files to ways of signing in.

use super::sign_in::{Federation, ServiceAccount, SignIn, SubjectFormat, SubjectSource};
use super::{CloudSettings, Wrong};
use crate::secret::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const JSON: &str = "vertex_service_account_json";

pub(super) fn auth_type(value: &str) -> Result<(), &'static str> {
    match value {
        "basic" | "serviceAccount" | "wif" | "workload" => Ok(()),
        _ => Err("must be one of basic, serviceAccount, wif, workload"),
    }
}

/// <https://cloud.google.com/vertex-ai/docs/general/locations>: one host for each region, one for the world, and two
/// for the multi-regions.
pub(super) fn base_url(settings: &CloudSettings) -> Result<String, Wrong> {
    let region = settings.needed("vertex_region")?;
    Ok(match region {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    })
}

/// Whether a model is one of Cloud Speech, by any way to write its name: those only hear, and have an API of their own.
pub fn is_heard_by_speech(model: &str) -> bool {
    model.rsplit(['/', '.']).next().unwrap_or(model).starts_with("chirp")
}

/// <https://cloud.google.com/speech-to-text/docs/endpoints>
pub(super) fn speech_url(settings: &CloudSettings) -> Result<String, Wrong> {
    Ok(match settings.needed("vertex_region")? {
        "global" => "https://speech.googleapis.com".to_owned(),
        region => format!("https://{region}-speech.googleapis.com"),
    })
}

/// Credential files as Google's tools write them.
#[derive(Deserialize)]
struct CredentialFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    project_id: Option<String>,
    client_email: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    token_uri: Option<String>,
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    service_account_impersonation_url: Option<String>,
    credential_source: Option<CredentialSource>,
}

#[derive(Deserialize)]
struct CredentialSource {
    file: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    format: Option<CredentialSourceFormat>,
}

#[derive(Deserialize)]
struct CredentialSourceFormat {
    #[serde(rename = "type")]
    kind: String,
    subject_token_field_name: Option<String>,
}

/// What is read is never told: it holds a private key.
fn file(settings: &CloudSettings) -> Result<Option<CredentialFile>, Wrong> {
    let Some(json) = settings.get(JSON) else { return Ok(None) };
    let not_one = |_| Wrong::new(JSON, "must be a credential file of Google's, as JSON");
    serde_json::from_str(json).map(Some).map_err(not_one)
}

pub(super) fn project(settings: &CloudSettings) -> Option<String> {
    let named = settings.get("vertex_project_id").map(str::to_owned);
    let project = named.or_else(|| file(settings).ok()??.project_id)?;
    super::segment(&project).ok().map(|()| project)
}

pub(super) fn sign_in(settings: &CloudSettings, has_key: bool) -> Result<Option<SignIn>, Wrong> {
    let Some(file) = file(settings)? else {
        return match settings.get("vertex_auth_type") {
            Some("serviceAccount") => Err(Wrong::new(JSON, "is required with vertex_auth_type serviceAccount")),
            Some("workload" | "wif") => Ok(Some(SignIn::GoogleHost { scope: SCOPE.to_owned() })),
            // The key is a token, or the caller brings one.
            Some(_) | None => Ok(None),
        };
    };
    if settings.get("vertex_auth_type") == Some("basic") && has_key {
        return Ok(None);
    }
    let needed = |value: Option<String>, field: &str| value.ok_or_else(|| Wrong::new(JSON, format!("lacks `{field}`")));
    match file.kind.as_deref() {
        Some("service_account") | None => Ok(Some(SignIn::ServiceAccount(ServiceAccount {
            email: needed(file.client_email, "client_email")?,
            key_id: file.private_key_id,
            key: Secret::new(needed(file.private_key, "private_key")?),
            token_uri: file.token_uri.unwrap_or_else(|| "https://oauth2.googleapis.com/token".to_owned()),
            scope: SCOPE.to_owned(),
        }))),
        Some("external_account") => {
            let source = file.credential_source.ok_or_else(|| Wrong::new(JSON, "lacks `credential_source`"))?;
            let format = match &source.format {
                Some(format) if format.kind == "json" => {
                    SubjectFormat::Json(needed(format.subject_token_field_name.clone(), "subject_token_field_name")?)
                }
                _ => SubjectFormat::Text,
            };
            let source = match (source.file, source.url) {
                (Some(file), _) => SubjectSource::File(file),
                (None, Some(url)) => SubjectSource::Url { url, headers: source.headers.into_iter().collect() },
                (None, None) => {
                    return Err(Wrong::new(JSON, "names a `credential_source` other than `file` and `url`"));
                }
            };
            let impersonation_url = file.service_account_impersonation_url;
            Ok(Some(SignIn::Federation(Federation {
                audience: needed(file.audience, "audience")?,
                subject_token_type: needed(file.subject_token_type, "subject_token_type")?,
                token_url: needed(file.token_url, "token_url")?,
                source,
                format,
                impersonation_url,
                scope: SCOPE.to_owned(),
            })))
        }
        Some(_) => Err(Wrong::new(JSON, "must be of type service_account or external_account")),
    }
}
