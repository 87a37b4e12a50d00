//! What integrations with MCP servers and with agents have in common: where the thing outside is, and as whom it is
//! called. Knows neither protocol, and asks nobody.

mod external_auth;
pub(super) mod mappings;
pub(crate) mod settings;
mod sign_in;

use super::declared::{Declaring, put};
use super::integration;
use crate::change::WriteView;
use crate::input::Edit;
use crate::oauth::first_key;
use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::egress::check_custom_host;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Stored;
use gateway_domain::resource::mcp_sign_in::IdentityMethod;
use gateway_domain::resource::outbound::{OutboundAuth, OutboundSettings};
use serde_json::{Map, Value, json};
pub(super) use settings::GivenConfigurations;

/// What a request says of a new integration, or of one that is tried out.
pub(super) struct GivenOutbound {
    pub(super) url: String,
    pub(super) auth_type: String,
    pub(super) configurations: Option<GivenConfigurations>,
    pub(super) secret_mappings: Edit<Vec<Map<String, Value>>>,
}

impl GivenOutbound {
    pub(super) fn read(self, home: Option<WorkspaceId>, call: &AdminCall) -> Result<OutboundSettings, Problem> {
        check_url("url", &self.url, call)?;
        self.read_beside_url(home, call)
    }

    /// Reads the settings like [`Self::read`], for a caller that has checked the address already.
    pub(super) fn read_beside_url(
        self,
        home: Option<WorkspaceId>,
        call: &AdminCall,
    ) -> Result<OutboundSettings, Problem> {
        let mut settings = OutboundSettings::new(self.url, auth(&self.auth_type, call)?);
        if let Some(given) = self.configurations {
            given.onto(&mut settings, call)?;
        }
        if let Edit::Set(filled) = self.secret_mappings {
            mappings::merge(&mut settings, Edit::Set(filled), call)?;
        }
        check_headers(&settings)?;
        mappings::check(&settings, home, call)?;
        Ok(settings)
    }
}

/// What a request changes of an integration.
pub(super) struct OutboundPatch {
    pub(super) url: Edit<String>,
    pub(super) auth_type: Edit<String>,
    pub(super) configurations: Edit<GivenConfigurations>,
    pub(super) secret_mappings: Edit<Vec<Map<String, Value>>>,
}

impl OutboundPatch {
    /// `home`: whose integration it is.
    pub(super) fn onto(
        self,
        settings: &mut OutboundSettings,
        home: Option<WorkspaceId>,
        call: &AdminCall,
    ) -> Result<(), Problem> {
        if let Some(url) = self.url.required("url")? {
            check_url("url", &url, call)?;
            settings.url = url;
        }
        if let Some(kind) = self.auth_type.required("auth_type")? {
            settings.auth_type = auth(&kind, call)?;
        }
        match self.configurations {
            Edit::Keep => {}
            Edit::Clear => settings.clear(),
            Edit::Set(given) => given.onto(settings, call)?,
        }
        mappings::merge(settings, self.secret_mappings, call)?;
        check_headers(settings)?;
        mappings::check(settings, home, call)
    }
}

pub(super) fn check_url(field: &str, url: &str, call: &AdminCall) -> Result<(), Problem> {
    check_custom_host(url, &call.app.trusted).map(|_| ()).map_err(|rule| bad(field, rule))
}

fn auth(kind: &str, call: &AdminCall) -> Result<OutboundAuth, Problem> {
    match kind {
        "none" => Ok(OutboundAuth::None),
        "headers" => Ok(OutboundAuth::Headers),
        "oauth_client_credentials" => Ok(OutboundAuth::OauthClientCredentials),
        "oauth_auto" if call.app.public_url.is_none() => {
            Err(bad("auth_type", "`oauth_auto` needs --public-url: people come back there from the server's sign-in"))
        }
        "oauth_auto" => Ok(OutboundAuth::OauthAuto),
        _ => Err(bad("auth_type", "must be one of oauth_auto, oauth_client_credentials, headers, none")),
    }
}

