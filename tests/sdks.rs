//! Official SDKs against the real binary and its mock upstream: unmodified, but for base URL, key and headers; and answers
//! of providers against their own SDKs. The scripts are in `tests/sdk`; `tests/sdk/setup.sh` installs what they import.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(test)]
#[expect(dead_code, unused_imports, reason = "the end-to-end tests use the rest")]
#[path = "harness/harness.rs"]
mod harness;

use harness::{ADMIN_KEY, Gateway, Mock, WORKSPACE_KEY};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A provider to try, and the dialect it speaks.
const MOCK: &str = "mock";
const OPENAI: &str = "@oa";
const CLAUDE: &str = "@claude";
/// Other families. Of those that speak OpenAI's chat, one each by its differences:
/// the role `developer` unknown, an old name of the limit, `stream_options` refused.
const OTHERS: &[(&str, &str)] = &[
    ("cerebras", "cerebras"),
    ("dashscope", "dashscope"),
    ("mistral", "mistral-ai"),
    ("gemini", "google"),
    ("cohere", "cohere"),
    // Responses of its own, as OpenAI; paths of its own.
    ("azure", "azure-openai"),
];

struct Stage {
    gateway: Gateway,
    _mocks: Vec<Mock>,
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
        gateway.admin().provider(slug, family, Some(&url)).await;
    }
    Stage { gateway, _mocks: vec![mock, mistral], told: Vec::new() }
}

#[expect(clippy::disallowed_methods, reason = "the same variable as the script that installs")]
fn environment() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|h| h.join(".cache")));
    var("GATEWAY_TEST_ENV").or_else(|| cache().map(|c| c.join("gateway/sdk"))).expect("a home folder")
}

/// Fails rather than skips: a skipped test is one that nobody notices.
fn installed(file: &str) -> PathBuf {
    let path = environment().join(file);
    assert!(path.exists(), "{} is missing: run `make test`, or `bash tests/sdk/setup.sh`", path.display());
    path
}

fn scripts(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(folder)
}

impl Stage {
    async fn run(&self, mut command: Command, provider: &str, family: &str) {
        command
            .env("TEST_URL", self.gateway.url(""))
            .env("TEST_KEY", WORKSPACE_KEY)
            .env("TEST_PROVIDER", provider)
            .env("TEST_FAMILY", family)
            .envs(self.told.iter().map(|(name, value)| (*name, value)));
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "with provider {provider}:\n{out}\n{err}");
        assert!(out.contains("ok "), "no check ran: {out}\n{err}");
    }

    async fn python(&self, script: &str, provider: &str, family: &str) {
        let mut command = Command::new(installed("python/bin/python"));
        command.arg("-B").arg(scripts("python").join(script));
        self.run(command, provider, family).await;
    }

    async fn node(&self, script: &str, provider: &str, family: &str) {
        // Modules are looked up beside the script, so it runs from a folder that holds both.
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["checks.mjs", script] {
            std::fs::copy(scripts("node").join(file), folder.path().join(file)).expect("a copy");
        }
        let modules = installed("node/node_modules");
        std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).expect("a link");
        let mut command = Command::new("node");
        command.arg(folder.path().join(script));
        self.run(command, provider, family).await;
    }
}

#[tokio::test]
async fn python_openai() {
    let stage = stage().await;
    stage.python("openai_sdk.py", MOCK, "openai").await;
    stage.python("openai_sdk.py", OPENAI, "openai").await;
    stage.python("openai_sdk.py", CLAUDE, "anthropic").await;
    for (slug, family) in OTHERS {
        stage.python("openai_sdk.py", &format!("@{slug}"), family).await;
    }
}

#[tokio::test]
async fn python_anthropic() {
    let stage = stage().await;
    stage.python("anthropic_sdk.py", MOCK, "anthropic").await;
    stage.python("anthropic_sdk.py", CLAUDE, "anthropic").await;
    stage.python("anthropic_sdk.py", OPENAI, "openai").await;
    for (slug, family) in OTHERS {
        stage.python("anthropic_sdk.py", &format!("@{slug}"), family).await;
    }
}

#[tokio::test]
async fn node_openai() {
    let stage = stage().await;
    stage.node("openai_sdk.mjs", MOCK, "openai").await;
    stage.node("openai_sdk.mjs", OPENAI, "openai").await;
    stage.node("openai_sdk.mjs", CLAUDE, "anthropic").await;
    for (slug, family) in OTHERS {
        stage.node("openai_sdk.mjs", &format!("@{slug}"), family).await;
    }
}

#[tokio::test]
async fn node_anthropic() {
    let stage = stage().await;
    stage.node("anthropic_sdk.mjs", MOCK, "anthropic").await;
    stage.node("anthropic_sdk.mjs", CLAUDE, "anthropic").await;
    stage.node("anthropic_sdk.mjs", OPENAI, "openai").await;
    for (slug, family) in OTHERS {
        stage.node("anthropic_sdk.mjs", &format!("@{slug}"), family).await;
    }
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

#[tokio::test]
async fn python_azure() {
    stage().await.python("azure_sdk.py", "@azure", "azure-openai").await;
}

#[tokio::test]
async fn python_google() {
    stage().await.python("google_sdk.py", "@gemini", "google").await;
}

/// The upstream is in the script: it takes what botocore would have signed alike.
#[tokio::test]
async fn python_boto3() {
    stage().await.python("boto3_sdk.py", "bedrock", "bedrock").await;
}

#[tokio::test]
async fn python_clients_of_bedrock() {
    stage().await.python("bedrock_sdks.py", "bedrock", "bedrock").await;
}

/// The Admin API as clients of another gateway know it: one address, its own header prefix, every method.
async fn administered() -> Stage {
    let gateway = Gateway::with(&["--header-alias", "x-portkey-"]).await;
    Stage { gateway, _mocks: Vec::new(), told: vec![("TEST_ADMIN_KEY", ADMIN_KEY.to_owned())] }
}

#[tokio::test]
async fn python_admin() {
    administered().await.python("admin_sdk.py", MOCK, "openai").await;
}

#[tokio::test]
async fn node_admin() {
    administered().await.node("admin_sdk.mjs", MOCK, "openai").await;
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
