//! The body for an OpenAI-like provider: the client's own bytes, with the model changed and what the row asks for
//! put in place. One change costs no copy; what a row cannot take is looked for before anything is parsed.

use super::{CompatRow, Quirk, StreamUsage, audio, paths, required_fields};
use crate::adapter::{BodyPieces, Call, ProviderRequest};
use crate::edit::{self, BodyEdit, MemberSpan};
use crate::model;
use bytes::Bytes;
use gateway_domain::{Fault, Operation};
use http::{HeaderName, HeaderValue};
use memchr::memmem;
use std::borrow::Cow;

/// What OpenAI's contract takes where no model is named.
const DEFAULT_MODERATION: &str = "text-moderation-latest";

const ASK_USAGE: &str = r#","stream_options":{"include_usage":true}"#;

pub(super) fn outgoing(row: &CompatRow, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
    let path = paths::of(row, call)?;
    if let Some(form) = call.form {
        required_fields::check_form(row, call, form)?;
        return audio::form(call, form, path);
    }
    let mut adjusted = Vec::new();
    let body = body(row, call, &mut adjusted)?;
    Ok(ProviderRequest { path, headers: headers(row, call), body, adjusted })
}

/// Oracle's client library names the compartment twice, in an older and a newer header
/// (<https://github.com/oracle-samples/oci-openai>).
fn headers(row: &CompatRow, call: &Call<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let compartment = call.settings.get("oracle_compartment_id").filter(|_| row.has(Quirk::Compartment));
    let Some(value) = compartment.and_then(|id| HeaderValue::from_str(id).ok()) else { return Vec::new() };
    ["compartmentid", "opc-compartment-id"].map(|name| (HeaderName::from_static(name), value.clone())).into()
}

fn body(row: &CompatRow, call: &Call<'_>, adjusted: &mut Vec<&'static str>) -> Result<BodyPieces, Fault> {
    if call.body.is_empty() {
        return Ok(BodyPieces::One(Bytes::new()));
    }
    if matches!(call.operation, Operation::Speech | Operation::ImagesEdit) {
        required_fields::check(row, call)?;
        if audio::speaks_in_events(row, call) {
            return audio::asking_for_events(call);
        }
    }
    let model = new_model(row, call)?;
    let streams = call.stream && matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
    let options = streams && memmem::find(call.body, b"\"stream_options\"").is_some();
    let ask = streams && !call.wants_usage && row.stream_usage == StreamUsage::Asked;
    let limit = row.old_limit && memmem::find(call.body, b"\"max_completion_tokens\"").is_some();
    let role = !row.developer
        && call.operation == Operation::ChatCompletions
        && memmem::find(call.body, b"\"developer\"").is_some();
    let refuses = options && row.stream_usage == StreamUsage::Refuses;
    let unknown = call.operation == Operation::ChatCompletions
        && row.lacks.iter().chain(row.renames.iter().map(|(from, _)| from)).any(|field| mentions(call.body, field));
    if limit || role || refuses || unknown || (ask && options) || (ask && call.model_span.is_none()) {
        return rewrite(row, call, model.as_deref(), adjusted)
            .map(BodyPieces::One)
            .map_err(|e| model::not_an_object(&e));
    }
    let extra = if ask { ASK_USAGE } else { "" };
    model::replaced(call, model, extra)
}

/// Whether `"field"` stands anywhere: a cheap look before anything is parsed.
fn mentions(body: &[u8], field: &str) -> bool {
    let quoted = |at: usize| at > 0 && body[at - 1] == b'"' && body.get(at + field.len()) == Some(&b'"');
    memmem::find_iter(body, field).any(quoted)
}

/// The JSON of the model to ask for, when the body names another.
fn new_model(row: &CompatRow, call: &Call<'_>) -> Result<Option<String>, Fault> {
    let unnamed = call.operation == Operation::Moderations && row.info.slug == "openai";
    let model = call.model.or(unnamed.then_some(DEFAULT_MODERATION));
    let model = model.map(|m| if row.has(Quirk::TenantInPath) { paths::base_model(m).1 } else { m });
    model::changed(call, model)
}

