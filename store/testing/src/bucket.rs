//! A bucket that speaks S3: moto's server, behind a relay by which it can be away.

use crate::child::Tied;
use crate::installed::installed;
use crate::program::{Port, command};
use crate::relay::ServerRelay;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NAME: &str = "blobs";

#[derive(Debug)]
pub struct Bucket {
    relay: ServerRelay,
    server: Port,
    _process: Tied,
    _dir: TempDir,
}

impl Bucket {
    /// Starts a server whose bucket has nothing in it.
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        for _ in 0..3 {
            let server = Port::reserve();
            let mut command = command(&installed("python/bin/python"), None, true);
            command.args(["-B", "-m", "moto.server", "-H", "127.0.0.1", "-p", &server.number.to_string()]);
            let log = |name: &str| File::create(dir.path().join(name)).unwrap_or_else(|e| panic!("no log: {e}"));
            command.env("PYTHONPATH", installed("tools")).stdout(log("out")).stderr(log("err"));
            let process = Tied::start(command);
            let end = Instant::now() + Duration::from_secs(60);
            while Instant::now() < end {
                if ask(server.number, "PUT", "").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                    return Self { relay: ServerRelay::start(server.number), server, _process: process, _dir: dir };
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let told = std::fs::read_to_string(dir.path().join("err")).unwrap_or_default();
        panic!("moto did not come up: {told}");
    }

    /// The URL that `--blob-url` takes, with a prefix of some depth.
    pub fn url(&self) -> String {
        self.url_below("kept/here")
    }

    pub fn url_below(&self, prefix: &str) -> String {
        let at = format!("endpoint=http://127.0.0.1:{}&region=eu-central-1", self.relay.port.number);
        format!("s3://AKIDTEST:bucket%2Fsecret@{NAME}/{prefix}?{at}")
    }

    /// Where AWS's other services are spoken by the same server.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.relay.port.number)
    }

    /// Nobody is there, until [`Self::mend`].
    pub fn cut(&self) {
        self.relay.refuse();
    }

    /// Takes what it is sent and says nothing, until [`Self::mend`].
    pub fn stall(&self) {
        self.relay.hold();
    }

    pub fn mend(&self) {
        self.relay.pass();
    }

    /// Whether something came while it stalled.
    pub fn was_asked(&self) -> bool {
        self.relay.held() > 0
    }

    /// Names of all that lies in it.
    pub fn objects(&self) -> Vec<String> {
        let listed = ask(self.server.number, "GET", "?list-type=2").unwrap_or_else(|e| panic!("no list: {e}"));
        assert!(listed.starts_with("HTTP/1.1 200"), "{listed}");
        let keys = listed.split("<Key>").skip(1);
        keys.filter_map(|rest| rest.split_once("</Key>")).map(|(key, _)| key.to_owned()).collect()
    }

    /// The bytes of one, as they lie there.
    pub fn object(&self, name: &str) -> Vec<u8> {
        let answer = speak(self.server.number, "GET", &format!("/{name}")).unwrap_or_else(|e| panic!("no object: {e}"));
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no head"));
        answer[end + 4..].to_vec()
    }
}

fn ask(port: u16, method: &str, behind: &str) -> std::io::Result<String> {
    speak(port, method, behind).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn speak(port: u16, method: &str, behind: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let head = format!(
        "{method} /{NAME}{behind} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: 0\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=AKIDTEST/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
         Signature=none\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
