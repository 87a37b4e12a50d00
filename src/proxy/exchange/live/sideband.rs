//! Sessions beside a call: the gateway's own, by which it watches the call, and those of clients. All of them hear the
//! same responses, on whatever node they are. Each response counts for the session that claims it first; and since
//! others may lead the call to another model, what the provider tells of it is looked at here.

use super::call_leases::{KnownModels, NotedCall};
use super::session::{LiveResult, LiveSession};
use super::turns::{LiveTurn, TurnOutcome};
use super::watch::GoesOn;
use crate::clock;
use crate::guardrails::HookNotes;
use gateway_domain::ports::RecordClaims;
use gateway_domain::{Fault, FaultKind, Usage};
use gateway_realtime::{SessionFacts, Tally};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use uuid::Uuid;

/// Responses of others that are remembered: providers have fewer at once.
const MOST_FOREIGN: usize = 64;

/// How long whoever claimed a response has to count it, once it has ended.
const PATIENCE: Duration = Duration::from_secs(3);
/// What the claim of a response's end is named by, behind the response's own name.
const ENDED: &str = "\0ended";

/// Who counts a response or a transcript, as all nodes agree on it.
pub(crate) struct PartClaims {
    pub(crate) rows: Arc<dyn RecordClaims>,
}

impl PartClaims {
    /// Whether nobody has claimed it before. Where nobody can say it counts: rather twice than never.
    /// `background` asks the database, never a thread that serves requests.
    async fn is_first(&self, background: &Handle, call: &str, part: &str) -> bool {
        let digest = Sha256::new().chain_update("realtime\0").chain_update(call).chain_update("\0").chain_update(part);
        let digest: [u8; 32] = digest.finalize().into();
        let name = Uuid::from_bytes(std::array::from_fn(|place| digest[place]));
        let (rows, now) = (self.rows.clone(), clock::now());
        let claimed = background.spawn(async move { rows.claim_first(name, now).await }).await;
        !matches!(claimed, Ok(Ok(false)))
    }
}

/// What a session knows of the call that it is beside.
pub(super) struct BesideCall {
    pub(super) call: Arc<str>,
    /// Responses that others count.
    foreign: VecDeque<String>,
    /// Model and transcriber that were permitted.
    known: KnownModels,
    /// What the call began with was permitted when it did.
    begins_known: bool,
    /// What other nodes know of the call, where the gateway itself watches it.
    pub(super) noted: Option<Arc<NotedCall>>,
    /// Another watched the call before.
    is_taken_over: bool,
    /// Responses of others that have ended, which those may not live to count.
    doubtful: VecDeque<DoubtfulResponse>,
}

/// A response that somebody else claimed, as it ended.
struct DoubtfulResponse {
    id: String,
    status: String,
    usage: Option<Usage>,
    notes: Option<Box<HookNotes>>,
    due: Instant,
}

impl BesideCall {
    pub(super) fn new(call: &str) -> Self {
        Self {
            call: call.into(),
            foreign: VecDeque::new(),
            known: [None, None],
            begins_known: false,
            noted: None,
            is_taken_over: false,
            doubtful: VecDeque::new(),
        }
    }

    /// What the gateway's own session knows that watches a call. `goes_on`: another node watched it before.
    pub(super) fn watched(call: &str, noted: Arc<NotedCall>, goes_on: Option<GoesOn>) -> Self {
        let is_taken_over = goes_on.is_some();
        let known = goes_on.and_then(|goes_on| goes_on.known);
        let begins_known = known.is_none();
        let known = known.unwrap_or_default();
        Self { known, begins_known, noted: Some(noted), is_taken_over, ..Self::new(call) }
    }

    fn is_lost(&self) -> bool {
        self.noted.as_ref().is_some_and(|noted| noted.is_lost())
    }
}

