//! How often an address may ask for what costs something: counted by the minute on each node, within a bound of
//! addresses. All addresses of one IPv6 network are one.

use super::fault::OauthFault;
use gateway_domain::time::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

const WINDOW_MICROS: i64 = 60 * 1_000_000;
const MOST_ADDRESSES: usize = 20_000;

/// What is counted, each by itself.
#[derive(Debug)]
pub(super) struct Paces {
    /// Clients that register.
    pub(super) register: OauthPace,
    /// Documents that clients would have fetched.
    pub(super) fetch: OauthPace,
    /// Pages of sign-in that are asked for.
    pub(super) page: OauthPace,
    /// Keys that were typed and are none, and tickets that do not fit.
    pub(super) failed_sign_in: OauthPace,
    /// Codes and tokens that are none.
    pub(super) failed_token: OauthPace,
}

impl Default for Paces {
    fn default() -> Self {
        Self {
            register: OauthPace::new(30),
            fetch: OauthPace::new(30),
            page: OauthPace::new(120),
            failed_sign_in: OauthPace::new(10),
            failed_token: OauthPace::new(60),
        }
    }
}

#[derive(Debug)]
pub(super) struct OauthPace {
    most: u32,
    seen: Mutex<HashMap<IpAddr, AddressCount>>,
}

#[derive(Clone, Copy, Debug)]
struct AddressCount {
    since: Timestamp,
    count: u32,
}

impl AddressCount {
    fn is_over(self, now: Timestamp) -> bool {
        !(0..WINDOW_MICROS).contains(&now.micros().saturating_sub(self.since.micros()))
    }
}

impl OauthPace {
    fn new(most: u32) -> Self {
        Self { most, seen: Mutex::default() }
    }

    /// Whether less came than may come; counts nothing.
    pub(super) fn check(&self, from: Option<IpAddr>, now: Timestamp) -> Result<(), OauthFault> {
        let seen = self.seen.lock();
        let full = seen.get(&network(from)).is_some_and(|counted| !counted.is_over(now) && counted.count >= self.most);
        if full { Err(OauthFault::too_many()) } else { Ok(()) }
    }

    pub(super) fn count(&self, from: Option<IpAddr>, now: Timestamp) {
        let mut seen = self.seen.lock();
        let address = network(from);
        if seen.len() >= MOST_ADDRESSES && !seen.contains_key(&address) {
            seen.retain(|_, counted| !counted.is_over(now));
            // So many addresses at once are not told apart any more: the count begins anew for all.
            if seen.len() >= MOST_ADDRESSES {
                seen.clear();
            }
        }
        let counted = seen.entry(address).or_insert(AddressCount { since: now, count: 0 });
        if counted.is_over(now) {
            *counted = AddressCount { since: now, count: 0 };
        }
        counted.count = counted.count.saturating_add(1);
    }

    /// Counts what is allowed.
    pub(super) fn pass(&self, from: Option<IpAddr>, now: Timestamp) -> Result<(), OauthFault> {
        self.check(from, now)?;
        self.count(from, now);
        Ok(())
    }
}

fn network(from: Option<IpAddr>) -> IpAddr {
    match from.map(|ip| ip.to_canonical()) {
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        Some(v4) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_its_own_count_for_a_minute() {
        let pace = OauthPace::new(2);
        let ip = |text: &str| Some(text.parse().expect("an address"));
        let (one, now) = (ip("2001:db8:1:2::1"), Timestamp(1_000));
        assert!(pace.pass(one, now).is_ok() && pace.pass(ip("2001:db8:1:2::9"), now).is_ok());
        assert_eq!(pace.pass(one, now), Err(OauthFault::too_many()));
        assert!(pace.pass(ip("2001:db8:1:3::1"), now).is_ok() && pace.pass(ip("192.0.2.1"), now).is_ok());
        assert!(pace.pass(one, now.plus_micros(WINDOW_MICROS)).is_ok());
        assert!(pace.pass(None, now).is_ok());
    }

    #[test]
    fn addresses_are_bounded() {
        let pace = OauthPace::new(1);
        for n in 0..u32::try_from(MOST_ADDRESSES).expect("small") + 5 {
            pace.count(Some(IpAddr::from(Ipv4Addr::from(n))), Timestamp(0));
        }
        assert!(pace.seen.lock().len() <= MOST_ADDRESSES);
        let later = Timestamp(WINDOW_MICROS);
        for n in 0..10 {
            pace.count(Some(IpAddr::from(Ipv4Addr::from(0xffff_0000 + n))), later);
        }
        assert!(pace.seen.lock().len() <= MOST_ADDRESSES);
    }
}
