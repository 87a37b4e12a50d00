//! Finding programs, ports and the user to run them as. Knows neither Postgres nor Redis.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Free at this moment; whoever loses the race for it asks again.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap_or_else(|e| panic!("no free port: {e}"));
    listener.local_addr().map_or_else(|e| panic!("no free port: {e}"), |a| a.port())
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
