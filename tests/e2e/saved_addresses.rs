//! Each field of the Admin API that holds an address, beside those of checks (`guardrail_addresses.rs`): what nobody
//! may have the gateway call is refused where it is saved, by the name of the field. Settings of clouds are held as
//! headers and in inline configs, too. Addresses of the operator's own (flags of the process) are not held to it:
//! nobody else names them.

use crate::forbidden::hosts;
use crate::harness::{Gateway, hello, with};
use gateway_domain::cloud::SETTINGS;
use gateway_domain::secret_source::AUTH_FIELDS;
use serde_json::{Value, json};

struct SavedAddress {
    method: &'static str,
    path: &'static str,
    /// The field's name in a refusal.
    field: &'static str,
    body: fn(&str) -> Value,
}

/// An integration of a family with one more setting.
fn integration(family: &str, setting: &str, host: &str) -> Value {
    json!({ "name": "i", "slug": "i", "ai_provider_id": family, "key": "k", "configurations": { setting: host } })
}

/// A reference to a secret of a manager at this address.
fn reference(manager: &str, field: &str, host: &str) -> Value {
    let auth = match manager {
        "azure_kv" => json!({ "azure_auth_mode": "entra", "azure_entra_tenant_id": "t", "azure_entra_client_id": "c",
                              "azure_entra_client_secret": "s" }),
        _ => json!({ "vault_auth_type": "token", "vault_token": "t" }),
    };
    let auth = with(auth, json!({ field: host }));
    json!({ "name": "s", "manager_type": manager, "secret_path": "a", "auth_config": auth })
}

const FIELDS: &[SavedAddress] = &[
    SavedAddress {
        method: "POST",
        path: "/integrations",
        field: "configurations.custom_host",
        body: |host| integration("openai", "custom_host", host),
    },
    SavedAddress {
        method: "POST",
        path: "/integrations",
        field: "configurations.huggingface_base_url",
        body: |host| integration("huggingface", "huggingface_base_url", host),
    },
    SavedAddress {
        method: "POST",
        path: "/integrations",
        field: "configurations.azure_foundry_url",
        body: |host| integration("azure-ai", "azure_foundry_url", host),
    },
    SavedAddress {
        method: "POST",
        path: "/integrations",
        field: "configurations.oauth_token_endpoint",
        body: |host| integration("openai", "oauth_token_endpoint", host),
    },
    SavedAddress {
        method: "PUT",
        path: "/integrations/kept/models",
        field: "models[0].configurations.custom_host",
        body: |host| json!({ "models": [{ "slug": "m", "enabled": true, "configurations": { "custom_host": host } }] }),
    },
    SavedAddress {
        method: "POST",
        path: "/configs",
        field: "custom_host",
        body: |host| json!({ "name": "c", "config": { "provider": "openai", "api_key": "k", "custom_host": host } }),
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "url",
        body: |host| json!({ "name": "m", "slug": "m", "url": host, "auth_type": "none", "transport": "http" }),
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "url",
        body: |host| json!({ "name": "m", "slug": "m", "url": host, "auth_type": "none", "transport": "sse" }),
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "configurations.oauth.token_url",
        body: |host| {
            let client = json!({ "token_url": host, "client_id": "c", "client_secret": "s" });
            json!({ "name": "m", "slug": "m", "url": "https://mcp.example.com", "transport": "http",
                "auth_type": "oauth_client_credentials", "configurations": { "oauth": client } })
        },
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "configurations.known_client.issuer",
        body: |host| {
            let client = json!({ "issuer": host, "client_id": "c" });
            json!({ "name": "m", "slug": "m", "url": "https://mcp.example.com", "transport": "http",
                "auth_type": "none", "configurations": { "known_client": client } })
        },
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "configurations.external_auth_config.issuer",
        body: |host| {
            json!({ "name": "m", "slug": "m", "url": "https://mcp.example.com", "transport": "http",
                "auth_type": "none", "configurations": { "external_auth_config": { "issuer": host } } })
        },
    },
    SavedAddress {
        method: "POST",
        path: "/mcp-integrations",
        field: "configurations.jwt_validation.jwksUri",
        body: |host| {
            json!({ "name": "m", "slug": "m", "url": "https://mcp.example.com", "transport": "http",
                "auth_type": "none", "configurations": { "external_auth_config": { "issuer": "https://id.example.com" },
                    "jwt_validation": { "jwksUri": host } } })
        },
    },
    SavedAddress {
        method: "POST",
        path: "/agent-integrations",
        field: "url",
        body: |host| json!({ "name": "a", "slug": "a", "url": host, "auth_type": "none" }),
    },
    SavedAddress {
        method: "POST",
        path: "/agent-integrations",
        field: "configurations.oauth.token_url",
        body: |host| {
            let client = json!({ "token_url": host, "client_id": "c", "client_secret": "s" });
            json!({ "name": "a", "slug": "a", "url": "https://agent.example.com",
                "auth_type": "oauth_client_credentials", "configurations": { "oauth": client } })
        },
    },
    SavedAddress {
        method: "POST",
        path: "/agent-integrations/fetch-agent-card",
        field: "url",
        body: |host| json!({ "url": host }),
    },
    SavedAddress {
        method: "POST",
        path: "/secret-references",
        field: "auth_config.vault_addr",
        body: |host| reference("hashicorp_vault", "vault_addr", host),
    },
    SavedAddress {
        method: "POST",
        path: "/secret-references",
        field: "auth_config.azure_vault_url",
        body: |host| reference("azure_kv", "azure_vault_url", host),
    },
    SavedAddress {
        method: "PUT",
        path: "/admin/organisation",
        field: "jwks_uris",
        body: |host| json!({ "jwks_uris": [host] }),
    },
    SavedAddress {
        method: "POST",
        path: "/alerts",
        field: "channels[0].url",
        body: |host| json!({ "name": "a", "type": "spend", "threshold": 1, "channels": [{ "type": "webhook", "url": host }] }),
    },
    SavedAddress {
        method: "POST",
        path: "/alerts",
        field: "channels[0].url",
        body: |host| json!({ "name": "a", "type": "spend", "threshold": 1, "channels": [{ "type": "slack", "url": host }] }),
    },
];

