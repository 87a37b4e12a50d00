//! The gateway's own mock upstream, as a process (`gateway mock`).

use super::ports::Port;
use super::process::{Process, program};
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct Mock {
    port: Port,
    _process: Process,
    _folder: TempDir,
}

impl Mock {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let (port, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
        let mut command = program();
        command.args(["mock", "--listen", &port.address.to_string()]).args(flags);
        let process = Process::spawn(command, &folder.path().join("log"));
        for _ in 0..2000 {
            if tokio::net::TcpStream::connect(port.address).await.is_ok() {
                return Self { port, _process: process, _folder: folder };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the mock does not listen:\n{}", process.output());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.port.address)
    }

    pub(crate) async fn stats(&self) -> Value {
        let url = format!("http://{}/__mock/stats", self.port.address);
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        client.get(url).send().await.expect("counters").json().await.expect("counters are JSON")
    }
}
