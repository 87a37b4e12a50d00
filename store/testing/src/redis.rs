//! A Redis (or Valkey) server without persistence.

use crate::child::Tied;
use crate::program::{command, find, free_port, on_path};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug)]
pub struct Redis {
    server: Option<Tied>,
    port: u16,
    dir: TempDir,
}

impl Redis {
    pub fn start() -> Self {
        let mut dir = TempDir::new().unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        for _ in 0..5 {
            let mut redis = Self { server: None, port: free_port(), dir };
            if redis.run() {
                return redis;
            }
            dir = redis.dir;
        }
        panic!("redis-server did not come up on any of five free ports");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Gone at once, as after a crash; what it held is lost.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Back on the same port, empty.
    pub fn resume(&mut self) {
        assert!(self.run(), "redis-server did not come back on port {}", self.port);
    }

    fn run(&mut self) -> bool {
        let program = on_path("valkey-server").unwrap_or_else(|| find("redis-server", &[], "install redis-server"));
        let mut command = command(&program, None, true);
        command.arg("--port").arg(self.port.to_string()).args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
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
        let ask = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok(&answer == b"+PONG")
        };
        ask().unwrap_or(false)
    }
}
