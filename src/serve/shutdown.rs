//! Going down. SIGTERM: readiness turns 503, listeners stay open for `--shutdown-delay`, then close; requests in
//! flight finish, and the process leaves as soon as none is, or after `--drain-timeout`. SIGQUIT hands the
//! listeners to a process started with `--upgrade` first. SIGINT leaves at once.

use super::admin_port::StopAdmin;
use super::process::Process;
use crate::flight::Flight;
use crate::settings::Settings;
use crate::writer::Writer;
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Pingora waits this long after handing its listeners over before it closes its own.
const HAND_OVER: Duration = Duration::from_secs(5);
/// Time for the listeners to close, so that the last connection's request is counted.
const SETTLE: Duration = Duration::from_millis(200);

/// Everything that must happen before the process may end.
pub(crate) struct Drain {
    flight: Flight,
    process: Arc<Process>,
    writer: Mutex<Writer>,
    stop_admin: StopAdmin,
    delay: Duration,
    timeout: Duration,
    upgrade_sock: PathBuf,
}

impl Drain {
    pub(crate) fn new(
        flight: Flight,
        process: Arc<Process>,
        writer: Writer,
        stop_admin: StopAdmin,
        settings: &Settings,
    ) -> Self {
        Self {
            flight,
            process,
            writer: Mutex::new(writer),
            stop_admin,
            delay: settings.shutdown_delay.0,
            timeout: settings.drain_timeout.0,
            upgrade_sock: settings.upgrade_sock.clone(),
        }
    }

    pub(crate) fn ready(&self) {
        self.process.set_ready();
    }

    /// Waits for what is in flight and ends the process. Runs on a thread of its own: Pingora's main thread
    /// sleeps its whole grace period, however idle the process is.
    fn leave_when_idle(self: Arc<Self>, after: Duration) {
        let wait = move || {
            std::thread::sleep(after + SETTLE);
            let until = Instant::now() + self.timeout;
            while self.flight.count() > 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let left = self.flight.count();
            if left > 0 {
                tracing::warn!(requests = left, "drain timeout is over; requests still in flight are cut");
            }
            self.stop_admin.stop();
            self.writer.lock().stop();
            tracing::info!("stopped");
            std::process::exit(0);
        };
        if let Err(e) = std::thread::Builder::new().name("drain".into()).spawn(wait) {
            tracing::error!(error = %e, "cannot drain in the background; the grace period decides");
        }
    }
}

/// Signals as Pingora asks for them.
pub(crate) struct Signals(Arc<Drain>);

impl Signals {
    pub(crate) fn new(drain: Drain) -> Self {
        Self(Arc::new(drain))
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
        tokio::select! {
            _ = terminate.recv() => {
                tracing::info!(delay = ?self.0.delay, "SIGTERM: draining");
                self.0.process.drain();
                tokio::time::sleep(self.0.delay).await;
                self.0.clone().leave_when_idle(Duration::ZERO);
                ShutdownSignal::GracefulTerminate
            }
            _ = quit.recv() => {
                tracing::info!(socket = %self.0.upgrade_sock.display(), "SIGQUIT: handing the listeners over");
                self.0.stop_admin.stop();
                self.0.clone().leave_when_idle(HAND_OVER);
                ShutdownSignal::GracefulUpgrade
            }
            _ = interrupt.recv() => {
                tracing::info!("SIGINT: leaving at once");
                self.0.process.drain();
                self.0.writer.lock().stop();
                ShutdownSignal::FastShutdown
            }
        }
    }
}
