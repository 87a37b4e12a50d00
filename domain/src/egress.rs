//! Where the gateway may dial. Shape and names are checked
//! when a host is given, addresses after DNS in the connector. Pure: resolves nothing.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A base URL taken apart. `path` has no trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl BaseUrl {
    /// Checks the form of the address alone: the built-in provider table and trusted settings need no more.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match url.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("must start with http:// or https://"),
        };
        if rest.contains('#') {
            return Err("must not contain a fragment");
        }
        if rest.contains('?') {
            return Err("must not contain a query");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("must not contain credentials");
        }
        let (host, port) = split_port(authority)?;
        if host.is_empty() {
            return Err("must name a host");
        }
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: host.to_ascii_lowercase(), port, path: path.trim_end_matches('/').to_owned() })
    }

    /// Whether both are one place, whatever their paths.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    /// What goes into the `Host` header.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("has an unclosed IPv6 address")?;
        (host, rest.strip_prefix(':'))
    } else {
        match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    match port {
        None => Ok((host, None)),
        Some(p) => match p.parse::<u16>() {
            Ok(n) if n > 0 && p.bytes().all(|b| b.is_ascii_digit()) => Ok((host, Some(n))),
            _ => Err("has a port outside 1..65535"),
        },
    }
}

/// Hosts and CIDRs of `--trusted-custom-hosts`: these may be private. `*.example.org` covers subdomains.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    names: Vec<String>,
    nets: Vec<IpNet>,
}

impl Trusted {
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, String> {
        let mut out = Self::default();
        for item in items.iter().flat_map(|s| s.as_ref().split(',')).map(str::trim).filter(|s| !s.is_empty()) {
            if let Ok(net) = item.parse::<IpNet>() {
                out.nets.push(net);
            } else if let Ok(ip) = item.trim_matches(['[', ']']).parse::<IpAddr>() {
                out.nets.push(IpNet::from(ip));
            } else if item.contains(['/', ':', ' ']) {
                return Err(format!("`{item}` is neither a host name, an address nor a CIDR"));
            } else {
                out.names.push(item.to_ascii_lowercase());
            }
        }
        Ok(out)
    }

    pub fn name(&self, host: &str) -> bool {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.address(ip);
        }
        self.names.iter().any(|n| match n.strip_prefix("*.") {
            Some(suffix) => host.strip_suffix(suffix).is_some_and(|h| h.ends_with('.')),
            None => host == n,
        })
    }

    pub fn address(&self, ip: IpAddr) -> bool {
        self.nets.iter().any(|n| n.contains(&ip))
    }
}

/// A custom host as a client or an admin gives it: the whole rule, save the look-up.
pub fn check_custom_host(url: &str, trusted: &Trusted) -> Result<BaseUrl, &'static str> {
    if url.len() > 2048 {
        return Err("must be at most 2048 characters");
    }
    if url.bytes().any(|b| b.is_ascii_control() || b == b' ' || b == b'\\') {
        return Err("must not contain control characters, blanks or backslashes");
    }
    let base = BaseUrl::parse(url)?;
    if SERVICE_PORTS.contains(&base.port) {
        return Err("names a port that belongs to another service");
    }
    if let Ok(ip) = base.host.parse::<IpAddr>() {
        return match dialable(ip, trusted.address(ip)) {
            Ok(()) => Ok(base),
            Err(why) => Err(why),
        };
    }
    if base.host.contains(':') || !base.host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')) {
        return Err("has a host with characters other than letters, digits, '.' and '-'");
    }
    if base.host.ends_with('.') || base.host.starts_with('.') || base.host.contains("..") {
        return Err("has an empty label in its host");
    }
    let labels: Vec<&str> = base.host.split('.').collect();
    if labels.len() > 10 {
        return Err("has more than 10 labels in its host");
    }
    if labels.iter().any(|l| l.starts_with("xn--")) {
        return Err("must not use punycode");
    }
    if looks_numeric(&labels) {
        return Err("spells an address as a number");
    }
    if METADATA_NAMES.iter().any(|n| is_or_under(&base.host, n)) || labels[0] == "metadata" {
        return Err("names a cloud metadata service");
    }
    if trusted.name(&base.host) {
        return Ok(base);
    }
    if labels.last().is_some_and(|tld| PRIVATE_TLDS.contains(tld)) {
        return Err("is a private or reserved name");
    }
    if REBINDING.iter().any(|d| is_or_under(&base.host, d)) {
        return Err("is a name that resolves to private addresses");
    }
    Ok(base)
}

/// Decimal, octal, hexadecimal and short spellings that some resolvers take for an address.
fn looks_numeric(labels: &[&str]) -> bool {
    let number = |l: &&str| {
        let hex = l.strip_prefix("0x").or_else(|| l.strip_prefix("0X"));
        hex.map_or_else(
            || !l.is_empty() && l.bytes().all(|b| b.is_ascii_digit()),
            |h| h.bytes().all(|b| b.is_ascii_hexdigit()),
        )
    };
    labels.iter().all(number) || labels.last().is_some_and(number)
}

fn is_or_under(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|h| h.is_empty() || h.ends_with('.'))
}

static SERVICE_PORTS: &[u16] = &[
    21, 22, 23, 25, 53, 110, 111, 135, 139, 143, 389, 445, 465, 587, 636, 993, 995, 1433, 1521, 2049, 2375, 2376, 2379,
    2380, 3306, 3389, 5432, 5672, 5900, 5984, 6379, 6443, 9042, 9092, 9200, 9300, 10250, 11211, 27017, 27018, 27019,
];
static PRIVATE_TLDS: &[&str] =
    &["local", "localdomain", "internal", "intranet", "lan", "home", "corp", "test", "invalid", "onion", "localhost"];
