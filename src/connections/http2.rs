//! Streams of one HTTP/2 connection: each is a request of its own, and the connection has a clock while it has none.

use super::client_stream::Link;
use super::worker::Worker;
use pingora::apps::HttpServerApp;
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{self, H2Accept, HttpSession};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Streams that were refused for what their heads are; a client that goes on so is no client.
const MOST_REFUSED: usize = 32;
/// How long a client has to hear that the connection ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Streams under way on one connection.
#[derive(Debug, Default)]
struct Streams {
    open: AtomicUsize,
    ended: Notify,
}

struct StreamGuard(Arc<Streams>);

impl Streams {
    fn begin(self: &Arc<Self>) -> StreamGuard {
        self.open.fetch_add(1, Ordering::Relaxed);
        StreamGuard(self.clone())
    }

    fn is_idle(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.ended.notify_one();
        }
    }
}

pub(super) async fn serve<A: HttpServerApp + Send + Sync + 'static>(worker: &Arc<Worker<A>>, link: Box<Link>) {
    let digest = Arc::new(link.digest());
    let shaken = server::handshake(link as Stream, Some(server::default_h2_options()));
    let Ok(Ok(mut connection)) = pingora_timeout::timeout(worker.clocks.head, shaken).await else { return };
    let streams = Arc::<Streams>::default();
    let (mut silence, mut refused, mut leaving) = (worker.clocks.first, 0, worker.desk.is_closing());
    if leaving {
        connection.graceful_shutdown();
    }
    let mut shutdown = worker.shutdown.clone();
    loop {
        let idle = streams.is_idle().then(|| worker.desk.idle());
        let longest = if leaving { FAREWELL } else { silence };
        let accepted = tokio::select! { biased;
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => Some(accepted),
            _ = shutdown.changed(), if !leaving => None,
            () = worker.desk.leave.notified(), if idle.is_some() && !leaving => None,
            () = streams.ended.notified(), if idle.is_none() => continue,
            () = pingora_timeout::sleep(longest), if idle.is_some() => None,
        };
        let Some(accepted) = accepted else {
            if leaving {
                return;
            }
            connection.graceful_shutdown();
            leaving = true;
            continue;
        };
        match accepted {
            // The client is gone, or broke the rules: the codec has told it which.
            Err(_) | Ok(None) => return,
            Ok(Some(H2Accept::Rejected)) if refused + 1 >= MOST_REFUSED => return,
            Ok(Some(H2Accept::Rejected)) => refused += 1,
            Ok(Some(H2Accept::Session(session))) => {
                let (guard, at) = (streams.begin(), worker.clone());
                worker.runtime.spawn(async move {
                    let _guard = guard;
                    at.app.process_new_http(ServerSession::new_http2(session), &at.shutdown).await;
                });
                silence = worker.clocks.between;
            }
        }
    }
}
