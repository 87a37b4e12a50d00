//! What the process keeps for MCP: how sessions are sealed, which have ended, and the upstream sessions that stand for
//! callers who have none. Each table is bounded.

use super::accounts::McpPeople;
use super::authorization::McpAuthorization;
use super::breaker::McpBreakers;
use super::drift::ToolDrift;
use super::duplex::{DuplexBounds, DuplexTable};
use super::legacy_streams::LegacyStreams;
use super::lists::McpLists;
use super::sessionless_servers::SessionlessServers;
use crate::proxy::cors::CorsOrigins;
use crate::upstream::Programs;
use ahash::AHashMap;
use gateway_admin::WantedSyncs;
use gateway_domain::egress::Trusted;
use gateway_domain::operation::is_mcp_server;
use gateway_domain::ports::Vault;
use gateway_domain::snapshot::McpUpstream;
use gateway_mcp::session::{SessionSeal, fingerprint};
use http::header;
use parking_lot::Mutex;
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sessions that are remembered as ended.
const MOST_ENDED: usize = 16_384;
/// Upstream sessions kept for callers who have none, and for how long without use.
const MOST_BRIDGES: usize = 8_192;
const BRIDGE_IDLE: Duration = Duration::from_secs(300);
/// What the vault puts before everything that it seals.
const SEALED: &str = "sealed:v1:";

/// What of the settings is about MCP.
#[derive(Clone, Debug)]
pub(crate) struct McpSettings {
    pub(crate) session_ttl: Duration,
    /// Silence of an upstream that a call may take.
    pub(crate) silence: Duration,
    /// The most time for a whole call.
    pub(crate) longest: Duration,
    /// How long a list is kept that does not say how long it holds, and at most one that is not public; zero: no list
    /// is kept.
    pub(crate) list_ttl: Duration,
    pub(crate) origins: Option<Arc<CorsOrigins>>,
    /// Where clients reach the gateway, without a slash at its end; `None`: nobody said.
    pub(crate) public_url: Option<Arc<str>>,
    /// Addresses that may be called though others may not.
    pub(crate) trusted: Arc<Trusted>,
    /// `None`: nobody signs in.
    pub(crate) authorization: Option<McpAuthorization>,
    /// Whether clients of 2024-11-05 are served.
    pub(crate) legacy_sse: bool,
}

pub(crate) struct McpState {
    vault: Arc<dyn Vault>,
    pub(crate) settings: McpSettings,
    ended: Mutex<EndedSessions>,
    bridges: Mutex<AHashMap<BridgeKey, BridgeSession>>,
    pub(in crate::proxy) breakers: McpBreakers,
    pub(super) drift: ToolDrift,
    pub(super) sessionless: SessionlessServers,
    pub(super) lists: McpLists,
    /// Connections that stay open.
    pub(super) duplex: Arc<DuplexTable>,
    /// The open streams of clients that speak the version of 2024-11-05.
    pub(super) legacy: LegacyStreams,
    /// Tokens of people; `None`: nobody has accounts at servers here.
    people: Option<McpPeople>,
    /// Whether the process takes leave.
    draining: Box<dyn Fn() -> bool + Send + Sync>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct EndedSessions {
    order: VecDeque<Box<str>>,
    known: AHashMap<Box<str>, ()>,
}

/// Tells upstream sessions apart: each is of one integration as it stands, and of one caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BridgeKey {
    pub(super) integration: uuid::Uuid,
    pub(super) revision: i64,
    pub(super) principal: String,
    /// The part of a client's own session that is meant; `None`: the session stands for a caller who has none.
    pub(super) session: Option<Box<str>>,
}

/// An upstream session that the gateway opened.
#[derive(Clone, Debug)]
pub(super) struct BridgeSession {
    /// `None`: the upstream keeps none.
    pub(super) id: Option<String>,
    pub(super) version: String,
    /// The result of `initialize`.
    pub(super) opened: Arc<str>,
    used: Instant,
}

impl BridgeSession {
    pub(super) fn new(id: Option<String>, version: String, opened: &str) -> Self {
        Self { id, version, opened: opened.into(), used: Instant::now() }
    }
}

