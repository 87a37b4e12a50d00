//! Names to addresses, checked after resolution (invariant 6): what passed the check is what is dialled.
//! Answers are kept for half a minute; when a look-up fails a stale answer serves on for ten.

use ahash::AHashMap;
use arc_swap::ArcSwap;
use gateway_domain::egress::{BaseUrl, Trusted, dialable};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const FRESH: Duration = Duration::from_secs(30);
const STALE: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(5);
/// Names come from clients too (custom hosts); the table is emptied rather than let grow past this.
const MOST_NAMES: usize = 4096;

/// Addresses of one name, tried in turn from a moving start.
#[derive(Debug)]
pub(crate) struct Resolved {
    addresses: Vec<SocketAddr>,
    next: AtomicUsize,
    at: Instant,
}

impl Resolved {
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Rotates over the addresses, so that load spreads and a dead one is not asked first each time.
    pub(crate) fn pick(&self) -> SocketAddr {
        let i = if self.addresses.len() > 1 { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 };
        self.addresses[i % self.addresses.len()]
    }
}

/// Why a name gave no address.
#[derive(Debug)]
pub(crate) enum DnsError {
    /// An address behind the name must not be dialled.
    Forbidden(&'static str),
    Unresolved(String),
}

type Table = AHashMap<(String, u16), Arc<Resolved>>;

#[derive(Debug)]
pub(crate) struct Dns {
    trusted: Arc<Trusted>,
    table: ArcSwap<Table>,
}

impl Dns {
    pub(crate) fn new(trusted: Arc<Trusted>) -> Self {
        Self { trusted, table: ArcSwap::from_pointee(Table::default()) }
    }

    pub(crate) async fn resolve(&self, base: &BaseUrl) -> Result<Arc<Resolved>, DnsError> {
        let key = (base.host.clone(), base.port);
        let known = self.table.load().get(&key).cloned();
        if let Some(known) = known.as_ref().filter(|k| k.at.elapsed() < FRESH) {
            return Ok(known.clone());
        }
        match Box::pin(self.look_up(base)).await {
            Ok(addresses) => {
                let fresh = Arc::new(Resolved { addresses, next: AtomicUsize::new(0), at: Instant::now() });
                self.table.rcu(|table| {
                    let mut next = if table.len() < MOST_NAMES { Table::clone(table) } else { Table::default() };
                    next.insert(key.clone(), fresh.clone());
                    next
                });
                Ok(fresh)
            }
            Err(DnsError::Unresolved(why)) => known.filter(|k| k.at.elapsed() < STALE).ok_or(DnsError::Unresolved(why)),
            Err(forbidden) => Err(forbidden),
        }
    }

    async fn look_up(&self, base: &BaseUrl) -> Result<Vec<SocketAddr>, DnsError> {
        let addresses: Vec<SocketAddr> = match base.host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, base.port)],
            Err(_) => {
                let found =
                    tokio::time::timeout(PATIENCE, tokio::net::lookup_host((base.host.as_str(), base.port))).await;
                match found {
                    Ok(Ok(found)) => found.collect(),
                    Ok(Err(e)) => return Err(DnsError::Unresolved(e.to_string())),
                    Err(_) => return Err(DnsError::Unresolved("the look-up took too long".into())),
                }
            }
        };
        let by_name = self.trusted.name(&base.host);
        // One forbidden answer condemns all: picking among them is what rebinding hopes for.
        for address in &addresses {
            let ip = address.ip();
            dialable(ip, by_name || self.trusted.address(ip)).map_err(DnsError::Forbidden)?;
        }
        if addresses.is_empty() { Err(DnsError::Unresolved("the name has no address".into())) } else { Ok(addresses) }
    }
}
