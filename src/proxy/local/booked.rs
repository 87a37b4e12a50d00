//! Lines of a batch that a provider runs itself. They come by the door as all lines do, and nothing is asked: one that is to
//! go up is told as it would be asked, and one that was answered is counted, in the place of the exchange.

use crate::batches::{BookedAnswer, LineTask};
use crate::proxy::body::BodyError;
use crate::proxy::client::answer_early;
use crate::proxy::deliver::json_answer;
use crate::proxy::exchange::{LineTarget, book};
use crate::proxy::intake::{self, Refused};
use crate::proxy::request::Request;
use crate::proxy::{Ctx, Gateway, json_bytes};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::native_batches::BatchPlace;
use pingora::proxy::Session;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

/// How a line would be asked.
#[derive(Serialize)]
struct ToldLine<'a> {
    provider: &'static str,
    model: Option<&'a str>,
    place: BatchPlace,
    body: &'a RawValue,
}

/// An answer as the client reads it.
#[derive(Serialize)]
struct ToldAnswer<'a> {
    status: u16,
    input: u64,
    output: u64,
    body: &'a RawValue,
}

impl Gateway {
    pub(in crate::proxy) async fn book(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let line = request.caller.tenant.line.clone();
        let Some(LineTask::Booked(booked)) = line.as_ref().map(|line| &line.task) else { return Ok(true) };
        if let Err(fault) = self.read_line(session, ctx, (&mut request, booked.native.is_some())).await? {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        match self.counted(ctx, &mut request, booked).await {
            Ok(told) => answer_early(session, json_answer(&self.names, &request, told)).await.map(|()| true),
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    async fn counted(&self, ctx: &mut Ctx, request: &mut Request, booked: &BookedAnswer) -> Result<Bytes, Fault> {
        if booked.asked.is_some() {
            request.ask.content.model = booked.asked.as_deref().map(Into::into);
        }
        let routing = self.prepare(request).await?;
        let Some(native) = &booked.native else {
            ctx.records.push(book(&self.calls, (request, &routing), booked).await?);
            return Ok(json_bytes(&json!({ "counted": true })));
        };
        let read = LineTarget::of(request, &routing)?.read(booked.status, native);
        let usage = read.usage.unwrap_or_default();
        let told = RawValue::from_string(String::from_utf8_lossy(&read.body).into_owned()).unwrap_or_default();
        let (input, output) = (usage.prompt(), usage.completion());
        let told = ToldAnswer { status: read.status, input, output, body: &told };
        let told = serde_json::to_vec(&told).unwrap_or_default().into();
        if booked.is_counted {
            let (status, asked) = (read.status, booked.asked.clone());
            let (usage, model) = (read.usage, read.model);
            let booked = BookedAnswer { status, asked, model, usage, native: None, is_counted: true };
            ctx.records.push(book(&self.calls, (request, &routing), &booked).await?);
        }
        Ok(told)
    }

    /// Tells how a line would be asked.
    pub(in crate::proxy) async fn write_line(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        if let Err(fault) = self.read_line(session, ctx, (&mut request, true)).await? {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        match self.written(&mut request).await {
            Ok(told) => answer_early(session, json_answer(&self.names, &request, told)).await.map(|()| true),
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    async fn written(&self, request: &mut Request) -> Result<Bytes, Fault> {
        let routing = self.prepare(request).await?;
        let target = LineTarget::of(request, &routing)?;
        let body = target.written()?;
        let body = std::str::from_utf8(&body).ok().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        let provider = target.provider();
        let Some(body) = body else {
            let why = format!("{provider} is asked for this with a body that is no JSON");
            return Err(Fault::new(FaultKind::Unsupported, why));
        };
        let written = ToldLine { provider, model: target.model(), place: target.place(), body };
        Ok(serde_json::to_vec(&written).unwrap_or_default().into())
    }

    /// The body of a line, where something is to be done with it.
    async fn read_line(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        (request, wanted): (&mut Request, bool),
    ) -> pingora::Result<Result<(), Fault>> {
        if !wanted {
            return Ok(Ok(()));
        }
        match intake::read_content(self, session, &request.ask.route, &mut ctx.held).await {
            Ok(content) => {
                request.ask.content = content;
                Ok(Ok(()))
            }
            Err(BodyError::Gone(e)) => Err(e.into_down()),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => Ok(Err(fault)),
        }
    }
}
