//! What the config changes in a body before a target sees it: `default_params`, then `override_params`, then
//! `drop_params`, all in place: what is not named keeps its bytes and its order.

use super::request::{Request, RequestContent};
use bytes::Bytes;
use gateway_domain::bounds::{peek, peek_form};
use gateway_domain::config::Leaf;
use gateway_domain::config::params::Step;
use gateway_domain::form::ClientForm;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::edit::{fill_and_set, remove};
use gateway_providers::forms::{FormEdit, form_media};
use std::borrow::Cow;
use std::sync::Arc;

/// The request's content as this target gets it. Raw calls and empty bodies are never touched.
pub(crate) fn content<'a>(request: &'a Request, leaf: &Leaf) -> Result<Cow<'a, RequestContent>, Fault> {
    let content = &request.ask.content;
    if !changes(leaf, content) || request.ask.route.raw || content.bytes.is_empty() {
        return Ok(Cow::Borrowed(content));
    }
    finished(request, leaf, filled(request, leaf)?)
}

/// The body with what the config fills in and sets, before anything is taken out of it.
pub(crate) fn filled(request: &Request, leaf: &Leaf) -> Result<Bytes, Fault> {
    let content = &request.ask.content;
    let is_kept = request.ask.route.raw || content.bytes.is_empty() || !changes(leaf, content);
    if is_kept || (leaf.defaults.is_empty() && leaf.overrides.is_empty()) {
        return Ok(content.bytes.clone());
    }
    if let Some(form) = &content.form {
        return Ok(FormEdit::new(form)
            .filled(pairs(&leaf.defaults))
            .set(pairs(&leaf.overrides))
            .written(&content.bytes));
    }
    fill_and_set(&content.bytes, pairs(&leaf.defaults), pairs(&leaf.overrides)).map_err(no_object)
}

/// What is left of a filled body once the config has taken out what it drops.
pub(crate) fn finished<'a>(request: &'a Request, leaf: &Leaf, bytes: Bytes) -> Result<Cow<'a, RequestContent>, Fault> {
    let content = &request.ask.content;
    let is_same = bytes.as_ptr() == content.bytes.as_ptr() && bytes.len() == content.bytes.len();
    if request.ask.route.raw || content.bytes.is_empty() || (is_same && leaf.drops.is_empty()) {
        return Ok(Cow::Borrowed(content));
    }
    if content.form.is_some() {
        return finished_form(content, request.ask.route.operation, leaf, bytes).map(Cow::Owned);
    }
    let mut bytes = bytes;
    if !leaf.drops.is_empty() {
        bytes = remove(&bytes, leaf.drops.iter().map(|path| &**path)).map_err(no_object)?;
    }
    // Model or stream may have changed, and what is new is held to the same bounds.
    let found = peek(request.ask.route.operation, &bytes).map_err(|f| of_config(&f))?;
    let shaped = RequestContent {
        model: found.model.as_deref().map(Arc::from),
        model_span: found.model_span.clone(),
        stream: found.stream,
        wants_usage: found.wants_usage,
        unread: false,
        model_respelled: content.model_respelled,
        waited_us: content.waited_us,
        bytes: bytes.clone(),
        names_no_object: found.names_no_object,
        form: None,
    };
    Ok(Cow::Owned(shaped))
}

/// What is left of a filled form once the config has taken out fields. Only whole fields can be dropped: a form has no
/// paths into them.
fn finished_form(
    content: &RequestContent,
    operation: Operation,
    leaf: &Leaf,
    bytes: Bytes,
) -> Result<RequestContent, Fault> {
    let read = |bytes: &Bytes| {
        let kind = content.form.as_ref().map(|form| form_media(form.boundary())).unwrap_or_default();
        ClientForm::read(&kind, bytes).map_err(|why| {
            Fault::new(FaultKind::BadConfig, format!("With the parameters of the config, {why}")).on("override_params")
        })
    };
    let mut form = read(&bytes)?;
    let mut bytes = bytes;
    if !leaf.drops.is_empty() {
        let names = leaf.drops.iter().filter_map(|path| match &**path {
            [Step::Key(name)] => Some(&**name),
            _ => None,
        });
        bytes = FormEdit::new(&form).without(names).written(&bytes);
        form = read(&bytes)?;
    }
    let found = peek_form(operation, &form, &bytes).map_err(|f| of_config(&f))?;
    Ok(RequestContent {
        model: found.model.as_deref().map(Arc::from),
        stream: found.stream,
        model_respelled: content.model_respelled,
        waited_us: content.waited_us,
        bytes: bytes.clone(),
        form: Some(Arc::new(form)),
        ..RequestContent::default()
    })
}

/// What is wrong with a body once a config has changed it.
fn of_config(fault: &Fault) -> Fault {
    let message = format!("With the parameters of the config, {}", fault.message());
    Fault::new(FaultKind::BadConfig, message).on(fault.param().unwrap_or("override_params"))
}

fn no_object(e: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::BadBody, format!("The request body is not a JSON object: {e}"))
}

/// Whether the body needs another look. A lone `model` is spliced by the adapter, for nothing.
fn changes(leaf: &Leaf, content: &RequestContent) -> bool {
    let model_only = |set: &[(String, String)], known: bool| set.iter().all(|(k, _)| k == "model") && known;
    let overrides = leaf.overrides.is_empty() || model_only(&leaf.overrides, leaf.model.is_some());
    let defaults =
        leaf.defaults.is_empty() || model_only(&leaf.defaults, leaf.default_model.is_some() && content.model.is_some());
    !overrides || !defaults || !leaf.drops.is_empty()
}

fn pairs(params: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    params.iter().map(|(k, v)| (k.as_str(), v.as_str()))
}
