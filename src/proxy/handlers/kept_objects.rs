//! Calls about objects: files and batches that the gateway keeps itself, those of providers with an interface of their
//! own, and what is kept of responses. What such an object is stands in the rooms below.

use crate::proxy::direct::{self, DirectCall, DirectParts};
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::objects;
use crate::proxy::own_objects::{self, KeptCall};
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use crate::proxy::responses::{self, Recalled};
use crate::proxy::routing::{self, Routing};
use gateway_domain::Fault;
use pingora::proxy::Session;
use uuid::Uuid;

impl Gateway {
    /// Files and batches that the gateway keeps itself.
    pub(in crate::proxy) async fn own_object(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        call: KeptCall,
    ) -> pingora::Result<bool> {
        match own_objects::answer(self.own_parts(), session, &request, call).await {
            Ok(answer) => own_objects::deliver(self.own_parts(), session, (&request, answer), &mut ctx.records).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A batch that the gateway is to run.
    pub(in crate::proxy) async fn own_batch(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
        input: Result<Uuid, Fault>,
    ) -> pingora::Result<bool> {
        let own = self.own_parts();
        if let Err(fault) = own_objects::apply_options(&mut request) {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        let chosen = routing::choose(&self.inline, &request.caller.tenant, &request.ask.headers).await;
        let made = match input.and_then(|input| Ok((input, chosen?.of_batch()))) {
            Ok(made_of) => own_objects::create(own, &session.req_header().headers, &request, made_of).await,
            Err(fault) => Err(fault),
        };
        match made {
            Ok(answer) => own_objects::deliver(own, session, (&request, answer), &mut ctx.records).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A file or a batch of a provider whose interface for them is not OpenAI's.
    pub(in crate::proxy) async fn direct(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        (routing, call): (Routing, DirectCall),
    ) -> pingora::Result<bool> {
        let parts = DirectParts { calls: &self.calls, own: self.own_parts() };
        match Box::pin(parts.serve(session, (&request, &routing), call, &mut ctx.records)).await? {
            Ok(ended) => {
                direct::count_apart(&self.calls, (request, routing), ended);
                Ok(true)
            }
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// What is known of the response that a call is about; a request that goes on from one is written out.
    pub(in crate::proxy) async fn kept_response(
        &self,
        ctx: &mut Ctx,
        request: &mut Request,
    ) -> Result<Option<serde_json::Value>, Fault> {
        objects::unbind(&*self.calls.ids, request).await?;
        let (kept, held) = (&self.calls.kept, &mut ctx.held);
        responses::recall(Recalled { kept, held, most: self.settings.max_body }, request).await?;
        responses::answer(kept, request).await.transpose()
    }
}