fn check_headers(settings: &OutboundSettings) -> Result<(), Problem> {
    let signs_in = settings.auth_type == OutboundAuth::OauthClientCredentials;
    if signs_in && settings.oauth.is_none() {
        return Err(bad("configurations.oauth", "is required where auth_type is oauth_client_credentials"));
    }
    if !signs_in && settings.oauth.is_some() {
        return Err(bad("configurations.oauth", "belongs to auth_type oauth_client_credentials"));
    }
    if settings.auth_type != OutboundAuth::OauthAuto && settings.known_client.is_some() {
        return Err(bad("configurations.known_client", "belongs to auth_type oauth_auto"));
    }
    if settings.jwt_validation.is_some() && settings.external_auth_config.is_none() {
        return Err(bad("configurations.jwt_validation", "belongs to external_auth_config"));
    }
    let has_token = signs_in || settings.auth_type == OutboundAuth::OauthAuto;
    if settings.auth_type == OutboundAuth::OauthAuto && settings.custom_headers.contains_key("authorization") {
        let rule = "is what the integration's own sign-in sends";
        return Err(bad("configurations.custom_headers.authorization", rule));
    }
    let authorizes = settings.identity.as_ref().is_some_and(|rule| rule.header() == "authorization");
    if authorizes && (has_token || settings.custom_headers.contains_key("authorization")) {
        let field = "configurations.user_identity_forwarding";
        return Err(bad(field, "and the integration's own sign-in cannot both be sent as authorization"));
    }
    if let Some(rule) = settings.identity.as_ref().filter(|rule| settings.custom_headers.contains_key(rule.header())) {
        let field = format!("configurations.custom_headers.{}", rule.header());
        return Err(bad(field, "is what user_identity_forwarding sends"));
    }
    if settings.auth_type == OutboundAuth::None && !settings.custom_headers.is_empty() {
        return Err(bad(
            "configurations.custom_headers",
            "are sent where auth_type is headers, and not where it is none",
        ));
    }
    Ok(())
}

/// Whoever has calls signed needs a key that signs.
pub(super) fn key_for(settings: &OutboundSettings, around: &WriteView<'_>) -> Result<Option<Stored>, Problem> {
    let signs = settings.identity.as_ref().is_some_and(|rule| rule.method == IdentityMethod::JwtHeader);
    if signs { first_key(around.app, &around.snapshot) } else { Ok(None) }
}

/// The settings as the Admin API shows them.
pub(super) fn view(settings: &OutboundSettings, call: &AdminCall) -> Map<String, Value> {
    let view = json!({
        "url": settings.url,
        "auth_type": settings.auth_type,
        "configurations": settings::masked(settings, call),
        "secret_mappings": integration::mappings::shown(&settings.secret_mappings),
    });
    view.as_object().cloned().unwrap_or_default()
}

/// Puts the settings into the fields of a declaration, as a configuration file holds them.
pub(super) fn declare(
    settings: &OutboundSettings,
    fields: &mut Map<String, Value>,
    to: &mut Declaring<'_>,
) -> Result<(), Problem> {
    put(fields, "url", &settings.url);
    put(fields, "auth_type", settings.auth_type);
    let mut headers = Map::new();
    for (name, sealed) in &settings.custom_headers {
        headers.insert(name.clone(), to.sealed(&["configurations", "custom_headers", name], sealed)?);
    }
    let mut configurations = Map::new();
    if !headers.is_empty() {
        configurations.insert("custom_headers".to_owned(), json!(headers));
    }
    if !settings.pricing.is_empty() {
        configurations.insert("pricing".to_owned(), json!(settings.pricing));
    }
    if let Some(client) = &settings.oauth {
        let secret = to.sealed(&["configurations", "oauth", "client_secret"], &client.client_secret)?;
        let mut client = json!(client);
        client["client_secret"] = secret;
        configurations.insert("oauth".to_owned(), client);
    }
    if let Some(client) = &settings.known_client {
        let mut told = json!(client);
        if let Some(sealed) = &client.client_secret {
            told["client_secret"] = to.sealed(&["configurations", "known_client", "client_secret"], sealed)?;
        }
        configurations.insert("known_client".to_owned(), told);
    }
    configurations.extend(settings::shown_auth(settings));
    if let Some(rule) = &settings.identity {
        configurations.insert("user_identity_forwarding".to_owned(), json!(rule));
    }
    if !configurations.is_empty() {
        fields.insert("configurations".to_owned(), json!(configurations));
    }
    let filled = settings.secret_mappings.iter().map(|mapping| {
        let reference = to.names.name(mapping.secret_reference_id.0);
        integration::mappings::render(mapping, &reference)
    });
    put(fields, "secret_mappings", filled.collect::<Vec<_>>());
    Ok(())
}
