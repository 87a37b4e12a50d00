//! How a request comes in: what is turned away by its head alone, whose it is, and its place among those under way.
//! What is done with it is not known here.

use super::{Ctx, Gateway};
use crate::connections;
use crate::proxy::client_address::client_ip;
use crate::proxy::mcp::take_legacy;
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use crate::proxy::{http1_head, intake};
use gateway_domain::Fault;
use gateway_domain::ports::{Revision, Tokens as _};
use http::header;
use pingora::proxy::Session;
use std::time::Duration;

impl Gateway {
    /// What no request may be, whoever sends it.
    pub(crate) fn turn_away(&self, session: &mut Session, ctx: &mut Ctx) -> Option<Fault> {
        let is_encoded = session.req_header().headers.contains_key(header::TRANSFER_ENCODING);
        connections::heed(&session.downstream_session, is_encoded);
        if let Some(fault) = http1_head::check(session, is_encoded) {
            session.downstream_session.set_keepalive(None);
            return Some(fault);
        }
        if self.mcp.settings.legacy_sse {
            ctx.legacy = take_legacy(session.req_header_mut());
        }
        self.shield.storm(|| client_ip(session, &self.settings.trusted_proxies))
    }

    /// Who asks, and for what. Waits only for what a token may need to be known here.
    pub(crate) async fn receive(&self, session: &mut Session, ctx: &mut Ctx) -> Result<Box<Request>, Refused> {
        let mut received = intake::receive(&self.intake(), session, ctx.started, ctx.at);
        if let Some(org) = received.as_ref().err().and_then(|refused| refused.unknown_signer) {
            self.issuers.refresh(org).await;
            received = intake::receive(&self.intake(), session, ctx.started, ctx.at);
        }
        if let Some(revision) = received.as_ref().err().and_then(|refused| refused.awaits) {
            self.hear_of(revision).await;
            received = intake::receive(&self.intake(), session, ctx.started, ctx.at);
        }
        received.map_err(|refused| {
            let from = client_ip(session, &self.settings.trusted_proxies);
            self.shield.count_unknown((&*self.door, from), session.req_header(), refused)
        })
    }

    /// Waits a moment for this node to come as far as another was when it signed a token.
    async fn hear_of(&self, revision: Revision) {
        const STEP: Duration = Duration::from_millis(20);
        const STEPS: usize = 100;
        for _ in 0..STEPS {
            if self.live.current().snapshot.revision >= revision {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Counts the request from now on, and charges what it holds to its key.
    pub(crate) fn enter(&self, ctx: &mut Ctx, request: &Request) -> Result<(), Fault> {
        ctx.flight = Some(self.flight.enter(self.settings.max_connections)?);
        ctx.held.charge(request.caller.tenant.key.id.0);
        ctx.line.clone_from(&request.caller.tenant.line);
        Ok(())
    }
}
