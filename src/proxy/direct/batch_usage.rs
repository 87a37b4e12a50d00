//! What the lines of a provider's own batch cost, counted when it is first seen to have ended: each line by itself, at
//! the price for batches, and once for all nodes and all looks at it. Nobody waits for it.

use super::batches::FoundBatch;
use super::results::{BatchReader, NativeResults, ResultReading};
use super::{DirectStop, objects, own_objects};
use crate::batches::BookedAnswer;
use crate::bookings::{BookingId, CountingTurn, Knowledge, LineKey, LineNames};
use crate::proxy::exchange::{CallParts, book};
use gateway_domain::record::LogRecord;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::native_batches::{LineEnd, NativeLine};

/// Lines that are noted, and then counted, in one go, and their bytes.
const AT_ONCE: usize = 100;
const MOST_BYTES: usize = 1 << 20;

impl BatchReader<'_> {
    /// `None`: it was made elsewhere, or for another workspace, and is none to count here.
    pub(super) async fn made_here(self, found: FoundBatch) -> Option<FoundBatch> {
        let (native, request) = (&found.standing.id, self.asked.0);
        let keeper = objects::keeper_of(self.services.aim(), request);
        let made = self.calls.bookings.made(own_objects::owner(request), (&keeper, native)).await;
        match made {
            Ok(made) => made.map(|made| found.made_with(made)),
            Err(e) => {
                tracing::warn!(batch = native, error = %e, "whether a provider's batch was made here is not known");
                None
            }
        }
    }

    /// Counts what was not counted yet. What goes wrong is tried again at a later look.
    pub(super) async fn count(self, found: FoundBatch) {
        let (native, bookings) = (found.standing.id.clone(), &self.calls.bookings);
        let keeper = objects::keeper_of(self.services.aim(), self.asked.0);
        let id = BookingId::of_batch(&keeper, &native);
        match bookings.begin(id, own_objects::owner(self.asked.0)).await {
            Ok(Some(turn)) => {
                if let Err(why) = Box::pin(self.count_all(found, turn)).await {
                    tracing::warn!(batch = native, why, "the results of a provider's batch were not all counted");
                }
            }
            Ok(None) => {}
            Err(e) => tracing::warn!(batch = native, error = %e, "whether a provider's batch was counted is not known"),
        }
    }

    async fn count_all(self, found: FoundBatch, turn: CountingTurn) -> Result<(), String> {
        let bookings = &self.calls.bookings;
        let _seat = bookings.seat().await;
        let mut turn = Some(turn);
        let counted = self.count_lines(found, &mut turn).await;
        if let Some(turn) = turn {
            turn.end(bookings, counted.is_ok()).await.map_err(|e| e.to_string())?;
        }
        counted.map_err(|stop| match stop {
            DirectStop::Refused(fault) => fault.message().to_owned(),
            DirectStop::Told(said) => format!("the provider answers with status {}", said.status),
        })
    }

    async fn count_lines(self, found: FoundBatch, turn: &mut Option<CountingTurn>) -> Result<(), DirectStop> {
        let least = if self.family.pages().is_some() { found.facts.answered() } else { 0 };
        if let Some(holder) = turn.as_mut() {
            self.settle_unsure(&found, holder).await?;
        }
        let mut results = NumberedResults::of(self.results(found)?);
        loop {
            let Some(holder) = turn.take() else { return Ok(()) };
            let some = results.some(|line| !holder.is_counted(line.number, line.key)).await;
            let some = match some {
                Ok(some) if !some.is_empty() => some,
                ended => {
                    *turn = Some(holder);
                    ended?;
                    return self.ended_with(results.number, least);
                }
            };
            let CallParts { bookings, booked_records, .. } = self.calls;
            let keys = some.iter().map(|line| line.key).collect();
            let noted = holder.counts(bookings, keys, &booked_records.node).await;
            *turn = noted.map_err(|e| own_objects::fault(e.into()))?;
            let Some(holder) = turn.as_mut() else { return Ok(()) };
            let all = some.len();
            let (misses, last) = self.count_some((&results.results.reading, holder), some).await;
            if let Some(fault) = last.filter(|_| misses == all) {
                // That is no line's fault: they are all counted at a later look.
                holder.take_back();
                return Err(fault.into());
            }
            holder.settle();
        }
    }

    fn ended_with(self, lines: u64, least: u64) -> Result<(), DirectStop> {
        if lines >= least {
            return Ok(());
        }
        let why = format!("tells {lines} results of a batch that has {least} answers: the rest is counted later");
        Err(Fault::new(FaultKind::UpstreamBroken, format!("{} {why}", self.services.slug())).into())
    }

    /// Counts what has no record of the lines that a node was about to count when it died.
    async fn settle_unsure(self, found: &FoundBatch, turn: &mut CountingTurn) -> Result<(), DirectStop> {
        let Some((unsure, mut left)) = turn.unsure() else { return Ok(()) };
        match self.calls.booked_records.knowledge(unsure).await {
            Knowledge::ByRecord => {
                let mut results = NumberedResults::of(self.results(found.clone())?);
                while left > 0 {
                    let some = results.some(|line| turn.is_unsure(line.number, line.key)).await?;
                    if some.is_empty() {
                        break;
                    }
                    left = left.saturating_sub(some.len() as u64);
                    let missing = self.without_record(turn, some).await?;
                    self.count_some((&results.results.reading, turn), missing).await;
                }
            }
            Knowledge::Never => {}
            Knowledge::Later => return Err(later().into()),
        }
        turn.settle();
        Ok(())
    }

    async fn without_record(
        self,
        turn: &CountingTurn,
        some: Vec<NumberedLine>,
    ) -> Result<Vec<NumberedLine>, DirectStop> {
        let workspace = own_objects::owner(self.asked.0).workspace;
        let mut missing = Vec::with_capacity(some.len());
        for line in some {
            let Some(stamp) = turn.stamp_at(line.number, line.key) else { continue };
            if !self.calls.booked_records.has(stamp, workspace).await.map_err(|e| own_objects::fault(e.into()))? {
                missing.push(line);
            }
        }
        Ok(missing)
    }

    /// How many of them could not be counted, and why the last of those could not. One that cannot be holds up no
    /// other. The records of the others lie in the journal when this returns.
    async fn count_some(
        self,
        (reading, turn): (&ResultReading, &CountingTurn),
        some: Vec<NumberedLine>,
    ) -> (usize, Option<Fault>) {
        let (mut misses, mut last, mut records) = (0, None, Vec::with_capacity(some.len()));
        for NumberedLine { line, number, key } in some {
            match self.count_line(reading, (line, number)).await {
                Ok(None) => {}
                Ok(Some(mut record)) => {
                    if let Some(stamp) = turn.stamp_at(number, key) {
                        (record.id, record.created_at) = (stamp.id, stamp.at);
                    }
                    records.push(*record);
                }
                Err(fault) => {
                    let (batch, why) = (&*reading.batch, fault.message());
                    tracing::warn!(batch, line = number, why, "a line of a provider's batch was not counted");
                    (misses, last) = (misses + 1, Some(fault));
                }
            }
        }
        self.calls.booked_records.keep(records).await;
        (misses, last)
    }

    /// `None`: nobody answered to it.
    async fn count_line(
        self,
        reading: &ResultReading,
        (line, number): (NativeLine, u64),
    ) -> Result<Option<Box<LogRecord>>, Fault> {
        let is_of_batch = match line.end {
            LineEnd::Answered { .. } => true,
            LineEnd::Other(_) => false,
            LineEnd::Cancelled | LineEnd::Expired => return Ok(None),
        };
        let read = reading.read(self.asked, (line, number)).await?;
        let Some(answer) = read.answer else { return Ok(None) };
        let booked = BookedAnswer {
            status: answer.status,
            asked: None,
            model: answer.model.or_else(|| reading.told_model.clone().filter(|_| is_of_batch)),
            usage: answer.usage,
            native: None,
            judged: None,
            record: None,
        };
        book(self.calls, (&read.request, self.asked.1), &booked).await.map(Some)
    }
}

