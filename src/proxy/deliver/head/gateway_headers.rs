//! The gateway's own headers: their names under every prefix, and what an answer tells by them. They go out as lines of
//! text beside a head of HTTP/1, which costs a fraction of entering them into a map and writing that out again, and as
//! members of the map everywhere else. Knows no answer.

use crate::guardrails::HookNotes;
use crate::proxy::record::AttemptInfo;
use crate::proxy::request::Request;
use gateway_domain::counters::{LimitStatus, RateLimitStandings};
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora::http::ResponseHeader;

/// One header under all its prefixes.
pub(super) type Names = Vec<OwnName>;

/// A name, and how a line begins that tells it.
#[derive(Debug)]
pub(super) struct OwnName {
    name: HeaderName,
    start: Box<[u8]>,
}

impl OwnName {
    pub(super) fn new(name: &str) -> Option<Self> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        // The name is leaked and lives as long as the program: all workers would write to the count of a counted one.
        let name = HeaderName::from_static(Box::leak(name.as_str().into()));
        let start = [name.as_str().as_bytes(), b": "].concat().into();
        Some(Self { name, start })
    }
}

/// Names of the headers that tell a limit of requests or of tokens: limit, remaining, reset.
#[derive(Debug)]
pub(super) struct LimitNames {
    pub(super) own: [Names; 3],
    /// What clients of the providers look at, told where the provider does not.
    pub(super) bare: [Names; 3],
}

/// Names made once at start.
#[derive(Debug)]
pub(super) struct OwnNames {
    pub(super) trace_id: Names,
    pub(super) retries: Names,
    pub(super) option_index: Names,
    pub(super) provider: Names,
    pub(super) cache_status: Names,
    pub(super) guardrails: Names,
    pub(super) processing: Names,
    pub(super) adjusted: Names,
    pub(super) shutdown: Names,
    pub(super) ended: Names,
    pub(super) exception: Names,
    pub(super) requests: LimitNames,
    pub(super) tokens: LimitNames,
}

impl OwnNames {
    pub(super) fn new(prefixes: &[&str]) -> Self {
        let names = |suffix: &str| -> Names {
            prefixes.iter().filter_map(|prefix| OwnName::new(&format!("{prefix}{suffix}"))).collect()
        };
        let limits = |kind: &str| {
            let spell = |what: &str| format!("ratelimit-{what}-{kind}");
            let whats = ["limit", "remaining", "reset"];
            let bare = |what: &str| OwnName::new(&format!("x-{}", spell(what))).into_iter().collect();
            LimitNames { own: whats.map(|what| names(&spell(what))), bare: whats.map(bare) }
        };
        Self {
            trace_id: names("trace-id"),
            retries: names("retry-attempt-count"),
            option_index: names("last-used-option-index"),
            provider: names("provider"),
            cache_status: names("cache-status"),
            guardrails: names("guardrails"),
            processing: names("processing-us"),
            adjusted: names("adjusted-params"),
            shutdown: names("model-shutdown"),
            ended: names("provider-shutdown"),
            exception: names("gateway-exception"),
            requests: limits("requests"),
            tokens: limits("tokens"),
        }
    }
}

/// Where headers go.
pub(super) trait HeaderSink {
    /// One header of this name, and no other; `value` writes what it says.
    fn put(&mut self, name: &OwnName, value: impl FnOnce(&mut Vec<u8>));
}

/// Lines of a head of HTTP/1, each with its end.
impl HeaderSink for Vec<u8> {
    fn put(&mut self, name: &OwnName, value: impl FnOnce(&mut Vec<u8>)) {
        self.extend_from_slice(&name.start);
        value(self);
        self.extend_from_slice(b"\r\n");
    }
}

impl HeaderSink for HeaderMap {
    fn put(&mut self, name: &OwnName, value: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::with_capacity(32);
        value(&mut text);
        let value = HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("?"));
        self.insert(name.name.clone(), value);
    }
}

/// Writes text as the value of a header, or that it cannot be one.
pub(super) fn text(text: &str) -> impl Fn(&mut Vec<u8>) {
    move |out| {
        // The fold looks at all bytes though one may decide: without an early end it takes several at a time.
        let is_plain = text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~' | b'\t'));
        out.extend_from_slice(if is_plain { text.as_bytes() } else { b"?" });
    }
}

fn number(number: impl itoa::Integer + Copy) -> impl Fn(&mut Vec<u8>) {
    move |out| out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes())
}

/// Writes a duration like providers do: `6m0s`.
fn duration(seconds: u64) -> impl Fn(&mut Vec<u8>) {
    move |out| {
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        for (told, unit) in [(hours, b'h'), (minutes, b'm'), (seconds % 60, b's')] {
            if told > 0 || unit == b's' || (unit == b'm' && hours > 0) {
                number(told)(out);
                out.push(unit);
            }
        }
    }
}

/// Under each of its names.
pub(super) fn put(sink: &mut impl HeaderSink, names: &Names, value: impl Fn(&mut Vec<u8>)) {
    for name in names {
        sink.put(name, &value);
    }
}

/// What the gateway's own headers tell.
#[derive(Clone, Copy)]
pub(super) struct GatewayResponseHeaders<'a> {
    pub(super) request: &'a Request,
    /// `None`: no target had its turn.
    pub(super) info: Option<&'a AttemptInfo>,
    /// How the tightest limits stand.
    pub(super) limits: RateLimitStandings,
}

/// Which limits, of requests and of tokens, are told by their bare names as well.
pub(super) type BareLimits = [bool; 2];

