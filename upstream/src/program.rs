//! Programs of this machine that are spoken with in lines: started without a shell and with nothing of the gateway's
//! environment, one task each, and stopped when nobody holds their input any more. Which programs there are is the
//! operator's word alone. Knows nothing of what is said.

mod lines;
mod stderr;

use gateway_domain::Secret;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// Lines that wait on either side.
const WAITING: usize = 64;
/// The time that a program has to end by itself once its input is closed, and again once it was asked to.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
/// The time in which the last words of a program that has ended are read; they often say why it ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program, as the operator named it.
#[derive(Debug)]
pub struct ProgramSpec {
    pub command: String,
    pub args: Vec<String>,
    /// All that it finds in its environment, beside `PATH`.
    pub env: BTreeMap<String, Secret<String>>,
    /// The user that it runs as; `None`: that of the gateway.
    pub user: Option<ProgramUser>,
    /// One for all callers.
    pub shared: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct ProgramUser {
    pub uid: u32,
    pub gid: u32,
}

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    #[error("the settings name no such program")]
    Unknown,
    #[error("as many programs run as may")]
    Full,
    #[error("it cannot be started: {0}")]
    Failed(String),
}

/// All programs that may run here, and those that do.
#[derive(Debug)]
pub struct Programs {
    specs: BTreeMap<String, ProgramSpec>,
    path: Option<String>,
    most: usize,
    running: Arc<AtomicUsize>,
    leaving: watch::Sender<bool>,
    runtime: Handle,
}

/// What a running program is told; where all of these are gone it is stopped.
#[derive(Clone, Debug)]
pub struct ProgramInput(mpsc::Sender<String>);

/// What it says, line by line.
#[derive(Debug)]
pub struct ProgramOutput(mpsc::Receiver<Result<String, &'static str>>);

#[derive(Debug)]
pub struct Program {
    pub input: ProgramInput,
    pub output: ProgramOutput,
}

/// A place among those that may run.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Programs {
    /// `path`: of their environment. `runtime`: where they are looked after.
    pub fn new(specs: BTreeMap<String, ProgramSpec>, path: Option<String>, most: usize, runtime: Handle) -> Self {
        Self { specs, path, most, running: Arc::default(), leaving: watch::Sender::new(false), runtime }
    }

    pub fn spec(&self, name: &str) -> Option<&ProgramSpec> {
        self.specs.get(name)
    }

    /// Those that run, until each has ended.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub fn start(&self, name: &str) -> Result<Program, NoProgram> {
        let spec = self.specs.get(name).ok_or(NoProgram::Unknown)?;
        if *self.leaving.borrow() {
            return Err(NoProgram::Failed("the gateway takes leave".to_owned()));
        }
        let room = |running| (running < self.most).then_some(running + 1);
        self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).map_err(|_| NoProgram::Full)?;
        let place = Running(self.running.clone());
        let _runtime = self.runtime.enter();
        let child = self.command(spec).spawn().map_err(|e| NoProgram::Failed(e.kind().to_string()))?;
        let (to, inbox) = mpsc::channel(WAITING);
        let (outbox, from) = mpsc::channel(WAITING);
        let runtime = self.runtime.clone();
        let attending =
            Attended { name: name.to_owned(), child, runtime, leaving: self.leaving.subscribe(), _place: place };
        let secrets = spec.env.values().cloned().collect();
        self.runtime.spawn(attending.attend((inbox, outbox), secrets));
        Ok(Program { input: ProgramInput(to), output: ProgramOutput(from) })
    }

    fn command(&self, spec: &ProgramSpec) -> Command {
        let mut command = Command::new(&spec.command);
        command.args(&spec.args).env_clear();
        command.envs(self.path.iter().map(|path| ("PATH", path)));
        command.envs(spec.env.iter().map(|(name, value)| (name, value.expose())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It has a process group of its own: what it starts is stopped with it, and no signal of a terminal reaches it.
        command.process_group(0).kill_on_drop(true);
        if let Some(user) = spec.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Stops all of them, and waits no longer than that takes.
    pub fn stop_all(&self) {
        self.leaving.send_replace(true);
        let until = std::time::Instant::now() + LEAVES_WITHIN * 2 + Duration::from_secs(1);
        while self.running() > 0 && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl ProgramInput {
    /// One line; a message never holds a line break. `false`: the program is gone.
    pub async fn send(&self, line: String) -> bool {
        self.0.send(line).await.is_ok()
    }

    /// Sends one line without waiting. `false`: the program is gone, or takes nothing at present.
    pub fn try_send(&self, line: String) -> bool {
        self.0.try_send(line).is_ok()
    }
}

impl ProgramOutput {
    /// `None`: it has ended. `Err`: it broke the rules, the rest of a sentence.
    pub async fn next(&mut self) -> Option<Result<String, &'static str>> {
        self.0.recv().await
    }
}

/// A program and whoever looks after it.
struct Attended {
    name: String,
    child: Child,
    runtime: Handle,
    leaving: watch::Receiver<bool>,
    _place: Running,
}

impl Attended {
    async fn attend(
        mut self,
        (inbox, outbox): (mpsc::Receiver<String>, mpsc::Sender<Result<String, &'static str>>),
        secrets: Vec<Secret<String>>,
    ) {
        let (stdin, stdout, stderr) = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else { return };
        let mut said = self.runtime.spawn(lines::read(stdout, outbox));
        let mut noted = self.runtime.spawn(stderr::note(self.name.clone(), stderr, secrets));
        let ended = tokio::select! {
            // Whoever writes returns when nobody has anything to say any more, and closes its input with that.
            () = lines::write(stdin, inbox) => None,
            ended = self.child.wait() => Some(ended),
            _ = self.leaving.wait_for(|leaving| *leaving) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => self.stop().await,
        };
        let heard = async { tokio::join!(&mut said, &mut noted) };
        // What others hold of its output must not keep these two.
        let _ = tokio::time::timeout(LAST_WORDS, heard).await;
        said.abort();
        noted.abort();
        match ended {
            Ok(status) if status.success() => tracing::debug!(program = self.name, "a program has ended"),
            Ok(status) => tracing::info!(program = self.name, %status, "a program has ended"),
            Err(error) => tracing::warn!(program = self.name, %error, "a program cannot be waited for"),
        }
    }

    /// Its input is closed by now.
    async fn stop(&mut self) -> std::io::Result<std::process::ExitStatus> {
        if let Ok(ended) = tokio::time::timeout(LEAVES_WITHIN, self.child.wait()).await {
            return ended;
        }
        self.signal(rustix::process::Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(LEAVES_WITHIN, self.child.wait()).await {
            return ended;
        }
        self.signal(rustix::process::Signal::KILL);
        self.child.wait().await
    }

    /// Sends a signal to the program and to all that it started.
    fn signal(&self, signal: rustix::process::Signal) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = rustix::process::kill_process_group(group, signal)
        {
            tracing::debug!(program = self.name, %error, "a program cannot be told to end");
        }
    }
}

#[cfg(test)]
mod tests;
