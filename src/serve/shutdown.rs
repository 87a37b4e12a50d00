//! Going down. SIGTERM: readiness turns 503, listeners stay open for `--shutdown-delay`, then close; requests in
//! flight finish, and the process leaves as soon as none is, or after `--drain-timeout`. SIGQUIT hands the
//! listeners to a process started with `--upgrade` first. SIGINT leaves at once.

use super::admin_port::StopAdmin;
use super::heartbeat::Heartbeat;
use super::process::Process;
use super::usage_checkpoint::FinalFlush;
use crate::connections::Listening;
use crate::in_flight::InFlight;
use crate::limits::Limits;
use crate::otlp::Otlp;
use crate::settings::{Role, Settings};
use crate::writer::Writer;
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ExecutionPhase, ShutdownSignal, ShutdownSignalWatch};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Time for the last connections that were accepted to bring their request, so that it is counted.
const SETTLE: Duration = Duration::from_millis(200);
/// The time for such connections after an upgrade, when both processes accepted until a moment ago.
const SETTLE_UPGRADE: Duration = Duration::from_secs(1);
/// How long the next process has to begin to accept, before this one stops.
const TAKING_OVER: Duration = Duration::from_secs(5);
/// How long the log store may take for what is in the journal before the next process has to do it.
const LAST_SHIPMENTS: Duration = Duration::from_secs(5);
const LAST_SHIPMENTS_AT_ONCE: Duration = Duration::from_secs(1);

/// What the collector of traces has to take the last of them.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Everything that must happen before the process may end.
pub(crate) struct Drain {
    flight: InFlight,
    /// Batches that this process runs.
    runs: InFlight,
    process: Arc<Process>,
    writer: Mutex<Writer>,
    otlp: Option<Otlp>,
    limits: Arc<Limits>,
    counts: FinalFlush,
    stop_admin: StopAdmin,
    /// The sockets of the proxy port; role `admin` has none.
    listening: Option<Arc<Listening>>,
    presence: Heartbeat,
    delay: Duration,
    timeout: Duration,
    upgrade_sock: PathBuf,
    upgrading: AtomicBool,
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
}

/// What of the running process has to be ended, each in its turn.
pub(crate) struct DrainParts {
    pub(crate) flight: InFlight,
    pub(crate) process: Arc<Process>,
    pub(crate) writer: Writer,
    pub(crate) otlp: Option<Otlp>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) counts: FinalFlush,
    pub(crate) stop_admin: StopAdmin,
    pub(crate) listening: Option<Arc<Listening>>,
    pub(crate) presence: Heartbeat,
}

impl Drain {
    pub(crate) fn new(parts: DrainParts, settings: &Settings) -> Self {
        let DrainParts { flight, process, writer, otlp, limits, counts, stop_admin, listening, presence } = parts;
        Self {
            flight,
            runs: InFlight::default(),
            process,
            writer: Mutex::new(writer),
            otlp,
            limits,
            counts,
            stop_admin,
            listening,
            presence,
            delay: settings.shutdown_delay.0,
            timeout: settings.drain_timeout.0,
            upgrade_sock: settings.upgrade_sock.clone(),
            upgrading: AtomicBool::new(false),
            listen: if settings.role == Role::Admin { Vec::new() } else { settings.listen.0.clone() },
            admin: settings.admin_listen,
        }
    }

    /// Both ports listen since before anything ran: what comes now is served.
    fn announce(&self) {
        tracing::info!(listen = ?self.listen, admin = %self.admin, "ready");
        self.process.set_ready();
    }

    pub(super) fn runs(&self) -> InFlight {
        self.runs.clone()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.process.is_draining() || self.upgrading.load(Ordering::Acquire)
    }

    /// Requests under way on both ports, and batches that run.
    fn under_way(&self) -> usize {
        self.flight.count() + self.runs.count() + self.stop_admin.under_way()
    }

    fn is_idle(&self) -> bool {
        self.under_way() + self.counts.awaited() == 0
    }

    /// Waits for what is in flight and ends the process: Pingora's main thread sleeps its whole grace period,
    /// however idle the process is.
    fn leave_when_idle(&self) -> ! {
        std::thread::sleep(if self.upgrading.load(Ordering::Acquire) { SETTLE_UPGRADE } else { SETTLE });
        let until = Instant::now() + self.timeout;
        while !self.is_idle() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = self.under_way();
        if left > 0 {
            tracing::warn!(requests = left, "drain timeout is over; requests still in flight are cut");
        }
        self.stop_admin.stop();
        self.counts.stop_programs();
        self.presence.leave();
        self.limits.flush();
        self.counts.await_no_more();
        self.writer.lock().stop(LAST_SHIPMENTS);
        self.counts.say();
        if let Some(otlp) = &self.otlp {
            otlp.flush(LAST_SPANS);
        }
        tracing::info!("stopped");
        std::process::exit(0)
    }
}

/// Ends the process when Pingora has closed its listeners and nothing is in flight, on a thread of its own.
pub(crate) fn follow(drain: &Arc<Drain>, mut phases: Receiver<ExecutionPhase>) {
    let drain = drain.clone();
    let wait = move || {
        loop {
            match phases.blocking_recv() {
                Ok(ExecutionPhase::ShutdownGracePeriod) => drain.leave_when_idle(),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    if let Err(e) = std::thread::Builder::new().name("drain".into()).spawn(wait) {
        tracing::error!(error = %e, "cannot drain in the background; the grace period decides");
    }
}

/// Signals as Pingora asks for them.
pub(crate) struct Signals(Arc<Drain>);

impl Signals {
    pub(crate) fn new(drain: Arc<Drain>) -> Self {
        Self(drain)
    }
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::quit()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut quit), Ok(mut interrupt)) = signals else {
            tracing::error!("signals cannot be watched; the process will not stop gracefully");
            return std::future::pending().await;
        };
        self.0.announce();
        loop {
            tokio::select! {
                _ = terminate.recv() => {
                    tracing::info!(delay = ?self.0.delay, "SIGTERM: draining");
                    self.0.process.drain();
                    tokio::time::sleep(self.0.delay).await;
                    return ShutdownSignal::GracefulTerminate;
                }
                _ = quit.recv() => if self.hand_over().await {
                    return ShutdownSignal::GracefulTerminate;
                },
                _ = interrupt.recv() => {
                    tracing::info!("SIGINT: leaving at once");
                    self.0.process.drain();
                    self.0.writer.lock().stop(LAST_SHIPMENTS_AT_ONCE);
                    return ShutdownSignal::FastShutdown;
                }
            }
        }
    }
}

impl Signals {
    /// True when another process has the listeners. Without one, this process goes on.
    async fn hand_over(&self) -> bool {
        let (drain, path) = (&self.0, self.0.upgrade_sock.clone());
        tracing::info!(socket = %path.display(), "SIGQUIT: handing the listeners over");
        if let Some(listening) = drain.listening.clone() {
            let handed = tokio::task::spawn_blocking(move || listening.hand_over(&path)).await;
            if let Err(e) = handed.unwrap_or_else(|e| Err(e.into())) {
                tracing::error!(error = %e, "no process started with --upgrade takes the listeners; this one goes on");
                return false;
            }
        }
        drain.stop_admin.stop();
        drain.upgrading.store(true, Ordering::Release);
        tokio::time::sleep(TAKING_OVER).await;
        // Whoever has a session here opens another one there.
        drain.process.drain();
        true
    }
}