impl LiveSession<'_, '_, '_> {
    /// Whether a response or a transcript is this session's to count.
    pub(super) async fn claims(&mut self, part: &str) -> bool {
        let (call, live) = (self.beside.as_ref().map(|beside| beside.call.clone()), self.live());
        match call {
            Some(call) => live.claims.is_first(&self.gate.parts.delivery.background, &call, part).await,
            None => true,
        }
    }

    /// Whether a response that begins is another session's to count.
    pub(super) async fn leaves_to_others(&mut self, id: &str) -> bool {
        let is_foreign = !self.claims(id).await;
        if let Some(beside) = self.beside.as_mut().filter(|_| is_foreign) {
            if beside.foreign.len() >= MOST_FOREIGN {
                beside.foreign.pop_front();
            }
            beside.foreign.push_back(id.to_owned());
        }
        is_foreign
    }

    /// Whether a response that ends was another's. One whose beginning nobody here heard is claimed now.
    pub(super) async fn is_left_to_others(&mut self, id: &str) -> bool {
        let Some(beside) = &mut self.beside else { return false };
        if let Some(at) = beside.foreign.iter().position(|known| known == id) {
            beside.foreign.remove(at);
            return true;
        }
        !self.turns.is_running(id) && !self.claims(id).await
    }

    /// Whether the use of a response that has ended is this session's to count: one that was paused when it ended may
    /// have been taken for dead.
    pub(super) async fn claims_end(&mut self, id: &str) -> bool {
        self.claims(&[id, ENDED].concat()).await
    }

    /// A response that another claimed has ended. Where that one died with it, whoever took the call over counts it.
    pub(super) fn doubt(&mut self, id: &str, (status, usage): (&str, Option<Usage>), notes: Option<Box<HookNotes>>) {
        let Some(beside) = self.beside.as_mut().filter(|beside| beside.is_taken_over) else { return };
        if beside.doubtful.len() < MOST_FOREIGN {
            let (id, status, due) = (id.to_owned(), status.to_owned(), Instant::now() + PATIENCE);
            beside.doubtful.push_back(DoubtfulResponse { id, status, usage, notes, due });
        }
    }

    /// Counts what nobody counted; `all`: also what there was no time for yet. Whether there was any.
    pub(super) async fn count_doubtful(&mut self, all: bool) -> bool {
        let (mut counted, now) = (false, Instant::now());
        loop {
            let Some(waiting) = self.beside.as_mut().map(|beside| &mut beside.doubtful) else { return counted };
            if !waiting.front().is_some_and(|ended| all || ended.due <= now) {
                return counted;
            }
            let Some(ended) = waiting.pop_front() else { return counted };
            let (true, Ok(standing)) = (self.claims_end(&ended.id).await, self.standing()) else { continue };
            let turn = LiveTurn { standing, holds: None, tally: Tally::default(), prompt: 0 };
            let (operation, id, status, usage) = (self.part(), &ended.id, &ended.status, ended.usage);
            self.totals.responses += 1;
            self.settle(turn, TurnOutcome { operation, id, status, usage, told: None, notes: ended.notes }).await;
            counted = true;
        }
    }

    /// A call that was taken over may have used up its limits meanwhile.
    pub(super) async fn take_up(&mut self) -> LiveResult {
        let is_taken_over = self.beside.as_ref().is_some_and(|beside| beside.is_taken_over);
        if is_taken_over { self.end_if_exhausted().await } else { Ok(()) }
    }

    /// Another node watches the call by now.
    pub(super) fn is_lost(&self) -> bool {
        self.beside.as_ref().is_some_and(BesideCall::is_lost)
    }

    /// Whether another node is there to go on.
    pub(super) fn has_heirs(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.noted.is_some()) && self.live().noted.have_heirs()
    }

    /// The provider tells how the session stands.
    pub(super) async fn learn(&mut self, facts: SessionFacts) -> LiveResult {
        let told = [facts.model.clone(), facts.transcribes.clone()];
        let permitted = match &self.beside {
            Some(beside) if beside.begins_known || beside.known == told => Ok(()),
            Some(beside) => {
                let changed = told.iter().zip(&beside.known).filter(|(told, known)| told != known);
                changed.filter_map(|(told, _)| told.as_deref()).try_for_each(|model| self.permit_told(model))
            }
            None => Ok(()),
        };
        let mut news = None;
        if let Some(beside) = &mut self.beside {
            let is_new = beside.begins_known || beside.known != told;
            (beside.known, beside.begins_known) = (told.clone(), false);
            news = beside.noted.clone().filter(|_| is_new && permitted.is_ok());
        }
        self.turns.facts = facts;
        match permitted {
            Ok(()) => {
                if let Some(noted) = news {
                    noted.learn(Some(told)).await;
                }
                Ok(())
            }
            Err(fault) => self.end_for(&fault).await,
        }
    }

    /// Providers tell a model by the version that it has at the moment.
    fn permit_told(&self, model: &str) -> Result<(), Fault> {
        let told = self.permit_name(model);
        match (told, undated(model)) {
            (Err(_), Some(bare)) => self.permit_name(bare),
            (told, _) => told,
        }
    }

    fn permit_name(&self, model: &str) -> Result<(), Fault> {
        let standing = self.standing()?;
        crate::proxy::target::permit_other(&standing.aim, model, &standing.request)
            .map_err(|fault| Fault::new(FaultKind::Forbidden, fault.message().to_owned()))
    }
}

/// A name without the date behind it.
fn undated(model: &str) -> Option<&str> {
    let at = model.len().checked_sub("-2025-08-28".len())?;
    let is_date = |(n, byte): (usize, u8)| if matches!(n, 0 | 5 | 8) { byte == b'-' } else { byte.is_ascii_digit() };
    (model.is_char_boundary(at) && model.bytes().skip(at).enumerate().all(is_date)).then(|| &model[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_names() {
        for (model, bare) in [
            ("gpt-realtime-2025-08-28", Some("gpt-realtime")),
            ("gpt-realtime-mini", None),
            ("gpt-realtime-1.5", None),
            ("-2025-08-28", Some("")),
            ("short", None),
        ] {
            assert_eq!(undated(model), bare, "{model}");
        }
    }
}
