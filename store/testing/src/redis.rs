//! A Redis (or Valkey) server without persistence.

use crate::child::Tied;
use crate::program::{Port, command, find, on_path};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug)]
pub struct Redis {
    server: Option<Tied>,
    port: Port,
    /// The only node of a cluster, with all of its slots. It has a second port, 10,000 above.
    is_cluster: bool,
    dir: TempDir,
}

impl Redis {
    pub fn start() -> Self {
        Self::begin(false)
    }

    /// Starts Redis in cluster mode, which refuses what names keys of several slots at once.
    pub fn start_cluster() -> Self {
        let redis = Self::begin(true);
        redis.say(b"CLUSTER ADDSLOTSRANGE 0 16383\r\n", b"+OK");
        let end = Instant::now() + Duration::from_secs(10);
        while !redis.converse(b"SET up 1\r\n", b"+OK") {
            assert!(Instant::now() < end, "the cluster did not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        redis.say(b"DEL up\r\n", b":1");
        redis
    }

    fn begin(is_cluster: bool) -> Self {
        let mut dir = TempDir::new().unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        for _ in 0..5 {
            let mut redis = Self { server: None, port: Port::reserve(), is_cluster, dir };
            if redis.run() {
                return redis;
            }
            dir = redis.dir;
        }
        panic!("redis-server did not come up on any of five free ports");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number)
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Takes connections and says nothing, as a machine that is overloaded. Undone by [`Self::wake`].
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn wake(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let Some(server) = &self.server else { return };
        let done = Command::new("kill").args([signal, &server.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// Gone at once, as after a crash; what it held is lost.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Back on the same port, empty.
    pub fn resume(&mut self) {
        assert!(self.run(), "redis-server did not come back on port {}", self.port.number);
    }

    fn run(&mut self) -> bool {
        let program = on_path("valkey-server").unwrap_or_else(|| find("redis-server", &[], "install redis-server"));
        let mut command = command(&program, None, true);
        command.arg("--port").arg(self.port.number.to_string()).args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        if self.is_cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
        }
        command.arg("--dir").arg(self.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(Tied::start(command));
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if self.answers() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.server = None;
        false
    }

    fn answers(&self) -> bool {
        self.converse(b"PING\r\n", b"+PONG")
    }

    fn say(&self, command: &[u8], answer: &[u8]) {
        assert!(self.converse(command, answer), "{}", String::from_utf8_lossy(command));
    }

    fn converse(&self, command: &[u8], answer: &[u8]) -> bool {
        let ask = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port.number))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(command)?;
            let mut heard = vec![0; answer.len()];
            stream.read_exact(&mut heard)?;
            Ok(heard == answer)
        };
        ask().unwrap_or(false)
    }
}
