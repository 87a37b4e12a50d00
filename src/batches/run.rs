//! One run of a batch: by one node, under its lease, until the batch ends, the node takes leave, or the lease is lost.
//! A line is noted as sent before it is asked, and as done with its answer; a later run asks only what is not done, and
//! of that once more what was sent.

mod completion;
mod line;
mod managed;

use super::document::{BatchProblem, BatchStatus};
use super::lines::{CheckedLines, FileLine, LineReader};
use super::log::{self, EarlierRuns, LineDone, LogEntry, LogReader, RunLog};
use super::loopback::LineRoad;
use super::operations::{KeepError, now_secs};
use super::runner::Runner;
use super::{BY_PROVIDER, BatchDocument, Batches};
use crate::{clock, ids};
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::{JobEnd, JobStanding, LeasedJob, Live as _, NewBlob};
use line::LineSender;
pub(crate) use line::LineSetup;
use managed::NativeProgress;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

/// The shortest time between two looks at the batch itself.
const PULSE: Duration = Duration::from_secs(1);
/// Tries of one batch without any progress, of which there are twenty: whoever has this one gives up.
const LAST_TRY: u32 = 18;
/// Lines under way may take so long after a batch was cancelled.
const LAST_LINES_SECS: i64 = 600;

/// What a run leaves to the next one.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RunProgress {
    logs: Vec<Uuid>,
    #[serde(default)]
    native: NativeProgress,
}

#[derive(Deserialize)]
struct JobPayload {
    workspace: Uuid,
}

/// Why no further line is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The client wants it.
    Cancelled,
    Expired,
    /// The key that made the batch may call no more.
    Revoked,
    /// This process takes leave: another run goes on.
    Leaving,
    /// The provider's own batch ended, and did not answer all of them.
    Unanswered,
}

/// How a run is over.
enum RunEnd {
    Ended,
    /// Another run goes on, after so long.
    Later(Duration),
}

/// Why a run ends before its batch does.
enum RunBroken {
    /// Another run has the batch.
    Lost,
    Failed(KeepError),
    /// The provider will have none of it: why.
    Refused(String),
    /// The provider did nothing now, and may do it later: why.
    Declined(String),
    /// A limit of the gateway's own lets nothing through.
    Limited(OwnLimit),
}

/// What a limit of the gateway's own says.
struct OwnLimit {
    /// A budget is used up, and not only for a moment.
    is_budget: bool,
    /// How long until it lets something through, where that is known.
    after: Option<Duration>,
    why: String,
}

impl<E: Into<KeepError>> From<E> for RunBroken {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) struct BatchRun {
    runner: Arc<Runner>,
    road: Arc<LineRoad>,
    leased: LeasedJob,
    workspace: WorkspaceId,
    logs: Vec<Uuid>,
    native: NativeProgress,
    beaten: Instant,
    looked: Option<Instant>,
    /// When the client wanted the batch to end.
    cancelled: Option<i64>,
}

impl BatchRun {
    pub(super) fn new(runner: Arc<Runner>, road: Arc<LineRoad>, leased: LeasedJob) -> Self {
        let payload = serde_json::from_str::<JobPayload>(&leased.job.payload);
        let workspace = WorkspaceId(payload.map(|payload| payload.workspace).unwrap_or_default());
        let progress: RunProgress = serde_json::from_str(&leased.job.progress).unwrap_or_default();
        Self {
            runner,
            road,
            leased,
            workspace,
            logs: progress.logs,
            native: progress.native,
            beaten: Instant::now(),
            looked: None,
            cancelled: None,
        }
    }

    fn batches(&self) -> &Arc<Batches> {
        &self.runner.batches
    }

    const fn id(&self) -> Uuid {
        self.leased.job.id
    }

    const fn org(&self) -> OrgId {
        self.leased.job.org
    }

