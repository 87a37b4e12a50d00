//! What was made at a provider by way of the gateway and is to be counted though nobody looks at it again: a row for
//! each, which one node at a time looks at when it is due, under a lease. Knows nothing of what stands in a row, and of
//! no provider.

use super::schedule::{self, BatchLook, NextLook, WatchEnd, WatchMoment, WatchProgress, WatchTimes};
use super::{BookingId, now_secs};
use crate::batches::ObjectOwner;
use crate::metrics::Metrics;
use crate::{clock, job_kind};
use gateway_domain::ports::{
    Enqueued, Job, JobBounds, JobEnd, JobLease, JobStanding, Jobs, LeasedJob, MOST_JOB_BYTES, NewJob, PartBound,
    StoreError, Vault,
};
use prometheus::{IntCounterVec, Opts};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The kind of jobs in which nodes watch batches.
const KIND: &str = "batch_watch";
/// The most batches that are watched at once of a workspace, of an organisation, and in all.
const MOST_OF_WORKSPACE: u32 = 1_000;
const MOST_OF_ORG: u32 = 10_000;
const MOST: u32 = 100_000;
/// Nodes that may die with one in their hands without any look that came to an end.
const MOST_TRIES: u32 = 20;
/// The longest that somebody waits for the row to be written before the answer goes out.
const WITHIN: Duration = Duration::from_secs(5);
/// The shortest and the longest time between two looks for what is due.
const ROUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// What is watched, by what it is counted as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedWork {
    pub(crate) id: BookingId,
    pub(crate) owner: ObjectOwner,
}

/// Where rows lie.
pub(crate) struct WatchRows {
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) vault: Arc<dyn Vault>,
    /// Databases are asked here, never on a thread that serves requests.
    pub(crate) runtime: Handle,
}

/// What the operator says of watches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchSettings<'a> {
    pub(crate) times: WatchTimes,
    /// How long a node that fell silent is waited for.
    pub(crate) lease: Duration,
    /// What was made by nodes of a deployment is looked at by these.
    pub(crate) deployment: Option<&'a str>,
}

pub(crate) struct BatchWatches {
    rows: WatchRows,
    kind: &'static str,
    times: WatchTimes,
    lease: Duration,
    looks: IntCounterVec,
    unwatched: IntCounterVec,
}

impl std::fmt::Debug for BatchWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchWatches").field("times", &self.times).finish_non_exhaustive()
    }
}

/// One that this node looks at now.
pub(crate) struct HeldWatch {
    lease: JobLease,
    pub(crate) job: Job,
    progress: WatchProgress,
}

/// Why something is not watched, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwatched {
    Full,
    Large,
    /// The database did not take it.
    Away,
}

impl Unwatched {
    const ALL: [Self; 3] = [Self::Full, Self::Large, Self::Away];

    const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Large => "large",
            Self::Away => "away",
        }
    }
}

/// What looks come to, in the words of metrics.
const OUTCOMES: [&str; 7] = ["open", "failed", "counted", "nothing", "gone", "given_up", "homeless"];

const fn outcome(end: WatchEnd) -> &'static str {
    match end {
        WatchEnd::Counted => "counted",
        WatchEnd::Nothing => "nothing",
        WatchEnd::Gone => "gone",
        WatchEnd::GivenUp => "given_up",
        WatchEnd::Homeless => "homeless",
    }
}

impl BatchWatches {
    /// Made once for a process.
    pub(crate) fn new(
        rows: WatchRows,
        settings: WatchSettings<'_>,
        metrics: &Metrics,
    ) -> Result<Self, prometheus::Error> {
        let WatchSettings { times, lease, deployment } = settings;
        let help = "Looks at batches that clients made at providers, by what they found";
        let looks = IntCounterVec::new(Opts::new("gateway_batch_watch_looks_total", help), &["outcome"])?;
        let help = "Batches that clients made at providers and that are counted only if somebody looks at them, by why";
        let unwatched = IntCounterVec::new(Opts::new("gateway_batches_unwatched_total", help), &["why"])?;
        metrics.register(Box::new(looks.clone()))?;
        metrics.register(Box::new(unwatched.clone()))?;
        // There from the start: what is not there cannot be seen to grow.
        OUTCOMES.iter().for_each(|outcome| drop(looks.with_label_values(&[outcome])));
        Unwatched::ALL.iter().for_each(|why| drop(unwatched.with_label_values(&[why.label()])));
        let kind = job_kind::of_deployment(KIND, deployment);
        Ok(Self { rows, kind, times, lease, looks, unwatched })
    }

    /// Whether anything is watched at all.
    pub(crate) const fn are_on(&self) -> bool {
        !self.times.every.is_zero()
    }

    /// The time between two looks for what is due: a quarter of the shortest pause of a batch, within `ROUNDS`.
    pub(crate) fn round(&self) -> Duration {
        (self.times.every / 4).clamp(ROUNDS.0, ROUNDS.1)
    }

