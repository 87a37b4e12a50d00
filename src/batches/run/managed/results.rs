//! What came of the lines at the provider: fetched line by line, counted once, and put down like lines that the gateway
//! asked itself. The provider answers in any order, and names lines as the client did.

use super::{BatchRun, Halt, LineSender, RunBroken, RunEnd};
use crate::batches::BatchDocument;
use crate::batches::document::{BatchProblem, BatchStatus, LineUsage};
use crate::batches::guest::BookedAnswer;
use crate::batches::keep::{KeepError, now_secs};
use crate::batches::lines::{LineReader, MOST_LINE};
use crate::batches::log::{EarlierRuns, LineDone, LogEntry, RunLog};
use crate::batches::native::NativeBatch;
use crate::batches::run::{PULSE, lost_log};
use crate::upstream::http1::{Response, ResponseLines};
use ahash::AHashMap;
use futures_util::future::join_all;
use gateway_domain::ports::OutsideError;
use gateway_providers::batch_usage;
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// Lines that are counted at once.
pub(super) const AT_ONCE: usize = 25;

/// Where lines stand in the file, and which model they asked for, by what the client calls them.
pub(super) struct LinePlaces(AHashMap<[u8; 16], (u64, Option<String>)>);

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
}

/// One that belongs to a line of ours.
struct FoundAnswer {
    number: u64,
    asked: Option<String>,
    is_good: bool,
    status: u16,
    body: Option<NativeAnswerBody>,
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
        let places = self.places(batch).await?;
        let (mut done, mut log) = self.begin_log(batch).await?;
        for file in [&found.output_file_id, &found.error_file_id].into_iter().flatten() {
            if !self.fetch(sender, file, &places, (&mut done, &mut log)).await? {
                return Ok(RunEnd::Later(std::time::Duration::ZERO));
            }
        }
        self.finalize(batch, &done, Some(halt)).await?;
        if let Some(file) = self.native.file.clone() {
            // What stays there is the provider's to remove.
            let _: Result<Value, RunBroken> =
                self.told(sender, Method::DELETE, format!("/v1/files/{file}"), &Value::Null).await;
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

    async fn places(&mut self, batch: &BatchDocument) -> Result<LinePlaces, RunBroken> {
        let mut places = AHashMap::new();
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        while let Some(line) = reader.next().await? {
            if let Ok(asked) = line.read() {
                places.insert(LinePlaces::key(&asked.custom_id), (line.number, asked.model()));
            }
            self.pulse_lease().await?;
        }
        Ok(LinePlaces(places))
    }

    /// False: this process takes leave.
    async fn fetch(
        &mut self,
        sender: &LineSender,
        file: &str,
        places: &LinePlaces,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<bool, RunBroken> {
        let call = sender.native(Method::GET, format!("/v1/files/{file}/content"), &Value::Null);
        let mut lines = answer_lines(self.road.open(call, None).await)?;
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
            found.extend(answer.filter(|answer| !done.done.contains(&answer.number)));
            if found.len() >= AT_ONCE || has_ended {
                if (self.runner.draining)() {
                    return Ok(false);
                }
                self.count(sender, std::mem::take(&mut found), (done, log)).await?;
            }
            if has_ended {
                return Ok(true);
            }
        }
    }

    /// Each is noted before it is counted, so that none is counted twice; one that an earlier run was about to count when
    /// it died is not counted again.
    async fn count(
        &mut self,
        sender: &LineSender,
        mut found: Vec<FoundAnswer>,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<(), RunBroken> {
        let mut seen = ahash::AHashSet::new();
        found.retain(|answer| seen.insert(answer.number));
        if found.is_empty() {
            return Ok(());
        }
        log.note(&[LogEntry::Sent(found.iter().map(|answer| answer.number).collect())]).await.map_err(lost_log)?;
        let doubtful = &done.doubtful;
        let counted = found.into_iter().map(async |answer| {
            let FoundAnswer { number, asked, is_good, status, body, line } = answer;
            let usage = body.as_ref().and_then(|body| batch_usage(body.usage.as_ref()?.get()));
            let told = usage.map(|usage| LineUsage { input: usage.prompt(), output: usage.completion() });
            let model = body.and_then(|body| body.model);
            let cost = match doubtful.contains(&number) {
                true => 0,
                false => {
                    sender
                        .book(number, BookedAnswer { status, asked, model, usage, native: None, is_counted: true })
                        .await
                }
            };
            LineDone { number, is_good, usage: told.unwrap_or_default(), cost, line }
        });
        let counted: Vec<LogEntry> = join_all(counted).await.into_iter().map(LogEntry::Done).collect();
        log.note(&counted).await.map_err(lost_log)?;
        for entry in &counted {
            done.note(entry);
        }
        self.pulse(done).await
    }
}

fn read_answer(line: &[u8], places: &LinePlaces) -> Option<FoundAnswer> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let answer: NativeAnswer = serde_json::from_str(text).ok()?;
    let (number, asked) = places.0.get(&LinePlaces::key(&answer.custom_id))?.clone();
    let (status, body) = answer.response.map_or((0, None), |response| (response.status_code, response.body));
    let is_good = (200..300).contains(&status) && answer.error.is_none_or(|error| error.is_null());
    let body = body.and_then(|body| serde_json::from_str::<NativeAnswerBody>(body.get()).ok());
    let status = if status == 0 { 500 } else { status };
    Some(FoundAnswer { number, asked, is_good, status, body, line: RawValue::from_string(text.to_owned()).ok()? })
}