#[test]
fn every_address_among_the_settings_of_clouds_is_in_the_table() {
    for setting in SETTINGS.iter().filter(|setting| setting.address) {
        let field = format!("configurations.{}", setting.name);
        assert!(FIELDS.iter().any(|known| known.field == field), "{field}");
    }
    for auth in AUTH_FIELDS.iter().filter(|auth| auth.address) {
        let field = format!("auth_config.{}", auth.name);
        assert!(FIELDS.iter().any(|known| known.field == field), "{field}");
    }
}

#[tokio::test]
async fn no_field_saves_an_address_that_nobody_may_call() {
    let flags = ["--trusted-custom-hosts", "trusted.example", "--public-url", "https://ai.example.com"];
    let gateway = Gateway::with(&flags).await;
    let admin = gateway.admin();
    let kept = json!({ "name": "kept", "slug": "kept", "ai_provider_id": "openai", "key": "k" });
    admin.post("/integrations", &kept).await.expect(200);
    for host in hosts().filter(|host| !host.is_empty()) {
        for field in FIELDS {
            let body = (field.body)(host);
            let answer = match field.method {
                "PUT" => admin.put(field.path, &body).await,
                _ => admin.post(field.path, &body).await,
            };
            assert_eq!(answer.status, 400, "{host} as {}: {}", field.field, answer.text());
            assert!(answer.text().contains(field.field), "{host} as {}: {}", field.field, answer.text());
        }
    }
    // The fields are right: what may be called is taken.
    for field in FIELDS {
        let body = (field.body)("https://trusted.example");
        let answer = match field.method {
            "PUT" => admin.put(field.path, &body).await,
            _ => admin.post(field.path, &body).await,
        };
        assert!(answer.status == 200 || !answer.text().contains(field.field), "{}: {}", field.field, answer.text());
    }
}

/// Each address comes by header and in an inline config, with a credential of the request's own.
#[tokio::test]
async fn no_request_names_an_address_of_a_cloud_that_nobody_may_call() {
    let gateway = Gateway::with(&["--trusted-custom-hosts", "trusted.example"]).await;
    for setting in SETTINGS.iter().filter(|setting| setting.address) {
        let family = setting.families.first().copied().unwrap_or("openai");
        let header = format!("x-gateway-{}", setting.name.replace('_', "-"));
        for host in hosts().filter(|host| host.is_ascii() && !host.is_empty()) {
            let call = gateway.chat().provider(family).header("authorization", "Bearer sk-own");
            let answer = call.header(&header, host).json(&hello()).send().await;
            assert_eq!(answer.status, 400, "{host} as {header}: {}", answer.text());
            let config = json!({ "provider": family, "api_key": "k", setting.name: host });
            let answer = gateway.chat().config(&config).json(&hello()).send().await;
            assert_eq!(answer.status, 400, "{host} as {}: {}", setting.name, answer.text());
            assert!(answer.text().contains(setting.name), "{host}: {}", answer.text());
        }
    }
}
