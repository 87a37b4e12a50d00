//! What every act on an organisation begins and ends with: who may, which one is meant, and the trails of both.

use crate::change::{Action, ChangeOrigin, audit};
use crate::grant;
use crate::organisation_seed;
use crate::problem::{Problem, forbidden, missing};
use crate::resource::{Resource as _, ResourceRow};
use crate::route::AdminCall;
use gateway_domain::id::OrgId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::snapshot::Org;
use serde_json::{Map, Value};
use std::sync::Arc;

/// An Admin key of another organisation may look into that one only, whatever its scopes.
pub(super) fn require_first(call: &AdminCall) -> Result<(), Problem> {
    if call.snapshot().is_first(call.actor.org) {
        return Ok(());
    }
    Err(forbidden("only the organisation of the first start knows of others"))
}

/// The organisation that the path names.
fn named(call: &AdminCall) -> Result<Arc<Org>, Problem> {
    // Nobody else is told which there are.
    require_first(call).map_err(|_| missing(Organisation::NOUN))?;
    let (snapshot, name) = (call.snapshot(), call.var("id"));
    let found = match name.parse::<OrgId>() {
        Ok(id) => snapshot.org(id),
        Err(_) => snapshot.orgs().find(|org| &*org.slug == name),
    };
    found.cloned().ok_or_else(|| missing(Organisation::NOUN))
}

async fn stored(call: &AdminCall, org: OrgId) -> Result<Stored, Problem> {
    let found = call.app.directory.get(Kind::Organisation, org, None, &org.to_string()).await?;
    found.ok_or_else(|| missing(Organisation::NOUN))
}

pub(super) async fn row(call: &AdminCall) -> Result<ResourceRow<Organisation>, Problem> {
    let found = stored(call, named(call)?.id).await?;
    call.subject.found(&found);
    ResourceRow::read(&found)
}

/// All that an Admin key of an organisation may that is not the first.
pub(super) fn guest_key(call: &AdminCall, org: OrgId, name: &str, text: &str) -> ResourceRow<ApiKey> {
    let mut key = organisation_seed::key(&call.app, org, None, name, text);
    let mut scopes = grant::all(KeyKind::OrganisationService);
    grant::of_first_only().for_each(|scope| scopes.remove(scope));
    key.doc.scopes = scopes.into();
    key
}

/// A change of another organisation, with the trails of both: the first one's says who did it and what was asked; the
/// other's that whoever runs the gateway did, for the first one's people and addresses are no business of it.
pub(super) fn audit_for_both(call: &AdminCall, changes: Vec<(Action, Stored)>, told: &Map<String, Value>) -> Batch {
    let operator = ChangeOrigin::of_operator(&call.app);
    let mut batch = Batch::default();
    for (action, row) in changes {
        let mut own = audit(call, action, &row, told);
        (own.org, own.workspace) = (call.actor.org.0, None);
        if row.org != call.actor.org.0 {
            batch.audit.push(operator.audit(action, &row, &Map::new()));
        }
        batch.audit.push(own);
        batch.rows.push(row);
    }
    batch
}
