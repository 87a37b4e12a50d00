//! The world as the hot path reads it: a snapshot and, for each workspace, the index of its policies.
//! One pointer, swapped whole; a request loads it once and keeps it to its end.

use ahash::AHashMap;
use arc_swap::{ArcSwap, Guard};
use gateway_domain::catalog::Catalog;
use gateway_domain::egress::Trusted;
use gateway_domain::ports::{self, Changes, Vault};
use gateway_domain::secret_source::SecretText;
use gateway_domain::snapshot::{Build, Policy, RowProblem, Snapshot, UsagePolicy, WorkspaceEntry};
use gateway_domain::{PolicyId, SecretReferenceId, WorkspaceId};
use gateway_policies::Index;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

type PoliciesById<T> = Arc<BTreeMap<PolicyId, Arc<T>>>;

/// The policies of a workspace with the index made of them.
#[derive(Clone, Debug)]
struct IndexedPolicies {
    rates: PoliciesById<Policy>,
    usages: PoliciesById<UsagePolicy>,
    index: Arc<Index>,
}

impl IndexedPolicies {
    fn of(workspace: &WorkspaceEntry, old: Option<&Self>) -> Self {
        let (rates, usages) = (workspace.policies(), workspace.usage_policies());
        let kept = old.filter(|o| Arc::ptr_eq(&o.rates, rates) && Arc::ptr_eq(&o.usages, usages));
        kept.cloned().unwrap_or_else(|| {
            let index = match old {
                Some(old) => old.index.rebuild(rates, usages),
                None => Index::build(rates, usages),
            };
            Self { rates: rates.clone(), usages: usages.clone(), index: Arc::new(index) }
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct RuntimeConfig {
    pub(crate) snapshot: Arc<Snapshot>,
    limits: AHashMap<WorkspaceId, IndexedPolicies>,
    /// Some integration keeps objects of workspaces apart: who has none of these pays nothing for it.
    pub(crate) isolates_objects: bool,
}

impl RuntimeConfig {
    /// `None`: the workspace has no policy.
    pub(crate) fn limits(&self, workspace: WorkspaceId) -> Option<&Arc<Index>> {
        self.limits.get(&workspace).map(|i| &i.index)
    }

    fn next(&self, snapshot: Snapshot) -> Self {
        let limited = snapshot.workspaces().filter(|w| !w.policies().is_empty() || !w.usage_policies().is_empty());
        let limits = limited.map(|w| (w.id, IndexedPolicies::of(w, self.limits.get(&w.id)))).collect();
        let isolates_objects = snapshot.upstreams().any(|upstream| upstream.isolates_objects);
        Self { snapshot: Arc::new(snapshot), limits, isolates_objects }
    }
}

pub(crate) struct ConfigHandle {
    current: ArcSwap<RuntimeConfig>,
    /// One change at a time; readers never touch it.
    writing: Mutex<()>,
    catalog: &'static dyn Catalog,
    vault: Arc<dyn Vault>,
    trusted: Arc<Trusted>,
}

impl std::fmt::Debug for ConfigHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigHandle").field("revision", &self.current.load().snapshot.revision).finish_non_exhaustive()
    }
}

impl ConfigHandle {
    pub(crate) fn new(catalog: &'static dyn Catalog, vault: Arc<dyn Vault>, trusted: Arc<Trusted>) -> Self {
        Self { current: ArcSwap::default(), writing: Mutex::new(()), catalog, vault, trusted }
    }

    /// Makes it a node of this deployment, with nothing configured yet.
    #[must_use]
    pub(crate) fn of_deployment(self, slug: Option<&str>) -> Self {
        let snapshot = Arc::new(Snapshot::of_deployment(slug));
        let empty = RuntimeConfig { snapshot, ..RuntimeConfig::default() };
        self.current.store(Arc::new(empty));
        self
    }

    pub(crate) fn current(&self) -> Guard<Arc<RuntimeConfig>> {
        self.current.load()
    }

    /// Puts what a manager tells in force, for every integration that is filled from it.
    pub(crate) fn publish_secret(&self, id: SecretReferenceId, text: Arc<SecretText>) -> PublishedSecret {
        let _one = self.writing.lock();
        let current = self.current.load_full();
        if current.snapshot.has_secret(id, &text) {
            return PublishedSecret::default();
        }
        let build = Build { catalog: self.catalog, vault: &*self.vault, trusted: &self.trusted };
        let (snapshot, problems) = current.snapshot.with_secrets(vec![(id, text)], &build);
        self.current.store(Arc::new(current.next(snapshot)));
        PublishedSecret { is_new: true, problems }
    }
}

/// What became of a secret that was read.
#[derive(Debug, Default)]
pub(crate) struct PublishedSecret {
    /// It is another than before.
    pub(crate) is_new: bool,
    /// Integrations that cannot be called with it, and go on as they were.
    pub(crate) problems: Vec<RowProblem>,
}

impl ports::Live for ConfigHandle {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load().snapshot.clone()
    }

    fn publish(&self, changes: &Changes) -> Vec<RowProblem> {
        let _one = self.writing.lock();
        let current = self.current.load_full();
        // Changes come without gaps, so what ends before this snapshot is already in it.
        if changes.revision <= current.snapshot.revision {
            return Vec::new();
        }
        let build = Build { catalog: self.catalog, vault: &*self.vault, trusted: &self.trusted };
        let (snapshot, problems) = current.snapshot.apply(changes, &build);
        self.current.store(Arc::new(current.next(snapshot)));
        problems
    }
}
