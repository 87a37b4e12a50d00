//! What keys, policies and integrations were, and the way back: their versions listed, shown, and made what is in force
//! again. Going back is a change like any other, held to the same rules, and its state is a version of its own.

use super::api_key::{self, granted};
use super::integration::{self, settings};
use super::policy;
use super::provider::check_future;
use super::versions::{VersionWanted, pick, versions};
use super::{Resource, ResourceRow, locate, render_rows};
use crate::actor::Actor;
use crate::change::{Action, WriteView, audit};
use crate::history;
use crate::problem::{Problem, bad, forbidden, internal, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, PAGES, authed};
use gateway_domain::ports::Batch;
use gateway_domain::resource::StoredVersion;
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::policy::{RateLimitPolicy, UsageLimitPolicy};
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Value, json};

/// Who may see what was, and who may bring it back.
struct HistoryScopes {
    read: &'static [Scope],
    update: &'static [Scope],
}

/// Paths of one kind: all versions, one of them, the way back.
type HistoryPaths = [&'static str; 3];

macro_rules! paths {
    ($at:literal) => {
        [concat!($at, "/{id}/versions"), concat!($at, "/{id}/versions/{version}"), concat!($at, "/{id}/rollback")]
    };
}

pub(crate) fn routes() -> Vec<AdminRoute> {
    let keys = HistoryScopes { read: api_key::READ, update: api_key::UPDATE };
    let integrations = HistoryScopes { read: integration::READ, update: integration::UPDATE };
    let policies = HistoryScopes { read: policy::READ, update: policy::UPDATE };
    let mut all = of_kind::<ApiKey>(paths!("/api-keys"), &keys);
    all.extend(of_kind::<Integration>(paths!("/integrations"), &integrations));
    all.extend(of_kind::<RateLimitPolicy>(paths!("/policies/rate-limits"), &policies));
    all.extend(of_kind::<UsageLimitPolicy>(paths!("/policies/usage-limits"), &policies));
    all
}

fn of_kind<R: HasHistory>([all, one, back_to]: HistoryPaths, scopes: &HistoryScopes) -> Vec<AdminRoute> {
    vec![
        authed(Method::GET, all, scopes.read, "List what it was, newest first", list::<R>).asks(PAGES),
        authed(Method::GET, one, scopes.read, "Show what it was, by number or id of the version", show::<R>).asks(HERE),
        authed(Method::POST, back_to, scopes.update, "Make it what it was", back::<R>)
            .takes::<VersionWanted>()
            .and(HERE)
            .asks(HERE),
    ]
}

/// A kind whose rows are kept as they change.
pub(super) trait HasHistory: Resource {
    /// Whether this actor may make `before` what `row` is: no more than by a change field by field.
    fn may_restore(before: &ResourceRow<Self>, row: &ResourceRow<Self>, call: &AdminCall) -> Result<(), Problem>;
}

impl HasHistory for ApiKey {
    fn may_restore(before: &ResourceRow<Self>, row: &ResourceRow<Self>, call: &AdminCall) -> Result<(), Problem> {
        let (was, is) = (&before.doc, &row.doc);
        if was.scopes != is.scopes {
            granted(is.kind, is.scopes.names().to_vec(), &call.actor)?;
        }
        if was.expires_at != is.expires_at {
            check_future(is.expires_at, call.now)?;
        }
        let emails = (&was.limits.alert_emails, &is.limits.alert_emails);
        if emails.0 != emails.1 && !emails.1.is_empty() && !call.app.hears_alerts {
            return Err(bad("alert_emails", "needs --alert-webhook or --smtp-url: nobody would be told"));
        }
        let Actor { mcp_access, allowed_models, .. } = &call.actor;
        let moved = (mcp_access.is_some() && was.mcp_access != is.mcp_access)
            || (allowed_models.is_some() && was.allowed_models != is.allowed_models);
        if moved {
            return Err(forbidden(
                "mcp_access and allowed_models cannot be given by a key that is held to some itself",
            ));
        }
        Ok(())
    }
}

impl HasHistory for Integration {
    fn may_restore(_before: &ResourceRow<Self>, row: &ResourceRow<Self>, call: &AdminCall) -> Result<(), Problem> {
        settings::check_family(&row.doc, row.workspace, call)
    }
}

impl HasHistory for RateLimitPolicy {
    fn may_restore(before: &ResourceRow<Self>, _row: &ResourceRow<Self>, call: &AdminCall) -> Result<(), Problem> {
        call.actor.require_limits(before.owner == Some(call.actor.key.0))
    }
}

impl HasHistory for UsageLimitPolicy {
    fn may_restore(before: &ResourceRow<Self>, _row: &ResourceRow<Self>, call: &AdminCall) -> Result<(), Problem> {
        call.actor.require_limits(before.owner == Some(call.actor.key.0))
    }
}

/// The row as it was, with what its history leaves alone as it is.
fn as_it_was<R: Resource>(row: &ResourceRow<R>, version: &StoredVersion) -> Result<ResourceRow<R>, Problem> {
    let now = serde_json::to_value(&row.doc).map_err(internal)?;
    let kept = history::restored(R::KIND, &now, version).ok_or_else(|| internal("a version that cannot be read"))?;
    let doc = serde_json::from_value(kept.document).map_err(internal)?;
    Ok(ResourceRow { name: kept.name, doc, ..row.clone() })
}

async fn views<R: HasHistory>(
    call: &AdminCall,
    row: &ResourceRow<R>,
    of: &[StoredVersion],
) -> Result<Vec<Value>, Problem> {
    let dated =
        |v: &StoredVersion| Ok(ResourceRow { version: v.version, updated_at: v.created_at, ..as_it_was(row, v)? });
    let rows = of.iter().map(dated).collect::<Result<Vec<ResourceRow<R>>, Problem>>()?;
    let states = render_rows(&rows, call).await?;
    let view = |(version, state): (&StoredVersion, Value)| {
        json!({
            "object": "version",
            "version": version.version,
            "version_id": version.version_id,
            "updated_by": version.author,
            "created_at": version.created_at,
            "state": state,
        })
    };
    Ok(of.iter().zip(states).map(view).collect())
}

async fn list<R: HasHistory>(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, R::KIND, row.id).await?;
    let data = views(&call, &row, paging.cut(&versions)).await?;
    Ok(AdminReply::json(json!({ "object": "list", "total": versions.len(), "data": data })))
}