    /// Writes down, sealed, what it takes to look at it, which is for whoever finds that they are on. Where that cannot
    /// be done it is counted when somebody looks.
    pub(crate) async fn note(&self, work: WatchedWork, text: &str) {
        let payload = self.rows.vault.seal(text);
        if payload.len() > MOST_JOB_BYTES {
            return self.leave(work, Unwatched::Large, "its request is too large to be kept");
        }
        let ObjectOwner { org, workspace } = work.owner;
        let job = NewJob {
            id: work.id.0,
            kind: self.kind,
            org,
            payload,
            progress: String::new(),
            wait: self.times.every,
            most_tries: MOST_TRIES,
            most_open: MOST_OF_ORG,
            bounds: JobBounds { part: Some(PartBound { part: workspace.0, most: MOST_OF_WORKSPACE }), all: Some(MOST) },
        };
        let jobs = self.rows.jobs.clone();
        let noting = async move { tokio::time::timeout(WITHIN, jobs.enqueue(&job)).await };
        match self.rows.runtime.spawn(noting).await {
            Ok(Ok(Ok(Enqueued::New | Enqueued::Known))) => {}
            Ok(Ok(Ok(Enqueued::Full))) => self.leave(work, Unwatched::Full, "as many are watched as may be"),
            Ok(Ok(Err(error))) => self.leave(work, Unwatched::Away, &error.to_string()),
            Ok(Err(_)) | Err(_) => self.leave(work, Unwatched::Away, "the database took too long"),
        }
    }

    fn leave(&self, work: WatchedWork, why: Unwatched, told: &str) {
        self.unwatched.with_label_values(&[why.label()]).inc();
        let workspace = work.owner.workspace.0;
        tracing::warn!(%workspace, why = told, "a provider's batch is not watched: it is counted when somebody looks at it");
    }

    /// What has been due for longest.
    pub(crate) async fn take(&self) -> Result<Option<HeldWatch>, StoreError> {
        let Some(LeasedJob { lease, job }) = self.rows.jobs.take(&[self.kind], self.lease).await? else {
            return Ok(None);
        };
        let progress = serde_json::from_str(&job.progress).unwrap_or_default();
        Ok(Some(HeldWatch { lease, job, progress }))
    }

    /// What stands in the row.
    pub(crate) fn open(&self, watch: &HeldWatch) -> Result<String, String> {
        self.rows.vault.open(&watch.job.payload).map(|text| text.expose().clone()).map_err(|e| e.to_string())
    }

    /// The work, while the row is kept for this node; `None`: another has it by now. What was begun is done to its end
    /// all the same: whoever counts has a turn for it that nobody else is given.
    pub(crate) async fn holding<T>(&self, watch: &HeldWatch, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut is_lost) = (std::pin::pin!(work), false);
        loop {
            tokio::select! {
                done = &mut work => return (!is_lost).then_some(done),
                () = tokio::time::sleep(self.lease / 3), if !is_lost => {}
            }
            match self.rows.jobs.beat(watch.lease, None, self.lease).await {
                Ok(standing) => is_lost = standing == JobStanding::Lost,
                // While the database is away nobody else is given it.
                Err(error) => tracing::debug!(%error, "that a batch is looked at could not be told"),
            }
        }
    }

    /// What is to become of it by what a look found.
    pub(crate) async fn looked(&self, watch: HeldWatch, found: &BatchLook) {
        let age = clock::now().micros().saturating_sub(watch.job.created_at.micros()).max(0).unsigned_abs();
        let ends = match found {
            BatchLook::Open(Some(ends)) => Some(*ends),
            _ => watch.progress.window_ends,
        };
        let from_end = ends.map(|ends| Duration::from_secs(now_secs().abs_diff(ends)));
        let at = WatchMoment { age: Duration::from_micros(age), from_end };
        match schedule::next(&watch.progress, found, at, self.times) {
            NextLook::Never(end) => self.end(watch, end).await,
            NextLook::In(after, progress) => {
                let is_failed = match found {
                    BatchLook::Failed(why) => {
                        let (batch, looks) = (watch.job.id, progress.looks);
                        tracing::info!(%batch, looks, why, "a provider's batch could not be looked at, and is later");
                        true
                    }
                    _ => false,
                };
                self.looks.with_label_values(&[if is_failed { "failed" } else { "open" }]).inc();
                self.later(&watch, after, &progress).await;
            }
        }
    }

    async fn later(&self, watch: &HeldWatch, after: Duration, progress: &WatchProgress) {
        let text = serde_json::to_string(progress).unwrap_or_default();
        let noted = self.rows.jobs.beat(watch.lease, Some(&text), self.lease).await;
        let ended = match noted {
            Ok(JobStanding::Lost) => return,
            Ok(_) => self.rows.jobs.end(watch.lease, &JobEnd::Back { after }).await.map(drop),
            Err(e) => Err(e),
        };
        // Its lease runs out, and it is looked at again.
        ended.unwrap_or_else(|error| tracing::warn!(%error, "when a batch is looked at next could not be noted"));
    }

    /// Nothing is looked at any more.
    pub(crate) async fn end(&self, watch: HeldWatch, end: WatchEnd) {
        self.looks.with_label_values(&[outcome(end)]).inc();
        if matches!(end, WatchEnd::GivenUp | WatchEnd::Homeless) {
            let (batch, end) = (watch.job.id, outcome(end));
            tracing::warn!(%batch, end, "a provider's batch is watched no more, and was not counted");
        }
        if let Err(error) = self.rows.jobs.drop_job(watch.lease).await {
            tracing::warn!(%error, "that a batch is watched no more could not be noted");
        }
    }
}
