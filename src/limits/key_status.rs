//! What an API key is held to at this moment, by the counters that its calls are held to. Looks, and takes nothing.

use super::Limits;
use crate::clock;
use crate::runtime_config::ConfigHandle;
use gateway_domain::Timestamp;
use gateway_domain::counters::{Cause, CounterOp, Counters as _, LimitDecision};
use gateway_domain::ports::{Fut, Holder, KeyLimit, KeyLimits, LimitCount};
use gateway_domain::snapshot::{Key, Snapshot, WorkspaceEntry};
use gateway_policies::{BoundHolder, KnownCaller, Outlook, outlook_of};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Counters that one answer looks at. Limits beyond are told without their counts.
const MOST_LOOKS: usize = 1_000;

pub(crate) struct LimitOutlook {
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) limits: Arc<Limits>,
}

impl KeyLimits for LimitOutlook {
    fn limits_of<'a>(&'a self, key: &'a Key) -> Fut<'a, Vec<KeyLimit>> {
        Box::pin(async move {
            let now = clock::now();
            let found = self.find(key, now);
            let mut told = Vec::with_capacity(found.len());
            for (at, Outlook { mut limit, look }) in found.into_iter().enumerate() {
                if let Some(look) = look.filter(|_| at < MOST_LOOKS) {
                    limit.count = self.look(look, now).await;
                }
                told.push(limit);
            }
            told
        })
    }
}

impl LimitOutlook {
    fn find(&self, key: &Key, now: Timestamp) -> Vec<Outlook> {
        let current = self.live.current();
        let snapshot = &current.snapshot;
        let mut found = Vec::new();
        if let Some(limits) = &key.limits {
            let (name, slug) = (key.name.clone(), Arc::from(""));
            found.extend(outlook_of(
                &BoundHolder { holder: Holder::Key(key.id), name, slug, depends_on: Vec::new() },
                limits,
                now,
            ));
        }
        let Some(workspace) = key.workspace.and_then(|id| snapshot.workspace(id)) else { return found };
        if let Some(limits) = &workspace.limits {
            let (name, slug) = (workspace.name.clone(), workspace.slug.clone());
            let holder = Holder::Workspace(workspace.id);
            found.extend(outlook_of(&BoundHolder { holder, name, slug, depends_on: Vec::new() }, limits, now));
        }
        if let Some(index) = current.limits(workspace.id) {
            // Those of the workspace come last, since they count.
            let of_key = key.defaults.iter().flat_map(|defaults| defaults.metadata.iter());
            let ours = |name: &String| workspace.metadata.contains_key(name);
            let mut metadata: Vec<(String, String)> = of_key.filter(|(name, _)| !ours(name)).cloned().collect();
            metadata.extend(workspace.metadata.iter().map(|(name, value)| (name.clone(), value.clone())));
            let caller = KnownCaller { key: key.id, workspace: workspace.id, metadata: &metadata };
            found.extend(index.outlook(&caller, now));
        }
        found.extend(of_targets(snapshot, workspace, now));
        found
    }

    async fn look(&self, mut look: CounterOp, now: Timestamp) -> Option<LimitCount> {
        let asks = std::slice::from_mut(&mut look);
        let told = match self.limits.reserve(asks, now, Duration::ZERO) {
            LimitDecision::Now(told) => told,
            LimitDecision::Later(told) => told.await,
        };
        let (used, left) = match told {
            // A node among several that share nothing has a part of the limit to itself.
            Ok(()) => match self.limits.counted_here(&look) {
                Some(used) => (used, look.left),
                None => (look.limit.saturating_sub(look.left), look.left),
            },
            Err(refusal) if refusal.cause == Cause::Limit => (refusal.taken, 0),
            Err(_) => return None,
        };
        let ends_at = (look.ends.0 != i64::MAX).then_some(look.ends);
        Some(LimitCount { used, left, began_at: look.slot.began, ends_at })
    }
}

/// Limits of providers and integrations hold once a request goes there.
fn of_targets(snapshot: &Snapshot, workspace: &WorkspaceEntry, now: Timestamp) -> Vec<Outlook> {
    let depends_on = || vec!["virtual_key".to_owned()];
    let (mut found, mut integrations) = (Vec::new(), HashSet::new());
    for provider in workspace.providers() {
        let slug = &provider.slug;
        let held = |holder, name: &Arc<str>, slug: &Arc<str>| BoundHolder {
            holder,
            name: name.clone(),
            slug: slug.clone(),
            depends_on: depends_on(),
        };
        if let Some(limits) = &provider.limits {
            found.extend(outlook_of(&held(Holder::Provider(provider.id), slug, slug), limits, now));
        }
        // Several providers may borrow from one.
        let Some(upstream) = snapshot.upstream(provider.integration) else { continue };
        if !integrations.insert(upstream.integration) {
            continue;
        }
        let whole = (Holder::Integration(upstream.integration, None), upstream.limits());
        let seat = (Holder::Integration(upstream.integration, Some(workspace.id)), upstream.limits_of(workspace.id));
        for (holder, limits) in [whole, seat] {
            if let Some(limits) = limits {
                found.extend(outlook_of(&held(holder, &upstream.slug, &upstream.slug), limits, now));
            }
        }
    }
    found
}
