//! Sessions beside a call: the gateway's own, by which it watches the call, and those of clients. All of them hear the same
//! responses, on whatever node they are. Each response counts for the session that claims it first; and since others may lead
//! the call to another model, what the provider tells of it is looked at here.

use super::session::{LiveResult, LiveSession};
use crate::clock;
use gateway_domain::ports::RecordClaims;
use gateway_domain::{Fault, FaultKind};
use gateway_realtime::SessionFacts;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use uuid::Uuid;

/// Responses of others that are remembered: providers have fewer at once.
const MOST_FOREIGN: usize = 64;

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
    known: [Option<String>; 2],
    /// What the call began with was permitted when it did.
    begins_known: bool,
}

impl BesideCall {
    pub(super) fn new(call: &str, begins_known: bool) -> Self {
        Self { call: call.into(), foreign: VecDeque::new(), known: [None, None], begins_known }
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
        if let Some(beside) = &mut self.beside {
            (beside.known, beside.begins_known) = (told, false);
        }
        self.turns.facts = facts;
        match permitted {
            Ok(()) => Ok(()),
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
