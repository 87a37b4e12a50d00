//! What is written down of a request that something goes on with when it is over, by another node or much later: so
//! much that it can be made anew, as the caller and the configuration stand by then. It holds credentials, and is kept
//! sealed.

use super::capture_policy::CapturePolicy;
use super::headers::{GatewayHeaders, suffix_of};
use super::request::{AskedFor, Caller, LastLook, RawNames, Request, RequestContent, Tenant, TenantGuardrails, Waited};
use super::routing::{ChosenConfig, InlineConfigs, Routing};
use super::settings::ProxySettings;
use super::sticky_assignments::Assignments;
use super::{gateway_key, route_match, trace};
use crate::batches::{ConfigOfBatch, PinnedConfig, PinnedConfigs};
use crate::clock;
use crate::guardrails::Guardrails;
use crate::runtime_config::RuntimeConfig;
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::Tokens;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::Scopes;
use gateway_domain::snapshot::{Key, UseMark};
use gateway_domain::token::TokenError;
use gateway_domain::{Fault, FaultKind, OrgId, Secret, Timestamp};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use uuid::Uuid;

/// Where clients put keys: what of them is needed is kept by itself.
const OF_KEYS: &[&str] = &["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// Headers of the gateway's own that are kept as they stand once keys of browsers and bound ids have had their say.
const LED_BY: &[&str] = &["api-key", "config", "provider", "virtual-key"];

#[derive(Serialize, Deserialize)]
pub(crate) struct KeptAsk {
    /// What was in force then: a node that has not heard of it does not know who calls.
    revision: i64,
    workspace: Uuid,
    key: Uuid,
    key_name: String,
    /// The token that the caller came with, where no saved key stands for the caller.
    token: Option<String>,
    client_ip: Option<IpAddr>,
    trace: String,
    metadata: Vec<(String, String)>,
    model: Option<String>,
    headers: Vec<(String, String)>,
    config: Option<String>,
    provider: Option<String>,
    virtual_key: Option<String>,
    /// The client's own credential for the provider.
    credential: Option<String>,
    pinned: ConfigOfBatch,
    /// Where the target stands in the config.
    target: String,
    binds: bool,
}

/// Why a request cannot be made anew.
pub(crate) enum Unmade {
    /// Another time it may be.
    Later(&'static str),
    Never(String),
}

/// Where configs are found.
#[derive(Clone, Copy)]
pub(crate) struct AskConfigs<'a> {
    pub(crate) inline: &'a InlineConfigs,
    pub(crate) pinned: &'a PinnedConfigs,
    pub(crate) sticks: &'a Arc<Assignments>,
}

/// What a request is made anew by.
#[derive(Clone, Copy)]
pub(crate) struct AskWorld<'a> {
    pub(crate) settings: &'a ProxySettings,
    pub(crate) world: &'a Arc<RuntimeConfig>,
    pub(crate) tokens: &'a dyn Tokens,
}

/// What is asked when it is made anew.
#[derive(Clone, Copy)]
pub(crate) struct AskedAnew<'a> {
    pub(crate) org: OrgId,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
}

impl KeptAsk {
    /// Writes down a request with the headers of the client, but for its keys.
    pub(crate) fn of((request, routing): (&Request, &Routing), client: &HeaderMap, aliases: &[String]) -> Self {
        let is_apart = |name: &str| {
            OF_KEYS.contains(&name) || suffix_of(name, aliases).is_some_and(|suffix| LED_BY.contains(&suffix))
        };
        let told = client.iter().filter(|(name, _)| !is_apart(name.as_str()));
        let told = told.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
        let (tenant, led) = (&request.caller.tenant, &request.ask.headers);
        let token = tenant.key.token.as_ref().and_then(|_| gateway_key::key_text(client, aliases));
        Self {
            revision: tenant.world.snapshot.revision,
            workspace: tenant.workspace.id.0,
            key: tenant.key.id.0,
            key_name: (*tenant.key.name).to_owned(),
            token,
            client_ip: request.caller.client_ip,
            trace: (*request.caller.trace).to_owned(),
            metadata: request.caller.metadata.clone(),
            model: request.ask.content.model.as_deref().map(str::to_owned),
            headers: told.collect(),
            config: led.config.as_ref().and_then(|value| value.to_str().ok()).map(str::to_owned),
            provider: led.provider.as_deref().map(str::to_owned),
            virtual_key: led.virtual_key.as_deref().map(str::to_owned),
            credential: request.ask.credential.as_ref().map(|credential| credential.expose().clone()),
            pinned: routing.of_batch(),
            target: (*routing.plan.leaf().path).to_owned(),
            binds: routing.binds,
        }
    }

    /// Lets go of the other headers.
    pub(crate) fn keep_headers(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.headers.retain(|(name, _)| is_kept(name));
    }

