//! What judges a session: the guardrails in force, what they look at while the session goes on, and what they have said
//! of each response so far. Knows no socket, and sends nothing.

use super::held_output::{HeldOutput, WaitingEvent};
use super::responses;
use crate::guardrails::{Guardrails, HookNotes, OutputVerdict, TargetGuards};
use crate::proxy::text_guard::{GuardedText, TextGuard};
use crate::runtime_config::RuntimeConfig;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gateway_domain::Usage;
use gateway_guardrails::{StreamMode, Verdict, stream_mode};
use gateway_realtime::each_text;
use serde_json::{Value, json};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Responses whose verdicts are waited for.
pub(super) const MOST_JUDGED: usize = 64;
/// Parts that are looked at at once: when there are more, the provider waits.
const MOST_PARTS: usize = 32;
/// Items of one response that are remembered.
const MOST_ITEMS: usize = 256;

/// The guardrails in force.
pub(super) struct LiveRules {
    guards: TargetGuards,
    with_data: bool,
    /// Nothing of a response goes down before all of it was judged.
    pub(super) holds: bool,
}

impl LiveRules {
    pub(super) fn new(guards: TargetGuards, with_data: bool) -> Self {
        let holds = stream_mode(guards.output.iter().map(|g| &**g)) == Some(StreamMode::Hold);
        Self { guards, with_data, holds }
    }

    pub(super) fn judge_input(&self) -> bool {
        !self.guards.input.is_empty()
    }

    pub(super) fn judge_output(&self) -> bool {
        !self.guards.output.is_empty()
    }
}

/// What is judged.
#[derive(Debug)]
pub(super) enum JudgedPart {
    /// An event of the client's, which waits for the verdict, and its `event_id`.
    Asked { event: Option<String>, text: String },
    /// What the client said aloud, as it was written down.
    Heard { item: String, usage: Option<Usage> },
    /// What the model said.
    Said { response: String, item: Option<String> },
}

pub(super) struct LiveVerdict {
    pub(super) part: JudgedPart,
    pub(super) said: GuardedText,
    pub(super) notes: Box<HookNotes>,
    /// The verdicts in the form that clients are shown.
    pub(super) results: Value,
    bytes: usize,
}

impl LiveVerdict {
    /// What was spoken cannot be said otherwise afterwards: a text that was to be rewritten is one that may not be.
    pub(super) const fn is_denied(&self) -> bool {
        match (&self.part, &self.said) {
            (_, GuardedText::Denied) => true,
            (JudgedPart::Asked { .. }, _) | (_, GuardedText::Same) => false,
            (_, GuardedText::Other(_)) => true,
        }
    }
}

type VerdictInFlight<'a> = Pin<Box<dyn Future<Output = Box<LiveVerdict>> + Send + 'a>>;

/// How a response ended, while what it said is still looked at.
#[derive(Debug)]
pub(super) struct EndedResponse {
    pub(super) status: String,
    pub(super) usage: Option<Usage>,
    /// The usage as the provider told it, in JSON.
    pub(super) told: Option<Box<str>>,
}

/// A response of which nothing more is to be said.
#[derive(Debug)]
pub(super) struct ConcludedResponse {
    pub(super) id: String,
    pub(super) ended: EndedResponse,
    pub(super) notes: Option<Box<HookNotes>>,
}

/// A response, and what was said of it.
#[derive(Debug)]
pub(super) struct JudgedResponse {
    pub(super) id: String,
    holds: bool,
    /// Parts that are being looked at.
    under_way: usize,
    /// Some part of it was.
    pub(super) was_judged: bool,
    pub(super) is_denied: bool,
    pub(super) items: Vec<String>,
    pub(super) notes: Option<Box<HookNotes>>,
    pub(super) ended: Option<EndedResponse>,
    /// Nothing more is said of it.
    is_concluded: bool,
    usage: Option<Box<str>>,
}

impl JudgedResponse {
    pub(super) fn absorb(&mut self, notes: HookNotes) {
        match &mut self.notes {
            Some(known) => known.absorb(notes),
            None => self.notes = Some(Box::new(notes)),
        }
    }

