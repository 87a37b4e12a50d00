//! MCP servers are asked again and again what they offer: each integration has one job that never ends, which whatever
//! node is free runs when it is due. The integration is written only where something is other than before; how the
//! server fared otherwise is what the job notes.

use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::mcp_probe::{ProbeTarget, Probed, WITHIN, probe};
use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::outbound::settings;
use gateway_domain::id::{McpIntegrationId, OrgId};
use gateway_domain::ports::{
    Batch, Enqueued, Hastened, JobBounds, JobEnd, JobStanding, LeasedJob, McpLine, McpLineTo, NewJob, StoreError,
};
use gateway_domain::resource::Kind;
use gateway_domain::resource::mcp::{McpIntegration, McpSync, McpTransport, program_of};
use gateway_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// Whoever runs jobs takes those of this kind.
pub const MCP_SYNC_JOB: &str = "mcp_sync";
/// Longer than a server is waited for, and than what it says takes to be written.
pub const MCP_SYNC_LEASE: Duration = Duration::from_secs(60);
/// The least time between two runs that a server itself brings about, on all nodes together.
const PACE: Duration = Duration::from_secs(5);
/// Jobs of this kind that one organisation may have.
const MOST_OPEN: u32 = 10_000;
/// Only nodes that die count, and each run begins that count anew.
const TRIES: u32 = 1_000;
const LONGEST_ERROR: usize = 500;

/// How a server fared when it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct McpHealth {
    pub(crate) checked_at: Option<Timestamp>,
    pub(crate) answered_at: Option<Timestamp>,
    /// How many runs in a row failed.
    pub(crate) failures: u32,
    pub(crate) error: Option<String>,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpSyncOutcome {
    Same,
    Changed,
    Failed,
    /// The integration is gone, or not active.
    Skipped,
}

