//! An organisation: what it forbids, keeps and trusts.

use super::alert::SavedAlert;
use super::deployment::SavedDeployment;
use super::directory::OrgDirectory;
use super::guardrail::SavedGuardrail;
use super::partner::PartnerCredentials;
use super::shared_shelf::SharedShelf;
use super::sign_on::SavedSignOn;
use super::user::Person;
use super::{Build, Draft, Slugged, SnapshotEntry, doc, fnv, keep};
use crate::export::LogFields;
use crate::id::{OrgId, UserId, WorkspaceId};
use crate::resource::guardrail::DefaultGuardrails;
use crate::resource::organisation::Organisation;
use crate::resource::security::Security;
use crate::resource::{Kind, Stored};
use crate::snapshot::prices::OrgPrices;
use crate::trust::Trust;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Org {
    pub id: OrgId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub default_workspace: WorkspaceId,
    /// `None`: the one of the first start.
    pub made_by: Option<OrgId>,
    pub block_inline_config: bool,
    pub security: Security,
    /// Sections of the security settings that workspaces may set for themselves.
    pub overridable: BTreeSet<String>,
    /// Days after which the secrets of user keys are replaced.
    pub rotation_days: Option<u16>,
    /// Managers may change and lift the limits of a workspace.
    pub managers_set_limits: bool,
    /// Keys reach no route of a provider's that is not in the table of operations.
    pub known_routes_only: bool,
    /// Keys of metadata that its analytics keep sums by.
    pub analytics_metadata_keys: Arc<[SmolStr]>,
    /// The issuers whose tokens open it; `None`: there are none.
    pub trust: Option<Arc<Trust>>,
    /// Fields of logs that all its workspaces keep from exports, and from whoever holds no Admin key.
    pub denied_log_fields: LogFields,
    /// Records may keep headers and bodies, unless a request says otherwise.
    pub debug_log: bool,
    pub enforce_debug_log: bool,
    pub cache_max_age_s: Option<u32>,
    pub prices: Arc<OrgPrices>,
    /// What judges every request of every workspace that is not excluded.
    pub default_guardrails: Arc<DefaultGuardrails>,
    /// The guardrails of the organisation itself, not those of its workspaces.
    guardrails: Slugged<SavedGuardrail>,
    /// Credentials of partners by namespace; a new allocation whenever one of them changed, so that what was compiled
    /// with them can tell.
    partners: Arc<BTreeMap<Arc<str>, Arc<PartnerCredentials>>>,
    partners_generation: u64,
    /// The alert rules of the organisation and of all its workspaces.
    alerts: Arc<BTreeMap<Uuid, Arc<SavedAlert>>>,
    directory: OrgDirectory,
    /// How its people sign in; `None`: they do not.
    pub sign_on: Option<Arc<SavedSignOn>>,
    deployments: Slugged<SavedDeployment>,
    shared_shelf: SharedShelf,
}

impl Org {
    /// What a directory outside says of its people.
    pub const fn directory(&self) -> &OrgDirectory {
        &self.directory
    }

    pub(super) const fn directory_mut(&mut self) -> &mut OrgDirectory {
        &mut self.directory
    }

    pub(super) fn put_barred(&mut self, id: UserId, person: Option<&Person>) {
        self.directory.put_barred(id, person);
    }

    /// What its workspaces share with each other.
    pub const fn shared_shelf(&self) -> &SharedShelf {
        &self.shared_shelf
    }

    pub(super) const fn shared_shelf_mut(&mut self) -> &mut SharedShelf {
        &mut self.shared_shelf
    }

    /// One at its own level that is in use, by slug or id; see [`crate::Snapshot::guardrail`].
    pub fn guardrail(&self, name: &str) -> Option<&Arc<SavedGuardrail>> {
        self.guardrails.by_name.get(name).filter(|g| g.active)
    }

    /// Finds a deployment by slug or id.
    pub fn deployment(&self, name: &str) -> Option<&Arc<SavedDeployment>> {
        self.deployments.by_name.get(name)
    }

