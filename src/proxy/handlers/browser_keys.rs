//! Keys that browsers open a realtime session with: the gateway's own, and those that an integration has the provider
//! hand out. Opens no session.

use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::client::Client;
use crate::proxy::exchange::Exchange;
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::recorded_answer::{self, RecordedAnswer};
use crate::proxy::refusal::Refused;
use crate::proxy::request::{AskedModel, Request};
use crate::proxy::routing::Routing;
use crate::proxy::short_keys::{self, KeyAsk};
use pingora::proxy::Session;

impl Gateway {
    /// A key of the gateway's own for a browser.
    pub(in crate::proxy) async fn short_key(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let ask = match KeyAsk::read(&request.ask.route.path, &request.ask.content.bytes) {
            Ok(ask) => ask,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        request.ask.content.model = ask.model().map(Into::into);
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if short_keys::is_direct(&request, &routing) {
            if let Err(fault) = ask.permit_direct(&request, &routing) {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            return Box::pin(self.provider_key(session, ctx, request, routing)).await;
        }
        match ask.mint(&*self.calls.ids, &request, &routing) {
            Ok(body) => {
                let told = RecordedAnswer { request: &request, routing: Some(&routing), body };
                recorded_answer::deliver(&self.names, session, told, &mut ctx.records).await
            }
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A key of the provider's own for a browser, which its integration hands out: what is asked and answered passes as
    /// it came, and nothing of it is kept.
    async fn provider_key(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
        routing: Routing,
    ) -> pingora::Result<bool> {
        request.caller.keep = CapturePolicy::Nothing;
        request.ask.route.raw = true;
        request.ask.untouched_model = Some(AskedModel { name: request.ask.content.model.clone(), unread: false });
        let client = Client::new(session);
        let ended = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records).run().await;
        self.end(session, ctx, request, ended).await
    }
}
