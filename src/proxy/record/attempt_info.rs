//! What the client is told, and the record keeps, of one target that was tried.

use crate::guardrails::HookNotes;
use crate::proxy::request::Request;
use crate::proxy::target::TargetPrices;
use gateway_domain::catalog::EndedService;
use gateway_domain::counters::RateLimitStandings;
use gateway_domain::price::PriceCard;
use gateway_domain::record::CacheStatus;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct AttemptInfo {
    /// Where the target stands in its config.
    pub(crate) option_index: Arc<str>,
    pub(crate) provider: &'static str,
    /// The request itself says where to call.
    pub(crate) is_clients_host: bool,
    pub(crate) virtual_key: Arc<str>,
    pub(crate) model: Option<Arc<str>>,
    /// The price of the target where it is not what everybody pays.
    pub(crate) card: Option<PriceCard>,
    /// The day on which its provider ended the model, once that is past.
    pub(crate) shutdown: Option<&'static str>,
    /// The provider ended the service that was called.
    pub(crate) ended: Option<&'static EndedService>,
    /// Prices to look the model of the answer up in, where the one that was asked for has none.
    pub(crate) late_prices: Option<Box<TargetPrices>>,
    /// 0 none, n the retry that answered, -1 used up.
    pub(crate) retries: i32,
    pub(crate) adjusted: Vec<&'static str>,
    pub(crate) cache: CacheStatus,
    /// Waiting for the provider, and before it was asked again: not the gateway's own work.
    pub(crate) upstream: Duration,
    pub(crate) paused: Duration,
    /// The sum of both times at targets that were tried before.
    pub(crate) earlier: Duration,
    pub(crate) request_bytes: u64,
    pub(crate) stream: bool,
    /// How the tightest limits stand that the request was held to.
    pub(crate) limits: RateLimitStandings,
    /// `None` where no guardrail had a word.
    pub(crate) hooks: Option<Box<HookNotes>>,
}

impl AttemptInfo {
    /// Microseconds that the gateway itself took so far: without waiting for providers and for the client's body.
    pub(crate) fn own_work_us(&self, request: &Request) -> u64 {
        let waited = self.upstream + self.paused + self.earlier + Duration::from_micros(request.ask.content.waited_us);
        request.elapsed_us().saturating_sub(micros(waited))
    }

    /// No guardrail failed: what was answered may be kept for others.
    pub(crate) fn is_clean(&self) -> bool {
        self.hooks.as_ref().is_none_or(|hooks| hooks.is_clean())
    }

    pub(crate) fn upstream_us(&self) -> u64 {
        micros(self.upstream)
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}
