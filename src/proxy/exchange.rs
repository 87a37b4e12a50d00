//! Walks the attempts of a plan until an answer does, and delivers it. The whole upstream call runs here, on
//! Pingora's client session; nothing goes downstream before the chosen upstream gave a valid head.

use super::Gateway;
use super::admit::{Held, Holds};
use super::answer::Answer;
use super::attempt::{self, Tried, Turn};
use super::caching::{self, Looked};
use super::capture::{Scene, Tape};
use super::deliver::{self, Way};
use super::herald::{self, Herald};
use super::record::{self, Booked};
use super::request::Request;
use super::routing::Routing;
use super::upload::Upload;
use super::wire::{self, Client, WireError};
use crate::cache::Lead;
use gateway_domain::Usage;
use gateway_domain::record::CacheStatus;
use gateway_policies::Hold;
use pingora::Error;
use pingora::proxy::Session;
use std::time::Duration;

/// What is there before the first target's turn.
pub(crate) struct Start {
    pub(crate) looked: Looked,
    /// What the caller's limits gave.
    pub(crate) caller: Hold,
    /// The body, where it is not held but streams up.
    pub(crate) upload: Option<Upload>,
}

/// An `Err` means that the client is gone; everything else has been answered.
pub(crate) async fn run(
    gateway: &Gateway,
    session: &mut Session,
    request: &Request,
    routing: &mut Routing,
    Start { looked: first, caller, mut upload }: Start,
    records: &mut Booked,
) -> Result<(), Box<Error>> {
    let mut first = Some(first);
    let mut earlier = Duration::ZERO;
    let mut cache_us = request.steps.cache_us;
    let mut herald = Herald::of(gateway, request);
    loop {
        let number = u32::try_from(records.len() + 1).unwrap_or(u32::MAX);
        let looked = match first.take() {
            Some(looked) => looked,
            None => {
                routing.agree(request).await;
                let begun = request.elapsed_us();
                let looked = match caching::look(gateway, session, request, routing).await {
                    Ok(looked) => looked,
                    Err(gone) => {
                        let waited = (request, &*routing, caller);
                        return Err(left_waiting(gateway, session, waited, records, gone));
                    }
                };
                cache_us = if matches!(looked, Looked::Off) { 0 } else { request.elapsed_us() - begun };
                looked
            }
        };
        let whose = Turn { number, earlier, caller: &caller, herald: herald.as_mut(), upload: upload.as_mut() };
        let (mut tried, mut lead) = turn(gateway, session, request, routing, whose, looked).await;
        herald::check(herald.as_ref(), &mut tried);
        let mut record = record::of(request, Some(routing), Some(&tried), number);
        record.steps.cache_us = cache_us;
        if upload.is_some() {
            record.request_bytes = session.body_bytes_read() as u64;
        }
        let moves_on = match &tried.answer {
            Err(_) => false,
            Ok(answer) => moves_on(gateway, request, routing, upload.as_ref(), answer),
        };
        match (tried.answer, moves_on) {
            (Err(gone), _) => {
                record.charges = Holds { caller, target: tried.hold }.settle(499, None);
                record::abandoned(&mut record, request);
                let scene = Scene { gateway, session, request, sent: tried.sent.as_deref() };
                scene.answered(&mut record, Tape::new(request.keep, &gateway.budget));
                records.push(record);
                return Err(left(gone));
            }
            (Ok(answer), true) => {
                record.charges = tried.hold.leave(answer.status());
                if let Some(lead) = lead.take() {
                    caching::tell_failure(lead, &answer);
                }
                let scene = Scene { gateway, session, request, sent: tried.sent.as_deref() };
                scene.left(&mut record, &answer);
                let mut down = Client::alone(&mut session.downstream_session);
                answer.discard(&mut down, gateway.settings.upstream_pool_size).await;
                records.push(record);
                earlier += tried.facts.upstream + tried.facts.paused;
            }
            (Ok(answer), false) => {
                let streamed = matches!(answer, Answer::Stream(_));
                let mut tape = Tape::new(request.keep, &gateway.budget);
                let mut holds = Holds { caller, target: tried.hold };
                let told = (&tried.facts, &mut *record, &mut tape);
                let way = Way::new(session, herald.as_ref(), upload.as_mut());
                let delivered = deliver::answer(gateway, way, request, (answer, lead), told, &mut holds).await;
                let late = tried.facts.late_prices.as_ref();
                if let Some(card) = late.and_then(|prices| prices.of(record.response_model.as_deref())) {
                    holds.price_at(*card);
                    record.card = Some(card);
                }
                // What the cache answers was paid for by another.
                let free = (tried.facts.cache == CacheStatus::Hit).then(Usage::default);
                let settled = if record.status == 101 { 200 } else { record.status };
                record.charges = holds.settle(settled, free.as_ref().or(record.usage.as_ref()));
                if streamed {
                    routing.tell(request, if record.fault == Some("stream_broken") { 502 } else { record.status });
                }
                if upload.is_some() {
                    record.request_bytes = session.body_bytes_read() as u64;
                    tape = Tape::unseen(record.response_bytes);
                }
                record::finish(&mut record, request);
                Scene { gateway, session, request, sent: tried.sent.as_deref() }.answered(&mut record, tape);
                records.push(record);
                if upload.is_some() && delivered.is_ok() {
                    wire::linger(session).await;
                }
                return delivered;
            }
        }
    }
}

