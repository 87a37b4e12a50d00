//! A Postgres server with durability off: fast, and good for nothing but tests.

use crate::certificate::certify;
use crate::child::Tied;
use crate::program::{Account, Port, command, find, finish};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const INSTALL: &str = "install PostgreSQL 13 or newer (Debian: apt-get install postgresql)";
const USER: &str = "gateway";
const PASSWORD: &str = "test-password";

#[derive(Debug)]
pub struct Postgres {
    server: Option<Tied>,
    port: Port,
    account: Option<Account>,
    is_secured: bool,
    dir: TempDir,
}

static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());

impl Postgres {
    /// A server of one's own, for tests that stop it.
    pub fn start() -> Self {
        Self::begin(false)
    }

    /// A server that takes connections over TLS only, with a certificate for `localhost` and no other name.
    pub fn start_secured() -> Self {
        Self::begin(true)
    }

    /// Certificate of the authority that signed the server's, and of one that did not.
    pub fn authorities(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("ca.pem"), self.dir.path().join("other.pem"))
    }

    fn begin(is_secured: bool) -> Self {
        let dir = TempDir::new().unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        let account = Account::instead_of_root();
        if let Some(account) = account {
            account.own(dir.path());
        }
        let mut postgres = Self { server: None, port: Port::reserve(), account, is_secured, dir };
        postgres.initialise();
        if is_secured {
            postgres.certify();
        }
        for _ in 0..5 {
            if postgres.run() {
                return postgres;
            }
            postgres.port = Port::reserve();
        }
        panic!("postgres did not come up: {}", postgres.log());
    }

    /// One server for all tests of the process that run at the same time.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let postgres = Arc::new(Self::start());
            *shared = Arc::downgrade(&postgres);
            postgres
        })
    }

    /// The database that every server has.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// A new, empty database.
    pub fn create(&self, name: &str) -> String {
        let mut createdb = Command::new(binary("createdb"));
        createdb.args(["-h", "127.0.0.1", "-p", &self.port.number.to_string(), "-U", USER, name]);
        finish(createdb.env("PGPASSWORD", PASSWORD), "createdb");
        self.url_of(name)
    }

    /// A new, empty database on the server of this URL, which another process started.
    pub fn create_beside(url: &str, name: &str) -> String {
        let mut createdb = Command::new(binary("createdb"));
        finish(createdb.args(["--maintenance-db", url, name]), "createdb");
        url.rsplit_once('/').map_or_else(|| url.to_owned(), |(server, _)| format!("{server}/{name}"))
    }

    /// Ends every connection to a database but the one that asks for it; the server stays.
    pub fn cut(&self, database: &str) {
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let mut psql = Command::new(binary("psql"));
        finish(psql.args(["--no-psqlrc", "-q", "-d", &self.url_of(database), "-c", ends]), "psql");
    }

    /// All that a database holds, as text.
    pub fn dump(url: &str) -> Vec<u8> {
        let mut dump = Command::new(binary("pg_dump"));
        let output =
            dump.args(["--inserts", url]).output().unwrap_or_else(|e| panic!("cannot start pg_dump: {e}. {INSTALL}"));
        assert!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Where its files are, the journal included.
    pub fn files(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port.number)
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Gone at once, as after a crash. The data stays.
    pub fn stop(&mut self) {
        let Some(server) = self.server.take() else { return };
        // SIGQUIT first: the postmaster then takes its workers along, which a plain kill leaves behind.
        let mut quit = Command::new("kill");
        finish(quit.args(["-QUIT", &server.id().to_string()]), "kill -QUIT");
        let end = Instant::now() + Duration::from_secs(10);
        while self.dir.path().join("data/postmaster.pid").exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Neither answers nor refuses, as a machine that is overloaded. Undone by [`Self::wake`].
    pub fn freeze(&self) {
        self.signal_all("-STOP");
    }

    pub fn wake(&self) {
        self.signal_all("-CONT");
    }

    fn signal_all(&self, signal: &str) {
        let Some(server) = &self.server else { return };
        let id = server.id().to_string();
        let children = Command::new("pgrep").args(["-P", &id]).output().map(|o| o.stdout).unwrap_or_default();
        let children = String::from_utf8_lossy(&children);
        // One that has just ended cannot be signalled, and need not be.
        let _ = Command::new("kill").arg(signal).arg(&id).args(children.split_whitespace()).output();
    }

    /// Back on the same port with the same data.
    pub fn resume(&mut self) {
        assert!(self.run(), "postgres did not come back on port {}: {}", self.port.number, self.log());
    }

    fn initialise(&self) {
        let password = self.dir.path().join("password");
        std::fs::write(&password, PASSWORD).unwrap_or_else(|e| panic!("cannot write {}: {e}", password.display()));
        let mut initdb = command(&binary("initdb"), self.account, false);
        initdb.arg("-D").arg(self.dir.path().join("data")).arg("--pwfile").arg(password);
        initdb.args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]);
        finish(initdb.current_dir("/"), "initdb");
    }

    fn certify(&self) {
        let dir = self.dir.path();
        certify(dir);
        if let Some(account) = self.account {
            ["server.key", "server.pem"].iter().for_each(|name| account.own(&dir.join(name)));
        }
        std::fs::write(dir.join("data/pg_hba.conf"), "hostssl all all all scram-sha-256\n")
            .unwrap_or_else(|e| panic!("cannot write pg_hba.conf: {e}"));
    }

    fn run(&mut self) -> bool {
        let log = File::create(self.dir.path().join("log")).unwrap_or_else(|e| panic!("cannot write a log: {e}"));
        let mut server = command(&binary("postgres"), self.account, true);
        server.arg("-D").arg(self.dir.path().join("data"));
        for setting in [
            &format!("port={}", self.port.number),
            "listen_addresses=127.0.0.1",
            &format!("unix_socket_directories={}", self.dir.path().display()),
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=200",
        ] {
            server.args(["-c", setting]);
        }
        if self.is_secured {
            let place = |name: &str| self.dir.path().join(name).display().to_string();
            server.args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", place("server.pem"))]);
            server.args(["-c", &format!("ssl_key_file={}", place("server.key"))]);
        }
        server.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.server = Some(Tied::start(server));
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            if self.answers() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.server = None;
        false
    }

    fn answers(&self) -> bool {
        let mut ready = Command::new(binary("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.number.to_string()]);
        ready.status().is_ok_and(|s| s.success())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Debian keeps server programs off `PATH`; the newest version wins.
fn binary(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").map(|dir| dir.flatten().map(|e| e.path()).collect());
    let mut versions: Vec<PathBuf> = versions.unwrap_or_default();
    versions.sort_by_key(|p| p.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<u32>().ok()));
    let places: Vec<_> = versions.iter().rev().map(|p| p.join("bin")).collect();
    find(name, &places, INSTALL)
}
