//! The admin port's listener, with the same clocks as the proxy port: for a connection's first byte, for a whole head,
//! for silence between requests, for a body and for a client that does not read. Bound with SO_REUSEPORT, so that
//! during an upgrade the new process can open it while the old one still answers. Its connections are bounded in
//! number, by descriptors that the proxy port never takes.

use super::admin_body::{self, Ticketed};
use super::admin_connection_state::{Pulse, PulseStream};
use crate::connections::Clocks;
use crate::in_flight::InFlight;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use gateway_admin::ClientAddr;
use http::HeaderMap;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::{ServiceExt, service_fn};

const BACKLOG: u32 = 1024;
/// The pause before the next accept when the process is out of descriptors or memory.
const SHORT_OF_ALL: Duration = Duration::from_millis(200);
/// How long a client has to hear that the connection ends.
const FAREWELL: Duration = Duration::from_millis(500);
/// Bytes of a head; its lines are bounded by their number too.
const MOST_HEAD: usize = 64 << 10;

/// Says of a request's head whether its key is known.
pub(crate) type KeyCheck = Arc<dyn Fn(&HeaderMap) -> bool + Send + Sync>;

/// What the port holds its clients to.
pub(crate) struct AdminPortRules {
    pub(crate) clocks: Clocks,
    pub(crate) body: Duration,
    /// How long a client may read nothing of its answer.
    pub(crate) idle: Duration,
    pub(crate) most: usize,
    pub(crate) known: KeyCheck,
}

/// Stops accepting on the admin port; requests under way finish.
#[derive(Clone, Debug)]
pub(crate) struct StopAdmin {
    stop: Arc<watch::Sender<bool>>,
    flight: InFlight,
}

impl StopAdmin {
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Requests of this port; apart from the proxy's, which are bounded in number.
    pub(crate) fn under_way(&self) -> usize {
        self.flight.count()
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The port and everything that its connections share.
struct Port {
    router: Router,
    rules: AdminPortRules,
    flight: InFlight,
    runtime: Handle,
    stopped: watch::Receiver<bool>,
}

pub(crate) fn start(
    control: &Runtime,
    address: SocketAddr,
    router: Router,
    rules: AdminPortRules,
) -> Result<StopAdmin, String> {
    let _in_runtime = control.enter();
    let listener = bind(address).map_err(|e| format!("--admin-listen {address}: cannot listen: {e}"))?;
    let (stop, stopped) = watch::channel(false);
    let stop = StopAdmin { stop: Arc::new(stop), flight: InFlight::default() };
    let (flight, runtime) = (stop.flight.clone(), control.handle().clone());
    control.spawn(accept(listener, Arc::new(Port { router, rules, flight, runtime, stopped })));
    Ok(stop)
}

async fn accept(listener: TcpListener, port: Arc<Port>) {
    let places = Arc::new(Semaphore::new(port.rules.most));
    let mut stopped = port.stopped.clone();
    loop {
        let accepted = tokio::select! { biased;
            () = stopped_now(&mut stopped) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Whoever finds no place is not heard: a place is free again when a clock has run out, at the latest.
                if let Ok(place) = places.clone().try_acquire_owned() {
                    port.runtime.spawn(serve(port.clone(), stream, peer, place));
                }
            }
            Err(e) => {
                tracing::debug!(error = %e, "no connection can be accepted on the admin port");
                tokio::time::sleep(SHORT_OF_ALL).await;
            }
        }
    }
}

/// Waits until the port takes no more requests.
async fn stopped_now(stopped: &mut watch::Receiver<bool>) {
    // Without its sender the process is ending, and so is the port.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn serve(port: Arc<Port>, stream: TcpStream, peer: SocketAddr, _place: OwnedSemaphorePermit) {
    // Small answers must not wait for more; a connection that is gone already says so when it is read.
    let _ = stream.set_nodelay(true);
    let pulse = Arc::<Pulse>::default();
    let heard = PulseStream::new(stream, pulse.clone());
    let service = {
        let (port, pulse) = (port.clone(), pulse.clone());
        service_fn(move |request| answer(port.clone(), pulse.clone(), peer, request))
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(MOST_HEAD);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(100).max_header_list_size(MOST_HEAD as u32);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(heard), TowerToHyperService::new(service)));
    let mut stopped = port.stopped.clone();
    tokio::select! { biased;
        // The client hears of a failure, or is gone.
        _ = connection.as_mut() => return,
        () = stopped_now(&mut stopped) => connection.as_mut().graceful_shutdown(),
        () = pulse.stops(&port.rules.clocks, port.rules.idle) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, connection.as_mut()).await;
            return;
        }
    }
    tokio::select! { biased;
        _ = connection.as_mut() => {}
        () = pulse.stops(&port.rules.clocks, port.rules.idle) => {}
    }
}

async fn answer(
    port: Arc<Port>,
    pulse: Arc<Pulse>,
    peer: SocketAddr,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<Response, Infallible> {
    let call = pulse.call();
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(ClientAddr(peer.ip()));
    let ticket = Ticketed::new(&port.flight, (port.rules.known)(request.headers()));
    let late = admin_body::watch(&mut request, port.rules.body, &ticket);
    let Ok(response) = port.router.clone().oneshot(request).await;
    let response = if late.is_late() { admin_body::late() } else { response };
    // Under way until the last byte of the answer was handed on.
    Ok(response.map(|body| admin_body::hold(body, (call, ticket))))
}