async fn show<R: HasHistory>(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let versions = versions(&call, R::KIND, row.id).await?;
    let found = pick(&versions, call.var("version")).ok_or_else(|| missing("version"))?;
    let view = views(&call, &row, std::slice::from_ref(found)).await?.pop();
    Ok(AdminReply::json(view.unwrap_or_default()))
}

async fn back<R: HasHistory>(call: AdminCall) -> Result<AdminReply, Problem> {
    let (seen, mut body) = (call.snapshot().revision, call.body()?);
    let request = body.0.clone();
    let given = body.take_text("workspace_id")?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let row = locate::<R>(&call, given, Action::Update).await?;
    let name = body.read::<VersionWanted>()?.name()?;
    let versions = versions(&call, R::KIND, row.id).await?;
    let found = pick(&versions, &name).ok_or_else(|| bad("version", "names no version that is kept"))?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let before = around.newest(row)?;
        let mut row = as_it_was(&before, found)?;
        R::may_restore(&before, &row, &call)?;
        R::check(&row, around)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &request)];
        call.promise(|| json!({ "id": row.id, "version": row.version }));
        done = Some(row);
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    let row = done.ok_or_else(|| missing(R::NOUN))?;
    Ok(AdminReply::json(json!({ "id": row.id, "version": row.version })).at(revision))
}
