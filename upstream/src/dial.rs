//! Dials the host of a base URL: resolves, checks, connects by Pingora's connector. A host that this process answers
//! for by itself is dialled over a pipe, by the same road. Knows neither pool nor protocol.

use super::dns::{Dns, DnsError, ResolvedAddresses};
use super::peer::PooledPeer;
use async_trait::async_trait;
use gateway_domain::egress::BaseUrl;
use pingora::ErrorType;
use pingora::connectors::{ConnectorOptions, L4Connect, TransportConnector};
use pingora::protocols::Stream;
use pingora::protocols::l4::socket::SocketAddr as PeerAddr;
use pingora::protocols::l4::stream::Stream as L4Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::upstreams::peer::HttpPeer;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Where connections of one target go, resolved and checked.
#[derive(Clone, Debug)]
pub struct ResolvedOrigin {
    base: Arc<BaseUrl>,
    /// `None`: in process.
    resolved: Option<Arc<ResolvedAddresses>>,
    tls_key: u64,
}

/// Why no connection could be had, for the fault that the client sees.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the address {0}")]
    Forbidden(&'static str),
    #[error("{0}")]
    Failed(String),
}

/// A connection as it was dialled.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    /// The key in the pool of connections to the address that was reached.
    pub(crate) key: u64,
}

pub struct Dialer {
    connector: TransportConnector,
    dns: Dns,
    connect_timeout: Duration,
    in_process: Option<Arc<InProcess>>,
    hasher: ahash::RandomState,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("connect_timeout", &self.connect_timeout).finish_non_exhaustive()
    }
}

/// A caller is told one thing of a name, whether nobody knows it or it leads inside: which names there are inside is
/// nobody's business. An address that stands there as it is tells nothing new.
fn undialled(host: &str, error: DnsError) -> DialError {
    match error {
        DnsError::Forbidden(why) if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() => {
            DialError::Forbidden(why)
        }
        DnsError::Forbidden(why) => hidden(host, why),
        DnsError::Unresolved(why) => hidden(host, &why),
    }
}

fn hidden(host: &str, why: &str) -> DialError {
    tracing::debug!(host, why, "a name has no address to call");
    DialError::Failed("its name has no address that may be called".to_owned())
}

impl Dialer {
    pub fn new(dns: Dns, connect_timeout: Duration, in_process: Option<InProcess>) -> Self {
        Self {
            // Pingora's own pool stays empty: connections are kept in `pool`.
            connector: TransportConnector::new(Some(ConnectorOptions::new(1))),
            dns,
            connect_timeout,
            in_process: in_process.map(Arc::new),
            hasher: ahash::RandomState::new(),
        }
    }

    pub async fn origin(&self, base: &Arc<BaseUrl>) -> Result<ResolvedOrigin, DialError> {
        let resolved = if self.in_process.as_ref().is_some_and(|own| own.host == base.host) {
            None
        } else {
            Some(self.dns.resolve(base).await.map_err(|e| undialled(&base.host, e))?)
        };
        let tls_key = self.hasher.hash_one((base.tls, &base.host, base.port));
        Ok(ResolvedOrigin { base: base.clone(), resolved, tls_key })
    }

    /// An address to use, and the pool key of connections to it: address, TLS and name together.
    pub fn address(&self, origin: &ResolvedOrigin) -> (SocketAddr, u64) {
        let Some(resolved) = &origin.resolved else {
            return (SocketAddr::from(([0, 0, 0, 0], 0)), origin.tls_key);
        };
        let address = resolved.pick();
        (address, self.hasher.hash_one(address) ^ origin.tls_key)
    }

    /// Pingora's description of the peer.
    fn peer(&self, origin: &ResolvedOrigin, address: SocketAddr) -> HttpPeer {
        let mut peer = HttpPeer::new(address, origin.base.tls, origin.base.host.clone());
        peer.options.connection_timeout = Some(self.connect_timeout);
        peer.options.total_connection_timeout = Some(self.connect_timeout);
        peer.options.set_http_version(1, 1);
        peer.group_key = origin.tls_key;
        if let (None, Some(own)) = (&origin.resolved, &self.in_process) {
            peer.options.custom_l4 = Some(own.clone());
        }
        peer
    }

    /// A new connection. When the name has several addresses each is tried once.
    pub(crate) async fn connect(
        &self,
        origin: &ResolvedOrigin,
        address: SocketAddr,
        key: u64,
    ) -> Result<Dialled, DialError> {
        let mut tried = 1;
        let (mut address, mut key) = (address, key);
        loop {
            let peer = PooledPeer::new(self.peer(origin, address), key);
            // Boxed: dialling is rare, and what it needs would double the future of every call.
            match Box::pin(self.connector.new_stream(&peer)).await {
                Ok(stream) => return Ok(Dialled { stream, key }),
                Err(e) if tried >= origin.resolved.as_ref().map_or(1, |r| r.len().min(4)) => {
                    return Err(DialError::Failed(in_words(e.etype()).to_owned()));
                }
                Err(_) => tried += 1,
            }
            (address, key) = self.address(origin);
        }
    }
}

/// What the library below calls an error, as a person would.
const fn in_words(error: &ErrorType) -> &'static str {
    match error {
        ErrorType::ConnectTimedout => "connecting took too long",
        ErrorType::ConnectRefused => "the connection was refused",
        ErrorType::ConnectNoRoute => "there is no route to it",
        ErrorType::TLSHandshakeTimedout => "the TLS handshake took too long",
        ErrorType::TLSHandshakeFailure | ErrorType::TLSWantX509Lookup => "the TLS handshake failed",
        ErrorType::InvalidCert | ErrorType::HandshakeError => "its certificate was not accepted",
        _ => "the connection failed",
    }
}

/// A host that this process answers for: it has a name that no DNS knows, and is reached over a pipe.
pub struct InProcess {
    host: &'static str,
    /// Takes the far end of each new pipe.
    serve: Box<dyn Fn(DuplexStream) + Send + Sync>,
}

impl InProcess {
    pub fn new(host: &'static str, serve: impl Fn(DuplexStream) + Send + Sync + 'static) -> Self {
        Self { host, serve: Box::new(serve) }
    }
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("host", &self.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl L4Connect for InProcess {
    async fn connect(&self, _: &PeerAddr) -> pingora::Result<L4Stream> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        (self.serve)(far);
        Ok(VirtualSocketStream::new(Box::new(Pipe(near))).into())
    }
}

#[derive(Debug)]
struct Pipe(DuplexStream);

impl VirtualSocket for Pipe {
    fn set_socket_option(&self, _: VirtualSockOpt) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_inside_and_names_nowhere_are_told_alike() {
        let inside = undialled("internal.example", DnsError::Forbidden("is a private or reserved address"));
        let nowhere = undialled("nowhere.example", DnsError::Unresolved("no such name".into()));
        assert_eq!(inside.to_string(), nowhere.to_string());
        assert!(!inside.to_string().contains("private"), "{inside}");
        let literal = undialled("10.0.0.1", DnsError::Forbidden("is a private or reserved address"));
        assert!(matches!(literal, DialError::Forbidden(_)));
    }
}
