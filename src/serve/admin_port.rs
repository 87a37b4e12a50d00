//! The admin port's listener. Bound with SO_REUSEPORT, so that during an upgrade the new process can open it
//! while the old one still answers.

use crate::flight::Flight;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use gateway_admin::ClientAddr;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

const BACKLOG: u32 = 1024;

/// Stops accepting on the admin port; requests under way finish.
#[derive(Clone, Debug)]
pub(crate) struct StopAdmin {
    stop: Arc<Notify>,
    flight: Flight,
}

impl StopAdmin {
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
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

pub(crate) fn start(control: &Runtime, address: SocketAddr, router: Router) -> Result<StopAdmin, String> {
    let _in_runtime = control.enter();
    let listener = bind(address).map_err(|e| format!("--admin-listen {address}: cannot listen: {e}"))?;
    let stop = StopAdmin { stop: Arc::default(), flight: Flight::default() };
    let stopped = stop.clone();
    let router = router
        .layer(axum::middleware::map_request(name_client))
        .layer(axum::middleware::from_fn_with_state(stop.flight.clone(), count));
    control.spawn(async move {
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let served =
            axum::serve(listener, service).with_graceful_shutdown(async move { stopped.stop.notified().await }).await;
        if let Err(e) = served {
            tracing::error!(error = %e, "the admin port failed");
        }
    });
    Ok(stop)
}

async fn count(State(flight): State<Flight>, request: Request, next: Next) -> Response {
    let _ticket = flight.board();
    next.run(request).await
}

/// The peer's address in the form that the admin crate reads, whichever port a request came in by.
async fn name_client(ConnectInfo(peer): ConnectInfo<SocketAddr>, mut request: Request) -> Request {
    request.extensions_mut().insert(ClientAddr(peer.ip()));
    request
}
