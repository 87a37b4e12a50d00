//! Reading a request body into memory: capped in size, in time, in what the whole process holds and in what one key's
//! requests hold of that. Bytes count when they are here, never because they were announced.

use ahash::AHashMap;
use bytes::{Bytes, BytesMut};
use gateway_domain::{Fault, FaultKind};
use http::{Version, header};
use parking_lot::Mutex;
use pingora::protocols::http::ServerSession;
use pingora::{Error, ErrorType};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// What one body may hold without being counted for its key: most requests are smaller, and take no lock.
const SMALL: usize = 64 * 1024;
/// Room that is made for an announced body before any of it has come.
const MOST_AHEAD: usize = 1024 * 1024;
/// So many that two busy threads seldom meet at one.
const SHARDS: usize = 64;

/// Bytes held for each key that holds more than a little.
type HeldBytes = Mutex<AHashMap<Uuid, usize>>;

/// The process-wide budget of buffered bytes (`--max-buffered-bytes`).
#[derive(Debug)]
pub(crate) struct BufferBudget {
    held: AtomicUsize,
    most: usize,
    shed: AtomicU64,
    /// What the requests of one key may hold together.
    share: usize,
    shares: [HeldBytes; SHARDS],
}

impl BufferBudget {
    /// A key gets a quarter of it, and always room for one body of `largest` bytes.
    pub(crate) fn new(most: usize, largest: usize) -> Arc<Self> {
        let share = (most / 4).max(largest);
        let shares = std::array::from_fn(|_| Mutex::default());
        Arc::new(Self { held: AtomicUsize::new(0), most, shed: AtomicU64::new(0), share, shares })
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// So much is held that what nobody waits for has to wait.
    pub(crate) fn is_half_full(&self) -> bool {
        self.held() > self.most / 2
    }

    /// Times that something was not kept for want of room.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize, most: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= most;
        if !fits {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn of_key(&self, key: Uuid) -> &HeldBytes {
        // The last byte of an id is random.
        &self.shares[usize::from(key.as_bytes()[15]) % SHARDS]
    }

    fn take_share(&self, key: Uuid, bytes: usize) -> bool {
        let mut held = self.of_key(key).lock();
        let of_key = held.entry(key).or_default();
        let fits = of_key.saturating_add(bytes) <= self.share;
        if fits {
            *of_key += bytes;
        } else if *of_key == 0 {
            held.remove(&key);
        }
        fits
    }

    fn give_share_back(&self, key: Uuid, bytes: usize) {
        let mut held = self.of_key(key).lock();
        if let Some(of_key) = held.get_mut(&key) {
            *of_key = of_key.saturating_sub(bytes);
            if *of_key == 0 {
                held.remove(&key);
            }
        }
    }
}

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<BufferBudget>,
    bytes: usize,
    /// Nil where it is nobody's.
    key: Uuid,
    /// How many of `bytes` count for the key.
    shared: usize,
}

impl Permit {
    pub(crate) fn new(budget: &Arc<BufferBudget>) -> Self {
        Self { budget: budget.clone(), bytes: 0, key: Uuid::nil(), shared: 0 }
    }

    /// Counts what is taken from now on for this key too.
    pub(crate) const fn charge(&mut self, key: Uuid) {
        self.key = key;
    }

    /// Grows to `total` bytes, or says that the gateway is full, or that its key has its share.
    pub(crate) fn grow_to(&mut self, total: usize) -> Result<(), Fault> {
        if total <= self.bytes {
            return Ok(());
        }
        if total > SMALL {
            self.share(total)?;
        }
        if !self.budget.take(total - self.bytes, self.budget.most) {
            return Err(Fault::new(
                FaultKind::Busy,
                "The gateway holds as many request bytes as it may; try again shortly",
            )
            .retry_after_ms(1000));
        }
        self.bytes = total;
        Ok(())
    }

    fn share(&mut self, total: usize) -> Result<(), Fault> {
        if self.key.is_nil() {
            return Ok(());
        }
        if !self.budget.take_share(self.key, total - self.shared) {
            let message = format!("The requests of this key may hold {} bytes together", self.budget.share);
            return Err(Fault::new(FaultKind::RateLimited, message).retry_after_ms(1000));
        }
        self.shared = total;
        Ok(())
    }

