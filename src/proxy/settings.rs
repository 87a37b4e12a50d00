//! What the data plane needs of the settings, in the form that it uses.

use super::body::BodyLimits;
use super::cors::CorsOrigins;
use crate::settings::LogBodies;
use gateway_domain::egress::Trusted;
use gateway_domain::record::mask;
use ipnet::IpNet;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct ProxySettings {
    pub(crate) header_alias: Vec<String>,
    pub(crate) trusted: Arc<Trusted>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) block_inline_config: bool,
    /// Origins whose pages may call; `None`: those of no other.
    pub(crate) cors: Option<Arc<CorsOrigins>>,
    pub(crate) max_body: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) first_byte_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) stream_hold: Duration,
    /// `None`: no comments in streams.
    pub(crate) stream_keepalive: Option<Duration>,
    pub(crate) upstream_pool_size: usize,
    pub(crate) max_connections: usize,
    pub(crate) log_bodies: LogBodies,
    /// Traces are exported, and this share of those that begin here.
    pub(crate) traced: Option<f64>,
    pub(crate) log_headers: mask::MaskRules,
}

impl ProxySettings {
    /// The bounds of a request's body that is held: its size, and the time for it to come.
    pub(crate) const fn body_limits(&self) -> BodyLimits {
        BodyLimits { most: self.max_body, time: self.body_timeout }
    }
}
