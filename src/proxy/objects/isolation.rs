//! Objects of integrations that keep those of workspaces apart (`isolate_objects`): each is found by the id that was
//! bound for the workspace that made it, and by no other. What would show objects of others, or lead round the ids, is
//! refused; lists that can be read show those of the workspace alone.

use super::unknown;
use crate::proxy::request::{RawNames, Request};
use crate::proxy::target::{self, Aim, Credential};
use crate::upstream::http1::Framing;
use gateway_domain::config::Config;
use gateway_domain::form::{ClientForm, FormPart};
use gateway_domain::kept::{self, IdPlace, Touches};
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind, Operation};
use http::Method;
use memchr::memmem;

/// Notes what a request names as its provider made it, before bound ids are opened.
pub(super) fn look(request: &mut Request) {
    if !request.caller.tenant.world.isolates_objects || request.ask.raw_names.looked {
        return;
    }
    let ask = &request.ask;
    let in_path = kept::raw_in_path(ask.route.tail()).then(|| "the path".to_owned());
    let in_query = request.beside().filter(|call| kept::sealed_part(call).is_none()).map(|_| "call_id".to_owned());
    let in_cursor = || request.ask.route.query.as_deref().and_then(|query| raw_cursor(ask.route.tail(), query));
    let is_too_deep = ask.content.form.is_none() && kept::is_too_deep(&ask.content.bytes);
    let field = in_path.or(in_query).or_else(in_cursor).or_else(|| in_body(request));
    request.ask.raw_names = RawNames { looked: true, field, is_too_deep };
}

/// Whether a parameter of a list says behind or before which object it goes on.
pub(super) fn is_cursor(name: &str) -> bool {
    matches!(name, "after" | "before" | "after_id" | "before_id")
}

/// The object that a list goes on behind, as a provider calls it.
fn raw_cursor(tail: &str, query: &str) -> Option<String> {
    let is_list = kept::is_list(tail);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let raw = |name: &str, value: &str| {
        let value = decoded(value);
        let names = is_list || !kept::kind_of(&value).is_empty();
        is_cursor(&decoded(name)) && !value.is_empty() && kept::sealed_part(&value).is_none() && names
    };
    pairs.find(|(name, value)| raw(name, value)).map(|(name, _)| name.to_owned())
}

/// Whether objects of workspaces are kept apart at this target.
pub(crate) fn is_isolated(aim: &Aim) -> bool {
    matches!(&aim.credential, Credential::Managed(upstream) if upstream.isolates_objects)
}

/// The list of all objects of a kind that a request asks for, where any integration keeps those of workspaces apart.
pub(crate) fn shown_list(request: &Request) -> Option<&'static str> {
    let asks = request.caller.tenant.world.isolates_objects && request.ask.method == Method::GET;
    let route = &request.ask.route;
    if asks && !route.path.starts_with("/v1/proxy/") { kept::shown_in_part(route.tail()) } else { None }
}

fn in_body(request: &Request) -> Option<String> {
    let content = &request.ask.content;
    if let Some(form) = &content.form {
        return in_form(form, &content.bytes);
    }
    // A provider reads the same id where letters of it are written as escapes.
    let is_escaped = |mark: &[u8]| memmem::find(&content.bytes, mark).is_some();
    let plain = (is_escaped(b"\\u") || is_escaped(b"\\/")).then(|| plain(&content.bytes)).flatten();
    named_raw(&content.bytes).or_else(|| named_raw(&plain?))
}

/// A field of text in a form.
fn in_form(form: &ClientForm, body: &[u8]) -> Option<String> {
    let raw = |part: &&FormPart| {
        let place = place_of_part(part);
        let text = std::str::from_utf8(body.get(part.value.clone()).unwrap_or_default()).unwrap_or_default();
        part.filename.is_none() && kept::names_object(&place) && kept::is_raw(place.field, text)
    };
    form.parts().iter().find(raw).map(|part| part.name.clone())
}

/// Where the value of a part stands, as it would in JSON.
pub(super) fn place_of_part(part: &FormPart) -> IdPlace<'_> {
    IdPlace { field: kept::field_of_part(&part.name), depth: 1, list: "", object: "" }
}

/// Writes the JSON anew without escapes that no text needs, so that ids in it can be compared.
fn plain(json: &[u8]) -> Option<Vec<u8>> {
    let read: serde_json::Value = serde_json::from_slice(json).ok()?;
    serde_json::to_vec(&read).ok()
}

fn named_raw(json: &[u8]) -> Option<String> {
    let mut found = None;
    let _ = kept::rewrite(json, |place, text| {
        if found.is_none() && kept::names_object(place) && kept::is_raw(place.field, text) {
            found = Some(place.field.to_owned());
        }
        None
    });
    found
}

/// A body that streams up, where it may say more than what a file holds.
fn goes_up_unread(request: &Request) -> bool {
    let tail = request.ask.route.tail().trim_end_matches('/');
    let part_of = |tail: &str| tail.strip_prefix("/uploads/")?.strip_suffix("/parts").map(|id| !id.contains('/'));
    let is_files_own = tail == "/files" || part_of(tail).unwrap_or(false);
    request.ask.upload.is_some_and(|framing| framing != Framing::WebSocket) && !is_files_own
}

/// Whether one of the targets keeps objects apart.
pub(super) fn judge(config: &Config, inline: bool, request: &Request) -> Result<bool, Fault> {
    let isolates = |leaf| target::resolve_place(leaf, inline, request).is_ok_and(|aim| is_isolated(&aim));
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
    if touches != Touches::Nothing && goes_up_unread(request) {
        return refused(
            "The integration keeps objects of workspaces apart, and a body that is not read here could name those of others: \
             send JSON, or make a file of it first (/v1/files)",
        );
    }
    if matches!(route.operation, Operation::ResponsesSession | Operation::LiveSession) {
        return refused(
            "The integration keeps objects of workspaces apart, and events on a socket could name those of others",
        );
    }
    // A kept response of the gateway's own stands written out in the request.
    let own = request.ask.continues.is_some().then_some("previous_response_id");
    if request.ask.raw_names.field.as_deref().is_some_and(|field| Some(field) != own) {
        return Err(unknown());
    }
    if request.ask.raw_names.is_too_deep {
        let why = "The integration keeps objects of workspaces apart, and bodies may be nested no deeper than 64 levels \
                   (isolate_objects)";
        return Err(Fault::new(FaultKind::BadBody, why));
    }
    if *method == Method::GET && kept::is_list(tail) && kept::shown_in_part(tail).is_none() {
        return refused("The integration keeps objects of workspaces apart: this list would show those of others");
    }
    Ok(true)
}
