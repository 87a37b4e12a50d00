//! One worker: a thread of its own, and the connections that the door handed to it. A connection, its calls and their
//! upstream connections stay on that thread: nothing is woken on another one.

use super::client_stream::Link;
use super::connection_limits::{ConnectionSeat, Desk, Seats};
use super::head::Clocks;
use super::socket::Socket;
use super::{http1, http2};
use async_trait::async_trait;
use pingora::apps::HttpServerApp;
use pingora::listeners::tls::Acceptor;
use pingora::protocols::{ALPN, Ssl};
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

/// The time between two rounds of upkeep.
const ROUND: Duration = Duration::from_secs(5);

/// A connection that was accepted, and its place.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) seat: ConnectionSeat,
}

/// What all connections of a worker share.
pub(super) struct Worker<A> {
    pub(super) app: Arc<A>,
    pub(super) clocks: Clocks,
    pub(super) desk: Arc<Desk>,
    pub(super) shutdown: ShutdownWatch,
    pub(super) runtime: Handle,
    tls: Option<Arc<Acceptor>>,
    seats: Arc<Seats>,
}

/// A worker before it runs.
pub(super) struct Work<A> {
    pub(super) name: String,
    pub(super) app: Arc<A>,
    pub(super) clocks: Clocks,
    pub(super) desk: Arc<Desk>,
    pub(super) tls: Option<Arc<Acceptor>>,
    pub(super) seats: Arc<Seats>,
    pub(super) upkeep: fn(),
    /// Ends when the door has closed; bounded by the number of places.
    pub(super) arrivals: UnboundedReceiver<Arrived>,
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> Service for Work<A> {
    async fn start_service(&mut self, _: Option<ListenFds>, shutdown: ShutdownWatch, _: usize) {
        let worker = Arc::new(Worker {
            app: self.app.clone(),
            clocks: self.clocks,
            desk: self.desk.clone(),
            shutdown: shutdown.clone(),
            runtime: Handle::current(),
            tls: self.tls.clone(),
            seats: self.seats.clone(),
        });
        let (mut told, mut round) = (shutdown, interval(ROUND));
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                arrived = self.arrivals.recv() => match arrived {
                    Some(arrived) => drop(worker.runtime.spawn(serve(worker.clone(), arrived))),
                    None => break,
                },
                changed = told.changed(), if !worker.desk.is_closing() => if changed.is_err() || *told.borrow() {
                    worker.desk.close();
                },
                _ = round.tick() => (self.upkeep)(),
            }
        }
        worker.desk.close();
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

async fn serve<A: HttpServerApp + Send + Sync + 'static>(
    worker: Arc<Worker<A>>,
    Arrived { stream, peer, seat }: Arrived,
) {
    // The client may have left already.
    let Ok(socket) = Socket::new(stream, peer, seat) else { return };
    let link = match &worker.tls {
        None => Box::new(Link::plain(socket)),
        Some(tls) => match Box::pin(secure(&worker, tls, socket)).await {
            Some(link) => link,
            None => return,
        },
    };
    match link.selected_alpn_proto() {
        Some(ALPN::H2) => Box::pin(http2::serve(&worker, link)).await,
        _ => http1::converse(&worker, link).await,
    }
}

/// TLS, once the client says something.
async fn secure<A>(worker: &Worker<A>, tls: &Acceptor, socket: Socket) -> Option<Box<Link>> {
    {
        let _idle = worker.desk.idle();
        tokio::select! { biased;
            arrival = poll_fn(|cx| socket.poll_arrival(cx)) => arrival.ok()?,
            () = worker.desk.leave.notified() => return None,
            () = pingora_timeout::sleep(worker.clocks.first) => return None,
        }
    }
    let shaken = pingora_timeout::timeout(worker.clocks.head, tls.tls_handshake(socket)).await;
    match shaken {
        Ok(Ok(stream)) => Some(Box::new(Link::secure(stream))),
        Ok(Err(e)) => {
            // Strangers do this; they do not write our log.
            worker.seats.fail();
            tracing::debug!(error = %e, "a TLS handshake failed");
            None
        }
        Err(_) => {
            worker.seats.fail();
            None
        }
    }
}