    pub(super) async fn go(mut self) {
        let broken = match self.run().await {
            Ok(RunEnd::Ended) => return self.end(JobEnd::Done(String::new())).await,
            Ok(RunEnd::Later(after)) => return self.end(JobEnd::Back { after }).await,
            Err(RunBroken::Lost) => return tracing::warn!(batch = %self.id(), "another run has this batch"),
            Err(RunBroken::Refused(why)) => {
                let end = self.fail("provider_refused", &why).await;
                return self.end(end).await;
            }
            Err(RunBroken::Failed(why)) => why,
            Err(RunBroken::Declined(why) | RunBroken::Limited(OwnLimit { why, .. })) => KeepError::Store(why),
        };
        let end = match broken {
            KeepError::Unknown => self.fail("missing_file", "The file of the batch is gone").await,
            why if self.leased.job.tries >= LAST_TRY => self.fail("given_up", &why.to_string()).await,
            KeepError::Full(which) => self.fail("storage_full", which).await,
            why => {
                tracing::warn!(batch = %self.id(), error = %why, "a run of a batch broke off");
                JobEnd::Again { after: Duration::from_secs(5), why: why.to_string() }
            }
        };
        self.end(end).await;
    }

    async fn end(&self, end: JobEnd) {
        if let Err(e) = self.batches().jobs.end(self.leased.lease, &end).await {
            tracing::warn!(batch = %self.id(), error = %e, "the end of a run could not be written");
        }
    }

    /// No other run would come further.
    async fn fail(&self, code: &str, message: &str) -> JobEnd {
        let failed = self.batches().change(self.workspace, self.id(), |batch| {
            if !batch.status.has_ended() {
                let (code, message) = (code.to_owned(), message.to_owned());
                batch.problems.push(BatchProblem { code, message, param: None, line: None });
                batch.enter(BatchStatus::Failed, now_secs());
            }
        });
        match failed.await {
            Ok(batch) => {
                self.close(&batch).await;
                JobEnd::Failed(message.to_owned())
            }
            Err(KeepError::Unknown) => JobEnd::Failed(message.to_owned()),
            Err(why) => JobEnd::Again { after: Duration::from_secs(5), why: why.to_string() },
        }
    }

    async fn run(&mut self) -> Result<RunEnd, RunBroken> {
        let batch = self.batches().batch(self.workspace, self.id()).await?;
        if batch.is_over() {
            self.close(&batch).await;
            return Ok(RunEnd::Ended);
        }
        let (halting, heard) = watch::channel(false);
        let sender = self.sender(&batch, heard).await?;
        let batch = match batch.status {
            BatchStatus::Validating => match self.validate(&batch, &sender).await? {
                Some(batch) => batch,
                None => return Ok(RunEnd::Ended),
            },
            _ => batch,
        };
        self.cancelled = batch.cancelling;
        if batch.window == BY_PROVIDER {
            return match Box::pin(self.run_managed(&batch, &sender)).await {
                Err(RunBroken::Limited(limit)) => self.wait_for(&batch, limit).await,
                other => other,
            };
        }
        let (mut done, mut log) = self.begin_log(&batch).await?;
        let halt = self.ask(AskedLines { batch: &batch, sender, halting }, &mut done, &mut log).await?;
        if halt == Some(Halt::Leaving) {
            return Ok(RunEnd::Later(Duration::ZERO));
        }
        self.finalize(&batch, &done, halt).await?;
        Ok(RunEnd::Ended)
    }

    /// What earlier runs did, and a log of this one's own.
    async fn begin_log(&mut self, batch: &BatchDocument) -> Result<(EarlierRuns, RunLog), RunBroken> {
        let own = ids::next(clock::now());
        let log_of = |id: Uuid| log::blob(id, self.leased.job.org, now_secs());
        let (earlier, own_log): (Vec<_>, _) = (self.logs.iter().copied().map(log_of).collect(), log_of(own));
        self.logs.push(own);
        // Noted under the lease before anything is closed: a run that lost it has no say any more.
        self.note_progress().await?;
        let blobs = self.batches().blobs.clone();
        let mut done = self.replay(&earlier).await?;
        done.counts.total = batch.counts.total;
        let log = RunLog::begin(&blobs, &own_log).await.map_err(lost_log)?;
        Ok((done, log))
    }

    async fn note_progress(&mut self) -> Result<(), RunBroken> {
        let progress = RunProgress { logs: self.logs.clone(), native: self.native.clone() };
        self.beat(Some(&serde_json::to_string(&progress).unwrap_or_default())).await
    }

