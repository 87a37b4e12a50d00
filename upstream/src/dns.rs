//! Names to addresses, checked after resolution: what passed the check is what is dialled.
//! A request waits for a look-up only when nothing is known of the name: an answer past its half minute serves on,
//! for ten, while one look-up in the background replaces it. A name that gave nothing is not asked at once again.

use ahash::AHashMap;
use arc_swap::ArcSwap;
use gateway_domain::egress::{BaseUrl, Trusted, dialable};
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

const PATIENCE: Duration = Duration::from_secs(5);
/// Names come from clients too (custom hosts); the table is emptied rather than let grow past this.
const MOST_NAMES: usize = 4096;

/// How old an answer may get.
#[derive(Clone, Copy, Debug)]
struct Ages {
    fresh: Duration,
    stale: Duration,
    /// The least time between two look-ups of a name when the first gave nothing.
    again: Duration,
}

const AGES: Ages =
    Ages { fresh: Duration::from_secs(30), stale: Duration::from_secs(600), again: Duration::from_secs(2) };

/// Addresses of one name, tried in turn from a moving start.
#[derive(Debug)]
pub(crate) struct ResolvedAddresses {
    addresses: Vec<SocketAddr>,
    next: AtomicUsize,
}

impl ResolvedAddresses {
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
#[derive(Clone, Debug)]
pub(crate) enum DnsError {
    /// An address behind the name must not be dialled.
    Forbidden(&'static str),
    Unresolved(String),
}

type LookupResult = Result<Arc<ResolvedAddresses>, DnsError>;

/// What a look-up gave, and when.
#[derive(Debug)]
struct KnownName {
    found: LookupResult,
    /// When the answer itself came; earlier than `asked` where the last look-ups gave nothing.
    answered: Instant,
    asked: Instant,
    is_being_renewed: AtomicBool,
}

type HostPort = (String, u16);
type NameTable = AHashMap<HostPort, Arc<KnownName>>;
type SystemAnswer = Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>>;

/// Cheap to clone; clones share the table.
#[derive(Clone)]
pub struct Dns(Arc<DnsInner>);

struct DnsInner {
    trusted: Arc<Trusted>,
    table: ArcSwap<NameTable>,
    /// Look-ups that requests wait for: one for each name, however many they are.
    flights: Mutex<AHashMap<HostPort, Arc<OnceCell<LookupResult>>>>,
    ask: fn(HostPort) -> SystemAnswer,
    ages: Ages,
    tasks: Handle,
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dns").field("names", &self.0.table.load().len()).finish_non_exhaustive()
    }
}

fn ask_the_system(name: HostPort) -> SystemAnswer {
    Box::pin(async move { Ok(tokio::net::lookup_host((name.0.as_str(), name.1)).await?.collect()) })
}

impl Dns {
    pub fn new(trusted: Arc<Trusted>, tasks: Handle) -> Self {
        Self::asking(ask_the_system, AGES, trusted, tasks)
    }

    /// How many names are known, for whoever counts them.
    pub fn size(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let dns = self.clone();
        move || dns.0.table.load().len() as u64
    }

    fn asking(ask: fn(HostPort) -> SystemAnswer, ages: Ages, trusted: Arc<Trusted>, tasks: Handle) -> Self {
        let (table, flights) = (ArcSwap::default(), Mutex::default());
        Self(Arc::new(DnsInner { trusted, table, flights, ask, ages, tasks }))
    }

    pub(crate) async fn resolve(&self, base: &BaseUrl) -> LookupResult {
        let name = (base.host.clone(), base.port);
        let known = self.0.table.load().get(&name).cloned();
        if let Some(known) = known {
            let (age, ages) = (known.answered.elapsed(), self.0.ages);
            match &known.found {
                Ok(_) if age < ages.fresh => return known.found.clone(),
                Ok(_) if age < ages.stale => {
                    if known.asked.elapsed() >= ages.again && !known.is_being_renewed.swap(true, Ordering::AcqRel) {
                        let dns = self.clone();
                        self.0.tasks.spawn(async move { dns.look_up(&name).await });
                    }
                    return known.found.clone();
                }
                Err(_) if known.asked.elapsed() < ages.again => return known.found.clone(),
                _ => {}
            }
        }
        Box::pin(self.wait(name)).await
    }

    /// The look-up that is under way, or one of one's own. Should its first asker leave, the next one takes over.
    async fn wait(&self, name: HostPort) -> LookupResult {
        let flight = self.0.flights.lock().entry(name.clone()).or_default().clone();
        let found = flight.get_or_init(|| self.look_up(&name)).await.clone();
        let mut flights = self.0.flights.lock();
        if flights.get(&name).is_some_and(|f| Arc::ptr_eq(f, &flight)) {
            flights.remove(&name);
        }
        found
    }

    /// Asks, and puts what came into the table. Silence leaves the answer before in force while it may be.
    async fn look_up(&self, name: &HostPort) -> LookupResult {
        let found =
            self.ask(name).await.map(|addresses| Arc::new(ResolvedAddresses { addresses, next: AtomicUsize::new(0) }));
        let now = Instant::now();
        let before = self.0.table.load().get(name).cloned();
        let kept = before.filter(|k| {
            let lives = k.found.is_ok() && k.answered.elapsed() < self.0.ages.stale;
            lives && matches!(found, Err(DnsError::Unresolved(_)))
        });
        let (found, answered) = kept.map_or((found, now), |k| (k.found.clone(), k.answered));
        let known = KnownName { found: found.clone(), answered, asked: now, is_being_renewed: AtomicBool::new(false) };
        let known = Arc::new(known);
        self.0.table.rcu(|table| {
            let mut next = if table.len() < MOST_NAMES { NameTable::clone(table) } else { NameTable::default() };
            next.insert(name.clone(), known.clone());
            next
        });
        found
    }

