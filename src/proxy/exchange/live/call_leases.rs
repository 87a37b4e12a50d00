//! Calls that are watched, as rows: each is watched by one node at a time, under a lease that it renews. Where a node
//! falls silent another takes its calls. Knows nothing of what stands in a row, and of no socket.

use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::{clock, ids, job_kind};
use ahash::AHashMap;
use gateway_domain::ports::{JobBounds, JobEnd, JobLease, Jobs, LeasedJob, NewJob, StoreError, Vault};
use gateway_domain::{Fault, FaultKind, OrgId};
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use uuid::Uuid;

/// The kind of jobs in which nodes watch calls.
const KIND: &str = "call";
/// How long a node that fell silent is waited for.
const LEASE: Duration = Duration::from_secs(12);
/// The time between two signs of life.
const BEAT: Duration = Duration::from_secs(4);
/// The longest that somebody waits for the row to be written before the answer goes out.
const WITHIN: Duration = Duration::from_secs(5);
/// Calls of an organisation that are watched at once, by all nodes.
const MOST_OPEN: u32 = 10_000;
/// Nodes that one call may outlive without anything that was learnt of it.
const MOST_TRIES: u32 = 20;
/// Times that the end of a call is told to a database that is away. What it never hears of is found to be over later.
const LAST_TRIES: u32 = 3;

/// What a call was taken over for, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenFor {
    /// It is watched.
    Watched,
    /// It was over, or had to be.
    Ended,
    /// It could not be watched now.
    Later,
}

impl TakenFor {
    const ALL: [Self; 3] = [Self::Watched, Self::Ended, Self::Later];

    const fn label(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Ended => "ended",
            Self::Later => "later",
        }
    }
}

/// Model and transcriber of a call that were permitted.
pub(super) type KnownModels = [Option<String>; 2];

/// What was learnt of a call since it began. Holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CallProgress {
    pub(super) known: Option<KnownModels>,
    /// Times that it was taken over.
    pub(super) runs: u32,
}

/// The calls of this node.
pub(crate) struct NotedCalls {
    jobs: Arc<dyn Jobs>,
    vault: Arc<dyn Vault>,
    kind: &'static str,
    held: Mutex<AHashMap<Uuid, Arc<CallLease>>>,
    peers: Peers,
    taken: IntCounterVec,
    /// Databases are asked here, never on a thread that serves requests.
    runtime: Handle,
}

struct CallLease {
    lease: JobLease,
    /// Another node has the call.
    is_lost: AtomicBool,
}

/// Where calls are noted.
pub(crate) struct CallRows {
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) runtime: Handle,
}

impl NotedCalls {
    /// Calls of a deployment are taken over by its own nodes. Made once for a process.
    pub(crate) fn new(
        CallRows { jobs, vault, runtime }: CallRows,
        deployment: Option<&str>,
        peers: Peers,
        metrics: &Metrics,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let help = "Calls over WebRTC and SIP whose node had fallen silent or left, by what became of them";
        let taken = IntCounterVec::new(Opts::new("gateway_realtime_calls_taken_total", help), &["outcome"])?;
        metrics.register(Box::new(taken.clone()))?;
        TakenFor::ALL.iter().for_each(|outcome| drop(taken.with_label_values(&[outcome.label()])));
        let kind = job_kind::of_deployment(KIND, deployment);
        Ok(Arc::new(Self { jobs, vault, kind, held: Mutex::default(), peers, taken, runtime }))
    }

    /// Whether another node is there to go on. Of those of one deployment nobody says.
    pub(super) fn have_heirs(&self) -> bool {
        self.kind == KIND && self.peers.count() > 1
    }

    pub(super) fn count(&self, outcome: TakenFor) {
        self.taken.with_label_values(&[outcome.label()]).inc();
    }

