//! One entry per row: what the hot path needs of it and nothing more.

use super::{Build, models};
use crate::catalog::ProviderInfo;
use crate::cloud::{self, Grant, Settings};
use crate::config::{self, Config};
use crate::egress::{BaseUrl, check_custom_host};
use crate::id::{ConfigId, IntegrationId, KeyId, OrgId, PolicyId, ProviderId, UserId, WorkspaceId};
use crate::keys::KeyHash;
use crate::price::{PriceBook, PriceCard, undated};
use crate::resource::api_key::{ApiKey, KeyDefaults, KeyKind};
use crate::resource::integration::{Access, Integration, Models};
use crate::resource::limits::Limits;
use crate::resource::organisation::Organisation;
use crate::resource::person::{self, OrgRole, WorkspaceRole};
use crate::resource::policy::{RateLimitPolicy, UsageLimitPolicy};
use crate::resource::provider::Provider;
use crate::resource::rotation::{RotationPolicy, Transition};
use crate::resource::security::Security;
use crate::resource::{self, Stored};
use crate::scope::Scopes;
use crate::secret::Secret;
use crate::time::Timestamp;
use crate::token::{Token, Trust};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct Org {
    pub id: OrgId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub default_workspace: WorkspaceId,
    pub block_inline_config: bool,
    pub security: Security,
    /// Sections of the security settings that workspaces may set for themselves.
    pub overridable: BTreeSet<String>,
    /// Days after which the secrets of user keys are replaced.
    pub rotation_days: Option<u16>,
    /// Managers may change and lift the limits of a workspace.
    pub managers_set_limits: bool,
    /// Whose tokens open it; `None`: nobody's.
    pub trust: Option<Arc<Trust>>,
    /// Records may keep headers and bodies, unless a request says otherwise.
    pub debug_log: bool,
    pub enforce_debug_log: bool,
    pub cache_max_age_s: Option<u32>,
}

/// A user, as far as it bounds keys.
#[derive(Debug)]
pub struct Person {
    pub id: UserId,
    pub org: OrgId,
    pub email: Arc<str>,
    pub first_name: Arc<str>,
    pub last_name: Arc<str>,
    pub role: OrgRole,
}

#[derive(Clone, Debug)]
pub struct Key {
    pub id: KeyId,
    pub org: OrgId,
    pub workspace: Option<WorkspaceId>,
    pub kind: KeyKind,
    pub name: Arc<str>,
    pub owner: Option<Uuid>,
    pub scopes: Scopes,
    pub expires_at: Option<Timestamp>,
    pub active: bool,
    /// `None` when nothing is set: most of a million keys.
    pub defaults: Option<Box<Defaults>>,
    /// `None` for a key that never changes its secret: most of a million keys.
    pub rotation: Option<Box<Rotation>>,
    /// `None` when there are none: most of a million keys.
    pub limits: Option<Arc<Limits>>,
    pub max_parallel: Option<NonZeroU32>,
    /// It stands for a token of an issuer, and is stored nowhere.
    pub token: Option<Arc<Token>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    pub next_at: Option<Timestamp>,
    /// The secret before this one, and until when it opens; it stands as a key of its own that expires then.
    pub previous: Option<(KeyHash, Timestamp)>,
    /// When a day's notice is to be given, of the next rotation or of the end of the secret before.
    pub announce_at: Option<Timestamp>,
    /// This entry is the one under the secret before.
    pub retiring: bool,
}

impl Key {
    pub(super) fn retiring(&self) -> bool {
        self.rotation.as_ref().is_some_and(|r| r.retiring)
    }

    /// The same key under the secret before, if that one still opens.
    pub(super) fn before(&self) -> Option<(KeyHash, Self)> {
        let (hash, until) = self.rotation.as_ref()?.previous?;
        let expires_at = Some(self.expires_at.map_or(until, |at| at.min(until)));
        let rotation = Some(Box::new(Rotation { next_at: None, previous: None, announce_at: None, retiring: true }));
        Some((hash, Self { expires_at, rotation, ..self.clone() }))
    }
}

#[derive(Clone, Debug)]
pub struct Defaults {
    pub config: Option<Arc<str>>,
    pub metadata: Vec<(String, String)>,
    pub allow_config_override: bool,
}