    async fn ask(&self, name: &HostPort) -> Result<Vec<SocketAddr>, DnsError> {
        let (host, port) = name;
        let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, *port)],
            Err(_) => match tokio::time::timeout(PATIENCE, (self.0.ask)(name.clone())).await {
                Ok(Ok(found)) => found,
                Ok(Err(e)) => return Err(DnsError::Unresolved(e.to_string())),
                Err(_) => return Err(DnsError::Unresolved("the look-up took too long".into())),
            },
        };
        let by_name = self.0.trusted.name(host);
        // One forbidden answer condemns all: picking among them is what rebinding hopes for.
        for address in &addresses {
            let ip = address.ip();
            dialable(ip, by_name || self.0.trusted.address(ip)).map_err(DnsError::Forbidden)?;
        }
        if addresses.is_empty() { Err(DnsError::Unresolved("the name has no address".into())) } else { Ok(addresses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Clone, Copy)]
    enum Play {
        Gives(u8),
        Private,
        Fails,
        Hangs,
    }

    /// What each name plays, and how often it was asked; every test has a name of its own.
    static STAGE: Mutex<Option<HashMap<String, (Play, usize)>>> = Mutex::new(None);

    fn play(name: &str, play: Play) {
        STAGE.lock().get_or_insert_default().entry(name.to_owned()).or_insert((play, 0)).0 = play;
    }

    fn asked(name: &str) -> usize {
        STAGE.lock().get_or_insert_default().get(name).map_or(0, |(_, times)| *times)
    }

    fn ask((host, _): HostPort) -> SystemAnswer {
        let mut stage = STAGE.lock();
        let (play, times) = stage.get_or_insert_default().get_mut(&host).expect("a name of a test");
        *times += 1;
        let play = *play;
        drop(stage);
        Box::pin(async move {
            tokio::task::yield_now().await;
            match play {
                Play::Gives(last) => Ok(vec![SocketAddr::from(([93, 184, 216, last], 443))]),
                Play::Private => Ok(vec![SocketAddr::from(([10, 0, 0, 1], 443))]),
                Play::Fails => Err(std::io::Error::other("no such name")),
                Play::Hangs => std::future::pending().await,
            }
        })
    }

    fn dns(ages: Ages) -> Dns {
        Dns::asking(ask, ages, Arc::default(), Handle::current())
    }

    fn url(host: &str) -> BaseUrl {
        BaseUrl::parse(&format!("https://{host}")).expect("a URL")
    }

    async fn last(dns: &Dns, host: &str) -> Result<u8, String> {
        match dns.resolve(&url(host)).await {
            Ok(found) => match found.pick().ip() {
                IpAddr::V4(ip) => Ok(ip.octets()[3]),
                IpAddr::V6(_) => Err("v6".into()),
            },
            Err(e) => Err(format!("{e:?}")),
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn what_is_stale_serves_on_while_it_is_asked_again() {
        let host = "stale.example";
        let dns = dns(Ages { fresh: Duration::ZERO, stale: HOUR, again: Duration::ZERO });
        play(host, Play::Gives(1));
        assert_eq!(last(&dns, host).await, Ok(1));
        play(host, Play::Hangs);
        for _ in 0..5 {
            assert_eq!(last(&dns, host).await, Ok(1), "without waiting");
        }
        tokio::task::yield_now().await;
        assert_eq!(asked(host), 2, "one look-up in the background");
    }

    #[tokio::test]
    async fn a_look_up_that_fails_leaves_the_answer_before() {
        let host = "kept.example";
        let dns = dns(Ages { fresh: Duration::ZERO, stale: HOUR, again: Duration::ZERO });
        play(host, Play::Gives(1));
        assert_eq!(last(&dns, host).await, Ok(1));
        play(host, Play::Fails);
        while asked(host) < 3 {
            assert_eq!(last(&dns, host).await, Ok(1));
            tokio::task::yield_now().await;
        }
        play(host, Play::Gives(2));
        while last(&dns, host).await != Ok(2) {
            tokio::task::yield_now().await;
        }
        // What must not be dialled takes the place of what could.
        play(host, Play::Private);
        while last(&dns, host).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn many_that_wait_ask_once_and_failures_are_kept_for_a_while() {
        let host = "none.example";
        let dns = dns(Ages { fresh: HOUR, stale: HOUR, again: HOUR });
        play(host, Play::Fails);
        let asks = (0..20).map(|_| last(&dns, host));
        assert!(futures_util::future::join_all(asks).await.iter().all(Result::is_err));
        assert!(last(&dns, host).await.is_err());
        assert_eq!(asked(host), 1);
        let eager = self::dns(Ages { fresh: HOUR, stale: HOUR, again: Duration::ZERO });
        assert!(last(&eager, host).await.is_err());
        play(host, Play::Gives(7));
        assert_eq!(last(&eager, host).await, Ok(7));
    }

    #[tokio::test]
    async fn an_asker_who_leaves_holds_up_nobody() {
        let host = "left.example";
        let dns = dns(Ages { fresh: HOUR, stale: HOUR, again: HOUR });
        play(host, Play::Hangs);
        let gone = tokio::time::timeout(Duration::from_millis(20), last(&dns, host)).await;
        assert!(gone.is_err());
        play(host, Play::Gives(3));
        assert_eq!(last(&dns, host).await, Ok(3));
    }
}
