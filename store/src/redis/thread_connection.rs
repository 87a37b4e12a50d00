//! A thread's own connection to a single Redis, for what is asked on a request's path: whoever asks and whoever drives
//! it share a runtime, so no other thread is woken, and what is asked in one turn goes out in one write. Dialled beside
//! the requests; while there is none they go over the connection of the process. Knows no command.

use super::RedisFailure;
use super::resp::{self, RedisReply, Strange, Words};
use ::redis::{ConnectionAddr, ConnectionInfo};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// What broke is dialled again after so long, while the connection of the process still lives.
const AGAIN: Duration = Duration::from_secs(1);
/// Answers are read in pieces of this size; each is far smaller.
const PIECE: usize = 16 << 10;
/// Calls that may wait for an answer on one lane; more go over the connection of the process.
const MOST_WAITING: usize = 1 << 14;

type LaneResult = Result<Vec<i64>, RedisFailure>;
type LateAnswer = Box<dyn FnOnce(Vec<i64>) + Send>;

thread_local! {
    static OWN: RefCell<Vec<(Weak<LaneConfig>, Arc<RedisLane>)>> = const { RefCell::new(Vec::new()) };
}

/// Where lanes lead to, and how long they may take.
pub(super) struct LaneConfig {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<String>,
    database: i64,
    patience: LaneTimeouts,
}

#[derive(Clone, Copy)]
pub(super) struct LaneTimeouts {
    /// Time for a connection to be made, and for a sign of life to come.
    pub(super) dial: Duration,
    /// After so long an answer will not come any more.
    pub(super) abandoned: Duration,
    /// After so long the other side is asked whether it lives: what stands between forgets quiet connections.
    pub(super) silence: Duration,
}

impl LaneConfig {
    /// Only a single server without TLS has lanes.
    pub(super) fn of(nodes: &[ConnectionInfo], patience: LaneTimeouts) -> Option<Arc<Self>> {
        let [one] = nodes else { return None };
        let ConnectionAddr::Tcp(host, port) = one.addr() else { return None };
        let settings = one.redis_settings();
        Some(Arc::new(Self {
            host: host.clone(),
            port: *port,
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
            patience,
        }))
    }

    /// Over the calling thread's own lane; `None` while that is not open. `link` numbers the connection of the process:
    /// with another one there comes another lane.
    pub(super) fn send(
        self: &Arc<Self>,
        link: u64,
        until: Instant,
        write: impl FnOnce(&mut dyn Words),
    ) -> Option<Arc<Ticket>> {
        OWN.with_borrow_mut(|own| {
            let Some((_, lane)) = own.iter_mut().find(|(place, _)| std::ptr::eq(place.as_ptr(), Arc::as_ptr(self)))
            else {
                own.retain(|(place, _)| place.strong_count() > 0);
                own.push((Arc::downgrade(self), RedisLane::dial(self, link)?));
                return None;
            };
            if lane.link == link
                && let Some(ticket) = lane.send(until, write)
            {
                return Some(ticket);
            }
            if lane.is_spent(link) {
                lane.leave();
                *lane = RedisLane::dial(self, link)?;
            }
            None
        })
    }

