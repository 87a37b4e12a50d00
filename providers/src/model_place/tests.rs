//! Where each family's own API names the model, and the ways around that must not work.

use super::ModelPlace::{self, Body, Named, Unknown};
use super::*;
use gateway_domain::cloud::setting;

fn place(slug: &str, address: &str) -> ModelPlace {
    let (tail, query) = address.split_once('?').map_or((address, None), |(tail, query)| (tail, Some(query)));
    let settings = CloudSettings::none();
    let adapter = crate::adapter(slug).unwrap_or_else(|| panic!("{slug} is no provider"));
    adapter.model_place(&Untouched { tail, query, settings })
}

#[test]
fn each_family_is_read_where_it_reads() {
    let named = |name: &str| Named(name.to_owned());
    for (slug, address, expected) in [
        ("openai", "/chat/completions", Body),
        ("openai", "/responses", Body),
        ("openai", "/engines/dear/completions", named("dear")),
        ("openai", "/realtime?model=dear", named("dear")),
        ("openai", "/realtime?model=cheap&Model=dear", Unknown),
        ("openai", "/realtime?model=dear&x=1&model=dear", named("dear")),
        ("openai", "/realtime?m%6fdel=d%65ar", named("dear")),
        ("openai", "/realtime", Unknown),
        ("openai", "/realtime/sessions", Body),
        ("openai", "/realtime/calls?model=cheap", Unknown),
        ("openai", "/batches", Unknown),
        ("openai", "/chat/completions?model=cheap", Body),
        ("anthropic", "/messages", Body),
        ("anthropic", "/messages/batches", Unknown),
        ("google", "/v1beta/models/gemini-2.5-pro:generateContent", named("gemini-2.5-pro")),
        ("google", "/models/gemini-2.5-pro:streamGenerateContent?alt=sse", named("gemini-2.5-pro")),
        ("google", "/v1beta/Models/dear%3AgenerateContent", named("dear")),
        ("google", "/v1beta/models%2Fdear:generateContent", named("dear")),
        ("google", "/v1beta/tunedModels/mine:generateContent", named("tunedModels/mine")),
        ("google", "/v1beta/openai/chat/completions", Body),
        ("google", "/v1beta/interactions", Body),
        ("google", "/v1beta/dynamic/shared:generateContent", Unknown),
        ("palm", "/models/text-bison:generateText", named("text-bison")),
        (
            "vertex-ai",
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@20250929:rawPredict",
            named("claude-x@20250929"),
        ),
        ("vertex-ai", "/v1/publishers/google/models/gemini-x:generateContent", named("gemini-x")),
        ("vertex-ai", "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", Body),
        ("vertex-ai", "/v1/projects/p/locations/l/endpoints/1234:predict", named("endpoints.1234")),
        ("vertex-ai", "/v1/projects/p/locations/l/endpoints/1234/chat/completions", named("endpoints.1234")),
        ("vertex-ai", "/v1/projects/p/locations/l/endpoints/openapi/chat/completions", Body),
        ("vertex-ai", "/v1/projects/p/locations/l/ragCorpora", Unknown),
        ("bedrock", "/model/us.amazon.nova-lite-v1%3A0/converse", named("us.amazon.nova-lite-v1:0")),
        ("bedrock", "/model/us.amazon.nova-lite-v1:0/invoke", named("us.amazon.nova-lite-v1:0")),
        (
            "bedrock",
            "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.m/converse-stream",
            named("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.m"),
        ),
        ("bedrock", "/Model/dear/invoke", named("dear")),
        ("bedrock", "/model%2Fdear%2Finvoke", Unknown),
        ("bedrock", "/openai/v1/chat/completions", Body),
        ("bedrock", "/async-invoke", Unknown),
        ("azure-openai", "/deployments/dear/chat/completions?api-version=2024-06-01", named("dear")),
        ("azure-openai", "/openai/Deployments/dear/chat/completions", named("dear")),
        ("azure-openai", "/openai/deployments%2Fdear/chat/completions", named("dear")),
        ("azure-openai", "/openai/realtime?api-version=x&deployment=dear", named("dear")),
        ("azure-openai", "/openai/realtime?deployment=dear&model=cheap", Unknown),
        ("azure-openai", "/openai/v1/responses", Body),
        ("azure-openai", "/openai/batches", Unknown),
        ("azure-ai", "/openai/deployments/dear/embeddings", named("dear")),
        ("azure-ai", "/chat/completions", Body),
        ("cohere", "/v2/chat", Body),
        ("huggingface", "/models/org/name/v1/chat/completions", named("org/name")),
        ("huggingface", "/models/org/name", named("org/name")),
        ("predibase", "/tenant/deployments/v2/llms/base/v1/chat/completions", named("base")),
        ("replicate", "/models/owner/name/predictions", named("owner/name")),
        ("replicate", "/predictions", Unknown),
        ("stability-ai", "/v1/generation/sdxl/text-to-image", named("sdxl")),
        ("triton", "/v2/models/dear/versions/1/infer", named("dear")),
        ("bytez", "/models/v2/org/name", named("org/name")),
        ("bytez", "/models/v2/openai/v1/chat/completions", Body),
        ("ai21", "/j2-ultra/complete", named("j2-ultra")),
        ("ai21", "/chat/completions", Body),
        ("meshy", "/text-to-3d", Unknown),
        ("databricks", "/serving-endpoints/dear/invocations", named("dear")),
        ("databricks", "/serving-endpoints/chat/completions", Body),
        ("databricks", "/api/2.0/serving-endpoints", Unknown),
        ("sagemaker", "/endpoints/dear/invocations", named("dear")),
        ("sagemaker", "/endpoints/dear/invocations-response-stream", named("dear")),
        ("sagemaker", "/endpoints/dear/openai/v1/chat/completions", named("dear")),
        ("sagemaker", "/endpoints/dear", Unknown),
        ("fal-ai", "/fal-ai/flux/dev", named("fal-ai/flux/dev")),
        ("fal-ai", "/", Unknown),
        ("workers-ai", "/run/@cf/meta/llama-3-8b", named("@cf/meta/llama-3-8b")),
        ("workers-ai", "/v1/chat/completions", Body),
    ] {
        assert_eq!(place(slug, address), expected, "{slug} {address}");
    }
}

