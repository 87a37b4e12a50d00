//! The proxy as one value, and what of it each room below is handed. Decides nothing about a request but whether it
//! comes in (`entry.rs`), how it is planned, and how it is refused.

mod ctx;
mod entry;
mod planning;
mod refusals;

pub(crate) use ctx::Ctx;

use super::admission_guard::AdmissionGuard;
use super::body::BufferBudget;
use super::control::{ControlParts, ControlPlane};
use super::deliver::ReplyNames;
use super::exchange::CallParts;
use super::intake::IntakeParts;
use super::mcp::McpState;
use super::own_objects::OwnParts;
use super::own_tokens::OwnTokens;
use super::routing::{BreakerStates, InlineConfigs};
use super::settings::ProxySettings;
use super::sticky_assignments::Assignments;
use crate::batches::SharedBatches;
use crate::explanations::Explainer;
use crate::in_flight::InFlight;
use crate::issuers::Issuers;
use crate::runtime_config::ConfigHandle;
use crate::writer::Records;
use gateway_domain::ports::{Doorkeeper, KeyUses};
use std::sync::Arc;

/// The proxy: one value, shared by all workers and their connections.
pub(crate) struct Gateway {
    pub(crate) settings: Arc<ProxySettings>,
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) calls: Arc<CallParts>,
    pub(crate) budget: Arc<BufferBudget>,
    pub(crate) records: Records,
    pub(crate) names: Arc<ReplyNames>,
    pub(crate) inline: Arc<InlineConfigs>,
    pub(crate) breakers: Arc<BreakerStates>,
    pub(crate) sticks: Arc<Assignments>,
    pub(crate) shield: Arc<AdmissionGuard>,
    pub(crate) door: Arc<dyn Doorkeeper>,
    pub(crate) uses: Arc<dyn KeyUses>,
    pub(crate) control: ControlPlane,
    pub(crate) mcp: Arc<McpState>,
    pub(crate) own_tokens: OwnTokens,
    pub(crate) batches: SharedBatches,
    /// Sends requests through here that are only supposed.
    pub(crate) explainer: Arc<Explainer>,
    pub(crate) flight: InFlight,
}

impl Gateway {
    pub(crate) fn intake(&self) -> IntakeParts<'_> {
        IntakeParts {
            settings: &self.settings,
            live: &self.live,
            issuers: &self.issuers,
            shield: &self.shield,
            own_tokens: &self.own_tokens,
            callers: &self.batches.callers,
            ids: &*self.calls.ids,
            uses: &*self.uses,
            signing_in: self.mcp.authorization(),
        }
    }

    pub(crate) fn control(&self) -> ControlParts<'_> {
        ControlParts {
            plane: &self.control,
            settings: &self.settings,
            live: &self.live,
            issuers: &self.issuers,
            shield: &self.shield,
            names: &self.names,
            budget: &self.budget,
            flight: &self.flight,
        }
    }

    pub(crate) fn own_parts(&self) -> OwnParts<'_> {
        OwnParts { batches: &self.batches, names: &self.names, settings: &self.settings }
    }
}
