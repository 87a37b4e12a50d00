//! The operator on the machine itself, who may do everything: what the Admin API asks of a call, answered by nobody.

use crate::actor::Actor;
use crate::app::App;
use crate::input::QueryString;
use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, MountPoint, public};
use bytes::Bytes;
use gateway_domain::id::{KeyId, OrgId};
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::Scopes;
use http::{HeaderMap, Method, Uri};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

static ROUTE: LazyLock<AdminRoute> =
    LazyLock::new(|| public(MountPoint::Operator, "/", "The command line", |_| AdminReply::json(json!({}))));

pub(super) fn call(app: &App, org: OrgId) -> Result<AdminCall, Problem> {
    let actor = Actor {
        key: KeyId(Uuid::nil()),
        kind: KeyKind::OrganisationService,
        org,
        workspace: None,
        user: None,
        scopes: Scopes::all(),
        may_make_admins: true,
        may_set_limits: true,
        sees_all: true,
        sees_metadata: true,
        mcp_access: None,
        allowed_models: None,
    };
    Ok(AdminCall {
        app: Arc::new(app.clone()),
        route: &ROUTE,
        actor,
        now: app.now(),
        method: Method::POST,
        uri: Uri::default(),
        vars: Vec::new(),
        query: QueryString::default(),
        bytes: Bytes::new(),
        client: None,
        request_id: app.id(),
        headers: HeaderMap::new(),
        subject: Arc::default(),
        repeat: None,
    })
}
