//! Azure through the real binary: deployments and versions, every way to sign in against a scripted identity endpoint,
//! settings by integration, config and header.

use crate::clouds::{bare, hello, integration, token_endpoint};
use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, reply};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn deployments() -> Value {
    json!([
        { "alias": "fast", "azure_deployment_name": "mini-eu", "azure_api_version": "2025-04-01-preview",
          "azure_model_slug": "gpt-4o-mini" },
        { "azure_deployment_name": "big-eu", "azure_model_slug": "gpt-4o", "is_default": true },
    ])
}

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("Hi")).await
}

#[tokio::test]
async fn models_find_their_deployments_and_their_price() {
    let (up, gateway) = (upstream().await, Gateway::start().await);
    let settings = json!({ "custom_host": format!("{}/openai", bare(&up)), "azure_auth_mode": "default",
                           "azure_resource_name": "contoso", "azure_api_version": "2024-10-21",
                           "azure_deployment_config": deployments() });
    integration(&gateway, "azure-openai", Some("azure-key-0001"), settings).await;
    let admin = gateway.admin();
    let shown = admin.get("/integrations/cloud-i").await.expect(200).json();
    assert_eq!(shown["configurations"]["azure_deployment_config"], deployments());
    let call = |path: &str| gateway.post(path).key(WORKSPACE_KEY).provider("@cloud");
    call(CHAT).header("x-gateway-trace-id", "a-1").json(&hello("fast")).send().await.expect(200);
    call("/v1/embeddings").json(&json!({ "model": "text", "input": "a" })).send().await;
    let form = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--b\r\n\
                content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\na\r\n--b--\r\n";
    call("/v1/audio/transcriptions").body("multipart/form-data; boundary=b", form).send().await.expect(200);
    call("/v1/openai/deployments/x/chat/completions?api-version=2024-06-01")
        .header("api-key", "of-the-client")
        .json(&hello("x"))
        .send()
        .await
        .expect(200);
    gateway.get("/v1/files").key(WORKSPACE_KEY).provider("@cloud").send().await.expect(200);
    let targets: Vec<String> = up.seen().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(
        targets,
        [
            "/openai/deployments/mini-eu/chat/completions?api-version=2025-04-01-preview",
            "/openai/deployments/big-eu/embeddings?api-version=2024-10-21",
            "/openai/deployments/big-eu/audio/transcriptions?api-version=2024-10-21",
            "/openai/deployments/x/chat/completions?api-version=2024-06-01",
            "/openai/files?api-version=2024-10-21",
        ]
    );
    for seen in up.seen() {
        assert_eq!((seen.header("api-key"), seen.header("authorization")), (Some("azure-key-0001"), None));
    }
    assert_eq!(up.seen()[0].json()["model"], "mini-eu");
    let priced = eventually("a record with its cost", async || {
        let list = admin.get("/logs?trace_id=a-1").await.expect(200).json();
        let id = list["data"][0]["id"].as_str()?.to_owned();
        let record = admin.get(&format!("/logs/{id}")).await.expect(200).json();
        record.to_string().contains("\"cost\":").then_some(record)
    });
    let priced = priced.await;
    assert!(priced["metrics"]["cost"].as_f64().is_some_and(|cost| cost > 0.0), "{priced}");
}

#[tokio::test]
async fn what_an_integration_of_azure_must_say() {
    let gateway = Gateway::start().await;
    let create = async |family: &str, settings: Value| {
        let body = json!({ "name": "a", "ai_provider_id": family, "key": "k-0123456789", "configurations": settings });
        gateway.admin().post("/integrations", &body).await.expect(400).text()
    };
    for (family, settings, rule) in [
        ("azure-openai", json!({}), "azure_resource_name is required"),
        ("azure-openai", json!({ "azure_resource_name": "a.b" }), "azure_resource_name must be of"),
        ("azure-openai", json!({ "azure_deployment_config": [] }), "azure_deployment_config must hold 1..200"),
        ("azure-openai", json!({ "azure_deployment_config": "x" }), "azure_deployment_config must be an array"),
        ("azure-openai", json!({ "azure_foundry_url": "https://x.example" }), "azure_foundry_url has no meaning"),
        ("azure-openai", json!({ "azure_resource_name": "r", "azure_auth_mode": "entra" }), "azure_entra_tenant_id is"),
        ("azure-openai", json!({ "azure_resource_name": "r", "azure_auth_mode": "me" }), "azure_auth_mode must be one"),
        ("azure-ai", json!({}), "azure_foundry_url is required"),
        ("azure-ai", json!({ "azure_foundry_url": "http://10.0.0.1/" }), "azure_foundry_url"),
        (
            "azure-ai",
            json!({ "azure_foundry_url": "https://x.example", "azure_extra_params": "y" }),
            "must be one of drop",
        ),
    ] {
        let told = create(family, settings.clone()).await;
        assert!(told.contains(rule), "{settings}: {told}");
    }
}