/// The bare names are the provider's where it told of limits of its own by them. Of others of its headers half a limit
/// would contradict the gateway's, and is dropped.
pub(super) fn free_bare_limits(
    names: &OwnNames,
    limits: RateLimitStandings,
    theirs: &mut ResponseHeader,
) -> BareLimits {
    let told = [limits.requests.is_some(), limits.tokens.is_some()];
    let is_limit = |name: &HeaderName| name.as_str().starts_with("x-ratelimit-");
    if told == [false; 2] || !theirs.headers.keys().any(is_limit) {
        return told;
    }
    let mut free = told;
    for (free, LimitNames { bare, .. }) in
        free.iter_mut().zip([&names.requests, &names.tokens]).filter(|(told, _)| **told)
    {
        let mut bare = bare.iter().flatten().map(|told| &told.name);
        if bare.next().is_some_and(|limit| theirs.headers.contains_key(limit)) {
            *free = false;
        } else {
            bare.for_each(|name| drop(theirs.remove_header(name)));
        }
    }
    free
}

impl GatewayResponseHeaders<'_> {
    pub(super) fn put(&self, names: &OwnNames, sink: &mut impl HeaderSink, bare: BareLimits) {
        put(sink, &names.trace_id, text(&self.request.caller.trace));
        if let Some(info) = self.info {
            self.put_call(names, sink, info);
        }
        let limits = [(&names.requests, self.limits.requests), (&names.tokens, self.limits.tokens)];
        for ((names, standing), bare) in limits.into_iter().zip(bare) {
            if let Some(standing) = standing {
                self.put_limit(names, sink, (standing, bare));
            }
        }
    }

    fn put_call(&self, names: &OwnNames, sink: &mut impl HeaderSink, info: &AttemptInfo) {
        put(sink, &names.retries, number(info.retries));
        put(sink, &names.option_index, text(&info.option_index));
        if !info.provider.is_empty() {
            put(sink, &names.provider, text(info.provider));
        }
        // The cache was not asked for a request that guardrails denied.
        if !info.hooks.as_deref().is_some_and(HookNotes::is_input_denied) {
            put(sink, &names.cache_status, text(info.cache.name()));
        }
        put(sink, &names.processing, number(info.own_work_us(self.request)));
        if let Some(verdicts) = info.hooks.as_deref().and_then(HookNotes::header) {
            put(sink, &names.guardrails, text(&verdicts));
        }
        if !info.adjusted.is_empty() {
            put(sink, &names.adjusted, text(&info.adjusted.join(",")));
        }
        if let Some(day) = info.shutdown {
            put(sink, &names.shutdown, text(day));
        }
        if let Some(service) = info.ended {
            put(sink, &names.ended, text(service.day));
        }
    }

    /// `reset` is whole seconds, and as providers spell it a duration (`6m0s`).
    fn put_limit(&self, names: &LimitNames, sink: &mut impl HeaderSink, (standing, bare): (LimitStatus, bool)) {
        let left = standing.reset_at.0.saturating_sub(self.request.now().0).max(0).unsigned_abs();
        let reset = left.div_ceil(1_000_000);
        let [limits, rests, resets] = &names.own;
        put(sink, limits, number(standing.limit));
        put(sink, rests, number(standing.remaining));
        put(sink, resets, number(reset));
        if bare {
            let [limits, rests, resets] = &names.bare;
            put(sink, limits, number(standing.limit));
            put(sink, rests, number(standing.remaining));
            put(sink, resets, duration(reset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Timestamp;

    fn render(value: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        value(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_are_spelled_as_headers_have_them() {
        assert_eq!([render(number(0)), render(number(u64::MAX))], ["0", "18446744073709551615"]);
        let spelled = [0, 59, 60, 3600, 3661, 86_400].map(|seconds| render(duration(seconds)));
        assert_eq!(spelled, ["0s", "59s", "1m0s", "1h0m0s", "1h1m1s", "24h0m0s"]);
        assert_eq!(render(text("config.targets[0] \t~")), "config.targets[0] \t~");
        for odd in ["a\r\nset-cookie: b", "\0", "\u{7f}", "é"] {
            assert_eq!(render(text(odd)), "?", "{odd:?}");
        }
    }

    #[test]
    fn lines_and_a_map_tell_the_same() {
        let names = OwnNames::new(&["x-gateway-", "x-other-"]);
        let (mut lines, mut map) = (Vec::new(), HeaderMap::new());
        put(&mut lines, &names.retries, number(7));
        put(&mut map, &names.retries, number(6));
        put(&mut map, &names.retries, number(7));
        assert_eq!(lines, b"x-gateway-retry-attempt-count: 7\r\nx-other-retry-attempt-count: 7\r\n");
        let told: Vec<_> =
            map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        assert_eq!(format!("{}\r\n", told.join("\r\n")).into_bytes(), lines);
    }

    #[test]
    fn bare_limits_are_the_providers_where_it_tells_its_own() {
        let names = OwnNames::new(&["x-gateway-"]);
        let standing = LimitStatus { limit: 5, remaining: 4, reset_at: Timestamp(0) };
        let limits = RateLimitStandings { requests: Some(standing), tokens: Some(standing) };
        let left = |theirs: &[&'static str], limits| {
            let mut head = ResponseHeader::build_no_case(200, None).expect("a head");
            for name in theirs {
                head.append_header(*name, "1").expect("a header");
            }
            let free = free_bare_limits(&names, limits, &mut head);
            (free, head.headers.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>())
        };
        let whole = "x-ratelimit-limit-requests";
        let half = "x-ratelimit-reset-requests";
        assert_eq!(left(&["date"], limits), ([true, true], vec!["date".to_owned()]));
        assert_eq!(left(&[whole, half], limits), ([false, true], vec![whole.to_owned(), half.to_owned()]));
        assert_eq!(left(&[half], limits), ([true, true], vec![]));
        assert_eq!(left(&[half], RateLimitStandings::default()), ([false, false], vec![half.to_owned()]));
    }
}