/// A workspace with everything that is addressed inside it, by slug and by id alike.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub org: OrgId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub active: bool,
    pub metadata: Arc<BTreeMap<String, String>>,
    /// Given to new user keys.
    pub user_key_config: Option<ConfigId>,
    /// Its own security settings, in force in the sections that the organisation opened.
    pub security: Option<Security>,
    pub rotation_days: Option<u16>,
    /// `None` when there are none.
    pub limits: Option<Arc<Limits>>,
    members: Arc<BTreeMap<UserId, WorkspaceRole>>,
    configs: Slugged<SavedConfig>,
    default_config: Option<Arc<SavedConfig>>,
    providers: Slugged<ManagedProvider>,
    /// Active policies; a new allocation whenever one of them changed, so that an index can tell.
    policies: Arc<BTreeMap<PolicyId, Arc<Policy>>>,
    /// As `policies`.
    usage_policies: Arc<BTreeMap<PolicyId, Arc<UsagePolicy>>>,
}

#[derive(Debug)]
struct Slugged<T> {
    by_id: Arc<HashMap<Uuid, Arc<T>>>,
    by_name: Arc<HashMap<Arc<str>, Arc<T>, ahash::RandomState>>,
}

impl<T> Clone for Slugged<T> {
    fn clone(&self) -> Self {
        Self { by_id: self.by_id.clone(), by_name: self.by_name.clone() }
    }
}

impl<T> Default for Slugged<T> {
    fn default() -> Self {
        Self { by_id: Arc::default(), by_name: Arc::default() }
    }
}

trait Addressed {
    fn slug(&self) -> &Arc<str>;
}

impl<T: Addressed> Slugged<T> {
    fn put(&mut self, id: Uuid, made: Option<Arc<T>>) {
        let by_id = Arc::make_mut(&mut self.by_id);
        let by_name = Arc::make_mut(&mut self.by_name);
        let old = match &made {
            Some(made) => by_id.insert(id, made.clone()),
            None => by_id.remove(&id),
        };
        if let Some(old) = old {
            // Its name may by now belong to another.
            for name in [old.slug().to_string(), id.to_string()] {
                if by_name.get(name.as_str()).is_some_and(|e| Arc::ptr_eq(e, &old)) {
                    by_name.remove(name.as_str());
                }
            }
        }
        if let Some(made) = made {
            by_name.insert(made.slug().clone(), made.clone());
            by_name.insert(id.to_string().into(), made);
        }
    }
}

impl Workspace {
    /// By slug or id.
    pub fn config(&self, name: &str) -> Option<&Arc<SavedConfig>> {
        self.configs.by_name.get(name)
    }

    /// Used by requests that bring none, with keys that have none.
    pub fn default_config(&self) -> Option<&Arc<SavedConfig>> {
        self.default_config.as_ref()
    }

    pub fn configs(&self) -> impl Iterator<Item = &Arc<SavedConfig>> {
        self.configs.by_id.values()
    }

    /// By slug or id.
    pub fn provider(&self, name: &str) -> Option<&Arc<ManagedProvider>> {
        self.providers.by_name.get(name)
    }

    pub fn providers(&self) -> impl Iterator<Item = &Arc<ManagedProvider>> {
        self.providers.by_id.values()
    }

    pub fn members(&self) -> &Arc<BTreeMap<UserId, WorkspaceRole>> {
        &self.members
    }

    pub(super) fn put_member(&mut self, user: UserId, role: Option<WorkspaceRole>) {
        let members = Arc::make_mut(&mut self.members);
        match role {
            Some(role) => members.insert(user, role),
            None => members.remove(&user),
        };
    }

    pub fn policies(&self) -> &Arc<BTreeMap<PolicyId, Arc<Policy>>> {
        &self.policies
    }

    pub fn usage_policies(&self) -> &Arc<BTreeMap<PolicyId, Arc<UsagePolicy>>> {
        &self.usage_policies
    }

    pub(super) fn put_config(&mut self, id: Uuid, made: Option<Arc<SavedConfig>>) {
        if let Some(made) = made.as_ref().filter(|m| m.is_default) {
            self.default_config = Some(made.clone());
        } else if self.default_config.as_ref().is_some_and(|d| d.id.0 == id) {
            self.default_config = None;
        }
        self.configs.put(id, made);
    }

