//! Lines of a batch that a provider runs itself. They come by the door as all lines do, and nothing is asked: one that
//! is to go up is told as it would be asked, and one that was answered is counted, in the place of the exchange.

use crate::batches::{AnswerToJudge, BookedAnswer, LineRecord, LineTask};
use crate::bookings::{Knowledge, UnsureLines};
use crate::guardrails::HookNotes;
use crate::proxy::body::BodyError;
use crate::proxy::client::answer_early;
use crate::proxy::content;
use crate::proxy::deliver::json_answer;
use crate::proxy::exchange::{CallParts, JudgedLine, LedLine, LineJudge, LineRead, LineTarget, book, denied};
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use bytes::Bytes;
use gateway_domain::record::LogRecord;
use gateway_domain::{Fault, FaultKind, Timestamp};
use gateway_guardrails::{DENIED_TYPE, HookResult};
use gateway_providers::native_batches::BatchPlace;
use http::HeaderMap;
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
    said: Option<ToldVerdict>,
}

/// What guardrails said of a line that goes up, for when its answer is there.
#[derive(Default, Serialize)]
struct ToldVerdict {
    is_soft: bool,
    results: Vec<HookResult>,
}

/// A line that guardrails keep from going up.
#[derive(Serialize)]
struct ToldDenial<'a> {
    denied: ToldAnswer<'a>,
}

/// A line to be written, or what is told in its place.
enum LineToWrite {
    Line(Bytes, Option<ToldVerdict>),
    Denied(JudgedLine),
}

/// An answer as the client reads it.
#[derive(Serialize)]
struct ToldAnswer<'a> {
    status: u16,
    input: u64,
    output: u64,
    body: &'a RawValue,
}

