//! What of the gateway's own headers is for a provider: settings of clouds, headers that are wanted upstream, and those
//! that are refused since what they would set is not built. Sends nothing.

use super::values::bad;
use super::{GatewayHeaders, PREFIX};
use gateway_domain::Fault;
use gateway_domain::cloud::setting_of_header;
use gateway_domain::egress::{Trusted, check_custom_host};
use http::HeaderValue;

/// Settings that may come as `x-gateway-<name>`, wanted upstream under the bare name.
pub(super) static PROVIDER_HEADERS: &[&str] = &[
    "openai-organization",
    "openai-project",
    "openai-beta",
    "anthropic-beta",
    "anthropic-version",
    // Whether provisioned throughput serves a call.
    "x-vertex-ai-llm-request-type",
    "x-vertex-ai-llm-shared-request-type",
    // Which program calls Stability AI, and for which person.
    "stability-client-id",
    "stability-client-user-id",
    "stability-client-version",
    // The key of the vendor whose model is called, at a provider that passes calls on to vendors.
    "provider-key",
];

/// Settings of operations or addresses that are not built: refused, lest they seem to be in force.
static NOT_TAKEN: &[(&str, &str)] = &[
    ("azure-endpoint-name", "is not taken: give the address in x-gateway-azure-foundry-url"),
    ("aws-s3-object-key", NO_FILES),
    ("provider-file-name", NO_FILES),
    ("provider-model", NO_FILES),
    ("provider-batch-endpoint", NO_FILES),
    ("amz-server-side-encryption", NO_FILES),
    ("amz-server-side-encryption-aws-kms-key-id", NO_FILES),
    ("oracle-key-passphrase", "is not taken: give the private key without a passphrase"),
    ("mistral-fim-completion", "is not taken: send the request to /v1/proxy/fim/completions"),
    // Settings of earlier versions of the contract, before there were configs.
    ("cache", "is not taken: say it in a config (`cache`)"),
    ("retry-count", "is not taken: say it in a config (`retry.attempts`)"),
    ("mode", "is not taken: say it in a config (`strategy.mode`)"),
];

/// How the settings of families begin that are not built: they are refused for the same reason.
static UNKNOWN: &[&str] = &["oracle-", "amzn-sagemaker-"];

const NO_FILES: &str =
    "is not available in this version: the lines of a batch go where the settings of the provider say";

/// Settings that name where a provider is: refused where addresses may not be brought.
static PROVIDER_URLS: &[&str] =
    &["x-gateway-huggingface-base-url", "x-gateway-azure-foundry-url", "x-gateway-databricks-workspace"];

impl GatewayHeaders {
    /// Settings of clouds, and headers that providers know.
    pub(super) fn take_setting(
        &mut self,
        name: &str,
        suffix: &str,
        value: &HeaderValue,
        trusted: &Trusted,
    ) -> Result<(), Fault> {
        let text = || value.to_str().map(str::trim).map_err(|_| bad(name, "must be visible ASCII"));
        self.provider_url =
            PROVIDER_URLS.iter().find(|n| n.strip_prefix(PREFIX) == Some(suffix)).copied().or(self.provider_url);
        let strange = || UNKNOWN.iter().any(|s| suffix.starts_with(s)) && setting_of_header(suffix).is_none();
        let not_built = || strange().then_some("is no setting that this version knows");
        let why = NOT_TAKEN.iter().find(|(n, _)| *n == suffix).map(|(_, why)| *why).or_else(not_built);
        if let Some(why) = why {
            self.not_built.get_or_insert_with(|| bad(name, why));
        }
        if let Some(setting) = setting_of_header(suffix) {
            if setting.address {
                check_custom_host(text()?, trusted).map_err(|why| bad(name, why))?;
            }
            let set = self.settings.set(setting, text()?.to_owned());
            return set.map_err(|wrong| bad(name, &wrong.rule));
        }
        let bare = |n: &&&str| **n == suffix || n.strip_prefix("x-") == Some(suffix);
        if let Some(known) = PROVIDER_HEADERS.iter().find(bare) {
            self.provider_headers.retain(|(n, _)| n != known);
            self.provider_headers.push((known, value.clone()));
        }
        Ok(())
    }
}