    /// Grows to `total` bytes for what may be left out: only while less than half of the budget is used, so that
    /// no request is ever refused for it. A refusal is counted.
    pub(crate) fn spare(&mut self, total: usize) -> bool {
        if total > self.bytes {
            if !self.budget.take(total - self.bytes, self.budget.most / 2) {
                self.budget.shed.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            self.bytes = total;
        }
        true
    }

    pub(crate) fn give_back(&mut self) {
        if self.bytes > 0 {
            self.budget.held.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        }
        if self.shared > 0 {
            self.budget.give_share_back(self.key, std::mem::take(&mut self.shared));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum BodyError {
    Refused(Fault),
    /// Read whole, and against the rules.
    Invalid(Fault, Bytes),
    /// The client went away or broke the framing; there is nobody to answer.
    Gone(Box<Error>),
}

/// Limits of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) most: usize,
    /// The most time for the whole body.
    pub(crate) time: Duration,
}

fn too_large(most: usize) -> BodyError {
    BodyError::Refused(Fault::new(FaultKind::TooLarge, format!("The request body is larger than {most} bytes")))
}

/// A body on its way, piece by piece, within its limits.
#[derive(Debug)]
pub(crate) struct Incoming {
    limits: BodyLimits,
    /// When the first wait for it began; none yet where all that was asked for was there.
    since: Option<Instant>,
    read: usize,
}

impl Incoming {
    /// Asks for the body where the client waits to be asked. The clock of the whole body starts with the first wait.
    pub(crate) async fn begin(session: &mut ServerSession, limits: BodyLimits) -> Result<Self, BodyError> {
        if announced(session).is_some_and(|length| length > limits.most) {
            return Err(too_large(limits.most));
        }
        go_on(session).await.map_err(BodyError::Gone)?;
        Ok(Self { limits, since: None, read: 0 })
    }

    /// The next piece, taken from the budget; `None` at the end.
    pub(crate) async fn next(
        &mut self,
        session: &mut ServerSession,
        permit: &mut Permit,
    ) -> Result<Option<Bytes>, BodyError> {
        // Each read gets what is left of the whole body's time, so dripping does not extend it.
        let left = self.limits.time.saturating_sub(self.waited());
        if left.is_zero() {
            return Err(slow());
        }
        let mut read = pin!(read_within(session, left));
        let since = &mut self.since;
        let read = poll_fn(|cx| {
            let polled = read.as_mut().poll(cx);
            if polled.is_pending() {
                since.get_or_insert_with(Instant::now);
            }
            polled
        });
        let Some(piece) = read.await.map_err(body_error_of)? else { return Ok(None) };
        self.read += piece.len();
        if self.read > self.limits.most {
            return Err(too_large(self.limits.most));
        }
        permit.grow_to(self.read).map_err(BodyError::Refused)?;
        Ok(Some(piece))
    }

    /// The time from the first wait until now.
    fn waited(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

fn announced(session: &ServerSession) -> Option<usize> {
    session.get_header(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Tells a client that waits for a word before it sends its body to go on. HTTP/1.0 knows no such word (RFC 9110,
/// 10.1.1).
pub(crate) async fn go_on(session: &mut ServerSession) -> Result<(), Box<Error>> {
    let head = session.req_header();
    let waits = head.headers.get(header::EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    if !waits || head.version < Version::HTTP_11 {
        return Ok(());
    }
    let kept = session.get_keepalive();
    session.write_continue_response().await?;
    // Pingora means to close once anything is answered before the body was read, be it only this.
    session.set_keepalive(kept);
    Ok(())
}

/// One read of the request's body, over either protocol: Pingora's own clock is one of HTTP/1 alone.
pub(crate) async fn read_within(session: &mut ServerSession, longest: Duration) -> Result<Option<Bytes>, Box<Error>> {
    if session.is_http2() {
        let read = pingora_timeout::timeout(longest, session.read_request_body()).await;
        return read.unwrap_or_else(|_| Err(Error::explain(ErrorType::ReadTimedout, "reading body")));
    }
    session.set_read_timeout(Some(longest));
    let read = session.read_request_body().await;
    if read.is_err() {
        // Where the next request begins nobody can say any more.
        session.set_keepalive(None);
    }
    read
}

/// A body that was read to its end.
#[derive(Debug, Default)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    /// The time from the first wait for the body until it was whole.
    pub(crate) waited: Duration,
}

/// Reads the whole body. One read that brings all of it is handed on without a copy.
pub(crate) async fn read(
    session: &mut ServerSession,
    limits: BodyLimits,
    permit: &mut Permit,
) -> Result<WholeBody, BodyError> {
    let mut incoming = Incoming::begin(session, limits).await?;
    let Some(first) = incoming.next(session, permit).await? else { return Ok(WholeBody::default()) };
    if session.is_body_done() {
        return Ok(WholeBody { bytes: first, waited: incoming.waited() });
    }
    let announced = announced(session);
    let ahead = announced.map_or(first.len() * 2, |length| length.min(MOST_AHEAD));
    let mut whole = BytesMut::with_capacity(ahead.max(first.len()));
    whole.extend_from_slice(&first);
    while let Some(piece) = incoming.next(session, permit).await? {
        if whole.len() + piece.len() > whole.capacity() {
            // Twice what is here, and no more than was announced.
            let missing = announced.map_or(usize::MAX, |length| length.saturating_sub(whole.len()));
            whole.reserve(whole.len().min(missing).max(piece.len()));
        }
        whole.extend_from_slice(&piece);
        if session.is_body_done() {
            break;
        }
    }
    Ok(WholeBody { bytes: whole.freeze(), waited: incoming.waited() })
}

/// What a failed read of the body means for its client.
fn body_error_of(e: Box<Error>) -> BodyError {
    match e.etype() {
        ErrorType::ReadTimedout => slow(),
        etype if is_framing(etype) => BodyError::Refused(Fault::new(
            FaultKind::BadBody,
            "The framing of the request body is broken: a chunk is its size in hexadecimal digits, CRLF, so many bytes and CRLF",
        )),
        _ => BodyError::Gone(e),
    }
}

/// Pingora's names for a chunked body that is none.
fn is_framing(etype: &ErrorType) -> bool {
    matches!(etype, ErrorType::Custom(name) if name.starts_with("InvalidChunk") || name.starts_with("InvalidTrailer"))
}

fn slow() -> BodyError {
    BodyError::Refused(slow_client())
}

pub(crate) fn slow_client() -> Fault {
    Fault::new(FaultKind::SlowClient, "The request body did not arrive in time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    #[test]
    fn permits_share_one_budget_and_give_back() {
        let budget = BufferBudget::new(100, 100);
        let mut a = Permit::new(&budget);
        let mut b = Permit::new(&budget);
        assert!(a.grow_to(60).is_ok());
        assert_eq!(b.grow_to(60).map_err(|f| f.status()), Err(503));
        assert!(b.grow_to(40).is_ok() && b.grow_to(30).is_ok());
        drop(a);
        assert_eq!(budget.held(), 40);
        assert!(b.grow_to(100).is_ok());
        drop(b);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_may_be_left_out_gets_half_at_most() {
        let budget = BufferBudget::new(100, 100);
        let (mut a, mut b) = (Permit::new(&budget), Permit::new(&budget));
        assert!(a.spare(50) && !a.spare(51) && !b.spare(1));
        assert_eq!((budget.held(), budget.shed()), (50, 2));
        assert!(b.grow_to(50).is_ok());
        drop((a, b));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_key_gets_its_share_and_others_the_rest() {
        const PIECE: usize = 100_000;
        let (mine, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let budget = BufferBudget::new(8 * PIECE, PIECE);
        let permit = |key| {
            let mut permit = Permit::new(&budget);
            permit.charge(key);
            permit
        };
        let (mut a, mut b, mut c) = (permit(mine), permit(mine), permit(other));
        assert!(a.grow_to(PIECE).is_ok() && b.grow_to(PIECE).is_ok());
        assert!(c.grow_to(2 * PIECE).is_ok());
        assert_eq!(b.grow_to(PIECE + 1).map_err(|f| f.status()), Err(429));
        assert_eq!(budget.held(), 4 * PIECE);
        drop(a);
        assert!(b.grow_to(2 * PIECE).is_ok());
        drop((b, c));
        assert_eq!(budget.held(), 0);
        assert!(budget.shares.iter().all(|shard| shard.lock().is_empty()), "nothing is kept of keys that hold nothing");
    }

    /// The client's end, and the session of its request.
    async fn asked(text: &str) -> (DuplexStream, ServerSession) {
        let (mut near, far) = tokio::io::duplex(1 << 16);
        near.write_all(text.as_bytes()).await.expect("room");
        let mut session = ServerSession::new_http1(Box::new(far));
        assert!(session.read_request().await.expect("a request"));
        (near, session)
    }

    const TEN: &str = "POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 10\r\n\r\n";
    const STEP: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn a_body_that_came_with_its_head_is_not_waited_for() {
        let (_near, mut session) = asked(&format!("{TEN}helloworld")).await;
        let limits = BodyLimits { most: 10, time: Duration::from_secs(5) };
        let body = read(&mut session, limits, &mut Permit::new(&BufferBudget::new(100, 100))).await.expect("a body");
        assert_eq!((&*body.bytes, body.waited), (&b"helloworld"[..], Duration::ZERO));
    }

    #[tokio::test]
    async fn the_wait_for_a_body_is_told_from_its_beginning() {
        let (mut near, mut session) = asked(TEN).await;
        let limits = BodyLimits { most: 10, time: Duration::from_secs(5) };
        let budget = BufferBudget::new(100, 100);
        let mut permit = Permit::new(&budget);
        let send = async {
            for piece in [b"hello", b"world"] {
                tokio::time::sleep(STEP).await;
                near.write_all(piece).await.expect("room");
            }
        };
        let (body, ()) = tokio::join!(read(&mut session, limits, &mut permit), send);
        let body = body.expect("a body");
        assert_eq!(&*body.bytes, b"helloworld");
        assert!(body.waited >= 2 * STEP, "{:?}", body.waited);
    }

    #[tokio::test]
    async fn whoever_drips_gets_no_more_time_for_it() {
        let (mut near, mut session) = asked(TEN).await;
        let limits = BodyLimits { most: 10, time: 3 * STEP };
        let budget = BufferBudget::new(100, 100);
        let (mut permit, began) = (Permit::new(&budget), Instant::now());
        let drip = async {
            for _ in 0..9 {
                tokio::time::sleep(STEP).await;
                near.write_all(b"x").await.expect("room");
            }
        };
        let told = tokio::select! {
            told = read(&mut session, limits, &mut permit) => told.map(|body| body.bytes),
            () = drip => panic!("nine steps went by"),
        };
        let Err(BodyError::Refused(fault)) = told else { panic!("{told:?}") };
        assert_eq!(fault.status(), 408);
        assert!(began.elapsed() >= 3 * STEP);
    }
}