/// One that is found again where a run must know whether it was written.
fn named(mut record: Box<LogRecord>, by: &LineRecord) -> Box<LogRecord> {
    (record.id, record.created_at) = (by.id, Timestamp(by.at));
    record
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
        if let Err(fault) =
            self.read_line(session, ctx, (&mut request, booked.native.is_some() || booked.judged.is_some())).await?
        {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        let client = session.req_header().headers.clone();
        match self.counted(ctx, (&mut request, &client), booked).await {
            Ok(told) => answer_early(session, json_answer(&self.names, &request, told)).await.map(|()| true),
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    async fn counted(
        &self,
        ctx: &mut Ctx,
        (request, client): (&mut Request, &HeaderMap),
        booked: &BookedAnswer,
    ) -> Result<Bytes, Fault> {
        if booked.asked.is_some() {
            request.ask.content.model = booked.asked.as_deref().map(Into::into);
        }
        let routing = self.prepare(request).await?;
        let line = LedLine { request, routing: &routing, client };
        let counts = match &booked.record {
            Some(record) if !self.was_counted(line.request, record).await => Some(record),
            _ => None,
        };
        let read = match (&booked.native, &booked.judged) {
            (Some(native), _) => LineTarget::of(line.request, &routing)?.read(booked.status, native),
            (None, Some(AnswerToJudge { told: Some(told), .. })) => {
                LineRead { status: booked.status, body: told.clone(), usage: booked.usage, model: booked.model.clone() }
            }
            _ => {
                if let Some(by) = counts {
                    let record = book(&self.calls, (request, &routing), booked).await?;
                    ctx.records.push(named(record, by));
                }
                return Ok(json!({ "counted": counts.is_some() }).to_string().into());
            }
        };
        let (told, notes) = self.judged(line, booked.judged.as_ref(), &read).await?;
        if let Some(by) = counts {
            let (status, model, usage) = (read.status, read.model.clone(), read.usage);
            let read = BookedAnswer { status, model, usage, native: None, judged: None, ..booked.clone() };
            let mut record = named(book(&self.calls, (request, &routing), &read).await?, by);
            record.status = told.status;
            record.fault = record.fault.or(told.is_denied.then_some(DENIED_TYPE));
            ctx.records.push_noted(record, notes);
        }
        let usage = read.usage.unwrap_or_default();
        let body = RawValue::from_string(String::from_utf8_lossy(&told.body).into_owned()).unwrap_or_default();
        let (input, output) = (usage.prompt(), usage.completion());
        Ok(serde_json::to_vec(&ToldAnswer { status: told.status, input, output, body: &body })
            .unwrap_or_default()
            .into())
    }

    /// Whether an earlier run counted a line, or must be held to have done so, since nothing may be paid for twice.
    async fn was_counted(&self, request: &Request, record: &LineRecord) -> bool {
        let Some(node) = record.doubted_by.as_deref() else { return false };
        let CallParts { bookings, booked_records, .. } = &*self.calls;
        let unsure = UnsureLines::of(node, record.at);
        if bookings.is_of_this_process(&unsure, &booked_records.node) {
            return true;
        }
        match booked_records.knowledge(&unsure).await {
            Knowledge::ByRecord => {
                let workspace = request.caller.tenant.workspace.id;
                booked_records.has_record(record.id, workspace).await.unwrap_or(true)
            }
            Knowledge::Never | Knowledge::Later => true,
        }
    }

    /// What guardrails make of an answer. Where they cannot be had at all it is not told: the reason is, as to whoever
    /// asks for one line.
    async fn judged(
        &self,
        line: LedLine<'_>,
        wanted: Option<&AnswerToJudge>,
        read: &LineRead,
    ) -> Result<(JudgedLine, Option<Box<HookNotes>>), Fault> {
        let as_it_is = || JudgedLine { status: read.status, body: read.body.clone(), is_denied: false };
        let Some(wanted) = wanted else { return Ok((as_it_is(), None)) };
        let mut judge = match LineJudge::of(&self.calls, line).await {
            Ok(Some(judge)) => judge,
            Ok(None) => return Ok((as_it_is(), None)),
            Err(fault) if matches!(fault.status(), 429 | 503) => return Err(fault),
            Err(fault) => {
                let body = fault.body(line.request.ask.route.dialect).into();
                return Ok((JudgedLine { status: fault.status(), body, is_denied: false }, None));
            }
        };
        judge.remember(wanted.asked.clone(), wanted.was_soft);
        let told = if read.status == 200 { judge.judge_answered(read.body.clone()).await } else { as_it_is() };
        Ok((told, Some(judge.notes)))
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
        let client = session.req_header().headers.clone();
        match self.written(ctx, (&mut request, &client)).await {
            Ok(told) => answer_early(session, json_answer(&self.names, &request, told)).await.map(|()| true),
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    async fn written(&self, ctx: &mut Ctx, (request, client): (&mut Request, &HeaderMap)) -> Result<Bytes, Fault> {
        let routing = self.prepare(request).await?;
        let line = LedLine { request, routing: &routing, client };
        let is_translated =
            !matches!(line.request.caller.tenant.line.as_ref().map(|line| &line.task), Some(LineTask::Judged));
        let target = LineTarget::of(line.request, &routing)?;
        let body = if is_translated { target.filled()? } else { line.request.ask.content.bytes.clone() };
        let (body, said) = match self.to_write(ctx, line, body).await? {
            LineToWrite::Line(body, said) => (body, said),
            LineToWrite::Denied(told) => {
                let body = RawValue::from_string(String::from_utf8_lossy(&told.body).into_owned()).unwrap_or_default();
                let denied = ToldAnswer { status: told.status, input: 0, output: 0, body: &body };
                return Ok(serde_json::to_vec(&ToldDenial { denied }).unwrap_or_default().into());
            }
        };
        let body = if is_translated { target.written(body)? } else { body };
        let body = std::str::from_utf8(&body).ok().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        let provider = target.provider();
        let Some(body) = body else {
            let why = format!("{provider} is asked for this with a body that is no JSON");
            return Err(Fault::new(FaultKind::Unsupported, why));
        };
        let written = ToldLine { provider, model: target.model(), place: target.place(), body, said };
        Ok(serde_json::to_vec(&written).unwrap_or_default().into())
    }

    /// What guardrails make of a line before it goes up.
    async fn to_write(&self, ctx: &mut Ctx, line: LedLine<'_>, body: Bytes) -> Result<LineToWrite, Fault> {
        let Some(mut judge) = LineJudge::of(&self.calls, line).await? else {
            return Ok(LineToWrite::Line(body, None));
        };
        let judged = judge.judge_asked(body).await;
        if judged.is_denied {
            ctx.records.push_noted(denied(line.request, line.routing, judged.status)?, Some(judge.notes));
            return Ok(LineToWrite::Denied(judged));
        }
        let (is_soft, results) = (judge.notes.is_soft(), judge.notes.results.before_request_hooks.clone());
        let said = (!results.is_empty()).then_some(ToldVerdict { is_soft, results });
        Ok(LineToWrite::Line(judged.body, said))
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
        match content::read_content(session, &request.ask.route, self.settings.body_limits(), &mut ctx.held).await {
            Ok(content) => {
                request.ask.content = content;
                Ok(Ok(()))
            }
            Err(BodyError::Gone(e)) => Err(e.into_down()),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => Ok(Err(fault)),
        }
    }
}
