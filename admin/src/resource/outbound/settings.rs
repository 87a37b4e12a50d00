//! How something outside is called, an MCP server or an agent: its address, headers and credentials, read strictly,
//! sealed, masked, and opened for a call.

use super::external_auth::{GivenExternalAuth, GivenJwtValidation};
use super::sign_in::{GivenForwarding, GivenKnownClient, GivenOauthClient};
use crate::app::App;
use crate::input::Edit;
use crate::mcp_account::{NoAccountToken, account_token};
use crate::mcp_probe::ProbeTarget;
use crate::problem::{Problem, bad, internal};
use crate::route::AdminCall;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::id::{McpIntegrationId, OrgId};
use gateway_domain::resource::mcp_pricing::McpPricing;
use gateway_domain::resource::mcp_sign_in::{McpKnownClient, McpOauthClient};
use gateway_domain::resource::outbound::{OutboundAuth, OutboundSettings};
use gateway_domain::secret::{MASK, Secret, mask};
use http::{HeaderName, HeaderValue, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const MOST_HEADERS: usize = 50;
const LONGEST: usize = 16 * 1024;
/// What the protocol says of a message itself.
const OWN: &[&str] = &[
    "accept",
    "content-type",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
    "a2a-version",
    "a2a-extensions",
];

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::resource) struct GivenConfigurations {
    #[serde(default)]
    custom_headers: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    pricing: Edit<GivenPricing>,
    #[serde(default)]
    oauth: Edit<GivenOauthClient>,
    #[serde(default)]
    known_client: Edit<GivenKnownClient>,
    #[serde(default)]
    external_auth_config: Edit<GivenExternalAuth>,
    #[serde(default)]
    jwt_validation: Edit<GivenJwtValidation>,
    #[serde(default)]
    user_identity_forwarding: Edit<GivenForwarding>,
    /// A field of the contract that is not in this version: whoever gives it is refused.
    #[serde(default)]
    passthrough_header: Option<Value>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenPricing {
    default_usd_per_call: Option<f64>,
    #[serde(default)]
    tools: BTreeMap<String, f64>,
}

impl GivenPricing {
    fn read(self) -> Result<McpPricing, Problem> {
        let pricing = McpPricing { default_usd_per_call: self.default_usd_per_call, tools: self.tools };
        pricing.check().map_err(|(field, rule)| bad(format_args!("configurations.pricing.{field}"), rule))?;
        Ok(pricing)
    }
}

impl GivenConfigurations {
    /// Absent keeps, null clears; the mask of a stored value keeps it.
    pub(in crate::resource) fn onto(self, doc: &mut OutboundSettings, call: &AdminCall) -> Result<(), Problem> {
        if self.passthrough_header.is_some_and(|given| !given.is_null()) {
            return Err(bad("configurations.passthrough_header", "is not available in this version"));
        }
        match self.pricing {
            Edit::Keep => {}
            Edit::Clear => doc.pricing = McpPricing::default(),
            Edit::Set(given) => doc.pricing = given.read()?,
        }
        match self.oauth {
            Edit::Keep => {}
            Edit::Clear => doc.oauth = None,
            Edit::Set(given) => doc.oauth = Some(given.read(doc.oauth.as_ref(), call)?),
        }
        match self.known_client {
            Edit::Keep => {}
            Edit::Clear => doc.known_client = None,
            Edit::Set(given) => doc.known_client = Some(given.read(doc.known_client.as_ref(), call)?),
        }
        match self.external_auth_config {
            Edit::Keep => {}
            Edit::Clear => (doc.external_auth_config, doc.jwt_validation) = (None, None),
            Edit::Set(given) => doc.external_auth_config = Some(given.read(call)?),
        }
        match self.jwt_validation {
            Edit::Keep => {}
            Edit::Clear => doc.jwt_validation = None,
            Edit::Set(given) => doc.jwt_validation = Some(given.read(call)?),
        }
        match self.user_identity_forwarding {
            Edit::Keep => {}
            Edit::Clear => doc.identity = None,
            Edit::Set(given) => doc.identity = Some(given.read(call)?),
        }
        let stored = &mut doc.custom_headers;
        let Some(headers) = self.custom_headers.or_default() else { return Ok(()) };
        if headers.len() > MOST_HEADERS {
            let rule = format_args!("must hold at most {MOST_HEADERS} headers");
            return Err(bad("configurations.custom_headers", rule));
        }
        let mut sealed = BTreeMap::new();
        for (name, value) in headers {
            let field = format!("configurations.custom_headers.{name}");
            let name = check_name(&name).map_err(|rule| bad(&field, rule))?;
            let kept = stored.get(&name).filter(|s| call.app.vault.open(s).is_ok_and(|v| mask(v.expose()) == value));
            let at_rest = match kept {
                Some(kept) => kept.clone(),
                None => {
                    check_value(&value).map_err(|rule| bad(&field, rule))?;
                    call.app.vault.seal(&value)
                }
            };
            if sealed.insert(name, at_rest).is_some() {
                return Err(bad(field, "is given twice, in two casings"));
            }
        }
        *stored = sealed;
        Ok(())
    }
}

pub(in crate::resource) fn check_name(name: &str) -> Result<String, &'static str> {
    let name = check_forward_header(name)?;
    if OWN.contains(&name.as_str()) { Err("is set by the protocol") } else { Ok(name) }
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > LONGEST || HeaderValue::from_str(value).is_err() {
        return Err(format!("must be 1..{LONGEST} printable ASCII characters"));
    }
    if value.starts_with(MASK) {
        return Err("is a masked value that stands for no stored one".to_owned());
    }
    Ok(())
}