fn azure() -> CloudSettings {
    let list = r#"[{"alias":"fast","azure_deployment_name":"mini-eu","azure_model_slug":"gpt-4o-mini"}]"#;
    let mut settings = CloudSettings::default();
    let known = setting("azure_deployment_config").expect("a setting");
    settings.set(known, list.to_owned()).expect("valid");
    settings
}

#[test]
fn a_deployment_goes_by_its_alias() {
    let (settings, adapter) = (azure(), crate::adapter("azure-openai").expect("a family"));
    let call = |tail| Untouched { tail, query: None, settings: &settings };
    assert_eq!(adapter.model_place(&call("/deployments/MINI-EU/embeddings")), Named("fast".to_owned()));
    assert_eq!(adapter.model_place(&call("/deployments/other/embeddings")), Named("other".to_owned()));
}

#[test]
fn one_model_has_many_names() {
    let azure = azure();
    for (slug, model, settings, expected) in [
        ("google", "models/gemini-x", CloudSettings::none(), vec!["gemini-x"]),
        (
            "vertex-ai",
            "claude-x",
            CloudSettings::none(),
            vec!["anthropic.claude-x", "publishers/anthropic/models/claude-x"],
        ),
        ("vertex-ai", "anthropic.claude-x", CloudSettings::none(), vec!["claude-x", "anthropic/claude-x"]),
        (
            "vertex-ai",
            "projects/p/locations/l/publishers/google/models/gemini-x",
            CloudSettings::none(),
            vec!["gemini-x"],
        ),
        ("bedrock", "arn:aws:bedrock:eu-west-1::foundation-model/amazon.x", CloudSettings::none(), vec!["amazon.x"]),
        (
            "bedrock",
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.x",
            CloudSettings::none(),
            vec!["eu.amazon.x"],
        ),
        ("azure-openai", "fast", &azure, vec!["mini-eu", "gpt-4o-mini"]),
        ("azure-openai", "gpt-4o-mini", &azure, vec!["fast", "mini-eu"]),
        ("azure-openai", "other", &azure, vec![]),
    ] {
        let all = crate::adapter(slug).expect("a family").spellings(model, settings);
        let missing: Vec<_> = expected.iter().filter(|name| !all.iter().any(|have| have == *name)).collect();
        assert!(missing.is_empty(), "{slug} {model}: {all:?} lacks {missing:?}");
        assert!(!expected.is_empty() || all.is_empty(), "{slug} {model}: {all:?}");
    }
}
