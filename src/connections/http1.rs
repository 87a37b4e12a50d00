//! Requests of one HTTP/1 connection, one after the other.

use super::client_stream::Link;
use super::head::Came;
use super::http2;
use super::refusal::HeadRefusal;
use super::worker::Worker;
use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Seconds that a connection is kept open for its next request, until the head is read and says otherwise.
const KEPT: Option<u64> = Some(60);
/// How long a client that was refused may send on: closing at once would take the answer from it.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes that are read of such a client.
const MOST_LINGERED: usize = 4 << 20;
/// How long a connection that was accepted just before the end has to bring its request.
const LAST_WAIT: Duration = Duration::from_secs(1);

pub(super) async fn converse<A: HttpServerApp + Send + Sync + 'static>(worker: &Arc<Worker<A>>, mut link: Box<Link>) {
    let clocks = &worker.clocks;
    let mut silence = clocks.first;
    let mut asked = false;
    loop {
        let head = match link.request(&worker.desk, silence, clocks).await {
            Came::Head(head) => head,
            Came::Preface if !asked => return Box::pin(http2::serve(worker, link)).await,
            // A preface of HTTP/2 in the middle of a connection is no request: Pingora says so.
            Came::Preface => std::mem::take(&mut link.ahead),
            Came::Nothing if !asked && worker.desk.is_closing() && brings(&mut link).await => continue,
            Came::Nothing => return,
            Came::Late => return Box::pin(refuse(link, HeadRefusal::late())).await,
            Came::TooLarge => return Box::pin(refuse(link, HeadRefusal::too_large())).await,
        };
        link.hand_over();
        let mut session = ServerSession::new_http1(link);
        session.set_keepalive(if worker.desk.is_closing() { None } else { KEPT });
        // All that Pingora still has to read is body; should it see the end of a head elsewhere than we do, it waits so
        // long.
        session.set_read_timeout(Some(clocks.head));
        session.set_pipelined_prefix(head);
        let Some(kept) = worker.app.process_new_http(session, &worker.shutdown).await else { return };
        let Ok(back) = kept.consume().0.into_any().downcast::<Link>() else { return };
        link = back;
        link.turn();
        (silence, asked) = (clocks.between, true);
    }
}

/// What was accepted just before the end brings its request, or never will.
async fn brings(link: &mut Link) -> bool {
    let read = tokio::time::timeout(LAST_WAIT, poll_fn(|cx| link.poll_ahead(cx))).await;
    matches!(read, Ok(Ok(count)) if count > 0)
}

/// Answers what never was a request, and closes.
async fn refuse(mut link: Box<Link>, refusal: HeadRefusal) {
    let said = async {
        link.write_all(&refusal.message()).await?;
        link.shutdown().await?;
        let (mut space, mut read) = ([0; 4096], 0);
        while read < MOST_LINGERED {
            match link.read(&mut space).await? {
                0 => break,
                count => read += count,
            }
        }
        std::io::Result::Ok(())
    };
    // Whoever does not listen is not waited for.
    let _ = tokio::time::timeout(LINGER, said).await;
}