pub(in crate::resource) fn masked(doc: &OutboundSettings, call: &AdminCall) -> Value {
    let shown = |sealed: &String| call.app.vault.open(sealed).map_or_else(|_| MASK.to_owned(), |v| mask(v.expose()));
    let headers: BTreeMap<&String, String> =
        doc.custom_headers.iter().map(|(name, sealed)| (name, shown(sealed))).collect();
    let mut view = Map::new();
    if !headers.is_empty() {
        view.insert("custom_headers".to_owned(), json!(headers));
    }
    if !doc.pricing.is_empty() {
        view.insert("pricing".to_owned(), json!(doc.pricing));
    }
    if let Some(client) = &doc.oauth {
        let shown = McpOauthClient { client_secret: shown(&client.client_secret), ..client.clone() };
        view.insert("oauth".to_owned(), json!(shown));
    }
    if let Some(client) = &doc.known_client {
        let shown = McpKnownClient { client_secret: client.client_secret.as_ref().map(shown), ..client.clone() };
        view.insert("known_client".to_owned(), json!(shown));
    }
    view.extend(shown_auth(doc));
    if let Some(rule) = &doc.identity {
        view.insert("user_identity_forwarding".to_owned(), json!(rule));
    }
    Value::Object(view)
}

/// Where people sign in for it, and what their tokens must say; none of it is secret.
pub(in crate::resource) fn shown_auth(doc: &OutboundSettings) -> Map<String, Value> {
    let mut shown = Map::new();
    if let Some(auth) = &doc.external_auth_config {
        shown.insert("external_auth_config".to_owned(), json!(auth));
    }
    if let Some(rules) = &doc.jwt_validation {
        shown.insert("jwt_validation".to_owned(), json!(rules));
    }
    shown
}

/// A request body with its secrets blotted out.
pub(in crate::resource) fn blank(body: &mut Map<String, Value>) {
    let Some(configurations) = body.get_mut("configurations") else { return };
    match configurations.get_mut("custom_headers") {
        Some(Value::Object(headers)) => headers.values_mut().for_each(|v| *v = MASK.into()),
        Some(other) => *other = MASK.into(),
        None => {}
    }
    for client in ["oauth", "known_client"] {
        match configurations.get_mut(client) {
            Some(Value::Object(client)) => {
                client.get_mut("client_secret").into_iter().for_each(|secret| *secret = MASK.into());
            }
            Some(other) => *other = MASK.into(),
            None => {}
        }
    }
}

/// The address and headers that the server or agent is called with, the token that it wants among them. The inner `Err`
/// says why it cannot be called now: there is no token, or what should fill a header is not there.
pub(crate) async fn target(
    doc: &OutboundSettings,
    (org, id): (OrgId, Option<McpIntegrationId>),
    app: &App,
) -> Result<Result<ProbeTarget, String>, Problem> {
    let mut headers = Vec::new();
    if let Some(client) = doc.oauth.as_ref().filter(|_| doc.auth_type == OutboundAuth::OauthClientCredentials) {
        let secret = app.vault.open(&client.client_secret).map_err(internal)?;
        let grant = Arc::new(client.grant(secret));
        let Some(credentials) = &app.credentials else {
            return Ok(Err("this process fetches no tokens".to_owned()));
        };
        match credentials.header(&grant).await {
            Ok(value) => headers.push((header::AUTHORIZATION, value)),
            Err(why) => return Ok(Err(why)),
        }
    }
    if doc.auth_type == OutboundAuth::OauthAuto {
        match account(doc, id, app).await? {
            Ok(value) => headers.push((header::AUTHORIZATION, value)),
            Err(why) => return Ok(Err(why)),
        }
    }
    let mut put = |name: &str, value: &Secret<String>| -> Result<(), Problem> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(internal)?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(internal)?;
        value.set_sensitive(true);
        headers.push((name, value));
        Ok(())
    };
    for (name, sealed) in &doc.custom_headers {
        put(name, &app.vault.open(sealed).map_err(internal)?)?;
    }
    match app.live.snapshot().mapped_headers(&doc.secret_mappings, org) {
        Ok(filled) => filled.iter().try_for_each(|(name, value)| put(name, value))?,
        Err(why) => return Ok(Err(why)),
    }
    Ok(Ok(ProbeTarget { url: doc.url.clone(), headers }))
}

/// The token of whoever connected an account last: a server that asks for one says nothing of itself without it.
async fn account(
    doc: &OutboundSettings,
    id: Option<McpIntegrationId>,
    app: &App,
) -> Result<Result<HeaderValue, String>, Problem> {
    let nobody = "nobody has connected an account there yet";
    let Some(id) = id else { return Ok(Err(nobody.to_owned())) };
    let Some(row) = app.accounts.newest_account(id).await? else { return Ok(Err(nobody.to_owned())) };
    let token = account_token(app, row.id, &doc.url, None).await;
    Ok(match token {
        Ok(token) => Ok(token.header),
        Err(NoAccountToken::NotConnected) => Err(nobody.to_owned()),
        Err(NoAccountToken::Renewing) => Err("the account that it is asked with is being renewed".to_owned()),
        Err(NoAccountToken::Away(why)) => Err(why),
    })
}
