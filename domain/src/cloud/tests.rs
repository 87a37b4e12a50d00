//! What settings make of a family, and which of them are refused.

use super::*;
use serde_json::json;

fn settings(pairs: &[(&str, &str)]) -> CloudSettings {
    let mut settings = CloudSettings::default();
    for (name, value) in pairs {
        settings.set(setting(name).expect("known"), (*value).to_owned()).expect("valid");
    }
    settings
}

const ACCOUNT: &str =
    r#"{"type":"service_account","project_id":"p-1","client_email":"a@p-1.iam","private_key":"-----"}"#;

#[test]
fn addresses() {
    let vertex = |region| base_url("vertex-ai", &settings(&[("vertex_region", region)])).expect("valid");
    assert_eq!(vertex("europe-west4").as_deref(), Some("https://europe-west4-aiplatform.googleapis.com"));
    assert_eq!(vertex("global").as_deref(), Some("https://aiplatform.googleapis.com"));
    assert_eq!(vertex("eu").as_deref(), Some("https://aiplatform.eu.rep.googleapis.com"));
    let azure = base_url("azure-openai", &settings(&[("resource_name", "mine")])).expect("valid");
    assert_eq!(azure.as_deref(), Some("https://mine.openai.azure.com/openai"));
    let speech = |region, model| {
        let operation = Operation::Transcription;
        aside_url("vertex-ai", operation, Some(model), &settings(&[("vertex_region", region)])).expect("valid")
    };
    for model in ["chirp_2", "google/chirp_3", "publishers/google/models/chirp_2", "google.chirp"] {
        assert_eq!(speech("eu", model).as_deref(), Some("https://eu-speech.googleapis.com"), "{model}");
    }
    assert_eq!(speech("global", "chirp_3").as_deref(), Some("https://speech.googleapis.com"));
    assert_eq!(speech("us-central1", "gemini-2.5-flash"), None);
    assert_eq!(base_url("vertex-ai", &CloudSettings::default()).expect_err("no region").field, "vertex_region");
    assert_eq!(base_url("openai", &CloudSettings::default()), Ok(None));
    let jobs = |family, told: &[(&str, &str)]| {
        aside_url(family, Operation::RetrieveFinetune, None, &settings(told)).expect("valid")
    };
    let control = Some("https://bedrock.eu-west-1.amazonaws.com");
    assert_eq!(jobs("bedrock", &[("aws_region", "eu-west-1")]).as_deref(), control);
    assert_eq!(jobs("fireworks-ai", &[]).as_deref(), Some("https://api.fireworks.ai"));
    assert_eq!(jobs("together-ai", &[]), None);
}

#[test]
fn a_setting_cannot_leave_its_place_in_an_address() {
    for (name, value) in [
        ("vertex_region", "x.evil.example/"),
        ("vertex_region", ""),
        ("vertex_project_id", "a/b"),
        ("azure_resource_name", "evil.example#"),
        ("azure_deployment_id", ".."),
        ("azure_api_version", "1&x=2"),
        ("vertex_auth_type", "none"),
        ("azure_auth_mode", "none"),
    ] {
        let wrong = CloudSettings::default().set(setting(name).expect("known"), value.into()).expect_err(value);
        assert_eq!(wrong.field, name);
    }
}

#[test]
fn headers_name_settings() {
    assert_eq!(setting_of_header("vertex-service-account-json").map(|s| s.name), Some("vertex_service_account_json"));
    assert_eq!(setting_of_header("azure-deployment-id").map(|s| s.name), Some("azure_deployment_id"));
    assert!(setting_of_header("trace-id").is_none() && setting_of_header("vertex_region").is_none());
}

#[test]
fn ways_of_signing_in() {
    let way = |family: &str, pairs: &[(&str, &str)], host| grant(family, &settings(pairs), false, host);
    let account = way("vertex-ai", &[("vertex_service_account_json", ACCOUNT)], false).expect("valid").expect("one");
    assert!(
        matches!(&account.sign_in, SignIn::ServiceAccount(a) if a.token_uri == "https://oauth2.googleapis.com/token")
    );
    let federated = json!({ "type": "external_account", "audience": "//iam", "subject_token_type": "jwt",
                            "token_url": "https://sts.googleapis.com/v1/token",
                            "credential_source": { "url": "https://issuer.example/token", "headers": { "a": "b" } } });
    let federated = federated.to_string();
    let federated = way("vertex-ai", &[("vertex_service_account_json", &federated)], false).expect("valid");
    assert!(matches!(federated.expect("one").sign_in, SignIn::Federation(_)));
    let host = [("vertex_auth_type", "workload")];
    assert!(way("vertex-ai", &host, true).expect("saved").is_some());
    assert_eq!(way("vertex-ai", &host, false).expect_err("of a request").field, "vertex_auth_type");
    assert_eq!(
        way("vertex-ai", &[("vertex_auth_type", "serviceAccount")], true).expect_err("no file").field,
        "vertex_service_account_json"
    );
    let oauth =
        [("oauth_token_endpoint", "https://x.example/t"), ("oauth_client_id", "i"), ("oauth_client_secret", "s")];
    assert!(way("openai", &oauth, false).expect("valid").is_some());
    assert_eq!(way("openai", &oauth[..2], false).expect_err("no secret").field, "oauth_client_secret");
    assert!(way("openai", &[], false).expect("plain").is_none());
    let entra = [
        ("azure_auth_mode", "entra"),
        ("azure_entra_tenant_id", "t"),
        ("azure_entra_client_id", "i"),
        ("azure_entra_client_secret", "s"),
    ];
    let entra = way("azure-openai", &entra, false).expect("valid").expect("one");
    let tenant = SignInEndpoint::Entra { tenant: "t".into() };
    assert!(matches!(&entra.sign_in, SignIn::ClientCredentials(c) if c.endpoint == tenant));
    assert!(way("azure-openai", &[("azure_auth_mode", "managed")], false).is_err(), "the machine is not a caller's");
    assert_ne!(entra.id, account.id);
    assert!(!format!("{entra:?}{account:?}").contains("-----"), "no secret is printed");
}

#[test]
fn the_project_may_be_the_accounts() {
    assert_eq!(vertex_project(&settings(&[("vertex_service_account_json", ACCOUNT)])).as_deref(), Some("p-1"));
    let named = settings(&[("vertex_service_account_json", ACCOUNT), ("vertex_project_id", "p-2")]);
    assert_eq!(vertex_project(&named).as_deref(), Some("p-2"));
}

#[test]
fn what_lies_over_wins() {
    let below = settings(&[("vertex_region", "us-east1"), ("vertex_project_id", "p")]);
    let both = settings(&[("vertex_region", "global")]).over(&below);
    assert_eq!((both.get("vertex_region"), both.get("vertex_project_id")), (Some("global"), Some("p")));
}