/// The slow way, for bodies that hold something the row cannot take.
fn rewrite(
    row: &CompatRow,
    call: &Call<'_>,
    model: Option<&str>,
    adjusted: &mut Vec<&'static str>,
) -> Result<Bytes, serde_json::Error> {
    let found = edit::members(call.body)?;
    let at = |key: &str| found.iter().rev().find(|m| m.key == key);
    let streams = call.stream && matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
    let ask = streams && !call.wants_usage && row.stream_usage == StreamUsage::Asked;
    let mut changes: Vec<(&str, Option<&str>)> = model.map(|m| ("model", Some(m))).into_iter().collect();

    let options = at("stream_options").map(|m| call.body.slice(m.value.clone()));
    let asked = if ask { Some(asking(options.as_ref())?) } else { None };
    if let Some(asked) = &asked {
        changes.push(("stream_options", Some(asked)));
    }
    if options.is_some() && row.stream_usage == StreamUsage::Refuses {
        changes.push(("stream_options", None));
        adjusted.push("stream_options");
    }
    let chat = call.operation == Operation::ChatCompletions;
    for field in row.lacks.iter().filter(|_| chat) {
        let Some(found) = at(field) else { continue };
        changes.push((field, None));
        if &call.body[found.value.clone()] != b"null" {
            adjusted.push(field);
        }
    }
    let limit = row.old_limit && at("max_completion_tokens").is_some();
    if limit {
        // The newer of the two limits wins; it keeps its place and takes the older one's name below.
        changes.push(("max_tokens", None));
    }
    let body = if changes.is_empty() { call.body.clone() } else { edit::set_top_level(call.body, &changes)? };

    let found = edit::members(&body)?;
    let mut edits: Vec<BodyEdit<'_>> = Vec::new();
    for m in &found {
        match &*m.key {
            "max_completion_tokens" if limit => edits.push((m.name.clone(), Cow::Borrowed(b"\"max_tokens\""))),
            key if chat && row.renames.iter().any(|(from, _)| *from == key) => {
                let named = row.renames.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| to);
                edits.push((m.name.clone(), Cow::Owned(format!("\"{named}\"").into_bytes())));
            }
            "messages" if !row.developer && call.operation == Operation::ChatCompletions => {
                roles(&body, m, &mut edits)?
            }
            _ => {}
        }
    }
    Ok(if edits.is_empty() { body } else { edit::splice(&body, edits) })
}

/// `stream_options` with `include_usage` set and everything else in it kept.
fn asking(options: Option<&Bytes>) -> Result<String, serde_json::Error> {
    let set = match options.filter(|o| o.starts_with(b"{")) {
        Some(options) => edit::set_top_level(options, &[("include_usage", Some("true"))])?,
        None => Bytes::from_static(br#"{"include_usage":true}"#),
    };
    Ok(String::from_utf8_lossy(&set).into_owned())
}

/// Turns `developer` into `system`, the name of that role before it had two.
fn roles<'b>(
    body: &'b Bytes,
    messages: &MemberSpan<'b>,
    edits: &mut Vec<BodyEdit<'b>>,
) -> Result<(), serde_json::Error> {
    let list = &body[messages.value.clone()];
    if !list.starts_with(b"[") {
        return Ok(());
    }
    for element in edit::elements(list)? {
        let message = &list[element.clone()];
        if !message.starts_with(b"{") {
            continue;
        }
        let start = messages.value.start + element.start;
        for m in edit::members(message)?.iter().filter(|m| m.key == "role") {
            if &message[m.value.clone()] == b"\"developer\"" {
                edits.push((start + m.value.start..start + m.value.end, Cow::Borrowed(b"\"system\"")));
            }
        }
    }
    Ok(())
}
