//! Where a call stands in a trace that spans services: W3C Trace Context (Level 1) and the client's own names.
//! Ids are arguments; the gateway adds a span for the request and one below it for each target tried.

use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;

/// Kept only for calls that belong to a trace: the client told one, or traces are exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    #[serde(with = "hexadecimal")]
    pub id: u128,
    /// The span of the client's request; 0 when no spans are made here.
    pub span: u64,
    /// The client's own span; 0 when it told none.
    pub parent: u64,
    pub sampled: bool,
    /// `tracestate` as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// `x-gateway-span-id`, `-span-name`, `-parent-span-id` as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<Arc<str>>,
}

/// `traceparent`: version 00, and later ones by what they share with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub trace: u128,
    pub span: u64,
    pub sampled: bool,
}

impl Parent {
    /// `None` for what the recommendation tells to ignore: wrong lengths, upper case, zero ids, version ff.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let framed = bytes.len() >= 55 && bytes[2] == b'-' && bytes[35] == b'-' && bytes[52] == b'-';
        let longer = bytes.len() > 55 && (text.starts_with("00") || bytes[55] != b'-');
        if !framed || longer || text.starts_with("ff") {
            return None;
        }
        let hex = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            let lower = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            u128::from_str_radix(digits, 16).ok().filter(|_| lower)
        };
        hex(0, 2)?;
        let (trace, span, flags) = (hex(3, 35)?, u64::try_from(hex(36, 52)?).ok()?, hex(53, 55)?);
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

impl Trace {
    /// The span of the `attempt`th target (from 1), told apart from that of the request and never zero.
    pub fn call(&self, attempt: u32) -> u64 {
        let mixed = (self.span ^ u64::from(attempt)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).max(1)
    }

    /// The other way round: the span of the request whose `attempt`th target has this one.
    pub const fn request_of(call: u64, attempt: u32) -> u64 {
        // The inverse of the multiplier in `call`, modulo 2^64.
        const INVERSE: u64 = 0xf1de_83e1_9937_733d;
        let mixed = call ^ (call >> 29) ^ (call >> 58);
        mixed.wrapping_mul(INVERSE) ^ attempt as u64
    }

    /// `traceparent` for the `attempt`th target. Without a span of ours the client's own is handed on; `None` when
    /// it told none either.
    pub fn header(&self, attempt: u32) -> Option<String> {
        let span = if self.span == 0 { self.parent } else { self.call(attempt) };
        if span == 0 {
            return None;
        }
        let mut out = String::with_capacity(55);
        let _ = write!(out, "00-{:032x}-{span:016x}-{:02x}", self.id, u8::from(self.sampled));
        Some(out)
    }
}

/// JSON numbers of 128 bits are not for everybody.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &u128, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{id:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u128, D::Error> {
        u128::from_str_radix(&String::deserialize(d)?, 16).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_of_a_target_leads_back_to_its_request() {
        for span in [9, 0xb7ad_6b71_6920_3331, u64::MAX] {
            for attempt in [1, 2, 100] {
                let trace = Trace { span, ..Trace::default() };
                assert_eq!(Trace::request_of(trace.call(attempt), attempt), span);
            }
        }
    }

    #[test]
    fn parents_are_read_as_the_recommendation_says() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = Parent::parse(good).expect("valid");
        assert_eq!((read.trace, read.span), (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));
        assert!(read.sampled && Parent::parse(&good.replace("-01", "-00")).is_some_and(|p| !p.sampled));
        assert!(Parent::parse(&format!("cc{}-more", &good[2..])).is_some(), "a later version");
        for bad in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &format!("cc{}more", &good[2..]),
            &good.replace("00-", "ff-"),
            &good.replace("00-", "0g-"),
            &good.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn spans_of_attempts_differ_and_continue_the_trace() {
        let trace = Trace { id: 10, span: 7, sampled: true, ..Trace::default() };
        let spans: std::collections::BTreeSet<u64> = (1..100).map(|n| trace.call(n)).collect();
        assert!(spans.len() == 99 && !spans.contains(&7) && !spans.contains(&0));
        let parent = trace.header(2).and_then(|h| Parent::parse(&h)).expect("what we send can be read");
        assert_eq!((parent.trace, parent.span, parent.sampled), (10, trace.call(2), true));
        let passed = Trace { id: 10, parent: 5, ..Trace::default() };
        assert_eq!(passed.header(2).as_deref(), Some("00-0000000000000000000000000000000a-0000000000000005-00"));
        assert_eq!(Trace { id: 10, ..Trace::default() }.header(1), None);
    }

    #[test]
    fn kept_as_json() {
        let trace = Trace { id: u128::MAX - 1, span: 3, span_name: Some("n".into()), ..Trace::default() };
        let text = serde_json::to_string(&trace).expect("serialises");
        assert_eq!(serde_json::from_str::<Trace>(&text).expect("reads"), trace);
    }
}
