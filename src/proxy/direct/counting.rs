//! What the lines of a provider's own batch cost, counted when it is first seen to have ended: each line by itself, at the
//! price for batches, and once for all nodes and all looks at it. Nobody waits for it.

use super::batches::FoundBatch;
use super::results::{BatchReader, ResultReading};
use super::{DirectStop, objects, own_objects};
use crate::batches::BookedAnswer;
use crate::bookings::{BookingId, CountingTurn};
use crate::proxy::exchange::book;
use crate::proxy::record::PendingRecords;
use gateway_domain::Fault;
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
        let id = BookingId::of(&[b"batch", &keeper, native.as_bytes()]);
        match bookings.begin(id, own_objects::owner(self.asked.0)).await {
            Ok(Some(turn)) => {
                if let Err(why) = self.count_all(found, turn).await {
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
        let before = turn.as_ref().map_or(0, CountingTurn::lines);
        let mut results = self.results(found)?;
        let mut number = 0;
        loop {
            let (mut some, mut bytes) = (Vec::with_capacity(AT_ONCE), 0);
            while some.len() < AT_ONCE && bytes < MOST_BYTES {
                let Some(line) = results.next().await? else { break };
                number += 1;
                if number > before {
                    bytes += length(&line);
                    some.push((line, number));
                }
            }
            if some.is_empty() {
                return Ok(());
            }
            let Some(holder) = turn.take() else { return Ok(()) };
            let noted = holder.counts(&self.calls.bookings, number).await;
            *turn = noted.map_err(|e| own_objects::fault(e.into()))?;
            if turn.is_none() {
                return Ok(());
            }
            let (first, all) = (some[0].1, some.len());
            let (misses, last) = self.count_some(&results.reading, some).await;
            if let Some(fault) = last.filter(|_| misses == all) {
                // That is no line's fault: they are all counted at a later look.
                if let Some(holder) = turn.take() {
                    let back = holder.counts(&self.calls.bookings, first - 1).await;
                    *turn = back.map_err(|e| own_objects::fault(e.into()))?;
                }
                return Err(fault.into());
            }
        }
    }

    /// How many of them could not be counted, and why the last of those could not. One that cannot be holds up no other.
    async fn count_some(self, reading: &ResultReading, some: Vec<(NativeLine, u64)>) -> (usize, Option<Fault>) {
        let (mut misses, mut last, mut records) = (0, None, PendingRecords::default());
        for (line, number) in some {
            if let Err(fault) = self.count_line(reading, (line, number), &mut records).await {
                let (batch, why) = (&*reading.batch, fault.message());
                tracing::warn!(batch, line = number, why, "a line of a provider's batch was not counted");
                (misses, last) = (misses + 1, Some(fault));
            }
        }
        let background = self.calls.guardrails.background();
        records.drain().for_each(|noted| background.send(noted, self.records));
        (misses, last)
    }

    async fn count_line(
        self,
        reading: &ResultReading,
        (line, number): (NativeLine, u64),
        records: &mut PendingRecords,
    ) -> Result<(), Fault> {
        if !matches!(line.end, LineEnd::Answered { .. }) {
            return Ok(());
        }
        let read = reading.read(self.asked, (line, number)).await?;
        let Some(answer) = read.answer else { return Ok(()) };
        let booked = BookedAnswer {
            status: answer.status,
            asked: None,
            model: answer.model.or_else(|| reading.told_model.clone()),
            usage: answer.usage,
            native: None,
            judged: None,
            is_counted: true,
        };
        records.push(book(self.calls, (&read.request, self.asked.1), &booked).await?);
        Ok(())
    }
}

const fn length(line: &NativeLine) -> usize {
    match &line.end {
        LineEnd::Answered { body, .. } => body.len(),
        LineEnd::Cancelled | LineEnd::Expired => 0,
    }
}