/// One of them as it was told this time.
struct NumberedLine {
    line: NativeLine,
    /// The line's place among the results, counted from 1.
    number: u64,
    key: LineKey,
}

/// Results that are read from the first on.
struct NumberedResults<'a> {
    results: NativeResults<'a>,
    names: LineNames,
    /// The number of the line that was read last, from 1.
    number: u64,
}

impl<'a> NumberedResults<'a> {
    fn of(results: NativeResults<'a>) -> Self {
        Self { results, names: LineNames::default(), number: 0 }
    }

    /// The next that are wanted, as many as make a go; none: that was all.
    async fn some(&mut self, is_wanted: impl Fn(&NumberedLine) -> bool) -> Result<Vec<NumberedLine>, DirectStop> {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while some.len() < AT_ONCE && bytes < MOST_BYTES {
            let Some(line) = self.results.next().await? else { break };
            self.number += 1;
            let (number, key) = (self.number, self.names.key(&line.name, self.number));
            let line = NumberedLine { line, number, key };
            if is_wanted(&line) {
                bytes += length(&line.line);
                some.push(line);
            }
        }
        Ok(some)
    }
}

fn later() -> Fault {
    Fault::new(FaultKind::Busy, "whether some of them were counted is not known yet")
}

const fn length(line: &NativeLine) -> usize {
    match &line.end {
        LineEnd::Answered { body, .. } => body.len(),
        LineEnd::Other(other) => other.body.len(),
        LineEnd::Cancelled | LineEnd::Expired => 0,
    }
}