impl std::fmt::Debug for McpState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpState").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl McpState {
    pub(crate) fn new(
        vault: Arc<dyn Vault>,
        settings: McpSettings,
        (bounds, programs): (DuplexBounds, Arc<Programs>),
        draining: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let numbers = AtomicU64::new(1);
        let (ended, bridges) = (Mutex::default(), Mutex::default());
        let (breakers, drift) = (McpBreakers::default(), ToolDrift::default());
        let (sessionless, lists) = (SessionlessServers::default(), McpLists::new(settings.list_ttl));
        let (people, draining) = (None, Box::new(draining));
        let (duplex, legacy) = (Arc::new(DuplexTable::new(bounds, programs)), LegacyStreams::default());
        Self {
            vault,
            settings,
            ended,
            bridges,
            breakers,
            drift,
            sessionless,
            lists,
            duplex,
            legacy,
            people,
            draining,
            numbers,
        }
    }

    pub(crate) fn with_people(mut self, people: McpPeople) -> Self {
        self.people = Some(people);
        self
    }

    pub(super) const fn people(&self) -> Option<&McpPeople> {
        self.people.as_ref()
    }

    /// A server says that its lists are others now: what is kept of them counts no more, and it is asked again what it
    /// offers.
    pub(super) fn forget_lists(&self, upstream: &McpUpstream) {
        self.lists.drop_of(upstream.id.0);
        if let Some(wanted) = self.people.as_ref().and_then(McpPeople::wanted_syncs) {
            wanted.want(upstream.org, upstream.id);
        }
    }

    /// How many rows each table has.
    pub(super) fn kept(&self) -> [(&'static str, usize); 11] {
        let [connections, programs] = self.duplex.len();
        [
            ("broken_servers", self.breakers.len()),
            ("changed_tools", self.drift.len()),
            ("connections", connections),
            ("ended_sessions", self.ended.lock().order.len()),
            ("legacy_streams", self.legacy.len()),
            ("list_bytes", self.lists.bytes()),
            ("lists", self.lists.len()),
            ("programs", programs),
            ("sessionless_servers", self.sessionless.len()),
            ("sessions_of_callers", self.bridges.lock().len()),
            ("wanted_syncs", self.people.as_ref().and_then(McpPeople::wanted_syncs).map_or(0, WantedSyncs::len)),
        ]
    }

    /// A number for a request that the gateway sends in its own name, so that ids of several clients never meet.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn end(&self, session: &str) {
        let name: Box<str> = fingerprint(session).into();
        let mut ended = self.ended.lock();
        if ended.known.insert(name.clone(), ()).is_some() {
            return;
        }
        ended.order.push_back(name);
        if ended.order.len() > MOST_ENDED
            && let Some(oldest) = ended.order.pop_front()
        {
            ended.known.remove(&oldest);
        }
    }

    pub(super) fn has_ended(&self, session: &str) -> bool {
        let ended = self.ended.lock();
        !ended.known.is_empty() && ended.known.contains_key(fingerprint(session).as_str())
    }

    pub(super) fn bridge(&self, key: &BridgeKey) -> Option<BridgeSession> {
        let mut bridges = self.bridges.lock();
        let found = bridges.get_mut(key).filter(|session| session.used.elapsed() < BRIDGE_IDLE)?;
        found.used = Instant::now();
        Some(found.clone())
    }

    pub(super) fn keep_bridge(&self, key: BridgeKey, session: BridgeSession) {
        let mut bridges = self.bridges.lock();
        if bridges.len() >= MOST_BRIDGES {
            bridges.retain(|_, session| session.used.elapsed() < BRIDGE_IDLE);
        }
        if bridges.len() < MOST_BRIDGES {
            bridges.insert(key, session);
        }
    }

    pub(super) fn forget_bridge(&self, key: &BridgeKey) {
        self.bridges.lock().remove(key);
    }

    /// Why a web page may not call: it is of another origin, or has a name of its own for this machine.
    pub(in crate::proxy) fn refuses_origin(&self, session: &Session) -> Option<&'static str> {
        let headers = &session.req_header().headers;
        let local = session.server_addr().and_then(|a| a.as_inet().map(|a| a.ip().is_loopback())).unwrap_or(false);
        if let Some(origin) = headers.get(header::ORIGIN) {
            let granted = self.settings.origins.as_ref().is_some_and(|origins| origins.allows(origin));
            let own = local && origin.to_str().is_ok_and(|o| o.split_once("://").is_some_and(|(_, h)| is_loopback(h)));
            return (!granted && !own).then_some("Pages of this Origin may not call; see --mcp-allowed-origins");
        }
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).filter(|_| local)?;
        let known = is_loopback(host) || self.settings.origins.as_ref().is_some_and(|origins| origins.names_host(host));
        (!known).then_some("This Host is not known here; see --mcp-allowed-origins")
    }

    /// Whether a page that may call asks if it may call a server.
    pub(crate) fn is_preflight(&self, head: &RequestHeader) -> bool {
        let origins = self.settings.origins.as_ref().filter(|_| is_mcp_server(head.uri.path()));
        origins.is_some_and(|origins| origins.is_preflight(head))
    }

    pub(crate) const fn authorization(&self) -> Option<&McpAuthorization> {
        self.settings.authorization.as_ref()
    }

    /// Those that are MCP servers.
    pub(crate) fn programs(&self) -> Arc<Programs> {
        self.duplex.programs.clone()
    }

    pub(super) fn vault(&self) -> &dyn Vault {
        &*self.vault
    }

    pub(super) fn is_draining(&self) -> bool {
        (self.draining)()
    }
}