#[tokio::test]
async fn entra_tokens_are_fetched_once_for_a_crowd() {
    let (identity, up) = (token_endpoint(3600).await, upstream().await);
    let gateway = Gateway::with(&["--azure-authority", &bare(&identity)]).await;
    let settings = json!({ "custom_host": format!("{}/openai", bare(&up)), "azure_auth_mode": "entra",
                           "azure_entra_tenant_id": "tenant-1", "azure_entra_client_id": "app-1",
                           "azure_entra_client_secret": "s3cret-of-the-app-01" });
    integration(&gateway, "azure-openai", None, settings).await;
    let shown = gateway.admin().get("/integrations/cloud-i").await.expect(200).text();
    assert!(shown.contains("app-1") && !shown.contains("s3cret-of"), "{shown}");
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let call = gateway.post(CHAT).key(WORKSPACE_KEY).provider("@cloud").json(&hello("gpt-4o"));
        crowd.spawn(async move { call.send().await.expect(200) });
    }
    crowd.join_all().await;
    // The relay signs in the same way.
    let relayed = gateway.post("/v1/files").key(WORKSPACE_KEY).provider("@cloud");
    relayed.body("multipart/form-data; boundary=b", "--b--").send().await.expect(200);
    assert_eq!(up.seen().len(), 31);
    for seen in up.seen() {
        assert_eq!((seen.header("authorization"), seen.header("api-key")), (Some("Bearer t1"), None));
    }
    assert_eq!(up.seen()[0].target, "/openai/v1/chat/completions");
    assert_eq!(up.seen()[30].target, "/openai/v1/files");
    let asked = identity.only();
    assert_eq!(asked.target, "/tenant-1/oauth2/v2.0/token");
    let scope = "https%3A%2F%2Fcognitiveservices.azure.com%2F.default";
    let form = "grant_type=client_credentials&client_id=app-1&client_secret=s3cret-of-the-app-01&scope=";
    assert_eq!(asked.text(), format!("{form}{scope}"));
}

#[tokio::test]
async fn the_machines_identity_is_found_where_the_platform_has_it() {
    let (metadata, service, up) = (token_endpoint(3600).await, app_service().await, upstream().await);
    let settings = json!({ "custom_host": format!("{}/openai", bare(&up)), "azure_auth_mode": "managed",
                           "azure_managed_client_id": "id-1", "azure_entra_scope": "https://ai.azure.com/.default" });
    let virtual_machine = Gateway::with(&["--azure-metadata-url", &bare(&metadata)]).await;
    let endpoint = format!("{}/msi/token", bare(&service));
    let flags = ["--azure-identity-endpoint", &endpoint, "--azure-identity-header", "platform-secret"];
    let app = Gateway::with(&flags).await;
    for gateway in [&virtual_machine, &app] {
        integration(gateway, "azure-openai", None, settings.clone()).await;
        gateway.post(CHAT).key(WORKSPACE_KEY).provider("@cloud").json(&hello("m")).send().await.expect(200);
        // Nobody borrows it by a header.
        let call = gateway.post(CHAT).key(WORKSPACE_KEY).provider("azure-openai").json(&hello("m"));
        let call = call.header("x-gateway-azure-resource-name", "r").header("x-gateway-azure-auth-mode", "managed");
        assert!(call.send().await.expect(400).text().contains("azure_auth_mode"));
    }
    let query = "resource=https%3A%2F%2Fai.azure.com&client_id=id-1";
    let (vm, app) = (metadata.only(), service.only());
    assert_eq!(vm.target, format!("/metadata/identity/oauth2/token?api-version=2018-02-01&{query}"));
    assert_eq!(vm.header("metadata"), Some("true"));
    assert_eq!(app.target, format!("/msi/token?api-version=2019-08-01&{query}"));
    assert_eq!(app.header("x-identity-header"), Some("platform-secret"));
    let sent: Vec<_> = up.seen().iter().map(|s| s.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("Bearer t1".to_owned()), Some("Bearer of-the-app".to_owned())]);
}

