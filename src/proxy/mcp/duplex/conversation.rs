//! One open connection to a server and all that is under way over it. A task of its own hears the server for as long as
//! the connection lasts; whoever asks waits at a mailbox. Answers find their request by number; what belongs to none
//! goes to a reader of the session, and where there is none the server hears that nobody can be asked.

use super::wire::{Hearing, Wire};
use crate::proxy::mcp::mailbox::Mailbox;
use crate::proxy::mcp::upstream::UpstreamCalls;
use ahash::AHashMap;
use gateway_mcp::multiplex::{self, HeardMessage};
use gateway_mcp::{RawObject, RpcError, RpcId};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Requests under way over one connection.
const MOST_CALLS: usize = 1_024;
/// Notices of the gateway's own that wait to be sent.
const MOST_NOTES: usize = 64;
/// How often an idle connection is looked at.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct DuplexConversation {
    /// Differs where it would lead elsewhere, or as somebody else.
    pub(super) place: u64,
    /// One for all callers: none of them is asked anything, and none hears what is said to another.
    pub(super) shared: bool,
    /// The answer to `initialize`, where the gateway opened it for all.
    pub(super) opened: Mutex<Option<Arc<str>>>,
    wire: Wire,
    talking: Mutex<Talking>,
    notes: mpsc::Sender<String>,
    closing: Notify,
}

struct Talking {
    pending: BTreeMap<u64, PendingCall>,
    /// Readers of what belongs to no request, by session.
    listeners: AHashMap<Box<str>, Arc<Mailbox>>,
    next: u64,
    used: Instant,
    /// Why there is nothing more to hear.
    over: Option<String>,
}

struct PendingCall {
    session: Box<str>,
    /// The request's id in JSON, as the client wrote it.
    id: String,
    method: String,
    token: Option<String>,
    mailbox: Arc<Mailbox>,
    /// The server has heard that nobody waits for it.
    is_taken_back: bool,
}

/// A request as it comes from a client of this connection.
pub(super) struct ConversationAsk<'m> {
    pub(super) session: &'m str,
    pub(super) request: &'m RawObject<'m>,
    pub(super) id: &'m RpcId,
    pub(super) method: &'m str,
    pub(super) traced: &'m [(HeaderName, HeaderValue)],
}

/// What a new connection is looked after with.
pub(super) struct Attending {
    pub(super) hearing: Hearing,
    pub(super) idle: Duration,
    notes: mpsc::Receiver<String>,
}

impl DuplexConversation {
    pub(super) fn new(wire: Wire, hearing: Hearing, (place, shared): (u64, bool), idle: Duration) -> (Self, Attending) {
        let (send, notes) = mpsc::channel(MOST_NOTES);
        let talking =
            Talking { pending: BTreeMap::new(), listeners: AHashMap::new(), next: 1, used: Instant::now(), over: None };
        let (talking, closing, opened) = (Mutex::new(talking), Notify::new(), Mutex::default());
        (Self { place, shared, opened, wire, talking, notes: send, closing }, Attending { hearing, idle, notes })
    }

    pub(super) fn is_over(&self) -> bool {
        self.talking.lock().over.is_some()
    }

