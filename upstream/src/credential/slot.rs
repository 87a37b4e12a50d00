//! The token of one credential. While it is used a task of its own renews it ahead of its end; whoever comes when
//! there is none waits for the one fetch that is under way.

use super::fetch::{Fetched, Fetcher, Pass, TokenRefusal};
use arc_swap::ArcSwapOption;
use gateway_domain::cloud::Grant;
use gateway_domain::{Fault, FaultKind};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

/// A token that the provider refused is not asked for anew more often than this.
const YOUNG: Duration = Duration::from_secs(30);
/// Pauses after failures double up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// Ahead of its end by this much a token is renewed, or by a fifth of a short life.
const AHEAD: Duration = Duration::from_secs(300);
/// Clocks differ, and requests take their time on the way.
const SLACK: Duration = Duration::from_secs(10);

struct CachedToken {
    pass: Pass,
    since: Instant,
    until: Instant,
}

struct KeptFailure {
    fault: Fault,
    until: Instant,
}

pub(super) struct TokenSlot {
    grant: Arc<Grant>,
    token: ArcSwapOption<CachedToken>,
    failure: ArcSwapOption<KeptFailure>,
    /// How many seconds the clock of whoever checks signatures is ahead of ours; known since it refused one for that.
    ahead: AtomicI64,
    /// Since the last fetch.
    used: AtomicBool,
    /// Counts fetches; there while a keeper runs. Locked only where there is no token.
    keeper: Mutex<Option<watch::Receiver<u64>>>,
    wake: Arc<Notify>,
}

impl TokenSlot {
    pub(super) fn new(grant: Arc<Grant>) -> Self {
        Self {
            grant,
            token: ArcSwapOption::empty(),
            failure: ArcSwapOption::empty(),
            ahead: AtomicI64::new(0),
            used: AtomicBool::new(false),
            keeper: Mutex::new(None),
            wake: Arc::default(),
        }
    }

    /// A token that still holds.
    pub(super) fn ready(&self) -> Option<Pass> {
        let token = self.token.load();
        let token = token.as_ref().filter(|token| Instant::now() < token.until)?;
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        Some(match &token.pass {
            Pass::Keys(keys, _) => Pass::Keys(keys.clone(), self.ahead.load(Relaxed)),
            pass => pass.clone(),
        })
    }

    pub(super) fn set_clock(&self, ahead: i64) {
        self.ahead.store(ahead, Relaxed);
    }

    fn failed(&self) -> Option<Fault> {
        let failure = self.failure.load();
        failure.as_ref().filter(|f| Instant::now() < f.until).map(|f| f.fault.clone())
    }

    pub(super) fn forget(&self, pass: &Pass) {
        let token = self.token.load_full();
        if token.is_some_and(|t| t.pass.is(pass) && t.since.elapsed() >= YOUNG) {
            self.token.store(None);
            self.wake.notify_one();
        }
    }

    fn take(&self, fetched: &Fetched) -> Duration {
        let now = Instant::now();
        let ahead = AHEAD.min(fetched.lives / 5);
        self.failure.store(None);
        let until = now + fetched.lives.saturating_sub(SLACK.min(ahead / 2));
        self.token.store(Some(Arc::new(CachedToken { pass: fetched.pass.clone(), since: now, until })));
        fetched.lives - ahead
    }

    fn fail(&self, refused: TokenRefusal, failures: u32) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(6)).min(LONGEST_PAUSE);
        let kind = if refused.denied { FaultKind::SignInRefused } else { FaultKind::SignInFailed };
        let fault = Fault::new(kind, refused.message);
        tracing::warn!(reason = fault.message(), "no token for a provider");
        let now = Instant::now();
        self.failure.store(Some(Arc::new(KeptFailure { fault, until: now + pause })));
        // What still holds shall be renewed before its end, so the tries come closer together towards it.
        let left =
            self.token.load().as_ref().map_or(Duration::ZERO, |token| token.until.saturating_duration_since(now));
        if left.is_zero() { pause } else { pause.min(left / 2).max(SHORTEST_PAUSE) }
    }
}

/// Joins the fetch that is under way, or starts one.
pub(super) async fn wait(slot: &Arc<TokenSlot>, fetcher: &Arc<Fetcher>, runtime: &Handle) -> Result<Pass, Fault> {
    loop {
        let mut done = {
            let mut keeper = slot.keeper.lock();
            if let Some(token) = slot.ready() {
                return Ok(token);
            }
            if let Some(fault) = slot.failed() {
                return Err(fault);
            }
            match &*keeper {
                Some(done) => done.clone(),
                None => {
                    let (tell, done) = watch::channel(0);
                    *keeper = Some(done.clone());
                    runtime.spawn(keep(Arc::downgrade(slot), fetcher.clone(), tell));
                    done
                }
            }
        };
        // Either way there is news: a fetch came back, or its task is gone.
        let _ = done.changed().await;
    }
}

/// Fetches now, and again ahead of each end for as long as the token is used.
async fn keep(slot: Weak<TokenSlot>, fetcher: Arc<Fetcher>, tell: watch::Sender<u64>) {
    let mut failures = 0;
    loop {
        let Some(held) = slot.upgrade() else { return };
        let fetched = fetcher.fetch(&held.grant.sign_in).await;
        let pause = match fetched {
            Ok(fetched) => {
                failures = 0;
                held.take(&fetched)
            }
            Err(refused) => {
                let pause = held.fail(refused, failures);
                failures += 1;
                pause
            }
        };
        held.used.store(false, Relaxed);
        let holds = held.token.load().as_ref().is_some_and(|token| Instant::now() < token.until);
        if !holds {
            *held.keeper.lock() = None;
            return;
        }
        tell.send_modify(|count| *count += 1);
        // Not held while nothing happens, so that a slot that made room is gone.
        let wake = held.wake.clone();
        drop(held);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wake.notified() => continue,
        }
        let Some(held) = slot.upgrade() else { return };
        if !held.used.load(Relaxed) {
            // Whoever comes next starts anew.
            *held.keeper.lock() = None;
            return;
        }
    }
}
