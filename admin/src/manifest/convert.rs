//! Files of other gateways as documents of this one, with what could not be carried said by its place. Nothing is read
//! but the file: what comes out is looked at, completed and imported like any other document.

mod conversion;
mod litellm;
mod portkey;

pub use conversion::Conversion;

use super::text::{DocumentBounds, parse_yaml, write};
use crate::problem::Problem;

/// The product whose configuration file is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFile {
    /// `model_list`, `router_settings`, `litellm_settings`, `general_settings` of LiteLLM's proxy.
    LiteLlm,
    /// Config objects of Portkey: one, a list, or what its API answers.
    Portkey,
}

/// A document, and what of the file it does not hold.
#[derive(Clone, Debug)]
pub struct ConvertedFile {
    pub document: String,
    pub notes: Vec<String>,
}

/// Reads a file of another gateway.
pub fn convert_configuration(text: &str, of: ForeignFile, with: &Conversion<'_>) -> Result<ConvertedFile, Problem> {
    let file = parse_yaml(text, DocumentBounds::Operator)?;
    let carried = match of {
        ForeignFile::LiteLlm => litellm::convert(&file, with)?,
        ForeignFile::Portkey => portkey::convert(&file, with)?,
    };
    Ok(ConvertedFile { document: write(&carried.manifest)?, notes: carried.notes })
}

#[cfg(test)]
mod tests {
    use super::super::text::parse;
    use super::*;
    use gateway_domain::egress::Trusted;

    fn converted(text: &str, of: ForeignFile) -> ConvertedFile {
        let trusted = Trusted::parse(&["10.0.0.0/8"]).expect("a range");
        let with = Conversion { catalog: gateway_providers::catalog(), trusted: &trusted, workspace: "default" };
        let file = convert_configuration(text, of, &with).expect("converted");
        parse(&file.document, DocumentBounds::Client).expect("a document");
        file
    }

    #[test]
    fn litellm_becomes_integrations_providers_and_one_config() {
        let text = r#"
model_list:
- model_name: gpt-4o
  litellm_params: {model: azure/gpt-4o-eu, api_base: "https://acme-eu.openai.azure.com/", api_key: os.environ/AZURE_KEY, api_version: "2024-06-01", rpm: 6, weight: 2}
- model_name: gpt-4o
  litellm_params: {model: openai/gpt-4o, api_key: sk-literal-canary-0001, timeout: 30, temperature: 0.2, max_budget: 5}
- model_name: claude
  litellm_params: {model: anthropic/claude-sonnet-4-5, api_key: os.environ/ANTHROPIC_API_KEY}
  model_info: {input_cost_per_token: 0.000003, output_cost_per_token: 0.000015}
- model_name: odd
  litellm_params: {model: nobody/odd}
- model_name: "*"
  litellm_params: {model: "openai/*"}
router_settings:
  routing_strategy: usage-based-routing-v2
  num_retries: 9
  fallbacks: [{gpt-4o: [claude, gone]}]
  model_group_alias: {gpt-4: gpt-4o}
general_settings: {master_key: os.environ/LITELLM_MASTER_KEY, database_url: "postgres://user:canary@db"}
callbacks: [langfuse]
"#;
        let ConvertedFile { document, notes } = converted(text, ForeignFile::LiteLlm);
        for part in [
            "slug: gpt-4o-2",
            "ai_provider_id: azure-openai",
            "azure_resource_name: acme-eu",
            "azure_deployment_name: gpt-4o-eu",
            "${GATEWAY_SECRET_AZURE_KEY}",
            "${GATEWAY_SECRET_GPT_4O_2_API_KEY}",
            "request_timeout: 30000",
            "mode: conditional",
            "mode: loadbalance",
            "mode: fallback",
            "attempts: 5",
            "type: workspace-service",
            "is_default: true",
        ] {
            assert!(document.contains(part), "{part} is not in\n{document}");
        }
        assert!(!document.contains("canary") && !notes.iter().any(|n| n.contains("canary")), "{document}\n{notes:#?}");
        for place in [
            "model_list[3]: `nobody` is no provider",
            "model_list[4]: wildcards",
            "model_list[1].litellm_params.max_budget: is not carried",
            "router_settings.routing_strategy: is carried as",
            "general_settings.database_url: is not carried",
            "general_settings.master_key",
            "callbacks: is not carried",
            "model_list[1]: holds a credential",
        ] {
            assert!(notes.iter().any(|note| note.starts_with(place)), "{place} is not in {notes:#?}");
        }
    }

    #[test]
    fn portkeys_configs_stay_what_they_are_but_for_what_is_not_taken() {
        let text = r#"{"data": [
            {"slug": "pc-chat-1", "name": "Chat", "is_default": 1,
             "config": {"retry": {"attempts": 3}, "tracing": true, "strategy": {"mode": "fallback"},
                        "targets": [{"virtual_key": "openai-main"}, {"provider": "openai", "api_key": "sk-canary-0002"}]}},
            {"slug": "pc-two", "name": "Two", "config": "{\"provider\": \"nobody\"}"}
        ]}"#;
        let ConvertedFile { document, notes } = converted(text, ForeignFile::Portkey);
        for part in ["slug: pc-chat-1", "virtual_key: openai-main", "${GATEWAY_SECRET_PC_CHAT_1_1}", "provider: nobody"]
        {
            assert!(document.contains(part), "{part} is not in\n{document}");
        }
        assert!(!document.contains("tracing") && !document.contains("canary"), "{document}");
        for place in
            ["pc-chat-1: tracing: is not a known key; left out", "pc-chat-1: holds a credential", "pc-two: provider:"]
        {
            assert!(notes.iter().any(|note| note.starts_with(place)), "{place} is not in {notes:#?}");
        }
        assert!(notes.iter().any(|note| note.starts_with("pc-two") && note.ends_with("mend it")), "{notes:#?}");
        let one = converted(r#"{"provider": "openai"}"#, ForeignFile::Portkey);
        assert!(one.document.contains("slug: pc-1") && one.notes.is_empty(), "{}", one.document);
    }
}