    async fn reach(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        let (greeting, mut expected) = self.greeting();
        stream.write_all(&greeting).await?;
        let (mut piece, mut seen) = ([0; 512], Vec::new());
        while expected > 0 {
            let n = stream.read(&mut piece).await?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.extend_from_slice(&piece[..n]);
            while let Some((answer, length)) = resp::read(&seen).map_err(|Strange| io::ErrorKind::InvalidData)? {
                if matches!(answer, RedisReply::Refused(_)) {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                seen.drain(..length);
                expected -= 1;
            }
        }
        Ok(stream)
    }

    /// The commands that begin a connection, and how many answers they have.
    fn greeting(&self) -> (Vec<u8>, usize) {
        let database = self.database.to_string();
        let mut commands: Vec<Vec<&str>> = Vec::new();
        if let Some(password) = &self.password {
            commands.push(["AUTH"].into_iter().chain(self.user.as_deref()).chain([&**password]).collect());
        }
        if self.database != 0 {
            commands.push(vec!["SELECT", &database]);
        }
        commands.push(vec!["PING"]);
        let mut out = Vec::new();
        for command in &commands {
            out.begin(command.len());
            command.iter().for_each(|word| out.word(word.as_bytes()));
        }
        (out, commands.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Dialling,
    Open,
    /// Nothing is asked any more; what was may still be answered.
    Left,
    Shut,
}

pub(super) struct RedisLane {
    link: u64,
    dialled: Instant,
    state: Mutex<LaneState>,
}

struct LaneState {
    phase: Phase,
    /// Asked and not yet sent.
    out: Vec<u8>,
    /// Calls in the order in which they will be answered.
    waiting: VecDeque<Arc<Ticket>>,
    /// Before then nobody has waited for too long, and it has not been silent for long.
    due: Option<Instant>,
    driver: Option<Waker>,
}

impl RedisLane {
    fn dial(place: &Arc<LaneConfig>, link: u64) -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        let state =
            LaneState { phase: Phase::Dialling, out: Vec::new(), waiting: VecDeque::new(), due: None, driver: None };
        let lane = Arc::new(Self { link, dialled: Instant::now(), state: Mutex::new(state) });
        let (place, shutting) = (place.clone(), Shutting(lane.clone()));
        runtime.spawn(async move {
            if let Ok(Ok(stream)) = timeout(place.patience.dial, place.reach()).await {
                shutting.0.open(place.patience.silence);
                Driver::new(shutting.0.clone(), stream, place.patience).await;
            }
        });
        Some(lane)
    }

    fn open(&self, silence: Duration) {
        let mut state = self.state.lock();
        if state.phase == Phase::Dialling {
            state.phase = Phase::Open;
            state.due = Some(Instant::now() + silence);
        }
    }

    fn send(&self, until: Instant, write: impl FnOnce(&mut dyn Words)) -> Option<Arc<Ticket>> {
        let mut state = self.state.lock();
        if state.phase != Phase::Open || state.waiting.len() >= MOST_WAITING {
            return None;
        }
        write(&mut state.out);
        let ticket = Arc::new(Ticket { until, stage: Mutex::new(CallStage::Waiting(None)) });
        state.waiting.push_back(ticket.clone());
        state.due = Some(state.due.map_or(until, |due| due.min(until)));
        // The driver looks at all that was asked until its turn comes.
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
        Some(ticket)
    }

    fn is_spent(&self, link: u64) -> bool {
        self.link != link || (self.state.lock().phase == Phase::Shut && self.dialled.elapsed() > AGAIN)
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        if state.phase != Phase::Shut {
            state.phase = Phase::Left;
        }
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }
}

/// However a lane ends, nobody goes on waiting for it.
struct Shutting(Arc<RedisLane>);

impl Drop for Shutting {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.phase = Phase::Shut;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(|ticket| ticket.resolve(Err(RedisFailure::Away)));
    }
}

/// Writes, reads, and looks at the clock.
struct Driver {
    lane: Arc<RedisLane>,
    stream: TcpStream,
    patience: LaneTimeouts,
    heard: Instant,
    sending: Vec<u8>,
    sent: usize,
    seen: Box<[u8]>,
    filled: usize,
    alarm: Pin<Box<Sleep>>,
    alarmed: Option<Instant>,
    /// Sent and not answered.
    awaited: usize,
}

/// The connection is of no use any more.
struct BrokenLink;

impl Driver {
    fn new(lane: Arc<RedisLane>, stream: TcpStream, patience: LaneTimeouts) -> Self {
        Self {
            lane,
            stream,
            patience,
            heard: Instant::now(),
            sending: Vec::new(),
            sent: 0,
            seen: vec![0; PIECE].into(),
            filled: 0,
            alarm: Box::pin(sleep_until(Instant::now())),
            alarmed: None,
            awaited: 0,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<(), BrokenLink> {
        self.read(cx)?;
        self.watch(cx)?;
        self.write(cx)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), BrokenLink> {
        loop {
            let mut room = ReadBuf::new(&mut self.seen[self.filled..]);
            match Pin::new(&mut self.stream).poll_read(cx, &mut room) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) if !room.filled().is_empty() => self.filled += room.filled().len(),
                Poll::Ready(_) => return Err(BrokenLink),
            }
            self.heard = Instant::now();
            self.hear()?;
        }
    }

