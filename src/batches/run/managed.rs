//! A batch that a provider runs: its lines go up as a file of the provider's, its batch is made there and looked at now
//! and then, and what came of the lines is fetched, counted and kept. Every step is noted before the next one begins,
//! and a run that finds nothing to do gives the batch back until the next look.

use super::line::{FIRST_WAIT, LONGEST_WAIT, LineSender, is_own, retry_after};
use super::{BatchRun, Halt, OwnLimit, PULSE, RunBroken, RunEnd};
use crate::batches::document::{BatchProblem, BatchStatus};
use crate::batches::lines::{LineReader, MOST_MODELS};
use crate::batches::native_batch::{self, NativeBatch, NativeList};
use crate::batches::operations::{KeepError, now_secs};
use crate::batches::upload::pipe;
use crate::batches::{BatchDocument, batch_id};
use crate::downloads;
use crate::upstream::StreamedBody;
use crate::upstream::http1::Response;
use ahash::AHashMap;
use bytes::Bytes;
use gateway_domain::cloud::CloudService;
use gateway_domain::id::KeyId;
use gateway_domain::ports::OutsideError;
use gateway_providers::native_batches::{LinesForm, native_batches};
use http::{HeaderValue, Method, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use uuid::Uuid;

mod family;
mod family_results;
mod guardrail_stage;
mod results;

use family::{WrittenLines, feed};

/// After its time the provider says itself how its batch ended; for so long it is waited for.
const GRACE_SECS: i64 = 3_600;
/// Bytes of an answer that tells of a file or a batch.
const MOST_TOLD: usize = 1 << 20;

/// How far it came at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NativeProgress {
    /// The provider's family, where its interface for batches is not OpenAI's.
    family: Option<String>,
    /// The lines as they go up there.
    lines: Option<WrittenLines>,
    file: Option<String>,
    batch: Option<String>,
    /// The provider was told that it is cancelled.
    cancelled: bool,
    /// Times that the batch was asked for and nobody knows whether it was made, and when the first was, in seconds.
    unknown: u32,
    asked_at: i64,
}

impl NativeProgress {
    /// Where lines lie that only runs need.
    pub(super) fn lines_blob(&self) -> Option<&Uuid> {
        self.lines.as_ref().map(|lines| &lines.blob)
    }
}

/// What the provider says of a file that it took.
#[derive(Deserialize)]
struct UploadedFile {
    id: String,
}

/// The model that each model of the file is led to.
type LedModels = AHashMap<Option<String>, Option<String>>;

impl BatchRun {
    pub(super) async fn run_managed(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
    ) -> Result<RunEnd, RunBroken> {
        if !self.may_call(KeyId(batch.key)) {
            return self.end_without(batch, Halt::Revoked).await;
        }
        let is_begun = self.native.file.is_some() || self.native.lines.is_some();
        if !is_begun && self.cancelled.is_some() {
            return self.end_without(batch, Halt::Cancelled).await;
        }
        if !is_begun && self.native.family.is_none() {
            self.native.family = self.family(batch, sender).await?;
        }
        if let Some(family) = self.native.family.as_deref().and_then(native_batches) {
            return Box::pin(self.run_by_family(batch, sender, family)).await;
        }
        if self.native.file.is_none() {
            if self.native.lines.is_none() && self.guards(batch, sender).await?.input {
                self.native.lines = Some(self.write_judged(batch, sender).await?);
                self.note_progress().await?;
            }
            if self.native.lines.as_ref().is_some_and(WrittenLines::is_empty) {
                return self.end_denied(batch).await;
            }
            self.native.file = Some(self.upload(batch, sender).await?);
            self.note_progress().await?;
        }
        let id = self.made(batch, sender).await?;
        let found: NativeBatch =
            self.request_json(sender, Method::GET, format!("/v1/batches/{id}"), &Value::Null).await?;
        if found.status().has_ended() {
            return self.collect(batch, sender, found).await;
        }
        if now_secs() > batch.expires + GRACE_SECS {
            return self.end_without(batch, Halt::Expired).await;
        }
        if self.goes_on(&id, found.status() == BatchStatus::Finalizing).await? {
            let _: NativeBatch =
                self.request_json(sender, Method::POST, format!("/v1/batches/{id}/cancel"), &json!({})).await?;
            self.native.cancelled = true;
            self.note_progress().await?;
        }
        Ok(RunEnd::Later(self.batches().settings.poll))
    }

