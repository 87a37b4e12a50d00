//! Secrets of managers through the real binary: what a manager holds goes upstream, what it holds later too, and what
//! it held last while it is away. Where a reference may point is in `saved_addresses.rs`.

use crate::harness::{Answer, Gateway, Manager, Upstream, eventually, hello, reply};
use gateway_testing::{Bucket, Postgres};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const SOON: [&str; 2] = ["--secret-refresh", "1s"];

pub(crate) fn vault(manager: &Manager) -> Value {
    json!({ "name": "Vaulted", "slug": "vaulted", "manager_type": "hashicorp_vault", "secret_path": "secret/data/team/openai",
            "secret_key": "key", "auth_config": { "vault_auth_type": "token", "vault_addr": manager.url(),
                                                  "vault_token": "vault-token-canary" } })
}

/// An integration that is filled from the reference `vaulted`, and the provider `@vaulted` on it.
async fn filled(gateway: &Gateway, upstream: &Upstream, mappings: Value) {
    let admin = gateway.admin();
    let body = json!({ "name": "vaulted", "slug": "vaulted-i", "ai_provider_id": "openai", "create_default_provider": false,
                       "configurations": { "custom_host": upstream.url() }, "secret_mappings": mappings });
    admin.post("/integrations", &body).await.expect(200);
    let provider = json!({ "name": "vaulted", "slug": "vaulted", "integration_id": "vaulted-i" });
    admin.post("/providers", &provider).await.expect(200);
}

fn the_key() -> Value {
    json!([{ "target_field": "key", "secret_reference_id": "vaulted" }])
}

async fn ask(gateway: &Gateway) -> Answer {
    gateway
        .post("/v1/chat/completions")
        .key(crate::harness::WORKSPACE_KEY)
        .provider("@vaulted")
        .json(&hello())
        .send()
        .await
}

/// Waits until calls go up with this key.
async fn goes_up_with(gateway: &Gateway, upstream: &Upstream, key: &str) {
    let (want, what) = (format!("Bearer {key}"), format!("a call with {key}"));
    eventually(&what, async || {
        let called = ask(gateway).await.status == 200;
        let seen = upstream.seen().pop().filter(|_| called)?;
        (seen.header("authorization") == Some(want.as_str())).then_some(())
    })
    .await;
}

async fn state(gateway: &Gateway, want: &str) -> Value {
    let what = format!("the state {want}");
    eventually(&what, async || {
        let shown = gateway.admin().get("/secret-references/vaulted").await.expect(200).json();
        (shown["resolution"]["state"] == want).then_some(shown)
    })
    .await
}

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

#[tokio::test]
async fn a_rotated_secret_comes_into_force_and_the_last_good_one_stays() {
    let (manager, up) = (Manager::vault(json!({ "key": "sk-first-canary" })).await, upstream().await);
    let gateway = Gateway::with(&SOON).await;
    gateway.admin().post("/secret-references", &vault(&manager)).await.expect(200);
    filled(&gateway, &up, the_key()).await;
    goes_up_with(&gateway, &up, "sk-first-canary").await;
    manager.holds(json!({ "key": "sk-second-canary" }));
    goes_up_with(&gateway, &up, "sk-second-canary").await;
    // Away, and then there with something that is no key: what was last good goes on.
    manager.refuses(503);
    let shown = state(&gateway, "stale").await;
    assert!(shown["resolution"]["error"].as_str().is_some_and(|why| why.contains("status 503")), "{shown}");
    ask(&gateway).await.expect(200);
    assert_eq!(up.seen().pop().expect("called").header("authorization"), Some("Bearer sk-second-canary"));
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("gateway_secret_references 1") && metrics.contains("gateway_secret_references_failing 1"));
    assert!(!metrics.contains("gateway_secret_reads_total{outcome=\"failed\"} 0"), "{metrics}");
    manager.holds(json!({ "other": "x" }));
    state(&gateway, "fresh").await;
    ask(&gateway).await.expect(200);
    assert_eq!(up.seen().pop().expect("called").header("authorization"), Some("Bearer sk-second-canary"));
    assert!(gateway.process.output().contains("has no member `key`"));
    // A restart has nothing but the manager, and waits for it before it serves.
    manager.holds(json!({ "key": "sk-third-canary" }));
    let gateway = gateway.restart_with(&SOON).await;
    ask(&gateway).await.expect(200);
    assert_eq!(up.seen().pop().expect("called").header("authorization"), Some("Bearer sk-third-canary"));
    manager.refuses(500);
    let gateway = gateway.restart_after_kill(&SOON).await;
    let refused = ask(&gateway).await.expect(503);
    assert!(refused.text().contains("the secret reference `vaulted` could not be read yet"), "{}", refused.text());
    manager.holds(json!({ "key": "sk-fourth-canary" }));
    goes_up_with(&gateway, &up, "sk-fourth-canary").await;
}

