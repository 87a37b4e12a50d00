//! What this service says of itself (RFC 7644, 4): what it can do, the types of its resources and their schemas; and
//! what the description of the Admin API says of the answers of the protocol.

use super::lookup::base;
use super::page::MOST;
use super::refusal::MEDIA_TYPE;
use super::schema::{ENTERPRISE, GROUP, GROUPS, USER, USERS};
use crate::problem::{Problem, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<AdminRoute> {
    const READ: &[Scope] = &[Scope::named("scim.read")];
    vec![
        authed(Method::GET, "/scim/ServiceProviderConfig", READ, "Say what SCIM can do here", abilities),
        authed(Method::GET, "/scim/ResourceTypes", READ, "List the types of SCIM's resources", types),
        authed(Method::GET, "/scim/ResourceTypes/{id}", READ, "Show a type of SCIM's resources", one_type),
        authed(Method::GET, "/scim/Schemas", READ, "List the schemas of SCIM's resources", schemas),
        authed(Method::GET, "/scim/Schemas/{id}", READ, "Show a schema of SCIM's resources", one_schema),
    ]
}

async fn abilities(call: AdminCall) -> Result<AdminReply, Problem> {
    let no = json!({"supported": false});
    Ok(AdminReply::typed(
        MEDIA_TYPE,
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
            "patch": {"supported": true},
            "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
            "filter": {"supported": true, "maxResults": MOST},
            "changePassword": no,
            "sort": no,
            "etag": {"supported": true},
            "authenticationSchemes": [{
                "type": "oauthbearertoken",
                "name": "Bearer",
                "description": "An Admin key of the organisation that has scopes of scim",
                "specUri": "https://www.rfc-editor.org/rfc/rfc6750",
                "primary": true,
            }],
            "meta": {"resourceType": "ServiceProviderConfig", "location": format!("{}/ServiceProviderConfig", base(&call))},
        }),
    ))
}

fn listed(resources: &[Value]) -> AdminReply {
    AdminReply::typed(
        MEDIA_TYPE,
        json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
            "totalResults": resources.len(),
            "startIndex": 1,
            "itemsPerPage": resources.len(),
            "Resources": resources,
        }),
    )
}

fn all_types(call: &AdminCall) -> Vec<Value> {
    let base = base(call);
    [&USERS, &GROUPS].iter().map(|of| of.render(&base)).collect()
}

fn all_schemas(call: &AdminCall) -> Vec<Value> {
    let base = base(call);
    [&USER, &ENTERPRISE, &GROUP].iter().map(|schema| schema.render(&format!("{base}/Schemas/{}", schema.id))).collect()
}

fn named(all: Vec<Value>, call: &AdminCall, noun: &str) -> Result<AdminReply, Problem> {
    let wanted = call.var("id");
    let found = all.into_iter().find(|one| one["id"].as_str().is_some_and(|id| id.eq_ignore_ascii_case(wanted)));
    found.map(|one| AdminReply::typed(MEDIA_TYPE, one)).ok_or_else(|| missing(noun))
}

async fn types(call: AdminCall) -> Result<AdminReply, Problem> {
    Ok(listed(&all_types(&call)))
}

async fn one_type(call: AdminCall) -> Result<AdminReply, Problem> {
    named(all_types(&call), &call, "resource type")
}

async fn schemas(call: AdminCall) -> Result<AdminReply, Problem> {
    Ok(listed(&all_schemas(&call)))
}

async fn one_schema(call: AdminCall) -> Result<AdminReply, Problem> {
    named(all_schemas(&call), &call, "schema")
}

/// What the description of the Admin API says of the answers of a route: made and deleted things have statuses of their
/// own, and refusals the protocol's form.
pub(crate) fn responses(method: &Method, path: &str, shown: Option<&Value>) -> Value {
    let shown = shown.cloned().unwrap_or_else(|| json!({"type": "object"}));
    let content =
        |schema: Value| json!({MEDIA_TYPE: {"schema": schema.clone()}, "application/json": {"schema": schema}});
    let mut all = json!({});
    match method.as_str() {
        "POST" => all["201"] = json!({"description": "Made", "content": content(shown)}),
        "DELETE" => all["204"] = json!({"description": "Deleted"}),
        _ => all["200"] = json!({"description": "Done", "content": content(shown)}),
    }
    if *method == Method::PATCH && path.starts_with("/scim/Groups") {
        all["204"] = json!({"description": "Done; the group is shown where attributes are named"});
    }
    if *method == Method::GET && path.ends_with("/{id}") {
        all["304"] = json!({"description": "It is the version that If-None-Match names"});
    }
    for (status, description) in [
        ("400", "Something breaks a rule: scimType says which, detail what"),
        ("401", "No valid key"),
        ("403", "The key may not do this"),
        ("404", "Does not exist"),
        ("409", "Taken already"),
        ("412", "It is not the version that If-Match names"),
        ("413", "The body is too long"),
        ("429", "Too much at once"),
        ("500", "Something failed inside"),
        ("501", "Not in this version"),
        ("503", "The configuration store cannot be reached; try again"),
    ] {
        all[status] = json!({
            "description": description,
            "content": content(json!({"$ref": "#/components/schemas/ScimError"})),
        });
    }
    all
}
