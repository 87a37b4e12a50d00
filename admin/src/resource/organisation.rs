//! Settings of the organisation: what its people may do, what its workspaces may decide for themselves, and
//! what every request and key of it is held to.

mod declared;
mod defaults;
mod own_organisation;

use super::integration::pricing;
use super::{NewRow, Resource, ResourceRow};
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag, WholeNumber};
use crate::problem::{Problem, bad, missing};
use crate::resource::export_settings::{self, GivenExportSettings};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::analytics::MOST_NAMED;
use gateway_domain::egress::{Trusted, check_custom_host};
use gateway_domain::id::WorkspaceId;
use gateway_domain::metadata;
use gateway_domain::ports::Batch;
use gateway_domain::record::mask;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::pricing::Rates;
use gateway_domain::resource::rotation::RotationPeriod;
use gateway_domain::resource::security::{BadSecurity, Security};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::token::{KeySet, TokenRule};
use http::Method;
use own_organisation::own;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const READ: &[Scope] = &[Scope::named("organisation_settings.read")];
    const UPDATE: &[Scope] = &[Scope::named("organisation_settings.update")];
    let own = vec![
        authed(Method::GET, "/admin/organisation", READ, "Show the organisation and its settings", show),
        authed(Method::PUT, "/admin/organisation", UPDATE, "Change settings of the organisation", change)
            .takes::<OwnOrganisationPatch>(),
    ];
    own.into_iter().chain(defaults::routes(READ, UPDATE)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnOrganisationPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    block_inline_config: Edit<Flag>,
    #[serde(default)]
    user_api_key_rotation_period: Edit<Value>,
    #[serde(default)]
    jwks_uris: Edit<Value>,
    #[serde(default)]
    jwks: Edit<Value>,
    #[serde(default)]
    security_settings: Edit<BTreeMap<String, bool>>,
    #[serde(default)]
    overridable_sections: Edit<BTreeSet<String>>,
    #[serde(default)]
    debug_log: Edit<Flag>,
    #[serde(default)]
    enforce_debug_log_setting: Edit<Flag>,
    #[serde(default)]
    cache_max_age: Edit<WholeNumber>,
    #[serde(default)]
    managers_set_limits: Edit<Flag>,
    #[serde(default)]
    known_routes_only: Edit<Flag>,
    #[serde(default)]
    analytics_metadata_keys: Edit<BTreeSet<String>>,
    #[serde(default)]
    export_settings: Edit<GivenExportSettings>,
    #[serde(default)]
    token_rules: Edit<Vec<TokenRule>>,
    #[serde(default)]
    model_prices: Edit<Map<String, Value>>,
}

