//! An integration: where and as whom it calls its provider.

use super::{Build, Draft, SnapshotEntry, doc, fnv, lives, shared};
use crate::catalog::ProviderInfo;
use crate::cloud::{self, CloudSettings, Grant};
use crate::egress::{BaseUrl, check_custom_host};
use crate::id::{IntegrationId, OrgId, SecretReferenceId, WorkspaceId};
use crate::price::PriceCard;
use crate::resource::integration::{Access, Integration, Models};
use crate::resource::limits::ResourceLimits;
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use crate::snapshot::Snapshot;
use crate::snapshot::models;
use crate::snapshot::prices::{OrgPrices, OwnPrices, OwnQuery};
use crate::snapshot::secret_mapping::{Filled, MappedRow};
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Where and as whom an integration calls its provider.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub integration: IntegrationId,
    pub org: OrgId,
    /// `None`: usable by every workspace of the organisation.
    pub workspace: Option<WorkspaceId>,
    pub slug: Arc<str>,
    pub provider: &'static ProviderInfo,
    pub base: Option<Arc<BaseUrl>>,
    pub credential: Option<Secret<String>>,
    /// How a token is come by, where the credential is not sent itself.
    pub grant: Option<Arc<Grant>>,
    pub settings: Arc<CloudSettings>,
    pub headers: Vec<(String, Secret<String>)>,
    pub models: Models,
    /// It hands out keys of its own for realtime sessions.
    pub direct_realtime: bool,
    /// What it keeps is kept apart for each workspace.
    pub isolates_objects: bool,
    /// Why it cannot be called now: what should fill it from a manager of secrets is not there. The rest of a sentence.
    pub missing: Option<Arc<str>>,
    pub(in crate::snapshot) mapped: Option<Arc<MappedRow>>,
    access: Access,
    limits: Option<Arc<ResourceLimits>>,
    workspace_limits: Arc<BTreeMap<WorkspaceId, Arc<ResourceLimits>>>,
    /// The upstream for each model that has a host or headers of its own.
    tuned: Arc<HashMap<String, Arc<Self>>>,
    prices: Arc<OwnPrices>,
    /// Differs between any two states of any integration: prepared heads and pools are kept under it.
    pub generation: u64,
}

impl Upstream {
    /// Whether providers of this workspace may borrow from it.
    pub fn open_to(&self, workspace: WorkspaceId) -> bool {
        let own = match self.workspace {
            Some(own) => own == workspace,
            None => self.access.allow(workspace),
        };
        own && self.mapped.as_ref().is_none_or(|mapped| mapped.open_to(workspace))
    }

    /// Whether it is filled from this reference.
    pub fn uses(&self, reference: SecretReferenceId) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.uses(reference))
    }

    /// The upstream by which this model is called: one of its own where it has a host or headers of its own.
    pub fn for_model(self: &Arc<Self>, model: Option<&str>) -> Arc<Self> {
        model.and_then(|m| self.tuned.get(m)).unwrap_or(self).clone()
    }

    /// The price of a model where it is not the one that everybody pays; `org`: of the organisation that calls.
    pub fn own_card(&self, model: &str, org: &OrgPrices, at: Timestamp) -> Option<PriceCard> {
        self.prices.card(OwnQuery { model, at, org, settings: &self.settings })
    }

    /// Whether [`Self::own_card`] looks into the public list.
    pub fn own_prices_are_listed(&self) -> bool {
        self.prices.are_listed
    }

    /// What all workspaces together may take from it.
    pub fn limits(&self) -> Option<&Arc<ResourceLimits>> {
        self.limits.as_ref()
    }

    /// What this workspace may take from it.
    pub fn limits_of(&self, workspace: WorkspaceId) -> Option<&Arc<ResourceLimits>> {
        self.workspace_limits.get(&workspace)
    }
}

impl SnapshotEntry for Upstream {
    const KIND: Kind = Kind::Integration;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let id = IntegrationId(row.id);
        if !lives(row) {
            Arc::make_mut(&mut draft.next.upstreams).remove(&id);
            return Ok(());
        }
        let made = Arc::new(read(row, build, &draft.next)?);
        Arc::make_mut(&mut draft.next.upstreams).insert(id, made);
        Ok(())
    }
}