    /// Writes a call down, sealed; nobody else is given it while this node lives.
    pub(super) async fn note(self: &Arc<Self>, org: OrgId, text: &str) -> Result<NotedCall, Fault> {
        let job = NewJob {
            id: ids::next(clock::now()),
            kind: self.kind,
            org,
            payload: self.vault.seal(text),
            progress: String::new(),
            wait: Duration::ZERO,
            most_tries: MOST_TRIES,
            most_open: MOST_OPEN,
            bounds: JobBounds::default(),
        };
        let jobs = self.jobs.clone();
        let noting = self.runtime.spawn(async move { tokio::time::timeout(WITHIN, jobs.begin_job(&job, LEASE)).await });
        match noting.await {
            Ok(Ok(Ok(Some(lease)))) => Ok(self.hold(lease, 0)),
            Ok(Ok(Ok(None))) => {
                Err(Fault::new(FaultKind::Busy, "The organisation has as many calls as may be watched"))
            }
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "a call could not be noted");
                Err(Fault::new(FaultKind::Internal, "It could not be noted"))
            }
            Ok(Err(_)) | Err(_) => Err(Fault::new(FaultKind::Internal, "It could not be noted in time")),
        }
    }

    /// What stands in the row of a call.
    pub(super) fn open(&self, payload: &str) -> Result<String, String> {
        self.vault.open(payload).map(|text| text.expose().clone()).map_err(|e| e.to_string())
    }

    /// A call whose node fell silent or left.
    pub(super) async fn take(&self) -> Result<Option<LeasedJob>, StoreError> {
        self.jobs.take(&[self.kind], LEASE).await
    }

    pub(super) fn hold(self: &Arc<Self>, lease: JobLease, runs: u32) -> NotedCall {
        let held = Arc::new(CallLease { lease, is_lost: AtomicBool::new(false) });
        self.held.lock().insert(lease.job, held.clone());
        NotedCall { calls: self.clone(), held, runs }
    }

    /// Tells of all calls at once that this node is there.
    pub(super) fn start_beating(self: &Arc<Self>) {
        let calls = self.clone();
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                calls.beat().await;
            }
        });
    }

    async fn beat(&self) {
        let held: Vec<Arc<CallLease>> = self.held.lock().values().cloned().collect();
        if held.is_empty() {
            return;
        }
        let leases: Vec<JobLease> = held.iter().map(|held| held.lease).collect();
        match self.jobs.beat_all(&leases, LEASE).await {
            Ok(kept) => {
                let kept: ahash::AHashSet<JobLease> = kept.into_iter().collect();
                for lost in held.iter().filter(|held| !kept.contains(&held.lease)) {
                    lost.is_lost.store(true, Ordering::Release);
                }
            }
            // While the database is away nobody can take them.
            Err(error) => tracing::debug!(%error, "calls that are watched cannot be told of"),
        }
    }
}

/// How the watch of a call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    Over,
    /// Another node goes on.
    HandedOver,
    /// It could not be watched now: why.
    Later {
        after: Duration,
        why: String,
    },
}

/// A call of this node, until it is dropped. One that was not ended by then is taken over.
pub(super) struct NotedCall {
    calls: Arc<NotedCalls>,
    held: Arc<CallLease>,
    runs: u32,
}

impl Drop for NotedCall {
    fn drop(&mut self) {
        self.calls.held.lock().remove(&self.held.lease.job);
    }
}

impl NotedCall {
    /// Another node has it by now.
    pub(super) fn is_lost(&self) -> bool {
        self.held.is_lost.load(Ordering::Acquire)
    }

    /// Whoever goes on knows this.
    pub(super) async fn learn(&self, known: Option<KnownModels>) {
        let progress = CallProgress { known, runs: self.runs };
        let text = serde_json::to_string(&progress).unwrap_or_default();
        if let Err(error) = self.calls.jobs.beat(self.held.lease, Some(&text), LEASE).await {
            tracing::debug!(%error, "what was learnt of a call could not be noted");
        }
    }

    pub(super) async fn end(&self, end: CallEnd) {
        let (jobs, lease) = (&self.calls.jobs, self.held.lease);
        // No sign of life comes behind the end.
        self.calls.held.lock().remove(&lease.job);
        for attempt in 1..=LAST_TRIES {
            let told = match &end {
                CallEnd::Over => jobs.drop_job(lease).await,
                CallEnd::HandedOver => jobs.end(lease, &JobEnd::Back { after: Duration::ZERO }).await,
                CallEnd::Later { after, why } => {
                    jobs.end(lease, &JobEnd::Again { after: *after, why: why.clone() }).await
                }
            };
            match told {
                Ok(_) => return,
                Err(error) if attempt == LAST_TRIES => {
                    tracing::warn!(%error, "the end of a call's watch could not be noted");
                }
                Err(_) => tokio::time::sleep(BEAT / 4).await,
            }
        }
    }
}