#[tokio::test]
async fn no_secret_of_a_manager_or_for_it_is_shown_anywhere() {
    let (manager, up) = (Manager::vault(json!({ "key": "sk-first-canary" })).await, upstream().await);
    let gateway = Gateway::with(&SOON).await;
    let admin = gateway.admin();
    let mut told = vec![admin.post("/secret-references", &vault(&manager)).await.expect(200).text()];
    filled(&gateway, &up, the_key()).await;
    goes_up_with(&gateway, &up, "sk-first-canary").await;
    manager.refuses(403);
    state(&gateway, "stale").await;
    let bad = json!({ "auth_config": { "vault_tokens": "vault-token-canary" }, "secret_path": "vault-token-canary" });
    told.push(admin.put("/secret-references/vaulted", &bad).await.expect(400).text());
    let org = admin.get("/admin/organisation").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    let trail = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01");
    for path in [
        "/secret-references",
        "/secret-references/vaulted",
        "/integrations/vaulted-i",
        "/providers/vaulted",
        "/virtual-keys/vaulted",
        &trail,
        "/nodes/settings",
        "/logs",
    ] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        told.push(answer.text());
    }
    let export = admin.get("/configuration").await.expect(200).text();
    assert!(export.contains("secret_references") && export.contains("GATEWAY_SECRET_"), "{export}");
    told.extend([export, gateway.metrics().await, gateway.process.output()]);
    // The manager itself says again what it was sent.
    for text in told {
        assert!(!text.contains("-canary"), "{text}");
    }
    let mut folders = vec![gateway.folder().join("data")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let shows = bytes.windows(b"-canary".len()).any(|part| part == b"-canary");
            assert!(!shows, "{} holds a secret", path.display());
        }
    }
}

