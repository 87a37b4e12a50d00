//! The two directions of one session, in one loop: what comes is read as whole messages, judged by what it says, and
//! passed on as it came. A side that does not take what it is given is waited for, and nobody else is read meanwhile.

use super::LiveParts;
use super::close_state::{ClosingState, Why};
use super::listener::Listener;
use super::live_api::LiveSeconds;
use super::responses::{self, ResponseStreams};
use super::session_guardrails::{EndedResponse, LiveGuards, LiveVerdict};
use super::session_metrics::{OpenSession, TurnEnd};
use super::session_validity::LiveStanding;
use super::sideband::BesideCall;
use super::termination::why;
use super::turns::{LiveTurn, TurnOutcome, Turns, guessed, note_denied, settle};
use crate::guardrails::HookNotes;
use crate::proxy::body::Permit;
use crate::proxy::client::Upload;
use crate::proxy::exchange::AdmissionGate;
use crate::proxy::record::AttemptInfo;
use crate::proxy::target;
use crate::upstream::http1::{Response, SendError};
use bytes::Bytes;
use gateway_domain::record::{RealtimeNote, RealtimeTotals};
use gateway_domain::{Fault, FaultKind, Operation, Usage};
use gateway_policies::Estimate;
use gateway_realtime::{
    ClientEvent, Closing, FrameReader, HeardFrame, Peer, ProviderEvent, Tally, WireMessage, call_texts, close_frame,
    pong_to, text_frame,
};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The most bytes of one message: sound comes in pieces that are smaller by far.
const MOST_MESSAGE: usize = 16 << 20;
/// What is still to go up when no more is read of the client.
const MOST_UNSENT: usize = 256 << 10;
/// What one session may have in hand without being counted.
const SMALL: usize = 32 << 10;
/// How often clocks are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How long a response that was refused has to come to its end.
const CANCELLING: Duration = Duration::from_secs(10);

/// What a session came to.
pub(super) struct EndedSession {
    pub(super) note: RealtimeNote,
    pub(super) fault: Option<&'static str>,
    /// The provider said that it is over.
    pub(super) by_provider: bool,
    /// Another node goes on with it.
    pub(super) is_handed_over: bool,
    /// Bytes towards the client.
    pub(super) written: u64,
}

/// The client is not there any more.
pub(super) struct Unheard;

pub(super) type LiveResult = Result<(), Unheard>;

enum LiveStep {
    Client(Option<Bytes>),
    Provider(Result<Option<Bytes>, SendError>),
    Judged(Box<LiveVerdict>),
    Tick,
}

pub(super) struct LiveSession<'x, 'a, 'c> {
    pub(super) gate: AdmissionGate<'a>,
    pub(super) listener: Listener<'x, 'c>,
    pub(super) opened: &'x AttemptInfo,
    pub(super) upload: Upload,
    pub(super) response: Response,
    pub(super) up: FrameReader,
    pub(super) down: FrameReader,
    pub(super) turns: Turns,
    pub(super) guards: LiveGuards<'a>,
    /// Which response runs in which stream of a socket for Responses.
    pub(super) streams: ResponseStreams,
    pub(super) seconds: LiveSeconds,
    /// The call that it is beside.
    pub(super) beside: Option<BesideCall>,
    /// The model that the client has led the session to.
    pub(super) switched: Option<Arc<str>>,
    pub(super) totals: RealtimeTotals,
    pub(super) closing: ClosingState,
    /// What is in hand counts as what the process holds.
    pub(super) held: Permit,
    pub(super) counted: usize,
    pub(super) began: Instant,
    /// Before it began here.
    pub(super) lasted: Duration,
    pub(super) heard: Instant,
    /// When a response that was refused has to be over.
    pub(super) last_call: Option<Instant>,
    pub(super) written: u64,
    _open: OpenSession,
}

