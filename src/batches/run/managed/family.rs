//! A batch at a provider whose interface for batches is its own: each line is written as the provider would be asked
//! for it, and goes up so. What is said to the provider and what it tells is the family's to know; every step is noted
//! before the next one begins.

use super::super::{BatchRun, Halt, PULSE, RunBroken, RunEnd};
use super::guardrail_stage::{AnswerRead, denied_line};
use super::results::AT_ONCE;
use super::{GRACE_SECS, LedModels, LineSender, led_to, read_bytes};
use crate::batches::blob_writer::{BlobWriter, new_blob};
use crate::batches::document::BatchProblem;
use crate::batches::line_context::LineTask;
use crate::batches::lines::{FileLine, LineReader, MOST_MODELS};
use crate::batches::log::{LineSaid, LogEntry};
use crate::batches::operations::{KeepError, now_secs};
use crate::batches::upload::pipe;
use crate::batches::{BatchDocument, LOG, batch_id};
use crate::upstream::StreamedBody;
use crate::upstream::http1::Response;
use crate::{clock, ids};
use bytes::Bytes;
use futures_util::future::join_all;
use gateway_domain::Operation;
use gateway_domain::operation::route;
use gateway_domain::ports::OutsideError;
use gateway_domain::time::Timestamp;
use gateway_providers::native_batches::{
    BatchBody, BatchCall, BatchPlace, LinesForm, NativeBatches, NativeStanding, NativeState, NewBatchAsk, NewLine,
    native_batches,
};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use uuid::Uuid;

/// Problems of lines that are told.
const MOST_PROBLEMS: usize = 100;
/// How many seconds the provider's clock may be behind ours.
const SKEW_SECS: i64 = 120;
/// Pages of a provider's list on which a batch is looked for.
const MOST_SEARCHED: usize = 100;
/// What lines are called at a provider that does not take the names that the client gave them.
const OWN_NAME: &str = "gw_line_";

/// The lines as they go up, in a blob with one on each line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenLines {
    pub(super) blob: Uuid,
    lines: u64,
    /// The sum of the lines' bytes, without what stands between them.
    bytes: u64,
    /// The model of all lines, where the family runs a batch for one model.
    model: Option<String>,
    place: BatchPlace,
}

/// How the door writes a line.
#[derive(Deserialize)]
pub(super) struct LineWritten {
    model: Option<String>,
    place: BatchPlace,
    pub(super) body: Box<RawValue>,
    #[serde(default)]
    pub(super) said: Option<LineSaid>,
}

/// What the door tells of a line that guardrails keep from going up.
#[derive(Deserialize)]
struct LineDenied {
    denied: AnswerRead,
}

impl WrittenLines {
    pub(super) fn begun(blob: Uuid) -> Self {
        Self { blob, ..Self::default() }
    }

    /// One more, which ends its line.
    pub(super) fn add(&mut self, text: &[u8]) {
        self.lines += 1;
        self.bytes += text.len().saturating_sub(1) as u64;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Bytes of all of it as it goes up.
    pub(super) fn whole(&self, form: &LinesForm) -> u64 {
        let between = self.lines.saturating_sub(1) * form.between.len() as u64;
        self.bytes + between + (form.front.len() + form.back.len()) as u64
    }
}

/// What a line is called at the provider.
pub(super) fn native_name(family: &dyn NativeBatches, custom_id: &str, number: u64) -> String {
    if family.takes_name(custom_id) && !custom_id.starts_with(OWN_NAME) {
        return custom_id.to_owned();
    }
    format!("{OWN_NAME}{number}")
}

fn refused<T>(why: String) -> Result<T, RunBroken> {
    Err(RunBroken::Refused(why))
}

impl BatchRun {
    /// The family that the lines are led to, if its interface is its own.
    pub(super) async fn family(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
    ) -> Result<Option<String>, RunBroken> {
        let mut reader = LineReader::new(&self.batches().blobs, batch.input);
        let Some(line) = reader.next().await? else { return Ok(None) };
        let explained = self.explained(sender, &line).await?;
        let slug = explained["targets"][0]["provider"].as_str().unwrap_or_default();
        Ok(native_batches(slug).map(|_| slug.to_owned()))
    }

    pub(super) async fn explained(&self, sender: &LineSender, line: &FileLine) -> Result<Value, RunBroken> {
        let away = || KeepError::Store("what would become of a line cannot be said now".to_owned());
        Ok(sender.explained(line).await.ok_or_else(away)?)
    }