/// `around`: where the references stand that it names, with what was read of them.
pub(in crate::snapshot) fn read(row: &Stored, build: &Build<'_>, around: &Snapshot) -> Result<Upstream, String> {
    let i: Integration = doc(row)?;
    let provider =
        build.catalog.provider(&i.ai_provider_id).ok_or("names a provider that this version does not know")?;
    let open = |sealed: &str| build.vault.open(sealed).map_err(|e| format!("credential cannot be opened: {e}"));
    let mut filled = Filled::of(&i.secret_mappings, OrgId(row.org), around)?;
    let settings = filled.settings.over(&i.configurations.settings(&open)?);
    let credential = i.sealed_key.as_deref().map(open).transpose()?;
    let credential = filled.key.take().or(credential);
    let called = called(&i, (provider, &settings), credential.is_some(), build);
    let called = match called {
        // While a secret is missing, nothing can be said of the rest.
        Err(_) if filled.missing.is_some() => CalledAs::default(),
        // Saved settings were looked at when they were saved: what does not fit them came from a manager.
        Err(why) if i.secret_mappings.is_empty() => return Err(why),
        Err(_) => {
            filled.missing = Some("what its secret references hold does not fit its settings".into());
            CalledAs::default()
        }
        Ok(called) => called,
    };
    let mut headers = Vec::new();
    for (name, sealed) in &i.configurations.custom_headers {
        headers.push((name.clone(), open(sealed)?));
    }
    headers.append(&mut filled.headers);
    let named = [
        ("openai-organization", &i.configurations.openai_organization),
        ("openai-project", &i.configurations.openai_project),
    ];
    headers.extend(named.into_iter().filter_map(|(n, v)| Some((n.to_owned(), Secret::new(v.clone()?)))));
    let prices = OwnPrices::of(&i, provider.slug, &settings);
    let mapped = MappedRow::of(row, &mut filled);
    let plain = Upstream {
        integration: IntegrationId(row.id),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        slug: row.slug.as_str().into(),
        provider,
        base: called.base.map(Arc::new),
        credential,
        grant: called.grant.map(Arc::new),
        settings: Arc::new(settings),
        headers,
        models: i.models.clone(),
        direct_realtime: i.configurations.direct_realtime,
        isolates_objects: i.configurations.isolate_objects,
        limits: shared(i.access.limits.clone()),
        workspace_limits: Arc::new(models::limits(&i.access)),
        tuned: Arc::default(),
        prices: Arc::new(prices),
        access: i.access.clone(),
        missing: filled.missing,
        mapped,
        generation: generation(row) ^ filled.print,
    };
    let tuned = models::tuned(&plain, &i, build)?;
    Ok(Upstream { tuned: Arc::new(tuned), ..plain })
}

#[derive(Default)]
struct CalledAs {
    base: Option<BaseUrl>,
    grant: Option<Grant>,
}

fn called(
    i: &Integration,
    (provider, settings): (&ProviderInfo, &CloudSettings),
    has_key: bool,
    build: &Build<'_>,
) -> Result<CalledAs, String> {
    let wrong = |wrong: cloud::Wrong| format!("{} {}", wrong.field, wrong.rule);
    let base = match (&i.configurations.custom_host, provider.base_url) {
        (Some(url), _) => Some(check_custom_host(url, build.trusted).map_err(|why| format!("custom_host {why}"))?),
        (None, Some(url)) => Some(BaseUrl::parse(url)?),
        (None, None) => {
            let made = cloud::base_url(provider.slug, settings).map_err(wrong)?;
            made.as_deref().map(BaseUrl::parse).transpose()?
        }
    };
    Ok(CalledAs { base, grant: cloud::grant(provider.slug, settings, has_key, true).map_err(wrong)? })
}

/// A hash of id and revision: stable, and different for every state that was ever stored.
fn generation(row: &Stored) -> u64 {
    fnv(row.id.as_bytes().iter().copied().chain(row.revision.to_le_bytes()))
}
