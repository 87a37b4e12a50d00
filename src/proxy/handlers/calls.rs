//! The ways of nearly all calls: a body that is held and exchanged, and one that streams up. What leaves them midway,
//! since only the body or the plan tells that it is served otherwise, is handed to its own handler.

use crate::proxy::body::BodyError;
use crate::proxy::client::{Client, Upload, framing};
use crate::proxy::exchange::Exchange;
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::own_objects::KeptAnswer;
use crate::proxy::recorded_answer::{self, RecordedAnswer};
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use crate::proxy::{body_mode, catalogue, content, direct, own_objects, prompt_calls};
use crate::upstream::http1::Framing;
use gateway_domain::Operation;
use pingora::proxy::Session;

impl Gateway {
    /// A body that is held.
    pub(in crate::proxy) async fn exchange(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let read = match request.ask.prompt {
            None => {
                content::read_content(session, &request.ask.route, self.settings.body_limits(), &mut ctx.held).await
            }
            // Boxed to keep the room for it out of every other request.
            Some(_) => {
                Box::pin(prompt_calls::read_content(session, &mut request, self.settings.body_limits(), &mut ctx.held))
                    .await
            }
        };
        match read {
            Ok(content) => request.ask.content = content,
            Err(BodyError::Gone(e)) => return Err(e.into_down()),
            Err(BodyError::Invalid(fault, bytes)) => {
                request.ask.content.bytes = bytes;
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            Err(BodyError::Refused(fault)) => {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
        }
        if request.ask.route.operation == Operation::CreateBatch
            && let Some(input) = own_objects::input_of(&request)
        {
            return Box::pin(self.own_batch(session, ctx, request, input)).await;
        }
        if request.ask.route.operation == Operation::RealtimeSecret {
            return Box::pin(self.short_key(session, ctx, request)).await;
        }
        if request.is_rendered_only() {
            return Box::pin(prompt_calls::show(&self.names, session, &request, &mut ctx.records)).await;
        }
        let parse_us = request.look().saturating_sub(request.ask.content.waited_us);
        if request.ask.route.operation.facts().about_kept_response || request.ask.route.asked() == Operation::Responses
        {
            match Box::pin(self.kept_response(ctx, &mut request)).await {
                Ok(None) => {}
                Ok(Some(told)) => {
                    let answer = KeptAnswer::Json(told);
                    let told = own_objects::deliver(self.own_parts(), session, (&request, answer), &mut ctx.records);
                    return Box::pin(told).await;
                }
                Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
            }
        }
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if let Some(call) = direct::asked(&request, &routing) {
            return Box::pin(self.direct(session, ctx, request, (routing, call))).await;
        }
        match catalogue::catalogued(&request, &routing).await {
            None => {}
            Some(Ok(body)) => {
                let told = RecordedAnswer { request: &request, routing: Some(&routing), body };
                return Box::pin(recorded_answer::deliver(&self.names, session, told, &mut ctx.records)).await;
            }
            Some(Err(fault)) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
        let client = Client::new(session);
        let mut exchange = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records);
        exchange.steps.parse_us = parse_us;
        let ended = exchange.run().await;
        if let Some(told) = exchange.looked_at.take().filter(|_| ended.is_ok()) {
            let Exchange { routing, .. } = exchange;
            let batches = direct::ended(&request, &routing, *told);
            direct::count_apart(&self.calls, (request, routing), batches);
            return Ok(true);
        }
        self.end(session, ctx, request, ended).await
    }

    /// A body that streams up, or a connection that becomes another.
    pub(in crate::proxy) async fn relay(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        request.ask.content.unread = true;
        let upgrade = body_mode::is_websocket(session);
        let downstream = &mut session.downstream_session;
        request.ask.upload = Some(if upgrade { Framing::WebSocket } else { framing(downstream) });
        if upgrade {
            content::read_session_model(&mut request);
        }
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if let Some(call) = direct::asked(&request, &routing) {
            return Box::pin(self.direct(session, ctx, request, (routing, call))).await;
        }
        let upload = Upload::of(&mut session.downstream_session, self.settings.idle_timeout, &self.budget);
        let mut client = Client::new(session);
        client.set_upload(upload);
        let ended = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records).run().await;
        self.end(session, ctx, request, ended).await
    }
}