/// Says the second in which its token ends, as text.
async fn app_service() -> Upstream {
    let ends = crate::harness::issuer::in_seconds(3600).to_string();
    let body = json!({ "access_token": "of-the-app", "expires_on": ends, "token_type": "Bearer" });
    Upstream::replying(move |_| reply::json(200, &body)).await
}

#[tokio::test]
async fn the_platforms_token_stands_for_a_client() {
    let (identity, up) = (token_endpoint(3600).await, upstream().await);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "ey.first\n").expect("written");
    let path = file.display().to_string();
    let gateway = Gateway::with(&["--azure-authority", &bare(&identity), "--azure-token-file", &path]).await;
    let host = format!("{}/openai", bare(&up));
    let workload = json!({ "custom_host": host, "azure_auth_mode": "workload", "azure_workload_tenant_id": "t-1",
                           "azure_workload_client_id": "w-1" });
    integration(&gateway, "azure-openai", None, workload).await;
    let call = || gateway.post(CHAT).key(WORKSPACE_KEY).provider("@cloud").json(&hello("m")).send();
    call().await.expect(200);
    // The platform writes it anew from time to time; another client shows what it finds by then.
    std::fs::write(&file, "ey.second").expect("written");
    let federated = json!({ "configurations": { "azure_auth_mode": "entraFederated", "azure_entra_tenant_id": "t-2",
                                                "azure_entra_client_id": "e-1" } });
    gateway.admin().put("/integrations/cloud-i", &federated).await.expect(200);
    call().await.expect(200);
    let asked: Vec<_> = identity.seen().iter().map(|s| (s.target.clone(), s.text())).collect();
    let kind = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    for ((target, form), (tenant, client, token)) in
        asked.iter().zip([("t-1", "w-1", "ey.first"), ("t-2", "e-1", "ey.second")])
    {
        assert_eq!(*target, format!("/{tenant}/oauth2/v2.0/token"));
        let wanted = format!("client_id={client}&{kind}&client_assertion={token}&");
        assert!(form.contains(&wanted), "{form}");
    }
    assert_eq!(asked.len(), 2);
}