    /// What earlier runs noted. The lease is kept meanwhile, since a node that took longer for it would never get
    /// further.
    async fn replay(&mut self, logs: &[NewBlob]) -> Result<EarlierRuns, RunBroken> {
        let blobs = self.batches().blobs.clone();
        let mut earlier = EarlierRuns::default();
        for log in logs {
            log::close(&blobs, log).await?;
            let mut entries = LogReader::new(&blobs, log.id);
            while let Some((entry, place)) = entries.next_placed().await? {
                earlier.note_at(&entry, place);
                self.pulse_lease().await?;
            }
        }
        Ok(earlier)
    }

    /// Looks through the whole file first. `None`: it has faults, and the batch has failed.
    async fn validate(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
    ) -> Result<Option<BatchDocument>, RunBroken> {
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        let mut checked = CheckedLines::default();
        while let Some(line) = reader.next().await? {
            if checked.check(&line, &batch.endpoint) {
                break;
            }
            if let Some(model) = checked.unknown_model.take() {
                let refusal = sender.refusal(&line).await;
                checked.judge(&line, model, refusal);
            }
            self.pulse_lease().await?;
        }
        checked.end();
        let (total, problems) = (checked.total, checked.problems);
        let batch = self.batches().change(self.workspace, self.id(), |batch| {
            if !problems.is_empty() {
                batch.problems.clone_from(&problems);
                batch.enter(BatchStatus::Failed, now_secs());
                return;
            }
            batch.counts.total = total;
            if batch.status == BatchStatus::Validating {
                batch.enter(BatchStatus::InProgress, now_secs());
            }
        });
        let batch = batch.await?;
        if batch.status == BatchStatus::Failed {
            self.close(&batch).await;
            return Ok(None);
        }
        Ok(Some(batch))
    }

    /// Asks all lines that are not done. `Some`: not all of them were.
    async fn ask(
        &mut self,
        AskedLines { batch, sender, halting }: AskedLines<'_>,
        done: &mut EarlierRuns,
        log: &mut RunLog,
    ) -> Result<Option<Halt>, RunBroken> {
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        let mut asking = JoinSet::new();
        let (mut exhausted, mut halt, mut finished) = (false, None, Vec::new());
        loop {
            halt = halt.or_else(|| self.halt(batch));
            if halt.is_some() {
                halting.send_replace(true);
            }
            let room = self.batches().settings.parallel.saturating_sub(asking.len());
            let fresh = match halt.is_some() || exhausted || self.runner.is_pressed() {
                true => Vec::new(),
                false => next_lines(&mut reader, done, room, &mut exhausted).await?,
            };
            let mut entries: Vec<LogEntry> = std::mem::take(&mut finished).into_iter().map(LogEntry::Done).collect();
            if !fresh.is_empty() {
                entries.push(LogEntry::Sent(fresh.iter().map(|line| line.number).collect()));
            }
            if !entries.is_empty() {
                log.note(&entries).await.map_err(lost_log)?;
            }
            for entry in &entries {
                if let LogEntry::Done(line) = entry {
                    done.finished(line);
                }
            }
            for line in fresh {
                let again = done.doubtful.contains_key(&line.number);
                asking.spawn(sender.clone().ask(line, again));
            }
            if asking.is_empty() && (exhausted || halt.is_some()) {
                let is_whole = exhausted && done.done.len() as u64 >= batch.counts.total;
                return match halt {
                    _ if is_whole => Ok(None),
                    Some(halt) => Ok(Some(halt)),
                    None => Err(KeepError::Store("a line was given up".to_owned()).into()),
                };
            }
            if self.is_overlong() {
                asking.abort_all();
            }
            tokio::select! {
                answered = asking.join_next(), if !asking.is_empty() => finished.extend(came(answered)),
                () = tokio::time::sleep(PULSE) => {}
            }
            while let Some(answered) = asking.try_join_next() {
                finished.extend(came(Some(answered)));
            }
            self.pulse(done).await?;
        }
    }

