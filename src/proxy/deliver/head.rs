//! Heads of answers: what is copied from upstream, and the gateway's own headers beside it, under every
//! prefix that clients know. Sends nothing.

mod form;

use crate::guardrails::HookNotes;
use crate::proxy::client::SmallAnswer;
use crate::proxy::headers::{PREFIX, suffix_of};
use crate::proxy::record::AttemptInfo;
use crate::proxy::request::Request;
use crate::upstream::http1::ResponseHead;
use bytes::Bytes;
use form::{BARE_LIMITS, Figure, HeaderChoice, HeaderForms, HeaderSlot, KINDS, LimitKind, LimitNames, Marks};
use gateway_domain::counters::{LimitStatus, Standings};
use gateway_domain::{Dialect, Fault, FaultKind};
use http::response::Parts as RespParts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use pingora::http::ResponseHeader;
use smol_str::SmolStrBuilder;

/// One header name for each prefix.
type Names = Vec<HeaderName>;

/// Names made once at start.
#[derive(Debug)]
pub(crate) struct ReplyNames {
    trace_id: Names,
    retries: Names,
    option_index: Names,
    provider: Names,
    cache_status: Names,
    guardrails: Names,
    processing: Names,
    adjusted: Names,
    shutdown: Names,
    ended: Names,
    exception: Names,
    /// Of requests and of tokens: limit, remaining, reset.
    limits: [[Names; 3]; 2],
    forms: HeaderForms,
    /// Prefixes beside the usual one.
    aliases: Vec<String>,
}

/// What the head of an answer of the gateway's own has room for without growing.
const FEW_HEADERS: usize = 6;
/// Official SDKs wait no longer than this because they are told to; they would repeat sooner, for nothing.
const LONGEST_SDK_WAIT_MS: u64 = 60_000;

impl ReplyNames {
    pub(crate) fn new(aliases: &[String]) -> Self {
        let prefixes: Vec<&str> = std::iter::once(PREFIX).chain(aliases.iter().map(String::as_str)).collect();
        // For good, as the program itself: names that are counted would have all workers write to the same counts.
        let lasting = |name: HeaderName| HeaderName::from_static(Box::leak(name.as_str().into()));
        let names = |suffix: &str| {
            let valid = prefixes.iter().filter_map(|p| HeaderName::from_bytes(format!("{p}{suffix}").as_bytes()).ok());
            valid.map(lasting).collect()
        };
        Self {
            aliases: aliases.to_vec(),
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
            limits: ["requests", "tokens"]
                .map(|kind| ["limit", "remaining", "reset"].map(|what| names(&format!("ratelimit-{what}-{kind}")))),
            forms: HeaderForms::new(),
        }
    }

    fn of(&self, slot: HeaderSlot) -> &Names {
        match slot {
            HeaderSlot::TraceId => &self.trace_id,
            HeaderSlot::Retries => &self.retries,
            HeaderSlot::OptionIndex => &self.option_index,
            HeaderSlot::Provider => &self.provider,
            HeaderSlot::CacheStatus => &self.cache_status,
            HeaderSlot::Processing => &self.processing,
            HeaderSlot::Limit(kind, figure) | HeaderSlot::BareLimit(kind, figure) => {
                &self.limits[kind as usize][figure as usize]
            }
        }
    }
}

fn empty_head() -> ResponseHeader {
    http::Response::new(()).into_parts().0.into()
}

/// A head without names' casing (cheaper to write), never failing for a valid status.
pub(crate) fn bare_head(status: u16) -> Box<ResponseHeader> {
    Box::new(ResponseHeader::build_no_case(status, Some(FEW_HEADERS)).unwrap_or_else(|_| empty_head()))
}

/// Edits the map itself: Pingora's setters parse and copy each name anew, which names made at start do not need.
/// Only for heads without names' casing, which would be lost.
fn edit(head: &mut ResponseHeader, with: impl FnOnce(&mut HeaderMap)) {
    let mut parts = RespParts::from(std::mem::replace(head, empty_head()));
    with(&mut parts.headers);
    *head = parts.into();
}