    pub(super) async fn run_by_family(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        family: &'static dyn NativeBatches,
    ) -> Result<RunEnd, RunBroken> {
        let slug = self.native.family.clone().unwrap_or_default();
        let operation = route(&Method::POST, &batch.endpoint).map_or(Operation::Proxy, |routed| routed.operation);
        if !family.serves(operation) {
            let instead = "ask for completion_window immediate";
            return refused(format!("{slug} runs no batches of {}: {instead}", batch.endpoint));
        }
        if let Some(name) = sender.setup.options.keys().find(|name| !family.options().contains(&name.as_str())) {
            return refused(format!("provider_options.{name} is not known to batches of {slug}"));
        }
        if self.native.lines.is_none() {
            match self.write_lines(batch, sender, family).await? {
                Ok(lines) => self.native.lines = Some(lines),
                Err(problems) => return self.fail_with(problems).await,
            }
            self.note_progress().await?;
        }
        let own = batch_id(self.id());
        let lines = self.native.lines.clone().unwrap_or_default();
        if lines.is_empty() {
            return self.end_denied(batch).await;
        }
        let mut new = NewBatchAsk {
            own_id: &own,
            operation,
            model: lines.model.as_deref(),
            options: &sender.setup.options,
            file: None,
            place: &lines.place,
        };
        if let Some(what) = family.lacks(&new) {
            return refused(format!("Batches of {slug} need {what}"));
        }
        if let (Some(upload), None) = (family.upload(&new), &self.native.file) {
            if let Some(ahead) = family.ahead(&new, lines.lines) {
                self.ask_ahead(sender, ahead, family).await?;
            }
            let sent = self.send_lines(sender, upload, family).await?;
            let is_there = family.takes_once() && sent.as_ref().is_ok_and(|answer| answer.status() == 409);
            let body = if is_there { Bytes::new() } else { read_bytes(sent, family.most_told()).await? };
            let Some(file) = family.uploaded(&new, &body) else {
                return refused("The provider took the file and told no id".to_owned());
            };
            self.native.file = Some(file);
            self.note_progress().await?;
        }
        let file = self.native.file.clone();
        new.file = file.as_deref();
        if let (Some(call), None) = (file.as_deref().and_then(|file| family.readiness(file)), &self.native.batch)
            && !family.is_ready(&self.ask_family(sender, call, family).await?)
        {
            return Ok(RunEnd::Later(self.batches().settings.poll));
        }
        let id = self.made_by_family(batch, sender, (family, &new)).await?;
        let Some(found) = self.looked(batch, sender, (family, &id)).await? else {
            return self.end_without(batch, Halt::Cancelled).await;
        };
        if found.state.has_ended() {
            return self.collect_by_family(batch, sender, (family, found)).await;
        }
        if now_secs() > batch.expires + GRACE_SECS {
            return self.end_without(batch, Halt::Expired).await;
        }
        let is_over = family.runs_on() && now_secs() > batch.expires && !self.native.cancelled;
        if self.goes_on(&id, found.state == NativeState::Finalizing).await? || is_over {
            self.ask_family(sender, family.cancel(&id), family).await?;
            self.native.cancelled = true;
            self.note_progress().await?;
        }
        Ok(RunEnd::Later(self.batches().settings.poll))
    }

    /// What goes ahead of a file; an earlier run may have asked for it.
    async fn ask_ahead(
        &mut self,
        sender: &LineSender,
        call: BatchCall,
        family: &'static dyn NativeBatches,
    ) -> Result<(), RunBroken> {
        let opened = self.open_native(sender, &call).await;
        if opened.as_ref().is_ok_and(|answer| answer.status() == 409) {
            return Ok(());
        }
        read_bytes(opened, family.most_told()).await.map(drop)
    }

