//! What Prometheus may know of realtime sessions. Labels are words of the gateway's own.

use super::close_state::Why;
use crate::metrics::Metrics;
use prometheus::{IntCounterVec, IntGauge, Opts};

#[derive(Clone, Debug)]
pub(crate) struct LiveCounts {
    open: IntGauge,
    messages: IntCounterVec,
    turns: IntCounterVec,
    ended: IntCounterVec,
}

/// A session that is open, until this is dropped.
#[derive(Debug)]
pub(super) struct OpenSession(IntGauge);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What became of a response or a transcript.
#[derive(Clone, Copy, Debug)]
pub(super) enum TurnEnd {
    Settled,
    /// The provider never said what it used.
    Estimated,
    Denied,
}

impl LiveCounts {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let open = IntGauge::new("gateway_realtime_sessions", "Realtime sessions that are open")?;
        let counter = |name: &str, help: &str, label: &str| IntCounterVec::new(Opts::new(name, help), &[label]);
        let messages =
            counter("gateway_realtime_messages_total", "Messages in realtime sessions, by who said them", "from")?;
        let help = "Responses and transcripts in realtime sessions, by what became of them";
        let turns = counter("gateway_realtime_turns_total", help, "outcome")?;
        let ended = counter("gateway_realtime_ended_total", "Realtime sessions that ended, by why", "why")?;
        metrics.register(Box::new(open.clone()))?;
        for counted in [&messages, &turns, &ended] {
            metrics.register(Box::new(counted.clone()))?;
        }
        // What was never counted is shown as nothing, lest a panel look broken.
        ["client", "provider"].iter().for_each(|from| drop(messages.with_label_values(&[from])));
        ["settled", "estimated", "denied"].iter().for_each(|end| drop(turns.with_label_values(&[end])));
        Why::ALL.iter().for_each(|why| drop(ended.with_label_values(&[why.label()])));
        Ok(Self { open, messages, turns, ended })
    }

    pub(super) fn open(&self) -> OpenSession {
        self.open.inc();
        OpenSession(self.open.clone())
    }

    pub(super) fn turn(&self, end: TurnEnd) {
        let label = match end {
            TurnEnd::Settled => "settled",
            TurnEnd::Estimated => "estimated",
            TurnEnd::Denied => "denied",
        };
        self.turns.with_label_values(&[label]).inc();
    }

    /// A session is over, in which so many messages went each way.
    pub(super) fn end(&self, why: &str, up: u64, down: u64) {
        self.ended.with_label_values(&[why]).inc();
        self.messages.with_label_values(&["client"]).inc_by(up);
        self.messages.with_label_values(&["provider"]).inc_by(down);
    }
}
