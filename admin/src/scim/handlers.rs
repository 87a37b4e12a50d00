//! Making, showing, replacing and changing a resource of SCIM, in one way for users and groups (RFC 7644, 3.3 to 3.5).
//! What one of them says of itself, and what a change of it takes along, is its own.

use super::document;
use super::etag::{is_known, tag};
use super::lookup::{location, one};
use super::page::ScimListed;
use super::patch;
use super::refusal::MEDIA_TYPE;
use super::selection::AttributeSelection;
use crate::app::DirectoryBounds;
use crate::change::{Action, WriteView, audit, commit};
use crate::input::JsonBody;
use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::route::{AdminCall, AdminReply};
use gateway_domain::ports::{Batch, Fut, Revision};
use http::StatusCode;
use serde_json::{Map, Value};

pub(super) trait ScimWritten: ScimListed {
    /// Attributes that are held to their schema, as the resource is to be.
    type Profile: Send;
    /// One that may be long is shown after a change only where attributes are asked for: who changed it knows it
    /// (RFC 7644, 3.5.2).
    const IS_LONG: bool;

    /// A body as the audit trail keeps it.
    fn mask_body(body: &Map<String, Value>) -> Map<String, Value> {
        body.clone()
    }
    fn profile(fields: Map<String, Value>, bounds: DirectoryBounds) -> Result<Self::Profile, Problem>;
    /// What clients write of it.
    fn written(row: &ResourceRow<Self>) -> Map<String, Value>;
    fn made(profile: Self::Profile, call: &AdminCall) -> ResourceRow<Self>;
    /// There is room for a new one, and nothing of it is taken.
    fn admit(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem>;
    /// The change of the one that the path names, with all that follows from it; `next` may be asked more than once.
    fn change<'c>(
        call: &'c AdminCall,
        told: &'c Map<String, Value>,
        next: &'c NextProfile<'c, Self>,
    ) -> Fut<'c, Result<WrittenRow<Self>, Problem>>;
}

pub(super) type NextProfile<'n, R> =
    dyn Fn(&ResourceRow<R>) -> Result<<R as ScimWritten>::Profile, Problem> + Send + Sync + 'n;

pub(super) struct WrittenRow<R> {
    pub(super) row: ResourceRow<R>,
    pub(super) revision: Revision,
}

fn reply<R: ScimWritten>(call: &AdminCall, row: &ResourceRow<R>, selection: &AttributeSelection) -> AdminReply {
    let shown = selection.cut(R::render(row, call, selection));
    AdminReply::typed(MEDIA_TYPE, Value::Object(shown)).tagged(tag(row.version))
}

pub(super) async fn create<R: ScimWritten>(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let selection = AttributeSelection::read(&call.query, R::TYPE)?;
    let body = JsonBody::parse(&call.bytes)?;
    let told = R::mask_body(&body.0);
    let profile = R::profile(document::read(body.0, R::TYPE)?, call.app.quotas.directory)?;
    let row = R::made(profile, &call);
    let decide = |around: &WriteView<'_>| {
        R::admit(&row, around)?;
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Create, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = commit(&call.app, seen, decide).await?;
    let at = location(&call, R::TYPE, row.id);
    Ok(reply(&call, &row, &selection).with_status(StatusCode::CREATED).located(&at).at(revision))
}

pub(super) async fn show<R: ScimWritten>(call: AdminCall) -> Result<AdminReply, Problem> {
    let selection = AttributeSelection::read(&call.query, R::TYPE)?;
    let row = one::<R>(&call).await?;
    if is_known(&call, row.version) {
        return Ok(AdminReply::nothing(StatusCode::NOT_MODIFIED).tagged(tag(row.version)));
    }
    Ok(reply(&call, &row, &selection))
}

/// It is looked for before the body is read: that of somebody who is not there says nothing.
pub(super) async fn replace<R: ScimWritten>(call: AdminCall) -> Result<AdminReply, Problem> {
    one::<R>(&call).await?;
    let selection = AttributeSelection::read(&call.query, R::TYPE)?;
    let body = JsonBody::parse(&call.bytes)?;
    let told = R::mask_body(&body.0);
    let fields = document::read(body.0, R::TYPE)?;
    let bounds = call.app.quotas.directory;
    let done = R::change(&call, &told, &|_| R::profile(fields.clone(), bounds)).await?;
    Ok(reply(&call, &done.row, &selection).at(done.revision))
}

pub(super) async fn change<R: ScimWritten>(call: AdminCall) -> Result<AdminReply, Problem> {
    one::<R>(&call).await?;
    let selection = AttributeSelection::read(&call.query, R::TYPE)?;
    let body = JsonBody::parse(&call.bytes)?;
    let told = R::mask_body(&body.0);
    let changes = patch::read(body, R::TYPE)?;
    let bounds = call.app.quotas.directory;
    let next = |row: &ResourceRow<R>| {
        let mut doc = R::written(row);
        patch::apply(&mut doc, R::TYPE, &changes, bounds.patched)?;
        R::profile(document::settled(doc, R::TYPE)?, bounds)
    };
    let done = R::change(&call, &told, &next).await?;
    if R::IS_LONG && !matches!(selection, AttributeSelection::Only(_)) {
        return Ok(AdminReply::nothing(StatusCode::NO_CONTENT).tagged(tag(done.row.version)).at(done.revision));
    }
    Ok(reply(&call, &done.row, &selection).at(done.revision))
}
