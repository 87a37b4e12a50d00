//! The jobs of docs/admin-api.md, run as they stand.

use crate::harness::{ADMIN_KEY, Gateway};
use std::process::Command;

/// Every shell block of the section, in order.
fn blocks() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/admin-api.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let section = page.split("\n## ").find(|s| s.starts_with("Ten common jobs")).expect("the section");
    let parts = section.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn the_ten_jobs_run_as_they_stand() {
    let gateway = Gateway::start().await;
    let blocks = blocks();
    assert_eq!(blocks.len(), 11, "ten jobs, and what they share");
    let script = format!("set -euo pipefail\n{}", blocks.join("\n"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("ADMIN_KEY", ADMIN_KEY);
    command.env("ADMIN", gateway.admin_url("/v1")).env("PROXY", gateway.url("/v1"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for part in ["chat.completion", "invite_link", "/targets", r#""action":"delete""#] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}
