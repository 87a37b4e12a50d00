//! The card of an agent that somebody is about to connect: asked for once, and stored nowhere.

use crate::agent_card::ask;
use crate::input::Edit;
use crate::problem::{Problem, bad};
use crate::resource::check_organisation;
use crate::resource::outbound::{GivenConfigurations, GivenOutbound};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::scope::Scope;
use gateway_domain::secret::MASK;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const CREATE: &[Scope] =
    &[Scope::named("organisation_agent_integrations.create"), Scope::named("workspace_agent_integrations.create")];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedCard {
    url: String,
    /// `none` where neither headers nor configurations are given.
    auth_type: Option<String>,
    /// Sent along; the same as `configurations.custom_headers`.
    headers: Option<BTreeMap<String, String>>,
    configurations: Option<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
}

pub(super) async fn fetch_card(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let given = body.take_text("workspace_id")?;
    let by_organisation = check_organisation(&call, &mut body)?;
    let named = call.actor.named(&call.snapshot(), given.as_deref())?;
    let of_workspace = named.is_some() && !by_organisation;
    call.actor.require(if of_workspace { CREATE } else { &CREATE[..1] })?;
    let AskedCard { url, auth_type, headers, configurations, secret_mappings } = body.read()?;
    if headers.is_some() && configurations.is_some() {
        return Err(bad("headers", "cannot stand beside configurations, which has custom_headers"));
    }
    let has_headers = headers.as_ref().is_some_and(|headers| !headers.is_empty());
    let told = |headers| serde_json::from_value::<GivenConfigurations>(json!({"custom_headers": headers}));
    let headers = headers.map(told).transpose().map_err(|why| bad("headers", why))?;
    let auth_type = auth_type.unwrap_or_else(|| if has_headers { "headers" } else { "none" }.to_owned());
    let configurations = configurations.or(headers);
    let home = named.filter(|_| of_workspace);
    let outbound = GivenOutbound { url, auth_type, configurations, secret_mappings }.read(home, &call)?;
    let found = ask(&call.app, call.actor.org, &outbound).await?;
    Ok(AdminReply::json(found.card.map_err(|why| bad("The agent", format_args!("gives no card: {why}")))?))
}

/// A request body with its secrets blotted out.
pub(super) fn blank(body: &mut Map<String, Value>) {
    match body.get_mut("headers") {
        Some(Value::Object(headers)) => headers.values_mut().for_each(|value| *value = MASK.into()),
        Some(other) => *other = MASK.into(),
        None => {}
    }
}
