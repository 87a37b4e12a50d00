//! Callers that were not let in, on either port: each is counted by its reason; some get a line of the access log, and
//! those that name an organisation a row of its audit trail. Anybody can be refused as often as they like, so lines
//! and rows are bounded here, and a request never waits for either. Knows no key and no token.

use crate::metrics::Metrics;
use gateway_admin::{App, audit_turned_away};
use gateway_domain::denied_caller::{TurnedAway, Unwelcome};
use gateway_domain::ports::Doorkeeper;
use gateway_domain::{KeyId, OrgId, Timestamp};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, Opts};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Lines of the access log in a second.
const MOST_LINES: u32 = 100;
/// Rows of the audit trail in an hour: of keys that were known once, and of tokens, for which nobody vouches.
const MOST_ROWS: usize = 300;
/// What waits to be written.
const QUEUE: usize = 512;
/// Rows in one write.
const BATCH: usize = 64;
const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;

/// Whoever is refused again within the hour, from the same address and for the same reason, is told of once.
type AuditedOnce = (Unwelcome, Option<KeyId>, Option<OrgId>, Option<IpAddr>);

#[derive(Debug, Default)]
struct StrangerBounds {
    second: i64,
    lines: u32,
    hour: i64,
    known: HashSet<AuditedOnce>,
    tokens: HashSet<AuditedOnce>,
}

impl StrangerBounds {
    fn takes_line(&mut self, now: Timestamp) -> bool {
        let second = now.micros() / SECOND;
        if self.second != second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= MOST_LINES
    }

    fn takes_row(&mut self, caller: &TurnedAway) -> bool {
        let hour = caller.at.micros() / HOUR;
        if self.hour != hour {
            self.hour = hour;
            self.known.clear();
            self.tokens.clear();
        }
        let stranger = &caller.stranger;
        if stranger.org.is_none() {
            return false;
        }
        let rows = if stranger.key.is_some() { &mut self.known } else { &mut self.tokens };
        rows.len() < MOST_ROWS && rows.insert((stranger.why, stranger.key, stranger.org, caller.client))
    }
}

pub(crate) struct Strangers {
    refused: IntCounterVec,
    untold: IntCounter,
    bounds: Mutex<StrangerBounds>,
    /// `None` without an access log.
    lines: Option<Sender<TurnedAway>>,
    rows: Sender<TurnedAway>,
}

/// What is to be written of them, each by somebody else.
pub(crate) struct StrangerQueues {
    pub(crate) lines: Option<Receiver<TurnedAway>>,
    pub(crate) rows: Receiver<TurnedAway>,
}

impl Strangers {
    pub(crate) fn new(metrics: &Metrics, access_log: bool) -> Result<(Arc<Self>, StrangerQueues), prometheus::Error> {
        let help = "Callers that were not let in, by reason";
        let refused = IntCounterVec::new(Opts::new("gateway_refused_callers_total", help), &["reason"])?;
        Unwelcome::ALL.iter().for_each(|why| drop(refused.with_label_values(&[why.label()])));
        let help = "Refused callers without a line of their own in the access log";
        let untold = IntCounter::new("gateway_refused_callers_unlogged_total", help)?;
        metrics.register(Box::new(refused.clone()))?;
        metrics.register(Box::new(untold.clone()))?;
        let (lines, written) = channel(QUEUE);
        let (rows, kept) = channel(QUEUE);
        let (lines, written) = if access_log { (Some(lines), Some(written)) } else { (None, None) };
        let strangers = Self { refused, untold, bounds: Mutex::default(), lines, rows };
        Ok((Arc::new(strangers), StrangerQueues { lines: written, rows: kept }))
    }
}

impl Doorkeeper for Strangers {
    fn note(&self, caller: TurnedAway) {
        self.refused.with_label_values(&[caller.stranger.why.label()]).inc();
        let (line, row) = {
            let mut bounds = self.bounds.lock();
            (bounds.takes_line(caller.at), bounds.takes_row(&caller))
        };
        if row {
            // A full queue is one of a store that is away: the line stays.
            let _ = self.rows.try_send(caller.clone());
        }
        if let Some(lines) = &self.lines
            && !(line && lines.try_send(caller).is_ok())
        {
            self.untold.inc();
        }
    }
}

/// Writes rows as they come, several in one write where several wait.
pub(crate) fn keep_rows(runtime: &Handle, app: App, mut rows: Receiver<TurnedAway>) {
    runtime.spawn(async move {
        let mut batch = Vec::with_capacity(BATCH);
        while rows.recv_many(&mut batch, BATCH).await > 0 {
            audit_turned_away(&app, &batch).await;
            batch.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::denied_caller::Stranger;
    use std::net::Ipv4Addr;
    use uuid::Uuid;

    fn caller(stranger: Stranger, from: u32, at: i64) -> TurnedAway {
        let client = Some(IpAddr::V4(Ipv4Addr::from_bits(from)));
        let (method, path, message) = ("POST".to_owned(), "/v1/configs".to_owned(), String::new());
        TurnedAway { stranger, at: Timestamp(at), status: 401, message, method, path, client }
    }

    #[test]
    fn rows_and_lines_are_bounded_and_begin_anew() {
        let mut bounds = StrangerBounds::default();
        let taken =
            |bounds: &mut StrangerBounds, at: i64| (0..1_000).filter(|_| bounds.takes_line(Timestamp(at))).count();
        assert_eq!((taken(&mut bounds, 0), taken(&mut bounds, SECOND - 1), taken(&mut bounds, SECOND)), (100, 0, 100));
        let org = OrgId(Uuid::from_u128(1));
        let token = Stranger::with_token(Unwelcome::BadToken, Some(org));
        let expired = Stranger { key: Some(KeyId(Uuid::from_u128(2))), why: Unwelcome::ExpiredKey, ..token };
        let mut rows = |stranger, at| (0..1_000).filter(|n| bounds.takes_row(&caller(stranger, n % 500, at))).count();
        // A caller has one row an hour for each address, and tokens take no row from keys.
        assert_eq!((rows(token, 0), rows(expired, 0), rows(token, HOUR - 1), rows(token, HOUR)), (300, 300, 0, 300));
        assert_eq!(rows(Stranger::unknown(Unwelcome::UnknownKey), HOUR), 0);
    }
}
