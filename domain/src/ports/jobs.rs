//! Work that outlives the request that asked for it: rows with a due time, each run by one node at a time under a
//! lease. A node that dies loses its lease by time, and another goes on from what was noted last. Nothing here says
//! what a job does; times are the backend's own, since clocks of nodes differ. Rows are not sealed: what is secret lies
//! elsewhere, or is sealed by whoever makes the job.

use super::{Fut, StoreError};
use crate::id::OrgId;
use crate::time::Timestamp;
use std::time::Duration;
use uuid::Uuid;

/// Bytes of what a job is given, and of what it notes of its progress. What is larger is a blob that they name.
pub const MOST_JOB_BYTES: usize = 64 << 10;

/// A job that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// An id that is known makes no second job: whoever asks again after a doubt gets what stands already.
    pub id: Uuid,
    /// Who runs it: a word of the program's, like `batch`.
    pub kind: &'static str,
    pub org: OrgId,
    /// What the job is given to do, at most [`MOST_JOB_BYTES`] long.
    pub payload: String,
    /// What another job came to that this one goes on from; as large at most.
    pub progress: String,
    /// Not before so long from now.
    pub wait: Duration,
    /// Tries without any progress after which it has failed; one at least.
    pub most_tries: u32,
    /// How many of this kind the organisation may have that have not ended. Requests at the very same moment may
    /// exceed it by their own number.
    pub most_open: u32,
    /// How many of this kind that have not ended a part of the organisation may have, and all organisations together.
    pub bounds: JobBounds,
}

/// How many jobs of one kind that have not ended there may be, beside the bound for an organisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobBounds {
    pub part: Option<PartBound>,
    /// What all organisations together may have.
    pub all: Option<u32>,
}

/// What a part of an organisation may have, like a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartBound {
    pub part: Uuid,
    pub most: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    New,
    /// A job of this id is there, whatever became of it.
    Known,
    /// There are as many as there may be.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: Uuid,
    pub kind: String,
    pub org: OrgId,
    pub state: JobState,
    pub payload: String,
    /// What its last run noted, empty at first: where the next one goes on.
    pub progress: String,
    /// Tries since it last made progress.
    pub tries: u32,
    /// What came of it, or why the last try failed.
    pub note: String,
    pub is_cancelled: bool,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// The right to run a job, for a while. Whoever took it over since then made this one void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobLease {
    pub job: Uuid,
    /// Drawn anew for each run.
    pub token: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    pub lease: JobLease,
    pub job: Job,
}

/// What the holder of a lease is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStanding {
    Held,
    /// Somebody wants it to end: finish soon, as [`JobEnd::Stopped`].
    Cancelled,
    /// It belongs to another, or has ended: stop, and write nothing more.
    Lost,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Done(String),
    /// It cannot be done, now or later.
    Failed(String),
    /// This try failed; another may do better. The last try makes it [`JobEnd::Failed`].
    Again {
        after: Duration,
        why: String,
    },
    /// Given back untried: the process stops, or what it waits for is not there yet. Counts as no try.
    Back {
        after: Duration,
    },
    /// It stopped since it was cancelled.
    Stopped,
}

/// What became of the wish that a job be run soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hastened {
    /// It is due then, or was to be run sooner anyway.
    Due,
    /// A run of it is under way, which may have begun before whatever made somebody wish for one.
    Running,
    /// There is none that could be run.
    Absent,
}

/// How many jobs of a kind are in a state, and for how long the oldest of them could have been run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBacklog {
    pub kind: String,
    pub state: JobState,
    pub jobs: u64,
    pub overdue: Duration,
}

pub trait Jobs: Send + Sync {
    fn enqueue<'a>(&'a self, job: &'a NewJob) -> Fut<'a, Result<Enqueued, StoreError>>;
    /// Makes one that runs at once, by whoever makes it: nobody else is given it before its lease ends. `None`: it is
    /// known already, or there are as many as there may be.
    fn begin_job<'a>(&'a self, job: &'a NewJob, lease: Duration) -> Fut<'a, Result<Option<JobLease>, StoreError>>;
    /// The one that has been due for longest, of these kinds; also one whose lease ran out. It is the taker's for so
    /// long. One that ran out of tries by losing its nodes has failed, and is not given again.
    fn take<'a>(&'a self, kinds: &'a [&'a str], lease: Duration) -> Fut<'a, Result<Option<LeasedJob>, StoreError>>;
    /// Still at work: the lease lasts for so long from now. `progress`, at most [`MOST_JOB_BYTES`], is what the next
    /// run would go on from; a new one starts the count of tries anew.
    fn beat<'a>(
        &'a self,
        lease: JobLease,
        progress: Option<&'a str>,
        lasts: Duration,
    ) -> Fut<'a, Result<JobStanding, StoreError>>;
    /// Lengthens many leases at once like [`Self::beat`], without progress. Returns those that are still held.
    fn beat_all<'a>(&'a self, leases: &'a [JobLease], lasts: Duration) -> Fut<'a, Result<Vec<JobLease>, StoreError>>;
    /// Nobody will ask what became of it: it is as if it had never been. False: the lease was lost.
    fn drop_job(&self, lease: JobLease) -> Fut<'_, Result<bool, StoreError>>;
    /// False: the lease was lost, and what another made of the job stands.
    fn end<'a>(&'a self, lease: JobLease, end: &'a JobEnd) -> Fut<'a, Result<bool, StoreError>>;
    /// One that waits has ended at once; one that runs hears of it at its next beat. False: no such job of this
    /// organisation, or it has ended.
    fn cancel(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<bool, StoreError>>;
    /// Makes one that waits due so long from now, where it is not due sooner.
    fn hasten(&self, org: OrgId, id: Uuid, wait: Duration) -> Fut<'_, Result<Hastened, StoreError>>;
    fn job(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<Option<Job>, StoreError>>;
    fn backlog(&self) -> Fut<'_, Result<Vec<JobBacklog>, StoreError>>;
    /// Forgets those that ended before this, some thousands at a time; how many.
    fn forget(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