impl Resource for Organisation {
    const KIND: Kind = Kind::Organisation;
    const NOUN: &'static str = "organisation";
    const LATER: &'static [&'static str] = &[];
    type Create = OwnOrganisationPatch;
    type Patch = OwnOrganisationPatch;

    fn create(
        _input: OwnOrganisationPatch,
        _home: Option<WorkspaceId>,
        _call: &AdminCall,
    ) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(row: &mut ResourceRow<Self>, input: OwnOrganisationPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        match input.block_inline_config {
            Edit::Keep => {}
            // Back to what the day of its making says.
            Edit::Clear => row.doc.block_inline_config = None,
            Edit::Set(flag) => row.doc.block_inline_config = Some(flag.0),
        }
        match input.user_api_key_rotation_period {
            Edit::Keep => {}
            Edit::Clear => row.doc.user_api_key_rotation_period = None,
            Edit::Set(given) => row.doc.user_api_key_rotation_period = Some(period(given)?),
        }
        match input.security_settings {
            Edit::Keep => {}
            Edit::Clear => row.doc.security_settings = Security::default(),
            Edit::Set(given) => {
                row.doc.security_settings = switches(&given, Some(row.doc.security_settings))?;
            }
        }
        match input.jwks_uris {
            Edit::Keep => {}
            Edit::Clear => row.doc.jwks_uris.clear(),
            Edit::Set(given) => row.doc.jwks_uris = jwks_uris(&given, &call.app.trusted)?,
        }
        match input.jwks {
            Edit::Keep => {}
            Edit::Clear => row.doc.jwks = None,
            Edit::Set(given) => {
                KeySet::parse(&given).map_err(|why| bad("jwks", why))?;
                row.doc.jwks = Some(given);
            }
        }
        if let Some(open) = input.overridable_sections.or_default() {
            let known = Security::sections();
            if open.iter().any(|s| !known.contains(s.as_str())) {
                let known: Vec<&str> = known.into_iter().collect();
                return Err(bad("overridable_sections", format_args!("may hold {} only", known.join(", "))));
            }
            row.doc.overridable_sections = open;
        }
        match input.debug_log {
            Edit::Keep => {}
            Edit::Clear => row.doc.debug_log = None,
            Edit::Set(flag) => row.doc.debug_log = Some(flag.0),
        }
        if let Some(flag) = input.enforce_debug_log_setting.or_default() {
            row.doc.enforce_debug_log_setting = flag.0;
        }
        match input.cache_max_age {
            Edit::Keep => {}
            Edit::Clear => row.doc.cache_max_age = None,
            Edit::Set(given) => row.doc.cache_max_age = Some(cache_age(&given)?),
        }
        if let Some(flag) = input.managers_set_limits.or_default() {
            row.doc.managers_set_limits = flag.0;
        }
        if let Some(flag) = input.known_routes_only.or_default() {
            row.doc.known_routes_only = flag.0;
        }
        if let Some(keys) = input.analytics_metadata_keys.or_default() {
            row.doc.analytics_metadata_keys = metadata_keys(keys)?;
        }
        if let Some(given) = input.export_settings.or_default() {
            row.doc.denied_log_fields = given.fields()?;
        }
        if let Some(rules) = input.token_rules.or_default() {
            row.doc.token_rules = rules;
        }
        match input.model_prices {
            Edit::Keep => {}
            Edit::Clear => row.doc.model_prices.clear(),
            Edit::Set(given) => row.doc.model_prices = model_prices(given, call)?,
        }
        check_rules(&row.doc)
    }

    fn check(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, _call: &AdminCall) -> Value {
        json!({
            "object": "organisation",
            "id": row.id,
            "slug": row.slug,
            "name": row.name,
            "status": row.status,
            "default_workspace_id": row.doc.default_workspace,
            "block_inline_config": row.doc.blocks_inline(row.created_at),
            "user_api_key_rotation_period": row.doc.user_api_key_rotation_period,
            "jwks_uris": row.doc.jwks_uris,
            "jwks": row.doc.jwks,
            "security_settings": row.doc.security_settings,
            "overridable_sections": row.doc.overridable_sections,
            "debug_log": row.doc.debug_log.unwrap_or(true),
            "enforce_debug_log_setting": row.doc.enforce_debug_log_setting,
            "cache_max_age": row.doc.cache_max_age,
            "managers_set_limits": row.doc.managers_set_limits,
            "known_routes_only": row.doc.known_routes_only,
            "analytics_metadata_keys": row.doc.analytics_metadata_keys,
            "export_settings": export_settings::shown(&row.doc.denied_log_fields),
            "token_rules": row.doc.token_rules,
            "model_prices": row.doc.model_prices.iter().map(|(name, rates)| (name.clone(), pricing::view(rates)))
                .collect::<Map<String, Value>>(),
            "created_at": row.created_at,
            "last_updated_at": row.updated_at,
        })
    }
}

/// What models cost the organisation, by `provider/model`: all of them at once.
fn model_prices(given: Map<String, Value>, call: &AdminCall) -> Result<BTreeMap<String, Rates>, Problem> {
    const FIELD: &str = "model_prices";
    let most = Organisation::MOST_PRICES;
    if given.len() > most {
        return Err(bad(FIELD, format_args!("must hold at most {most} models")));
    }
    let price = |(name, price): (String, Value)| {
        let known = name.split_once('/').filter(|(_, model)| !model.is_empty() && name.len() <= 255);
        if known.and_then(|(provider, _)| call.app.catalog.provider(provider)).is_none() {
            return Err(bad(FIELD, "must name models as provider/model, with a provider that this version knows"));
        }
        let Value::Object(price) = price else { return Err(bad(FIELD, "must hold an object for each model")) };
        let rates = pricing::rates(&format!("{FIELD}.{name}."), price)?;
        Ok((name, rates))
    };
    given.into_iter().map(price).collect()
}

/// Days, or the name of a period; kept in days.
pub(crate) fn period(given: Value) -> Result<u16, Problem> {
    const RULE: &str = "must be an integer of 1..365, weekly or monthly";
    let days = match RotationPeriod::deserialize(&given) {
        Ok(named) => u64::from(named.days()),
        Err(_) => WholeNumber::deserialize(given).map_err(|_| bad("user_api_key_rotation_period", RULE))?.0,
    };
    let days = u16::try_from(days).ok().filter(|d| (1..=365).contains(d));
    days.ok_or_else(|| bad("user_api_key_rotation_period", RULE))
}

