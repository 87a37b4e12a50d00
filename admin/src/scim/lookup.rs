//! Where resources are, and finding the one that a path names.

use super::schema::ResourceType;
use crate::problem::{Problem, missing};
use crate::resource::{Resource, ResourceRow};
use crate::route::{AdminCall, PREFIXES};
use serde_json::{Value, json};
use uuid::Uuid;

/// The address below which the client has asked, without a slash at its end.
pub(super) fn base(call: &AdminCall) -> String {
    let path = call.uri.path();
    let prefix = PREFIXES.iter().find(|prefix| path.starts_with(*prefix)).unwrap_or(&"/v1");
    match &call.app.public_url {
        Some(url) => format!("{url}{prefix}/scim"),
        None => format!("http://{}{prefix}/scim", call.host().unwrap_or("localhost")),
    }
}

pub(super) fn location(call: &AdminCall, of: &ResourceType, id: Uuid) -> String {
    format!("{}{}/{id}", base(call), of.endpoint)
}

pub(super) fn meta<R: Resource>(row: &ResourceRow<R>, of: &ResourceType, call: &AdminCall) -> Value {
    json!({
        "resourceType": of.core.name,
        "created": row.created_at,
        "lastModified": row.updated_at,
        "location": location(call, of, row.id),
        "version": super::etag::tag(row.version),
    })
}

/// Finds a resource by its id alone: names are for filters.
pub(super) async fn one<R: Resource>(call: &AdminCall) -> Result<ResourceRow<R>, Problem> {
    let id: Uuid = call.var("id").parse().map_err(|_| missing(R::NOUN))?;
    let found = call.app.directory.get(R::KIND, call.actor.org, None, &id.to_string()).await?;
    // A slug may have the form of an id.
    let found = found.filter(|stored| stored.id == id);
    ResourceRow::read(&found.ok_or_else(|| missing(R::NOUN))?)
}
