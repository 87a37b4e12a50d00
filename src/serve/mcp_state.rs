//! What the process keeps for MCP, made of the settings.

use super::boot::Booted;
use super::process::Process;
use crate::metrics::Metrics;
use crate::proxy::{CorsOrigins, DuplexBounds, McpAuthorization, McpFigures, McpPeople, McpSettings, McpState};
use crate::settings::Settings;
use crate::upstream::Programs;
use gateway_admin::App;
use std::sync::Arc;
use tokio::runtime::Runtime;

pub(super) fn mcp_state(
    settings: &Settings,
    booted: &Booted,
    process: &Arc<Process>,
    backing: McpBacking<'_>,
) -> Result<Arc<McpState>, String> {
    let McpBacking { people, programs, metrics } = backing;
    // The place where browsers reach this installation is one of its own.
    let public = settings.public_url.iter().map(|url| {
        let mut parts = url.splitn(4, '/');
        let (scheme, host) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        format!("{scheme}//{host}")
    });
    let origins: Vec<String> = settings.mcp_allowed_origins.iter().cloned().chain(public).collect();
    let origins = CorsOrigins::parse(&origins).map_err(|why| why.replace("--cors-origins", "--mcp-allowed-origins"))?;
    let authorization = McpAuthorization::new(settings.public_url.as_deref(), &settings.mcp_authorization_servers)?;
    let told = McpSettings {
        session_ttl: settings.mcp_session_ttl.0,
        silence: settings.mcp_timeout.0,
        longest: settings.mcp_max_time.0,
        list_ttl: settings.mcp_list_ttl.0,
        origins,
        public_url: settings.public_url.as_deref().map(|url| url.trim_end_matches('/').into()),
        trusted: booted.trusted.clone(),
        authorization,
        legacy_sse: settings.mcp_legacy_sse,
    };
    let process = process.clone();
    let bounds = DuplexBounds {
        connections: settings.mcp_connections,
        programs: settings.mcp_programs,
        idle: settings.mcp_connection_idle.0,
    };
    let state = McpState::new(booted.vault.clone(), told, (bounds, programs), move || process.is_draining());
    let state = Arc::new(state.with_people(people));
    let figures = McpFigures::new(state.clone()).and_then(|figures| metrics.register(Box::new(figures)));
    figures.map_err(|e| format!("metrics cannot be set up: {e}"))?;
    Ok(state)
}

/// What stands behind it.
pub(super) struct McpBacking<'a> {
    people: McpPeople,
    programs: Arc<Programs>,
    metrics: &'a Metrics,
}

impl<'a> McpBacking<'a> {
    pub(super) fn new(
        app: App,
        (metrics, control): (&'a Metrics, &Runtime),
        programs: &Arc<Programs>,
    ) -> Result<Self, String> {
        let people = McpPeople::new(app, control.handle().clone());
        people.watch(metrics).map_err(|e| format!("metrics cannot be set up: {e}"))?;
        Ok(Self { people, programs: programs.clone(), metrics })
    }
}
