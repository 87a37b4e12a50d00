//! Durations, sizes and addresses as people write them on a command line: `500ms`, `30s`, `64MiB`, `localhost:8787`.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// A duration; `0` where a setting allows it means "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl TimeSpan {
    pub(crate) const fn secs(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    pub(crate) const fn millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// `None` for zero.
    pub(crate) fn limit(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let split = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let wrong = || format!("`{s}` is not a duration such as 500ms, 30s, 5m or 2h");
        let n: u64 = s[..split].parse().map_err(|_| wrong())?;
        let ms = match &s[split..] {
            "ms" => Some(n),
            "s" | "" => n.checked_mul(1_000),
            "m" => n.checked_mul(60_000),
            "h" => n.checked_mul(3_600_000),
            _ => None,
        };
        ms.map(|ms| Self(Duration::from_millis(ms))).ok_or_else(wrong)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        if ms.is_multiple_of(1000) { write!(f, "{}s", ms / 1000) } else { write!(f, "{ms}ms") }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl Size {
    pub(crate) const fn mib(n: usize) -> Self {
        Self(n << 20)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let split = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let wrong = || format!("`{s}` is not a size such as 4096, 64KiB, 64MiB or 1GiB");
        let n: usize = s[..split].parse().map_err(|_| wrong())?;
        let shift = match s[split..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            _ => return Err(wrong()),
        };
        n.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 30 && n % (1 << 30) == 0 => write!(f, "{}GiB", n >> 30),
            n if n >= 1 << 20 && n % (1 << 20) == 0 => write!(f, "{}MiB", n >> 20),
            n if n >= 1 << 10 && n % (1 << 10) == 0 => write!(f, "{}KiB", n >> 10),
            n => write!(f, "{n}"),
        }
    }
}

/// Where to listen. A name stands for its first address, one of IPv4 before one of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if let Ok(address) = s.parse() {
            return Ok(Self(address));
        }
        let wrong = || format!("`{s}` is not an address and port such as 127.0.0.1:8787, [::1]:8787 or localhost:8787");
        let named = s.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !named {
            return Err(wrong());
        }
        let mut found: Vec<SocketAddr> = s.to_socket_addrs().map_err(|e| format!("{}: {e}", wrong()))?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().map(Self).ok_or_else(wrong)
    }
}

impl From<ListenAddress> for SocketAddr {
    fn from(address: ListenAddress) -> Self {
        address.0
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d)
    }
}

/// All of a port's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddresses(pub(crate) Vec<SocketAddr>);

impl ListenAddresses {
    pub(crate) fn loopback(port: u16) -> Self {
        Self(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    }
}

impl From<Vec<ListenAddress>> for ListenAddresses {
    fn from(all: Vec<ListenAddress>) -> Self {
        Self(all.into_iter().map(|address| address.0).collect())
    }
}

impl fmt::Display for ListenAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(","))
    }
}

/// Calls whose bodies records keep (`--log-bodies`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LogBodies {
    None,
    Errors,
    /// This share of all calls, in 0..1, and every call that fails.
    Share(f64),
    All,
}

impl FromStr for LogBodies {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "none" => Ok(Self::None),
            "errors" => Ok(Self::Errors),
            "all" => Ok(Self::All),
            _ => match s.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Share(share)),
                _ => Err(format!("`{s}` is not one of none, errors, all, or a share of 0..1 such as 0.1")),
            },
        }
    }
}

impl fmt::Display for LogBodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Errors => f.write_str("errors"),
            Self::Share(share) => share.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for LogBodies {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d)
    }
}

/// A settings file may write either as text or, for seconds and bytes, as a bare number.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
    Fraction(f64),
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(d: D) -> Result<T, D::Error> {
    let text = match TextOrNumber::deserialize(d)? {
        TextOrNumber::Text(s) => s,
        TextOrNumber::Number(n) => n.to_string(),
        TextOrNumber::Fraction(n) => n.to_string(),
    };
    text.parse().map_err(serde::de::Error::custom)
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        assert_eq!("500ms".parse(), Ok(TimeSpan::millis(500)));
        assert_eq!("30".parse(), Ok(TimeSpan::secs(30)));
        assert_eq!("2h".parse(), Ok(TimeSpan::secs(7200)));
        assert!(
            "soon".parse::<TimeSpan>().is_err() && "5d".parse::<TimeSpan>().is_err() && "".parse::<TimeSpan>().is_err()
        );
        assert_eq!(TimeSpan::millis(1500).to_string(), "1500ms");
    }

    #[test]
    fn addresses() {
        let of = |text: &str| text.parse::<ListenAddress>().map(|a| SocketAddr::from(a).to_string());
        assert_eq!(of("0.0.0.0:80"), Ok("0.0.0.0:80".to_owned()));
        assert_eq!(of("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert_eq!(of("localhost:8787"), Ok("127.0.0.1:8787".to_owned()));
        for wrong in ["localhost", ":80", "80", "localhost:http", "localhost:70000"] {
            assert!(of(wrong).is_err_and(|why| why.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn shares_of_bodies() {
        for (text, read) in [("none", LogBodies::None), ("all", LogBodies::All), ("0.25", LogBodies::Share(0.25))] {
            assert_eq!(text.parse(), Ok(read));
            assert_eq!(read.to_string(), text);
        }
        assert!(["some", "1.1", "-0.1", "NaN", ""].iter().all(|s| s.parse::<LogBodies>().is_err()));
    }

    #[test]
    fn sizes() {
        assert_eq!("64MiB".parse(), Ok(Size::mib(64)));
        assert_eq!("4096".parse(), Ok(Size(4096)));
        assert_eq!(Size(4096).to_string(), "4KiB");
        assert!("many".parse::<Size>().is_err() && "99999999999999999999G".parse::<Size>().is_err());
    }
}
