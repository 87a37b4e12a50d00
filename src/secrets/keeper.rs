//! The one task that reads: it follows the configuration, asks for what is due, some at a time and few of one
//! organisation, and puts what changed in force.

use super::{FAILED, READ, SecretCounts, SecretLedger, pace};
use crate::clock;
use crate::metrics::Metrics;
use crate::runtime_config::ConfigHandle;
use crate::upstream::{SecretReader, Unread};
use gateway_domain::ports::{Live as _, Revision, SecretStanding, SecretStandings as _};
use gateway_domain::secret_source::SecretText;
use gateway_domain::snapshot::{SavedSecretReference, Snapshot};
use gateway_domain::{OrgId, SecretReferenceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

const TICK: Duration = Duration::from_millis(250);
/// Reads that are under way at once.
const MOST: usize = 16;
/// Reads for one organisation at once: a manager that hangs keeps nobody else's secrets waiting.
const MOST_OF_ONE: usize = 4;
/// A start waits so long for the first values, lest it refuse calls that its predecessor served.
const PATIENCE: Duration = Duration::from_secs(5);
/// Less would be asked all the time.
const SHORTEST: Duration = Duration::from_secs(1);

/// What is known of one reference.
struct DueSecret {
    reference: Arc<SavedSecretReference>,
    at: Instant,
    failures: u32,
    is_flying: bool,
}

struct FetchedSecret {
    reference: Arc<SavedSecretReference>,
    read: Result<SecretText, Unread>,
}

struct Keeper {
    reader: Arc<SecretReader>,
    live: Arc<ConfigHandle>,
    ledger: SecretLedger,
    counts: SecretCounts,
    every: Duration,
    revision: Option<Revision>,
    due: HashMap<SecretReferenceId, DueSecret>,
    flying: JoinSet<FetchedSecret>,
    /// Told when each reference of the start was asked for once.
    first: Option<oneshot::Sender<()>>,
}

pub(crate) struct KeeperParts {
    pub(crate) reader: SecretReader,
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) every: Duration,
}

/// Returns when the secrets of the configuration that stands were asked for once, or some seconds have gone.
pub(crate) fn start(control: &Runtime, parts: KeeperParts, metrics: &Metrics) -> Result<SecretLedger, String> {
    let ledger = SecretLedger::default();
    let counts = SecretCounts::new(metrics, &ledger).map_err(|e| format!("metrics cannot be set up: {e}"))?;
    let (first, asked) = oneshot::channel();
    let keeper = Keeper {
        reader: Arc::new(parts.reader),
        live: parts.live,
        ledger: ledger.clone(),
        counts,
        every: parts.every.max(SHORTEST),
        revision: None,
        due: HashMap::new(),
        flying: JoinSet::new(),
        first: Some(first),
    };
    run(control.handle(), keeper);
    if control.block_on(async { tokio::time::timeout(PATIENCE, asked).await }).is_err() {
        tracing::warn!("some secrets are not read yet: providers that need them cannot be called until they are");
    }
    Ok(ledger)
}

fn run(runtime: &Handle, mut keeper: Keeper) {
    runtime.spawn(async move {
        loop {
            keeper.look();
            tokio::select! {
                Some(fetched) = keeper.flying.join_next() => keeper.take(fetched),
                () = tokio::time::sleep(TICK) => {}
            }
        }
    });
}

impl Keeper {
    fn look(&mut self) {
        let snapshot = self.live.snapshot();
        if self.revision != Some(snapshot.revision) {
            self.revision = Some(snapshot.revision);
            self.follow(&snapshot);
        }
        let now = Instant::now();
        let mut due: Vec<_> = self.due.values().filter(|due| !due.is_flying && due.at <= now).collect();
        // Who waits longest comes first.
        due.sort_by_key(|due| due.at);
        let due: Vec<Arc<SavedSecretReference>> = due.into_iter().map(|due| due.reference.clone()).collect();
        for reference in due {
            if self.flying.len() >= MOST {
                break;
            }
            if self.flying_of(reference.org) < MOST_OF_ONE {
                self.fetch(reference);
            }
        }
        if self.first.is_some() && self.due.keys().all(|id| self.ledger.standing(*id).is_some()) {
            let _ = self.first.take().map(|first| first.send(()));
        }
    }

    /// What is new is asked for at once, and so is what was changed: its value stays until there is another.
    fn follow(&mut self, snapshot: &Snapshot) {
        self.due.retain(|id, _| snapshot.secret_reference(*id).is_some());
        self.ledger.retain(|id| snapshot.secret_reference(id).is_some());
        let now = Instant::now();
        for reference in snapshot.secret_references() {
            match self.due.get_mut(&reference.id) {
                Some(due) if due.reference.revision == reference.revision => due.reference = reference.clone(),
                Some(due) => (due.reference, due.at, due.failures) = (reference.clone(), now, 0),
                None => {
                    let due = DueSecret { reference: reference.clone(), at: now, failures: 0, is_flying: false };
                    self.due.insert(reference.id, due);
                }
            }
        }
    }

    fn flying_of(&self, org: OrgId) -> usize {
        self.due.values().filter(|due| due.is_flying && due.reference.org == org).count()
    }

    fn fetch(&mut self, reference: Arc<SavedSecretReference>) {
        let Some(due) = self.due.get_mut(&reference.id) else { return };
        due.is_flying = true;
        // Put off now, so that a change while it flies makes it due again.
        due.at = Instant::now() + self.every;
        let reader = self.reader.clone();
        self.flying.spawn(async move {
            let read = reader.read(&reference.source).await;
            FetchedSecret { reference, read }
        });
    }

    fn take(&mut self, fetched: Result<FetchedSecret, JoinError>) {
        let Ok(FetchedSecret { reference, read }) = fetched else {
            // Nobody knows whose it was: they are asked again when they are due.
            self.due.values_mut().for_each(|due| due.is_flying = false);
            return;
        };
        let Some(due) = self.due.get_mut(&reference.id) else { return };
        due.is_flying = false;
        if due.reference.revision != reference.revision {
            // What was asked for is not what is wanted any more.
            return;
        }
        due.failures = if read.is_ok() { 0 } else { due.failures.saturating_add(1) };
        due.at = pace::next(Instant::now(), self.every, due.failures, rand::random());
        self.counts.reads.with_label_values(&[if read.is_ok() { READ } else { FAILED }]).inc();
        let before = self.ledger.standing(reference.id).unwrap_or_default();
        let standing = match read {
            Ok(text) => self.put(&reference, text, &before),
            Err(Unread(why)) => {
                if before.trouble.as_ref() != Some(&why) {
                    tracing::warn!(reference = %reference.slug, manager = reference.manager.name(), why, "a secret cannot be read; the value before stays in force");
                }
                SecretStanding { trouble: Some(why), ..before }
            }
        };
        self.ledger.note(reference.id, standing);
    }

    fn put(&self, reference: &SavedSecretReference, text: SecretText, before: &SecretStanding) -> SecretStanding {
        let now = clock::now();
        let published = self.live.publish_secret(reference.id, Arc::new(text));
        for problem in &published.problems {
            tracing::warn!(reference = %reference.slug, id = %problem.id, problem = problem.message, "an integration goes on with the secret before");
        }
        if before.trouble.is_some() {
            tracing::info!(reference = %reference.slug, "a secret is read again");
        }
        let changed_at = if published.is_new { Some(now) } else { before.changed_at };
        SecretStanding { read_at: Some(now), changed_at, trouble: None }
    }
}