#[tokio::test]
async fn settings_come_by_header_or_by_config() {
    let (identity, up) = (token_endpoint(3600).await, upstream().await);
    let gateway = Gateway::with(&["--azure-authority", &bare(&identity)]).await;
    let host = format!("{}/openai", bare(&up));
    let by_header = |pairs: &[(&str, &str)]| {
        let call = gateway.post(CHAT).key(WORKSPACE_KEY).provider("azure-openai").json(&hello("m"));
        let call = call.header("x-gateway-custom-host", &host);
        pairs.iter().fold(call, |call, (name, value)| call.header(name, value))
    };
    let place = ("x-gateway-azure-deployment-id", "d-1");
    let version = ("x-gateway-azure-api-version", "2024-10-21");
    by_header(&[place, version, ("authorization", "Bearer my-azure-key")]).send().await.expect(200);
    by_header(&[place, version, ("x-gateway-azure-ad-token", "Bearer ey.mine")]).send().await.expect(200);
    let config = json!({ "provider": "azure-openai", "custom_host": host, "deployments": deployments(),
                         "api_version": "2024-10-21", "azure_auth_mode": "entra", "azure_entra_tenant_id": "t-1",
                         "azure_entra_client_id": "app-1", "azure_entra_client_secret": "s3cret-of-the-app-01" });
    let saved = gateway.admin().config("azure", &config).await;
    let shown = gateway.admin().get(&format!("/configs/{saved}")).await.expect(200).text();
    assert!(shown.contains("app-1") && !shown.contains("s3cret-of"), "{shown}");
    let by_config = || gateway.post(CHAT).key(WORKSPACE_KEY).header("x-gateway-config", &saved).json(&hello("fast"));
    by_config().send().await.expect(200);
    let seen = up.seen();
    let path = |name: &str, version: &str| format!("/openai/deployments/{name}/chat/completions?api-version={version}");
    assert_eq!(seen[0].target, path("d-1", "2024-10-21"));
    assert_eq!((seen[0].header("api-key"), seen[0].header("authorization")), (Some("my-azure-key"), None));
    assert_eq!((seen[1].header("api-key"), seen[1].header("authorization")), (None, Some("Bearer ey.mine")));
    assert_eq!(seen[2].target, path("mini-eu", "2025-04-01-preview"));
    assert_eq!(seen[2].header("authorization"), Some("Bearer t1"));
    // A saved secret is not led elsewhere by the request.
    for (name, value) in [("x-gateway-azure-entra-tenant-id", "t-2"), ("x-gateway-custom-host", "https://a.example")] {
        by_config().header(name, value).send().await.expect(400);
    }
    let managed = json!({ "provider": "@cloud", "azure_api_version": "v1" });
    let told = by_header(&[]).without("x-gateway-provider").config(&managed).send().await.expect(400).text();
    assert!(told.contains("azure_api_version"), "{told}");
    assert_eq!(identity.seen().len(), 1);
}

#[tokio::test]
async fn a_foundry_speaks_what_its_url_says() {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                          "content": [{ "type": "text", "text": "Hello" }], "stop_reason": "end_turn",
                          "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 2 } });
    let up = Upstream::replying(move |seen| {
        if seen.target.contains("anthropic") { reply::json(200, &message) } else { reply::chat("Hi") }
    })
    .await;
    let gateway = Gateway::start().await;
    let url = |path: &str| format!("{}{path}", bare(&up));
    integration(&gateway, "azure-ai", Some("foundry-key-01"), json!({ "azure_foundry_url": url("/models") })).await;
    let call = |path: &str, body: &Value| {
        let call = gateway.post(path).key(WORKSPACE_KEY).provider("@cloud").json(body);
        call.header("anthropic-beta", "b-1")
    };
    call(CHAT, &hello("mistral-large")).send().await.expect(200);
    let native = json!({ "model": "gpt-4o", "input": "Hi" });
    call("/v1/responses", &native).header("x-gateway-provider-responses-proxy", "true").send().await;
    let change = json!({ "configurations": { "azure_foundry_url": url("/anthropic") } });
    gateway.admin().put("/integrations/cloud-i", &change).await.expect(200);
    let said = call(CHAT, &hello("claude-sonnet-4-5")).send().await.expect(200).json();
    assert_eq!(said["choices"][0]["message"]["content"], "Hello");
    let mut body = hello("claude-sonnet-4-5");
    body["max_tokens"] = 9.into();
    let said = call("/v1/messages", &body).send().await.expect(200).json();
    assert_eq!(said["content"][0]["text"], "Hello");
    let seen = up.seen();
    let of = |i: usize, name: &str| seen[i].header(name).map(str::to_owned);
    assert_eq!(seen[0].target, "/models/chat/completions?api-version=2024-05-01-preview");
    assert_eq!((of(0, "extra-parameters"), of(0, "anthropic-beta")), (Some("drop".to_owned()), None));
    assert_eq!(of(0, "authorization").as_deref(), Some("Bearer foundry-key-01"));
    assert_eq!(seen[1].target, "/models/responses?api-version=2024-05-01-preview");
    assert_eq!(seen[1].json(), native);
    for i in [2, 3] {
        assert_eq!(seen[i].target, "/anthropic/v1/messages");
        assert_eq!((of(i, "x-api-key").as_deref(), of(i, "authorization")), (Some("foundry-key-01"), None));
        assert_eq!(of(i, "anthropic-version").as_deref(), Some("2023-06-01"));
        assert_eq!(of(i, "anthropic-beta").as_deref(), Some("b-1"));
    }
}
