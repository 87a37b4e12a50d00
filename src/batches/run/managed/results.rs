//! What came of the lines at the provider: fetched line by line, counted once, and put down like lines that the gateway
//! asked itself. The provider answers in any order, and names lines as the client did.

use super::guardrail_stage::{UNREADABLE, answered_line, to_judge};
use super::{BatchRun, Halt, LineSender, RunBroken, RunEnd};
use crate::batches::BatchDocument;
use crate::batches::document::{BatchProblem, BatchStatus, LineUsage};
use crate::batches::line_context::{BookedAnswer, LineRecord};
use crate::batches::lines::{FileLine, LineReader, MOST_LINE, line_at};
use crate::batches::log::{CountedBy, EarlierRuns, LineDone, LineSaid, LogEntry, RunLog, said_of};
use crate::batches::native_batch::NativeBatch;
use crate::batches::operations::{KeepError, now_secs};
use crate::batches::run::line::{line_id, unanswered};
use crate::batches::run::{PULSE, lost_log};
use crate::clock;
use crate::downloads::moved_to;
use crate::upstream::http1::{Response, ResponseLines};
use ahash::AHashMap;
use bytes::Bytes;
use futures_util::future::join_all;
use gateway_domain::Usage;
use gateway_domain::ports::{Blobs, OutsideError};
use gateway_providers::{batch_pictures, batch_usage};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// Lines that are counted at once.
pub(super) const AT_ONCE: usize = 25;

/// Where lines stand in the file, and which model they asked for, by what the client calls them.
pub(super) struct LinePlaces {
    lines: AHashMap<[u8; 16], LinePlace>,
    /// They ask for pictures.
    draws: bool,
    /// Guardrails have their say of each answer.
    judges: bool,
}

#[derive(Clone)]
struct LinePlace {
    number: u64,
    at: u64,
    length: usize,
    asked: Option<String>,
}

impl LinePlaces {
    pub(super) fn key(custom_id: &str) -> [u8; 16] {
        let digest = Sha256::digest(custom_id.as_bytes());
        std::array::from_fn(|place| digest[place])
    }
}

