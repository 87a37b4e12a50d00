//! How a session ends: who says so first, with which code, and what each side has still to hear of it.

use gateway_domain::record::RealtimeNote;
use std::time::{Duration, Instant};

/// How long the other side has to say that it has heard.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a session ends, in the words of metrics and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Client,
    ClientGone,
    Provider,
    ProviderGone,
    /// A rule of WebSockets was broken, or a bound of the gateway's.
    Protocol,
    Budget,
    RateLimit,
    /// Key, provider or model may not be used any more.
    Revoked,
    Idle,
    TooLong,
    Draining,
    /// Another node watches the call from here on.
    HandedOver,
    /// The gateway holds as much as it may.
    Busy,
}

impl Why {
    pub(super) const ALL: [Self; 13] = [
        Self::Client,
        Self::ClientGone,
        Self::Provider,
        Self::ProviderGone,
        Self::Protocol,
        Self::Budget,
        Self::RateLimit,
        Self::Revoked,
        Self::Idle,
        Self::TooLong,
        Self::Draining,
        Self::HandedOver,
        Self::Busy,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ClientGone => "client_gone",
            Self::Provider => "provider",
            Self::ProviderGone => "provider_gone",
            Self::Protocol => "protocol",
            Self::Budget => "budget_exhausted",
            Self::RateLimit => "rate_limit_exceeded",
            Self::Revoked => "revoked",
            Self::Idle => "idle",
            Self::TooLong => "too_long",
            Self::Draining => "draining",
            Self::HandedOver => "handed_over",
            Self::Busy => "busy",
        }
    }

    /// The name that records of other requests have for such an end; `None`: they have none.
    pub(super) const fn fault(self) -> Option<&'static str> {
        match self {
            Self::ClientGone => Some("client_gone"),
            Self::ProviderGone => Some("upstream_broken"),
            _ => None,
        }
    }

    pub(super) const fn by(self) -> &'static str {
        match self {
            Self::Client | Self::ClientGone => "client",
            Self::Provider | Self::ProviderGone => "provider",
            _ => "gateway",
        }
    }
}

/// How far the end has come.
#[derive(Debug, Default)]
pub(super) struct ClosingState {
    began: Option<Instant>,
    why: Option<Why>,
    code: Option<u16>,
    reason: String,
    /// Said to them: nothing more can be.
    pub(super) client_told: bool,
    pub(super) provider_told: bool,
    /// Said by them, or they are gone: nothing more comes.
    pub(super) client_done: bool,
    pub(super) provider_done: bool,
}

impl ClosingState {
    /// The first word counts.
    pub(super) fn begin(&mut self, why: Why, code: Option<u16>, reason: &str) {
        if self.why.is_none() {
            (self.began, self.why, self.code) = (Some(Instant::now()), Some(why), code);
            reason.clone_into(&mut self.reason);
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.why.is_some()
    }

    /// Everybody has said and heard it, or had the time to.
    pub(super) fn is_over(&self) -> bool {
        let waited = self.began.is_some_and(|began| began.elapsed() > PATIENCE);
        waited || (self.client_done && self.provider_done)
    }

    pub(super) const fn code(&self) -> Option<u16> {
        self.code
    }

    pub(super) fn why(&self) -> Why {
        self.why.unwrap_or(Why::ClientGone)
    }

    pub(super) fn note(&self) -> RealtimeNote {
        RealtimeNote {
            ended: self.why().label().into(),
            closed_by: self.why().by().into(),
            close_code: self.code,
            close_reason: self.reason.as_str().into(),
            ..RealtimeNote::default()
        }
    }
}
