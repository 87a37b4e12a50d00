//! Credential and configurations of an integration: read strictly, sealed, merged, masked.

mod cloud;

use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::egress::check_custom_host;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::integration::{Configurations, Integration};
use gateway_domain::secret::{MASK, mask};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const MAX_SECRET: usize = 16 * 1024;
const MAX_HEADERS: usize = 50;

/// Settings of seams that are not built yet.
static LATER: &[&str] = &["anthropic_inspect_stream_for_overloaded_error"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntegrationSettingsEdit {
    #[serde(default)]
    custom_host: Edit<String>,
    #[serde(default)]
    custom_headers: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    openai_organization: Edit<String>,
    #[serde(default)]
    openai_project: Edit<String>,
    #[serde(default)]
    direct_realtime: Edit<Flag>,
    #[serde(default)]
    isolate_objects: Edit<Flag>,
}

/// A credential sealed, with its mask. The mask of the stored one keeps it.
pub(super) fn credential(
    key: Option<String>,
    before: Option<(String, String)>,
    call: &AdminCall,
) -> Result<Option<(String, String)>, Problem> {
    let Some(key) = key else { return Ok(None) };
    if let Some(before) = before.filter(|(_, masked)| *masked == key) {
        return Ok(Some(before));
    }
    check_secret("key", &key)?;
    Ok(Some((call.app.vault.seal(&key), mask(&key))))
}

/// It will stand in a header, and a mask that stands for nothing would be sent upstream as it is.
fn check_secret(field: &str, value: &str) -> Result<(), Problem> {
    if value.is_empty() || value.len() > MAX_SECRET || HeaderValue::from_str(value).is_err() {
        return Err(bad(field, format_args!("must be 1..{MAX_SECRET} printable ASCII characters")));
    }
    if value.starts_with(MASK) {
        return Err(bad(field, "is a masked value that stands for no stored one"));
    }
    Ok(())
}

/// Puts what was given over what is stored: absent keeps, null clears.
pub(super) fn merge(stored: &mut Configurations, given: Map<String, Value>, call: &AdminCall) -> Result<(), Problem> {
    let mut body = JsonBody(given);
    body.refuse_later("configurations.", LATER)?;
    cloud::merge(&mut stored.cloud, &mut body.0, call)?;
    let given: IntegrationSettingsEdit = body.read_under("configurations.")?;
    if let Edit::Set(host) = &given.custom_host {
        check_custom_host(host, &call.app.trusted).map_err(|rule| bad("configurations.custom_host", rule))?;
    }
    given.custom_host.onto(&mut stored.custom_host);
    if let Some(headers) = given.custom_headers.or_default() {
        stored.custom_headers = seal_headers("configurations.", headers, &stored.custom_headers, call)?;
    }
    let named = [("openai_organization", &given.openai_organization), ("openai_project", &given.openai_project)];
    for (name, value) in named {
        if let Edit::Set(value) = value {
            check_secret(&format!("configurations.{name}"), value)?;
        }
    }
    given.openai_organization.onto(&mut stored.openai_organization);
    given.openai_project.onto(&mut stored.openai_project);
    if let Some(flag) = given.direct_realtime.or_default() {
        stored.direct_realtime = flag.0;
    }
    if let Some(flag) = given.isolate_objects.or_default() {
        stored.isolate_objects = flag.0;
    }
    Ok(())
}

/// `under`: where they stand in the body, with a dot at its end.
pub(super) fn seal_headers(
    under: &str,
    headers: BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
    call: &AdminCall,
) -> Result<BTreeMap<String, String>, Problem> {
    if headers.len() > MAX_HEADERS {
        let rule = format_args!("must hold at most {MAX_HEADERS} headers");
        return Err(bad(format_args!("{under}custom_headers"), rule));
    }
    let mut sealed = BTreeMap::new();
    for (name, value) in headers {
        let field = format!("{under}custom_headers.{name}");
        let name = check_forward_header(&name).map_err(|rule| bad(&field, rule))?;
        let kept = before.get(&name).filter(|s| call.app.vault.open(s).is_ok_and(|v| mask(v.expose()) == value));
        let at_rest = match kept {
            Some(kept) => kept.clone(),
            None => check_secret(&field, &value).map(|()| call.app.vault.seal(&value))?,
        };
        if sealed.insert(name, at_rest).is_some() {
            return Err(bad(field, "is given twice, in two casings"));
        }
    }
    Ok(sealed)
}

/// The family exists, and where it has no address of its own, one is given.
pub(in crate::resource) fn check_family(
    doc: &Integration,
    home: Option<WorkspaceId>,
    call: &AdminCall,
) -> Result<(), Problem> {
    let slug = &doc.ai_provider_id;
    let family = call
        .app
        .catalog
        .provider(slug)
        .ok_or_else(|| bad("ai_provider_id", format_args!("names `{slug}`, which is not a known provider")))?;
    super::mappings::check(doc, (family, home), call)?;
    cloud::check(doc, family, call)
}

pub(super) fn masked_headers<'h>(
    headers: &'h BTreeMap<String, String>,
    call: &AdminCall,
) -> BTreeMap<&'h String, String> {
    let shown = |sealed: &String| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |v| mask(v.expose()));
    headers.iter().map(|(name, sealed)| (name, shown(sealed))).collect()
}

pub(super) fn masked(stored: &Configurations, call: &AdminCall) -> Value {
    let headers = masked_headers(&stored.custom_headers, call);
    let shown = |sealed: &String| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |v| mask(v.expose()));
    let mut view = Map::new();
    let texts = [
        ("custom_host", &stored.custom_host),
        ("openai_organization", &stored.openai_organization),
        ("openai_project", &stored.openai_project),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            view.insert(name.into(), value.as_str().into());
        }
    }
    for (name, on) in [("direct_realtime", stored.direct_realtime), ("isolate_objects", stored.isolate_objects)] {
        if on {
            view.insert(name.into(), true.into());
        }
    }
    cloud::show(&stored.cloud, &mut view, &shown);
    if !headers.is_empty() {
        view.insert("custom_headers".into(), json!(headers));
    }
    Value::Object(view)
}

/// A request body with its secrets blotted out.
pub(crate) fn blank(body: &mut Map<String, Value>) {
    if let Some(key) = body.get_mut("key") {
        *key = MASK.into();
    }
    blank_headers(body.get_mut("configurations").and_then(|c| c.get_mut("custom_headers")));
    if let Some(Value::Object(given)) = body.get_mut("configurations") {
        cloud::blank(given);
    }
}

/// Blots out the secrets of a request body that lists models.
pub(super) fn blank_models(body: &mut Map<String, Value>) {
    let models = body.get_mut("models").and_then(Value::as_array_mut);
    for model in models.into_iter().flatten() {
        blank_headers(model.get_mut("custom_headers"));
        blank_headers(model.get_mut("configurations").and_then(|c| c.get_mut("custom_headers")));
    }
}

fn blank_headers(headers: Option<&mut Value>) {
    match headers {
        Some(Value::Object(headers)) => headers.values_mut().for_each(|v| *v = MASK.into()),
        Some(other) => *other = MASK.into(),
        None => {}
    }
}