    pub fn deployments(&self) -> impl ExactSizeIterator<Item = &Arc<SavedDeployment>> {
        self.deployments.by_id.values()
    }

    pub(super) fn put_deployment(&mut self, id: Uuid, made: Option<Arc<SavedDeployment>>) {
        self.deployments.put(id, made);
    }

    /// Archived ones included.
    pub fn guardrails(&self) -> impl ExactSizeIterator<Item = &Arc<SavedGuardrail>> {
        self.guardrails.by_id.values()
    }

    pub const fn partners(&self) -> &Arc<BTreeMap<Arc<str>, Arc<PartnerCredentials>>> {
        &self.partners
    }

    /// Differs between any two states of its partners' credentials: what was compiled with them is kept under it.
    pub const fn partners_generation(&self) -> u64 {
        self.partners_generation
    }

    /// Archived ones included.
    pub const fn alerts(&self) -> &Arc<BTreeMap<Uuid, Arc<SavedAlert>>> {
        &self.alerts
    }

    pub(super) fn put_alert(&mut self, id: Uuid, made: Option<Arc<SavedAlert>>) {
        let alerts = Arc::make_mut(&mut self.alerts);
        match made {
            Some(made) => alerts.insert(id, made),
            None => alerts.remove(&id),
        };
    }

    pub(super) fn put_guardrail(&mut self, id: Uuid, made: Option<Arc<SavedGuardrail>>) {
        self.guardrails.put(id, made);
    }

    pub(super) fn put_partner(&mut self, partner: &str, made: Option<Arc<PartnerCredentials>>) {
        let partners = Arc::make_mut(&mut self.partners);
        match made {
            Some(made) => partners.insert(made.partner.clone(), made),
            None => partners.remove(partner),
        };
        let parts = partners.values().flat_map(|p| p.partner.bytes().chain(p.revision.to_le_bytes()));
        self.partners_generation = fnv(parts);
    }
}

impl SnapshotEntry for Org {
    const KIND: Kind = Kind::Organisation;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let old = draft.next.orgs.get(&OrgId(row.id)).cloned();
        keep(&mut draft.next.orgs, OrgId(row.id), row, || read(row, old.as_deref()))
    }
}

fn read(row: &Stored, old: Option<&Org>) -> Result<Org, String> {
    let o: Organisation = doc(row)?;
    Ok(Org {
        trust: o.trust().map_err(|why| format!("jwks {why}"))?.map(Arc::new),
        id: OrgId(row.id),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        default_workspace: o.default_workspace,
        made_by: o.made_by,
        block_inline_config: o.blocks_inline(row.created_at),
        security: o.security_settings,
        overridable: o.overridable_sections,
        managers_set_limits: o.managers_set_limits,
        known_routes_only: o.known_routes_only,
        analytics_metadata_keys: o.analytics_metadata_keys.iter().map(SmolStr::from).collect(),
        rotation_days: o.user_api_key_rotation_period,
        denied_log_fields: o.denied_log_fields.into_iter().collect(),
        debug_log: o.debug_log.unwrap_or(true),
        enforce_debug_log: o.enforce_debug_log_setting,
        cache_max_age_s: o.cache_max_age,
        default_guardrails: Arc::new(o.default_guardrails),
        guardrails: old.map(|o| o.guardrails.clone()).unwrap_or_default(),
        partners: old.map(|o| o.partners.clone()).unwrap_or_default(),
        partners_generation: old.map_or(0, |o| o.partners_generation),
        alerts: old.map(|o| o.alerts.clone()).unwrap_or_default(),
        directory: old.map(|o| o.directory.clone()).unwrap_or_default(),
        sign_on: old.and_then(|o| o.sign_on.clone()),
        deployments: old.map(|o| o.deployments.clone()).unwrap_or_default(),
        shared_shelf: old.map(|o| o.shared_shelf.clone()).unwrap_or_default(),
        prices: Arc::new(OrgPrices::of(&o.model_prices)),
    })
}