#[tokio::test]
async fn each_manager_is_asked_as_its_documents_say() {
    let held = json!({ "key": "sk-held", "more": { "a": 1 } });
    let (vaulted, azure, aws) =
        (Manager::vault(held.clone()).await, Manager::azure(json!("sk-held")).await, Manager::aws(held.clone()).await);
    let tokens = Upstream::replying(|_| reply::json(200, &json!({ "access_token": "t1", "expires_in": 3600 }))).await;
    let up = upstream().await;
    let (folder, identity) = (tempfile::tempdir().expect("a folder"), tokens.url().trim_end_matches("/v1").to_owned());
    std::fs::write(folder.path().join("cluster"), "cluster-token-canary\n").expect("written");
    std::fs::write(folder.path().join("openai"), "sk-held\n").expect("written");
    let (place, cluster) = (folder.path().display().to_string(), folder.path().join("cluster").display().to_string());
    let flags = [
        "--azure-authority",
        &identity,
        "--azure-metadata-url",
        &identity,
        "--secret-machine-identity",
        "true",
        "--secret-env-prefix",
        "TENANT_",
        "--secret-folder",
        &place,
        "--kubernetes-token-file",
        &cluster,
    ];
    let here = [
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", &*aws.url()),
        ("TENANT_OPENAI", "sk-held"),
        ("AWS_ACCESS_KEY_ID", "AKIAMACHINE"),
        ("AWS_SECRET_ACCESS_KEY", "machine-secret"),
    ]
    .map(|(n, v)| (n, v.to_owned()));
    let here: Vec<(&str, &str)> = here.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = Gateway::in_environment_with(&here, &flags).await;
    let at = |url: String, auth: Value| crate::harness::with(auth, json!({ "vault_addr": url }));
    let azure_at = |auth: Value| crate::harness::with(auth, json!({ "azure_vault_url": azure.url() }));
    let cases = [
        (
            "hashicorp_vault",
            "secret/data/team/openai",
            Some("key"),
            at(
                vaulted.url(),
                json!({ "vault_auth_type": "approle", "vault_role_id": "role", "vault_secret_id": "secret-id-canary" }),
            ),
        ),
        // The path without the engine's `data`, as the command line has it; and an engine of version 1.
        (
            "hashicorp_vault",
            "secret/team/openai",
            Some("key"),
            at(
                vaulted.url(),
                json!({ "vault_auth_type": "token", "vault_token": "vault-token-canary", "vault_namespace": "house" }),
            ),
        ),
        (
            "hashicorp_vault",
            "kv/openai",
            Some("key"),
            at(vaulted.url(), json!({ "vault_auth_type": "kubernetes", "vault_role": "role" })),
        ),
        (
            "azure_kv",
            "openai",
            None,
            azure_at(json!({ "azure_auth_mode": "entra", "azure_entra_tenant_id": "t", "azure_entra_client_id": "c",
                          "azure_entra_client_secret": "entra-canary" })),
        ),
        ("azure_kv", "openai", None, azure_at(json!({ "azure_auth_mode": "managed" }))),
        ("azure_kv", "openai", None, azure_at(json!({ "azure_auth_mode": "default" }))),
        (
            "aws_sm",
            "prod/openai",
            Some("key"),
            json!({ "aws_auth_type": "accessKey", "aws_region": "us-east-1", "aws_access_key_id": "AKIATENANT",
                 "aws_secret_access_key": "aws-canary" }),
        ),
        ("aws_sm", "prod/openai", Some("key"), json!({ "aws_auth_type": "serviceRole", "aws_region": "us-east-1" })),
        ("environment", "TENANT_OPENAI", None, json!({})),
        ("file", "openai", None, json!({})),
    ];
    let admin = gateway.admin();
    for (at, (manager, path, key, auth)) in cases.into_iter().enumerate() {
        let body = json!({ "name": "v", "slug": "vaulted", "manager_type": manager, "secret_path": path, "secret_key": key,
                           "auth_config": auth });
        admin.post("/secret-references", &body).await.expect(200);
        state(&gateway, "fresh").await;
        filled(&gateway, &up, the_key()).await;
        ask(&gateway).await.expect(200);
        let seen = up.seen().pop().expect("called");
        assert_eq!(seen.header("authorization"), Some("Bearer sk-held"), "{at}: {manager} {body}");
        for path in ["/providers/vaulted", "/integrations/vaulted-i", "/secret-references/vaulted"] {
            admin.delete(path).await.expect(200);
        }
    }
    let namespaces =
        vaulted.upstream.seen().into_iter().filter(|seen| seen.header("x-vault-namespace") == Some("house"));
    assert_eq!(namespaces.count(), 2, "once as the path says, once behind `data`");
    let asked: Vec<String> = tokens.seen().iter().map(|seen| format!("{} {}", seen.target, seen.text())).collect();
    assert!(asked.iter().any(|ask| ask.contains("scope=https%3A%2F%2Fvault.azure.net%2F.default")), "{asked:?}");
    assert!(asked.iter().any(|ask| ask.contains("resource=https%3A%2F%2Fvault.azure.net")), "{asked:?}");
    let signers: Vec<String> =
        aws.upstream.seen().iter().filter_map(|seen| seen.header("authorization").map(str::to_owned)).collect();
    assert!(
        signers.iter().any(|by| by.contains("AKIATENANT")) && signers.iter().any(|by| by.contains("AKIAMACHINE")),
        "{signers:?}"
    );
}

/// What AWS's token service gives for a role: keys that are numbered, so that it shows which of them sign.
async fn token_service() -> Upstream {
    let given = AtomicUsize::new(0);
    Upstream::replying(move |_| {
        let number = given.fetch_add(1, SeqCst) + 1;
        let keys = format!(
            "<AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>role-secret-canary</SecretAccessKey>\
             <SessionToken>token{number}</SessionToken><Expiration>2126-01-01T00:00:00Z</Expiration>"
        );
        let body = format!("<AssumeRoleResponse><Credentials>{keys}</Credentials></AssumeRoleResponse>");
        reply::whole(200, &[("content-type", "text/xml")], body)
    })
    .await
}