/// Books the answer with the target's circuit breaker, and says whether another target has its turn.
fn moves_on(
    gateway: &Gateway,
    request: &Request,
    routing: &mut Routing,
    upload: Option<&Upload>,
    answer: &Answer,
) -> bool {
    // Of a stream more is known at its end.
    if answer.tells_of_health() && !matches!(answer, Answer::Stream(_)) {
        routing.tell(request, answer.status());
    }
    if answer.status() == 101 {
        return false;
    }
    let over = gateway.left(request).is_some_and(|left| left.is_zero());
    let again = upload.is_none_or(Upload::can_repeat);
    !over && again && routing.next(request, answer.status(), answer.is_exception())
}

/// One target: from the cache, or called.
async fn turn(
    gateway: &Gateway,
    session: &mut Session,
    request: &Request,
    routing: &Routing,
    turn: Turn<'_>,
    looked: Looked,
) -> (Tried, Option<Lead>) {
    match looked {
        Looked::Answered(tried) => (*tried, None),
        Looked::Off => (attempt::run(gateway, session, request, routing, turn, None).await, None),
        Looked::Lead(lead, status) => {
            let mut tried = attempt::run(gateway, session, request, routing, turn, Some(&lead)).await;
            tried.facts.cache = status;
            (tried, Some(lead))
        }
    }
}

/// The client left while it waited for the answer to an equal call: that one goes on, and this one used nothing.
pub(crate) fn left_waiting(
    gateway: &Gateway,
    session: &Session,
    (request, routing, caller): (&Request, &Routing, Hold),
    records: &mut Booked,
    gone: WireError,
) -> Box<Error> {
    let number = u32::try_from(records.len() + 1).unwrap_or(u32::MAX);
    let mut record = record::of(request, Some(routing), None, number);
    record.charges = Holds { caller, target: Held::default() }.settle(499, None);
    record::abandoned(&mut record, request);
    let tape = Tape::new(request.keep, &gateway.budget);
    Scene { gateway, session, request, sent: None }.answered(&mut record, tape);
    records.push(record);
    left(gone)
}

/// Only a client can abandon what is done for it.
fn left(error: WireError) -> Box<Error> {
    match error {
        WireError::ClientGone(e) => e.into_down(),
        _ => Error::explain(pingora::ErrorType::InternalError, "only a client can abandon an attempt"),
    }
}

impl Tried {
    pub(crate) fn status(&self) -> u16 {
        self.answer.as_ref().map_or(499, Answer::status)
    }
}