    /// Since when nobody uses it; `None`: somebody does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let talking = self.talking.lock();
        (talking.pending.is_empty() && talking.listeners.is_empty()).then_some(talking.used)
    }

    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// Sends a request; its answer, and what comes on the way of it, is in the call.
    pub(super) async fn ask(
        self: &Arc<Self>,
        calls: &UpstreamCalls<'_>,
        ask: ConversationAsk<'_>,
    ) -> Result<DuplexCall, RpcError> {
        let mailbox = Arc::<Mailbox>::default();
        let (number, text) = self.enter(&ask, &mailbox)?;
        // Dropping the call takes the request back where nobody waits for its answer any more.
        let call = DuplexCall { conversation: self.clone(), number, mailbox };
        self.wire.send(calls, text, ask.traced).await.inspect_err(|error| self.lose(error))?;
        Ok(call)
    }

    fn enter(&self, ask: &ConversationAsk<'_>, mailbox: &Arc<Mailbox>) -> Result<(u64, String), RpcError> {
        let mut talking = self.talking.lock();
        if let Some(why) = &talking.over {
            return Err(broken(why));
        }
        if talking.pending.len() >= MOST_CALLS {
            return Err(RpcError::own(503, "Too many calls of this MCP server are under way over one connection"));
        }
        let number = talking.next;
        talking.next += 1;
        let numbered = multiplex::numbered(ask.request, number);
        let pending = PendingCall {
            session: ask.session.into(),
            id: ask.id.json().to_owned(),
            method: ask.method.to_owned(),
            token: numbered.token,
            mailbox: mailbox.clone(),
            is_taken_back: false,
        };
        talking.pending.insert(number, pending);
        talking.used = Instant::now();
        Ok((number, numbered.text))
    }

    /// Sends what needs no answer.
    pub(super) async fn notify(
        &self,
        calls: &UpstreamCalls<'_>,
        session: &str,
        (message, traced): (&RawObject<'_>, &[(HeaderName, HeaderValue)]),
    ) -> Result<(), RpcError> {
        let text = match multiplex::cancelled(message) {
            Some(id) => match self.take_back(session, &id) {
                Some(number) => multiplex::cancel(number),
                // It was answered, or taken back already.
                None => return Ok(()),
            },
            None => message.to_json(),
        };
        self.talking.lock().used = Instant::now();
        self.wire.send(calls, text, traced).await.inspect_err(|error| self.lose(error))
    }

    fn take_back(&self, session: &str, id: &str) -> Option<u64> {
        let mut talking = self.talking.lock();
        let mut own = talking.pending.iter_mut().filter(|(_, call)| *call.session == *session && !call.is_taken_back);
        let (number, call) = own.find(|(_, call)| RpcId::parse(&call.id).is_ok_and(|of| of.is(id)))?;
        call.is_taken_back = true;
        Some(*number)
    }

    /// A connection over which nothing can be sent is none.
    fn lose(&self, error: &RpcError) {
        if error.status >= 500 {
            self.close();
        }
    }

    /// The newest reader of a session is the only one.
    pub(super) fn listen(self: &Arc<Self>, session: &str) -> DuplexListener {
        let mailbox = Arc::<Mailbox>::default();
        let mut talking = self.talking.lock();
        if let Some(why) = &talking.over {
            mailbox.end(Some(why));
        } else if let Some(before) = talking.listeners.insert(session.into(), mailbox.clone()) {
            before.end(None);
        }
        DuplexListener { conversation: self.clone(), session: session.into(), mailbox }
    }

    pub(super) fn end_session(&self, session: &str) {
        if let Some(listener) = self.talking.lock().listeners.remove(session) {
            listener.end(None);
        }
    }

    /// Hears the server until one side ends the connection.
    pub(super) async fn attend(&self, mut attending: Attending) {
        let why = loop {
            if self.idle_since().is_some_and(|since| since.elapsed() >= attending.idle) {
                break "was not used for a while";
            }
            tokio::select! { biased;
                () = self.closing.notified() => break "was closed",
                Some(note) = attending.notes.recv() => self.wire.note(note).await,
                heard = pingora_timeout::timeout(LOOK, attending.hearing.next()) => match heard {
                    Err(_) => {}
                    Ok(Ok(text)) => self.hear(&text),
                    Ok(Err(why)) => break why,
                },
            }
        };
        self.finish(why);
    }

    fn finish(&self, why: &str) {
        let (pending, listeners) = {
            let mut talking = self.talking.lock();
            talking.over = Some(why.to_owned());
            (std::mem::take(&mut talking.pending), std::mem::take(&mut talking.listeners))
        };
        pending.into_values().for_each(|call| call.mailbox.end(Some(why)));
        listeners.into_values().for_each(|mailbox| mailbox.end(Some(why)));
    }

    fn hear(&self, text: &str) {
        let Some(heard) = multiplex::heard(text) else { return };
        match heard {
            HeardMessage::Answer(number) => {
                let mut talking = self.talking.lock();
                let Some(call) = number.and_then(|number| talking.pending.remove(&number)) else { return };
                talking.used = Instant::now();
                drop(talking);
                if let Some(answer) = multiplex::answer_to(text, &call.id) {
                    call.mailbox.put_last(&answer);
                }
            }
            HeardMessage::Progress(number) => {
                let talking = self.talking.lock();
                let call = number.and_then(|number| talking.pending.get(&number));
                let Some((call, token)) = call.and_then(|call| Some((call, call.token.as_ref()?))) else { return };
                multiplex::progress_of(text, token).map(|note| call.mailbox.put(&note));
            }
            HeardMessage::Asked { id, method } if method == "ping" => self.note(multiplex::pong(&id)),
            HeardMessage::Asked { id, .. } => {
                if self.shared || !self.pass(text, true) {
                    self.note(multiplex::nobody(&id));
                }
            }
            HeardMessage::Told { method } if self.shared => {
                if method.ends_with("/list_changed") {
                    self.talking.lock().listeners.values().for_each(|mailbox| {
                        mailbox.put(text);
                    });
                }
            }
            HeardMessage::Told { method } => {
                self.pass(text, method != "notifications/message");
            }
        }
    }

    /// Gives a message to whoever reads: a stream that is open for such things, or that of the last call.
    /// `listener_first`: the open stream is preferred; what is said on the way of a call belongs on that call's stream.
    fn pass(&self, text: &str, listener_first: bool) -> bool {
        let talking = self.talking.lock();
        let listener = talking.listeners.values().next();
        let is_call = |call: &&PendingCall| call.method == "tools/call";
        let newest = talking.pending.values().rev().find(is_call).or_else(|| talking.pending.values().next_back());
        let call = newest.map(|call| &call.mailbox);
        let chosen = if listener_first { listener.or(call) } else { call.or(listener) };
        chosen.is_some_and(|mailbox| mailbox.put(text))
    }

    /// What the gateway itself says; where too much waits the server does without.
    fn note(&self, text: String) {
        drop(self.notes.try_send(text));
    }

    fn forget(&self, number: u64) {
        let mut talking = self.talking.lock();
        let Some(call) = talking.pending.remove(&number) else { return };
        talking.used = Instant::now();
        drop(talking);
        if call.method != "initialize" && !call.is_taken_back {
            self.note(multiplex::cancel(number));
        }
    }
}