    fn hear(&mut self) -> Result<(), BrokenLink> {
        let mut at = 0;
        while let Some((answer, length)) = resp::read(&self.seen[at..self.filled]).map_err(|Strange| BrokenLink)? {
            at += length;
            self.awaited = self.awaited.saturating_sub(1);
            let ticket = self.lane.state.lock().waiting.pop_front().ok_or(BrokenLink)?;
            ticket.resolve(match answer {
                RedisReply::Numbers(numbers) => Ok(numbers),
                RedisReply::Refused(code) => Err(RedisFailure::Refused(code)),
            });
        }
        self.seen.copy_within(at..self.filled, 0);
        self.filled -= at;
        // An answer that finds no room is none of ours.
        if self.filled == self.seen.len() { Err(BrokenLink) } else { Ok(()) }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), BrokenLink> {
        loop {
            if self.sent == self.sending.len() {
                self.sending.clear();
                self.sent = 0;
                let mut state = self.lane.state.lock();
                if state.phase == Phase::Left && state.waiting.is_empty() {
                    return Err(BrokenLink);
                }
                // Redis does one thing after the other: what is asked meanwhile waits here as well as there, and goes
                // in one write.
                if self.awaited == 0 {
                    std::mem::swap(&mut self.sending, &mut state.out);
                    self.awaited = state.waiting.len();
                }
                if self.sending.is_empty() {
                    if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
                        state.driver = Some(cx.waker().clone());
                    }
                    return Ok(());
                }
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.sending[self.sent..]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(n)) if n > 0 => self.sent += n,
                Poll::Ready(_) => return Err(BrokenLink),
            }
        }
    }

    /// One timer for all: it rings when the first of them may have waited for too long.
    fn watch(&mut self, cx: &mut Context<'_>) -> Result<(), BrokenLink> {
        loop {
            let due = self.lane.state.lock().due;
            let Some(due) = due else { return Ok(()) };
            if self.alarmed.is_none_or(|at| due < at) {
                self.alarm.as_mut().reset(due);
                self.alarmed = Some(due);
            }
            let Poll::Ready(()) = self.alarm.as_mut().poll(cx) else { return Ok(()) };
            self.alarmed = None;
            let (now, mut state) = (Instant::now(), self.lane.state.lock());
            if state.waiting.is_empty() && now >= self.heard + self.patience.silence {
                state.out.begin(1);
                state.out.word(b"PING");
                let until = now + self.patience.dial;
                state.waiting.push_back(Arc::new(Ticket { until, stage: Mutex::new(CallStage::Over) }));
            }
            let next = state.waiting.iter().map(|ticket| ticket.next(now, self.patience.abandoned)).min();
            state.due = Some(next.unwrap_or(self.heard + self.patience.silence));
            if next.is_some_and(|next| next <= now) {
                return Err(BrokenLink);
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.turn(cx).is_err() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// One call on its way.
pub(super) struct Ticket {
    until: Instant,
    stage: Mutex<CallStage>,
}

enum CallStage {
    Waiting(Option<Waker>),
    /// The caller has waited for as long as it may.
    Overdue,
    Told(LaneResult),
    /// The caller has gone: who hears of it instead.
    Left(LateAnswer),
    Over,
}

impl Ticket {
    fn resolve(&self, told: LaneResult) {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, CallStage::Over) {
            CallStage::Waiting(waker) => {
                *stage = CallStage::Told(told);
                drop(stage);
                waker.into_iter().for_each(Waker::wake);
            }
            CallStage::Overdue => *stage = CallStage::Told(told),
            CallStage::Left(late) => {
                drop(stage);
                if let Ok(numbers) = told {
                    late(numbers);
                }
            }
            CallStage::Told(_) | CallStage::Over => {}
        }
    }

    /// When it is to be looked at again.
    fn next(&self, now: Instant, abandoned: Duration) -> Instant {
        let mut stage = self.stage.lock();
        match &mut *stage {
            CallStage::Waiting(_) if now < self.until => return self.until,
            CallStage::Waiting(waker) => {
                let waker = waker.take();
                *stage = CallStage::Overdue;
                drop(stage);
                waker.into_iter().for_each(Waker::wake);
            }
            // Nobody waits for a sign of life but the lane itself.
            CallStage::Over => return self.until,
            _ => {}
        }
        self.until + abandoned
    }
}

/// Waits for the answer, or for `None` when the time is over. From then on, and when this is dropped, what Redis does
/// after all is told to `late`.
pub(super) struct LaneWait<L: FnOnce(Vec<i64>) + Send + 'static> {
    ticket: Arc<Ticket>,
    late: Option<L>,
}

impl<L: FnOnce(Vec<i64>) + Send + 'static> LaneWait<L> {
    pub(super) fn new(ticket: Arc<Ticket>, late: L) -> Self {
        Self { ticket, late: Some(late) }
    }
}