    /// The end of a response that may not be heard.
    fn refusal(&self, is_for_responses: bool) -> String {
        let usage: Value = self.usage.as_deref().and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default();
        if is_for_responses {
            return responses::refusal(&self.id, &usage);
        }
        let details = json!({ "type": "incomplete", "reason": "content_filter" });
        json!({
            "type": "response.done",
            "response": {
                "object": "realtime.response", "id": self.id, "status": "incomplete", "status_details": details,
                "output": [], "usage": usage,
            },
        })
        .to_string()
    }
}

/// The rules that were found, and what they were found for.
struct FoundRules {
    world: Arc<RuntimeConfig>,
    model: Option<Arc<str>>,
    rules: Option<Arc<LiveRules>>,
}

#[derive(Default)]
pub(super) struct LiveGuards<'a> {
    found: Option<FoundRules>,
    /// The client's event that waits: until its verdict no more is read of the client.
    asked: Option<VerdictInFlight<'a>>,
    others: FuturesUnordered<VerdictInFlight<'a>>,
    /// Transcripts among the others.
    transcripts: usize,
    /// The bytes of the texts that are being looked at.
    bytes: usize,
    /// Verdicts on what came in since the last response began; they go into the record of the next.
    pub(super) notes: Option<Box<HookNotes>>,
    responses: Vec<JudgedResponse>,
    held: HeldOutput,
    /// How events of the gateway's own begin their ids.
    mark: String,
    /// What is told in the place of a provider's event has the form of Responses.
    is_for_responses: bool,
}

impl<'a> LiveGuards<'a> {
    pub(super) fn new(is_for_responses: bool) -> Self {
        Self { is_for_responses, ..Self::default() }
    }

    /// The outer `None`: the world or the model has changed since they were looked for.
    pub(super) fn known(&self, world: &Arc<RuntimeConfig>, model: Option<&Arc<str>>) -> Option<Option<Arc<LiveRules>>> {
        let found = self.found.as_ref()?;
        (Arc::ptr_eq(&found.world, world) && found.model.as_ref() == model).then(|| found.rules.clone())
    }

    pub(super) fn set(&mut self, world: Arc<RuntimeConfig>, model: Option<Arc<str>>, rules: Option<Arc<LiveRules>>) {
        self.found = Some(FoundRules { world, model, rules });
    }

