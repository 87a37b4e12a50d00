//! Fetches the key sets that organisations name, on the control runtime: when an address is new, every few
//! minutes, and when a token names a key that nobody knows, at a bounded rate per address.

use super::{Ask, Issuers, Sets};
use crate::live::Live;
use crate::outbound::{Outbound, send};
use gateway_domain::ports::{Live as _, Revision};
use gateway_domain::token::KeySet;
use http::{HeaderValue, Method, header};
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
/// Between tries of an address that gave nothing.
const RETRY: Duration = Duration::from_secs(10);
/// An issuer that cannot be reached keeps its keys in force for this long.
const KEPT: Duration = Duration::from_secs(86_400);
/// However many tokens name unknown keys, an address is asked no more often than `BURST` times in `WINDOW`.
const BURST: usize = 5;
const WINDOW: Duration = Duration::from_secs(30);

/// One address.
#[derive(Default)]
struct Source {
    /// When it was asked last, at most [`BURST`] times.
    asked: VecDeque<Instant>,
    answered: Option<Instant>,
    is_flying: bool,
    waiting: Vec<mpsc::Sender<Infallible>>,
}

impl Source {
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

type Fetched = (Arc<str>, Result<KeySet, String>);

struct Fetcher {
    issuers: Arc<Issuers>,
    live: Arc<Live>,
    outbound: Outbound,
    revision: Option<Revision>,
    sources: HashMap<Arc<str>, Source>,
    flying: JoinSet<Fetched>,
}

pub(crate) fn start(runtime: &Handle, live: Arc<Live>, outbound: Outbound) -> Arc<Issuers> {
    let (issuers, mut asked) = Issuers::new();
    let issuers = Arc::new(issuers);
    let (sources, flying) = (HashMap::new(), JoinSet::new());
    let mut fetcher = Fetcher { issuers: issuers.clone(), live, outbound, revision: None, sources, flying };
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

impl Fetcher {
    /// Follows the configuration, and asks whoever is due.
    fn look(&mut self) {
        let snapshot = self.live.snapshot();
        if self.revision != Some(snapshot.revision) {
            self.revision = Some(snapshot.revision);
            let trusts = snapshot.orgs().filter_map(|o| o.trust.as_ref());
            let named: HashSet<Arc<str>> = trusts.flat_map(|t| t.uris.iter().cloned()).collect();
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
    fn forget(&self, over: impl Fn(&HashMap<Arc<str>, Source>, &Arc<str>) -> bool) {
        let held = self.issuers.sets.load_full();
        if held.keys().any(|uri| over(&self.sources, uri)) {
            let kept = held.iter().filter(|(uri, _)| !over(&self.sources, uri));
            self.issuers.sets.store(Arc::new(kept.map(|(uri, set)| (uri.clone(), set.clone())).collect()));
        }
    }

    fn ask(&mut self, ask: &Ask) {
        let snapshot = self.live.snapshot();
        let uris = snapshot.org(ask.org).and_then(|o| o.trust.as_ref()).map(|t| t.uris.clone());
        for uri in uris.unwrap_or_default() {
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
            let (outbound, uri) = (self.outbound.clone(), uri.clone());
            self.flying.spawn(async move {
                let fetched = fetch(&outbound, &uri).await;
                (uri, fetched)
            });
        }
        source.waiting.extend(pending.cloned());
    }

    fn answer(&mut self, fetched: Result<Fetched, JoinError>) {
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
                    let mut next = Sets::clone(&held);
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

async fn fetch(outbound: &Outbound, uri: &str) -> Result<KeySet, String> {
    let request = outbound.request(Method::GET, uri).map_err(|e| e.to_string())?;
    let request = request.header(header::ACCEPT, HeaderValue::from_static("application/json"));
    let answer = send(request).await.map_err(|e| e.to_string())?;
    if answer.status != 200 {
        return Err(format!("it answered {}", answer.status));
    }
    let json = serde_json::from_slice(&answer.body).map_err(|e| format!("its answer is not JSON: {e}"))?;
    KeySet::parse(&json).map_err(|why| format!("its answer {why}"))
}
