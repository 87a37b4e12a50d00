//! A child process with its output kept in a file: shown when the test fails, ended when it goes out of
//! scope.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

thread_local! {
    static AHEAD_SECS: Cell<i64> = const { Cell::new(0) };
}

/// Lets the programs that this test starts live at half past twelve today, UTC: no minute ends before 40 seconds have
/// passed, no hour before half an hour, and no day, week or month for long after. Tests of windows begin with this,
/// lest a window end in the middle of them.
pub(crate) fn stand_at_noon() {
    const DAY: i64 = 86_400;
    const NOON: i64 = 12 * 3_600 + 30 * 60 + 20;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after the epoch");
    let now = i64::try_from(since.as_secs()).expect("in range");
    AHEAD_SECS.set(NOON - now.rem_euclid(DAY));
}

/// The program under test. It dies with the thread that starts it, whatever way a test run ends, and
/// variables of the developer's shell do not reach it.
pub(crate) fn program() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_gateway")]);
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("GATEWAY_")) {
        command.env_remove(name);
    }
    for name in ["DB_POOL_SIZE", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_FEDERATED_TOKEN_FILE"] {
        command.env_remove(name);
    }
    command.env("RUST_BACKTRACE", "1").env("GATEWAY_CLOCK_AHEAD", AHEAD_SECS.get().to_string());
    command
}

impl Process {
    pub(crate) fn spawn(mut command: Command, log: &Path) -> Self {
        let file = std::fs::File::options().create(true).append(true).open(log).expect("a log file");
        let copy = file.try_clone().expect("a second handle");
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        Self { child: command.spawn().expect("the program starts"), log: log.to_owned() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `TERM`, `QUIT`, `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "cannot send {name}");
    }

    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    pub(crate) async fn exit(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {within:?}:\n{}", self.output());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.output();
            let from = output.char_indices().nth_back(6_000).map_or(0, |(at, _)| at);
            eprintln!("--- output of process {}\n{}\n---", self.id(), &output[from..]);
        }
        if self.exited().is_none() {
            self.signal("TERM");
            let deadline = Instant::now() + Duration::from_millis(500);
            while Instant::now() < deadline {
                if self.exited().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
