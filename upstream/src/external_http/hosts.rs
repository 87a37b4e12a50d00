//! How the services stand that are called: how many calls of each are under way, and which of them rest after a row of
//! errors, so that a dead one costs requests nothing but its name. Bounded in hosts; one that is forgotten begins anew.

use super::AfterErrors;
use ahash::AHashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Calls of one host that are under way.
const MOST_CALLS: usize = 256;
/// Errors in a row after which a host rests, and for how long.
const ERRORS: u32 = 5;
const REST: Duration = Duration::from_secs(5);
const MOST_HOSTS: usize = 4096;

#[derive(Debug, Default)]
struct HostStanding {
    calls: usize,
    errors: u32,
    rests_until: Option<Instant>,
}

type HostTable = Arc<Mutex<AHashMap<Box<str>, HostStanding>>>;

#[derive(Debug)]
pub(super) struct Hosts {
    table: HostTable,
    after_errors: AfterErrors,
}

/// Why a host is not asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    Busy,
    Resting,
}

/// A call that is under way, until dropped. One that is given up says nothing of its host.
#[derive(Debug)]
pub(super) struct HostCall {
    table: HostTable,
    host: Box<str>,
    after_errors: AfterErrors,
}

impl Hosts {
    pub(super) fn new(after_errors: AfterErrors) -> Self {
        Self { table: HostTable::default(), after_errors }
    }

    pub(super) fn enter(&self, host: &str, now: Instant) -> Result<HostCall, NotNow> {
        let mut table = self.table.lock();
        if table.len() >= MOST_HOSTS && !table.contains_key(host) {
            table.retain(|_, standing| standing.calls > 0 || standing.rests_until.is_some_and(|until| until > now));
            if table.len() >= MOST_HOSTS {
                return Err(NotNow::Busy);
            }
        }
        let standing = table.entry(host.into()).or_default();
        if standing.rests_until.is_some_and(|until| until > now) {
            return Err(NotNow::Resting);
        }
        if standing.calls >= MOST_CALLS {
            return Err(NotNow::Busy);
        }
        standing.calls += 1;
        Ok(HostCall { table: self.table.clone(), host: host.into(), after_errors: self.after_errors })
    }
}

impl HostCall {
    /// The host answered, whatever it said, or it did not.
    pub(super) fn note(&self, answered: bool, now: Instant) {
        let mut table = self.table.lock();
        let Some(standing) = table.get_mut(&self.host) else { return };
        if answered {
            (standing.errors, standing.rests_until) = (0, None);
            return;
        }
        standing.errors = standing.errors.saturating_add(1);
        if standing.errors >= ERRORS && self.after_errors == AfterErrors::Rest {
            (standing.errors, standing.rests_until) = (0, Some(now + REST));
        }
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(standing) = table.get_mut(&self.host) {
            standing.calls -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_errors_in_a_row_rest_a_host() {
        let (hosts, now) = (Hosts::new(AfterErrors::Rest), Instant::now());
        let fail = |answered: bool| hosts.enter("a:443", now).expect("awake").note(answered, now);
        for answered in [false, false, false, false, true, false, false, false, false] {
            fail(answered);
        }
        fail(false);
        assert_eq!(hosts.enter("a:443", now).err(), Some(NotNow::Resting));
        assert!(hosts.enter("b:443", now).is_ok(), "another host is asked");
        let later = now + REST;
        assert!(hosts.enter("a:443", later).is_ok(), "it may try again");
    }

    #[test]
    fn whoever_has_a_pace_of_its_own_asks_on() {
        let (hosts, now) = (Hosts::new(AfterErrors::GoOn), Instant::now());
        for _ in 0..ERRORS * 2 {
            hosts.enter("a:443", now).expect("awake").note(false, now);
        }
        assert!(hosts.enter("a:443", now).is_ok());
    }

    #[test]
    fn calls_under_way_are_bounded_for_each_host() {
        let (hosts, now) = (Hosts::new(AfterErrors::Rest), Instant::now());
        let mut calls: Vec<HostCall> = (0..MOST_CALLS).map(|_| hosts.enter("a", now).expect("room")).collect();
        assert_eq!(hosts.enter("a", now).err(), Some(NotNow::Busy));
        calls.pop();
        assert!(hosts.enter("a", now).is_ok());
    }

    #[test]
    fn hosts_are_bounded() {
        let (hosts, now) = (Hosts::new(AfterErrors::Rest), Instant::now());
        for n in 0..MOST_HOSTS * 2 {
            assert!(hosts.enter(&n.to_string(), now).is_ok());
        }
        assert!(hosts.table.lock().len() <= MOST_HOSTS);
    }
}
