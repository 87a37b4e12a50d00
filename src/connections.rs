//! Clients' connections on the proxy port: accepted on one thread, bounded in number, handed to the worker that has
//! fewest, with a clock for every silence and a bound for every head. Heads are parsed and calls are served by Pingora
//! and its proxy, which get each request when it is there. Nothing here knows a key, a route or a body.

mod acceptor;
mod chunks;
mod client_stream;
mod connection_limits;
mod descriptors;
mod head;
mod http1;
mod http2;
mod listeners;
mod refusal;
mod socket;
mod worker;

pub(crate) use client_stream::{heed, listen, put_beside, takes_lines, watch};
pub(crate) use connection_limits::Seats;
pub(crate) use descriptors::Descriptors;
pub(crate) use head::Clocks;
pub(crate) use listeners::{Listening, inherit};

use acceptor::{Door, DoorPlace};
use connection_limits::Desk;
use pingora::apps::HttpServerApp;
use pingora::listeners::tls::Acceptor;
use pingora::services::ServiceWithDependents;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::mpsc::unbounded_channel;
use worker::Work;

/// What connections are served by.
pub(crate) struct ConnectionSetup {
    pub(crate) listening: Arc<Listening>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) clocks: Clocks,
    pub(crate) workers: usize,
    pub(crate) tls: Option<Arc<Acceptor>>,
    /// What each worker does on its thread every few seconds.
    pub(crate) upkeep: fn(),
}

/// The door and its workers, each a service of one thread.
pub(crate) fn services<A>(app: &Arc<A>, setup: ConnectionSetup) -> Vec<Box<dyn ServiceWithDependents>>
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let ConnectionSetup { listening, seats, clocks, workers, tls, upkeep } = setup;
    let mut places = Vec::new();
    let mut services: Vec<Box<dyn ServiceWithDependents>> = Vec::new();
    for number in 0..workers {
        let (desk, (send, arrivals)) = (Arc::<Desk>::default(), unbounded_channel());
        places.push(DoorPlace { desk: desk.clone(), arrivals: send });
        // The benchmarks know by this name which threads serve requests.
        let (name, app, tls, seats) = (format!("proxy-{number}"), app.clone(), tls.clone(), seats.clone());
        services.push(Box::new(Work { name, app, clocks, desk, tls, seats, arrivals, upkeep }));
    }
    services.push(Box::new(Door { app: app.clone(), listening, places, seats, turn: AtomicUsize::new(0) }));
    services
}
