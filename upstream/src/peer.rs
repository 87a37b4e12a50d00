//! A peer whose pool key is computed once and whose pooled sockets need no look at their address:
//! the key already holds address, TLS and name, and the check was made before the first dial.

use pingora::protocols::l4::socket::SocketAddr;
use pingora::upstreams::peer::{HttpPeer, Peer, PeerOptions};
use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct PooledPeer {
    inner: Arc<HttpPeer>,
    key: u64,
}

impl PooledPeer {
    pub(super) fn new(inner: HttpPeer, key: u64) -> Self {
        Self { inner: Arc::new(inner), key }
    }
}

impl fmt::Display for PooledPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Peer for PooledPeer {
    fn address(&self) -> &SocketAddr {
        self.inner.address()
    }

    fn tls(&self) -> bool {
        self.inner.tls()
    }

    fn sni(&self) -> &str {
        self.inner.sni()
    }

    fn reuse_hash(&self) -> u64 {
        self.key
    }

    fn get_peer_options(&self) -> Option<&PeerOptions> {
        self.inner.get_peer_options()
    }

    fn get_mut_peer_options(&mut self) -> Option<&mut PeerOptions> {
        None
    }

    fn matches_fd<V: AsRawFd>(&self, _: V) -> bool {
        true
    }
}
