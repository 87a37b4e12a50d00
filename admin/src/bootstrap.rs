//! The first start: organisation and workspace `default` with a key each; and a new Admin key for those who
//! lost theirs. Both are local acts of the operator, not of an actor.

use crate::app::App;
use crate::change::{WriteView, commit};
use crate::grant;
use crate::problem::{Problem, bad, conflict};
use crate::resource::Row;
use gateway_domain::Secret;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::keys::{KeyHash, mint};
use gateway_domain::ports::{Batch, StoreError};
use gateway_domain::resource::api_key::{ApiKey, KeyDefaults, KeyKind};
use gateway_domain::resource::guardrail::DefaultGuardrails;
use gateway_domain::resource::limits::Limits;
use gateway_domain::resource::mcp_reach::McpReach;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::security::Security;
use gateway_domain::resource::workspace::Workspace;
use gateway_domain::resource::{Audit, Kind, Stored};
use gateway_domain::secret::mask;
use serde::Serialize;
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const MIN_KEY: usize = 32;

/// What the operator is shown, once.
#[derive(Debug)]
pub struct Bootstrapped {
    pub organisation: OrgId,
    pub workspace: WorkspaceId,
    pub admin_key: Secret<String>,
    pub workspace_key: Secret<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A key that was given cannot be used, or there is nothing to make one for.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Problem> for BootstrapError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem.message)
    }
}

/// Sets up an empty store; `None` when there is something in it, even if another node put it there just now.
pub async fn bootstrap(
    app: &App,
    admin_key: Option<&str>,
    workspace_key: Option<&str>,
) -> Result<Option<Bootstrapped>, BootstrapError> {
    let known = app.live.snapshot();
    if !known.is_empty() {
        return Ok(None);
    }
    let first = First::new(app, admin_key, workspace_key)?;
    let mut late = false;
    let decide = |around: &WriteView<'_>| {
        if !around.snapshot.is_empty() {
            late = true;
            return Err(conflict("set up already"));
        }
        first.batch(app)
    };
    match commit(app, known.revision, decide).await {
        Ok(_) => Ok(Some(first.made)),
        Err(_) if late => {
            // The other node's rows are what this one starts with.
            app.live.publish(&app.store.since(known.revision).await?);
            Ok(None)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// A fresh Admin key of the organisation `default`, or of the oldest one.
pub async fn new_admin_key(app: &App) -> Result<Secret<String>, BootstrapError> {
    let snapshot = app.live.snapshot();
    let named = snapshot.orgs().find(|o| &*o.slug == "default").or_else(|| snapshot.orgs().min_by_key(|o| o.id));
    let org = named.ok_or_else(|| BootstrapError::Refused("there is no organisation yet".to_owned()))?.id;
    let text = mint(KeyKind::OrganisationService.tag(), &app.bytes());
    let row = key(app, org, None, KeyKind::OrganisationService, "New admin key", &text);
    let decide = |_: &WriteView<'_>| {
        let stored = row.stored()?;
        let audit = vec![told(app, &stored)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    commit(app, snapshot.revision, decide).await?;
    Ok(Secret::new(text))
}

struct First {
    made: Bootstrapped,
}

impl First {
    fn new(app: &App, admin: Option<&str>, workspace: Option<&str>) -> Result<Self, Problem> {
        let admin_key = given("bootstrap-admin-key", admin)?
            .unwrap_or_else(|| mint(KeyKind::OrganisationService.tag(), &app.bytes()));
        let workspace_key = given("bootstrap-workspace-key", workspace)?
            .unwrap_or_else(|| mint(KeyKind::WorkspaceService.tag(), &app.bytes()));
        if admin_key == workspace_key {
            return Err(bad("bootstrap-workspace-key", "must differ from bootstrap-admin-key"));
        }
        let made = Bootstrapped {
            organisation: OrgId(app.id()),
            workspace: WorkspaceId(app.id()),
            admin_key: Secret::new(admin_key),
            workspace_key: Secret::new(workspace_key),
        };
        Ok(Self { made })
    }

    fn batch(&self, app: &App) -> Result<Batch, Problem> {
        let (org, workspace) = (self.made.organisation, self.made.workspace);
        let admin =
            key(app, org, None, KeyKind::OrganisationService, "Bootstrap admin key", self.made.admin_key.expose());
        let service = key(
            app,
            org,
            Some(workspace),
            KeyKind::WorkspaceService,
            "Bootstrap workspace key",
            self.made.workspace_key.expose(),
        );
        let organisation = Organisation {
            default_workspace: workspace,
            block_inline_config: Some(false),
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
        let rows = vec![
            default_row(app, Kind::Organisation, org.0, org, &organisation),
            default_row(app, Kind::Workspace, workspace.0, org, &Workspace::default()),
            admin.stored()?,
            service.stored()?,
        ];
        let audit = rows.iter().map(|row| told(app, row)).collect();
        Ok(Batch { rows, audit, ..Batch::default() })
    }
}

fn given(flag: &str, text: Option<&str>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.chars().count() < MIN_KEY || !text.bytes().all(|b| b.is_ascii_graphic()) => {
            Err(bad(flag, format_args!("must be at least {MIN_KEY} characters, ASCII without blanks")))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

fn key(app: &App, org: OrgId, workspace: Option<WorkspaceId>, kind: KeyKind, name: &str, text: &str) -> Row<ApiKey> {
    let doc = ApiKey {
        kind,
        hash: KeyHash::of(text).to_string(),
        masked: mask(text),
        description: None,
        user_id: None,
        scopes: grant::all(kind).into(),
        defaults: KeyDefaults::default(),
        expires_at: None,
        creation_mode: "auto".to_owned(),
        rotation_policy: None,
        transition: None,
        sealed_key: None,
        limits: Limits::default(),
        max_parallel: None,
        mcp_access: McpReach::default(),
        allowed_models: None,
        rest: Map::new(),
    };
    let mut row = Row::fresh(app, org, workspace, None, doc);
    name.clone_into(&mut row.name);
    row
}

fn default_row<T: Serialize>(app: &App, kind: Kind, id: Uuid, org: OrgId, doc: &T) -> Stored {
    Stored {
        kind: kind.name().to_owned(),
        id,
        org: org.0,
        workspace: None,
        slug: "default".to_owned(),
        name: "Default".to_owned(),
        status: "active".to_owned(),
        owner: None,
        schema: 1,
        version: 1,
        revision: 0,
        doc: json!(doc).to_string(),
        created_at: app.now(),
        updated_at: app.now(),
        deleted_at: None,
    }
}

fn told(app: &App, row: &Stored) -> Audit {
    Audit {
        id: app.id(),
        at: app.now(),
        org: row.org,
        workspace: row.workspace,
        actor: "operator".to_owned(),
        api_key: String::new(),
        actor_kind: "system".to_owned(),
        action: "create".to_owned(),
        resource_kind: row.kind.clone(),
        resource_id: row.id.to_string(),
        method: String::new(),
        uri: String::new(),
        client_ip: String::new(),
        status: 200,
        details: json!({"name": row.name, "slug": row.slug}).to_string(),
    }
}