#[tokio::test]
async fn a_secret_of_aws_is_read_in_a_role_with_keys_or_by_the_machine() {
    let (aws, up, sts) = (Manager::aws(json!({ "key": "sk-held" })).await, upstream().await, token_service().await);
    let sts_url = sts.url().trim_end_matches("/v1").to_owned();
    let here = [
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", &*aws.url()),
        ("AWS_ENDPOINT_URL_STS", &*sts_url),
        ("AWS_ACCESS_KEY_ID", "AKIAMACHINE"),
        ("AWS_SECRET_ACCESS_KEY", "machine-secret"),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    let here: Vec<(&str, &str)> = here.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let role = json!({ "aws_auth_type": "assumedRole", "aws_region": "us-east-1",
        "aws_role_arn": "arn:aws:iam::123456789012:role/secrets", "aws_external_id": "tenant/7" });
    let keys = json!({ "aws_access_key_id": "AKIATENANT", "aws_secret_access_key": "aws-canary" });
    let body = |auth: Value| {
        json!({ "name": "v", "slug": "vaulted", "manager_type": "aws_sm", "secret_path": "prod/openai",
        "secret_key": "key", "auth_config": auth })
    };
    let gateway = Gateway::in_environment_with(&here, &SOON).await;
    let closed = gateway.admin().post("/secret-references", &body(role.clone())).await.expect(400);
    assert!(closed.text().contains("machine"), "{}", closed.text());
    let with_keys = crate::harness::with(role.clone(), keys);
    gateway.admin().post("/secret-references", &body(with_keys)).await.expect(200);
    state(&gateway, "fresh").await;
    filled(&gateway, &up, the_key()).await;
    goes_up_with(&gateway, &up, "sk-held").await;
    let form = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fsecrets";
    let asked = sts.only();
    assert!(asked.text().starts_with(form) && asked.text().ends_with("&ExternalId=tenant%2F7"), "{}", asked.text());
    let by = asked.header("authorization").unwrap_or_default().to_owned();
    assert!(by.contains("Credential=AKIATENANT/") && by.contains("/us-east-1/sts/aws4_request"), "{by}");
    eventually("reads by the same keys", async || (aws.upstream.seen().len() >= 3).then_some(())).await;
    for seen in aws.upstream.seen() {
        assert!(seen.header("authorization").is_some_and(|by| by.contains("Credential=ASIA1/")), "{seen:?}");
        assert_eq!(seen.header("x-amz-security-token"), Some("token1"), "one set of keys serves until it ends");
    }
    for text in [gateway.process.output(), gateway.admin().get("/secret-references").await.text()] {
        assert!(!text.contains("-canary"), "{text}");
    }
    drop(gateway);
    // Where the reference has no keys of its own the machine takes the role, if the operator opens that.
    let opened = [&SOON[..], &["--secret-machine-identity", "true"]].concat();
    let gateway = Gateway::in_environment_with(&here, &opened).await;
    gateway.admin().post("/secret-references", &body(role)).await.expect(200);
    state(&gateway, "fresh").await;
    let by = sts.seen().pop().expect("asked").header("authorization").unwrap_or_default().to_owned();
    assert!(by.contains("Credential=AKIAMACHINE/"), "{by}");
}

#[tokio::test]
async fn a_login_at_a_vault_is_kept_and_made_again_when_it_ends() {
    let (manager, up) = (Manager::vault(json!({ "key": "sk-1" })).await, upstream().await);
    let gateway = Gateway::with(&SOON).await;
    let mut body = vault(&manager);
    body["auth_config"] = json!({ "vault_auth_type": "approle", "vault_addr": manager.url(), "vault_role_id": "role",
                                  "vault_secret_id": "secret-id-canary" });
    gateway.admin().post("/secret-references", &body).await.expect(200);
    filled(&gateway, &up, the_key()).await;
    eventually("four reads", async || (manager.asked("/v1/secret/data/team/openai") >= 4).then_some(())).await;
    assert_eq!(manager.asked("/v1/auth/approle/login"), 1, "a lease is not asked for with each read");
    manager.refuses(403);
    state(&gateway, "stale").await;
    manager.holds(json!({ "key": "sk-2" }));
    goes_up_with(&gateway, &up, "sk-2").await;
    assert!(manager.asked("/v1/auth/approle/login") >= 2, "what was refused is not used again");
}

#[tokio::test]
async fn every_place_of_an_integration_can_be_filled_and_members_are_chosen() {
    let held = json!({ "key": "sk-key", "org": "org-7", "header": "h-1", "tuned": "k-2" });
    let (manager, up) = (Manager::vault(held).await, upstream().await);
    let gateway = Gateway::with(&SOON).await;
    let admin = gateway.admin();
    admin.post("/secret-references", &vault(&manager)).await.expect(200);
    let id = admin.get("/secret-references/vaulted").await.expect(200).json()["id"].clone();
    let mappings = json!([
        { "target_field": "key", "secret_reference_id": id, "secret_key": "tuned" },
        { "target_field": "configurations.custom_headers.x-team-token", "secret_reference_id": "vaulted", "secret_key": "header" },
    ]);
    filled(&gateway, &up, mappings).await;
    goes_up_with(&gateway, &up, "k-2").await;
    assert_eq!(up.seen().pop().expect("called").header("x-team-token"), Some("h-1"));
    // An integration of AWS that is signed with keys of a manager.
    manager.holds(
        json!({ "key": "sk-key", "id": "AKIAVAULTED", "secret": "signing-secret", "tuned": "k", "header": "h" }),
    );
    let bedrock = json!({ "name": "bedrock", "slug": "bedrock-i", "ai_provider_id": "bedrock",
        "configurations": { "aws_region": "us-east-1", "aws_auth_type": "accessKey", "custom_host": manager_free(&up) },
        "secret_mappings": [
            { "target_field": "configurations.aws_access_key_id", "secret_reference_id": "vaulted", "secret_key": "id" },
            { "target_field": "configurations.aws_secret_access_key", "secret_reference_id": "vaulted", "secret_key": "secret",
              "value_format": "string" },
        ], "default_provider_slug": "bedrock" });
    admin.post("/integrations", &bedrock).await.expect(200);
    let signed = eventually("a signed call", async || {
        let body = json!({ "model": "amazon.nova-lite-v1:0", "messages": [{ "role": "user", "content": "Hi" }] });
        let call = gateway.post("/v1/chat/completions").key(crate::harness::WORKSPACE_KEY).provider("@bedrock");
        call.json(&body).send().await;
        up.seen()
            .into_iter()
            .find(|seen| seen.header("authorization").is_some_and(|by| by.contains("AWS4-HMAC-SHA256")))
    });
    assert!(signed.await.header("authorization").is_some_and(|by| by.contains("Credential=AKIAVAULTED/")));
    // A virtual key takes them too, in words of its own.
    let virtual_key = json!({ "name": "Old", "provider": "bedrock", "secret_mappings": [
        { "target_field": "model_config.awsAccessKeyId", "secret_reference_id": "vaulted", "secret_key": "id" },
        { "target_field": "model_config.awsSecretAccessKey", "secret_reference_id": "vaulted", "secret_key": "secret" },
        { "target_field": "model_config.awsRegion", "secret_reference_id": "vaulted", "secret_key": "key" },
    ] });
    admin.post("/virtual-keys", &virtual_key).await.expect(200);
    let shown = admin.get("/virtual-keys/old").await.expect(200).json();
    assert_eq!(shown["secret_mappings"][0]["target_field"], "model_config.awsAccessKeyId", "{shown}");
    assert_eq!(shown["secret_mappings"][0]["secret_reference_id"], id);
}

/// Host of an upstream whose paths begin at the root.
fn manager_free(upstream: &Upstream) -> String {
    upstream.url().trim_end_matches("/v1").to_owned()
}

#[tokio::test]
async fn a_reference_serves_the_workspaces_that_it_names_and_no_other() {
    let (manager, up) = (Manager::vault(json!({ "key": "sk-1" })).await, upstream().await);
    let gateway = Gateway::with(&SOON).await;
    let admin = gateway.admin();
    admin.post("/admin/workspaces", &json!({ "name": "Other", "slug": "other" })).await.expect(200);
    admin.post("/secret-references", &vault(&manager)).await.expect(200);
    filled(&gateway, &up, the_key()).await;
    goes_up_with(&gateway, &up, "sk-1").await;
    // While it is in use, it is not taken away.
    let refused = admin.delete("/secret-references/vaulted").await.expect(409);
    assert!(refused.text().contains("vaulted-i"), "{}", refused.text());
    admin.put("/secret-references/vaulted", &json!({ "allowed_workspaces": ["other"] })).await.expect(200);
    let shut = ask(&gateway).await.expect(400);
    assert!(shut.text().contains("not open to this workspace"), "{}", shut.text());
    let own =
        json!({ "name": "own", "ai_provider_id": "openai", "workspace_id": "default", "secret_mappings": the_key() });
    let refused = admin.post("/integrations", &own).await.expect(400);
    assert!(refused.text().contains("secret_mappings[0].secret_reference_id"), "{}", refused.text());
    admin.put("/secret-references/vaulted", &json!({ "allow_all_workspaces": true })).await.expect(200);
    ask(&gateway).await.expect(200);
    // A literal takes the place of the mapping only when that is taken out.
    admin.put("/integrations/vaulted-i", &json!({ "key": "sk-literal" })).await.expect(400);
    let literal = json!({ "key": "sk-literal", "secret_mappings": [] });
    admin.put("/integrations/vaulted-i", &literal).await.expect(200);
    ask(&gateway).await.expect(200);
    assert_eq!(up.seen().pop().expect("called").header("authorization"), Some("Bearer sk-literal"));
    admin.delete("/secret-references/vaulted").await.expect(200);
    eventually("nothing of it is kept", async || {
        gateway.metrics().await.contains("gateway_secret_references 0").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_reads_for_itself_and_one_that_calls_nobody_reads_nothing() {
    let (manager, up) = (Manager::vault(json!({ "key": "sk-1" })).await, upstream().await);
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("secrets"))).await;
    let (_postgres, url) = database.expect("no panic");
    let one = Gateway::with(&["--database-url", &url, "--role", "admin"]).await;
    one.admin().post("/secret-references", &vault(&manager)).await.expect(200);
    filled(&one, &up, the_key()).await;
    let shown = one.admin().get("/secret-references/vaulted").await.expect(200).json();
    assert_eq!(shown["resolution"], Value::Null);
    assert_eq!(manager.upstream.seen().len(), 0);
    let key = one.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &url, "--master-key-file", &key, "--secret-refresh", "1s"];
    let (two, three) = (Gateway::with(&flags).await, Gateway::with(&flags).await);
    for node in [&two, &three] {
        goes_up_with(node, &up, "sk-1").await;
    }
    manager.holds(json!({ "key": "sk-2" }));
    for node in [&two, &three] {
        goes_up_with(node, &up, "sk-2").await;
    }
}

/// Another one's idea of AWS Secrets Manager, with its own reading of what we send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_that_others_test_with_tell_their_secrets_too() {
    let moto = tokio::task::spawn_blocking(Bucket::start).await.expect("no panic");
    let (endpoint, up) = (moto.endpoint(), upstream().await);
    let gateway = Gateway::in_environment_with(&[("AWS_ENDPOINT_URL_SECRETS_MANAGER", &endpoint)], &SOON).await;
    let tell = async |action: &str, body: Value| {
        let scope = "AKIDTEST/20260101/us-east-1/secretsmanager/aws4_request";
        let signed = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none");
        let call = gateway.client().post(format!("{endpoint}/")).header("authorization", signed);
        let call = call.header("x-amz-target", format!("secretsmanager.{action}")).body(body.to_string());
        let answer = call.header("content-type", "application/x-amz-json-1.1").send().await.expect("moto answers");
        assert_eq!(answer.status(), 200, "{action}");
    };
    let secret = json!({ "key": "sk-moto-1" }).to_string();
    tell("CreateSecret", json!({ "Name": "prod/openai", "SecretString": secret })).await;
    let auth = json!({ "aws_auth_type": "accessKey", "aws_region": "us-east-1", "aws_access_key_id": "AKIDTEST",
                       "aws_secret_access_key": "bucket/secret" });
    let body = json!({ "name": "v", "slug": "vaulted", "manager_type": "aws_sm", "secret_path": "prod/openai",
                       "secret_key": "key", "auth_config": auth });
    gateway.admin().post("/secret-references", &body).await.expect(200);
    filled(&gateway, &up, the_key()).await;
    goes_up_with(&gateway, &up, "sk-moto-1").await;
    let secret = json!({ "key": "sk-moto-2" }).to_string();
    tell("PutSecretValue", json!({ "SecretId": "prod/openai", "SecretString": secret })).await;
    goes_up_with(&gateway, &up, "sk-moto-2").await;
    moto.cut();
    state(&gateway, "stale").await;
    goes_up_with(&gateway, &up, "sk-moto-2").await;
    moto.mend();
    state(&gateway, "fresh").await;
    let gone = json!({ "secret_path": "prod/gone" });
    gateway.admin().put("/secret-references/vaulted", &gone).await.expect(200);
    let shown = state(&gateway, "stale").await;
    assert!(shown["resolution"]["error"].as_str().is_some_and(|why| why.contains("is not there")), "{shown}");
}
