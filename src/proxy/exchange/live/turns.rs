//! The responses of a session: those that were asked for and have not begun, those that run, and the transcripts that
//! were counted. What each holds of limits lies with it. All of it is bounded.

use super::session_metrics::TurnEnd;
use super::session_validity::LiveStanding;
use super::transcriber::SessionTranscriber;
use crate::guardrails::{HookNotes, NotedRecord};
use crate::price_list;
use crate::proxy::exchange::AdmissionGate;
use crate::proxy::exchange::admission::Holds;
use crate::proxy::record::{self, AttemptInfo, Tried};
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use gateway_domain::record::{LogRecord, RealtimeNote, Steps};
use gateway_domain::{Operation, Usage};
use gateway_realtime::{SessionFacts, SpokenSoFar, Tally};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Responses at once, asked for or running. Providers have fewer.
pub(super) const MOST_AT_ONCE: usize = 32;
/// The status of records of what guardrails denied.
const DENIED: u16 = 446;
/// Transcripts that are remembered as counted.
const MOST_HEARD: usize = 4_096;

/// One response.
pub(super) struct LiveTurn {
    pub(super) standing: LiveStanding,
    /// `None`: it runs though the limits refused it, until it is cancelled.
    pub(super) holds: Option<Holds>,
    pub(super) tally: Tally,
    /// Tokens that it was guessed to read.
    pub(super) prompt: u64,
}

/// One that was sent on and has not begun.
struct AskedTurn {
    event: Option<String>,
    turn: LiveTurn,
}

#[derive(Default)]
pub(super) struct Turns {
    asked: VecDeque<AskedTurn>,
    running: Vec<(String, LiveTurn)>,
    heard: HeardItems,
    pub(super) context: SpokenSoFar,
    pub(super) facts: SessionFacts,
    pub(super) transcriber: SessionTranscriber,
}

/// Items whose transcripts were counted.
#[derive(Default)]
struct HeardItems {
    known: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Turns {
    pub(super) fn is_quiet(&self) -> bool {
        self.asked.is_empty() && self.running.is_empty()
    }

    pub(super) fn are_full(&self) -> bool {
        self.asked.len() + self.running.len() >= MOST_AT_ONCE
    }

    pub(super) fn ask(&mut self, event: Option<String>, turn: LiveTurn) {
        self.asked.push_back(AskedTurn { event, turn });
    }

    /// The oldest that was asked for.
    pub(super) fn next_asked(&mut self) -> Option<LiveTurn> {
        self.asked.pop_front().map(|asked| asked.turn)
    }

    /// What a client's event asked for came to nothing.
    pub(super) fn refuse(&mut self, event: Option<&str>) {
        let Some(at) = self.asked.iter().position(|asked| asked.event.as_deref() == event) else { return };
        let asked = self.asked.remove(at);
        if let Some(holds) = asked.and_then(|asked| asked.turn.holds) {
            holds.release();
        }
    }

    pub(super) fn begin(&mut self, id: &str, turn: LiveTurn) {
        self.running.push((id.to_owned(), turn));
    }

    /// Those that run.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(|(id, _)| id.as_str())
    }

    pub(super) fn is_running(&self, id: &str) -> bool {
        self.running.iter().any(|(known, _)| known == id)
    }

    pub(super) fn end(&mut self, id: &str) -> Option<LiveTurn> {
        let at = self.running.iter().position(|(known, _)| known == id)?;
        Some(self.running.swap_remove(at).1)
    }

    /// What is held grows with what is said.
    pub(super) fn hear(&mut self, id: &str, bytes: usize, is_sound: bool) {
        let Some((_, turn)) = self.running.iter_mut().find(|(known, _)| known == id) else { return };
        turn.tally.add(bytes, is_sound);
        if let Some(holds) = &mut turn.holds {
            holds.grow(turn.tally.tokens());
        }
    }

    /// `false`: it was counted before.
    pub(super) fn is_new(&mut self, item: &str) -> bool {
        if self.heard.known.contains(item) {
            return false;
        }
        let item: Arc<str> = item.into();
        self.heard.known.insert(item.clone());
        self.heard.order.push_back(item);
        if self.heard.order.len() > MOST_HEARD
            && let Some(oldest) = self.heard.order.pop_front()
        {
            self.heard.known.remove(&oldest);
        }
        true
    }

