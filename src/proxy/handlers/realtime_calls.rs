//! Calls over WebRTC and SIP: what a client asks is read, routed and sent on like any request; one that begins is
//! watched from then on beside everything else, until it is over.

use crate::proxy::body::{self, BodyError, BodyLimits};
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::client::Client;
use crate::proxy::content::look;
use crate::proxy::exchange::Exchange;
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::hooks::{self, GuardSearch};
use crate::proxy::realtime_call_request::{AskedCall, CallAsk, MOST_BODY};
use crate::proxy::refusal::Refused;
use crate::proxy::request::{AskedFor, Request, RequestContent};
use crate::proxy::routing::Routing;
use crate::proxy::short_keys::permit_models;
use crate::proxy::target::resolve;
use crate::proxy::text_guard::{GuardedText, TextGuard};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_realtime::{each_text, texts_alone};
use http::{HeaderMap, header};
use pingora::proxy::Session;
use serde_json::Map;

impl Gateway {
    /// Whatever is asked of calls.
    pub(in crate::proxy) async fn realtime_call(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        // Offers hold addresses and passwords of their callers.
        request.caller.keep = CapturePolicy::Nothing;
        let limits = BodyLimits { most: self.settings.max_body.min(MOST_BODY), time: self.settings.body_timeout };
        let body = match body::read(&mut session.downstream_session, limits, &mut ctx.held).await {
            Ok(body) => body.bytes,
            Err(BodyError::Gone(e)) => return Err(e.into_down()),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
        };
        let media = session.get_header(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if let Err(fault) = take(&mut request, media.as_deref(), &body).await {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        let mut seat = None;
        if request.ask.call.as_ref().is_some_and(|ask| ask.begins()) {
            let session_json = serde_json::from_slice::<Map<_, _>>(&request.ask.content.bytes).unwrap_or_default();
            if let Err(fault) = permit_models(&session_json, &request, &routing) {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            let headers = session.req_header().headers.clone();
            if let Err(fault) = Box::pin(self.judge_call(&mut request, &routing, &headers)).await {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            seat = self.calls.live.seats.take();
            if seat.is_none() {
                let why = "The gateway watches as many calls as it may (--realtime-calls): try again later";
                return self.refuse(session, ctx, Refused::of(Fault::new(FaultKind::Busy, why), request)).await;
            }
        }
        let client = Client::new(session);
        let mut exchange = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records);
        exchange.seat = seat;
        let ended = exchange.run().await;
        let watch = exchange.watch.take();
        drop(exchange);
        if let Some(watch) = watch {
            self.calls.delivery.background.spawn(watch.run(self.calls.clone(), self.flight.board()));
        }
        self.end(session, ctx, request, ended).await
    }

    /// What the session of a call says to its model is judged before it goes up, as what a client writes in a session
    /// is.
    async fn judge_call(&self, request: &mut Request, routing: &Routing, client: &HeaderMap) -> Result<(), Fault> {
        let leaf = &**routing.plan.leaf();
        let text = String::from_utf8_lossy(&request.ask.content.bytes).into_owned();
        if hooks::is_unguarded(request, leaf) || texts_alone(&text).is_none() {
            return Ok(());
        }
        let aim = resolve(leaf, routing.inline, request)?;
        let guardrails = &*self.calls.guardrails;
        let (aliases, budget) = (&self.settings.header_alias[..], &self.budget);
        let search = GuardSearch { guardrails, request, routing, leaf, aim: &aim, client, aliases, budget };
        let Some(guards) = hooks::guarded(search).await?.filter(|guards| !guards.input.is_empty()) else {
            return Ok(());
        };
        match TextGuard::new(*guards, false).judge_asked(guardrails, &text, each_text).await {
            GuardedText::Same => Ok(()),
            GuardedText::Other(other) => {
                let content = &mut request.ask.content;
                (content.bytes, content.model_span) = (other.into(), None);
                Ok(())
            }
            GuardedText::Denied => {
                let why = "A guardrail denied what the session of the call says";
                Err(Fault::new(FaultKind::Refused, why).code("hooks_failed").on("session"))
            }
        }
    }
}

/// Puts what is asked in the place of the body.
async fn take(request: &mut Request, media: Option<&str>, body: &Bytes) -> Result<(), Fault> {
    let AskedFor { route, first_event, .. } = &request.ask;
    let at = AskedCall { tail: route.tail(), query: route.query.as_deref(), first_event: first_event.as_deref() };
    let (ask, json) = CallAsk::read(at, media, body)?;
    let found = match json.is_empty() {
        true => RequestContent::default(),
        false => look(&json, Operation::RealtimeCall).await?,
    };
    request.ask.content = RequestContent { bytes: json, ..found };
    request.ask.call = Some(Box::new(ask));
    request.ask.first_event = None;
    Ok(())
}