/// The upstream's head without what belongs to the hop; `remade` drops what no longer fits a body that the
/// gateway wrote anew.
pub(crate) fn copy_head(from: &ResponseHead, remade: bool) -> Box<ResponseHeader> {
    let mut parts = RespParts::from(empty_head());
    parts.status = StatusCode::from_u16(from.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    parts.headers.reserve(from.headers().len());
    for (name, value) in from.headers() {
        // Another address of the provider's is none of the gateway's.
        let is_foreign = name.as_str() == "alt-svc" || name.as_str().starts_with(PREFIX);
        if is_foreign || (remade && *name == header::CONTENT_LENGTH) {
            continue;
        }
        parts.headers.append(name.clone(), value.clone());
    }
    Box::new(parts.into())
}

/// Nobody but the gateway speaks under its names: what a provider says there is dropped.
fn drop_own(names: &ReplyNames, headers: &mut HeaderMap) {
    if names.aliases.is_empty() {
        return;
    }
    let own = |name: &&HeaderName| suffix_of(name.as_str(), &names.aliases).is_some();
    let theirs: Vec<HeaderName> = headers.keys().filter(own).cloned().collect();
    theirs.iter().for_each(|name| drop(headers.remove(name)));
}

fn put(headers: &mut HeaderMap, names: &Names, value: HeaderValue) {
    let Some((usual, aliases)) = names.split_first() else { return };
    // Nothing of these names is left of what upstream said, so there is nothing to replace.
    for name in aliases {
        headers.append(name.clone(), value.clone());
    }
    headers.append(usual.clone(), value);
}

/// Places of targets that most calls are answered from; others are copied.
const PLACES: [&str; 5] =
    ["config", "config.targets[0]", "config.targets[1]", "config.targets[2]", "config.targets[3]"];

fn place(of: &str) -> HeaderValue {
    PLACES.iter().find(|place| **place == of).map_or_else(|| text(of), |place| HeaderValue::from_static(place))
}

fn text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("?"))
}

/// Three digits of each number below a thousand.
static DIGITS: [[u8; 3]; 1000] = {
    let (mut all, mut number) = ([[b'0'; 3]; 1000], 0);
    while number < all.len() {
        all[number] = [b'0' + (number / 100) as u8, b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    all
};

/// The digits of a number below a thousand, which most of those that are told are: they need no memory of their own.
fn few_digits(number: usize) -> Option<&'static str> {
    let digits = DIGITS.get(number)?;
    str::from_utf8(&digits[usize::from(number < 100) + usize::from(number < 10)..]).ok()
}

fn number(number: impl itoa::Integer + Into<i128> + Copy) -> HeaderValue {
    match usize::try_from(number.into()).ok().and_then(few_digits) {
        Some(digits) => HeaderValue::from_static(digits),
        None => text(itoa::Buffer::new().format(number)),
    }
}

/// As providers spell it: `6m0s`.
fn duration(seconds: u64) -> HeaderValue {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut told = SmolStrBuilder::new();
    let mut digits = itoa::Buffer::new();
    for (number, unit) in [(hours, 'h'), (minutes, 'm'), (seconds % 60, 's')] {
        if number > 0 || unit == 's' || (unit == 'm' && hours > 0) {
            told.push_str(digits.format(number));
            told.push(unit);
        }
    }
    text(&told.finish())
}

/// Limits that were told once, and may be told again by another name.
type ToldLimits = [[Option<HeaderValue>; 2]; 2];

/// What of the gateway's own headers is known before any target has answered.
pub(crate) fn announce(names: &ReplyNames, head: &mut ResponseHeader, request: &Request) {
    edit(head, |headers| put(headers, &names.trace_id, request.caller.trace_value.clone()));
}

/// The gateway's own headers on an answer of a target.
pub(crate) fn decorate(names: &ReplyNames, head: &mut ResponseHeader, request: &Request, info: &AttemptInfo) {
    edit(head, |headers| {
        drop_own(names, headers);
        mark(names, headers, Told { request, info: Some(info), limits: info.limits });
    });
    if head.status.as_u16() == 246 {
        let named = head.set_reason_phrase(Some("Hooks failed"));
        debug_assert!(named.is_ok(), "a plain phrase");
    }
}

/// What the gateway's own headers tell.
#[derive(Clone, Copy)]
struct Told<'a> {
    request: &'a Request,
    /// `None`: no target had its turn.
    info: Option<&'a AttemptInfo>,
    /// How the tightest limits stand.
    limits: Standings,
}

