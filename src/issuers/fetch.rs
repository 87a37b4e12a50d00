//! Fetches the key sets that organisations name, on the control runtime: when an address is new, every few
//! minutes, and when a token names a key that nobody knows, at a bounded rate per address.

use super::{IssuerKeys, IssuerSets, Issuers, RefreshAsk};
use crate::runtime_config::ConfigHandle;
use bytes::Bytes;
use gateway_domain::ports::{Live as _, Outside, OutsideCall, Revision};
use gateway_domain::token::KeySet;
use http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

const TICK: Duration = Duration::from_millis(250);
/// A set is asked for again after this, without anybody missing a key.
const FRESH: Duration = Duration::from_secs(600);
/// The time between two tries of an address that gave nothing.
const RETRY: Duration = Duration::from_secs(10);
/// An issuer that cannot be reached keeps its keys in force for this long.
const KEPT: Duration = Duration::from_secs(86_400);
/// However many tokens name unknown keys, an address is asked no more often than `BURST` times in `WINDOW`.
const BURST: usize = 5;
const WINDOW: Duration = Duration::from_secs(30);

/// One address.
#[derive(Default)]
struct KeySource {
    /// When it was asked last, at most [`BURST`] times.
    asked: VecDeque<Instant>,
    answered: Option<Instant>,
    is_flying: bool,
    waiting: Vec<mpsc::Sender<Infallible>>,
}

impl KeySource {
    fn may_be_asked(&self) -> bool {
        self.asked.len() < BURST || self.asked.front().is_some_and(|t| t.elapsed() >= WINDOW)
    }

    fn is_due(&self) -> bool {
        match (self.asked.back(), self.answered) {
            (None, _) => true,
            (Some(asked), Some(answered)) if answered >= *asked => answered.elapsed() >= FRESH,
            (Some(asked), _) => asked.elapsed() >= RETRY,
        }
    }
}

type FetchedKeys = (Arc<str>, Result<IssuerKeys, String>);

struct KeyFetcher {
    issuers: Arc<Issuers>,
    live: Arc<ConfigHandle>,
    outside: Arc<dyn Outside>,
    revision: Option<Revision>,
    sources: HashMap<Arc<str>, KeySource>,
    flying: JoinSet<FetchedKeys>,
}

pub(crate) fn start(runtime: &Handle, live: Arc<ConfigHandle>, outside: Arc<dyn Outside>) -> Arc<Issuers> {
    let (issuers, mut asked) = Issuers::new();
    let issuers = Arc::new(issuers);
    let (sources, flying) = (HashMap::new(), JoinSet::new());
    let mut fetcher = KeyFetcher { issuers: issuers.clone(), live, outside, revision: None, sources, flying };
    runtime.spawn(async move {
        loop {
            fetcher.look();
            tokio::select! {
                Some(ask) = asked.recv() => fetcher.ask(&ask),
                Some(fetched) = fetcher.flying.join_next() => fetcher.answer(fetched),
                () = tokio::time::sleep(TICK) => {}
            }
        }
    });
    issuers
}

impl KeyFetcher {
    /// Follows the configuration, and asks whoever is due.
    fn look(&mut self) {
        let snapshot = self.live.snapshot();
        if self.revision != Some(snapshot.revision) {
            self.revision = Some(snapshot.revision);
            let trusts = snapshot.orgs().filter_map(|o| o.trust.as_ref());
            let of_servers = snapshot.mcp_upstreams().filter_map(|u| u.signs_in_at.as_ref()?.keys_at.clone());
            let named: HashSet<Arc<str>> = trusts.flat_map(|t| t.uris.iter().cloned()).chain(of_servers).collect();
            self.sources.retain(|uri, _| named.contains(uri));
            for uri in named {
                self.sources.entry(uri).or_default();
            }
            self.forget(|sources, uri| !sources.contains_key(uri));
        }
        let due: Vec<Arc<str>> = self.sources.iter().filter(|(_, s)| s.is_due()).map(|(uri, _)| uri.clone()).collect();
        for uri in due {
            self.fetch(&uri, None);
        }
    }

    /// Takes sets out of force.
    fn forget(&self, over: impl Fn(&HashMap<Arc<str>, KeySource>, &Arc<str>) -> bool) {
        let held = self.issuers.sets.load_full();
        if held.keys().any(|uri| over(&self.sources, uri)) {
            let kept = held.iter().filter(|(uri, _)| !over(&self.sources, uri));
            self.issuers.sets.store(Arc::new(kept.map(|(uri, set)| (uri.clone(), set.clone())).collect()));
        }
    }

    fn ask(&mut self, ask: &RefreshAsk) {
        let snapshot = self.live.snapshot();
        let uris = snapshot.org(ask.org).and_then(|o| o.trust.as_ref()).map(|t| t.uris.clone());
        let theirs = snapshot.mcp_upstreams().filter(|upstream| upstream.org == ask.org);
        let of_servers = theirs.filter_map(|upstream| upstream.signs_in_at.as_ref()?.keys_at.clone());
        for uri in uris.unwrap_or_default().into_iter().chain(of_servers) {
            self.fetch(&uri, Some(&ask.pending));
        }
    }

    fn fetch(&mut self, uri: &Arc<str>, pending: Option<&mpsc::Sender<Infallible>>) {
        let source = self.sources.entry(uri.clone()).or_default();
        if !source.is_flying {
            if !source.may_be_asked() {
                return;
            }
            source.is_flying = true;
            source.asked.push_back(Instant::now());
            if source.asked.len() > BURST {
                source.asked.pop_front();
            }
            let (outside, uri) = (self.outside.clone(), uri.clone());
            self.flying.spawn(async move {
                let fetched = fetch(&*outside, &uri).await;
                (uri, fetched)
            });
        }
        source.waiting.extend(pending.cloned());
    }