/// Whether a host and port name this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl SessionSeal for McpState {
    fn seal(&self, plain: &str) -> String {
        let sealed = self.vault.seal(plain);
        sealed.strip_prefix(SEALED).map(str::to_owned).unwrap_or(sealed)
    }

    fn open(&self, sealed: &str) -> Option<String> {
        self.vault.open(&format!("{SEALED}{sealed}")).ok().map(|plain| plain.expose().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Secret;
    use gateway_domain::ports::VaultError;

    struct Plain;
    impl Vault for Plain {
        fn seal(&self, plain: &str) -> String {
            format!("{SEALED}{plain}")
        }
        fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError> {
            sealed.strip_prefix(SEALED).map(|s| Secret::new(s.to_owned())).ok_or(VaultError::Malformed)
        }
    }

    fn state() -> McpState {
        let (minute, origins) = (Duration::from_secs(60), None);
        let settings = McpSettings {
            session_ttl: minute,
            silence: minute,
            longest: minute,
            list_ttl: minute,
            origins,
            public_url: None,
            trusted: Arc::default(),
            authorization: None,
            legacy_sse: false,
        };
        let bounds = DuplexBounds { connections: 1, programs: 1, idle: minute };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let programs = Arc::new(Programs::new(std::collections::BTreeMap::new(), None, 1, runtime.handle().clone()));
        McpState::new(Arc::new(Plain), settings, (bounds, programs), || false)
    }

    #[test]
    fn ended_sessions_are_remembered_within_a_bound() {
        let state = state();
        assert!(!state.has_ended("a"));
        state.end("a");
        state.end("a");
        assert!(state.has_ended("a") && !state.has_ended("b"));
        for n in 0..MOST_ENDED {
            state.end(&n.to_string());
        }
        assert!(!state.has_ended("a"), "the oldest goes");
        let ended = state.ended.lock();
        assert_eq!((ended.order.len(), ended.known.len()), (MOST_ENDED, MOST_ENDED));
    }

    #[test]
    fn bridges_belong_to_one_caller_and_are_bounded() {
        let state = state();
        let key = |n: usize| BridgeKey {
            integration: uuid::Uuid::nil(),
            revision: 1,
            principal: n.to_string(),
            session: None,
        };
        for n in 0..MOST_BRIDGES + 10 {
            state.keep_bridge(key(n), BridgeSession::new(Some("up".into()), "2025-11-25".into(), "{}"));
        }
        assert_eq!(state.bridges.lock().len(), MOST_BRIDGES);
        assert!(state.bridge(&key(0)).is_some() && state.bridge(&key(MOST_BRIDGES + 1)).is_none());
        let changed = BridgeKey { revision: 2, ..key(0) };
        assert!(state.bridge(&changed).is_none(), "an integration that changed has none");
        state.forget_bridge(&key(0));
        assert!(state.bridge(&key(0)).is_none());
    }

    #[test]
    fn sessions_are_sealed_by_the_vault() {
        let state = state();
        assert_eq!(state.open(&state.seal("x")).as_deref(), Some("x"));
    }

    #[test]
    fn names_of_this_machine() {
        for name in ["localhost", "LOCALHOST:3000", "127.0.0.1:1", "[::1]:80", "127.9.9.9"] {
            assert!(is_loopback(name), "{name}");
        }
        for name in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.nip.io", ""] {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
