//! Where connections come in: one thread accepts on all addresses, finds each connection a place at the worker that has
//! fewest, and hands it over as a bare socket, which that worker's own event loop then watches. So no worker is woken
//! for another's connection, and none gets more than its part, as sockets of one port for each worker would give it.

use super::connection_limits::{Desk, Seats};
use super::listeners::Listening;
use super::worker::Arrived;
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use pingora::apps::HttpServerApp;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// How long a new connection waits for an idle one that was asked to leave.
const MAKING_ROOM: Duration = Duration::from_millis(100);
/// The pause before the next accept when the process is out of descriptors or memory.
const SHORT_OF_ALL: Duration = Duration::from_millis(200);

/// A worker, as the door sees it.
#[derive(Debug)]
pub(super) struct DoorPlace {
    pub(super) desk: Arc<Desk>,
    pub(super) arrivals: UnboundedSender<Arrived>,
}

pub(super) struct Door<A> {
    pub(super) app: Arc<A>,
    pub(super) listening: Arc<Listening>,
    pub(super) places: Vec<DoorPlace>,
    pub(super) seats: Arc<Seats>,
    pub(super) turn: AtomicUsize,
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> Service for Door<A> {
    async fn start_service(&mut self, _: Option<ListenFds>, shutdown: ShutdownWatch, _: usize) {
        let sockets = match self.listening.sockets() {
            Ok(sockets) => sockets,
            Err(e) => {
                tracing::error!(error = %e, "the proxy's sockets cannot be used");
                return;
            }
        };
        join_all(sockets.into_iter().map(|socket| self.accept(socket, shutdown.clone()))).await;
        self.listening.close();
        // Workers end with the last connection that was handed to them.
        self.places.clear();
        self.app.http_cleanup().await;
    }

    fn name(&self) -> &str {
        "proxy-door"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> Door<A> {
    async fn accept(&self, socket: TcpListener, mut shutdown: ShutdownWatch) {
        let socket = match tokio::net::TcpListener::from_std(socket) {
            Ok(socket) => socket,
            Err(e) => {
                tracing::error!(error = %e, "a socket of the proxy cannot be watched");
                return;
            }
        };
        loop {
            tokio::select! { biased;
                changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() {
                    break;
                },
                came = next(&socket) => self.take(came).await,
            }
        }
        // Whom the kernel has taken in already is served; after an upgrade the next process does that.
        while !self.listening.is_handed_over()
            && let Some(Ok((stream, peer))) = next(&socket).now_or_never()
        {
            self.admit(stream, peer).await;
        }
    }

    async fn take(&self, came: io::Result<(TcpStream, SocketAddr)>) {
        match came {
            Ok((stream, peer)) => self.admit(stream, peer).await,
            Err(e) if matches!(e.raw_os_error(), Some(code) if is_shortage(code)) => {
                tracing::warn!(error = %e, "no connection can be accepted");
                tokio::time::sleep(SHORT_OF_ALL).await;
            }
            // The client left before its turn.
            Err(_) => {}
        }
    }

    async fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.places.len();
        let Some(place) = (0..count).map(|i| &self.places[(turn + i) % count]).min_by_key(|p| p.desk.open()) else {
            return;
        };
        let seat = match self.seats.take(&place.desk) {
            Some(seat) => Some(seat),
            None => {
                self.make_room().await;
                self.seats.take(&place.desk)
            }
        };
        match seat {
            // A worker that has ended takes nobody.
            Some(seat) => drop(place.arrivals.send(Arrived { stream, peer, seat })),
            None => self.seats.turn_away(),
        }
    }

    /// All places are taken: one of those who ask for nothing has to leave.
    async fn make_room(&self) {
        let idlest = self.places.iter().max_by_key(|p| p.desk.idle_count()).filter(|p| p.desk.idle_count() > 0);
        if let Some(place) = idlest {
            let freed = self.seats.freed.notified();
            place.desk.leave.notify_one();
            // Whoever came meanwhile may have it.
            let _ = tokio::time::timeout(MAKING_ROOM, freed).await;
        }
    }
}

fn is_shortage(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].iter().any(|e| e.raw_os_error() == code)
}

/// Accepts a connection and takes its socket out of this thread's event loop: a worker will watch it.
async fn next(socket: &tokio::net::TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = socket.accept().await?;
    Ok((stream.into_std()?, peer))
}
