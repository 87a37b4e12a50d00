//! The end of a session: what leads to it, and how both sides are told once, what still ran is settled, and the last
//! words are let out.

use super::close_state::Why;
use super::session::{EndedSession, LiveResult, LiveSession, mask};
use super::session_validity;
use super::turns::{TurnOutcome, guessed};
use crate::clock;
use crate::proxy::exchange::AdmissionGate;
use gateway_domain::record::RealtimeNote;
use gateway_domain::{Fault, FaultKind};
use gateway_policies::Estimate;
use gateway_realtime::close_frame;
use std::time::{Duration, Instant};

/// How long the last words have to leave for the provider.
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

    /// A session whose limits have nothing left is over as soon as nothing runs in it.
    pub(super) async fn end_if_exhausted(&mut self) -> LiveResult {
        if !self.turns.is_quiet() || self.closing.has_begun() {
            return Ok(());
        }
        let standing = match self.standing() {
            Ok(standing) => standing,
            Err(fault) => return self.end_for(&fault).await,
        };
        let gate = AdmissionGate { request: &standing.request, ..self.gate };
        let nothing = Estimate { prompt: 0, output: Some(0) };
        match Box::pin(gate.response(&standing.aim, nothing)).await {
            Ok(holds) => {
                holds.release();
                Ok(())
            }
            Err(fault) => self.end_for(&fault).await,
        }
    }

    pub(super) async fn end_if_revoked(&mut self, fault: &Fault) -> LiveResult {
        let of_limits = matches!(why(fault), Why::Budget | Why::RateLimit);
        if of_limits { Ok(()) } else { self.close(Why::Revoked, 1008, fault.message()).await }
    }

    pub(super) async fn end_for(&mut self, fault: &Fault) -> LiveResult {
        let why = why(fault);
        self.send_error(fault, why.label(), None).await?;
        self.close(why, 1008, fault.message()).await
    }

    /// Looks at the clocks, and at what may have changed meanwhile.
    pub(super) async fn look(&mut self) -> LiveResult {
        if self.closing.has_begun() {
            return Ok(());
        }
        let now = Instant::now();
        if self.heard.elapsed() > self.live().idle {
            return self.close(Why::Idle, 1001, "nothing was said for too long").await;
        }
        if self.is_lost() {
            return self.close(Why::HandedOver, 1001, "another node watches the call").await;
        }
        if self.count_doubtful(false).await {
            self.end_if_exhausted().await?;
        }
        if self.began.elapsed() + self.lasted > self.live().longest {
            return self.close(Why::TooLong, 1001, "the session lasted as long as it may").await;
        }
        if self.turns.is_quiet() && (self.live().draining)() {
            if self.has_heirs() {
                return self.close(Why::HandedOver, 1001, "the gateway is going away: another node goes on").await;
            }
            return self.close(Why::Draining, 1001, "the gateway is going away: connect again").await;
        }
        if self.last_call.is_some_and(|at| at <= now) {
            return self.close(Why::RateLimit, 1008, "a response ran that the limits refused").await;
        }
        match session_validity::standing_now(self.live(), &self.gate.request.caller.tenant, clock::now()) {
            Ok(_) => Ok(()),
            Err(fault) => self.close(Why::Revoked, 1008, fault.message()).await,
        }
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
            let operation = self.part();
            let outcome = TurnOutcome { operation, id: &id, status: &status, usage, told: None, notes };
            self.settle(turn, outcome).await;
        }
        self.count_doubtful(true).await;
        self.count_seconds(0).await;
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
        let _ = self.listener.piece(None, true).await;
        let why = self.closing.why();
        self.live().counts.end(why.label(), self.totals.events_up, self.totals.events_down);
        let note = RealtimeNote { totals: Some(self.totals), ..self.closing.note() };
        EndedSession {
            note,
            fault: why.fault(),
            by_provider: why == Why::Provider,
            is_handed_over: why == Why::HandedOver,
            written: self.written,
        }
    }
}

/// Why a response was not let through.
pub(super) fn why(fault: &Fault) -> Why {
    match fault.kind() {
        FaultKind::BudgetExhausted => Why::Budget,
        FaultKind::RateLimited | FaultKind::LimitsAway => Why::RateLimit,
        _ => Why::Revoked,
    }
}
