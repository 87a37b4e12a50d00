//! Every row's URL, path and credential, and what becomes of a body on its way.

use super::{ROWS, row};
use crate::adapter::{Adapter, BodyPieces, Call, ProviderRequest};
use crate::{adapter, catalog, edit};
use bytes::Bytes;
use gateway_domain::catalog::AuthStyle::{self, Bearer, BearerIn, Header, Scheme};
use gateway_domain::{Dialect, Fault, Operation};
use http::Method;

/// Slug, base URL, chat path, auth, as the providers' own pages have them. Empty path: chat is not served.
#[rustfmt::skip]
const EXPECTED: &[(&str, &str, &str, AuthStyle)] = &[
    ("mock", "http://mock.internal", "/chat/completions", AuthStyle::None),
    ("openai", "https://api.openai.com/v1", "/chat/completions", Bearer),
    ("anthropic", "https://api.anthropic.com/v1", "/messages", Header("x-api-key")),
    ("cohere", "https://api.cohere.ai", "/v2/chat", Bearer),
    ("huggingface", "", "/v1/chat/completions", Bearer),
    ("anyscale", "https://api.endpoints.anyscale.com/v1", "/chat/completions", Bearer),
    ("palm", "https://generativelanguage.googleapis.com/v1beta3", "", Header("x-goog-api-key")),
    ("together-ai", "https://api.together.ai", "/v1/chat/completions", Bearer),
    (
        "google",
        "https://generativelanguage.googleapis.com",
        "/v1beta/models/{model}:generateContent",
        Header("x-goog-api-key"),
    ),
    (
        "vertex-ai",
        "",
        "/v1/projects/{project}/locations/{region}/publishers/{publisher}/models/{model}",
        Bearer,
    ),
    ("bedrock", "", "/model/{model}/converse", Bearer),
    ("perplexity-ai", "https://api.perplexity.ai", "/v1/responses", Bearer),
    ("mistral-ai", "https://api.mistral.ai/v1", "/chat/completions", Bearer),
    ("deepinfra", "https://api.deepinfra.com", "/v1/openai/chat/completions", Bearer),
    ("ncompass", "https://api.ncompass.tech/v1", "/chat/completions", Bearer),
    ("stability-ai", "https://api.stability.ai", "", Bearer),
    ("nomic", "https://api-atlas.nomic.ai/v1", "", Bearer),
    ("ollama", "", "/v1/chat/completions", AuthStyle::None),
    ("ai21", "https://api.ai21.com/studio/v1", "/chat/completions", Bearer),
    ("groq", "https://api.groq.com/openai/v1", "/chat/completions", Bearer),
    ("segmind", "https://api.segmind.com/v1", "", Header("x-api-key")),
    ("jina", "https://api.jina.ai/v1", "", Bearer),
    ("fireworks-ai", "https://api.fireworks.ai/inference/v1", "/chat/completions", Bearer),
    ("reka-ai", "https://api.reka.ai", "/v1/chat/completions", Bearer),
    ("moonshot", "https://api.moonshot.ai", "/v1/chat/completions", Bearer),
    ("openrouter", "https://openrouter.ai/api", "/v1/chat/completions", Bearer),
    ("lingyi", "https://api.lingyiwanwu.com", "/v1/chat/completions", Bearer),
    ("zhipu", "https://open.bigmodel.cn/api/paas/v4", "/chat/completions", Bearer),
    ("novita-ai", "https://api.novita.ai/v3/openai", "/v1/chat/completions", Bearer),
    ("monsterapi", "https://llm.monsterapi.ai/v1", "/chat/completions", Bearer),
    ("deepseek", "https://api.deepseek.com", "/v1/chat/completions", Bearer),
    ("predibase", "https://serving.app.predibase.com", "/{user}/deployments/v2/llms/{model}/v1/chat/completions", Bearer),
    ("vllm", "", "/v1/chat/completions", Bearer),
    ("triton", "", "/v1/chat/completions", AuthStyle::None),
    ("voyage", "https://api.voyageai.com/v1", "", Bearer),
    ("github", "https://models.github.ai", "/inference/chat/completions", Bearer),
    ("deepbricks", "https://api.deepbricks.ai/v1", "/chat/completions", Bearer),
    ("siliconflow", "https://api.siliconflow.cn/v1", "/chat/completions", Bearer),
    ("cerebras", "https://api.cerebras.ai/v1", "/chat/completions", Bearer),
    ("inference-net", "https://api.inference.net/v1", "/chat/completions", Bearer),
    ("sambanova", "https://api.sambanova.ai", "/v1/chat/completions", Bearer),
    ("lemonfox-ai", "https://api.lemonfox.ai/v1", "/chat/completions", Bearer),
    ("upstage", "https://api.upstage.ai/v1/solar", "/chat/completions", Bearer),
    ("lambda", "https://api.lambda.ai/v1", "/chat/completions", Bearer),
    ("dashscope", "https://dashscope-intl.aliyuncs.com", "/compatible-mode/v1/chat/completions", Bearer),
    ("x-ai", "https://api.x.ai/v1", "/chat/completions", Bearer),
    ("qdrant", "", "", BearerIn("api-key")),
    ("nebius", "https://api.studio.nebius.ai/v1", "/chat/completions", Bearer),
    ("recraft-ai", "https://external.api.recraft.ai/v1", "", Bearer),
    ("milvus", "", "", Bearer),
    ("replicate", "https://api.replicate.com/v1", "", Bearer),
    ("lepton", "https://api.lepton.ai", "/api/v1/chat/completions", Bearer),
    ("kluster-ai", "https://api.kluster.ai/v1", "/chat/completions", Bearer),
    ("nscale", "https://inference.api.nscale.com/v1", "/chat/completions", Bearer),
    ("hyperbolic", "https://api.hyperbolic.xyz", "/v1/chat/completions", Bearer),
    ("bytez", "https://api.bytez.com", "/models/v2/openai/v1/chat/completions", Bearer),
    ("featherless-ai", "https://api.featherless.ai/v1", "/chat/completions", Bearer),
    ("krutrim", "https://cloud.olakrutrim.com/v1", "/chat/completions", Bearer),
    ("302ai", "https://api.302.ai", "/v1/chat/completions", Bearer),
    ("cometapi", "https://api.cometapi.com/v1", "/chat/completions", Bearer),
    ("matterai", "https://api.matterai.so/v1", "/chat/completions", Bearer),
    ("meshy", "https://api.meshy.ai/openapi/v1", "", Bearer),
    ("nextbit", "https://api.nextbit256.com/v1", "/chat/completions", Bearer),
    ("tripo3d", "https://api.tripo3d.ai/v2/openapi", "", Bearer),
    ("modal", "https://api.modal.com/v1", "/chat/completions", Bearer),
    ("z-ai", "https://api.z.ai/api/paas/v4", "/chat/completions", Bearer),
    ("iointelligence", "https://api.intelligence.io.solutions/api/v1", "/chat/completions", Bearer),
    ("azure-openai", "", "/chat/completions", Header("api-key")),
    ("azure-ai", "", "/chat/completions", Bearer),
    ("aibadgr", "https://aibadgr.com/api/v1", "/chat/completions", Bearer),
    ("ovhcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "/chat/completions", Bearer),
    ("cortex", "", "/api/v2/cortex/v1/chat/completions", AuthStyle::Snowflake),
    ("workers-ai", "", "/v1/chat/completions", Bearer),
    ("oracle", "", "/20231130/actions/v1/chat/completions", Bearer),
    ("databricks", "", "/serving-endpoints/chat/completions", Bearer),
    ("byteplus", "", "/chat/completions", Bearer),
    ("minimax", "https://api.minimax.io", "/v1/chat/completions", Bearer),
    ("bedrock-mantle", "", "/v1/chat/completions", Bearer),
    ("claude-platform-aws", "", "/v1/messages", Header("x-api-key")),
    ("sagemaker", "", "/endpoints/{model}/openai/v1/chat/completions", Bearer),
    ("fal-ai", "https://fal.run", "", Scheme("Key")),
    ("lightning-ai", "", "", Bearer),
    ("ember-cloud", "", "", Bearer),
    ("deepgram", "", "", Scheme("Token")),
    ("scenario-ai", "", "", Scheme("Basic")),
];

#[test]
fn every_provider_is_where_its_page_says() {
    for (slug, base, path, auth) in EXPECTED {
        let adapter = adapter(slug).unwrap_or_else(|| panic!("no {slug}"));
        let info = adapter.info();
        assert_eq!((info.slug, info.base_url.unwrap_or_default(), info.auth), (*slug, *base, *auth));
        let chat = adapter.endpoint(Operation::ChatCompletions, Dialect::OpenAi);
        assert_eq!(chat.map_or(String::new(), |e| e.path.into_owned()), *path, "{slug}");
        assert!(adapter.endpoint(Operation::Proxy, Dialect::OpenAi).is_some(), "{slug} can always be reached");
        assert!(catalog().provider(slug).is_some());
    }
    let mut known: Vec<&str> = catalog().providers().iter().map(|info| info.slug).collect();
    let mut expected: Vec<&str> = EXPECTED.iter().map(|(slug, ..)| *slug).collect();
    known.sort_unstable();
    expected.sort_unstable();
    assert_eq!(known, expected, "each once, and none beside");
    assert!(adapter("azure").is_none() && adapter("").is_none());
}

#[test]
fn operations_are_served_or_not() {
    let path = |slug: &str, operation| {
        let endpoint = adapter(slug).expect("known").endpoint(operation, Dialect::OpenAi);
        endpoint.map(|e| e.path.into_owned())
    };
    for (slug, operation, expected) in [
        ("together-ai", Operation::Embeddings, Some("/v1/embeddings")),
        ("together-ai", Operation::ListModels, Some("/v1/models")),
        ("together-ai", Operation::Rerank, Some("/v1/rerank")),
        ("together-ai", Operation::Responses, Some("/v1/chat/completions")),
        ("jina", Operation::Responses, None),
        ("github", Operation::ListModels, Some("/catalog/models")),
        ("x-ai", Operation::ImagesGenerate, Some("/images/generations")),
        ("x-ai", Operation::CreateBatch, None),
        ("groq", Operation::CreateBatch, Some("/batches")),
        ("groq", Operation::Embeddings, Some("/embeddings")),
        ("mistral-ai", Operation::Responses, Some("/responses")),
        ("mistral-ai", Operation::Transcription, Some("/audio/transcriptions")),
        ("together-ai", Operation::Speech, Some("/v1/audio/speech")),
        ("voyage", Operation::Rerank, Some("/rerank")),
        ("workers-ai", Operation::Embeddings, Some("/v1/embeddings")),
        ("byteplus", Operation::ImagesGenerate, Some("/images/generations")),
        ("triton", Operation::Completions, Some("/v1/completions")),
        ("groq", Operation::Responses, Some("/responses")),
        ("openai", Operation::Transcription, Some("/audio/transcriptions")),
        ("openai", Operation::Moderations, Some("/moderations")),
        ("openai", Operation::Messages, Some("/chat/completions")),
        ("mock", Operation::Messages, Some("/messages")),
        ("mock", Operation::CountTokens, Some("/messages/count_tokens")),
        ("anthropic", Operation::Messages, Some("/messages")),
        ("anthropic", Operation::Responses, Some("/messages")),
        ("anthropic", Operation::Completions, None),
        ("anthropic", Operation::Embeddings, None),
        ("jina", Operation::Embeddings, Some("/embeddings")),
        ("jina", Operation::ListModels, None),
        ("cohere", Operation::ChatCompletions, Some("/v2/chat")),
        ("cohere", Operation::Completions, None),
        ("replicate", Operation::Proxy, Some("")),
    ] {
        assert_eq!(path(slug, operation).as_deref(), expected, "{slug} {operation:?}");
    }
}

fn sent(slug: &str, body: &'static str, model: Option<&str>, wants_usage: bool) -> ProviderRequest {
    asked(slug, body, model, wants_usage).expect("translatable")
}

fn asked(slug: &str, body: &'static str, model: Option<&str>, wants_usage: bool) -> Result<ProviderRequest, Fault> {
    let body = Bytes::from_static(body.as_bytes());
    let span = edit::members(&body).expect("JSON").iter().find(|m| m.key == "model").map(|m| m.value.clone());
    let call = Call {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body: &body,
        model,
        form: None,
        sound_ms: None,
        model_span: span,
        stream: memchr::memmem::find(&body, b"\"stream\":true").is_some(),
        wants_usage,
        strict: true,
        now_ms: 0,
        dice: 0,
        origin: 0,
        settings: gateway_domain::cloud::CloudSettings::none(),
        keeps: None,
    };
    adapter(slug).expect("known").request(&call)
}

#[test]
fn nothing_leaves_its_place_in_a_path() {
    for model in ["..", "a/../b", "/a", "a/", "a//b", "a?b", "a#b", "a%2fb", "a b", "a\\b", "a\r\nb", "", "é", "..:x"]
    {
        let refusal = asked("predibase", r#"{"user":"u"}"#, Some(model), false).expect_err(model);
        assert_eq!((refusal.status(), refusal.param()), (400, Some("model")), "{model}");
    }
    for user in [r#"{"user":"a/b"}"#, r#"{"user":".."}"#, r#"{"user":""}"#, r#"{"user":3}"#, "{}"] {
        let refusal = asked("predibase", user, Some("m"), false).expect_err(user);
        assert_eq!(refusal.param(), Some("user"), "{user}");
    }
    let out = asked("predibase", r#"{"user":"u"}"#, Some("org/model.v1:fast"), false).expect("fits");
    assert_eq!(out.path.as_deref(), Some("/u/deployments/v2/llms/org/model.v1/v1/chat/completions"));
}

/// Columns of the table that change a body, on every row that serves chat.
#[test]
fn columns_do_what_they_say() {
    static ASKED: &str = r#"{"model":"m","user":"u","messages":[{"role":"developer","content":"\"developer\""}],"max_tokens":1,"max_completion_tokens":2,"stream":true}"#;
    for row in ROWS.iter().filter(|row| row.endpoint(Operation::ChatCompletions, Dialect::OpenAi).is_some()) {
        let slug = row.info.slug;
        let body = String::from_utf8(sent(slug, ASKED, Some("m"), false).body.join().to_vec()).expect("UTF-8");
        assert_eq!(body.contains(r#""role":"developer""#), row.developer, "{slug}: {body}");
        assert!(body.contains(r#""content":"\"developer\"""#), "{slug}: text stays text: {body}");
        assert_eq!(body.contains(r#""max_tokens":2"#), row.old_limit, "{slug}: the newer limit wins: {body}");
        assert_eq!(body.contains(r#""max_completion_tokens":2"#), !row.old_limit, "{slug}: {body}");
        let asks = row.stream_usage == super::StreamUsage::Asked;
        assert_eq!(body.contains(r#""stream_options":{"include_usage":true}"#), asks, "{slug}: {body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap_or_else(|e| panic!("{slug}: {e}: {body}"));
    }
    assert!(row("nobody").is_none());
}

/// A path that a family has beside OpenAI's may want the credential in another place.
#[test]
fn paths_of_a_familys_own_have_their_own_credential() {
    for (slug, tail, expected) in [
        ("bytez", None, Bearer),
        ("bytez", Some("/models/v2/openai/v1/chat/completions"), Bearer),
        ("bytez", Some("/models/v2/openai-community/gpt2"), Scheme("Key")),
        ("reka-ai", None, Bearer),
        ("reka-ai", Some("/v1/models"), Bearer),
        ("reka-ai", Some("/chat"), Header("x-api-key")),
        ("openai", Some("/anything"), Bearer),
    ] {
        assert_eq!(adapter(slug).expect("known").auth(tail), expected, "{slug} {tail:?}");
    }
}

#[test]
fn a_vendors_key_goes_only_where_calls_are_passed_on() {
    for info in catalog().providers() {
        let takes = adapter(info.slug).expect("known").takes_header("provider-key", None);
        assert_eq!(takes, info.slug == "bytez", "{}", info.slug);
    }
}

#[test]
fn a_body_is_copied_only_for_what_a_row_cannot_take() {
    static PLAIN: &str = r#"{"a":1,"model":"m","messages":[]}"#;
    let whole = |out: &ProviderRequest| matches!(&out.body, BodyPieces::One(b) if b.as_ptr() == PLAIN.as_ptr());
    assert!(whole(&sent("openai", PLAIN, Some("m"), false)));
    assert!(whole(&sent("mistral-ai", PLAIN, None, false)));
    let out = sent("openai", PLAIN, Some("gpt \"4\""), false);
    let BodyPieces::Three([head, new, tail]) = &out.body else { panic!("three pieces") };
    assert_eq!((head.as_ptr(), &new[..]), (PLAIN.as_ptr(), &br#""gpt \"4\"""#[..]));
    assert_eq!(tail.as_ptr(), PLAIN[PLAIN.len() - tail.len()..].as_ptr());

    static STREAM: &str = r#"{"model":"@x/m","stream":true,"messages":[]}"#;
    let out = sent("openai", STREAM, Some("m"), false);
    assert!(
        matches!(&out.body, BodyPieces::Three([head, ..]) if head.as_ptr() == STREAM.as_ptr()),
        "model and question in one"
    );
    assert_eq!(out.body.join(), r#"{"model":"m","stream_options":{"include_usage":true},"stream":true,"messages":[]}"#);
    assert_eq!(sent("openai", STREAM, Some("m"), true).body.join(), r#"{"model":"m","stream":true,"messages":[]}"#);
    let out = sent("openai", r#"{"stream":true,"messages":["\"stream_options\""]}"#, None, false);
    assert_eq!(
        out.body.join(),
        r#"{"stream":true,"messages":["\"stream_options\""],"stream_options":{"include_usage":true}}"#
    );
    let out = sent("openai", r#"{"model":"m","stream":true,"stream_options":null}"#, Some("m"), false);
    assert_eq!(out.body.join(), r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#);
}
