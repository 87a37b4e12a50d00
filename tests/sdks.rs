//! Official SDKs against the real binary and its mock upstream: unmodified, but for base URL, key and headers; and
//! answers of providers against their own SDKs. The scripts are in `tests/sdk`; `tests/sdk/setup.sh` installs what they
//! import.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(test)]
#[path = "sdks/agents.rs"]
mod agents;
#[cfg(test)]
#[path = "sdks/areas.rs"]
mod areas;
#[cfg(test)]
#[path = "sdks/calls.rs"]
mod calls;
#[cfg(test)]
#[expect(dead_code, unused_imports, reason = "the end-to-end tests use the rest")]
#[path = "harness/harness.rs"]
mod harness;
#[cfg(test)]
#[path = "sdks/mcp.rs"]
mod mcp;

use harness::{ADMIN_KEY, Gateway, LiveProvider, Mock, Said, WORKSPACE_KEY, installed};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A provider to try, and the dialect it speaks.
pub(crate) const MOCK: &str = "mock";
const OPENAI: &str = "@oa";
const CLAUDE: &str = "@claude";
/// Other families. Of those that speak OpenAI's chat, one each by its differences:
/// the role `developer` unknown, an old name of the limit, `stream_options` refused.
const OTHERS: &[(&str, &str)] = &[
    ("@cerebras", "cerebras"),
    ("@huggingface", "huggingface"),
    ("@mistral", "mistral-ai"),
    ("@gemini", "google"),
    ("@cohere", "cohere"),
    // Responses of its own, as OpenAI and Mistral; paths of its own.
    ("@azure", "azure-openai"),
];

/// Providers that play the story of `tests/sdk/python/provider`, by slug, family and where their API begins.
const STORIES: &[(&str, &str, &str)] = &[
    ("story-openai", "openai", "/v1"),
    ("story-claude", "anthropic", "/v1"),
    ("story-gemini", "google", ""),
    ("story-cohere", "cohere", ""),
    ("story-mistral", "mistral-ai", "/mistral/v1"),
];

/// A provider in all dialects, strict and with a memory of what reached it: a process, which ends when nobody holds its
/// standard input.
struct Story {
    process: Child,
    url: String,
}

