//! The official SDKs of Agent2Agent on both sides of the gateway: their agents behind it, their clients before it, by
//! each binding and in both versions.

use crate::harness::installed;
use crate::mcp::between_servers_and_clients;
use crate::{MOCK, scripts};
use std::process::Command;

#[tokio::test]
async fn python_a2a() {
    let mut command = Command::new(installed("python/bin/python"));
    command.env("PYTHONPATH", installed("a2a")).arg("-B").arg(scripts("python").join("a2a_sdk.py"));
    between_servers_and_clients().await.run(command).await;
}

#[tokio::test]
async fn node_a2a() {
    between_servers_and_clients().await.node("a2a_sdk.mjs", MOCK, "openai").await;
}
