//! An agent's stream on its way down. Events pass as they come, each with ids that are the client's; where guardrails
//! judge answers the stream is held until it is whole. A stream that breaks off, or ends before its task came to rest,
//! ends with an error.

use super::call::{AgentOutcome, AgentTurn, FAILED, NOUN, denied, failed, too_long};
use super::message::{AgentAsked, AgentWay};
use crate::proxy::body::Permit;
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::event_budget::HeardEvents;
use crate::proxy::mcp::upstream::response_of;
use crate::proxy::outbound::{MOST_ANSWER, fallen};
use crate::proxy::text_guard::{GuardedText, TextGuard};
use crate::upstream::http1::Response;
use gateway_mcp::a2a::state::{may_end, state_of};
use gateway_mcp::a2a::texts::each_said;
use gateway_mcp::object::items;
use gateway_mcp::sse::McpEvent;
use gateway_mcp::texts::TextVisit;
use gateway_mcp::{RawObject, RpcError};
use std::time::{Duration, Instant};

/// Silence after which a client that waits hears that it is not forgotten.
const TICK: Duration = Duration::from_secs(15);

/// What a stream has said so far.
#[derive(Default)]
struct HeardStream {
    /// Results that wait to be judged, and the room that they take. `None`: nothing waits.
    held: Vec<String>,
    room: Option<Permit>,
    state: Option<String>,
    may_end: bool,
    bytes: usize,
}

/// What becomes of a result that was heard.
enum HeardResult {
    Passes(String),
    Waits,
    TooMuch(RpcError),
}

impl HeardStream {
    /// Holds a result where it is to be judged. What is too much is let go of, with all before it.
    fn hold(&mut self, result: String) -> HeardResult {
        let Some(room) = &mut self.room else { return HeardResult::Passes(result) };
        let taken = if self.bytes > MOST_ANSWER {
            Err(RpcError::own(502, "The agent broke off: it says more than can be judged at once"))
        } else {
            room.grow_to(self.bytes).map_err(|fault| RpcError::own(fault.status(), fault.message().to_owned()))
        };
        match taken {
            Ok(()) => {
                self.held.push(result);
                HeardResult::Waits
            }
            Err(error) => {
                self.held.clear();
                room.give_back();
                HeardResult::TooMuch(error)
            }
        }
    }
}

