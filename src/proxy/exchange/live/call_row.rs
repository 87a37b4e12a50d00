//! What is written down of a call, so that whoever watches it next can make its request anew.

use crate::proxy::exchange::{AdmissionGate, CallParts};
use crate::proxy::request::Request;
use crate::proxy::stored_request::{AskWorld, AskedAnew, KeptAsk, Unmade};
use gateway_domain::ports::Tokens;
use gateway_domain::{OrgId, Timestamp};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
pub(super) struct CallRow {
    /// The provider's own id.
    pub(super) call: String,
    /// Microseconds since 1970.
    began: i64,
    #[serde(flatten)]
    pub(super) ask: KeptAsk,
}

impl CallRow {
    pub(super) fn of(
        AdmissionGate { parts, request, routing }: AdmissionGate<'_>,
        call: &str,
        client: &HeaderMap,
    ) -> Self {
        let ask = KeptAsk::of((request, routing), client, &parts.delivery.settings.header_alias);
        Self { call: call.to_owned(), began: request.caller.at.micros(), ask }
    }

    pub(super) fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("it cannot be read: {e}"))
    }

    /// How long the call has lasted.
    pub(super) fn age(&self, now: Timestamp) -> Duration {
        Duration::from_micros(now.micros().saturating_sub(self.began).max(0).unsigned_abs())
    }

    /// The request by which the gateway itself goes on, of the same caller as it stands now.
    pub(super) fn request(&self, parts: &CallParts, tokens: &dyn Tokens, org: OrgId) -> Result<Box<Request>, Unmade> {
        let (settings, world) = (&*parts.delivery.settings, &parts.live.live.current());
        let query = format!("call_id={}", self.call);
        let asked = AskedAnew { org, path: "/v1/realtime", query: Some(&query) };
        self.ask.request(AskWorld { settings, world, tokens }, asked)
    }
}
