//! Who hears a session at the gateway: the client that opened it, or nobody, where the gateway listens for itself to
//! what is said in a call whose media go elsewhere.

use super::session::Unheard;
use crate::proxy::client::Client;
use bytes::Bytes;
use http::HeaderMap;
use std::future::pending;

pub(super) enum Listener<'x, 'c> {
    Client(&'x mut Client<'c>),
    /// No client listens; holds the headers of whoever began the call, which guardrails may ask for.
    Nobody(&'x HeaderMap),
}

impl Listener<'_, '_> {
    pub(super) const fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody(_))
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Client(client) => &client.view().req_header().headers,
            Self::Nobody(headers) => headers,
        }
    }

    /// What the client says next; `None`: it is gone. Nothing is lost when it is dropped.
    pub(super) async fn read(&mut self) -> Option<Bytes> {
        match self {
            Self::Client(client) => client.session().downstream_session.read_request_body().await.ok().flatten(),
            Self::Nobody(_) => pending().await,
        }
    }

    pub(super) async fn piece(&mut self, piece: Option<Bytes>, end: bool) -> Result<(), Unheard> {
        match self {
            Self::Client(client) => client.piece(piece, end).await.map_err(|_| Unheard),
            Self::Nobody(_) => Ok(()),
        }
    }
}
