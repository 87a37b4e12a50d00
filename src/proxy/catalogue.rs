//! When the catalogue of models answers and when a provider is asked for its own: by whom the request names, and by
//! what the key may call.

mod models;

use super::request::Request;
use super::routing::Routing;
use crate::price_list;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, Operation};
use http::Method;
use serde_json::Value;

/// The catalogue is listed when it is asked for, or when nothing names a provider to ask.
fn lists_models(request: &Request) -> bool {
    request.ask.route.asked() == Operation::ListModels
        && (request.ask.headers.integrated_models || names_nobody(request) || is_held_to_models(request))
}

/// A provider's own list would show what its key may not call.
fn is_held_to_models(request: &Request) -> bool {
    request.caller.tenant.key.allowed_models.is_some()
}

fn names_nobody(request: &Request) -> bool {
    let headers = &request.ask.headers;
    headers.config.is_none() && headers.provider.is_none() && headers.virtual_key.is_none()
}

/// What the catalogue says to a request; `None` where a provider is to be asked.
pub(crate) async fn catalogued(request: &Request, routing: &Routing) -> Option<Result<Value, Fault>> {
    if lists_models(request) {
        price_list::opened().await;
        return Some(models::list(request, routing));
    }
    let id = single(request)?;
    price_list::opened().await;
    let is_ours = || names_nobody(request) || is_held_to_models(request);
    let lost = || is_ours().then(|| Err(models::unknown(&id)));
    models::one(request, routing, &id).or_else(lost)
}

/// The id of the one model that is asked about: the rest of the path, slashes too.
fn single(request: &Request) -> Option<String> {
    let id = request.ask.route.path.strip_prefix("/v1/models/").filter(|id| !id.is_empty())?;
    (request.ask.method == Method::GET).then(|| decoded(id).into_owned())
}