/// Each makes rows of analytics more, so they are few.
fn metadata_keys(given: BTreeSet<String>) -> Result<BTreeSet<String>, Problem> {
    const FIELD: &str = "analytics_metadata_keys";
    if given.len() > MOST_NAMED {
        return Err(bad(FIELD, format_args!("must hold at most {MOST_NAMED} keys")));
    }
    if given.iter().any(|key| key.is_empty() || !metadata::is_short(key)) {
        return Err(bad(FIELD, format_args!("must hold keys of 1..{} characters", metadata::CHARACTERS)));
    }
    Ok(given)
}

fn cache_age(given: &WholeNumber) -> Result<u32, Problem> {
    let (least, most) = Organisation::CACHE_AGE.into_inner();
    let age = u32::try_from(given.0).ok().filter(|age| Organisation::CACHE_AGE.contains(age));
    age.ok_or_else(|| bad("cache_max_age", format_args!("must be an integer of {least}..{most} (seconds)")))
}

/// An array, or one text with commas; each may be called like a custom host may.
fn jwks_uris(given: &Value, trusted: &Trusted) -> Result<Vec<String>, Problem> {
    const FIELD: &str = "jwks_uris";
    let texts: Option<Vec<&str>> = match given {
        Value::String(text) => Some(text.split(',').collect()),
        Value::Array(many) => many.iter().map(Value::as_str).collect(),
        _ => None,
    };
    let texts = texts.ok_or_else(|| bad(FIELD, "must be an array of URLs, or URLs with commas between them"))?;
    let mut uris = Vec::new();
    for uri in texts.into_iter().map(str::trim).filter(|t| !t.is_empty()) {
        let bare = uri.split('?').next().unwrap_or(uri);
        check_custom_host(bare, trusted)
            .map_err(|why| bad(FIELD, format_args!("holds `{}`, which {why}", mask::address(bare))))?;
        if !uris.iter().any(|known| known == uri) {
            uris.push(uri.to_owned());
        }
    }
    if uris.len() > Organisation::MOST_JWKS_URIS {
        return Err(bad(FIELD, format_args!("must hold at most {} URLs", Organisation::MOST_JWKS_URIS)));
    }
    Ok(uris)
}

/// A rule for an issuer that is not trusted would hold nobody, and two for one would be read as either.
fn check_rules(doc: &Organisation) -> Result<(), Problem> {
    const MOST: usize = 255;
    for (i, rule) in doc.token_rules.iter().enumerate() {
        let field = |name: &str| format!("token_rules[{i}].{name}");
        if doc.token_rules[..i].iter().any(|other| other.jwks_uri == rule.jwks_uri) {
            return Err(bad(field("jwks_uri"), "has a rule already"));
        }
        match &rule.jwks_uri {
            Some(uri) if !doc.jwks_uris.contains(uri) => {
                return Err(bad(field("jwks_uri"), "must be one of jwks_uris, as it is written there"));
            }
            None if doc.jwks.is_none() => return Err(bad(field("jwks_uri"), "is required while jwks is empty")),
            _ => {}
        }
        let wrong = |text: &String| text.is_empty() || text.len() > MOST;
        if rule.iss.as_ref().is_some_and(wrong) {
            return Err(bad(field("iss"), format_args!("must be of 1..{MOST} characters")));
        }
        if rule.aud.len() > 16 || rule.aud.iter().any(wrong) {
            return Err(bad(field("aud"), format_args!("must hold at most 16 texts of 1..{MOST} characters")));
        }
        if rule.iss.is_none() && rule.aud.is_empty() {
            return Err(bad(format_args!("token_rules[{i}]"), "must have iss or aud"));
        }
    }
    Ok(())
}

/// `before`: switches that stay as they are where nothing is given; without them every one must be.
pub(crate) fn switches(given: &BTreeMap<String, bool>, before: Option<Security>) -> Result<Security, Problem> {
    let made = match before {
        Some(before) => before.with(given),
        None => Security::whole(given),
    };
    made.map_err(|why| match why {
        BadSecurity::Unknown(name) => bad(format_args!("security_settings.{name}"), "is not a known field"),
        BadSecurity::Missing(name) => {
            bad(format_args!("security_settings.{name}"), "is required: all settings are given together")
        }
    })
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = own(&call).await?;
    Ok(AdminReply::json(Organisation::view(&row, &call)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = own(&call).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let input: OwnOrganisationPatch = body.read()?;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        Organisation::patch(&mut row, input, &call)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