impl McpSyncOutcome {
    pub const ALL: [Self; 4] = [Self::Same, Self::Changed, Self::Failed, Self::Skipped];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Gives each integration its job; `planned` are those that have one. Runs are spread over the time between two of
/// them.
pub async fn plan_mcp_syncs(app: &App, planned: &mut BTreeSet<Uuid>, every: Duration) -> Result<(), Problem> {
    let snapshot = app.live.snapshot();
    let there: BTreeSet<Uuid> = snapshot.mcp_upstreams().map(|upstream| upstream.id.0).collect();
    planned.retain(|id| there.contains(id));
    let new: Vec<(OrgId, Uuid)> = snapshot
        .mcp_upstreams()
        .filter(|upstream| !planned.contains(&upstream.id.0))
        .map(|upstream| (upstream.org, upstream.id.0))
        .collect();
    let mut full = BTreeSet::new();
    for (org, id) in new {
        let share = u32::from(id.as_bytes()[15]);
        let job = NewJob {
            id,
            kind: MCP_SYNC_JOB,
            org,
            payload: String::new(),
            progress: String::new(),
            wait: every.mul_f64(f64::from(share + 1) / 256.0),
            most_tries: TRIES,
            most_open: MOST_OPEN,
            bounds: JobBounds::default(),
        };
        match app.jobs.enqueue(&job).await? {
            Enqueued::New | Enqueued::Known => drop(planned.insert(id)),
            // Others of that organisation may have theirs already, made by another node.
            Enqueued::Full if full.insert(org) => {
                tracing::warn!(%org, "no more MCP servers of this organisation are asked again");
            }
            Enqueued::Full => {}
        }
    }
    Ok(())
}

/// One run of a job.
pub async fn sync_mcp(app: &App, leased: LeasedJob, every: Duration) -> McpSyncOutcome {
    let (lease, job) = (leased.lease, leased.job);
    let again = JobEnd::Back { after: every };
    let health: McpHealth = serde_json::from_str(&job.progress).unwrap_or_default();
    let (outcome, health, end) = match run(app, job.org, job.id, &health).await {
        Ok(Some((outcome, health))) => (outcome, Some(health), again),
        Ok(None) => (McpSyncOutcome::Skipped, None, JobEnd::Done("the integration is gone".to_owned())),
        Err(problem) => {
            tracing::warn!(integration = %job.id, message = problem.message, "an MCP server could not be asked again");
            (McpSyncOutcome::Failed, None, JobEnd::Back { after: every })
        }
    };
    let noted = health.as_ref().and_then(|health| serde_json::to_string(health).ok());
    let standing = app.jobs.beat(lease, noted.as_deref(), MCP_SYNC_LEASE).await;
    if matches!(standing, Ok(JobStanding::Held))
        && let Err(error) = app.jobs.end(lease, &end).await
    {
        tracing::warn!(%error, "what came of asking an MCP server could not be noted");
    }
    outcome
}

/// `None`: there is no such integration any more.
async fn run(
    app: &App,
    org: OrgId,
    id: Uuid,
    before: &McpHealth,
) -> Result<Option<(McpSyncOutcome, McpHealth)>, Problem> {
    let seen = app.live.snapshot().revision;
    let found = app.directory.get(Kind::McpIntegration, org, None, &id.to_string()).await?;
    let Some(row) = found.as_ref().map(ResourceRow::<McpIntegration>::read).transpose()? else { return Ok(None) };
    if row.status != "active" {
        return Ok(Some((McpSyncOutcome::Skipped, before.clone())));
    }
    let probed = ask(app, org, Some(McpIntegrationId(id)), &row.doc).await?;
    let now = app.now();
    match probed.told {
        Err(why) => {
            let why: String = why.chars().take(LONGEST_ERROR).collect();
            let error = Some(why.clone());
            let failures = before.failures.saturating_add(1);
            let health = McpHealth { checked_at: Some(now), failures, error, ..before.clone() };
            if row.doc.clone().meet(probed.opened.clone(), why.clone()) {
                learn(app, seen, row, |doc| {
                    doc.meet(probed.opened, why);
                    BTreeSet::new()
                })
                .await?;
            }
            Ok(Some((McpSyncOutcome::Failed, health)))
        }
        Ok(told) => {
            let health = McpHealth { checked_at: Some(now), answered_at: Some(now), failures: 0, error: None };
            if is_same(&row.doc.sync, &told) {
                return Ok(Some((McpSyncOutcome::Same, health)));
            }
            learn(app, seen, row, |doc| doc.learn(told, false)).await?;
            Ok(Some((McpSyncOutcome::Changed, health)))
        }
    }
}

/// Asks an integration right now, whenever its job is due. That it cannot be asked is the job's to say.
pub(crate) async fn learn_anew(app: &App, org: OrgId, id: McpIntegrationId) {
    if let Err(problem) = run(app, org, id.0, &McpHealth::default()).await {
        tracing::warn!(integration = %id, message = problem.message, "an MCP server could not be asked again");
    }
}

/// One look at what was heard since the one before.
pub async fn hasten_mcp_syncs(app: &App) -> Result<(), StoreError> {
    let Some(wanted) = &app.wanted_syncs else { return Ok(()) };
    for (id, org) in wanted.take() {
        let Some(job) = app.jobs.job(org, id).await? else { continue };
        let health: McpHealth = serde_json::from_str(&job.progress).unwrap_or_default();
        let wait = pause(health.checked_at, app.now());
        // What the run that is under way found may be what was before.
        if app.jobs.hasten(org, id, wait).await? == Hastened::Running {
            wanted.want(org, McpIntegrationId(id));
        }
    }
    Ok(())
}

/// How long to wait before a server that was last asked at `asked_at` is asked again.
fn pause(asked_at: Option<Timestamp>, now: Timestamp) -> Duration {
    let since = asked_at.map(|at| now.micros().saturating_sub(at.micros()));
    let since = since.and_then(|since| u64::try_from(since).ok()).map(Duration::from_micros);
    since.map_or(Duration::ZERO, |since| PACE.saturating_sub(since))
}

/// Asks the server what it offers, with the settings of its integration and on behalf of no user.
pub(crate) async fn ask(
    app: &App,
    org: OrgId,
    id: Option<McpIntegrationId>,
    doc: &McpIntegration,
) -> Result<Probed, Problem> {
    let Some(outside) = &app.outside else {
        return Ok(Probed::unasked("this process asks no servers".to_owned()));
    };
    Ok(match settings::target(&doc.outbound, (org, id), app).await? {
        Ok(target) => match open_line(app, doc.transport, &target).await {
            Ok(line) => probe((&**outside, line), &target, app.clock).await,
            Err(why) => Probed::unasked(why),
        },
        Err(why) => Probed::unasked(why),
    })
}

/// What stays open while it is asked; `None`: each message is a call of its own.
async fn open_line(
    app: &App,
    transport: McpTransport,
    target: &ProbeTarget,
) -> Result<Option<Box<dyn McpLine>>, String> {
    let to = match (transport, program_of(&target.url)) {
        (McpTransport::Http, _) => return Ok(None),
        (McpTransport::Sse, _) => McpLineTo::Sse { url: target.url.clone(), headers: target.headers.clone() },
        (McpTransport::Stdio, Some(name)) => McpLineTo::Program(name.to_owned()),
        (McpTransport::Stdio, None) => return Err("its address names no program".to_owned()),
    };
    let lines = app.mcp_lines.as_ref().ok_or("this process asks no servers")?;
    lines.open(to, WITHIN).await.map(Some)
}

/// Whether a server says what it said before, whenever that was.
fn is_same(known: &McpSync, told: &McpSync) -> bool {
    *known == McpSync { at: known.at, ..told.clone() }
}

/// `take_in` answers with the tools that are no longer what was accepted.
async fn learn(
    app: &App,
    seen: i64,
    row: ResourceRow<McpIntegration>,
    take_in: impl FnOnce(&mut McpIntegration) -> BTreeSet<String> + Send,
) -> Result<(), Problem> {
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let changed = take_in(&mut row.doc);
        row.touch(app.now());
        let rows = vec![row.stored()?];
        let mut noted = Map::from_iter([("sync".to_owned(), json!("the server offers something else"))]);
        if !changed.is_empty() {
            noted.insert("changed_definitions".to_owned(), json!(changed));
        }
        let audit = vec![ChangeOrigin::of_upkeep(app).audit(Action::Update, &rows[0], &noted)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    commit(app, seen, decide).await?;
    Ok(())
}

/// How an integration fared by its job; `None`: it was not run yet.
pub(crate) async fn health(app: &App, org: OrgId, id: Uuid) -> Result<Option<McpHealth>, Problem> {
    let job = app.jobs.job(org, id).await?.filter(|job| job.kind == MCP_SYNC_JOB);
    Ok(job.and_then(|job| serde_json::from_str(&job.progress).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_say_so_often_are_asked_at_a_pace() {
        let second = 1_000_000;
        assert_eq!(pause(None, Timestamp(9)), Duration::ZERO);
        assert_eq!(pause(Some(Timestamp(0)), Timestamp(second)), Duration::from_secs(4));
        assert_eq!(pause(Some(Timestamp(0)), Timestamp(5 * second)), Duration::ZERO);
        assert_eq!(pause(Some(Timestamp(0)), Timestamp(60 * second)), Duration::ZERO);
    }

    #[test]
    fn when_it_was_asked_makes_no_difference() {
        let known = McpSync { status: "ok".into(), at: Some(Timestamp(1)), ..McpSync::default() };
        let told = McpSync { at: Some(Timestamp(2)), ..known.clone() };
        assert!(is_same(&known, &told));
        assert!(!is_same(&McpSync { status: "stale".into(), ..known.clone() }, &told));
        assert!(!is_same(&known, &McpSync { server_version: Some("2".into()), ..told }));
    }
}