impl<L: FnOnce(Vec<i64>) + Send + 'static> Unpin for LaneWait<L> {}

impl<L: FnOnce(Vec<i64>) + Send + 'static> Future for LaneWait<L> {
    type Output = Option<LaneResult>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LaneResult>> {
        let this = &mut *self;
        let mut stage = this.ticket.stage.lock();
        if let CallStage::Waiting(waker) = &mut *stage {
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *stage, CallStage::Over) {
            CallStage::Told(told) => {
                this.late = None;
                Poll::Ready(Some(told))
            }
            _ => {
                if let Some(late) = this.late.take() {
                    *stage = CallStage::Left(Box::new(late));
                }
                Poll::Ready(None)
            }
        }
    }
}

impl<L: FnOnce(Vec<i64>) + Send + 'static> Drop for LaneWait<L> {
    fn drop(&mut self) {
        let Some(late) = self.late.take() else { return };
        let mut stage = self.ticket.stage.lock();
        match std::mem::replace(&mut *stage, CallStage::Over) {
            CallStage::Told(told) => {
                drop(stage);
                if let Ok(numbers) = told {
                    late(numbers);
                }
            }
            CallStage::Waiting(_) | CallStage::Overdue => *stage = CallStage::Left(Box::new(late)),
            CallStage::Left(_) | CallStage::Over => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    async fn hear(peer: &mut TcpStream) -> Vec<u8> {
        let mut heard = [0; 64];
        let n = timeout(Duration::from_secs(10), peer.read(&mut heard)).await.expect("in time").unwrap_or(0);
        heard[..n].to_vec()
    }

    #[tokio::test]
    async fn a_quiet_lane_asks_whether_the_other_side_lives() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let place = Arc::new(LaneConfig {
            host: "127.0.0.1".into(),
            port: listener.local_addr().expect("bound").port(),
            user: None,
            password: None,
            database: 0,
            patience: LaneTimeouts {
                dial: Duration::from_secs(1),
                abandoned: Duration::from_secs(30),
                silence: Duration::from_millis(20),
            },
        });
        let ask = || place.send(1, Instant::now() + Duration::from_secs(9), |call| call.begin(0));
        assert!(ask().is_none(), "it has to be dialled first");
        let (mut peer, _) = listener.accept().await.expect("dialled");
        for _ in 0..5 {
            assert_eq!(hear(&mut peer).await, PING);
            peer.write_all(b"+PONG\r\n").await.expect("heard");
        }
        assert_eq!(hear(&mut peer).await, PING);
        // Who asks of a dead one hears so as soon as that is known, long before its own time is over.
        let ticket = ask().expect("open");
        let told = timeout(Duration::from_secs(5), LaneWait::new(ticket, |_| ())).await.expect("in time");
        assert_eq!(told, Some(Err(RedisFailure::Away)));
        assert!(ask().is_none(), "it is shut");
    }
}
