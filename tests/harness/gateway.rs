//! The gateway as its users run it: one process, its data in a folder of its own, known keys.

use super::admin::Admin;
use super::call::Call;
use super::ports::Port;
use super::process::{Process, program};
use super::upstream::Upstream;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const ADMIN_KEY: &str = "e2e-admin-key-0123456789-0123456789-abcd";
pub(crate) const WORKSPACE_KEY: &str = "e2e-workspace-key-0123456789-0123456789-abcd";

#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) proxy: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) process: Process,
    client: reqwest::Client,
    place: Arc<Place>,
    is_admin_only: bool,
}

/// Ports and data folder: kept when a second process takes over.
#[derive(Debug)]
struct Place {
    folder: TempDir,
    proxy: Port,
    admin: Port,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a gateway with flags beside the usual ones; a flag given here beats the usual value of the same name.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        Self::at(Place::new(), &usual(flags)).await
    }

    /// Starts a gateway that may have so many file descriptors.
    pub(crate) async fn with_descriptors(most: u32, flags: &[&str]) -> Self {
        let gateway = program();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={most}:{most}")).arg(gateway.get_program()).args(gateway.get_args());
        for (name, value) in gateway.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut gateway = Self::spawn_by(command, Place::new(), &usual(flags));
        gateway.ready().await;
        gateway
    }

    /// Starts a gateway with variables in its environment.
    pub(crate) async fn in_environment(variables: &[(&str, &str)]) -> Self {
        Self::in_environment_with(variables, &[]).await
    }

    pub(crate) async fn in_environment_with(variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let mut command = program();
        command.envs(variables.iter().copied());
        let mut gateway = Self::spawn_by(command, Place::new(), &usual(flags));
        gateway.ready().await;
        gateway
    }

    /// Starts a gateway with an address and a data folder, and else as the program comes.
    pub(crate) async fn bare(flags: &[&str]) -> Self {
        Self::at(Place::new(), flags).await
    }

    /// Ended and started again on the same data, with no flags of its own.
    pub(crate) async fn restart(mut self) -> Self {
        self.end().await;
        Self::at(self.place.clone(), &[]).await
    }

    /// Ended and started again on the same data.
    pub(crate) async fn restart_with(mut self, flags: &[&str]) -> Self {
        self.end().await;
        Self::at(self.place.clone(), &usual(flags)).await
    }

    /// Killed, with no time for a last word, and started again on the same data.
    pub(crate) async fn restart_after_kill(mut self, flags: &[&str]) -> Self {
        self.process.signal("KILL");
        self.process.exit(Duration::from_secs(20)).await;
        Self::at(self.place.clone(), &usual(flags)).await
    }

    /// Bytes of records on disk: grows with each that would outlive a kill.
    pub(crate) fn journal_bytes(&self) -> u64 {
        let folder = self.place.folder.path().join("data").join("journal");
        let files = std::fs::read_dir(folder).expect("a journal");
        files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
    }

    async fn end(&mut self) {
        self.process.signal("TERM");
        self.process.exit(Duration::from_secs(20)).await;
    }

    /// A second process on the same ports and data, not yet ready.
    pub(crate) fn succeed(&self, flags: &[&str]) -> Self {
        Self::spawn(self.place.clone(), &usual(flags))
    }

    /// Readiness of the process that answers, which may still be the old one until that has left.
    pub(crate) async fn ready_as_successor(&mut self, old: &Self) {
        self.ready().await;
        assert_ne!(self.process.id(), old.process.id());
    }

    async fn at(place: Arc<Place>, flags: &[&str]) -> Self {
        let mut gateway = Self::spawn(place, flags);
        gateway.ready().await;
        gateway
    }

    /// Whether the proxy port took a connection at the moment when readiness was first told.
    pub(crate) async fn listens_when_ready() -> bool {
        let mut gateway = Self::spawn(Place::new(), &usual(&[]));
        gateway.admits().await;
        tokio::net::TcpStream::connect(gateway.proxy).await.is_ok()
    }

    fn spawn(place: Arc<Place>, flags: &[&str]) -> Self {
        Self::spawn_by(program(), place, flags)
    }

    /// Starts a gateway whose data folder is on a file system of its own, of so many bytes. See [`Self::small_disk`].
    pub(crate) async fn on_small_disk(bytes: u64, flags: &[&str]) -> Self {
        let place = Place::new();
        let data = place.folder.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        let gateway = program();
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c"]);
        command.arg(format!("mount -t tmpfs -o size={bytes} tmpfs '{}' && exec \"$@\"", data.display()));
        command.arg("sh").arg(gateway.get_program()).args(gateway.get_args());
        for (name, value) in gateway.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut gateway = Self::spawn_by(command, place, &usual(flags));
        gateway.ready().await;
        gateway
    }

    /// The small disk as the gateway sees it: nobody else does.
    pub(crate) fn small_disk(&self) -> PathBuf {
        let data = self.folder().join("data");
        PathBuf::from(format!("/proc/{}/root", self.process.id())).join(data.strip_prefix("/").expect("absolute"))
    }

    fn spawn_by(mut command: Command, place: Arc<Place>, flags: &[&str]) -> Self {
        command.args(["serve"]);
        let (proxy, admin) = (place.proxy.address, place.admin.address);
        command.args(["--listen", &proxy.to_string(), "--admin-listen", &admin.to_string()]);
        command.arg("--data-dir").arg(place.folder.path().join("data")).args(flags);
        let log = place.folder.path().join("log");
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
        let client = client.expect("a client");
        let is_admin_only = flags.windows(2).any(|w| w == ["--role", "admin"]);
        Self { proxy, admin, process: Process::spawn(command, &log), client, place, is_admin_only }
    }

    /// Ready, and listening: `listens_when_ready` holds the one to the other.
    async fn ready(&mut self) {
        self.admits().await;
        while !self.is_admin_only && tokio::net::TcpStream::connect(self.proxy).await.is_err() {
            assert!(self.process.exited().is_none(), "the gateway ended:\n{}", self.process.output());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn admits(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = self.client.get(self.admin_url("/health/ready")).send().await;
            if answer.is_ok_and(|a| a.status() == 200) {
                return;
            }
            if let Some(status) = self.process.exited() {
                panic!("the gateway ended with {status} at start:\n{}", self.process.output());
            }
            assert!(Instant::now() < deadline, "the gateway is not ready:\n{}", self.process.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy)
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// What Prometheus would scrape.
    pub(crate) async fn metrics(&self) -> String {
        Call::new(&self.client, "GET", &self.admin_url("/metrics")).send().await.expect(200).text()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.place.folder.path().to_owned()
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// A call of the proxy port with the workspace key.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.client, method, &self.url(path)).header("x-gateway-api-key", WORKSPACE_KEY)
    }

    pub(crate) fn post(&self, path: &str) -> Call {
        self.call("POST", path)
    }

    pub(crate) fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    pub(crate) fn chat(&self) -> Call {
        self.post("/v1/chat/completions")
    }

    /// A chat call that goes to the scripted upstream by an inline config.
    pub(crate) fn chat_through(&self, upstream: &Upstream) -> Call {
        self.chat().config(&target(upstream))
    }

    pub(crate) fn admin(&self) -> Admin<'_> {
        Admin::new(&self.client, format!("http://{}/v1", self.admin), ADMIN_KEY)
    }

    /// What the process has in memory now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.kilobytes("VmRSS") * 1024
    }

    /// `VmHWM`, `VmRSS` of the process, in MiB.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        self.kilobytes(field) / 1024
    }

    fn kilobytes(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("/proc");
        let line = status.lines().find(|l| l.starts_with(field)).expect("a memory line");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kilobytes")
    }
}

impl Place {
    fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        Arc::new(Self { folder, proxy: Port::reserve(), admin: Port::reserve() })
    }
}

/// Known keys, trust in this machine, and a small process.
fn usual<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let usual = [
        ("--bootstrap-admin-key", ADMIN_KEY),
        ("--bootstrap-workspace-key", WORKSPACE_KEY),
        ("--trusted-custom-hosts", "127.0.0.1"),
        ("--threads", "2"),
        ("--log-format", "text"),
    ];
    let kept = usual.into_iter().filter(|(flag, _)| !flags.contains(flag));
    kept.flat_map(|(flag, value)| [flag, value]).chain(flags.iter().copied()).collect()
}

/// An inline config of one target: the scripted upstream, speaking OpenAI.
pub(crate) fn target(upstream: &Upstream) -> Value {
    json!({ "provider": "openai", "api_key": "sk-upstream", "custom_host": upstream.url() })
}