impl Told<'_> {
    /// Of a request that was denied the cache was not asked.
    fn marks(&self) -> Marks {
        let Some(info) = self.info else { return Marks::TraceId };
        let has_cache = !info.hooks.as_deref().is_some_and(HookNotes::is_input_denied);
        Marks::Call { has_provider: !info.provider.is_empty(), has_cache }
    }

    fn standing(&self, kind: LimitKind) -> Option<LimitStatus> {
        match kind {
            LimitKind::Requests => self.limits.requests,
            LimitKind::Tokens => self.limits.tokens,
        }
    }

    /// Limits stand under the gateway's names, and under the bare ones where the provider told none of its own. `reset` is
    /// whole seconds, and as providers spell it a duration (`6m0s`).
    fn value(&self, slot: HeaderSlot, told: &mut ToldLimits) -> HeaderValue {
        let none = || HeaderValue::from_static("");
        match (slot, self.info) {
            (HeaderSlot::TraceId, _) => self.request.caller.trace_value.clone(),
            (HeaderSlot::Retries, Some(info)) => number(info.retries),
            (HeaderSlot::OptionIndex, Some(info)) => place(&info.option_index),
            (HeaderSlot::Provider, Some(info)) => HeaderValue::from_static(info.provider),
            (HeaderSlot::CacheStatus, Some(info)) => HeaderValue::from_static(info.cache.name()),
            (HeaderSlot::Processing, Some(info)) => number(info.own_work_us(self.request)),
            (HeaderSlot::Limit(kind, Figure::Reset), _) => self.figure(kind, Figure::Reset).map_or_else(none, number),
            (HeaderSlot::Limit(kind, figure), _) => {
                let value = self.figure(kind, figure).map_or_else(none, number);
                told[kind as usize][figure as usize] = Some(value.clone());
                value
            }
            (HeaderSlot::BareLimit(kind, Figure::Reset), _) => {
                self.figure(kind, Figure::Reset).map_or_else(none, duration)
            }
            (HeaderSlot::BareLimit(kind, figure), _) => match told[kind as usize][figure as usize].take() {
                Some(told) => told,
                None => self.figure(kind, figure).map_or_else(none, number),
            },
            (_, None) => none(),
        }
    }

    fn figure(&self, kind: LimitKind, figure: Figure) -> Option<u64> {
        let standing = self.standing(kind)?;
        let left = || standing.reset_at.0.saturating_sub(self.request.now().0).max(0).unsigned_abs();
        Some(match figure {
            Figure::Limit => standing.limit,
            Figure::Remaining => standing.remaining,
            Figure::Reset => left().div_ceil(1_000_000),
        })
    }
}

/// The gateway's own headers, and behind them what is in `head` already.
fn mark(names: &ReplyNames, head: &mut HeaderMap, told: Told<'_>) {
    let limits = KINDS.map(|kind| match told.standing(kind) {
        None => LimitNames::None,
        Some(_) if head.contains_key(&BARE_LIMITS[kind as usize][0]) => LimitNames::Own,
        Some(_) => LimitNames::OwnAndBare,
    });
    let mut figures = ToldLimits::default();
    let choice = HeaderChoice { marks: told.marks(), limits };
    let own = names.forms.fill(choice, |slot| names.of(slot), |slot| told.value(slot, &mut figures));
    let theirs = std::mem::replace(head, own);
    let mut last = None;
    for (name, value) in theirs {
        last = name.or(last);
        let Some(name) = &last else { continue };
        // Half a limit of the provider's would contradict the gateway's.
        if !is_retold(name, limits) {
            head.append(name, value);
        }
    }
    let Some(info) = told.info else { return };
    if let Some(verdicts) = info.hooks.as_deref().and_then(HookNotes::header) {
        put(head, &names.guardrails, text(&verdicts));
    }
    if !info.adjusted.is_empty() {
        put(head, &names.adjusted, text(&info.adjusted.join(",")));
    }
    if let Some(day) = info.shutdown {
        put(head, &names.shutdown, HeaderValue::from_static(day));
    }
    if let Some(service) = info.ended {
        put(head, &names.ended, HeaderValue::from_static(service.day));
    }
}