    /// What a limit of the gateway's own holds up waits for it, unless it lets nothing through before the batch is
    /// over.
    pub(super) async fn wait_for(&mut self, batch: &BatchDocument, limit: OwnLimit) -> Result<RunEnd, RunBroken> {
        let left = u64::try_from(batch.expires - now_secs()).unwrap_or_default();
        let OwnLimit { is_budget, after, why } = limit;
        if self.cancelled.is_some() && self.native.batch.is_none() && self.native.unknown == 0 {
            return self.end_without(batch, Halt::Cancelled).await;
        }
        if is_budget && after.is_none_or(|after| after.as_secs() >= left) {
            let problem = BatchProblem { code: "budget_exhausted".to_owned(), message: why, param: None, line: None };
            return self.fail_with(vec![problem]).await;
        }
        if now_secs() > batch.expires + GRACE_SECS {
            return Err(KeepError::Store(why).into());
        }
        if left == 0 && self.native.batch.is_none() {
            return self.end_without(batch, Halt::Expired).await;
        }
        let most = self.batches().settings.poll.min(LONGEST_WAIT);
        Ok(RunEnd::Later(after.unwrap_or(most).min(most).max(FIRST_WAIT)))
    }

    /// Notes how the provider's batch stands; true: the provider is to be told that it is cancelled.
    async fn goes_on(&self, id: &str, is_finalizing: bool) -> Result<bool, RunBroken> {
        let told = self.batches().change(self.workspace, self.id(), |batch| {
            batch.provider_job = Some(id.to_owned());
            if batch.status == BatchStatus::InProgress && is_finalizing {
                batch.enter(BatchStatus::Finalizing, now_secs());
            }
        });
        Ok(told.await?.cancelling.is_some() && !self.native.cancelled)
    }

    /// None of its lines was answered.
    async fn end_without(&mut self, batch: &BatchDocument, halt: Halt) -> Result<RunEnd, RunBroken> {
        let (done, _) = self.begin_log(batch).await?;
        self.finalize(batch, &done, Some(halt)).await?;
        Ok(RunEnd::Ended)
    }

    /// The provider's batch. Where an earlier run may have asked for it and died, it is looked for first.
    async fn made(&mut self, batch: &BatchDocument, sender: &LineSender) -> Result<String, RunBroken> {
        if let Some(id) = &self.native.batch {
            return Ok(id.clone());
        }
        let own = batch_id(self.id());
        let mut found = None;
        if batch.provider_job.is_some() {
            let list: NativeList =
                self.request_json(sender, Method::GET, "/v1/batches?limit=100".to_owned(), &Value::Null).await?;
            found = list.data.into_iter().find(|made| native_batch::is_of(made, &own));
        }
        let made = match found {
            Some(made) => made,
            None => {
                self.batches()
                    .change(self.workspace, self.id(), |batch| batch.provider_job = Some(String::new()))
                    .await?;
                let file = self.native.file.clone().unwrap_or_default();
                let asked = native_batch::creation(&sender.setup.options, &own, (&file, &batch.endpoint));
                let call = sender.native(Method::POST, "/v1/batches".to_owned(), &asked);
                let call = sender.native_at(call, (CloudService::Api, true), None);
                read_told(self.road.open(call, None).await).await?
            }
        };
        if made.id.is_empty() {
            return Err(RunBroken::Refused("The provider made a batch without an id".to_owned()));
        }
        self.native.batch = Some(made.id.clone());
        self.note_progress().await?;
        let id = made.id.clone();
        self.batches().change(self.workspace, self.id(), |batch| batch.provider_job = Some(id.clone())).await?;
        Ok(made.id)
    }

    /// The lines, as a file of the provider's; its id.
    async fn upload(&mut self, batch: &BatchDocument, sender: &LineSender) -> Result<String, RunBroken> {
        let (front, back) = native_batch::form_around();
        let (taker, source) = pipe();
        let length = match self.native.lines.clone() {
            Some(written) => {
                let content_type = native_batch::form_type();
                let form = LinesForm { content_type, front, between: "\n", back: format!("\n{back}") };
                let reader = LineReader::new(&self.batches().blobs, written.blob);
                let length = usize::try_from(written.whole(&form)).unwrap_or(usize::MAX);
                self.batches().runtime.spawn(feed(taker, reader, form));
                length
            }
            None => {
                let (models, lines) = self.measured(batch, sender).await?;
                let length = front.len() + lines + back.len();
                let reader = LineReader::new(&self.batches().blobs, batch.input);
                self.batches().runtime.spawn(feed_led(taker, reader, Arc::new(models), (front, back)));
                length
            }
        };
        let mut call = sender.native(Method::POST, "/v1/files".to_owned(), &Value::Null);
        let kind = HeaderValue::from_str(&native_batch::form_type());
        call.headers.push((header::CONTENT_TYPE, kind.map_err(|e| KeepError::Store(e.to_string()))?));
        let (road, upload) = (self.road.clone(), StreamedBody { source: Box::new(source), length });
        let mut opening = Box::pin(async move { road.open(call, Some(upload)).await });
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                () = tokio::time::sleep(PULSE) => self.pulse_lease().await?,
            }
        };
        let made: UploadedFile = read_told(opened).await?;
        Ok(made.id)
    }

    /// Where each model is led to, and how many bytes the lines are with those.
    async fn measured(&mut self, batch: &BatchDocument, sender: &LineSender) -> Result<(LedModels, usize), RunBroken> {
        let (mut models, mut bytes) = (LedModels::default(), 0);
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        while let Some(line) = reader.next().await? {
            let Ok(asked) = line.read() else { continue };
            let model = asked.model();
            if !models.contains_key(&model) {
                if models.len() >= MOST_MODELS {
                    return Err(RunBroken::Refused(format!("The file names more than {MOST_MODELS} models")));
                }
                let away = || KeepError::Store("what would become of a line cannot be said now".to_owned());
                let led = led_to(&sender.explained(&line).await.ok_or_else(away)?)?;
                models.insert(model.clone(), led);
            }
            let led = models.get(&model).and_then(Option::as_deref);
            bytes += native_batch::native_line(&asked, asked.body, led).map_or(0, |line| line.len());
            self.pulse_lease().await?;
        }
        Ok((models, bytes))
    }

    async fn request_json<T: DeserializeOwned>(
        &self,
        sender: &LineSender,
        method: Method,
        target: String,
        body: &Value,
    ) -> Result<T, RunBroken> {
        read_told(self.road.open(sender.native(method, target, body), None).await).await
    }
}

