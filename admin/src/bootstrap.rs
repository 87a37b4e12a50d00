//! The first start: organisation and workspace `default` with a key each; and a new Admin key for those who
//! lost theirs. Both are local acts of the operator, not of an actor.

use crate::app::App;
use crate::change::{WriteView, commit};
use crate::organisation_seed::{Founded, key};
use crate::problem::{Problem, bad, conflict};
use gateway_domain::Secret;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::keys::mint;
use gateway_domain::ports::{Batch, StoreError};
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::resource::{Audit, Stored};
use serde_json::json;

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

/// A fresh Admin key of the organisation of the first start.
pub async fn new_admin_key(app: &App) -> Result<Secret<String>, BootstrapError> {
    let snapshot = app.live.snapshot();
    let org =
        snapshot.first_org().ok_or_else(|| BootstrapError::Refused("there is no organisation yet".to_owned()))?.id;
    let text = mint(KeyKind::OrganisationService.tag(), &app.bytes());
    let row = key(app, org, None, "New admin key", &text);
    let decide = |_: &WriteView<'_>| {
        let stored = row.stored()?;
        let audit = vec![audit_creation(app, &stored)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    commit(app, snapshot.revision, decide).await?;
    Ok(Secret::new(text))
}

struct First {
    made: Bootstrapped,
    founded: Founded,
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
        let mut founded = Founded::new(app, None);
        founded.organisation.doc.block_inline_config = Some(false);
        let made = Bootstrapped {
            organisation: founded.org(),
            workspace: founded.home(),
            admin_key: Secret::new(admin_key),
            workspace_key: Secret::new(workspace_key),
        };
        Ok(Self { made, founded })
    }

    fn batch(&self, app: &App) -> Result<Batch, Problem> {
        let (org, workspace) = (self.made.organisation, self.made.workspace);
        let admin = key(app, org, None, "Bootstrap admin key", self.made.admin_key.expose());
        let text = self.made.workspace_key.expose();
        let service = key(app, org, Some(workspace), "Bootstrap workspace key", text);
        let founded = [self.founded.organisation.stored()?, self.founded.workspace.stored()?];
        let rows = founded.into_iter().chain([admin.stored()?, service.stored()?]).collect::<Vec<_>>();
        let audit = rows.iter().map(|row| audit_creation(app, row)).collect();
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

fn audit_creation(app: &App, row: &Stored) -> Audit {
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