impl<'x, 'a, 'c> LiveSession<'x, 'a, 'c> {
    pub(super) fn new(
        gate: AdmissionGate<'a>,
        listener: Listener<'x, 'c>,
        (upload, response): (Upload, Response),
        opened: &'x AttemptInfo,
    ) -> Self {
        let mut held = Permit::new(&gate.parts.delivery.budget);
        held.charge(gate.request.caller.tenant.key.id.0);
        let now = Instant::now();
        let _open = gate.parts.live.counts.open();
        let mut closing = ClosingState::default();
        (closing.client_done, closing.client_told) = (listener.is_nobody(), listener.is_nobody());
        let beside = gate.request.beside().map(BesideCall::new);
        Self {
            gate,
            listener,
            opened,
            upload,
            response,
            up: FrameReader::new(Peer::Client, MOST_MESSAGE),
            down: FrameReader::new(Peer::Provider, MOST_MESSAGE),
            turns: Turns::default(),
            guards: LiveGuards::new(responses::is_for_responses(gate.request)),
            streams: ResponseStreams::default(),
            seconds: LiveSeconds::default(),
            beside,
            switched: None,
            totals: RealtimeTotals::default(),
            closing,
            held,
            counted: 0,
            began: now,
            lasted: Duration::ZERO,
            heard: now,
            last_call: None,
            written: 0,
            _open,
        }
    }

    /// Makes it the gateway's own session beside a call that has lasted for so long.
    pub(super) fn watching(self, beside: BesideCall, lasted: Duration) -> Self {
        Self { beside: Some(beside), lasted, ..self }
    }

