//! The mock upstream: speaks OpenAI's, Anthropic's, Gemini's and Cohere's bodies with scripted delays and faults, for
//! demos, tests and load. It runs behind a listener (`gateway mock`) and in process, over any byte stream. It knows
//! nothing of the gateway: no pingora, no snapshot, no keys.

mod answer;
mod anthropic;
mod behaviour;
mod cohere;
mod delivery;
mod gemini;
mod openai;
mod reply;
mod request;
mod responses;
mod routes;
mod stats;
#[cfg(test)]
mod tests;
mod wire;

pub use behaviour::{MockFault, MockSettings};
pub use stats::Stats;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::{MockConnection, MockConnectionEnd};

#[derive(Debug, clap::Args)]
pub struct MockArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8791")]
    listen: SocketAddr,
    #[command(flatten)]
    settings: MockSettings,
}

/// Listens until the process ends.
pub async fn run(args: MockArgs) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("mock upstream cannot listen on {}: {e}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(named)?;
    tracing::info!(address = %listener.local_addr()?, "mock upstream listens");
    accept(listener, Arc::new(args.settings)).await;
    Ok(())
}

/// Speaks HTTP/1.1 over `stream` until either side ends it.
pub async fn serve_connection<S>(mut stream: S, settings: Arc<MockSettings>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    converse(&mut stream, &settings).await;
}

async fn accept(listener: TcpListener, settings: Arc<MockSettings>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let settings = settings.clone();
                connections.spawn(async move { serve_tcp(stream, &settings).await });
            }
            // Out of file descriptors, most likely: those of ending connections come free.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_tcp(mut stream: TcpStream, settings: &MockSettings) {
    // Without `TCP_NODELAY` each small event of a stream would wait for the peer's acknowledgement.
    let _ = stream.set_nodelay(true);
    if converse(&mut stream, settings).await == ConnectionEnding::Reset {
        // Closing with a linger of zero sends RST in place of FIN.
        let _ = stream.set_zero_linger();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnding {
    Closed,
    Reset,
}

async fn converse<S>(stream: &mut S, settings: &MockSettings) -> ConnectionEnding
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _open = settings.stats.open();
    let mut link = MockConnection::new(stream);
    loop {
        match delivery::exchange(&mut link, settings).await {
            Ok(()) => {}
            Err(MockConnectionEnd::Reset) => return ConnectionEnding::Reset,
            Err(MockConnectionEnd::Gone) => {
                settings.stats.aborted();
                return ConnectionEnding::Closed;
            }
            Err(MockConnectionEnd::Closed) => return ConnectionEnding::Closed,
        }
    }
}