    /// Looks at `texts`, JSON in whose members they stand.
    pub(super) fn judge(&mut self, guardrails: &'a Guardrails, rules: &LiveRules, part: JudgedPart, texts: String) {
        let bytes = texts.len();
        self.bytes += bytes;
        let mut guard = TextGuard::new(rules.guards.clone(), rules.with_data);
        let is_output = matches!(part, JudgedPart::Said { .. });
        let is_asked = matches!(part, JudgedPart::Asked { .. });
        self.transcripts += usize::from(matches!(part, JudgedPart::Heard { .. }));
        if let JudgedPart::Said { response, .. } = &part
            && let Some(known) = self.response(response)
        {
            known.under_way += 1;
            known.was_judged = true;
        }
        let judging: VerdictInFlight<'a> = Box::pin(async move {
            let said = if is_output {
                guard.judge_answered(guardrails, &texts, each_text).await
            } else {
                guard.judge_asked(guardrails, &texts, each_text).await
            };
            let results = guard.results();
            Box::new(LiveVerdict { part, said, notes: guard.notes, results, bytes })
        });
        if is_asked {
            self.asked = Some(judging);
        } else {
            self.others.push(judging);
        }
    }

    /// The next verdict; never, where nothing is looked at.
    pub(super) async fn verdict(&mut self) -> Box<LiveVerdict> {
        let verdict = poll_fn(|cx| {
            if let Some(asked) = &mut self.asked
                && let Poll::Ready(verdict) = asked.as_mut().poll(cx)
            {
                self.asked = None;
                return Poll::Ready(verdict);
            }
            match self.others.poll_next_unpin(cx) {
                Poll::Ready(Some(verdict)) => Poll::Ready(verdict),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await;
        self.bytes = self.bytes.saturating_sub(verdict.bytes);
        match &verdict.part {
            JudgedPart::Asked { .. } => {}
            JudgedPart::Heard { .. } => self.transcripts -= 1,
            JudgedPart::Said { response, .. } => {
                if let Some(known) = self.response(response) {
                    known.under_way = known.under_way.saturating_sub(1);
                }
            }
        }
        verdict
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn is_full(&self) -> bool {
        self.others.len() >= MOST_PARTS
    }

    /// Bytes of the texts and events that are in hand.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.held.bytes()
    }

    /// `false`: too many are judged already.
    pub(super) fn begin(&mut self, id: &str, holds: bool) -> bool {
        if self.response(id).is_some() {
            return true;
        }
        if self.responses.len() >= MOST_JUDGED {
            return false;
        }
        self.responses.push(JudgedResponse {
            id: id.to_owned(),
            holds,
            under_way: 0,
            was_judged: false,
            is_denied: false,
            items: Vec::new(),
            notes: self.notes.take(),
            ended: None,
            is_concluded: false,
            usage: None,
        });
        true
    }

    pub(super) fn response(&mut self, id: &str) -> Option<&mut JudgedResponse> {
        self.responses.iter_mut().find(|known| known.id == id)
    }

    /// Responses of which nothing went down yet.
    pub(super) fn held_back(&mut self) -> impl Iterator<Item = &mut JudgedResponse> {
        self.responses.iter_mut().filter(|known| known.holds && !known.is_concluded)
    }

    /// The next response of which nothing more is to be said.
    pub(super) fn conclude(&mut self) -> Option<ConcludedResponse> {
        let transcripts = self.transcripts;
        let is_ready = |known: &JudgedResponse| {
            !known.is_concluded
                && known.ended.is_some()
                && known.under_way == 0
                && (!known.holds || known.is_denied || transcripts == 0)
        };
        let at = self.responses.iter().position(is_ready)?;
        let known = &mut self.responses[at];
        known.is_concluded = true;
        let ended = known.ended.take()?;
        known.usage.clone_from(&ended.told);
        if known.is_denied {
            let output = Some(OutputVerdict::Verdict(Verdict::Deny));
            known.absorb(HookNotes { output, ..HookNotes::default() });
        }
        let (id, notes) = (known.id.clone(), known.notes.take());
        if !known.holds {
            self.responses.remove(at);
        }
        Some(ConcludedResponse { id, ended, notes })
    }

    /// What is known of a response whose verdict comes too late.
    pub(super) fn abandon(&mut self, id: &str) -> (Option<EndedResponse>, Option<Box<HookNotes>>) {
        self.response(id).map_or((None, None), |known| (known.ended.take(), known.notes.take()))
    }

    /// Events wait for a verdict, or for others that do.
    pub(super) fn holds_back(&self) -> bool {
        !self.held.is_empty() || self.responses.iter().any(|known| known.holds && !known.is_concluded)
    }

    /// `false`: more is held than may be.
    pub(super) fn hold(&mut self, mut event: WaitingEvent) -> bool {
        if let (Some(response), Some(item)) = (&event.response, &event.item)
            && let Some(known) = self.responses.iter_mut().find(|known| known.id == *response)
            && known.items.len() < MOST_ITEMS
            && !known.items.contains(item)
        {
            known.items.push(item.clone());
        }
        if event.response.is_none()
            && let Some(item) = &event.item
        {
            event.response = self.responses.iter().find(|r| r.items.contains(item)).map(|r| r.id.clone());
        }
        let known = event.response.as_ref().and_then(|id| self.responses.iter().find(|known| known.id == *id));
        if known.is_some_and(|known| known.holds && known.is_denied) && event.is_between() {
            return true;
        }
        self.held.push(event)
    }

    /// The next event that may go down by now.
    pub(super) fn release(&mut self) -> Option<LetDown> {
        loop {
            let front = self.held.first()?;
            let about = front.response.as_ref().and_then(|id| self.responses.iter().position(|known| known.id == *id));
            let Some(at) = about.filter(|at| self.responses[*at].holds) else {
                return self.held.pop().map(|event| LetDown::Raw(event.raw));
            };
            if !self.responses[at].is_concluded {
                return None;
            }
            let event = self.held.pop()?;
            let ended = event.is_end().then(|| self.responses.remove(at));
            let is_denied = ended.as_ref().map_or_else(|| self.responses[at].is_denied, |ended| ended.is_denied);
            match ended.filter(|_| is_denied) {
                Some(ended) => return Some(LetDown::Made(ended.refusal(self.is_for_responses))),
                None if is_denied && event.is_between() => {}
                None => return Some(LetDown::Raw(event.raw)),
            }
        }
    }

    /// The beginning of ids of the gateway's own events; answers to them are nobody else's business.
    pub(super) fn mark(&mut self, made: impl FnOnce() -> String) -> &str {
        if self.mark.is_empty() {
            self.mark = made();
        }
        &self.mark
    }

    pub(super) fn is_own(&self, event: Option<&str>) -> bool {
        !self.mark.is_empty() && event.is_some_and(|event| event.starts_with(&self.mark))
    }
}

/// What goes down at last.
#[derive(Debug)]
pub(super) enum LetDown {
    /// The provider's bytes as they came.
    Raw(Bytes),
    /// A text that goes down in place of what may not be heard.
    Made(String),
}

#[cfg(test)]
mod tests {
    use super::super::held_output::{BESIDE, MOST_HELD};
    use super::*;

    fn event(kind: &str, response: Option<&str>, item: Option<&str>) -> WaitingEvent {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        WaitingEvent::new(Bytes::from(kind.to_owned()), (owned(response), owned(item)), kind)
    }

    fn ended() -> EndedResponse {
        EndedResponse { status: "completed".into(), usage: None, told: Some(r#"{"total_tokens":3}"#.into()) }
    }

    fn released(guards: &mut LiveGuards<'_>) -> Vec<String> {
        std::iter::from_fn(|| guards.release())
            .map(|released| match released {
                LetDown::Raw(raw) => String::from_utf8(raw.to_vec()).expect("a kind"),
                LetDown::Made(text) => text,
            })
            .collect()
    }

    #[test]
    fn what_is_held_goes_down_in_its_order_once_nothing_more_is_said_of_it() {
        let mut guards = LiveGuards::default();
        assert!(guards.begin("a", true) && guards.begin("b", true) && guards.holds_back());
        for held in [
            event("first", Some("a"), Some("i")),
            event("other", None, None),
            event("item", None, Some("i")),
            event("second", Some("b"), None),
            event("response.done", Some("b"), None),
        ] {
            assert!(guards.hold(held));
        }
        guards.response("b").expect("known").ended = Some(ended());
        assert_eq!(guards.conclude().map(|known| known.id).as_deref(), Some("b"));
        assert_eq!(released(&mut guards), [""; 0], "what came first is not known yet");
        assert!(guards.hold(event("response.done", Some("a"), None)));
        guards.response("a").expect("known").ended = Some(ended());
        assert!(guards.conclude().is_some() && guards.conclude().is_none());
        assert_eq!(released(&mut guards), ["first", "other", "item", "second", "response.done", "response.done"]);
        assert!(!guards.holds_back() && guards.bytes() == 0);
    }

    #[test]
    fn nothing_of_a_response_that_is_denied_goes_down_but_its_beginning_and_an_end() {
        let mut guards = LiveGuards::default();
        guards.begin("a", true);
        guards.begin("b", false);
        for held in [
            event("response.created", Some("a"), None),
            event("said", Some("a"), Some("i")),
            event("item", None, Some("i")),
            event("other", Some("b"), None),
        ] {
            assert!(guards.hold(held));
        }
        let known = guards.response("a").expect("known");
        (known.is_denied, known.ended) = (true, Some(ended()));
        assert!(guards.hold(event("more", Some("a"), None)), "it is let go at once");
        assert!(guards.hold(event("response.done", Some("a"), None)));
        assert!(guards.conclude().is_some());
        let told = released(&mut guards);
        assert_eq!(told[..2], ["response.created", "other"]);
        let done: Value = serde_json::from_str(&told[2]).expect("JSON");
        assert_eq!((&done["response"]["status"], &done["response"]["output"]), (&json!("incomplete"), &json!([])));
        assert_eq!(done["response"]["usage"]["total_tokens"], 3, "{done}");
        assert!(!guards.holds_back());
    }

    #[test]
    fn responses_that_are_judged_and_events_that_are_held_are_bounded() {
        let mut guards = LiveGuards::default();
        assert!((0..MOST_JUDGED).all(|n| guards.begin(&n.to_string(), true)));
        assert!(!guards.begin("more", true) && guards.begin("0", true));
        let large = |bytes| WaitingEvent::new(Bytes::from(vec![0; bytes]), (Some("0".to_owned()), None), "x");
        assert!(guards.hold(large(MOST_HELD - BESIDE)));
        assert!(!guards.hold(large(1)));
    }
}
