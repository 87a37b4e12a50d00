//! What came of the lines of a provider's own batch, as OpenAI tells it: each answer is read as that of a call would
//! be. Fetched line by line and never held whole; answers with a 2xx are one file, all others another.

use super::batches::{DirectBatches, FoundBatch};
use super::lines::{line_request, route_of, stand_in};
use super::service::{ServiceCall, Services};
use super::{BatchVerb, DirectAnswer, DirectStop, ResultFile, bad};
use crate::batches::MOST_LINE;
use crate::bookings::BookingId;
use crate::proxy::deliver::fallen;
use crate::proxy::exchange::{CallParts, LineRead, LineTarget};
use crate::proxy::request::{LineMark, Request, Route};
use crate::proxy::routing::Routing;
use crate::upstream::http1::{LineError, Response, ResponseLines};
use ahash::AHashSet;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::native_batches::direct::public_id;
use gateway_providers::native_batches::{BatchCall, LineEnd, NativeLine, NativeState, OtherAnswer, ToldBatches};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::VecDeque;
use uuid::Uuid;

const IMAGES: &str = "/v1/images/generations";
const IMAGE_EDITS: &str = "/v1/images/edits";
/// Bytes that are sent in one go.
const PIECE: usize = 64 << 10;

/// The most bytes of an answer that tells addresses of results.
const MOST_ADDRESSES: usize = 1 << 20;
/// Lines that are known again where pages tell one twice.
const MOST_KNOWN: usize = 1 << 20;

/// What results are read with.
#[derive(Clone, Copy)]
pub(super) struct BatchReader<'a> {
    pub(super) calls: &'a CallParts,
    pub(super) asked: (&'a Request, &'a Routing),
    pub(super) services: &'a Services<'a>,
    pub(super) family: &'static dyn ToldBatches,
}

/// The lines of one batch's results, in the provider's order.
pub(super) struct NativeResults<'a> {
    services: &'a Services<'a>,
    family: &'static dyn ToldBatches,
    told: VecDeque<NativeLine>,
    calls: VecDeque<BatchCall>,
    /// Names of the lines that pages told.
    known: AHashSet<Uuid>,
    /// Addresses that the provider told in the place of results.
    elsewhere: VecDeque<String>,
    open: Option<ResponseLines>,
    /// Where there may be none, that there are none is no fault.
    may_lack: bool,
    pub(super) reading: ResultReading,
}

/// What each of them is read with.
pub(super) struct ResultReading {
    pub(super) batch: String,
    pub(super) route: Route,
    model: Option<String>,
    /// That of all lines, where an answer names none.
    pub(super) told_model: Option<String>,
}

/// One as it is told.
pub(super) struct ReadResult {
    pub(super) is_good: bool,
    pub(super) line: Value,
    /// `None`: nobody answered to it.
    pub(super) answer: Option<LineRead>,
    pub(super) request: Request,
}

/// One of the two files of a batch's results, on its way down.
pub(super) struct ResultLines<'a> {
    asked: (&'a Request, &'a Routing),
    results: NativeResults<'a>,
    file: ResultFile,
    number: u64,
    /// Read before anything was said of it.
    first: Option<Bytes>,
}

impl ResultLines<'_> {
    /// Some lines; `None`: that was all.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, DirectStop> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let mut text = Vec::new();
        while text.len() < PIECE {
            let Some(line) = self.results.next().await? else { break };
            self.number += 1;
            let read = self.results.reading.read(self.asked, (line, self.number)).await?;
            if read.is_good == (self.file == ResultFile::Output) {
                text.extend_from_slice(read.line.to_string().as_bytes());
                text.push(b'\n');
            }
        }
        Ok(Some(text.into()).filter(|text: &Bytes| !text.is_empty()))
    }
}