    pub(super) fn put_provider(&mut self, id: Uuid, made: Option<Arc<ManagedProvider>>) {
        self.providers.put(id, made);
    }

    pub(super) fn put_policy(&mut self, id: Uuid, made: Option<Arc<Policy>>) {
        let policies = Arc::make_mut(&mut self.policies);
        match made {
            Some(made) => policies.insert(PolicyId(id), made),
            None => policies.remove(&PolicyId(id)),
        };
    }

    pub(super) fn put_usage_policy(&mut self, id: Uuid, made: Option<Arc<UsagePolicy>>) {
        let policies = Arc::make_mut(&mut self.usage_policies);
        match made {
            Some(made) => policies.insert(PolicyId(id), made),
            None => policies.remove(&PolicyId(id)),
        };
    }
}

#[derive(Debug)]
pub struct SavedConfig {
    pub id: ConfigId,
    pub slug: Arc<str>,
    pub is_default: bool,
    pub version_id: Uuid,
    pub config: Arc<Config>,
}

impl Addressed for SavedConfig {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

#[derive(Debug)]
pub struct ManagedProvider {
    pub id: ProviderId,
    pub slug: Arc<str>,
    pub integration: IntegrationId,
    pub expires_at: Option<Timestamp>,
    pub active: bool,
    /// `None` when there are none.
    pub limits: Option<Arc<Limits>>,
    pub max_parallel: Option<NonZeroU32>,
}

impl Addressed for ManagedProvider {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

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
    pub settings: Arc<Settings>,
    pub headers: Vec<(String, Secret<String>)>,
    pub models: Models,
    access: Access,
    limits: Option<Arc<Limits>>,
    workspace_limits: Arc<BTreeMap<WorkspaceId, Arc<Limits>>>,
    /// The same for models with a host or headers of their own.
    tuned: Arc<HashMap<String, Arc<Self>>>,
    /// Prices that differ from those that everybody pays, by model.
    cards: Arc<HashMap<String, Arc<PriceCard>>>,
    /// Differs between any two states of any integration: prepared heads and pools are kept under it.
    pub generation: u64,
}

impl Upstream {
    /// Whether providers of this workspace may borrow from it.
    pub fn open_to(&self, workspace: WorkspaceId) -> bool {
        match self.workspace {
            Some(own) => own == workspace,
            None => self.access.allow(workspace),
        }
    }

    /// As which this model is called.
    pub fn for_model(self: &Arc<Self>, model: Option<&str>) -> Arc<Self> {
        model.and_then(|m| self.tuned.get(m)).unwrap_or(self).clone()
    }

    /// The price of a model where it is not the one that everybody pays.
    pub fn own_card(&self, model: &str) -> Option<&Arc<PriceCard>> {
        let named = self.cards.get(model).or_else(|| self.cards.get(undated(model)?));
        named.or_else(|| self.cards.get(cloud::azure::model_behind(&self.settings, Some(model))?))
    }

    /// The price of a model; `None` when nobody knows it.
    pub fn card(&self, model: &str) -> Option<&PriceCard> {
        let own = self.own_card(model).map(|card| &**card);
        own.or_else(|| PriceBook::builtin().card(self.provider.slug, model))
    }

    /// What all workspaces together may take from it.
    pub fn limits(&self) -> Option<&Arc<Limits>> {
        self.limits.as_ref()
    }

    /// What this workspace may take from it.
    pub fn limits_of(&self, workspace: WorkspaceId) -> Option<&Arc<Limits>> {
        self.workspace_limits.get(&workspace)
    }
}

#[derive(Debug)]
pub struct Policy {
    pub id: PolicyId,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    pub revision: i64,
    pub rule: RateLimitPolicy,
}

/// A usage-limit policy that is active.
#[derive(Debug)]
pub struct UsagePolicy {
    pub id: PolicyId,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    pub revision: i64,
    pub rule: UsageLimitPolicy,
}

fn doc<T: DeserializeOwned>(row: &Stored) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(&row.doc);
    serde_path_to_error::deserialize(&mut json).map_err(|e| format!("cannot be read: {e}"))
}

