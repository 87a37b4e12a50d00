//! Bodies on the admin port: a request's comes in time or not at all, and an answer is under way until it is over. Who
//! sends a body counts as under way only when its key is known, or when all of it is here.

use crate::in_flight::{InFlight, InFlightGuard};
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, FaultKind};
use http::{HeaderValue, StatusCode, header};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A request's place among those under way, once it has one.
#[derive(Clone, Debug)]
pub(super) struct Ticketed {
    flight: InFlight,
    ticket: Arc<Mutex<Option<InFlightGuard>>>,
}

impl Ticketed {
    pub(super) fn new(flight: &InFlight, known: bool) -> Self {
        let ticket = known.then(|| flight.board());
        Self { flight: flight.clone(), ticket: Arc::new(Mutex::new(ticket)) }
    }

    fn board(&self) {
        self.ticket.lock().get_or_insert_with(|| self.flight.board());
    }
}

/// Told when the body of a request was too late.
#[derive(Clone, Debug, Default)]
pub(super) struct Late(Arc<AtomicBool>);

impl Late {
    pub(super) fn is_late(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the request body did not arrive in time")]
struct TooLate;

/// A body whose clock runs from the moment when somebody wants it.
struct Timed {
    body: Body,
    longest: Duration,
    until: Option<Pin<Box<Sleep>>>,
    late: Late,
    ticket: Ticketed,
}

/// Puts a clock on the request's body.
pub(super) fn watch(request: &mut Request, longest: Duration, ticket: &Ticketed) -> Late {
    let late = Late::default();
    if request.body().is_end_stream() {
        ticket.board();
        return late;
    }
    let body = std::mem::take(request.body_mut());
    let timed = Timed { body, longest, until: None, late: late.clone(), ticket: ticket.clone() };
    *request.body_mut() = Body::new(timed);
    late
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(None) => {
                self.ticket.board();
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => Poll::Ready(Some(frame.map_err(Into::into))),
            Poll::Pending => {
                let longest = self.longest;
                let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
                if until.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.late.0.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(TooLate.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a client is told whose body was too late.
pub(super) fn late() -> Response {
    let fault = Fault::new(FaultKind::SlowClient, "The request body did not arrive in time");
    let mut response = Response::new(Body::from(fault.body(Dialect::OpenAi)));
    *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An answer that keeps something until it is over.
struct TrackedBody<T> {
    body: Body,
    _held: T,
}

pub(super) fn hold<T: Send + Unpin + 'static>(body: Body, held: T) -> Body {
    Body::new(TrackedBody { body, _held: held })
}

impl<T: Send + Unpin + 'static> HttpBody for TrackedBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