    fn answer(&mut self, fetched: Result<FetchedKeys, JoinError>) {
        let Ok((uri, fetched)) = fetched else { return };
        // Nobody names it any more.
        let Some(source) = self.sources.get_mut(&uri) else { return };
        source.is_flying = false;
        // Let go at the end, when what was fetched is in force.
        let _waiting = std::mem::take(&mut source.waiting);
        match fetched {
            Ok(set) => {
                source.answered = Some(Instant::now());
                let held = self.issuers.sets.load_full();
                if held.get(&uri).is_none_or(|old| **old != set) {
                    let mut next = IssuerSets::clone(&held);
                    next.insert(uri, Arc::new(set));
                    self.issuers.sets.store(Arc::new(next));
                }
            }
            Err(why) => {
                let shown = uri.split('?').next().unwrap_or_default();
                tracing::warn!(uri = shown, %why, "an issuer's keys could not be fetched");
                self.forget(|sources, uri| {
                    let answered = sources.get(uri).and_then(|s| s.answered);
                    answered.is_none_or(|t| t.elapsed() >= KEPT)
                });
            }
        }
    }
}

/// Where issuers tell of themselves (OpenID Connect Discovery 1.0, section 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// One document, which is small by nature: more is somebody's mistake or malice.
const WHOLE: Duration = Duration::from_secs(15);
const MOST_BYTES: usize = 1 << 20;
/// Documents that are looked for, from the nearest folder of the key set up.
const MOST_LOOKS: usize = 5;
/// The most time for looking at all these documents together.
const LOOKING: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

/// The keys, and what the issuer calls itself. The address may be that of the discovery document.
async fn fetch(outside: &dyn Outside, uri: &str) -> Result<IssuerKeys, String> {
    if uri.ends_with(DISCOVERY) {
        let found: Discovered = serde_json::from_value(get(outside, uri).await?)
            .map_err(|e| format!("its answer is no discovery document: {e}"))?;
        let keys = keys(outside, &found.jwks_uri).await?;
        return Ok(IssuerKeys { keys, issuer: named(found.issuer) });
    }
    let looked = tokio::time::timeout(LOOKING, issuer(outside, uri));
    let (keys, issuer) = tokio::join!(keys(outside, uri), looked);
    Ok(IssuerKeys { keys: keys?, issuer: issuer.ok().flatten() })
}

async fn keys(outside: &dyn Outside, uri: &str) -> Result<KeySet, String> {
    KeySet::parse(&get(outside, uri).await?).map_err(|why| format!("its answer {why}"))
}

/// The issuer's name from its discovery document, which lies in a folder above the key set and names that very set.
async fn issuer(outside: &dyn Outside, uri: &str) -> Option<String> {
    for address in discovery_addresses(uri) {
        let Ok(answer) = get(outside, &address).await else { continue };
        let Ok(found) = serde_json::from_value::<Discovered>(answer) else { continue };
        if found.jwks_uri == uri {
            return named(found.issuer);
        }
    }
    None
}

/// An issuer of many tenants writes its name with a placeholder, which no token says.
fn named(issuer: String) -> Option<String> {
    Some(issuer).filter(|name| !name.is_empty() && !name.contains('{'))
}

fn discovery_addresses(uri: &str) -> Vec<String> {
    let bare = uri.split(['?', '#']).next().unwrap_or(uri);
    let host = bare.find("://").map_or(0, |at| at + 3);
    let mut folder = bare;
    let mut found = Vec::new();
    while let Some(at) = folder.rfind('/').filter(|at| *at >= host && found.len() < MOST_LOOKS) {
        folder = &folder[..at];
        if !folder.ends_with("/.well-known") {
            found.push(format!("{folder}{DISCOVERY}"));
        }
    }
    found
}

async fn get(outside: &dyn Outside, uri: &str) -> Result<Value, String> {
    let call = OutsideCall {
        method: Method::GET,
        url: uri.to_owned(),
        headers: vec![
            (header::ACCEPT, HeaderValue::from_static("application/json")),
            (header::USER_AGENT, HeaderValue::from_static(concat!("gateway/", env!("CARGO_PKG_VERSION")))),
        ],
        body: Bytes::new(),
        within: WHOLE,
        most_reply: MOST_BYTES,
        redirects: 0,
    };
    let answer = outside.call(call).await.map_err(|e| e.to_string())?;
    if answer.status != 200 {
        return Err(format!("it answered {}", answer.status));
    }
    serde_json::from_slice(&answer.body).map_err(|e| format!("its answer is not JSON: {e}"))
}

#[cfg(test)]
mod tests {
    use super::discovery_addresses;

    #[test]
    fn discovery_documents_are_looked_for_above_the_keys() {
        let of = |uri: &str| discovery_addresses(uri).join(" ").replace("/.well-known/openid-configuration", "/*");
        assert_eq!(of("https://t.example/.well-known/jwks.json"), "https://t.example/*");
        assert_eq!(
            of("https://t.example/o/default/v1/keys?x=1"),
            "https://t.example/o/default/v1/* https://t.example/o/default/* https://t.example/o/* https://t.example/*"
        );
        assert_eq!(of("https://t.example/a/b/c/d/e/f/g").split(' ').count(), 5);
        assert_eq!(of("https://t.example"), "");
    }
}
