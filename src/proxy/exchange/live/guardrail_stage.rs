//! Guardrails in a session. What the client writes waits for its verdict before it goes up. What it says aloud, and
//! what the model says, is judged by what was written down of it: a denial then cancels the response and deletes the
//! item; where a guardrail holds streams, nothing of a response goes down before its verdict.

use super::held_output::WaitingEvent;
use super::session::{LiveResult, LiveSession, Unheard, mask};
use super::session_guardrails::{ConcludedResponse, EndedResponse, JudgedPart, LetDown, LiveRules, LiveVerdict};
use super::session_metrics::TurnEnd;
use super::turns::note_denied;
use crate::clock;
use crate::guardrails::HookNotes;
use crate::ids;
use crate::proxy::capture_policy::CapturePolicy;
use crate::proxy::hooks::{self, GuardSearch};
use crate::proxy::text_guard::GuardedText;
use gateway_domain::{Fault, FaultKind, Usage};
use gateway_guardrails::Verdict;
use gateway_realtime::{ClientEvent, EventIds, WireMessage, call_texts, text_frame, texts_alone};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// The word for a denial, as answers to other calls have it.
const DENIED: &str = "hooks_failed";

impl LiveSession<'_, '_, '_> {
    /// What judges by now; `None`: nothing does.
    pub(super) async fn rules(&mut self) -> Result<Option<Arc<LiveRules>>, Fault> {
        let (world, model) = (self.live().live.current().clone(), self.model());
        if let Some(known) = self.guards.known(&world, model.as_ref()) {
            return Ok(known);
        }
        let standing = self.standing()?;
        let (request, leaf) = (&standing.request, &**self.gate.routing.plan.leaf());
        let parts = self.gate.parts;
        let found = if hooks::is_unguarded(request, leaf) {
            None
        } else {
            let search = GuardSearch {
                guardrails: &parts.guardrails,
                request,
                routing: self.gate.routing,
                leaf,
                aim: &standing.aim,
                client: self.listener.headers(),
                aliases: &parts.delivery.settings.header_alias,
                budget: &parts.delivery.budget,
            };
            hooks::guarded(search).await?
        };
        let with_data = request.caller.keep != CapturePolicy::Nothing;
        let rules = found.map(|guards| Arc::new(LiveRules::new(*guards, with_data)));
        self.guards.set(world, model, rules.clone());
        Ok(rules)
    }

    /// `false`: nobody judges what this event says.
    pub(super) async fn judge_asked(&mut self, event: &ClientEvent<'_>, text: &str) -> Result<bool, Fault> {
        if event.is_sound() {
            return Ok(false);
        }
        let Some(rules) = self.rules().await?.filter(|rules| rules.judge_input()) else { return Ok(false) };
        let Some(texts) = texts_alone(text) else { return Ok(false) };
        let part = JudgedPart::Asked { event: event.id.as_deref().map(str::to_owned), text: texts.clone() };
        self.guards.judge(&self.gate.parts.guardrails, &rules, part, texts);
        Ok(true)
    }

    /// A response has begun.
    pub(super) async fn judge_response(&mut self, id: &str) -> LiveResult {
        let rules = match self.rules().await {
            Ok(rules) => rules,
            Err(fault) => return self.end_for(&fault).await,
        };
        let Some(rules) = rules else { return Ok(()) };
        if self.guards.begin(id, rules.holds) {
            return Ok(());
        }
        let why = Fault::new(FaultKind::RateLimited, "More responses than may be judged at once");
        self.end_for(&why).await
    }

    /// The model has said something, or asked for a function with these texts in its arguments. It is judged where its
    /// response is.
    pub(super) async fn judge_said(&mut self, response: &str, item: Option<&str>, texts: Vec<String>) -> LiveResult {
        if texts.iter().all(String::is_empty) || self.guards.response(response).is_none() {
            return Ok(());
        }
        match self.rules().await {
            Ok(Some(rules)) if rules.judge_output() => {
                let part = JudgedPart::Said { response: response.to_owned(), item: item.map(str::to_owned) };
                let texts = json!({ "text": texts }).to_string();
                self.guards.judge(&self.gate.parts.guardrails, &rules, part, texts);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(fault) => self.end_for(&fault).await,
        }
    }

    /// `false`: nobody judges it, and it ends as any other.
    pub(super) async fn judge_ended(
        &mut self,
        id: &str,
        ended: EndedResponse,
        output: Option<&RawValue>,
    ) -> Result<Option<EndedResponse>, Unheard> {
        match self.guards.response(id) {
            None => return Ok(Some(ended)),
            // Its parts were never told by themselves: what it holds in the end counts.
            Some(known) if !known.was_judged => {
                let texts = output.map(|output| spoken(output.get())).unwrap_or_default();
                self.judge_said(id, None, texts).await?;
            }
            Some(_) => {}
        }
        match self.guards.response(id) {
            None => Ok(Some(ended)),
            Some(known) => {
                known.ended = Some(ended);
                Ok(None)
            }
        }
    }

    /// What the client said aloud was written down. `false`: nobody judges it.
    pub(super) async fn judge_heard(&mut self, item: &str, text: &str, usage: Option<Usage>) -> Result<bool, Fault> {
        if text.is_empty() {
            return Ok(false);
        }
        let Some(rules) = self.rules().await?.filter(|rules| rules.judge_input()) else { return Ok(false) };
        let part = JudgedPart::Heard { item: item.to_owned(), usage };
        self.guards.judge(&self.gate.parts.guardrails, &rules, part, json!({ "text": text }).to_string());
        Ok(true)
    }

    /// A verdict is there.
    pub(super) async fn heed(&mut self, verdict: LiveVerdict) -> LiveResult {
        let is_denied = verdict.is_denied();
        let LiveVerdict { part, said, mut notes, results, .. } = verdict;
        match part {
            JudgedPart::Asked { event, text } => {
                if is_denied {
                    self.refuse_asked(event.as_deref(), notes, &results).await?;
                } else {
                    let text = if let GuardedText::Other(other) = said { other } else { text };
                    match &mut self.guards.notes {
                        Some(known) => known.absorb(*notes),
                        none => *none = Some(notes),
                    }
                    self.goes_up(&text).await?;
                }
                // What the client has said since waits.
                self.hear_client(&[]).await
            }
            JudgedPart::Heard { item, usage } => {
                if is_denied {
                    notes.input = Some(Verdict::Deny);
                    self.unhear(&item, &results).await?;
                }
                let settled = self.transcribed(&item, usage, Some(notes)).await;
                self.conclude(settled).await
            }
            JudgedPart::Said { response, item } => {
                if let Some(known) = self.guards.response(&response) {
                    known.absorb(*notes);
                }
                if is_denied {
                    let why = "A guardrail denied what the model said";
                    self.unsay(&response, item, (why, &results)).await?;
                }
                self.conclude(false).await
            }
        }
    }

    /// What the client wrote does not go up.
    async fn refuse_asked(&mut self, event: Option<&str>, notes: Box<HookNotes>, results: &Value) -> LiveResult {
        self.totals.denied += 1;
        self.live().counts.turn(TurnEnd::Denied);
        if let Ok(standing) = self.standing() {
            note_denied(self.gate, standing, self.part(), event.unwrap_or_default(), notes);
        }
        self.send_denial("A guardrail denied what the event says", event, results).await
    }

    /// What the client said aloud is taken back: with the item goes whatever answers it at the moment.
    async fn unhear(&mut self, item: &str, results: &Value) -> LiveResult {
        self.totals.denied += 1;
        self.live().counts.turn(TurnEnd::Denied);
        let running: Vec<String> = self.turns.ids().map(str::to_owned).collect();
        running.iter().for_each(|id| self.order(&json!({ "type": "response.cancel", "response_id": id })));
        for known in self.guards.held_back() {
            known.is_denied = true;
        }
        self.order(&json!({ "type": "conversation.item.delete", "item_id": item }));
        self.send_denial("A guardrail denied what was said", None, results).await
    }

    /// What the model said is taken back, and it says no more.
    async fn unsay(&mut self, response: &str, item: Option<String>, why: (&str, &Value)) -> LiveResult {
        let Some(known) = self.guards.response(response) else { return Ok(()) };
        let is_first = !std::mem::replace(&mut known.is_denied, true);
        let runs = known.ended.is_none();
        let mut items: Vec<String> = item.into_iter().collect();
        for held in std::mem::take(&mut known.items) {
            if !items.contains(&held) {
                items.push(held);
            }
        }
        known.items.clone_from(&items);
        if is_first {
            self.totals.denied += 1;
            self.live().counts.turn(TurnEnd::Denied);
            if runs {
                self.order(&json!({ "type": "response.cancel", "response_id": response }));
            }
        }
        items.iter().for_each(|item| self.order(&json!({ "type": "conversation.item.delete", "item_id": item })));
        if is_first { self.send_denial(why.0, None, why.1).await } else { Ok(()) }
    }

    /// Goes down, unless it has to wait for a verdict.
    pub(super) async fn pass_down(&mut self, message: WireMessage) -> LiveResult {
        if !self.guards.holds_back() {
            return self.write(message.raw).await;
        }
        let ids = EventIds::read(std::str::from_utf8(&message.payload).unwrap_or_default());
        let response = ids.response.as_deref().or_else(|| self.streams.of(ids.stream.as_deref())).map(str::to_owned);
        let about = (response, ids.item.map(Into::into));
        if self.guards.hold(WaitingEvent::new(message.raw, about, &ids.kind)) {
            return Ok(());
        }
        // Nobody can wait for more: what was said so far is not heard.
        let held: Vec<String> = self.guards.held_back().map(|known| known.id.clone()).collect();
        for response in held {
            let why = "A response is longer than may be held until it was judged";
            self.unsay(&response, None, (why, &Value::Null)).await?;
        }
        Ok(())
    }

    /// Settles the responses of which nothing more is to be said, and lets down what waited for them.
    pub(super) async fn conclude(&mut self, mut settled: bool) -> LiveResult {
        while let Some(ConcludedResponse { id, ended, notes }) = self.guards.conclude() {
            self.response_ends(&id, (&ended.status, ended.usage), notes).await;
            settled = true;
        }
        while let Some(released) = self.guards.release() {
            match released {
                LetDown::Raw(raw) => self.write(raw).await?,
                LetDown::Made(text) => self.write(text_frame(&text, None)).await?,
            }
        }
        if settled { self.end_if_exhausted().await } else { Ok(()) }
    }

    /// An event of the gateway's own goes up.
    fn order(&mut self, event: &Value) {
        // A socket for Responses has no such events.
        if self.is_for_responses() {
            return;
        }
        let made = ids::next(clock::now()).simple();
        let mark = self.guards.mark(|| format!("gateway_{made}")).to_owned();
        let mut event = event.clone();
        event["event_id"] = json!(mark);
        self.say(text_frame(&event.to_string(), Some(mask())));
    }

    async fn send_denial(&mut self, why: &str, about: Option<&str>, results: &Value) -> LiveResult {
        let mut told = self.error((DENIED, DENIED), why, about);
        if !results.is_null() {
            told["error"]["hook_results"] = results.clone();
        }
        self.write(text_frame(&told.to_string(), None)).await
    }
}

/// All that the items of a response say and ask for.
fn spoken(output: &str) -> Vec<String> {
    let items: Value = serde_json::from_str(output).unwrap_or_default();
    let mut texts = Vec::new();
    for item in items.as_array().into_iter().flatten() {
        let parts = item["content"].as_array().into_iter().flatten();
        let said = parts.filter_map(|part| part["text"].as_str().or_else(|| part["transcript"].as_str()));
        texts.extend(said.map(str::to_owned));
        for asked in ["arguments", "input"] {
            texts.extend(item[asked].as_str().map(call_texts).unwrap_or_default());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_response_says_is_found_in_its_items() {
        let output = r#"[{"id":"i","content":[{"type":"output_audio","transcript":"one"},{"type":"output_text","text":"two"}]},
            {"type":"function_call","arguments":"{\"q\":\"three\"}"}]"#;
        assert_eq!(spoken(output), ["one", "two", "three"]);
        assert_eq!(spoken("{}"), [""; 0]);
    }
}
