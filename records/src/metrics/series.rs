//! Where records of the same labels are counted: looked up once, and then found by comparing a few short texts.
//! The writer books each record in a dozen places, and most records are of few kinds.

use super::Instruments;
use gateway_domain::record::{CacheStatus, LogRecord};
use prometheus::{Gauge, Histogram, IntCounter};
use smol_str::SmolStr;
use std::borrow::Cow;

/// Kinds at hand. The one that was not asked for longest goes, and is looked up again when it comes.
const MOST: usize = 32;
/// Classes of tokens that are counted apart.
const CLASSES: usize = 7;

#[derive(Debug)]
pub(super) struct Series {
    provider: SmolStr,
    method: SmolStr,
    operation: &'static str,
    status: u16,
    stream: bool,
    cache: CacheStatus,
    extra: Vec<String>,
    requests: IntCounter,
    llm_millis: Histogram,
    /// The others are made when there is something to tell: what was never seen is not shown.
    answer: Option<AnswerHistograms>,
    tail_millis: Option<Histogram>,
    tokens: [Option<Gauge>; CLASSES],
    cost: Option<Gauge>,
}

#[derive(Clone, Debug)]
struct AnswerHistograms {
    total_millis: Histogram,
    seconds: Histogram,
    overhead: Histogram,
    own_millis: Histogram,
}

/// The kinds seen last, newest first.
#[derive(Debug, Default)]
pub(super) struct AtHand(Vec<Series>);

impl AtHand {
    fn of(&mut self, inner: &Instruments, r: &LogRecord) -> &mut Series {
        let extra: Vec<Cow<'_, str>> = inner.extra.iter().map(|label| label.value(r)).collect();
        match self.0.iter().position(|series| series.is_of(r, &extra)) {
            Some(0) => {}
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                self.0.truncate(MOST - 1);
                self.0.insert(0, Series::new(inner, r, &extra));
            }
        }
        &mut self.0[0]
    }
}

impl Series {
    fn new(inner: &Instruments, r: &LogRecord, extra: &[Cow<'_, str>]) -> Self {
        let code = r.status.to_string();
        let labels = [&*r.provider, &*r.method, r.operation.name(), &*code, stream(r), r.cache().label(), "gateway"];
        let labels: Vec<&str> = labels.into_iter().chain(extra.iter().map(|v| &**v)).collect();
        Self {
            provider: r.provider.clone(),
            method: r.method.clone(),
            operation: r.operation.name(),
            status: r.status,
            stream: r.stream,
            cache: r.cache(),
            extra: extra.iter().map(|v| v.clone().into_owned()).collect(),
            requests: inner.requests.with_label_values(&labels),
            llm_millis: inner.llm_millis.with_label_values(&labels),
            answer: None,
            tail_millis: None,
            tokens: Default::default(),
            cost: None,
        }
    }

    fn is_of(&self, r: &LogRecord, extra: &[Cow<'_, str>]) -> bool {
        self.status == r.status
            && self.stream == r.stream
            && self.cache == r.cache()
            && self.operation == r.operation.name()
            && self.provider == r.provider
            && self.method == r.method
            && self.extra.iter().zip(extra).all(|(a, b)| a == b)
    }

    fn answer(&mut self, inner: &Instruments, r: &LogRecord) -> &AnswerHistograms {
        let extra = &self.extra;
        self.answer.get_or_insert_with(|| {
            let code = r.status.to_string();
            let labels =
                [&*r.provider, &*r.method, r.operation.name(), &*code, stream(r), r.cache().label(), "gateway"];
            let labels: Vec<&str> = labels.into_iter().chain(extra.iter().map(|v| &**v)).collect();
            AnswerHistograms {
                total_millis: inner.total_millis.with_label_values(&labels),
                seconds: inner.seconds.with_label_values(&[&*r.method, r.operation.name(), &*code]),
                overhead: inner.overhead.with_label_values(&[r.operation.name()]),
                own_millis: inner.own_millis.with_label_values(&[r.operation.name(), stream(r)]),
            }
        })
    }
}

/// These labels and those that operators opted into.
fn labels<'l>(own: &[&'l str], extra: &'l [String]) -> Vec<&'l str> {
    own.iter().copied().chain(extra.iter().map(String::as_str)).collect()
}

fn stream(r: &LogRecord) -> &'static str {
    if r.stream { "true" } else { "false" }
}

#[expect(clippy::cast_precision_loss, reason = "histograms and sums for people")]
fn millis(us: u64) -> f64 {
    us as f64 / 1e3
}

impl Instruments {
    pub(super) fn book(&self, at_hand: &mut AtHand, r: &LogRecord) {
        if let Some(conventions) = &self.conventions {
            conventions.book(r);
        }
        let series = at_hand.of(self, r);
        series.requests.inc();
        series.llm_millis.observe(millis(r.timings.upstream_us));
        if r.last {
            self.book_answer(series, r);
        }
        self.book_use(series, r);
    }

    fn book_answer(&self, series: &mut Series, r: &LogRecord) {
        let told = series.answer(self, r);
        told.total_millis.observe(millis(r.timings.total_us));
        told.seconds.observe(millis(r.timings.total_us) / 1e3);
        told.overhead.observe(millis(r.timings.gateway_us) / 1e3);
        told.own_millis.observe(millis(r.timings.gateway_us));
        self.step_millis.iter().for_each(|(h, of)| h.observe(millis(of(&r.steps))));
        if r.cache() != CacheStatus::Disabled {
            self.cache_millis.observe(millis(r.steps.cache_us));
        }
        if r.timings.first_byte_us > 0 {
            let tail = r.timings.total_us.saturating_sub(r.timings.first_byte_us);
            let told = || self.tail_millis.with_label_values(&[r.operation.name(), stream(r)]);
            series.tail_millis.get_or_insert_with(told).observe(millis(tail));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "sums for people")]
    fn book_use(&self, series: &mut Series, r: &LogRecord) {
        let Some(usage) = r.usage() else { return };
        let classes: [(&str, u64); CLASSES] = [
            ("input", usage.input),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
            ("output", usage.output),
            ("reasoning", usage.reasoning),
            ("audio_in", usage.audio_in),
            ("audio_out", usage.audio_out),
        ];
        let Series { extra, tokens, cost: spent, .. } = series;
        for ((class, n), told) in classes.into_iter().zip(tokens).filter(|((_, n), _)| *n > 0) {
            let sum = || self.tokens.with_label_values(&labels(&[&*r.provider, r.operation.name(), class], extra));
            told.get_or_insert_with(sum).add(n as f64);
        }
        match r.cost {
            Some(cost) => {
                let sum = || self.cost.with_label_values(&labels(&[&*r.provider, r.operation.name()], extra));
                spent.get_or_insert_with(sum).add(cost.usd());
            }
            None => {
                self.unpriced.inc();
                self.unpriced_models.count(&r.provider, &r.model);
            }
        }
    }
}