    /// The session is over: what never began holds nothing, and what runs is to be counted by what it said.
    pub(super) fn leave(&mut self) -> Vec<(String, LiveTurn)> {
        for asked in self.asked.drain(..) {
            if let Some(holds) = asked.turn.holds {
                holds.release();
            }
        }
        std::mem::take(&mut self.running)
    }
}

/// What a part of a session came to.
pub(super) struct TurnOutcome<'t> {
    pub(super) operation: Operation,
    pub(super) id: &'t str,
    pub(super) status: &'t str,
    pub(super) usage: Option<Usage>,
    /// The model by the provider's own name.
    pub(super) told: Option<&'t str>,
    /// What guardrails said of it.
    pub(super) notes: Option<Box<HookNotes>>,
}

/// Settles a part of a session, and writes its record.
pub(super) async fn settle(
    AdmissionGate { parts, routing, .. }: AdmissionGate<'_>,
    standing: LiveStanding,
    holds: Option<Holds>,
    outcome: TurnOutcome<'_>,
) {
    let LiveStanding { request, aim, info } = standing;
    let mut holds = match holds {
        Some(holds) => holds,
        None => AdmissionGate { parts, request: &request, routing }.unasked(&aim).await,
    };
    let TurnOutcome { operation, id, status, mut usage, told, notes } = outcome;
    usage = usage.map(|usage| if info.is_clients_host { usage.believable(0, 0) } else { usage.bounded() });
    price_list::opened().await;
    let prices = aim.prices(&request);
    let late = prices.of(aim.model.as_deref()).is_none().then(|| prices.of(told)).flatten();
    if let Some(card) = &late {
        holds.price_at(card.clone(), request.caller.at);
    }
    let charges = holds.settle(200, Some(&usage.unwrap_or_default()));
    request.look();
    let mut record = begun(&request, routing, &info, notes.as_deref());
    record.operation.rename(operation.name());
    record.charges = charges;
    let other = told.filter(|told| *told != record.model).map(|told| clipped(told).into());
    if let Some(llm) = record.llm_mut() {
        (llm.usage, llm.card) = (usage, late.or(llm.card.take()));
        (llm.response_model, llm.realtime) = (other, Some(noted(id, status)));
    }
    record::finish(&mut record, &request);
    let estimated = usage.is_none_or(|usage| usage.estimated);
    parts.live.counts.turn(if estimated { TurnEnd::Estimated } else { TurnEnd::Settled });
    parts.guardrails.background().send(NotedRecord { record, notes }, &parts.live.records);
}

/// Writes the record of what guardrails denied and nobody is charged for.
pub(super) fn note_denied(
    AdmissionGate { parts, routing, .. }: AdmissionGate<'_>,
    LiveStanding { request, info, .. }: LiveStanding,
    operation: Operation,
    id: &str,
    notes: Box<HookNotes>,
) {
    request.look();
    let mut record = begun(&request, routing, &info, Some(&notes));
    record.operation.rename(operation.name());
    if let Some(llm) = record.llm_mut() {
        llm.realtime = Some(noted(id, "denied"));
    }
    record::finish(&mut record, &request);
    parts.guardrails.background().send(NotedRecord { record, notes: Some(notes) }, &parts.live.records);
}

fn begun(request: &Request, routing: &Routing, info: &AttemptInfo, notes: Option<&HookNotes>) -> Box<LogRecord> {
    let is_denied = notes.is_some_and(HookNotes::is_denied);
    let (status, fault) = if is_denied { (DENIED, Some("hooks_failed")) } else { (200, None) };
    record::of(request, &Steps::default(), Some(routing), Some(Tried { info, status, fault }), 1)
}

/// Ids are the provider's or the client's, and of any length.
fn noted(id: &str, status: &str) -> Arc<RealtimeNote> {
    Arc::new(RealtimeNote { id: clipped(id).into(), status: clipped(status).into(), ..RealtimeNote::default() })
}

fn clipped(text: &str) -> &str {
    let most = (0..=text.len().min(128)).rev().find(|at| text.is_char_boundary(*at));
    &text[..most.unwrap_or_default()]
}

/// What a response used whose provider never said so.
pub(super) fn guessed(turn: &LiveTurn) -> Option<Usage> {
    (turn.tally.tokens() > 0).then(|| Usage {
        input: turn.prompt,
        output: turn.tally.text_tokens(),
        audio_out: turn.tally.sound_tokens(),
        estimated: true,
        ..Usage::default()
    })
}