pub(super) fn org(row: &Stored) -> Result<Org, String> {
    let o: Organisation = doc(row)?;
    Ok(Org {
        trust: o.trust().map_err(|why| format!("jwks {why}"))?.map(Arc::new),
        id: OrgId(row.id),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        default_workspace: o.default_workspace,
        block_inline_config: o.blocks_inline(row.created_at),
        security: o.security_settings,
        overridable: o.overridable_sections,
        managers_set_limits: o.managers_set_limits,
        rotation_days: o.user_api_key_rotation_period,
        debug_log: o.debug_log.unwrap_or(true),
        enforce_debug_log: o.enforce_debug_log_setting,
        cache_max_age_s: o.cache_max_age,
    })
}

pub(super) fn workspace(row: &Stored, old: Option<Workspace>) -> Result<Workspace, String> {
    let w: resource::workspace::Workspace = doc(row)?;
    let default_config = old.as_ref().and_then(|o| o.default_config.clone());
    let (configs, providers, policies, usage_policies, members) =
        old.map(|o| (o.configs, o.providers, o.policies, o.usage_policies, o.members)).unwrap_or_default();
    Ok(Workspace {
        id: WorkspaceId(row.id),
        org: OrgId(row.org),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        active: row.status == "active",
        metadata: Arc::new(w.defaults.metadata),
        user_key_config: w.defaults.user_api_key_config,
        security: w.security_settings,
        rotation_days: w.user_api_key_rotation_period,
        limits: shared(w.limits),
        members,
        configs,
        default_config,
        providers,
        policies,
        usage_policies,
    })
}

pub(super) fn person(row: &Stored) -> Result<Person, String> {
    let u: person::User = doc(row)?;
    Ok(Person {
        id: UserId(row.id),
        org: OrgId(row.org),
        email: u.email.into(),
        first_name: u.first_name.into(),
        last_name: u.last_name.into(),
        role: u.role,
    })
}

pub(super) fn member(row: &Stored) -> Result<(UserId, WorkspaceRole), String> {
    let m: person::Member = doc(row)?;
    Ok((m.user_id, m.role))
}

fn rotation(k: &ApiKey) -> Result<Option<Box<Rotation>>, String> {
    let previous = match &k.transition {
        None => None,
        Some(t) => {
            let hash = KeyHash::parse(&t.previous_hash).ok_or("has no readable hash of the secret before")?;
            Some((hash, t.previous_until))
        }
    };
    let next_at = k.rotation_policy.as_ref().map(|p| p.next_rotation_at);
    let some = previous.is_some() || next_at.is_some();
    let of_policy = k.rotation_policy.as_ref().and_then(RotationPolicy::announce_at);
    let of_transition = k.transition.as_ref().and_then(Transition::announce_at);
    let announce_at = of_policy.into_iter().chain(of_transition).min();
    Ok(some.then(|| Box::new(Rotation { next_at, previous, announce_at, retiring: false })))
}

pub(super) fn key(row: &Stored) -> Result<(KeyHash, Key), String> {
    let k: ApiKey = doc(row)?;
    let hash = KeyHash::parse(&k.hash).ok_or("has no readable hash")?;
    let rotation = rotation(&k)?;
    let limits = shared(k.limits);
    let KeyDefaults { metadata, config_id, allow_config_override } = k.defaults;
    let plain = metadata.is_empty() && config_id.is_none() && allow_config_override;
    let key = Key {
        id: KeyId(row.id),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        kind: k.kind,
        name: row.name.as_str().into(),
        owner: k.user_id,
        scopes: k.scopes.set(),
        expires_at: k.expires_at,
        active: row.status == "active",
        defaults: (!plain).then(|| {
            Box::new(Defaults {
                config: config_id.map(Into::into),
                metadata: metadata.into_iter().collect(),
                allow_config_override,
            })
        }),
        rotation,
        limits,
        max_parallel: k.max_parallel,
        token: None,
    };
    Ok((hash, key))
}

