//! What came of the lines at a provider with an interface of its own: each answer is read as the client reads it,
//! counted once, and put down like the answer to a line that the gateway asked itself. The provider tells them in any
//! order.

use super::super::line::{line_id, unanswered};
use super::super::{BatchRun, Halt, PULSE, RunBroken, RunEnd, lost_log};
use super::LineSender;
use super::family::native_name;
use super::guardrail_stage::{UNREADABLE, answered_line, to_judge};
use super::results::{AT_ONCE, LinePlaces, answer_lines};
use super::{read_bytes, read_within};
use crate::batches::BatchDocument;
use crate::batches::document::{BatchProblem, LineUsage};
use crate::batches::line_context::{BookedAnswer, LineRecord};
use crate::batches::lines::{FileLine, LineReader, line_at};
use crate::batches::log::{EarlierRuns, LineDone, LineSaid, LogEntry, RunLog, said_of};
use crate::batches::operations::KeepError;
use crate::upstream::http1::{Response, ResponseLines};
use ahash::{AHashMap, AHashSet};
use bytes::Bytes;
use futures_util::future::join_all;
use gateway_domain::ports::{Blobs, OutsideError};
use gateway_providers::native_batches::{BatchCall, LineEnd, NativeBatches, NativeLine, NativeStanding, NativeState};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The most files of results that are read for a batch: one of answered lines, one of the others, and some to spare.
const MOST_FILES: usize = 8;

/// Where a line stands in the file of the client.
#[derive(Clone, Copy)]
struct LineStand {
    number: u64,
    at: u64,
    length: usize,
}

/// All lines, by what the provider calls them.
type NamedLines = AHashMap<[u8; 16], LineStand>;

/// An answer that belongs to a line of ours.
struct FoundLine {
    line: LineStand,
    end: LineEnd,
}

/// What all answers are put down with.
struct AnswerBook {
    family: &'static dyn NativeBatches,
    lines: NamedLines,
    sender: LineSender,
    blobs: Arc<dyn Blobs>,
    input: Uuid,
    /// Guardrails have their say of each answer.
    judges: bool,
}