impl Story {
    fn start() -> Self {
        let mut command = Command::new(installed("python/bin/python"));
        command.arg("-B").arg(scripts("python").join("provider")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let mut port = String::new();
        let said = process.stdout.take().expect("its output");
        BufReader::new(said).read_line(&mut port).expect("a port");
        Self { process, url: format!("http://127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

pub(crate) struct Stage {
    gateway: Gateway,
    _mocks: Vec<Mock>,
    story: Option<Story>,
    /// Further variables of scripts.
    told: Vec<(&'static str, String)>,
}

async fn stage() -> Stage {
    let (gateway, mock) = (Gateway::start().await, Mock::start(&[]).await);
    let mistral = Mock::start(&["--unasked-usage"]).await;
    gateway.admin().provider("oa", "openai", Some(&mock.url())).await;
    gateway.admin().provider("claude", "anthropic", Some(&mock.url())).await;
    for (slug, family) in OTHERS {
        // Paths of these two bring their versions themselves.
        let url = match *family {
            "google" | "cohere" => mock.url().trim_end_matches("/v1").to_owned(),
            "mistral-ai" => mistral.url(),
            "azure-openai" => mock.url().replace("/v1", "/openai"),
            _ => mock.url(),
        };
        gateway.admin().provider(slug.trim_start_matches('@'), family, Some(&url)).await;
    }
    Stage { gateway, _mocks: vec![mock, mistral], story: None, told: Vec::new() }
}

async fn story() -> Stage {
    let (gateway, story) = (Gateway::start().await, Story::start());
    for (slug, family, base) in STORIES {
        gateway.admin().provider(slug, family, Some(&format!("{}{base}", story.url))).await;
    }
    let place = json!({ "custom_host": story.url, "aws_region": "us-east-1", "aws_auth_type": "apiKey" });
    let bedrock = json!({ "name": "Bedrock", "slug": "story-bedrock", "ai_provider_id": "bedrock", "key": "sk-managed",
                          "configurations": place });
    gateway.admin().post("/integrations", &bedrock).await.expect(200);
    let told = vec![("TEST_UPSTREAM", story.url.clone())];
    Stage { gateway, _mocks: Vec::new(), story: Some(story), told }
}

pub(crate) fn scripts(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(folder)
}

impl Stage {
    pub(crate) async fn run(&self, mut command: Command) {
        command
            .env("TEST_URL", self.gateway.url(""))
            .env("TEST_KEY", WORKSPACE_KEY)
            // Reading the bundle of all authorities takes longer than a check, and every client that a script makes
            // reads it.
            .env("SSL_CERT_FILE", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/tls/cert.pem"))
            .envs(self.told.iter().map(|(name, value)| (*name, value)));
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}\n{err}");
        assert!(out.contains("ok "), "no check ran: {out}\n{err}");
    }

    pub(crate) async fn python(&self, script: &str, provider: &str, family: &str) {
        self.python_over(script, &[(provider, family)]).await;
    }

    /// A run for each of these providers and families, in one process at first.
    async fn python_over(&self, script: &str, runs: &[(&str, &str)]) {
        let mut command = Command::new(installed("python/bin/python"));
        let runs: Vec<_> = runs.iter().map(|(provider, family)| format!("{provider}={family}")).collect();
        command.env("TEST_RUNS", runs.join(" ")).arg("-B").arg(scripts("python").join(script));
        self.run(command).await;
    }

    /// Runs a script with what frameworks need that ask for google-genai below 3.
    async fn python_framework(&self, script: &str) {
        let mut command = Command::new(installed("python/bin/python"));
        command.env("PYTHONPATH", installed("python/google-genai-2")).env("TEST_RUNS", "mock=openai");
        command.arg("-B").arg(scripts("python").join(script));
        self.run(command).await;
    }

    pub(crate) async fn node(&self, script: &str, provider: &str, family: &str) {
        // Modules are looked up beside the script, so it runs from a folder that holds both.
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["checks.mjs", "plan.mjs", "method_census.mjs", script] {
            std::fs::copy(scripts("node").join(file), folder.path().join(file)).expect("a copy");
        }
        let modules = installed("node/node_modules");
        std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).expect("a link");
        let mut command = Command::new("node");
        command.env("TEST_PROVIDER", provider).env("TEST_FAMILY", family);
        command.arg(folder.path().join(script));
        self.run(command).await;
    }
}

#[tokio::test]
async fn python_openai() {
    let own = [(MOCK, "openai"), (OPENAI, "openai"), (CLAUDE, "anthropic")];
    stage().await.python_over("openai_sdk.py", &[&own[..], OTHERS].concat()).await;
}

#[tokio::test]
async fn python_anthropic() {
    let own = [(MOCK, "anthropic"), (CLAUDE, "anthropic"), (OPENAI, "openai")];
    stage().await.python_over("anthropic_sdk.py", &[&own[..], OTHERS].concat()).await;
}

#[tokio::test]
async fn node_openai() {
    let stage = stage().await;
    stage.node("openai_sdk.mjs", MOCK, "openai").await;
    stage.node("openai_sdk.mjs", OPENAI, "openai").await;
    stage.node("openai_sdk.mjs", CLAUDE, "anthropic").await;
    for (slug, family) in OTHERS {
        stage.node("openai_sdk.mjs", slug, family).await;
    }
}

#[tokio::test]
async fn node_anthropic() {
    let stage = stage().await;
    stage.node("anthropic_sdk.mjs", MOCK, "anthropic").await;
    stage.node("anthropic_sdk.mjs", CLAUDE, "anthropic").await;
    stage.node("anthropic_sdk.mjs", OPENAI, "openai").await;
    for (slug, family) in OTHERS {
        stage.node("anthropic_sdk.mjs", slug, family).await;
    }
}

/// Two providers, which nobody calls: their models are those of the public list.
async fn catalogued() -> Stage {
    let gateway = Gateway::start().await;
    for (slug, family) in [("oa", "openai"), ("claude", "anthropic")] {
        gateway.admin().provider(slug, family, Some("http://127.0.0.1:9/v1")).await;
    }
    Stage { gateway, _mocks: Vec::new(), story: None, told: Vec::new() }
}

#[tokio::test]
async fn python_catalogue() {
    catalogued().await.python("catalogue_sdk.py", MOCK, "openai").await;
}

#[tokio::test]
async fn node_catalogue() {
    catalogued().await.node("catalogue_sdk.mjs", MOCK, "openai").await;
}

/// Keys of the gateway whose limits are met at once: what it tells must be what SDKs act on.
#[tokio::test]
async fn sdks_wait_as_limits_tell_and_do_not_try_budgets_again() {
    harness::stand_at_noon();
    let mut stage = stage().await;
    let rate = |unit: &str| json!({ "rate_limits": [{ "type": "requests", "unit": unit, "value": 1 }] });
    let budget = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1 } });
    for (name, limits) in
        [("TEST_SECOND_KEY", rate("rps")), ("TEST_WEEK_KEY", rate("rpw")), ("TEST_BUDGET_KEY", budget)]
    {
        let (_, key) = stage.gateway.admin().workspace_key(name, limits).await;
        stage.told.push((name, key));
    }
    stage.python("limits.py", MOCK, "openai").await;
    stage.node("limits.mjs", MOCK, "openai").await;
}

/// What guardrails deny, soften, redact and cut, in the words of the SDKs.
#[tokio::test]
async fn sdks_meet_guardrails() {
    let stage = stage().await;
    for provider in [MOCK, OPENAI] {
        stage.python("guardrails_sdk.py", provider, "openai").await;
        stage.node("guardrails_sdk.mjs", provider, "openai").await;
    }
    stage.python("guardrails_sdk.py", CLAUDE, "anthropic").await;
}

#[tokio::test]
async fn openai_through_a_plan() {
    story().await.python("story_openai.py", MOCK, "openai").await;
}

#[tokio::test]
async fn openai_in_node_through_a_plan() {
    story().await.node("story_openai.mjs", MOCK, "openai").await;
}

#[tokio::test]
async fn anthropic_through_a_plan() {
    story().await.python("story_anthropic.py", MOCK, "anthropic").await;
}

#[tokio::test]
async fn anthropic_in_node_through_a_plan() {
    story().await.node("story_anthropic.mjs", MOCK, "anthropic").await;
}

#[tokio::test]
async fn python_langchain() {
    story().await.python_framework("langchain_sdk.py").await;
}

#[tokio::test]
async fn python_pydantic_ai() {
    story().await.python_framework("pydantic_ai_sdk.py").await;
}

#[tokio::test]
async fn python_cohere() {
    story().await.python("cohere_sdk.py", MOCK, "cohere").await;
}

#[tokio::test]
async fn python_mistral() {
    story().await.python("mistral_sdk.py", MOCK, "mistral-ai").await;
}

#[tokio::test]
async fn node_google() {
    story().await.node("google_sdk.mjs", MOCK, "google").await;
}

#[tokio::test]
async fn node_cohere() {
    story().await.node("cohere_sdk.mjs", MOCK, "cohere").await;
}

#[tokio::test]
async fn node_mistral() {
    story().await.node("mistral_sdk.mjs", MOCK, "mistral-ai").await;
}

#[tokio::test]
async fn node_vercel() {
    story().await.node("vercel_sdk.mjs", MOCK, "openai").await;
}

#[tokio::test]
async fn python_azure() {
    stage().await.python("azure_sdk.py", "@azure", "azure-openai").await;
}

#[tokio::test]
async fn python_google() {
    stage().await.python("google_sdk.py", "@gemini", "google").await;
    let mut stage = story().await;
    let config = stage.gateway.admin().config("Gemini alone", &json!({ "provider": "@story-gemini" })).await;
    let defaults = json!({ "defaults": { "config_id": config } });
    let (_, key) = stage.gateway.admin().workspace_key("gemini", defaults).await;
    stage.told.push(("TEST_GEMINI_KEY", key));
    stage.python("story_google.py", MOCK, "google").await;
}

/// The upstream of the first is in the script: it takes what botocore would have signed alike.
#[tokio::test]
async fn python_boto3() {
    stage().await.python("boto3_sdk.py", "bedrock", "bedrock").await;
    story().await.python("story_bedrock.py", MOCK, "bedrock").await;
}

#[tokio::test]
async fn openai_and_anthropic_on_bedrock() {
    stage().await.python("bedrock_sdks.py", "bedrock", "bedrock").await;
}

/// Pictures, sound, moderations, rerank and pages. The upstream is in the script.
#[tokio::test]
async fn python_areas() {
    let stage = Stage { gateway: Gateway::start().await, _mocks: Vec::new(), story: None, told: Vec::new() };
    stage.python("areas_sdk.py", MOCK, "openai").await;
}

/// The Admin API as clients of another gateway know it: one address, its own header prefix, every method.
async fn administered() -> Stage {
    let gateway = Gateway::with(&["--header-alias", "x-portkey-"]).await;
    Stage { gateway, _mocks: Vec::new(), story: None, told: vec![("TEST_ADMIN_KEY", ADMIN_KEY.to_owned())] }
}

#[tokio::test]
async fn python_admin() {
    administered().await.python("admin_sdk.py", MOCK, "openai").await;
}

/// What a generator makes of the description of the Admin API is a client that works.
#[tokio::test]
async fn a_client_made_of_the_description_calls_the_admin_api() {
    let mut stage = administered().await;
    stage.told.push(("TEST_ADMIN_URL", stage.gateway.admin_url("")));
    let mut command = Command::new(installed("python/bin/python"));
    command.env("PYTHONPATH", installed("generator")).env("TEST_RUNS", "mock=openai");
    command.arg("-B").arg(scripts("python").join("generated_client.py"));
    stage.run(command).await;
}

#[tokio::test]
async fn node_admin() {
    administered().await.node("admin_sdk.mjs", MOCK, "openai").await;
}

/// A provider of sessions as OpenAI has them, and one as Azure has.
#[tokio::test]
async fn python_realtime() {
    let provider = live_provider().await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("live", "openai", Some(&provider.url())).await;
    let models = json!({ "allow_all_models": false, "models": [{ "slug": "gpt-realtime", "enabled": true }] });
    gateway.admin().put("/integrations/live-integration/integration-models", &models).await.expect(200);
    gateway.admin().provider("azure-live", "azure-openai", Some(&format!("{}/openai", provider.root()))).await;
    let stage = Stage { gateway, _mocks: Vec::new(), story: None, told: Vec::new() };
    stage.python("realtime_sdk.py", "@live", "openai").await;
}

async fn live_provider() -> LiveProvider {
    LiveProvider::scripted(|mut socket| async move {
        let session = json!({ "type": "realtime", "id": "sess_1", "object": "realtime.session", "model": "gpt-realtime",
            "audio": { "input": { "transcription": { "model": "whisper-1" } } } });
        socket.say(&json!({ "type": "session.created", "event_id": "event_1", "session": session })).await;
        while let Said::Event(event) = socket.next().await {
            let told = match event["type"].as_str() {
                // The event is one of Responses, not of realtime.
                Some("response.create") if !event["input"].is_null() => {
                    let usage = json!({ "input_tokens": 40, "output_tokens": 20, "total_tokens": 60 });
                    let response = json!({ "id": "resp_1", "object": "response", "output": [], "usage": usage });
                    ["created", "completed"]
                        .map(|kind| json!({ "type": format!("response.{kind}"), "response": response, "sequence_number": 1 }))
                        .to_vec()
                }
                Some("response.create") => vec![
                    json!({ "type": "response.created", "event_id": "event_2", "response": { "id": "resp_1", "object": "realtime.response", "status": "in_progress" } }),
                    json!({ "type": "response.output_text.delta", "event_id": "event_3", "response_id": "resp_1",
                        "item_id": "item_1", "output_index": 0, "content_index": 0, "delta": "hello there" }),
                    json!({ "type": "response.done", "event_id": "event_4", "response": {
                        "id": "resp_1", "object": "realtime.response", "status": "completed", "output": [], "usage": {
                            "total_tokens": 60, "input_tokens": 40, "output_tokens": 20,
                            "input_token_details": { "text_tokens": 30, "audio_tokens": 10, "image_tokens": 0, "cached_tokens": 15,
                                "cached_tokens_details": { "text_tokens": 10, "audio_tokens": 5, "image_tokens": 0 } },
                            "output_token_details": { "text_tokens": 20, "audio_tokens": 0 } } } }),
                ],
                Some("input_audio_buffer.commit") => vec![json!({
                    "type": "conversation.item.input_audio_transcription.completed", "event_id": "event_5",
                    "item_id": "item_2", "content_index": 0, "transcript": "hi",
                    "usage": { "type": "duration", "seconds": 1.5 },
                })],
                _ => Vec::new(),
            };
            for told in told {
                socket.say(&told).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn python_batches() {
    stage().await.python("batches_sdk.py", MOCK, "openai").await;
}

#[tokio::test]
async fn node_batches() {
    stage().await.node("batches_sdk.mjs", MOCK, "openai").await;
}

#[tokio::test]
async fn python_prompts() {
    administered().await.python("prompts_sdk.py", MOCK, "openai").await;
}

#[tokio::test]
async fn node_prompts() {
    administered().await.node("prompts_sdk.mjs", MOCK, "openai").await;
}

/// No gateway is needed: what the golden folders say a provider answers is held against the provider's own SDK.
#[tokio::test]
async fn golden_answers_of_providers_are_what_their_own_sdks_read() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers/tests/golden");
    let mut command = Command::new(installed("python/bin/python"));
    command.arg("-B").arg(scripts("python").join("fixtures.py")).arg(goldens);
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" by google-genai") && text.contains(" by botocore"), "nothing was read: {text}");
}

#[tokio::test]
async fn batches_are_asked_for_and_told_as_providers_own_sdks_have_it() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers/tests/batches");
    let mut command = Command::new(installed("python/bin/python"));
    command.arg("-B").arg(scripts("python").join("batch_fixtures.py")).arg(folders);
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("ok bedrock"), "nothing was read: {text}");
}

/// The examples of docs/clients.md, to the letter, against providers of the slugs that they name.
#[tokio::test]
async fn every_example_of_the_clients_page_runs() {
    let mut stage = story().await;
    for (slug, family, base) in STORIES.iter().chain(&[("story-azure", "azure-openai", "/openai")]) {
        let slug = match slug.trim_start_matches("story-") {
            "claude" => "anthropic-main".to_owned(),
            "gemini" => "google-main".to_owned(),
            name => format!("{name}-main"),
        };
        let url = format!("{}{base}", stage.story.as_ref().expect("a provider").url);
        stage.gateway.admin().provider(&slug, family, Some(&url)).await;
    }
    let bedrock = json!({ "name": "Main", "slug": "bedrock-main", "integration_id": "story-bedrock" });
    stage.gateway.admin().post("/providers", &bedrock).await.expect(200);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clients.md");
    stage.told.push(("TEST_PAGE", page.to_string_lossy().into_owned()));
    stage.python_framework("examples.py").await;
    stage.node("examples.mjs", MOCK, "openai").await;
}

/// A row of the table in docs/clients.md, by its columns.
struct Row {
    package: String,
    version: String,
    test: String,
}

fn documented() -> Vec<Row> {
    let page = include_str!("../docs/clients.md");
    let table = page.split("\n\n").find(|part| part.starts_with("| client |")).expect("a table of clients");
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let names = cells(table.lines().next().expect("a head"));
    let column = |name: &str| names.iter().position(|n| n == name).expect("a column");
    let (package, version, test) = (column("client"), column("tried"), column("test"));
    let bare = |cell: &str| cell.split('`').nth(1).unwrap_or(cell).to_owned();
    let row =
        |row: Vec<String>| Row { package: bare(&row[package]), version: row[version].clone(), test: bare(&row[test]) };
    table.lines().skip(2).map(|line| row(cells(line))).collect()
}

/// The tests that are of a client: their names begin with its language, but for these.
fn tests_of_clients() -> BTreeSet<String> {
    const OF_SEVERAL: [&str; 2] = ["everything", "inspector"];
    let files = [
        include_str!("sdks.rs"),
        include_str!("sdks/areas.rs"),
        include_str!("sdks/mcp.rs"),
        include_str!("sdks/agents.rs"),
        include_str!("sdks/calls.rs"),
    ];
    let lines = files.into_iter().flat_map(str::lines);
    let names = lines.filter_map(|line| line.strip_prefix("async fn ")).filter_map(|rest| rest.split('(').next());
    let of_client = |name: &&str| name.starts_with("python_") || name.starts_with("node_") || OF_SEVERAL.contains(name);
    names.filter(of_client).map(str::to_owned).collect()
}

/// The versions that the tests install of a package: some are tried in two.
fn pinned(package: &str) -> BTreeSet<String> {
    let modules = [include_str!("sdk/node/package.json"), include_str!("sdk/node-mcp/package.json")];
    let of_node = modules.into_iter().filter_map(|modules| {
        let modules: serde_json::Value = serde_json::from_str(modules).expect("JSON");
        modules["dependencies"][package].as_str().map(str::to_owned)
    });
    let lists = [
        include_str!("sdk/python/requirements.txt"),
        include_str!("sdk/python/google-genai-2.txt"),
        include_str!("sdk/python/mcp-2.txt"),
        include_str!("sdk/python/a2a.txt"),
        include_str!("sdk/python/areas.txt"),
    ];
    let pins = lists.into_iter().flat_map(str::lines).filter_map(|line| line.split_once("=="));
    let of_python = pins.filter(|(name, _)| *name == package).map(|(_, version)| version.to_owned());
    of_node.chain(of_python).collect()
}

#[test]
fn every_client_that_is_documented_has_a_test_and_every_test_a_row() {
    let rows = documented();
    let named: BTreeSet<String> = rows.iter().map(|row| row.test.clone()).collect();
    assert_eq!(named, tests_of_clients(), "rows of docs/clients.md on the left, tests of this file on the right");
    for row in rows {
        let tried = pinned(&row.package);
        let Row { package, version, .. } = row;
        assert!(tried.contains(&version), "{package} {version} in docs/clients.md, and {tried:?} are tried");
    }
}
