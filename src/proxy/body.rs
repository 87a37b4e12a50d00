//! Reading a request body into memory: capped in size, in time and in what the whole process holds.

use bytes::{Bytes, BytesMut};
use gateway_domain::{Fault, FaultKind};
use http::header;
use pingora::protocols::http::ServerSession;
use pingora::{Error, ErrorType};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The process-wide budget of buffered bytes (`--max-buffered-bytes`, invariant 8).
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    most: usize,
    shed: AtomicU64,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most, shed: AtomicU64::new(0) })
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
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
}

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Permit {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Grows to `total` bytes, or says that the gateway is full.
    pub(crate) fn grow_to(&mut self, total: usize) -> Result<(), Fault> {
        if total > self.bytes {
            if !self.budget.take(total - self.bytes, self.budget.most) {
                return Err(Fault::new(
                    FaultKind::Busy,
                    "The gateway holds as many request bytes as it may; try again shortly",
                )
                .retry_after_ms(1000));
            }
            self.bytes = total;
        }
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
    pub(crate) time: Duration,
    /// The caller is known: what it declares may be reserved.
    pub(crate) trusted: bool,
}

fn too_large(most: usize) -> BodyError {
    BodyError::Refused(Fault::new(FaultKind::TooLarge, format!("The request body is larger than {most} bytes")))
}

/// Reads the whole body. One read that brings all of it is handed on without a copy.
pub(crate) async fn read(
    session: &mut ServerSession,
    limits: BodyLimits,
    permit: &mut Permit,
) -> Result<Bytes, BodyError> {
    let declared = session.get_header(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|n| n > limits.most) {
        return Err(too_large(limits.most));
    }
    // Only a body that a known tenant announces is taken from the budget before it comes.
    let upfront = if limits.trusted { declared.unwrap_or(0) } else { 0 };
    permit.grow_to(upfront).map_err(BodyError::Refused)?;
    if session.get_header(header::EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.write_continue_response().await.map_err(BodyError::Gone)?;
    }
    let until = Instant::now() + limits.time;
    session.set_read_timeout(Some(limits.time));
    let Some(first) = next(session).await? else { return Ok(Bytes::new()) };
    permit.grow_to(first.len()).map_err(BodyError::Refused)?;
    if first.len() > limits.most {
        return Err(too_large(limits.most));
    }
    if session.is_body_done() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(upfront.max(first.len() * 2));
    whole.extend_from_slice(&first);
    loop {
        // Each read gets what is left of the whole body's time, so dripping does not extend it.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(slow());
        }
        session.set_read_timeout(Some(left));
        let Some(piece) = next(session).await? else { return Ok(whole.freeze()) };
        if whole.len() + piece.len() > limits.most {
            return Err(too_large(limits.most));
        }
        permit.grow_to(whole.len() + piece.len()).map_err(BodyError::Refused)?;
        whole.extend_from_slice(&piece);
        if session.is_body_done() {
            return Ok(whole.freeze());
        }
    }
}

async fn next(session: &mut ServerSession) -> Result<Option<Bytes>, BodyError> {
    session.read_request_body().await.map_err(|e| match e.etype() {
        ErrorType::ReadTimedout => slow(),
        _ => BodyError::Gone(e),
    })
}

fn slow() -> BodyError {
    BodyError::Refused(Fault::new(FaultKind::SlowClient, "The request body did not arrive in time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_share_one_budget_and_give_back() {
        let budget = Budget::new(100);
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
        let budget = Budget::new(100);
        let (mut a, mut b) = (Permit::new(&budget), Permit::new(&budget));
        assert!(a.spare(50) && !a.spare(51) && !b.spare(1));
        assert_eq!((budget.held(), budget.shed()), (50, 2));
        assert!(b.grow_to(50).is_ok());
        drop((a, b));
        assert_eq!(budget.held(), 0);
    }
}
