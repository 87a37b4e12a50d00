//! What an organisation begins with: itself, a default workspace, and keys. Of the first start and of organisations
//! that are made later alike; decides nothing about who may.

use crate::app::App;
use crate::grant;
use crate::resource::ResourceRow;
use crate::resource::api_key::unbounded;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::guardrail::DefaultGuardrails;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::security::Security;
use gateway_domain::resource::workspace::Workspace;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};

/// Both are called `default` until somebody says otherwise.
pub(crate) struct Founded {
    pub(crate) organisation: ResourceRow<Organisation>,
    pub(crate) workspace: ResourceRow<Workspace>,
}

impl Founded {
    pub(crate) fn new(app: &App, made_by: Option<OrgId>) -> Self {
        let org = OrgId(app.id());
        let mut workspace = ResourceRow::fresh(app, org, None, None, Workspace::default());
        let doc = Organisation {
            default_workspace: WorkspaceId(workspace.id),
            made_by,
            block_inline_config: None,
            user_api_key_rotation_period: None,
            security_settings: Security::default(),
            overridable_sections: BTreeSet::new(),
            jwks_uris: Vec::new(),
            jwks: None,
            debug_log: None,
            enforce_debug_log_setting: false,
            cache_max_age: None,
            managers_set_limits: false,
            analytics_metadata_keys: BTreeSet::new(),
            denied_log_fields: BTreeSet::new(),
            known_routes_only: false,
            token_rules: Vec::new(),
            default_guardrails: DefaultGuardrails::default(),
            model_prices: BTreeMap::new(),
            rest: Map::new(),
        };
        let mut organisation = ResourceRow::fresh(app, org, None, None, doc);
        organisation.id = org.0;
        "default".clone_into(&mut organisation.slug);
        "Default".clone_into(&mut organisation.name);
        workspace.slug.clone_from(&organisation.slug);
        workspace.name.clone_from(&organisation.name);
        Self { organisation, workspace }
    }

    pub(crate) const fn org(&self) -> OrgId {
        self.organisation.org
    }

    pub(crate) const fn home(&self) -> WorkspaceId {
        WorkspaceId(self.workspace.id)
    }
}

/// A key that may all that its kind may. `workspace` `None`: an Admin key, of the whole organisation.
pub(crate) fn key(
    app: &App,
    org: OrgId,
    workspace: Option<WorkspaceId>,
    name: &str,
    text: &str,
) -> ResourceRow<ApiKey> {
    let kind = if workspace.is_some() { KeyKind::WorkspaceService } else { KeyKind::OrganisationService };
    let doc = unbounded(kind, text, grant::all(kind));
    let mut row = ResourceRow::fresh(app, org, workspace, None, doc);
    name.clone_into(&mut row.name);
    row
}