pub(super) fn upstream(row: &Stored, build: &Build<'_>) -> Result<Upstream, String> {
    let i: Integration = doc(row)?;
    let provider =
        build.catalog.provider(&i.ai_provider_id).ok_or("names a provider that this version does not know")?;
    let open = |sealed: &str| build.vault.open(sealed).map_err(|e| format!("credential cannot be opened: {e}"));
    let settings = i.configurations.settings(&open)?;
    let wrong = |wrong: cloud::Wrong| format!("{} {}", wrong.field, wrong.rule);
    let base = match (&i.configurations.custom_host, provider.base_url) {
        (Some(url), _) => Some(check_custom_host(url, build.trusted).map_err(|why| format!("custom_host {why}"))?),
        (None, Some(url)) => Some(BaseUrl::parse(url)?),
        (None, None) => {
            let made = cloud::base_url(provider.slug, &settings).map_err(wrong)?;
            made.as_deref().map(BaseUrl::parse).transpose()?
        }
    };
    let grant = cloud::grant(provider.slug, &settings, i.sealed_key.is_some(), true).map_err(wrong)?;
    let mut headers = Vec::new();
    for (name, sealed) in &i.configurations.custom_headers {
        headers.push((name.clone(), open(sealed)?));
    }
    let named = [
        ("openai-organization", &i.configurations.openai_organization),
        ("openai-project", &i.configurations.openai_project),
    ];
    headers.extend(named.into_iter().filter_map(|(n, v)| Some((n.to_owned(), Secret::new(v.clone()?)))));
    let cards = models::cards(&i, provider.slug, &settings);
    let plain = Upstream {
        integration: IntegrationId(row.id),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        slug: row.slug.as_str().into(),
        provider,
        base: base.map(Arc::new),
        credential: i.sealed_key.as_deref().map(open).transpose()?,
        grant: grant.map(Arc::new),
        settings: Arc::new(settings),
        headers,
        models: i.models.clone(),
        limits: shared(i.access.limits.clone()),
        workspace_limits: Arc::new(models::limits(&i.access)),
        tuned: Arc::default(),
        cards: Arc::new(cards),
        access: i.access.clone(),
        generation: generation(row),
    };
    let tuned = models::tuned(&plain, &i, build)?;
    Ok(Upstream { tuned: Arc::new(tuned), ..plain })
}

/// FNV-1a over id and revision: stable, and different for every state that was ever stored.
fn generation(row: &Stored) -> u64 {
    let bytes = row.id.as_bytes().iter().copied().chain(row.revision.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

pub(super) fn config(row: &Stored, build: &Build<'_>) -> Result<SavedConfig, String> {
    let c: resource::config::SavedConfig = doc(row)?;
    let known = |slug: &str| build.catalog.provider(slug).is_some();
    let open = |sealed: &str| build.vault.open(sealed).ok();
    let context = config::Context { known_provider: &known, trusted: build.trusted, open: &open, saved: true };
    let compiled = config::compile(&c.config, &context)
        .map_err(|problems| problems.iter().map(config::Problem::line).collect::<Vec<_>>().join("; "))?;
    Ok(SavedConfig {
        id: ConfigId(row.id),
        slug: row.slug.as_str().into(),
        is_default: c.is_default,
        version_id: c.version_id,
        config: Arc::new(compiled),
    })
}

pub(super) fn provider(row: &Stored) -> Result<ManagedProvider, String> {
    let p: Provider = doc(row)?;
    Ok(ManagedProvider {
        id: ProviderId(row.id),
        slug: row.slug.as_str().into(),
        integration: p.integration_id,
        expires_at: p.expires_at,
        active: row.status == "active",
        limits: shared(p.limits),
        max_parallel: p.max_parallel,
    })
}

pub(super) fn policy(row: &Stored) -> Result<Policy, String> {
    let rule: RateLimitPolicy = doc(row)?;
    rule.check().map_err(|e| format!("{} {}", e.field, e.rule))?;
    Ok(Policy {
        id: PolicyId(row.id),
        name: row.name.as_str().into(),
        slug: row.slug.as_str().into(),
        revision: row.revision,
        rule,
    })
}

pub(super) fn usage_policy(row: &Stored) -> Result<UsagePolicy, String> {
    let rule: UsageLimitPolicy = doc(row)?;
    rule.check().map_err(|e| format!("{} {}", e.field, e.rule))?;
    Ok(UsagePolicy {
        id: PolicyId(row.id),
        name: row.name.as_str().into(),
        slug: row.slug.as_str().into(),
        revision: row.revision,
        rule,
    })
}

fn shared(limits: Limits) -> Option<Arc<Limits>> {
    (!limits.is_empty()).then(|| Arc::new(limits))
}
