//! A line that a provider has answered already, in a batch of its own: it comes by the door as all lines do, and is counted
//! in the place of the exchange.

use crate::proxy::client::answer_early;
use crate::proxy::deliver::json_answer;
use crate::proxy::exchange::book;
use crate::proxy::intake::Refused;
use crate::proxy::request::Request;
use crate::proxy::{Ctx, Gateway, json_bytes};
use pingora::proxy::Session;
use serde_json::json;

impl Gateway {
    pub(in crate::proxy) async fn book(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let line = request.caller.tenant.line.clone();
        let Some(booked) = line.as_ref().and_then(|line| line.booked.as_ref()) else { return Ok(true) };
        request.ask.content.model = booked.asked.as_deref().map(Into::into);
        let counted = match self.prepare(&mut request).await {
            Ok(routing) => book(&self.calls, (&request, &routing), booked).await,
            Err(fault) => Err(fault),
        };
        match counted {
            Ok(record) => {
                ctx.records.push(record);
                let told = json_answer(&self.names, &request, json_bytes(&json!({ "counted": true })));
                answer_early(session, told).await.map(|()| true)
            }
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }
}