    /// How the provider's batch stands; `None`: it was cancelled, and is not there any more.
    async fn looked(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        (family, id): (&'static dyn NativeBatches, &str),
    ) -> Result<Option<NativeStanding>, RunBroken> {
        let opened = self.open_native(sender, &family.look(id)).await;
        let is_nowhere = opened.as_ref().is_ok_and(|answer| answer.status() == 404);
        if is_nowhere && self.native.cancelled && family.forgets_cancelled() {
            return Ok(None);
        }
        let told = read_bytes(opened, family.most_told()).await?;
        let mut found = standing(family, &told)?;
        let lines = self.native.lines.as_ref().map_or(0, |lines| lines.lines);
        if found.state == NativeState::Completed && now_secs() <= batch.expires && !family.holds(&told, lines) {
            found.state = NativeState::InProgress;
        }
        Ok(Some(found))
    }

    /// The provider's batch. Where it may have been made already, it is looked for before it is asked for again.
    async fn made_by_family(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        (family, new): (&'static dyn NativeBatches, &NewBatchAsk<'_>),
    ) -> Result<String, RunBroken> {
        if let Some(id) = &self.native.batch {
            return Ok(id.clone());
        }
        let mut found = None;
        let is_unsure = batch.provider_job.is_some() && (family.names_batches() || self.native.unknown > 0);
        if is_unsure {
            found = self.sought(sender, (family, new)).await?;
        }
        let id = match found {
            Some(id) => id,
            None => {
                self.batches()
                    .change(self.workspace, self.id(), |batch| batch.provider_job = Some(String::new()))
                    .await?;
                self.create(sender, (family, new)).await?.id
            }
        };
        if id.is_empty() {
            return refused("The provider made a batch without an id".to_owned());
        }
        self.native.batch = Some(id.clone());
        self.note_progress().await?;
        let told = id.clone();
        self.batches().change(self.workspace, self.id(), |batch| batch.provider_job = Some(told.clone())).await?;
        Ok(id)
    }

    /// The batch that may have been made, in the provider's list.
    async fn sought(
        &mut self,
        sender: &LineSender,
        (family, new): (&'static dyn NativeBatches, &NewBatchAsk<'_>),
    ) -> Result<Option<String>, RunBroken> {
        let mut next = family.search(new);
        for _ in 0..MOST_SEARCHED {
            let Some(search) = next.take() else { return Ok(None) };
            let path = search.path.clone();
            let told = self.ask_family(sender, search, family).await?;
            let found = family.found(&told, new.own_id);
            self.refuse_doubt(family, &told)?;
            if found.is_some() {
                return Ok(found);
            }
            next = family.search_further(&path, &told);
        }
        if next.is_none() {
            return Ok(None);
        }
        let why = "The answer to the creation of this batch was lost, and the provider lists too many batches to tell \
                   whether it made it: look there before it is asked for again";
        refused(why.to_owned())
    }

    /// Asks for the batch, and notes before that nobody knows whether it is made.
    async fn create(
        &mut self,
        sender: &LineSender,
        (family, new): (&'static dyn NativeBatches, &NewBatchAsk<'_>),
    ) -> Result<NativeStanding, RunBroken> {
        if self.native.unknown == 0 {
            self.native.asked_at = now_secs();
        }
        self.native.unknown += 1;
        self.note_progress().await?;
        let told = self.ask_family(sender, family.creation(new), family).await;
        let made = told.and_then(|told| standing(family, &told));
        if matches!(made, Err(RunBroken::Declined(_) | RunBroken::Limited(_))) {
            self.native.unknown -= 1;
            self.note_progress().await?;
        }
        made
    }

    /// Refuses to create the batch again where the answer to an earlier try was lost and no batch of the provider can
    /// be told from another: at once if the provider lists one that may be ours, else after the second try.
    fn refuse_doubt(&self, family: &'static dyn NativeBatches, told: &[u8]) -> Result<(), RunBroken> {
        if family.names_batches() || self.native.unknown == 0 {
            return Ok(());
        }
        let lines = self.native.lines.as_ref().map_or(0, |lines| lines.lines);
        let since = Timestamp::from_secs(self.native.asked_at - SKEW_SECS).to_string();
        let doubted = family.doubted(told, lines, &since);
        if !doubted.is_empty() {
            return refused(format!(
                "The answer to the creation of this batch was lost, and the provider may have made it: {} of as many \
                 lines began then. Look there, and cancel what nobody wants, before it is asked for again",
                doubted.join(", ")
            ));
        }
        if self.native.unknown > 1 {
            let why = "The batch was asked for twice, both answers were lost, and the provider lists none: look there \
                       before it is asked for again";
            return refused(why.to_owned());
        }
        Ok(())
    }

    /// Asks the provider, and keeps the lease meanwhile; what it tells.
    pub(super) async fn ask_family(
        &mut self,
        sender: &LineSender,
        call: BatchCall,
        family: &'static dyn NativeBatches,
    ) -> Result<Bytes, RunBroken> {
        let most = family.most_told();
        match call.body {
            BatchBody::Lines(_) => read_bytes(self.send_lines(sender, call, family).await?, most).await,
            BatchBody::None | BatchBody::Json(_) => read_bytes(self.open_native(sender, &call).await, most).await,
        }
    }

    /// A call that sends no lines.
    pub(super) async fn open_native(&self, sender: &LineSender, call: &BatchCall) -> Result<Response, OutsideError> {
        let body = if let BatchBody::Json(body) = &call.body { body } else { &Value::Null };
        let native = sender.native(call.method.clone(), format!("/v1/proxy{}", call.path), body);
        self.road.open(sender.native_at(native, (call.at, call.begins), None), None).await
    }

    async fn send_lines(
        &mut self,
        sender: &LineSender,
        call: BatchCall,
        family: &'static dyn NativeBatches,
    ) -> Result<Result<Response, OutsideError>, RunBroken> {
        let BatchBody::Lines(form) = call.body else { return Ok(Err(OutsideError::Busy)) };
        let lines = self.native.lines.clone().unwrap_or_default();
        let whole = lines.whole(&form);
        if whole > family.most_up() {
            return refused(format!(
                "The lines have {whole} bytes as the provider reads them, of {}",
                family.most_up()
            ));
        }
        let length = usize::try_from(whole).unwrap_or(usize::MAX);
        let native = sender.native(call.method, format!("/v1/proxy{}", call.path), &Value::Null);
        let call = sender.native_at(native, (call.at, call.begins), Some(&form.content_type));
        let (taker, source) = pipe();
        let reader = LineReader::new(&self.batches().blobs, lines.blob);
        self.batches().runtime.spawn(feed(taker, reader, form));
        let (road, upload) = (self.road.clone(), StreamedBody { source: Box::new(source), length });
        let mut opening = Box::pin(async move { road.open(call, Some(upload)).await });
        loop {
            tokio::select! {
                opened = &mut opening => return Ok(opened),
                () = tokio::time::sleep(PULSE) => self.pulse_lease().await?,
            }
        }
    }

    /// All lines as the provider would be asked for them; or what is wrong with some.
    async fn write_lines(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        family: &'static dyn NativeBatches,
    ) -> Result<Result<WrittenLines, Vec<BatchProblem>>, RunBroken> {
        let blobs = self.batches().blobs.clone();
        let blob = new_blob(ids::next(clock::now()), self.org(), LOG, batch.expires + 2 * GRACE_SECS);
        let mut writer = BlobWriter::begin(&blobs, &blob).await?;
        let mut written = WrittenLines::begun(blob.id);
        let (mut reader, mut led, mut problems) =
            (LineReader::new(&blobs, batch.input), LedModels::default(), Vec::new());
        let judges = self.guards(batch, sender).await?.input;
        let mut verdicts = self.verdicts(batch, judges).await?;
        loop {
            let mut some = Vec::with_capacity(AT_ONCE);
            while some.len() < AT_ONCE {
                let Some(line) = reader.next().await? else { break };
                if verdicts.has(line.number) {
                    continue;
                }
                self.lead(sender, &line, &mut led).await?;
                some.push(line);
            }
            if some.is_empty() || problems.len() >= MOST_PROBLEMS {
                break;
            }
            let asked = some.iter().map(async |line| (line, write(sender, line, LineTask::Written).await));
            let mut entries = Vec::new();
            for (line, told) in join_all(asked).await {
                match told.and_then(|told| one_model(family, &mut written, told)) {
                    Ok(told) => {
                        let Ok(asked) = line.read() else { continue };
                        let name = native_name(family, &asked.custom_id, line.number);
                        let mut text = family.line(&NewLine { name: &name, body: &told.body });
                        written.place = told.place;
                        text.push(b'\n');
                        written.add(&text);
                        writer.push(&text).await?;
                        entries.extend(told.said.map(|said| LogEntry::Judged { number: line.number, said }));
                    }
                    Err(NoLine::Denied(told)) => entries.push(denied_line(self.id(), line, &told)),
                    Err(NoLine::Broken(broken)) => return Err(broken),
                    Err(NoLine::Problem(code, message)) => {
                        let (param, line) = (Some("body".to_owned()), Some(line.number));
                        problems.push(BatchProblem { code: code.to_owned(), message, param, line });
                    }
                }
            }
            verdicts.note(&entries).await?;
            self.pulse_lease().await?;
        }
        writer.finish().await?;
        if problems.is_empty() {
            return Ok(Ok(written));
        }
        problems.truncate(MOST_PROBLEMS);
        self.batches().blobs.delete(self.org(), blob.id).await?;
        Ok(Err(problems))
    }

    /// Sees to it that the line has one target.
    pub(super) async fn lead(
        &mut self,
        sender: &LineSender,
        line: &FileLine,
        led: &mut LedModels,
    ) -> Result<(), RunBroken> {
        let Some(model) = line.read().ok().map(|asked| asked.model()) else { return Ok(()) };
        if led.contains_key(&model) {
            return Ok(());
        }
        if led.len() >= MOST_MODELS {
            return refused(format!("The file names more than {MOST_MODELS} models"));
        }
        let target = led_to(&self.explained(sender, line).await?)?;
        led.insert(model, target);
        Ok(())
    }
}

fn standing(family: &dyn NativeBatches, body: &[u8]) -> Result<NativeStanding, RunBroken> {
    let no_batch = || KeepError::Store("the provider tells no batch".to_owned());
    Ok(family.standing(body).ok_or_else(no_batch)?)
}

/// Why a line does not go up.
pub(super) enum NoLine {
    /// Guardrails: what is told in the place of its answer.
    Denied(AnswerRead),
    /// What is wrong with it, as code and message.
    Problem(&'static str, String),
    Broken(RunBroken),
}

pub(super) async fn write(sender: &LineSender, line: &FileLine, task: LineTask) -> Result<LineWritten, NoLine> {
    let away = |why: String| NoLine::Broken(RunBroken::Failed(KeepError::Store(why)));
    let body = line.read().map(|asked| Bytes::copy_from_slice(asked.body.get().as_bytes()));
    let body = body.map_err(|e| NoLine::Problem("invalid_json_line", e.to_string()))?;
    match sender.done(line.number, body, task).await {
        Ok((told, _)) if told.starts_with(b"{\"denied\"") => {
            let told: Result<LineDenied, _> = serde_json::from_slice(&told);
            Err(told.map_or_else(|e| away(e.to_string()), |told| NoLine::Denied(told.denied)))
        }
        Ok((told, _)) => serde_json::from_slice(&told).map_err(|e| away(format!("a line was not written: {e}"))),
        Err(refusal) => Err(match refusal.status {
            400 | 403 | 404 | 413 => NoLine::Problem("invalid_request", refusal.message),
            500 if refusal.message.contains("is not supported") => NoLine::Broken(RunBroken::Refused(refusal.message)),
            _ => away(refusal.message),
        }),
    }
}

/// Holds a line to the model of those before it, where the family has one for a batch.
fn one_model(family: &dyn NativeBatches, written: &mut WrittenLines, told: LineWritten) -> Result<LineWritten, NoLine> {
    if !family.has_one_model() {
        return Ok(told);
    }
    match &written.model {
        Some(model) if told.model.as_ref() != Some(model) => {
            let why =
                format!("All lines of a batch at this provider ask for one model, and the first asks for {model}");
            Err(NoLine::Problem("mismatched_model", why))
        }
        Some(_) => Ok(told),
        None if told.model.is_none() => {
            Err(NoLine::Problem("missing_model", "A line of a batch names a model".to_owned()))
        }
        None => {
            written.model.clone_from(&told.model);
            Ok(told)
        }
    }
}

/// Writes the lines with what stands around them. What breaks off is not whole, and the provider's to refuse.
pub(super) async fn feed(taker: Sender<Bytes>, mut reader: LineReader, form: LinesForm) {
    if taker.send(form.front.into()).await.is_err() {
        return;
    }
    let mut is_first = true;
    loop {
        let line = match reader.next().await {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(e) => return tracing::warn!(error = %e, "the lines of a batch could not be read while they went up"),
        };
        if !std::mem::take(&mut is_first) && taker.send(Bytes::from_static(form.between.as_bytes())).await.is_err() {
            return;
        }
        if taker.send(line.text).await.is_err() {
            return;
        }
    }
    // Whoever takes nothing more has what it wants.
    let _ = taker.send(form.back.into()).await;
}
