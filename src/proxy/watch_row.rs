//! What is written down of a batch that a client made at a provider, so that the gateway looks at it itself: what the
//! provider calls it, and the request that made it.

use super::headers::GatewayHeaders;
use super::own_objects;
use super::request::Request;
use super::routing::Routing;
use super::stored_request::KeptAsk;
use crate::bookings::{BatchWatches, BookingId, WatchedWork};
use gateway_domain::id::WorkspaceId;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct WatchRow {
    /// The provider's own id.
    pub(crate) native: String,
    #[serde(flatten)]
    pub(crate) ask: KeptAsk,
}

/// A batch that a client just made at a provider.
pub(crate) struct MadeBatch<'a> {
    pub(crate) asked: (&'a Request, &'a Routing),
    pub(crate) client: (&'a HeaderMap, &'a [String]),
    pub(crate) id: BookingId,
    /// The provider's own id.
    pub(crate) native: &'a str,
}

impl MadeBatch<'_> {
    /// Has it counted though nobody looks at it again.
    pub(crate) async fn watch(self, watches: &BatchWatches) {
        // Where nobody looks nothing is written down.
        if watches.are_on() {
            let row = WatchRow::of(self.asked, self.client, self.native);
            watches.note(WatchedWork { id: self.id, owner: own_objects::owner(self.asked.0) }, &row.written()).await;
        }
    }
}

impl WatchRow {
    /// Makes a row for a batch. It keeps only those headers of the client that say how a provider is asked.
    fn of((request, routing): (&Request, &Routing), (client, aliases): (&HeaderMap, &[String]), native: &str) -> Self {
        let mut ask = KeptAsk::of((request, routing), client, aliases);
        ask.keep_headers(|name| GatewayHeaders::reads(name, aliases));
        Self { native: native.to_owned(), ask }
    }

    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("it cannot be read: {e}"))
    }

    pub(crate) const fn workspace(&self) -> WorkspaceId {
        self.ask.workspace()
    }
}