fn broken(why: &str) -> RpcError {
    RpcError::own(502, format!("The MCP server broke off: its connection {why}"))
}

/// A request under way: nobody waits any more once it is dropped, and the server hears that.
pub(super) struct DuplexCall {
    conversation: Arc<DuplexConversation>,
    number: u64,
    mailbox: Arc<Mailbox>,
}

impl Drop for DuplexCall {
    fn drop(&mut self) {
        self.conversation.forget(self.number);
    }
}

/// A reader of what belongs to no request.
pub(super) struct DuplexListener {
    conversation: Arc<DuplexConversation>,
    session: Box<str>,
    mailbox: Arc<Mailbox>,
}

impl Drop for DuplexListener {
    fn drop(&mut self) {
        let mut talking = self.conversation.talking.lock();
        if talking.listeners.get(&self.session).is_some_and(|mailbox| Arc::ptr_eq(mailbox, &self.mailbox)) {
            talking.listeners.remove(&self.session);
        }
        talking.used = Instant::now();
    }
}

enum DuplexReading {
    Call(DuplexCall),
    Listener(DuplexListener),
}

/// What one reader hears, as the events of a server that answers over HTTP.
pub(in crate::proxy) struct DuplexStream {
    reading: DuplexReading,
    /// How long the server may say nothing; `None`: for as long as it likes.
    silence: Option<Duration>,
    heard: Instant,
}

impl DuplexStream {
    pub(super) fn of_call(call: DuplexCall, silence: Duration) -> Self {
        Self { reading: DuplexReading::Call(call), silence: Some(silence), heard: Instant::now() }
    }

    pub(super) fn of_listener(listener: DuplexListener) -> Self {
        Self { reading: DuplexReading::Listener(listener), silence: None, heard: Instant::now() }
    }

    pub(in crate::proxy) const fn without_idle_clock(&mut self) {
        self.silence = None;
    }

    /// Safe to drop, also as to the clock.
    pub(in crate::proxy) async fn read(&mut self) -> Result<Option<bytes::Bytes>, RpcError> {
        let mailbox = match &self.reading {
            DuplexReading::Call(call) => &call.mailbox,
            DuplexReading::Listener(listener) => &listener.mailbox,
        };
        let next = match self.silence {
            None => mailbox.next().await,
            Some(silence) => {
                let left = silence.saturating_sub(self.heard.elapsed());
                let late = |_| RpcError::own(408, "The MCP server said nothing in time");
                pingora_timeout::timeout(left, mailbox.next()).await.map_err(late)?
            }
        };
        self.heard = Instant::now();
        next.map_err(|why| broken(&why))
    }
}
