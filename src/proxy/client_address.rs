//! Where a client is, by its connection and by what trusted proxies in front of the gateway say of it. Knows neither
//! who the client is nor what it asks.

use ipnet::IpNet;
use pingora::proxy::Session;
use std::net::IpAddr;

/// The client's address; `X-Forwarded-For` counts only from a trusted proxy.
pub(crate) fn client_ip(session: &Session, trusted: &[IpNet]) -> Option<IpAddr> {
    let peer = session.client_addr()?.as_inet()?.ip();
    if !is_within(trusted, peer) {
        return Some(peer);
    }
    let forwarded = session.get_header("x-forwarded-for").and_then(|v| v.to_str().ok()).unwrap_or_default();
    Some(outermost(peer, forwarded, trusted))
}

fn is_within(trusted: &[IpNet], address: IpAddr) -> bool {
    trusted.iter().any(|n| n.contains(&address))
}

/// Read from the right end, as each proxy adds whom it heard: up to the first that is not trusted to say whom it heard.
fn outermost(peer: IpAddr, forwarded: &str, trusted: &[IpNet]) -> IpAddr {
    let hops = forwarded.rsplit(',').filter_map(|h| h.trim().parse::<IpAddr>().ok());
    let mut outermost = peer;
    for hop in hops {
        outermost = hop;
        if !is_within(trusted, hop) {
            break;
        }
    }
    outermost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_say_whom_they_heard() {
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].iter().map(|n| n.parse().expect("a network")).collect();
        for (forwarded, client) in [
            ("", "10.0.0.1"),
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, 10.0.0.2", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7, fd00::2", "203.0.113.7"),
            ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("203.0.113.7, unknown", "203.0.113.7"),
        ] {
            let peer = "10.0.0.1".parse().expect("an address");
            assert_eq!(outermost(peer, forwarded, &trusted).to_string(), client, "{forwarded}");
        }
    }
}
