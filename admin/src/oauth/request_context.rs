//! One request at these routes, with what they share on this node.

use super::client_metadata::VouchedClients;
use super::fault::OauthFault;
use super::rate_limit::Paces;
use crate::app::App;
use crate::route::Visit;
use std::sync::Arc;

/// What the routes share on this node.
#[derive(Default)]
pub(super) struct SignInDesk {
    pub(super) paces: Paces,
    pub(super) vouched: VouchedClients,
}

/// One request, read whole.
pub(super) struct OauthVisit {
    pub(super) desk: Arc<SignInDesk>,
    pub(super) visit: Visit,
}

impl OauthVisit {
    pub(super) fn app(&self) -> &App {
        &self.visit.app
    }

    /// Where clients reach this installation, which is also what it calls itself as an issuer.
    pub(super) fn issuer(&self) -> Result<&str, OauthFault> {
        self.app().issuer().ok_or_else(OauthFault::off)
    }

    pub(super) fn place(&self, path: &str) -> Result<String, OauthFault> {
        Ok(format!("{}{path}", self.issuer()?))
    }
}