    async fn sender(&self, batch: &BatchDocument, halting: watch::Receiver<bool>) -> Result<LineSender, RunBroken> {
        let setup = self.batches().whole(batch.setup).await?;
        let setup: LineSetup = serde_json::from_slice(&setup).map_err(|e| KeepError::Store(e.to_string()))?;
        Ok(LineSender {
            road: self.road.clone(),
            config: self.batches().configs.read(&setup.config)?,
            setup: Arc::new(setup),
            batch: self.id(),
            endpoint: batch.endpoint.clone().into(),
            key: KeyId(batch.key),
            retries: self.batches().settings.retries,
            until: batch.expires,
            halting,
        })
    }

    /// Whether lines may go on.
    fn halt(&self, batch: &BatchDocument) -> Option<Halt> {
        if (self.runner.draining)() {
            return Some(Halt::Leaving);
        }
        if now_secs() >= batch.expires {
            return Some(Halt::Expired);
        }
        if !self.may_call(KeyId(batch.key)) {
            return Some(Halt::Revoked);
        }
        self.cancelled.map(|_| Halt::Cancelled)
    }

    /// Lines under way have had their time after the client wanted the batch to end.
    fn is_overlong(&self) -> bool {
        self.cancelled.is_some_and(|at| now_secs() >= at + LAST_LINES_SECS)
    }

    fn may_call(&self, key: KeyId) -> bool {
        let snapshot = self.runner.live.snapshot();
        let in_force = |expires: Option<gateway_domain::Timestamp>| expires.is_none_or(|at| at > clock::now());
        snapshot.key_by_id(key).is_some_and(|key| key.active && in_force(key.expires_at))
    }

    /// Keeps the lease and tells how far the batch is, every now and then.
    async fn pulse(&mut self, done: &EarlierRuns) -> Result<(), RunBroken> {
        self.pulse_lease().await?;
        if self.looked.is_some_and(|at| at.elapsed() < PULSE) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let (counts, usage, cost) = (done.counts, done.usage, done.cost);
        let told = self.batches().change(self.workspace, self.id(), |batch| {
            if !batch.is_over() {
                (batch.counts, batch.usage, batch.cost) = (counts, usage, cost);
            }
        });
        let told = told.await?;
        self.cancelled = told.cancelling;
        if told.is_over() { Err(RunBroken::Lost) } else { Ok(()) }
    }

    async fn pulse_lease(&mut self) -> Result<(), RunBroken> {
        if self.beaten.elapsed() < self.batches().settings.lease / 3 {
            return Ok(());
        }
        self.beat(None).await
    }

    async fn beat(&mut self, progress: Option<&str>) -> Result<(), RunBroken> {
        let lasts = self.batches().settings.lease;
        self.beaten = Instant::now();
        match self.batches().jobs.beat(self.leased.lease, progress, lasts).await? {
            // Batches are cancelled by what stands in them.
            JobStanding::Held | JobStanding::Cancelled => Ok(()),
            JobStanding::Lost => Err(RunBroken::Lost),
        }
    }
}

/// What lines are asked with.
struct AskedLines<'a> {
    batch: &'a BatchDocument,
    sender: LineSender,
    /// Says to those under way that none is asked again.
    halting: watch::Sender<bool>,
}

/// A log that takes no more was closed by another run.
fn lost_log(error: gateway_domain::ports::BlobError) -> RunBroken {
    match error {
        gateway_domain::ports::BlobError::Unknown => RunBroken::Lost,
        other => RunBroken::Failed(other.into()),
    }
}

/// Lines that are to be asked.
async fn next_lines(
    reader: &mut LineReader,
    done: &EarlierRuns,
    room: usize,
    exhausted: &mut bool,
) -> Result<Vec<FileLine>, RunBroken> {
    let mut fresh = Vec::new();
    while fresh.len() < room {
        match reader.next().await? {
            Some(line) if done.done.contains(&line.number) => {}
            Some(line) => fresh.push(line),
            None => {
                *exhausted = true;
                break;
            }
        }
    }
    Ok(fresh)
}

/// What came of a line; nothing where it was given up.
fn came(answered: Option<Result<Option<LineDone>, tokio::task::JoinError>>) -> Option<LineDone> {
    answered?.ok().flatten()
}
