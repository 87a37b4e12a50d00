//! Finding programs, ports and the user to run them as. Knows neither Postgres nor Redis.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The program on `PATH` or in one of `places`; `install` tells the reader of the failed test what to do.
pub(crate) fn find(name: &str, places: &[PathBuf], install: &str) -> PathBuf {
    on_path(name)
        .into_iter()
        .chain(places.iter().map(|p| p.join(name)))
        .find(|p| p.is_file())
        .unwrap_or_else(|| panic!("this test needs the program '{name}', which is not here: {install}"))
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a test looks for programs where the shell would")]
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file())
}

/// A port that no other test takes while this lives. It lies below the range from which the kernel gives ports: whoever
/// asks that for any port may be given that of a server which is stopped for a moment, and keep it from coming back.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

impl Port {
    pub(crate) fn reserve() -> Self {
        let folder = std::env::temp_dir().join("gateway-test-ports");
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("no folder for locks of ports: {e}"));
        // Processes start at different places, so that they seldom meet on a lock.
        let start = u16::try_from(std::process::id() % 997).unwrap_or(0) * 10;
        for _ in 0..COUNT {
            let number = FIRST + (start + NEXT.fetch_add(1, Relaxed) % COUNT) % COUNT;
            let lock =
                File::create(folder.join(number.to_string())).unwrap_or_else(|e| panic!("no lock of a port: {e}"));
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _lock: lock };
            }
        }
        panic!("no free port of {COUNT} from {FIRST}");
    }
}

/// An account that is not root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `Some` when this process is root, since Postgres refuses to run as such.
    pub(crate) fn instead_of_root() -> Option<Self> {
        let id = Command::new("id").arg("-u").output().unwrap_or_else(|e| panic!("cannot run 'id -u': {e}"));
        if id.stdout.trim_ascii() != b"0" {
            return None;
        }
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = |name: &str| {
            let line = passwd.lines().find(|l| l.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
        };
        let account = entry("postgres").or_else(|| entry("nobody"));
        Some(account.unwrap_or_else(|| panic!("running as root, and there is no user 'postgres' or 'nobody'")))
    }

    pub(crate) fn own(self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .unwrap_or_else(|e| panic!("cannot give {} away: {e}", path.display()));
    }
}

/// `program` as `account`; with `tied`, killed by the kernel when the thread that starts it is gone.
pub(crate) fn command(program: &Path, account: Option<Account>, tied: bool) -> Command {
    let setpriv = on_path("setpriv");
    let Some(setpriv) = setpriv else {
        if account.is_some() {
            panic!("running as root needs the program 'setpriv': install util-linux");
        }
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    if let Some(Account { uid, gid }) = account {
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
    }
    if tied {
        command.args(["--pdeathsig", "KILL"]);
    }
    command.arg("--").arg(program);
    command
}

/// Runs it to its end, which has to be a good one.
pub(crate) fn finish(command: &mut Command, what: &str) {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {what}: {e}"));
    assert!(output.status.success(), "{what} failed: {}", String::from_utf8_lossy(&output.stderr));
}
