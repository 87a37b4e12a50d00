//! What the lines of a provider's own batch cost, counted when it is first seen to have ended: each line by itself, at the
//! price for batches, and once for all nodes and all looks at it. Nobody waits for it.

use super::DirectStop;
use super::batches::{DirectBatches, FoundBatch};
use crate::batches::{BookedAnswer, CountingTurn};
use crate::proxy::exchange::book;
use crate::proxy::own_objects::fault;
use crate::proxy::record::PendingRecords;
use gateway_domain::Fault;
use gateway_providers::native_batches::{LineEnd, NativeLine};

/// Lines that are noted, and then counted, in one go.
const AT_ONCE: usize = 100;

impl DirectBatches<'_> {
    /// Counts what was not counted yet. What goes wrong is tried again at a later look.
    pub(super) async fn count(&self, found: FoundBatch) {
        let native = found.standing.id.clone();
        let (work, owner, key) = (self.parts.own.batches.clone(), self.owner(), self.key(&native));
        let turn = self.parts.own.batches.apart(async move { work.begin_count(owner, key).await }).await;
        match turn {
            Ok(Some(turn)) => {
                if let Err(why) = self.count_all(found, turn).await {
                    tracing::warn!(batch = native, why, "the results of a provider's batch were not all counted");
                }
            }
            Ok(None) => {}
            Err(e) => tracing::warn!(batch = native, error = %e, "whether a provider's batch was counted is not known"),
        }
    }

    async fn count_all(&self, found: FoundBatch, turn: CountingTurn) -> Result<(), String> {
        let told = |fault: Fault| fault.message().to_owned();
        let mut turn = Some(turn);
        let counted = self.count_lines(found, &mut turn).await;
        if let Some(turn) = turn {
            let (work, is_done) = (self.parts.own.batches.clone(), counted.is_ok());
            let ended = self.parts.own.batches.apart(async move { turn.end(&work, is_done).await }).await;
            ended.map_err(fault).map_err(told)?;
        }
        counted.map_err(|stop| match stop {
            DirectStop::Refused(fault) => told(fault),
            DirectStop::Told(said) => format!("the provider answers with status {}", said.status),
        })
    }

    async fn count_lines(&self, found: FoundBatch, turn: &mut Option<CountingTurn>) -> Result<(), DirectStop> {
        let before = turn.as_ref().map_or(0, CountingTurn::lines);
        let mut results = self.results(found)?;
        let mut number = 0;
        loop {
            let mut some = Vec::with_capacity(AT_ONCE);
            while some.len() < AT_ONCE {
                let Some(line) = results.next().await? else { break };
                number += 1;
                if number > before {
                    some.push((line, number));
                }
            }
            if some.is_empty() {
                return Ok(());
            }
            let Some(holder) = turn.take() else { return Ok(()) };
            let work = self.parts.own.batches.clone();
            let noted = self.parts.own.batches.apart(async move { holder.counts(&work, number).await }).await;
            *turn = noted.map_err(fault)?;
            if turn.is_none() {
                return Ok(());
            }
            let mut records = PendingRecords::default();
            for (line, number) in some {
                self.count_line(&results.reading, (line, number), &mut records).await?;
            }
            let background = self.parts.calls.guardrails.background();
            records.drain().for_each(|noted| background.send(noted, self.parts.records));
        }
    }

    async fn count_line(
        &self,
        reading: &super::results::ResultReading,
        (line, number): (NativeLine, u64),
        records: &mut PendingRecords,
    ) -> Result<(), Fault> {
        if !matches!(line.end, LineEnd::Answered { .. }) {
            return Ok(());
        }
        let read = reading.read(self, (line, number)).await?;
        let Some(answer) = read.answer else { return Ok(()) };
        let booked = BookedAnswer {
            status: answer.status,
            asked: None,
            model: answer.model,
            usage: answer.usage,
            native: None,
            is_counted: true,
        };
        records.push(book(self.parts.calls, (&read.request, self.asked.1), &booked).await?);
        Ok(())
    }
}