/// The gateway says this by the same name.
fn is_retold(name: &HeaderName, limits: [LimitNames; 2]) -> bool {
    let retold = |kind: &LimitKind| {
        limits[*kind as usize] == LimitNames::OwnAndBare && BARE_LIMITS[*kind as usize].contains(name)
    };
    name.as_str().starts_with("x-ratelimit-") && KINDS.iter().any(retold)
}

pub(crate) fn fault_head(
    names: &ReplyNames,
    request: &Request,
    fault: &Fault,
    info: &AttemptInfo,
) -> Box<ResponseHeader> {
    let mut head = plain_fault_head(names, fault);
    let limits = info.limits.tighter(fault.limits());
    edit(&mut head, |headers| {
        mark(names, headers, Told { request, info: Some(info), limits });
        tell_line(headers, request, fault);
    });
    head
}

/// Tells a line of a batch, which waits for as long as that, when a budget begins anew.
fn tell_line(headers: &mut HeaderMap, request: &Request, fault: &Fault) {
    if let (Some(at), true) = (fault.anew_at(), request.caller.tenant.line.is_some()) {
        let wait = at.micros().saturating_sub(request.now().micros()).max(0) / 1_000_000;
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait + 1));
    }
}

fn plain_fault_head(names: &ReplyNames, fault: &Fault) -> Box<ResponseHeader> {
    let mut head = bare_head(fault.status());
    edit(&mut head, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(ms) = fault.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
            headers.insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(ms));
        }
        let hopeless = fault.retry_after().is_some_and(|ms| ms > LONGEST_SDK_WAIT_MS);
        let never = matches!(fault.kind(), FaultKind::BudgetExhausted | FaultKind::Unsupported);
        if never || (fault.kind() == FaultKind::RateLimited && hopeless) {
            headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        if fault.kind().row().exception {
            put(headers, &names.exception, HeaderValue::from_static("true"));
        }
    });
    head
}

/// The answer to a request that never reached a target.
pub(crate) fn refusal(names: &ReplyNames, fault: &Fault, dialect: Dialect, request: Option<&Request>) -> SmallAnswer {
    let mut head = plain_fault_head(names, fault);
    if let Some(request) = request {
        edit(&mut head, |headers| {
            mark(names, headers, Told { request, info: None, limits: fault.limits() });
            tell_line(headers, request, fault);
        });
    }
    SmallAnswer { head, body: fault.body(dialect).into() }
}

/// The head of an answer that no target gave and no fault is.
pub(crate) fn own_head(names: &ReplyNames, status: u16, request: &Request) -> Box<ResponseHeader> {
    let mut head = bare_head(status);
    edit(&mut head, |headers| mark(names, headers, Told { request, info: None, limits: Standings::default() }));
    head
}

/// A small answer of the gateway's own to a known caller.
pub(crate) fn json_answer(names: &ReplyNames, request: &Request, body: Bytes) -> SmallAnswer {
    let mut head = bare_head(200);
    edit(&mut head, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    });
    decorate(names, &mut head, request, &AttemptInfo::default());
    SmallAnswer { head, body }
}

/// The head of an answer from the cache, before the gateway's own headers.
pub(crate) fn head_of(status: u16, content_type: &str) -> Box<ResponseHeader> {
    let mut head = bare_head(status);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        edit(&mut head, |headers| drop(headers.insert(header::CONTENT_TYPE, value)));
    }
    head
}

#[cfg(test)]
mod tests;