    pub(super) fn live(&self) -> &'a LiveParts {
        &self.gate.parts.live
    }

    pub(super) async fn run(mut self) -> EndedSession {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if Box::pin(self.say_first()).await.is_err() {
            self.client_gone();
        }
        while !self.closing.is_over() {
            let told = match self.next(&mut ticks).await {
                LiveStep::Client(Some(bytes)) => self.hear_client(&bytes).await,
                LiveStep::Client(None) => Err(Unheard),
                LiveStep::Provider(Ok(Some(bytes))) => self.hear_provider(&bytes).await,
                LiveStep::Provider(Ok(None) | Err(_)) => self.provider_gone().await,
                LiveStep::Judged(verdict) => Box::pin(self.heed(*verdict)).await,
                LiveStep::Tick => self.look().await,
            };
            let told = match told {
                Ok(()) => self.count().await,
                gone => gone,
            };
            if told.is_err() {
                self.client_gone();
            }
        }
        self.leave().await
    }

    /// What the key of a browser sets goes up before anything that the browser says.
    async fn say_first(&mut self) -> LiveResult {
        let Some(text) = &self.gate.request.ask.first_event else { return self.take_up().await };
        let text = std::str::from_utf8(text).unwrap_or_default();
        let permitted = match ClientEvent::read(text) {
            Ok(event) => self.permit(&event),
            Err(why) => Err(Fault::new(FaultKind::BadBody, why.to_string())),
        };
        let judged = match (permitted, ClientEvent::read(text)) {
            (Ok(()), Ok(event)) => self.judge_asked(&event, text).await,
            (Err(fault), _) => Err(fault),
            (Ok(()), Err(_)) => Ok(false),
        };
        match judged {
            Ok(true) => {
                // Nothing is under way yet: the session begins with this verdict.
                let verdict = self.guards.verdict().await;
                let is_denied = verdict.is_denied();
                self.heed(*verdict).await?;
                let why = "a guardrail denied what the key sets";
                if is_denied { self.close(Why::Revoked, 1008, why).await } else { Ok(()) }
            }
            Ok(false) => self.goes_up(text).await,
            Err(fault) => self.end_for(&fault).await,
        }
    }

    /// Whatever happens next. Nothing is lost when it is dropped.
    async fn next(&mut self, ticks: &mut Interval) -> LiveStep {
        let listens = !self.closing.client_done && !self.guards.is_asking() && self.upload.unsent() < MOST_UNSENT;
        let reads = !self.closing.provider_done && !self.guards.is_full();
        let Self { listener, response, guards, .. } = self;
        tokio::select! {
            read = listener.read(), if listens => LiveStep::Client(read),
            read = response.read(), if reads => LiveStep::Provider(read),
            verdict = guards.verdict() => LiveStep::Judged(verdict),
            _ = ticks.tick() => LiveStep::Tick,
        }
    }

    pub(super) async fn hear_client(&mut self, bytes: &[u8]) -> LiveResult {
        self.heard = Instant::now();
        self.up.push(bytes);
        loop {
            // One event at a time is judged, and those behind it wait for it.
            if self.guards.is_asking() {
                return Ok(());
            }
            match self.up.read() {
                Ok(None) => return Ok(()),
                Ok(Some(HeardFrame::Control(raw))) => self.say(raw),
                Ok(Some(HeardFrame::Close(close))) => {
                    self.closing.client_done = true;
                    self.closing.begin(Why::Client, close.code, &close.reason);
                    self.say_last(close.raw);
                }
                // Whoever was told of the end has nothing more to ask.
                Ok(Some(HeardFrame::Message(_))) if self.closing.has_begun() => {}
                Ok(Some(HeardFrame::Message(message))) => Box::pin(self.client_says(message)).await?,
                Err(misframed) => {
                    self.closing.client_done = true;
                    return self.close(Why::Protocol, misframed.code, misframed.why).await;
                }
            }
        }
    }

    async fn client_says(&mut self, message: WireMessage) -> LiveResult {
        self.totals.events_up += 1;
        if !message.is_text {
            return self.close(Why::Protocol, 1003, "realtime events are text").await;
        }
        let Ok(text) = std::str::from_utf8(&message.payload) else {
            return self.close(Why::Protocol, 1007, "a text is not UTF-8").await;
        };
        let event = match ClientEvent::read(text) {
            Ok(event) => event,
            Err(why) => {
                let fault = Fault::new(FaultKind::BadBody, why.to_string());
                return self.send_error(&fault, "invalid_event", ClientEvent::id_alone(text).as_deref()).await;
            }
        };
        if let Err(fault) = self.permit(&event) {
            return self.send_error(&fault, "model_not_permitted", event.id.as_deref()).await;
        }
        self.hear_model(&event);
        match self.judge_asked(&event, text).await {
            Ok(true) => Ok(()),
            Ok(false) => self.goes_up_as(&event, message.raw, message.payload.len()).await,
            Err(fault) => self.end_for(&fault).await,
        }
    }

    /// What was judged goes up.
    pub(super) async fn goes_up(&mut self, text: &str) -> LiveResult {
        let Ok(event) = ClientEvent::read(text) else { return Ok(()) };
        self.goes_up_as(&event, text_frame(text, Some(mask())), text.len()).await
    }

    async fn goes_up_as(&mut self, event: &ClientEvent<'_>, raw: Bytes, bytes: usize) -> LiveResult {
        self.hear_asked(event, bytes);
        if event.asks() && !self.is_live() {
            match Box::pin(self.admit(self.most_output(event))).await {
                Ok(turn) => self.turns.ask(event.id.as_deref().map(str::to_owned), turn),
                Err(fault) => {
                    self.deny(&fault, event.id.as_deref()).await?;
                    return self.end_if_revoked(&fault).await;
                }
            }
        }
        if let Some((_, model)) = event.models.iter().find(|(field, _)| *field == "session.model") {
            self.switched = Some((**model).into());
        }
        if let Some(model) = event.transcriber() {
            self.turns.transcriber.ask(event.id.as_deref(), model);
        }
        if !self.is_for_responses() {
            self.turns.context.add(bytes, event.is_sound());
        }
        self.say(raw);
        Ok(())
    }

    /// Every model that an event names is one that the caller may use here.
    fn permit(&self, event: &ClientEvent<'_>) -> Result<(), Fault> {
        self.permit_asked(event)?;
        if event.models.is_empty() {
            return Ok(());
        }
        let standing = self.standing()?;
        event.models.iter().try_for_each(|(field, model)| {
            target::permit_other(&standing.aim, model, &standing.request)
                .map_err(|fault| Fault::new(fault.kind(), fault.message().to_owned()).on(*field))
        })
    }

    pub(super) fn standing(&self) -> Result<LiveStanding, Fault> {
        LiveStanding::new(self.gate, self.live(), self.opened, self.model())
    }

    /// Asks the limits for a response.
    async fn admit(&mut self, most_output: Option<u64>) -> Result<LiveTurn, Fault> {
        if self.turns.are_full() {
            let why = format!("No more than {} responses may be under way in a session", super::turns::MOST_AT_ONCE);
            return Err(Fault::new(FaultKind::RateLimited, why));
        }
        let standing = self.standing()?;
        if let Some(model) = &self.switched {
            target::permit_other(&standing.aim, model, &standing.request)?;
        }
        let prompt = self.turns.context.tokens();
        let estimate = Estimate { prompt, output: most_output.or(self.turns.facts.most_output) };
        let gate = AdmissionGate { request: &standing.request, ..self.gate };
        let holds = gate.response(&standing.aim, estimate).await?;
        Ok(LiveTurn { standing, holds: Some(holds), tally: Tally::default(), prompt })
    }

    /// The model in force, where it is not the one that the session opened with.
    pub(super) fn model(&self) -> Option<Arc<str>> {
        let untold = || self.turns.facts.model.as_deref().filter(|_| self.opened.model.is_none()).map(Arc::from);
        self.switched.clone().or_else(untold)
    }

    async fn hear_provider(&mut self, bytes: &[u8]) -> LiveResult {
        self.heard = Instant::now();
        self.down.push(bytes);
        loop {
            match self.down.read() {
                Ok(None) => return Ok(()),
                Ok(Some(HeardFrame::Control(raw))) => match pong_to(&raw, mask()).filter(|_| self.listener.is_nobody())
                {
                    Some(pong) => self.say(pong),
                    None => self.write(raw).await?,
                },
                Ok(Some(HeardFrame::Close(close))) => self.provider_closes(close).await?,
                Ok(Some(HeardFrame::Message(message))) => Box::pin(self.provider_says(message)).await?,
                Err(misframed) => {
                    self.closing.provider_done = true;
                    return self.close(Why::ProviderGone, 1011, misframed.why).await;
                }
            }
        }
    }

    async fn provider_closes(&mut self, close: Closing) -> LiveResult {
        self.closing.provider_done = true;
        self.closing.begin(Why::Provider, close.code, &close.reason);
        if !self.closing.provider_told {
            self.say_last(close_frame(close.code.unwrap_or(1000), "", Some(mask())));
        }
        self.write(close.raw).await?;
        self.closing.client_told = true;
        Ok(())
    }

    async fn provider_says(&mut self, message: WireMessage) -> LiveResult {
        self.totals.events_down += 1;
        // What is no text says nothing.
        let event = ProviderEvent::read(std::str::from_utf8(&message.payload).unwrap_or_default());
        let usage_of = |told: Option<&RawValue>| told.and_then(|told| gateway_providers::realtime_usage(told.get()));
        let (mut settled, mut begun) = (false, None);
        match event {
            ProviderEvent::Other => {}
            ProviderEvent::Lasted { seconds, is_last } => settled = self.lasted(seconds, is_last).await,
            ProviderEvent::Delegated(event) => settled = self.delegated(event).await,
            ProviderEvent::Session { facts, is_changed } => {
                self.turns.transcriber.confirm(facts.transcribes.as_deref(), is_changed);
                self.learn(facts).await?;
            }
            ProviderEvent::Delta { response, stream, bytes, is_sound } => {
                let response = self.streams.of(stream.as_deref()).unwrap_or(&response);
                self.turns.hear(response, bytes, is_sound);
            }
            ProviderEvent::Error { event } if self.guards.is_own(event.as_deref()) => return Ok(()),
            ProviderEvent::Error { event } => {
                self.turns.transcriber.refuse(event.as_deref());
                self.turns.refuse(event.as_deref());
            }
            ProviderEvent::ResponseCreated { id, stream } => {
                self.stream_begins(&id, stream.as_deref());
                self.response_begins(&id).await?;
                begun = Some(id.into_owned());
            }
            // All that it says stands in its end, too.
            ProviderEvent::Said { .. } | ProviderEvent::Called { .. } if self.is_for_responses() => {}
            ProviderEvent::Said { response, item, text } => {
                self.judge_said(&response, item.as_deref(), vec![text.into_owned()]).await?;
            }
            ProviderEvent::Called { response, item, arguments } => {
                self.judge_said(&response, item.as_deref(), call_texts(&arguments)).await?;
            }
            ProviderEvent::ResponseDone { id, status, usage, output } => {
                let told = usage.map(|told| told.get().into());
                let counted = match self.is_for_responses() {
                    true => self.streams.end(&id, (self.opened.provider, &message)),
                    false => usage_of(usage),
                };
                let ended = EndedResponse { status: status.into_owned(), usage: counted, told };
                if let Some(ended) = self.judge_ended(&id, ended, output).await? {
                    self.response_ends(&id, (&ended.status, ended.usage), None).await;
                    settled = true;
                }
            }
            ProviderEvent::Transcribed { item, usage, text } => {
                let usage = usage_of(usage);
                match self.judge_heard(&item, &text, usage).await {
                    Ok(true) => {}
                    Ok(false) => settled = self.transcribed(&item, usage, None).await,
                    Err(fault) => return self.end_for(&fault).await,
                }
            }
        }
        self.pass_down(message).await?;
        if let Some(id) = begun {
            self.judge_response(&id).await?;
        }
        self.conclude(settled).await
    }

    /// One that nobody asked for began by itself, when the provider heard that somebody had finished speaking.
    async fn response_begins(&mut self, id: &str) -> LiveResult {
        if self.turns.is_running(id) {
            return Ok(());
        }
        if self.leaves_to_others(id).await {
            if let Some(holds) = self.turns.next_asked().and_then(|turn| turn.holds) {
                holds.release();
            }
            return Ok(());
        }
        if let Some(turn) = self.turns.next_asked() {
            self.turns.begin(id, turn);
            return Ok(());
        }
        match self.admit(None).await {
            Ok(turn) => self.turns.begin(id, turn),
            Err(fault) => {
                if !self.is_for_responses() {
                    let cancel = serde_json::json!({ "type": "response.cancel", "response_id": id }).to_string();
                    self.say(text_frame(&cancel, Some(mask())));
                    self.last_call = Some(Instant::now() + CANCELLING);
                }
                if let (Ok(standing), false) = (self.standing(), self.turns.are_full()) {
                    let prompt = self.turns.context.tokens();
                    self.turns.begin(id, LiveTurn { standing, holds: None, tally: Tally::default(), prompt });
                }
                self.deny(&fault, None).await?;
                if self.is_for_responses() {
                    // Nothing cancels it there but the end of the socket.
                    return self.close(why(&fault), 1008, fault.message()).await;
                }
                self.end_if_revoked(&fault).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn response_ends(
        &mut self,
        id: &str,
        (status, usage): (&str, Option<Usage>),
        notes: Option<Box<HookNotes>>,
    ) {
        if self.is_left_to_others(id).await {
            return self.doubt(id, (status, usage), notes);
        }
        let turn = match self.turns.end(id) {
            Some(turn) => turn,
            None => match self.standing() {
                Ok(standing) => LiveTurn { standing, holds: None, tally: Tally::default(), prompt: 0 },
                Err(_) => return,
            },
        };
        if !self.claims_end(id).await {
            if let Some(holds) = turn.holds {
                holds.release();
            }
            return;
        }
        let usage = usage.or_else(|| guessed(&turn));
        if let Some(usage) = &usage {
            self.turns.context.settle(usage.total());
        }
        self.totals.responses += 1;
        let operation = self.part();
        self.settle(turn, TurnOutcome { operation, id, status, usage, told: None, notes }).await;
    }

    pub(super) async fn settle(&mut self, turn: LiveTurn, outcome: TurnOutcome<'_>) {
        self.totals.tokens += outcome.usage.map_or(0, |usage| usage.total());
        let is_response = outcome.operation == Operation::RealtimeResponse;
        let told = self.turns.facts.model.as_deref().filter(|_| is_response);
        let outcome = TurnOutcome { told, ..outcome };
        Box::pin(settle(self.gate, turn.standing, turn.holds, outcome)).await;
    }

    /// What the client said was written down, by a model of its own. `false`: that was counted before.
    pub(super) async fn transcribed(
        &mut self,
        item: &str,
        usage: Option<Usage>,
        notes: Option<Box<HookNotes>>,
    ) -> bool {
        let is_counted = usage.is_some() && self.turns.is_new(item) && self.claims(item).await;
        let denied = notes.as_ref().is_some_and(|notes| notes.is_denied());
        if !is_counted && !denied {
            return false;
        }
        let model = self.turns.transcriber.in_force().or_else(|| self.model());
        let Ok(standing) = LiveStanding::new(self.gate, self.live(), self.opened, model) else { return true };
        if !is_counted {
            if let Some(notes) = notes {
                note_denied(self.gate, standing, Operation::RealtimeTranscript, item, notes);
            }
            return false;
        }
        let turn = LiveTurn { standing, holds: None, tally: Tally::default(), prompt: 0 };
        self.totals.transcripts += 1;
        let (operation, status) = (Operation::RealtimeTranscript, "completed");
        self.settle(turn, TurnOutcome { operation, id: item, status, usage, told: None, notes }).await;
        true
    }

    /// A response was not let through.
    async fn deny(&mut self, fault: &Fault, about: Option<&str>) -> LiveResult {
        self.totals.denied += 1;
        self.live().counts.turn(TurnEnd::Denied);
        self.send_error(fault, why(fault).label(), about).await
    }

    /// An error in the provider's own form.
    pub(super) async fn send_error(&mut self, fault: &Fault, code: &str, about: Option<&str>) -> LiveResult {
        let kind = fault.kind().row().openai_type;
        let told = self.error((kind, code), fault.message(), about).to_string();
        self.write(text_frame(&told, None)).await
    }

    /// Goes up, unless the provider was told of the end.
    pub(super) fn say(&self, raw: Bytes) {
        if !self.closing.provider_told {
            self.upload.say(raw);
        }
    }

    pub(super) fn say_last(&mut self, raw: Bytes) {
        self.say(raw);
        self.closing.provider_told = true;
    }

    /// Goes down, unless the client was told of the end.
    pub(super) async fn write(&mut self, raw: Bytes) -> LiveResult {
        if self.closing.client_told {
            return Ok(());
        }
        self.written += raw.len() as u64;
        self.listener.piece(Some(raw), false).await
    }

    /// Counts what is in hand, once that is more than a little.
    async fn count(&mut self) -> LiveResult {
        let now = self.up.held() + self.down.held() + self.upload.unsent() + self.guards.bytes();
        if now <= SMALL && self.counted == 0 {
            return Ok(());
        }
        if now < self.counted / 2 || now <= SMALL {
            self.held.give_back();
            self.counted = 0;
        }
        if now > SMALL && now > self.counted {
            if let Err(fault) = self.held.grow_to(now) {
                return self.close(Why::Busy, 1013, fault.message()).await;
            }
            self.counted = now;
        }
        Ok(())
    }
}

/// What goes up is masked anew each time (RFC 6455, 5.3).
pub(super) fn mask() -> [u8; 4] {
    rand::random()
}
