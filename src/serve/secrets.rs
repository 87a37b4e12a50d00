//! What organisations keep in managers of their own, read by nodes that call providers with it. One that only serves
//! the Admin API has no business to read it.

use super::boot::{self, Booted};
use super::{Calling, outbound};
use crate::health::HealthComponents;
use crate::metrics::Metrics;
use crate::secrets::{KeeperParts, start};
use crate::settings::{Role, Settings, aws};
use crate::upstream::{SecretPlaces, SecretReader};
use gateway_admin::{App, ComponentStatus};
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Returns when what stands was asked for once, or some seconds have gone; the control plane is told how secrets stand.
pub(super) fn follow(app: App, settings: &Settings, booted: &Booted, parts: &NodeParts<'_>) -> Result<App, String> {
    if settings.role == Role::Admin {
        return Ok(app);
    }
    let places = SecretPlaces {
        aws: aws::secrets_endpoint(),
        kubernetes_token: settings.kubernetes_token_file.clone(),
        variable: aws::variable,
    };
    let (credentials, openings) = (parts.calling.credentials.clone(), Arc::new(boot::openings(settings)));
    let reader = SecretReader::new(outbound(booted)?, credentials, booted.trusted.clone(), openings, places);
    let keeper = KeeperParts { reader, live: booted.live.clone(), every: settings.secret_refresh.0 };
    let ledger = start(parts.control, keeper, parts.metrics)?;
    let told = ledger.clone();
    parts
        .health
        .add(move || ComponentStatus::new("secrets", json!({ "references": told.known() })).troubled(told.trouble()));
    Ok(App { secrets: Some(Arc::new(ledger)), ..app })
}

/// What it needs of the process.
pub(super) struct NodeParts<'a> {
    pub(super) metrics: &'a Metrics,
    pub(super) health: &'a HealthComponents,
    pub(super) control: &'a Runtime,
    pub(super) calling: &'a Calling,
}