impl BatchRun {
    /// The provider's batch has ended: so does this one.
    pub(super) async fn collect_by_family(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
        (family, found): (&'static dyn NativeBatches, NativeStanding),
    ) -> Result<RunEnd, RunBroken> {
        let is_cancelled = batch.cancelling.is_some();
        let halt = match found.state {
            NativeState::Failed => {
                let told = |message| {
                    let (code, param, line) = ("provider_failed".to_owned(), None, None);
                    BatchProblem { code, message, param, line }
                };
                return self.fail_with(found.problems.into_iter().map(told).collect()).await;
            }
            // Its time was over, and it was told to end.
            NativeState::Cancelled if !is_cancelled && self.native.cancelled => Halt::Expired,
            NativeState::Cancelled => Halt::Cancelled,
            NativeState::Expired => Halt::Expired,
            _ if is_cancelled => Halt::Cancelled,
            _ => Halt::Unanswered,
        };
        let lines = self.named_lines(batch, family).await?;
        let (mut done, mut log) = self.begin_log(batch).await?;
        let blobs = self.batches().blobs.clone();
        let guards = self.guards(batch, sender).await?;
        if guards.output {
            self.enter_judging().await?;
        }
        let (sender, input, judges) = (sender.clone(), batch.input, guards.any());
        let book = AnswerBook { family, lines, sender, blobs, input, judges };
        self.put_down_all(&book, found.told, (&mut done, &mut log)).await?;
        let mut calls = VecDeque::from(found.results);
        while let Some(call) = calls.pop_front() {
            let opened = self.followed(self.open_native(&book.sender, &call).await).await;
            let is_nowhere = opened.as_ref().is_ok_and(|answer| answer.status() == 404);
            if is_nowhere && found.state != NativeState::Completed {
                // It ended before there were any.
                continue;
            }
            if let Some(pages) = family.pages() {
                let Some(told) = read_within(opened, pages.most).await? else {
                    let too_large = || RunBroken::Refused("The provider tells a result that is too large".to_owned());
                    calls.push_front((pages.smaller)(&call.path).ok_or_else(too_large)?);
                    continue;
                };
                let no_page = || KeepError::Store("the provider tells no page of results".to_owned());
                let page = (pages.read)(&call.path, &told).ok_or_else(no_page)?;
                if (self.runner.draining)() {
                    return Ok(RunEnd::Later(Duration::ZERO));
                }
                self.put_down_all(&book, page.lines, (&mut done, &mut log)).await?;
                calls.extend(page.next);
                continue;
            }
            let files = match family.addresses() {
                None => vec![opened],
                Some(addresses) => {
                    let told = addresses(&read_bytes(opened, family.most_told()).await?);
                    self.downloads(&told).await
                }
            };
            for file in files {
                let mut answers = answer_lines(file)?;
                if !self.read_answers(&book, &mut answers, (&mut done, &mut log)).await? {
                    return Ok(RunEnd::Later(Duration::ZERO));
                }
            }
        }
        self.finalize(batch, &done, Some(halt)).await?;
        let removal = self.native.file.as_deref().and_then(|file| family.removal(file));
        if let Some(removal) = removal {
            self.remove_there(&book.sender, removal, family).await;
        }
        Ok(RunEnd::Ended)
    }

    /// Files of results that lie elsewhere: few, as each is opened before the first is read.
    async fn downloads(&self, addresses: &[String]) -> Vec<Result<Response, OutsideError>> {
        let mut files = Vec::new();
        for url in addresses.iter().take(MOST_FILES) {
            files.push(self.batches().downloads.open(url).await);
        }
        files
    }

    /// What stays there is the provider's to remove.
    async fn remove_there(&mut self, sender: &LineSender, removal: BatchCall, family: &'static dyn NativeBatches) {
        let _: Result<Bytes, RunBroken> = self.ask_family(sender, removal, family).await;
    }

    async fn named_lines(
        &mut self,
        batch: &BatchDocument,
        family: &'static dyn NativeBatches,
    ) -> Result<NamedLines, RunBroken> {
        let (mut lines, mut reader) = (NamedLines::default(), LineReader::new(&self.batches().blobs, batch.input));
        while let Some(line) = reader.next().await? {
            if let Ok(asked) = line.read() {
                let name = native_name(family, &asked.custom_id, line.number);
                let (number, at, length) = (line.number, line.at, line.text.len());
                lines.insert(LinePlaces::key(&name), LineStand { number, at, length });
            }
            self.pulse_lease().await?;
        }
        Ok(lines)
    }

    /// False: this process takes leave.
    async fn read_answers(
        &mut self,
        book: &AnswerBook,
        answers: &mut ResponseLines,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<bool, RunBroken> {
        let mut found = Vec::new();
        loop {
            let next = tokio::select! {
                next = answers.next() => next?,
                () = tokio::time::sleep(PULSE) => {
                    self.pulse_lease().await?;
                    continue;
                }
            };
            let has_ended = next.is_none();
            found.extend(next.and_then(|line| found_line(book.family.answer(line.trim_ascii())?, &book.lines)));
            if found.len() >= AT_ONCE || has_ended {
                if (self.runner.draining)() {
                    return Ok(false);
                }
                self.put_down(book, std::mem::take(&mut found), (done, log)).await?;
            }
            if has_ended {
                return Ok(true);
            }
        }
    }

    /// Puts all answers down, in parts of as many as are counted at once.
    async fn put_down_all(
        &mut self,
        book: &AnswerBook,
        told: Vec<NativeLine>,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<(), RunBroken> {
        let mut found = told.into_iter().filter_map(|told| found_line(told, &book.lines)).collect::<Vec<_>>();
        while !found.is_empty() {
            let rest = found.split_off(found.len().min(AT_ONCE));
            self.put_down(book, std::mem::replace(&mut found, rest), (done, log)).await?;
        }
        Ok(())
    }

    /// Each is noted before it is counted, so that none is counted twice; whether one was that an earlier run was about
    /// to count when it died is found out by its record, where that can be.
    async fn put_down(
        &mut self,
        book: &AnswerBook,
        mut found: Vec<FoundLine>,
        (done, log): (&mut EarlierRuns, &mut RunLog),
    ) -> Result<(), RunBroken> {
        let mut seen = AHashSet::new();
        found.retain(|answer| !done.done.contains(&answer.line.number) && seen.insert(answer.line.number));
        if found.is_empty() {
            return Ok(());
        }
        let by = self.counted_by();
        let numbers = found.iter().map(|answer| answer.line.number).collect();
        log.note(&[LogEntry::Counting { numbers, by: by.clone() }]).await.map_err(lost_log)?;
        let (earlier, judges, batch) = (&*done, book.judges, self.id());
        let counted = found.into_iter().map(async |answer| {
            let number = answer.line.number;
            let said = if judges { said_of(&book.blobs, earlier, number).await? } else { None };
            book.line(answer, earlier.record(batch, number, &by), (judges, said)).await
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

fn found_line(told: NativeLine, lines: &NamedLines) -> Option<FoundLine> {
    let line = *lines.get(&LinePlaces::key(&told.name))?;
    Some(FoundLine { line, end: told.end })
}

impl AnswerBook {
    /// Reads what was answered, and counts it.
    async fn line(
        &self,
        found: FoundLine,
        record: Option<LineRecord>,
        (judges, said): (bool, Option<LineSaid>),
    ) -> Result<LineDone, RunBroken> {
        let LineStand { number, at, length } = found.line;
        let text = line_at(&self.blobs, self.input, (at, length)).await?;
        let line = FileLine { number, at, text };
        let id = line_id(self.sender.batch, number);
        let (custom_id, body) = match line.read() {
            Ok(asked) => (asked.custom_id.clone(), Bytes::copy_from_slice(asked.body.get().as_bytes())),
            Err(_) => (String::new(), Bytes::new()),
        };
        let without = |halt: (&str, &str)| done(number, &unanswered(&id, &custom_id, halt));
        let (status, native) = match found.end {
            LineEnd::Cancelled => return Ok(without(Halt::Cancelled.line_error())),
            LineEnd::Expired => return Ok(without(Halt::Expired.line_error())),
            LineEnd::Answered { status, body } => (status, Some(body)),
            LineEnd::Other(other) => (200, Some(other.body)),
        };
        let judged = judges.then(|| to_judge(said, None));
        let booked = BookedAnswer { status, asked: None, model: None, usage: None, native, judged, record };
        match self.sender.read(number, body, booked).await {
            Some((read, cost)) => Ok(answered_line(self.sender.batch, &custom_id, number, &read, cost)),
            None => Ok(without(UNREADABLE)),
        }
    }
}

/// A line that was not answered well, and cost nothing.
fn done(number: u64, line: &Value) -> LineDone {
    let line = RawValue::from_string(line.to_string()).unwrap_or_default();
    LineDone { number, is_good: false, usage: LineUsage::default(), cost: 0, line }
}