/// A line of the provider's files of results.
#[derive(Deserialize)]
struct NativeAnswer {
    custom_id: String,
    #[serde(default)]
    response: Option<NativeResponse>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct NativeResponse {
    #[serde(default)]
    status_code: u16,
    #[serde(default)]
    body: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct NativeAnswerBody {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Option<Box<RawValue>>,
    /// What making pictures used, read from the whole body.
    #[serde(skip)]
    pictures: Option<Usage>,
}

/// An answer that belongs to a line of ours.
struct FoundAnswer {
    place: LinePlace,
    is_good: bool,
    status: u16,
    body: Option<NativeAnswerBody>,
    /// The body as the provider wrote it, kept where guardrails judge the answer.
    told: Option<Bytes>,
    line: Box<RawValue>,
}

/// The lines of an answer that tells results, or why there are none.
pub(super) fn answer_lines(opened: Result<Response, OutsideError>) -> Result<ResponseLines, KeepError> {
    let response = opened.map_err(|e| KeepError::Store(e.to_string()))?;
    if response.status() != 200 {
        let why = format!("the provider's results are answered with status {}", response.status());
        return Err(KeepError::Store(why));
    }
    Ok(ResponseLines::new(response, MOST_LINE))
}

impl BatchRun {
    /// What the provider has moved, where it says, without its credential.
    pub(super) async fn followed(&self, opened: Result<Response, OutsideError>) -> Result<Response, OutsideError> {
        let response = opened?;
        match moved_to(&response) {
            Some(url) => self.batches().downloads.open(url).await,
            None => Ok(response),
        }
    }

    /// The provider's batch has ended: so does this one.
    pub(super) async fn collect(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        found: NativeBatch,
    ) -> Result<RunEnd, RunBroken> {
        let halt = match found.status() {
            BatchStatus::Failed => return self.failed_there(found).await,
            BatchStatus::Cancelled => Halt::Cancelled,
            BatchStatus::Expired => Halt::Expired,
            _ => Halt::Unanswered,
        };
        let guards = self.guards(batch, sender).await?;
        if guards.output {
            self.enter_judging().await?;
        }
        let places = self.places(batch, guards.any()).await?;
        let (mut done, mut log) = self.begin_log(batch).await?;
        let blobs = self.batches().blobs.clone();
        let settling = SettledAnswers { sender, blobs, input: batch.input };
        for file in [&found.output_file_id, &found.error_file_id].into_iter().flatten() {
            if !self.fetch(&settling, (file, &places), (&mut done, &mut log)).await? {
                return Ok(RunEnd::Later(std::time::Duration::ZERO));
            }
        }
        self.finalize(batch, &done, Some(halt)).await?;
        if let Some(file) = self.native.file.clone() {
            // What stays there is the provider's to remove.
            let _: Result<Value, RunBroken> =
                self.request_json(sender, Method::DELETE, format!("/v1/files/{file}"), &Value::Null).await;
        }
        Ok(RunEnd::Ended)
    }

    async fn failed_there(&mut self, found: NativeBatch) -> Result<RunEnd, RunBroken> {
        self.fail_with(found.problems()).await
    }

    /// The batch fails for these.
    pub(super) async fn fail_with(&mut self, problems: Vec<BatchProblem>) -> Result<RunEnd, RunBroken> {
        let failed = self.batches().change(self.workspace, self.id(), |batch| {
            if !batch.status.has_ended() {
                batch.problems.clone_from(&problems);
                batch.enter(BatchStatus::Failed, now_secs());
            }
        });
        let failed = failed.await?;
        self.close(&failed).await;
        Ok(RunEnd::Ended)
    }

    async fn places(&mut self, batch: &BatchDocument, judges: bool) -> Result<LinePlaces, RunBroken> {
        let mut lines = AHashMap::new();
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        while let Some(line) = reader.next().await? {
            if let Ok(asked) = line.read() {
                let (number, at, length) = (line.number, line.at, line.text.len());
                let place = LinePlace { number, at, length, asked: asked.model() };
                lines.insert(LinePlaces::key(&asked.custom_id), place);
            }
            self.pulse_lease().await?;
        }
        Ok(LinePlaces { lines, draws: batch.endpoint.starts_with("/v1/images/"), judges })
    }

    /// False: this process takes leave.
    async fn fetch(
        &mut self,
        settling: &SettledAnswers<'_>,
        (file, places): (&str, &LinePlaces),
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<bool, RunBroken> {
        let call = settling.sender.native(Method::GET, format!("/v1/files/{file}/content"), &Value::Null);
        let opened = self.followed(self.road.open(call, None).await).await;
        let mut lines = answer_lines(opened)?;
        let mut found = Vec::new();
        loop {
            let next = tokio::select! {
                next = lines.next() => next?,
                () = tokio::time::sleep(PULSE) => {
                    self.pulse_lease().await?;
                    continue;
                }
            };
            let has_ended = next.is_none();
            let answer = next.and_then(|line| read_answer(&line, places));
            found.extend(answer.filter(|answer| !done.done.contains(&answer.place.number)));
            if found.len() >= AT_ONCE || has_ended {
                if (self.runner.draining)() {
                    return Ok(false);
                }
                self.count(settling, places.judges, std::mem::take(&mut found), (done, log)).await?;
            }
            if has_ended {
                return Ok(true);
            }
        }
    }

    /// Who counts, from now on.
    pub(super) fn counted_by(&self) -> Arc<CountedBy> {
        Arc::new(CountedBy { node: self.runner.node.clone(), at: clock::now().micros() })
    }

    /// Each is noted before it is counted, so that none is counted twice; whether one was that an earlier run was about
    /// to count when it died is found out by its record, where that can be.
    async fn count(
        &mut self,
        settling: &SettledAnswers<'_>,
        judges: bool,
        mut found: Vec<FoundAnswer>,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<(), RunBroken> {
        let mut seen = ahash::AHashSet::new();
        found.retain(|answer| seen.insert(answer.place.number));
        if found.is_empty() {
            return Ok(());
        }
        let by = self.counted_by();
        let numbers = found.iter().map(|answer| answer.place.number).collect();
        log.note(&[LogEntry::Counting { numbers, by: by.clone() }]).await.map_err(lost_log)?;
        let (earlier, batch) = (&*done, self.id());
        let counted = found.into_iter().map(async |answer| {
            let number = answer.place.number;
            let record = earlier.record(batch, number, &by);
            // Where there is no answer there is nothing to be judged.
            if !judges || answer.told.is_none() {
                return Ok(settling.booked(answer, record).await);
            }
            let said = said_of(&settling.blobs, earlier, number).await?;
            settling.judged(answer, record, said).await
        });
        let counted: Result<Vec<LineDone>, RunBroken> = join_all(counted).await.into_iter().collect();
        let counted: Vec<LogEntry> = counted?.into_iter().map(LogEntry::Done).collect();
        log.note(&counted).await.map_err(lost_log)?;
        for entry in &counted {
            done.note(entry);
        }
        self.pulse(done).await
    }
}

/// What answers are put down with.
struct SettledAnswers<'a> {
    sender: &'a LineSender,
    blobs: Arc<dyn Blobs>,
    input: Uuid,
}

impl SettledAnswers<'_> {
    /// Counts an answer that no guardrail judges, and gives the line that the provider told.
    async fn booked(&self, answer: FoundAnswer, record: Option<LineRecord>) -> LineDone {
        let FoundAnswer { place, is_good, status, body, line, .. } = answer;
        let usage = body.as_ref().and_then(NativeAnswerBody::used);
        let told = usage.map(|usage| LineUsage { input: usage.prompt(), output: usage.completion() });
        let (number, asked, model) = (place.number, place.asked, body.and_then(|body| body.model));
        let is_counted = record.is_some();
        let booked = BookedAnswer { status, asked, model, usage, native: None, judged: None, record };
        let cost = if is_counted { self.sender.book(number, booked).await } else { 0 };
        LineDone { number, is_good, usage: told.unwrap_or_default(), cost, line }
    }

    /// Counts an answer and gives it as guardrails leave it.
    async fn judged(
        &self,
        answer: FoundAnswer,
        record: Option<LineRecord>,
        said: Option<LineSaid>,
    ) -> Result<LineDone, RunBroken> {
        let FoundAnswer { place, status, body, told, .. } = answer;
        let LinePlace { number, at, length, asked } = place;
        let text = line_at(&self.blobs, self.input, (at, length)).await?;
        let line = FileLine { number, at, text };
        let (custom_id, content) = match line.read() {
            Ok(asked) => (asked.custom_id.clone(), Bytes::copy_from_slice(asked.body.get().as_bytes())),
            Err(_) => (String::new(), Bytes::new()),
        };
        let usage = body.as_ref().and_then(NativeAnswerBody::used);
        let model = body.and_then(|body| body.model);
        let judged = Some(to_judge(said, told));
        let booked = BookedAnswer { status, asked, model, usage, native: None, judged, record };
        let batch = self.sender.batch;
        Ok(match self.sender.read(number, content, booked).await {
            Some((read, cost)) => answered_line(batch, &custom_id, number, &read, cost),
            None => {
                let line = unanswered(&line_id(batch, number), &custom_id, UNREADABLE).to_string();
                let line = RawValue::from_string(line).unwrap_or_default();
                LineDone { number, is_good: false, usage: LineUsage::default(), cost: 0, line }
            }
        })
    }
}

impl NativeAnswerBody {
    fn used(&self) -> Option<Usage> {
        self.pictures.or_else(|| batch_usage(self.usage.as_ref()?.get()))
    }
}

fn read_answer(line: &[u8], places: &LinePlaces) -> Option<FoundAnswer> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let answer: NativeAnswer = serde_json::from_str(text).ok()?;
    let place = places.lines.get(&LinePlaces::key(&answer.custom_id))?.clone();
    let (status, body) = answer.response.map_or((0, None), |response| (response.status_code, response.body));
    let is_good = (200..300).contains(&status) && answer.error.is_none_or(|error| error.is_null());
    let told = body.as_ref().filter(|_| places.judges).map(|body| Bytes::copy_from_slice(body.get().as_bytes()));
    let body = body.and_then(|body| {
        let pictures = if places.draws { batch_pictures(body.get().as_bytes()) } else { None };
        Some(NativeAnswerBody { pictures, ..serde_json::from_str(body.get()).ok()? })
    });
    let status = if status == 0 { 500 } else { status };
    Some(FoundAnswer { place, is_good, status, body, told, line: RawValue::from_string(text.to_owned()).ok()? })
}
