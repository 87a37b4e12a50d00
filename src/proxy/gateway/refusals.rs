//! How what comes to nothing is told: a fault in the dialect of its path, recorded where the tenant is known. Knows
//! nothing of why it was refused.

use super::{Ctx, Gateway};
use crate::proxy::client;
use crate::proxy::exchange::Unanswered;
use crate::proxy::mcp::McpChallenge;
use crate::proxy::record::{self, BodyCapture, RecordBodies};
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use crate::proxy::{deliver, intake, route_match};
use gateway_domain::{Fault, FaultKind};
use http::header;
use pingora::Error;
use pingora::proxy::Session;

impl Gateway {
    /// Answers with a fault; of a known tenant it is a record too.
    pub(crate) async fn refuse(&self, session: &mut Session, ctx: &mut Ctx, refused: Refused) -> pingora::Result<bool> {
        let Refused { fault, request, .. } = refused;
        let head = session.req_header();
        let dialect = route_match::dialect(&head.method, head.uri.path());
        let challenge = self.challenge(head, &fault);
        if matches!(fault.kind(), FaultKind::Flooded | FaultKind::TooLarge | FaultKind::SlowClient | FaultKind::Busy) {
            session.downstream_session.set_keepalive(None);
        }
        let mut answer = deliver::refusal(&self.names, &fault, dialect, request.as_deref());
        if let Some(challenge) = challenge {
            answer.head.insert_header(header::WWW_AUTHENTICATE, challenge)?;
        }
        let length = answer.body.len() as u64;
        let sent = client::answer_early(session, answer).await;
        if let Some(request) = request.filter(|request| !request.caller.tenant.supposed) {
            let mut record = record::refused(&request, &fault, if sent.is_ok() { length } else { 0 });
            let mut capture = BodyCapture::new(request.caller.keep, &self.budget);
            capture.sent_if_wanted(|| fault.body(dialect).into());
            let (settings, budget) = (&*self.settings, &self.budget);
            RecordBodies { settings, budget, session, request: &request, sent: None, rewritten: None }
                .answered(&mut record, capture);
            ctx.records.push(record);
        }
        sent.map(|()| true).map_err(Error::into_down)
    }

    /// What became of an exchange.
    pub(crate) async fn end(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        ended: Result<(), Unanswered>,
    ) -> pingora::Result<bool> {
        match ended {
            Ok(()) => Ok(true),
            Err(Unanswered::ClientLeft(left)) => Err(left.into_error()),
            Err(Unanswered::Denied(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// What a client of an MCP server is told of how to come again.
    fn challenge(&self, head: &pingora::http::RequestHeader, fault: &Fault) -> Option<header::HeaderValue> {
        let authorization = self.mcp.authorization()?;
        let why = match fault.kind() {
            FaultKind::Unauthenticated if head.headers.contains_key(header::AUTHORIZATION) => McpChallenge::BadToken,
            FaultKind::Unauthenticated => McpChallenge::NoToken,
            FaultKind::Forbidden if fault.message() == intake::NO_MCP => McpChallenge::NoScope,
            _ => return None,
        };
        authorization.challenge(head.uri.path(), why)
    }
}