impl<'a> DirectBatches<'a> {
    /// `ended`: a batch whose lines are to be counted.
    pub(super) async fn answer(
        &self,
        verb: BatchVerb,
        ended: &mut Option<FoundBatch>,
    ) -> Result<DirectAnswer<'a>, DirectStop> {
        match verb {
            BatchVerb::Create => self.create().await.map(DirectAnswer::Json),
            BatchVerb::List => self.list().await.map(DirectAnswer::Json),
            BatchVerb::Cancel(id) => self.cancel(&id).await.map(DirectAnswer::Json),
            BatchVerb::Show(id) => {
                let found = self.find(&id).await?;
                let shown = self.shown(&found);
                *ended = Some(found).filter(FoundBatch::is_to_be_counted);
                Ok(DirectAnswer::Json(shown))
            }
            BatchVerb::Results(id, file) => {
                let results = self.reader().results(self.find(&id).await?)?;
                let mut lines = ResultLines { asked: self.asked, results, file, number: 0, first: None };
                lines.first = lines.piece().await?;
                // Whoever reads them without a look at the batch pays for it all the same.
                *ended = Some(self.find(&id).await?).filter(FoundBatch::is_to_be_counted);
                Ok(DirectAnswer::Lines(Box::new(lines)))
            }
        }
    }
}

impl<'a> BatchReader<'a> {
    /// The results of one that has ended.
    pub(super) fn results(self, found: FoundBatch) -> Result<NativeResults<'a>, Fault> {
        if !found.has_results() {
            return Err(bad("batch_id", "has no output, or none yet"));
        }
        let unknown = || bad("batch_id", "asks for what has no route here");
        // What a call asks for in a form lines ask for in JSON, and answers are alike.
        let endpoint = if found.endpoint() == IMAGE_EDITS { IMAGES } else { found.endpoint() };
        let route = route_of(endpoint).ok_or_else(unknown)?;
        let (told_model, batch) = (found.model().map(str::to_owned), public_id(&found.standing.id).to_owned());
        // Lines that pass as they are say themselves what they ask for.
        let model = told_model.clone().filter(|_| !self.services.relays);
        let may_lack = found.standing.state != NativeState::Completed;
        Ok(NativeResults {
            services: self.services,
            family: self.family,
            told: found.standing.told.into(),
            calls: found.standing.results.into(),
            known: AHashSet::new(),
            elsewhere: VecDeque::new(),
            open: None,
            may_lack,
            reading: ResultReading { batch, route, model, told_model },
        })
    }
}

impl NativeResults<'_> {
    /// Some of the results, or where they are.
    async fn begin(&mut self, response: Response, path: &str) -> Result<(), Fault> {
        if let Some(pages) = self.family.pages() {
            let broken =
                |why: &str| Fault::new(FaultKind::UpstreamBroken, format!("{} tells {why}", self.services.slug()));
            let Some(told) = self.services.whole_within(response, pages.most).await? else {
                let fewer = (pages.smaller)(path).ok_or_else(|| broken("a result that is too large"))?;
                self.calls.push_front(fewer);
                return Ok(());
            };
            let page = (pages.read)(path, &told).ok_or_else(|| broken("no page of results"))?;
            let known = &mut self.known;
            let fresh = page.lines.into_iter().filter(|line| is_fresh(known, line));
            self.told.extend(fresh);
            self.calls.extend(page.next);
        } else if let Some(addresses) = self.family.addresses() {
            let told = self.services.whole_of(response, MOST_ADDRESSES).await?;
            self.elsewhere.extend(addresses(&told));
        } else {
            self.open = Some(ResponseLines::new(response, MOST_LINE));
        }
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<Option<NativeLine>, DirectStop> {
        loop {
            if let Some(line) = self.told.pop_front() {
                return Ok(Some(line));
            }
            let Some(open) = &mut self.open else {
                if let Some(url) = self.elsewhere.pop_front() {
                    let response = self.services.download(&url).await?;
                    self.open = Some(ResponseLines::new(response, MOST_LINE));
                    continue;
                }
                let Some(call) = self.calls.pop_front() else { return Ok(None) };
                let path = call.path.clone();
                let Some(call) = ServiceCall::of_batch(call) else { return Ok(None) };
                match self.services.open(call).await {
                    Ok(response) => self.begin(response, &path).await?,
                    Err(DirectStop::Told(said)) if said.status == 404 && self.may_lack => {}
                    Err(stop) => return Err(stop),
                }
                continue;
            };
            match open.next().await.map_err(|e| unread(e, self.services.slug()))? {
                Some(text) => {
                    // What tells of no line is none.
                    if let Some(line) = self.family.answer(text.trim_ascii()) {
                        return Ok(Some(line));
                    }
                }
                None => self.open = None,
            }
        }
    }
}

