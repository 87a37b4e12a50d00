//! A ClickHouse: its engine as the package `chdb-core` has it, behind the HTTP interface that `clickhouse.py` beside
//! this crate's sources gives it.

use crate::certificate::certify;
use crate::child::Tied;
use crate::program::{Port, command, find};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const USER: &str = "gateway";
const PASSWORD: &str = "test-password";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clickhouse.py");

#[derive(Debug)]
pub struct ClickHouse {
    server: Option<Tied>,
    port: Port,
    is_secured: bool,
    dir: TempDir,
}

static SHARED: Mutex<Weak<ClickHouse>> = Mutex::new(Weak::new());

/// Where `tests/sdk/setup.sh` puts the engine.
#[expect(clippy::disallowed_methods, reason = "the same variables as the script that installs")]
fn engine() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|h| h.join(".cache")));
    let env = var("GATEWAY_TEST_ENV").or_else(|| cache().map(|c| c.join("gateway/sdk")));
    let path = env.unwrap_or_default().join("engine");
    assert!(path.exists(), "{} is missing: run `make test`, or `bash tests/sdk/setup.sh`", path.display());
    path
}

impl ClickHouse {
    /// A server of one's own, for tests that stop it.
    pub fn start() -> Self {
        Self::begin(false)
    }

    /// A server that takes connections over TLS only, with a certificate for `localhost` and no other name.
    pub fn start_secured() -> Self {
        Self::begin(true)
    }

    /// Its URL over TLS, believed by this authority: `ca.pem` signed its certificate, `other.pem` did not.
    pub fn secured_url(&self, authority: &str) -> String {
        let authority = self.dir.path().join(authority);
        format!("clickhouses://{USER}:{PASSWORD}@localhost:{}/default?ca={}", self.port.number, authority.display())
    }

    fn begin(is_secured: bool) -> Self {
        let mut dir = TempDir::new().unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        if is_secured {
            certify(dir.path());
        }
        for _ in 0..5 {
            let mut server = Self { server: None, port: Port::reserve(), is_secured, dir };
            if server.run() {
                return server;
            }
            dir = server.dir;
        }
        panic!("ClickHouse's engine did not come up on any of five free ports");
    }

    /// One server for all tests of the process that run at the same time.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The database that every server has.
    pub fn url(&self) -> String {
        self.url_of("default")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!("clickhouse://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port.number)
    }

    /// A new, empty database.
    pub fn create(&self, name: &str) -> String {
        self.ask("default", &format!("CREATE DATABASE {name}"));
        self.url_of(name)
    }

    /// What a statement answers, as text.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let answer = self.post(database, sql).unwrap_or_else(|e| panic!("ClickHouse does not answer: {e}"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(head.starts_with("HTTP/1.1 200"), "{sql}: {body}");
        body.to_owned()
    }

    fn post(&self, database: &str, sql: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "POST /?database={database} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-ClickHouse-User: {USER}\r\n\
             X-ClickHouse-Key: {PASSWORD}\r\nContent-Length: {}\r\n\r\n{sql}",
            sql.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Gone at once, as after a crash. The data stays.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Back on the same port with the same data.
    pub fn resume(&mut self) {
        assert!(self.run(), "ClickHouse's engine did not come back on port {}", self.port.number);
    }

    fn run(&mut self) -> bool {
        let python = find("python3", &[], "install python3");
        let mut command = command(&python, None, true);
        let data = self.dir.path().join("data");
        command.arg(SCRIPT).arg(self.port.number.to_string()).arg(data).args([USER, PASSWORD]);
        if self.is_secured {
            command.args(["server.pem", "server.key"].map(|name| self.dir.path().join(name)));
        }
        command.env("GATEWAY_ENGINE", engine()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        self.server = Some(Tied::start(command));
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let plain = || self.post("default", "SELECT 1").is_ok_and(|answer| answer.ends_with("\r\n1\n"));
            let is_up =
                if self.is_secured { TcpStream::connect(("127.0.0.1", self.port.number)).is_ok() } else { plain() };
            if is_up {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.server = None;
        false
    }
}