/// The model that the one target of a line is asked for: a batch of a provider's is that of one provider.
fn led_to(explained: &Value) -> Result<Option<String>, RunBroken> {
    let [target] = explained["targets"].as_array().map(Vec::as_slice).unwrap_or_default() else {
        let why = "A batch that a provider runs needs a config with one target: ask for completion_window immediate";
        return Err(RunBroken::Refused(why.to_owned()));
    };
    Ok(target["model"].as_str().map(ToOwned::to_owned))
}

/// Writes the form by which the lines go up. What breaks off is not whole, and the provider's to refuse.
async fn feed_led(
    taker: Sender<Bytes>,
    mut reader: LineReader,
    models: Arc<LedModels>,
    (front, back): (String, String),
) {
    if taker.send(front.into()).await.is_err() {
        return;
    }
    loop {
        let line = match reader.next().await {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(e) => return tracing::warn!(error = %e, "the file of a batch could not be read while it went up"),
        };
        let Ok(asked) = line.read() else { continue };
        let led = models.get(&asked.model()).and_then(Option::as_deref);
        let Some(text) = native_batch::native_line(&asked, asked.body, led) else { continue };
        if taker.send(text.into()).await.is_err() {
            return;
        }
    }
    // Whoever takes nothing more has what it wants.
    let _ = taker.send(back.into()).await;
}

/// What the provider says, whole. A refusal that would be the same the next time ends the batch.
async fn read_told<T: DeserializeOwned>(opened: Result<Response, OutsideError>) -> Result<T, RunBroken> {
    let body = read_bytes(opened, MOST_TOLD).await?;
    let no_batch = |e| RunBroken::Failed(KeepError::Store(format!("the provider tells no batch: {e}")));
    serde_json::from_slice(&body).map_err(no_batch)
}

async fn read_bytes(opened: Result<Response, OutsideError>, most: usize) -> Result<Bytes, RunBroken> {
    let too_much = || RunBroken::Refused("The provider tells too much of its batch".to_owned());
    read_within(opened, most).await?.ok_or_else(too_much)
}

/// `None`: it has more bytes. What is left of it is not read.
async fn read_within(opened: Result<Response, OutsideError>, most: usize) -> Result<Option<Bytes>, RunBroken> {
    let away = |why: String| RunBroken::Failed(KeepError::Store(why));
    let mut response = opened.map_err(|e| away(e.to_string()))?;
    let read = downloads::read_within(&mut response, most).await.map_err(|e| away(e.to_string()))?;
    let Some(body) = read else { return Ok(None) };
    let status = response.status();
    if (200..300).contains(&status) {
        return Ok(Some(body));
    }
    let after = retry_after(response.head().headers());
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = told["error"]["message"].as_str().or_else(|| told["message"].as_str()).unwrap_or_default();
    let told = format!("status {status}: {message}");
    match status {
        // An operation that the family does not have.
        500 if message.contains("is not supported") => Err(RunBroken::Refused(message.to_owned())),
        412 | 429 | 503 if is_own(&body) => {
            Err(RunBroken::Limited(OwnLimit { is_budget: status == 412, after, why: message.to_owned() }))
        }
        // Overloaded, as Anthropic and others say it: nothing was done.
        401 | 408 | 409 | 412 | 429 | 503 | 529 => Err(RunBroken::Declined(told)),
        500.. => Err(away(told)),
        _ => Err(RunBroken::Refused(told)),
    }
}