static METADATA_NAMES: &[&str] = &[
    "metadata",
    "instance-data",
    "metadata.google.internal",
    "metadata.goog",
    "kubernetes",
    "cluster.local",
    "consul",
];
static REBINDING: &[&str] =
    &["nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "traefik.me", "localhost.run"];

/// Whether a resolved address may be dialled; `trusted` lifts the private ranges, never the metadata addresses.
pub fn dialable(ip: IpAddr, trusted: bool) -> Result<(), &'static str> {
    if is_metadata(ip) {
        return Err("is a cloud metadata address");
    }
    if !trusted && !is_global(ip) {
        return Err("is a private or reserved address");
    }
    Ok(())
}

fn is_metadata(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v) => matches!(
            v.octets(),
            [169, 254, 169, 254]
                | [169, 254, 170, 2 | 23]
                | [100, 100, 100, 200]
                | [168, 63, 129, 16]
                | [192, 0, 0, 192]
        ),
        IpAddr::V6(v) => {
            embedded_v4(v).is_some_and(|m| is_metadata(IpAddr::V4(m)))
                || v.segments()[..6] == [0xfd00, 0xec2, 0, 0, 0, 0]
        }
    }
}

/// Global unicast, also of the IPv4 address that an IPv6 one may carry.
pub fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v) => is_global_v4(v),
        IpAddr::V6(v) => {
            let s = v.segments();
            match embedded_v4(v) {
                Some(inner) => is_global_v4(inner),
                // 2000::/3 without 2001::/23 (Teredo, ORCHID …) and what is for documentation (RFC 3849, RFC 9637).
                None => {
                    s[0] & 0xe000 == 0x2000
                        && !(s[0] == 0x2001 && s[1] < 0x200)
                        && !(s[0] == 0x2001 && s[1] == 0xdb8)
                        && !(s[0] == 0x3fff && s[1] < 0x1000)
                }
            }
        }
    }
}

const fn is_global_v4(v: Ipv4Addr) -> bool {
    let o = v.octets();
    !(v.is_private()
        || v.is_loopback()
        || v.is_link_local()
        || v.is_documentation()
        || o[0] == 0
        || o[0] >= 224
        || (o[0] == 100 && o[1] >= 64 && o[1] < 128)
        || (o[0] == 192 && o[1] == 0 && o[2] == 0)
        || (o[0] == 192 && o[1] == 88 && o[2] == 99)
        || (o[0] == 198 && (o[1] == 18 || o[1] == 19)))
}

/// Mapped, NAT64 and 6to4 addresses lead to the IPv4 address inside.
const fn embedded_v4(v: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(m) = v.to_ipv4_mapped() {
        return Some(m);
    }
    let s = v.segments();
    let [a, b] = s[6].to_be_bytes();
    let [c, d] = s[7].to_be_bytes();
    if s[0] == 0x64 && s[1] == 0xff9b {
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    if s[0] == 0x2002 {
        let ([a, b], [c, d]) = (s[1].to_be_bytes(), s[2].to_be_bytes());
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_refused() {
        let none = Trusted::default();
        for url in [
            "ftp://example.com",
            "file:///etc/passwd",
            "http://user:pw@example.com",
            "http://example.com#f",
            "http://",
            "http://127.0.0.1",
            "http://10.0.0.1/v1",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]",
            "http://[64:ff9b::7f00:1]",
            "http://[2002:7f00:1::]",
            "http://169.254.169.254/latest",
            "http://100.64.1.1",
            "http://198.18.0.1",
            "http://2130706433",
            "http://0x7f000001",
            "http://0177.0.0.1",
            "http://127.1",
            "http://metadata.google.internal",
            "http://metadata/x",
            "http://foo.cluster.local",
            "http://printer.local",
            "http://a.127.0.0.1.nip.io",
            "http://localtest.me",
            "http://example.com:22",
            "http://example.com:0",
            "http://example.com:99999",
            "http://example.com.",
            "http://a.b.c.d.e.f.g.h.i.j.k",
            "http://xn--e1afmkfd.com",
            "http://exa%6dple.com",
            "http://ex ample.com",
            "http://example.com\\@evil",
            "http://localhost:8080",
            "javascript:alert(1)",
        ] {
            assert!(check_custom_host(url, &none).is_err(), "{url}");
        }
    }

    #[test]
    fn hosts_that_pass() {
        let none = Trusted::default();
        let b = check_custom_host("https://api.example.com/v1/", &none).expect("public");
        assert_eq!((b.tls, b.host.as_str(), b.port, b.path.as_str()), (true, "api.example.com", 443, "/v1"));
        assert_eq!(b.authority(), "api.example.com");
        assert!(check_custom_host("http://8.8.8.8:8080", &none).is_ok());
    }

    #[test]
    fn trust_lifts_private_ranges_only() {
        let t = Trusted::parse(&["127.0.0.1,10.0.0.0/8", "vllm.corp", "*.lan"]).expect("valid");
        for url in ["http://127.0.0.1:9", "http://10.9.8.7", "http://vllm.corp:8000/v1", "http://a.lan"] {
            assert!(check_custom_host(url, &t).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.2", "http://lan", "http://10.0.0.1:5432"] {
            assert!(check_custom_host(url, &t).is_err(), "{url}");
        }
        let all = Trusted::parse(&["0.0.0.0/0", "::/0"]).expect("valid");
        assert!(check_custom_host("http://169.254.169.254", &all).is_err());
        assert!(dialable("fd00:ec2::254".parse().expect("ip"), true).is_err());
    }
}