    pub(crate) const fn workspace(&self) -> WorkspaceId {
        WorkspaceId(self.workspace)
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                headers.append(name, value);
            }
        }
        headers
    }

    /// The request by which the gateway itself goes on, of the same caller as it stands now. One that is gone has a key
    /// that may nothing.
    pub(crate) fn request(&self, by: AskWorld<'_>, asked: AskedAnew<'_>) -> Result<Box<Request>, Unmade> {
        let (AskWorld { settings, .. }, AskedAnew { org, path, query }, now) = (by, asked, clock::now());
        let never = |fault: Fault| Unmade::Never(fault.message().to_owned());
        let tenant = Arc::new(self.tenant(by, (org, now))?);
        let parsed = GatewayHeaders::parse(&self.headers(), &settings.header_alias, &settings.trusted);
        let mut headers = parsed.map_err(never)?;
        headers.config = self.config.as_deref().and_then(|config| HeaderValue::from_str(config).ok());
        headers.provider = self.provider.as_deref().map(Into::into);
        headers.virtual_key = self.virtual_key.as_deref().map(Into::into);
        let trace: Arc<str> = self.trace.as_str().into();
        let route = route_match::route(&Method::GET, path, query);
        Ok(Box::new(Request {
            caller: Caller {
                tenant,
                client_ip: self.client_ip,
                started: Instant::now(),
                at: now,
                looked: LastLook::default(),
                auth_us: 0,
                waited: Waited::default(),
                span: trace::of(&headers, &trace, settings.traced),
                trace,
                metadata: self.metadata.clone(),
                keep: CapturePolicy::Nothing,
            },
            ask: AskedFor {
                method: Method::GET,
                route: route.map_err(never)?,
                headers,
                credential: self.credential.clone().map(Secret::new),
                content: RequestContent { model: self.model.as_deref().map(Into::into), ..RequestContent::default() },
                prompt: None,
                reckoned: OnceLock::new(),
                untouched_model: None,
                pin: None,
                raw_names: RawNames::default(),
                upload: None,
                continues: None,
                first_event: None,
                call: None,
            },
        }))
    }

    fn tenant(&self, by: AskWorld<'_>, (org, now): (OrgId, Timestamp)) -> Result<Tenant, Unmade> {
        let AskWorld { world, tokens, .. } = by;
        let snapshot = &world.snapshot;
        if snapshot.revision < self.revision {
            return Err(Unmade::Later("this node has not heard of its caller yet"));
        }
        let gone = |what: &str| Unmade::Never(format!("the {what} of its caller is gone"));
        let org = snapshot.org(org).ok_or_else(|| gone("organisation"))?.clone();
        let workspace = snapshot.workspace(WorkspaceId(self.workspace)).ok_or_else(|| gone("workspace"))?.clone();
        let known = match &self.token {
            None => snapshot.key_by_id(KeyId(self.key)).cloned(),
            Some(text) => match tokens.key(snapshot, text, &KeyHash::of(text), now) {
                Ok(key) => Some(key),
                Err(TokenError::UnknownKey(_)) => {
                    return Err(Unmade::Later("nobody vouches for its caller's token yet"));
                }
                Err(_) => None,
            },
        };
        let key = known.filter(|_| workspace.active).unwrap_or_else(|| Arc::new(self.stand_in(org.id)));
        let guardrails = TenantGuardrails::of(snapshot, &org, &workspace);
        Ok(Tenant { world: world.clone(), key, org, workspace, guardrails, supposed: false, line: None })
    }

    /// A key that may nothing, for one that is gone: what it began has still to be ended, or paid for.
    fn stand_in(&self, org: OrgId) -> Key {
        Key {
            id: KeyId(self.key),
            org,
            workspace: Some(WorkspaceId(self.workspace)),
            kind: KeyKind::WorkspaceService,
            name: self.key_name.as_str().into(),
            owner: None,
            scopes: Scopes::default(),
            expires_at: None,
            active: false,
            defaults: None,
            rotation: None,
            limits: None,
            max_parallel: None,
            mcp_access: None,
            allowed_models: None,
            token: None,
            used: UseMark::default(),
        }
    }

    /// The target that the request had, by the config that it began with.
    pub(crate) async fn routing(
        &self,
        guardrails: &Guardrails,
        configs: AskConfigs<'_>,
        request: &mut Request,
    ) -> Result<Routing, Fault> {
        let tenant = request.caller.tenant.clone();
        let chosen = match &self.pinned {
            ConfigOfBatch::Saved { slug, version, .. } => match tenant.workspace.config(slug) {
                Some(found) if found.version_id == *version => ChosenConfig::saved(found),
                _ => {
                    let was = configs.pinned.as_it_was(self.pinned.clone()).await;
                    match was.map_err(|why| Fault::new(FaultKind::BadConfig, why.to_string()))? {
                        PinnedConfig::Saved(found) => ChosenConfig::saved(&found),
                        PinnedConfig::Request | PinnedConfig::None => ChosenConfig::bare(),
                    }
                }
            },
            ConfigOfBatch::Request => {
                let text = self.config.as_deref().unwrap_or_default().trim();
                ChosenConfig::inline(configs.inline.find(tenant.workspace.id, text).await?)
            }
            ConfigOfBatch::None => ChosenConfig::bare(),
        };
        request.ask.headers.integrated_models |= chosen.config.fetch_integrated_models;
        let gone = || Fault::new(FaultKind::BadConfig, "The target of the request is not in its config any more");
        let mut routing = Routing::resumed(chosen, &self.target, configs.sticks).ok_or_else(gone)?;
        routing.binds = self.binds;
        let config = routing.plan.config();
        if !config.hooks.is_empty() {
            routing.guards = Some(guardrails.of_config(config, routing.inline, &tenant.org).await?);
        }
        Ok(routing)
    }
}
