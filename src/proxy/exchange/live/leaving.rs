//! The end of a session: both sides are told once, what still ran is settled, and the last words are let out.

use super::closing::Why;
use super::session::{EndedSession, LiveResult, LiveSession, mask};
use super::turns::{TurnOutcome, guessed};
use gateway_domain::Operation;
use gateway_domain::record::RealtimeNote;
use gateway_realtime::close_frame;
use std::time::Duration;

/// For the last words to leave.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl LiveSession<'_, '_, '_> {
    /// The gateway ends it, towards both.
    pub(super) async fn close(&mut self, why: Why, code: u16, reason: &str) -> LiveResult {
        self.closing.begin(why, Some(code), reason);
        self.say_last(close_frame(1000, "", Some(mask())));
        if self.closing.client_told {
            return Ok(());
        }
        self.write(close_frame(code, reason, None)).await?;
        self.closing.client_told = true;
        Ok(())
    }

    pub(super) async fn provider_gone(&mut self) -> LiveResult {
        self.closing.provider_done = true;
        if self.closing.has_begun() {
            return Ok(());
        }
        self.close(Why::ProviderGone, 1011, "the provider ended the connection").await
    }

    pub(super) fn client_gone(&mut self) {
        (self.closing.client_done, self.closing.client_told) = (true, true);
        self.closing.begin(Why::ClientGone, None, "");
        self.say_last(close_frame(1001, "", Some(mask())));
    }

    /// Settles what still ran, lets the last words leave, and says what it came to.
    pub(super) async fn leave(mut self) -> EndedSession {
        for (id, turn) in self.turns.leave() {
            let (ended, notes) = self.guards.abandon(&id);
            let (status, usage) = ended.map_or_else(|| ("cut".to_owned(), None), |ended| (ended.status, ended.usage));
            let usage = usage.or_else(|| guessed(&turn));
            self.totals.responses += 1;
            let operation = Operation::RealtimeResponse;
            let outcome = TurnOutcome { operation, id: &id, status: &status, usage, told: None, notes };
            self.settle(turn, outcome).await;
        }
        if !self.closing.client_told {
            // The provider left without an answer to what the client said last.
            let code = self.closing.code().unwrap_or(1000);
            let _ = self.write(close_frame(code, "", None)).await;
        }
        self.upload.end();
        let flushed = async { while matches!(self.response.read().await, Ok(Some(_))) {} };
        // A provider that takes nothing more is left alone.
        let _ = pingora_timeout::timeout(LAST_WORDS, flushed).await;
        // However that goes: the session is over.
        let _ = self.client.piece(None, true).await;
        let why = self.closing.why();
        self.live().counts.end(why.label(), self.totals.events_up, self.totals.events_down);
        let note = RealtimeNote { totals: Some(self.totals), ..self.closing.note() };
        EndedSession { note, fault: why.fault(), written: self.written }
    }
}