impl AgentTurn<'_, '_> {
    pub(super) async fn follow(
        &mut self,
        asked: &AgentAsked,
        response: Response,
        guard: Option<&mut TextGuard>,
    ) -> Result<AgentOutcome, ClientLeft> {
        self.down.begin().await?;
        let guard = guard.filter(|guard| guard.judges_answers());
        let room = guard.is_some().then(|| {
            let mut room = Permit::new(&self.parts.calls.delivery.budget);
            room.charge(self.request.caller.tenant.key.id.0);
            room
        });
        let mut heard = HeardStream { room, ..HeardStream::default() };
        let mut ended = self.hear(asked, response, &mut heard).await?;
        if let Some(guard) = guard {
            let all = format!("[{}]", heard.held.join(","));
            let judging = guard.judge_answered(&self.parts.calls.guardrails, &all, each_and_all);
            let told = match self.down.client.during(None, judging).await? {
                GuardedText::Same => Some(std::mem::take(&mut heard.held)),
                GuardedText::Other(other) => {
                    items(&other).map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>())
                }
                GuardedText::Denied => None,
            };
            match told {
                Some(told) => {
                    for result in told {
                        self.pass(asked, &result).await?;
                    }
                }
                None => ended = Some(denied(asked, guard)),
            }
        }
        let is_told = ended.is_none();
        let last = ended.unwrap_or_else(|| LastMessage::ok(String::new()));
        let was_called = is_told || heard.bytes > 0;
        Ok(AgentOutcome { last, state: heard.state, is_told, answered: heard.bytes, was_called })
    }

    /// Events to the end of the stream; what is still to be said then, if anything.
    async fn hear(
        &mut self,
        asked: &AgentAsked,
        mut response: Response,
        heard: &mut HeardStream,
    ) -> Result<Option<LastMessage>, ClientLeft> {
        let (began, longest) = (Instant::now(), self.parts.state.settings.longest);
        let (mut events, mut waiting) = (HeardEvents::new(&self.parts.calls.delivery.budget), Instant::now());
        let broken = |why: &str| Some(failed(asked, &RpcError::own(502, format!("The agent broke off: {why}"))));
        loop {
            loop {
                let event = match events.next_event() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(too_long) => return Ok(broken(&too_long.to_string())),
                };
                match result_of(asked, &event) {
                    Some(Ok(result)) => {
                        heard.state = state_of(&result).or(heard.state.take());
                        heard.may_end |= may_end(&result);
                        heard.bytes += result.len();
                        match heard.hold(result) {
                            HeardResult::Waits => {}
                            HeardResult::Passes(result) => self.pass(asked, &result).await?,
                            HeardResult::TooMuch(error) => return Ok(Some(failed(asked, &error))),
                        }
                    }
                    Some(Err(error)) => {
                        return Ok(Some(LastMessage { label: Some(FAILED), ..LastMessage::ok(error) }));
                    }
                    None => {}
                }
            }
            if began.elapsed() > longest {
                return Ok(Some(failed(asked, &too_long())));
            }
            let left = TICK.saturating_sub(waiting.elapsed()).max(Duration::from_millis(1));
            match self.down.client.during(None, pingora_timeout::timeout(left, response.read())).await? {
                Err(_) => {
                    self.down.comment_if_begun().await?;
                    waiting = Instant::now();
                }
                Ok(Ok(Some(piece))) => {
                    if let Err(full) = events.push(&piece) {
                        return Ok(Some(failed(asked, &full)));
                    }
                    waiting = Instant::now();
                }
                Ok(Ok(None)) if heard.may_end => return Ok(None),
                Ok(Ok(None)) => return Ok(broken("its stream ended before the task came to rest")),
                Ok(Err(error)) => return Ok(Some(failed(asked, &fallen(&error, NOUN)))),
            }
        }
    }

    async fn pass(&mut self, asked: &AgentAsked, result: &str) -> Result<(), ClientLeft> {
        let Ok(seen) = self.seen(asked, None, result) else { return Ok(()) };
        let data = asked.answered(&seen);
        self.down.event(&McpEvent { event: "message".into(), data, ..McpEvent::default() }).await
    }
}

/// The result of an event; `Err`: an error, as the client's binding carries it. `None`: it is no answer to what was
/// asked.
fn result_of(asked: &AgentAsked, event: &McpEvent) -> Option<Result<String, String>> {
    match &asked.way {
        AgentWay::JsonRpc { id, .. } => {
            let text = response_of(&event.data, id.as_ref()?)?;
            let envelope = RawObject::parse(&text).ok()?;
            Some(envelope.raw("result").map(str::to_owned).ok_or_else(|| text.clone()))
        }
        AgentWay::Rest(_) => {
            let object = RawObject::parse(&event.data).ok()?;
            Some(if object.contains("error") { Err(event.data.clone()) } else { Ok(event.data.clone()) })
        }
    }
}

/// Every text by itself, and behind them all of them as one: what is said in pieces is judged as what it says. That
/// whole cannot be put back into pieces, so that nothing may pass where another takes its place alone.
fn each_and_all(json: &str, visit: TextVisit<'_>) -> Option<String> {
    let (mut whole, mut count) = (String::new(), 0);
    let other = each_said(json, &mut |text| {
        whole.push_str(text);
        count += 1;
        visit(text)
    });
    let is_changed = count > 1 && visit(&whole).is_some();
    if is_changed && other.is_none() { Some("null".to_owned()) } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_judged_as_what_they_say() {
        let json = r#"[{"artifactUpdate":{"artifact":{"parts":[{"text":"for"}]}}},
            {"artifactUpdate":{"artifact":{"parts":[{"text":"bidden"}]}}}]"#;
        let mut all = Vec::new();
        each_and_all(json, &mut |text| {
            all.push(text.to_owned());
            None
        });
        assert_eq!(all, ["for", "bidden", "forbidden"]);
        let veiled = |text: &str| (text == "forbidden").then(|| "***".to_owned());
        assert_eq!(each_and_all(json, &mut |text| veiled(text)).as_deref(), Some("null"), "nothing that could pass");
    }
}
