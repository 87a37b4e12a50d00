//! Which places of an integration are filled from secret references. What is filled so is not stored beside it: a
//! literal that was there goes, and one that comes is refused.

use crate::input::{Edit, JsonBody};
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::catalog::ProviderInfo;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::secret_reference::{MappedPlace, SecretMapping, ValueFormat};
use gateway_domain::snapshot::Snapshot;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const MOST: usize = 20;
pub(crate) const FIELD: &str = "secret_mappings";

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct GivenMapping {
    target_field: String,
    secret_reference_id: String,
    #[serde(default)]
    secret_key: Option<String>,
    #[serde(default)]
    value_format: Option<ValueFormat>,
}

/// Takes mappings in place of those before, and drops what they fill.
pub(super) fn merge(
    doc: &mut Integration,
    given: Edit<Vec<Map<String, Value>>>,
    call: &AdminCall,
) -> Result<(), Problem> {
    let Some(given) = given.or_default() else { return Ok(()) };
    let mappings = read_all(given, call)?;
    for mapping in &mappings {
        match MappedPlace::read(&mapping.target_field) {
            Ok(MappedPlace::Key) => (doc.sealed_key, doc.masked_key) = (None, None),
            Ok(MappedPlace::Header(name)) => _ = doc.configurations.custom_headers.remove(name),
            Ok(MappedPlace::Setting(setting)) => _ = doc.configurations.cloud.remove(setting.name),
            Err(_) => {}
        }
    }
    doc.secret_mappings = mappings;
    Ok(())
}

/// A list of mappings, each of a place of its own and from a reference that is there.
pub(crate) fn read_all(given: Vec<Map<String, Value>>, call: &AdminCall) -> Result<Vec<SecretMapping>, Problem> {
    if given.len() > MOST {
        return Err(bad(FIELD, format_args!("must hold at most {MOST} items")));
    }
    let snapshot = call.snapshot();
    let mut mappings: Vec<SecretMapping> = Vec::with_capacity(given.len());
    for (at, item) in given.into_iter().enumerate() {
        let under = format!("{FIELD}[{at}].");
        let item: GivenMapping = JsonBody(item).read_under(&under)?;
        let mapping = read(item, &under, (&snapshot, call.actor.org))?;
        if mappings.iter().any(|known| known.target_field == mapping.target_field) {
            return Err(bad(format_args!("{under}target_field"), "is filled twice"));
        }
        mappings.push(mapping);
    }
    Ok(mappings)
}

fn read(given: GivenMapping, under: &str, (snapshot, org): (&Snapshot, OrgId)) -> Result<SecretMapping, Problem> {
    let field = format!("{under}target_field");
    match MappedPlace::read(&given.target_field).map_err(|rule| bad(&field, rule))? {
        MappedPlace::Header(name) => {
            let plain = check_forward_header(name).map_err(|rule| bad(&field, rule))?;
            if plain != name {
                return Err(bad(&field, "must name its header in lower case"));
            }
        }
        MappedPlace::Key | MappedPlace::Setting(_) => {}
    }
    if given.secret_key.as_ref().is_some_and(|key| key.is_empty() || key.chars().count() > 255) {
        return Err(bad(format_args!("{under}secret_key"), "must be of 1..255 characters"));
    }
    let reference = snapshot.secret_reference_named(org, &given.secret_reference_id);
    let none = || bad(format_args!("{under}secret_reference_id"), "names no secret reference of this organisation");
    Ok(SecretMapping {
        target_field: given.target_field,
        secret_reference_id: reference.ok_or_else(none)?.id,
        secret_key: given.secret_key,
        value_format: given.value_format,
    })
}

/// What is filled stands nowhere else, means something to the family, and comes from references that are open to the
/// workspace.
pub(super) fn check(
    doc: &Integration,
    (family, home): (&ProviderInfo, Option<WorkspaceId>),
    call: &AdminCall,
) -> Result<(), Problem> {
    let snapshot = call.snapshot();
    for (at, mapping) in doc.secret_mappings.iter().enumerate() {
        let place = MappedPlace::read(&mapping.target_field).map_err(|rule| bad(FIELD, rule))?;
        let given = match place {
            MappedPlace::Key => doc.sealed_key.is_some(),
            MappedPlace::Header(name) => doc.configurations.custom_headers.contains_key(name),
            MappedPlace::Setting(setting) => doc.configurations.cloud.contains_key(setting.name),
        };
        if given {
            return Err(bad(
                &mapping.target_field,
                "is filled by secret_mappings: take the mapping out to give a value",
            ));
        }
        if let MappedPlace::Setting(setting) = place
            && !setting.serves(family.slug)
        {
            let why = format!("has no meaning for `{}`", family.slug);
            return Err(bad(format_args!("{FIELD}[{at}].target_field"), why));
        }
        check_open((at, mapping), home, &snapshot)?;
    }
    Ok(())
}

/// An integration of a workspace is filled from what is open to that workspace.
pub(crate) fn check_open(
    (at, mapping): (usize, &SecretMapping),
    home: Option<WorkspaceId>,
    snapshot: &Snapshot,
) -> Result<(), Problem> {
    let reference = snapshot.secret_reference(mapping.secret_reference_id);
    if reference.is_some_and(|reference| home.is_some_and(|home| !reference.open_to(home))) {
        let why = "names a secret reference that this workspace may not use";
        return Err(bad(format_args!("{FIELD}[{at}].secret_reference_id"), why));
    }
    Ok(())
}

/// Settings as far as they are stored, with something in each place that a reference fills.
pub(super) fn supposed(doc: &Integration, mut stored: CloudSettings) -> CloudSettings {
    for place in places(doc) {
        if let MappedPlace::Setting(setting) = place {
            // What only its manager knows cannot be looked at here: some value stands for it.
            let _ = stored.set(setting, "0".to_owned());
        }
    }
    stored
}

fn places(doc: &Integration) -> impl Iterator<Item = MappedPlace<'_>> {
    doc.secret_mappings.iter().filter_map(|mapping| MappedPlace::read(&mapping.target_field).ok())
}

pub(super) fn fills_key(doc: &Integration) -> bool {
    places(doc).any(|place| matches!(place, MappedPlace::Key))
}

pub(super) fn fills(doc: &Integration, name: &str) -> bool {
    places(doc).any(|place| matches!(place, MappedPlace::Setting(setting) if setting.name == name))
}

pub(crate) fn shown(mappings: &[SecretMapping]) -> Vec<Value> {
    mappings.iter().map(|mapping| render(mapping, &mapping.secret_reference_id.to_string())).collect()
}

/// `reference`: its id, or its name.
pub(crate) fn render(mapping: &SecretMapping, reference: &str) -> Value {
    json!({
        "target_field": mapping.target_field,
        "secret_reference_id": reference,
        "secret_key": mapping.secret_key,
        "value_format": mapping.value_format,
    })
}