/// Pages may overlap: what one of them told before is told once.
fn is_fresh(known: &mut AHashSet<Uuid>, line: &NativeLine) -> bool {
    line.name.is_empty() || known.len() >= MOST_KNOWN || known.insert(BookingId::of(&[line.name.as_bytes()]).0)
}

fn unread(error: LineError, provider: &str) -> Fault {
    match error {
        LineError::Lost(e) => fallen(e, provider),
        LineError::TooLong(most) => {
            let why = format!("{provider} tells a result of more than {most} bytes");
            Fault::new(FaultKind::UpstreamBroken, why)
        }
    }
}

impl ResultReading {
    /// `number`: from 1, in the provider's order.
    pub(super) async fn read(
        &self,
        (request, routing): (&Request, &Routing),
        (line, number): (NativeLine, u64),
    ) -> Result<ReadResult, Fault> {
        let id = format!("batch_req_{}_{number}", self.batch);
        let (route, model) = match &line.end {
            // The model of the batch is that of its other lines.
            LineEnd::Other(other) => (other.endpoint.and_then(route_of).unwrap_or_else(|| self.route.clone()), None),
            _ => (self.route.clone(), self.model.as_deref()),
        };
        let body = stand_in(route.operation, model);
        let trace = format!("{}-{number}", self.batch);
        let metadata = [("batch_id", self.batch.clone()), ("batch_line", number.to_string())];
        let mark = LineMark { trace: &trace, metadata: &metadata };
        let mut asked = line_request(request, &route, (body, mark)).await?;
        if model.is_none() && self.model.is_some() && LineTarget::of(&asked, routing).is_err() {
            // A key that is held to the model of the batch reads, and pays for, what else was answered in it.
            let body = stand_in(route.operation, self.model.as_deref());
            asked = line_request(request, &route, (body, mark)).await?;
        }
        let target = || LineTarget::of(&asked, routing);
        let answer = match line.end {
            LineEnd::Answered { status, body } => target()?.read(status, &body),
            LineEnd::Other(other) => read_other(&target()?, other, &self.batch),
            ended => {
                let (code, message) = match ended {
                    LineEnd::Expired => ("batch_expired", "The batch expired before this line was answered."),
                    _ => ("batch_cancelled", "The batch was cancelled before this line was answered."),
                };
                let error = json!({ "code": code, "message": message });
                let line = json!({ "id": id, "custom_id": line.name, "response": null, "error": error });
                return Ok(ReadResult { is_good: false, line, answer: None, request: asked });
            }
        };
        let body = match serde_json::from_slice::<Box<RawValue>>(&answer.body) {
            Ok(body) => serde_json::to_value(body).unwrap_or_default(),
            Err(_) => String::from_utf8_lossy(&answer.body).into_owned().into(),
        };
        let response = json!({ "status_code": answer.status, "request_id": id, "body": body });
        let is_good = (200..300).contains(&answer.status);
        let line = json!({ "id": id, "custom_id": line.name, "response": response, "error": null });
        Ok(ReadResult { is_good, line, answer: Some(answer), request: asked })
    }
}

/// What nobody here knows is told as it is. It costs what its usage says, as that of any answer does, or else what the
/// provider says.
fn read_other(target: &LineTarget<'_>, other: OtherAnswer, batch: &str) -> LineRead {
    let OtherAnswer { endpoint, body, cost } = other;
    let read = target.read(200, &body);
    let is_known = endpoint.is_some();
    let mut answer = if is_known { read } else { LineRead { status: 200, body, ..read } };
    let model = answer.model.as_deref();
    if let Some(cost) = cost.filter(|_| !is_known || model.is_none()) {
        answer.usage.get_or_insert_default().detail.told = Some(cost);
    } else if model.is_none() || (!is_known && answer.usage.is_none()) {
        tracing::warn!(batch, model, "an answer in a provider's batch has no price that is known here");
    }
    answer
}
