//! Objects of integrations that keep those of workspaces apart (`isolate_objects`): each is found by the id that was bound
//! for the workspace that made it, and by no other. What would show objects of others, or lead round the ids, is refused.

use super::unknown;
use crate::proxy::request::Request;
use crate::proxy::target::{self, Credential};
use gateway_domain::config::Config;
use gateway_domain::kept::{self, Touches};
use gateway_domain::{Fault, FaultKind, Operation};
use http::Method;

/// Notes what a request names as its provider made it, before bound ids are opened.
pub(super) fn look(request: &mut Request) {
    if !request.caller.tenant.world.isolates_objects || request.ask.raw_names.looked {
        return;
    }
    request.ask.raw_names.looked = true;
    let ask = &request.ask;
    let in_path = kept::raw_in_path(ask.route.tail()).then(|| "the path".to_owned());
    let in_query = request.beside().filter(|call| kept::sealed_part(call).is_none()).map(|_| "call_id".to_owned());
    request.ask.raw_names.field = in_path.or(in_query).or_else(|| in_body(request));
}

fn in_body(request: &Request) -> Option<String> {
    let content = &request.ask.content;
    if content.form.is_some() {
        return None;
    }
    let mut found = None;
    let _ = kept::rewrite(&content.bytes, |place, text| {
        if found.is_none() && kept::names_object(place) && kept::is_raw(place.field, text) {
            found = Some(place.field.to_owned());
        }
        None
    });
    found
}

/// Whether one of the targets keeps objects apart.
pub(super) fn judge(config: &Config, inline: bool, request: &Request) -> Result<bool, Fault> {
    let isolates = |leaf| match target::resolve_place(leaf, inline, request).map(|aim| aim.credential) {
        Ok(Credential::Managed(upstream)) => upstream.isolates_objects,
        _ => false,
    };
    // What the gateway asks about a batch of its own is nobody's to find.
    let is_own = request.caller.tenant.line.as_ref().is_some_and(|line| line.native().is_some());
    if is_own || !request.caller.tenant.world.isolates_objects || !config.leaves().any(|leaf| isolates(leaf)) {
        return Ok(false);
    }
    let (method, tail) = (&request.ask.method, request.ask.route.tail());
    let touches = kept::touches(method, tail);
    let refused = |why: &str| Err(Fault::new(FaultKind::Forbidden, format!("{why} (isolate_objects)")));
    let route = &request.ask.route;
    let is_unknown = route.operation == Operation::Proxy && touches == Touches::Nothing;
    if is_unknown || route.path.starts_with("/v1/proxy/") {
        return refused("The integration keeps objects of workspaces apart, and takes no calls that nobody reads");
    }
    if route.operation == Operation::ResponsesSession {
        return refused(
            "The integration keeps objects of workspaces apart, and events on a socket could name those of others",
        );
    }
    // A kept response of the gateway's own stands written out in the request.
    let own = request.ask.continues.is_some().then_some("previous_response_id");
    if request.ask.raw_names.field.as_deref().is_some_and(|field| Some(field) != own) {
        return Err(unknown());
    }
    if *method == Method::GET && kept::is_list(tail) {
        return refused("The integration keeps objects of workspaces apart: its lists would show those of others");
    }
    Ok(true)
}
